/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture's bound (record_options.window). A capture that has grown over it is
 * compacted by a process of its own, so that the ring is read all the time, and
 * that memory is given back; meanwhile the capture goes on growing.
 */
#ifndef HDTRACE_RECORD_WINDOW_H
#define HDTRACE_RECORD_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/session.h"

struct window_state {
	int nice;       /* of the process that compacts */
	pid_t process;  /* 0: none */
	uint64_t limit; /* bytes from which on the capture is compacted, 0: the option's */
	bool failed;    /* that was told; the capture grows without bound */
	struct capture_writer *draft;
	struct window_work *work; /* shared with the process */
};

/* Start what is due, and take over what is done. */
void window_keep(struct session *session, struct window_state *window);

/* What is not done by now is not done. */
void window_close(struct window_state *window);

#endif
