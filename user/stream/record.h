/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bounds of one record: the one place that knows how large each kind must
 * be and whether the counts inside it fit into it. The writer asks before a
 * record enters a capture, the reader before one leaves it, so that whatever
 * comes after may follow the counts of a record without checks of its own.
 */
#ifndef HDTRACE_STREAM_RECORD_H
#define HDTRACE_STREAM_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hdtrace/capture.h>

/* Every record is a multiple of this and starts at a multiple of it. */
#define RECORD_ALIGNMENT 8

/* Is the kind one of event.h or capture.h? Others come from later versions and are skipped. */
bool record_known(const struct event *record);

/*
 * NULL when the record lies within `available` bytes, has a legal size, and
 * everything its counts announce lies within it; texts hold no NUL. Otherwise
 * what is wrong, a constant text. Of an unknown kind only the size is checked.
 * `record` must be aligned to RECORD_ALIGNMENT; nothing beyond `available` is read.
 */
const char *record_check(const struct event *record, size_t available);

/* The Python stack that comes with an event. */
struct event_stack {
	uint64_t identity;
	const struct python_frame *frames; /* innermost first */
	size_t frame_count;                /* 0: the stack was sent before */
};

/* Returns false for a kind of record that carries none. The record passed record_check. */
bool event_stack_find(const struct event *event, struct event_stack *stack);

#endif
