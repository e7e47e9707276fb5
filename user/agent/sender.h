/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that gives what is in the spool to the store, so that no store is ever waited for. */
#ifndef HDTRACE_AGENT_SENDER_H
#define HDTRACE_AGENT_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct sender;

/* `url` as of store_open; the store is made when it is not there and can be. 0 or a negative errno, with the reason. */
int sender_start(const char *url, const char *spool_folder, struct sender **sender, char fault[STORE_FAULT_BYTES]);
/* What cannot be sent at once stays in the spool. Accepts NULL. */
void sender_stop(struct sender *sender);

/* There is something new. */
void sender_wake(struct sender *sender);

struct sender_figures {
	bool works; /* the last try did */
	uint64_t failures;
	uint64_t spool_bytes, spool_segments;
};
void sender_figures(struct sender *sender, struct sender_figures *figures);

#endif
