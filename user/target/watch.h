/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Being told when a process maps code, execs or forks, as it happens and without
 * touching the process: perf side-band records of a dummy event on every CPU.
 */
#ifndef HDTRACE_TARGET_WATCH_H
#define HDTRACE_TARGET_WATCH_H

#include <stdint.h>
#include <sys/types.h>

enum watch_kind {
	WATCH_MAPPED, /* new executable mapping */
	WATCH_EXEC,   /* the image was replaced */
	WATCH_FORKED, /* a new process, with its parent */
	WATCH_LOST,   /* records were lost: anything may have happened to anyone */
};

#define WATCH_NAME_BYTES 32

struct watch_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	enum watch_kind kind;
	pid_t pid;                   /* 0 for WATCH_LOST */
	pid_t parent;                /* WATCH_FORKED only */
	char name[WATCH_NAME_BYTES]; /* WATCH_MAPPED only: of the file, without its folder, cut to this room */
};

struct watch;

/* Returns 0 or a negative errno (-EACCES, -EPERM: perf events are forbidden here). */
int watch_open(struct watch **watch);
void watch_close(struct watch *watch);

/* One epoll descriptor, readable when there is something to read. */
int watch_descriptor(const struct watch *watch);

/*
 * Hand over what waits, in the order in which it happened on all CPUs: a child
 * is known before it execs. What is younger than a millisecond waits for the
 * next call, but mappings are handed over at once, and once more in their turn.
 */
void watch_read(struct watch *watch, void (*handle)(void *context, const struct watch_event *event), void *context);

#endif
