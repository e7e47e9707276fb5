/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All objects that a live interpreter's garbage collector follows: lists in both
 * directions that the interpreter changes while they are read.
 */
#ifndef HDTRACE_PYTHON_HEAP_H
#define HDTRACE_PYTHON_HEAP_H

#include "python/object.h"

#define HEAP_LISTS_MAX 4 /* generations, and one for what is never looked at again */

/* Heads of the collector's lists, youngest first. */
struct python_heap {
	uint64_t heads[HEAP_LISTS_MAX];
	unsigned int count;
	/* Of the last walk. */
	uint64_t objects[HEAP_LISTS_MAX]; /* of each list, as often as they were met */
	unsigned int retries;             /* lists that changed under it */
};

/*
 * Finds the lists of the first interpreter in its state: three or more heads
 * side by side, each of a list that leads back to it. `runtime`: address of
 * _PyRuntime. -ENOENT: there are none, or they changed whenever they were
 * looked at.
 */
int python_heap_find(const struct python_memory *memory, uint64_t runtime, struct python_heap *heap);

/*
 * Visits objects with their types; one may come twice, or be gone by then. 0:
 * all that was on the lists when the walk began was visited, unless it was let
 * go; -EAGAIN: lists changed again and again, some may be missing.
 */
int python_heap_walk(const struct python_memory *memory, struct python_heap *heap,
	void (*visit)(void *context, uint64_t object, uint64_t type), void *context);

#endif
