/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF programs: open, configure, load, attach, detach. Nothing here knows
 * what an event means or how a target was found.
 */
#ifndef HDTRACE_ATTACH_TRACER_H
#define HDTRACE_ATTACH_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hdtrace/event.h>
#include <hdtrace/program.h>

#include "probe/program_kind.h"

struct tracer_options {
	uint64_t ring_size; /* bytes, a power of two and a multiple of the page size */
	void (*handle)(void *context, const struct event *record, size_t size);
	void *context;
	bool statistics; /* count the hits of every hook, and measure the programs */
};

/* What the kernel says about one program's runs, with run-time statistics on. */
struct program_statistics {
	const char *name;
	uint64_t runs, nanoseconds;
};

struct tracer;

/*
 * Load the programs. On failure returns a negative errno and *message is a text
 * that says what to do, to be freed by the caller; else it is NULL.
 */
int tracer_open(const struct tracer_options *options, struct tracer **tracer, char **message);

/* Detach everything and unload. */
void tracer_close(struct tracer *tracer);

/* Readable when enough records wait; they should be read every 20 ms all the same. */
int tracer_descriptor(const struct tracer *tracer);

/* Hand over the records that wait, in order. `record` is valid during the call only. */
int tracer_read(struct tracer *tracer);

/* Reserve `count` hook descriptions; returns the index of the first, or -ENOSPC. */
int tracer_hooks_add(struct tracer *tracer, const struct hook_description *descriptions, size_t count);
/* No probe has them any more: their places are others'. */
void tracer_hooks_remove(struct tracer *tracer, int first, size_t count);

/* What was counted of a target is forgotten: its place becomes another's. */
int tracer_target_reset(struct tracer *tracer, uint32_t target);
int tracer_target_set(struct tracer *tracer, uint32_t target, const struct target_settings *settings);

/* Tell the programs what is known of a communicator of a target. */
int tracer_communicator_set(
	struct tracer *tracer, uint32_t target, uint64_t handle, const struct communicator_place *place);

/*
 * Set probes on a file for one process, by one link. `offsets` are in the file.
 * The file is given by descriptor, so that it is that inode whatever its path.
 * Returns the number of a link for tracer_detach, or a negative errno.
 */
int tracer_attach(struct tracer *tracer, enum program_kind program, pid_t pid, int fd, const uint64_t *offsets,
	const uint64_t *cookies, size_t count);

/* Take the probes of a link away, soon: records may still come until tracer_detach_wait. Its number is another's then.
 */
void tracer_detach(struct tracer *tracer, int link);
void tracer_detach_wait(struct tracer *tracer);

/* Sum of the counters of a target over the CPUs. */
int tracer_counters(const struct tracer *tracer, uint32_t target, struct event_counters *counters);

/* Only with the option. */
int tracer_statistics(const struct tracer *tracer, struct program_statistics statistics[PROGRAMS]);
/* What the hooks from `first` on were good for. */
int tracer_hook_counters(const struct tracer *tracer, uint32_t first, size_t count, struct hook_counters *counters);

#endif
