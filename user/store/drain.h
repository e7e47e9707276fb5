/* SPDX-License-Identifier: BSD-2-Clause */
/* From a spool into a store: a segment is removed when the store has all that was acknowledged in it. */
#ifndef HDTRACE_STORE_DRAIN_H
#define HDTRACE_STORE_DRAIN_H

#include <signal.h>
#include <stdbool.h>

#include "store/store.h"

struct drain_options {
	double patience_seconds;           /* how long a store that does not work is tried again; 0: not at all */
	const volatile sig_atomic_t *stop; /* becomes 1: give up; NULL: never */
};

struct drain_result {
	uint64_t records, segments;
	uint64_t tries;            /* that failed and were made again */
	uint64_t damaged;          /* segments, set aside as NAME.damaged; what was before the damage is in the store */
	uint64_t unfinished_bytes; /* at ends of segments, never acknowledged */
	uint64_t busy;             /* segments that somebody else writes or reads */
};

/*
 * All segments that nobody writes any more. 0, or what the store (store_fault) or the folder stopped it with: the rest
 * stays in the spool.
 */
int spool_drain(
	const char *folder, struct store *store, const struct drain_options *options, struct drain_result *result);

/* What is in the folder: segments and their bytes, damaged ones. Returns 0 or a negative errno. */
struct spool_state {
	uint64_t segments, bytes, damaged;
};
int spool_state_read(const char *folder, struct spool_state *state);

#endif
