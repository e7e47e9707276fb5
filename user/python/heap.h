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
};

/*
 * Finds the lists of the first interpreter in its state: three or more heads
 * side by side, each of a list that leads back to it. `runtime`: address of
 * _PyRuntime. -ENOENT: there are none.
 */
int python_heap_find(const struct python_memory *memory, uint64_t runtime, struct python_heap *heap);

/*
 * Visits objects with their types; one may come twice, or be gone by then. 0:
 * every list was followed to its end; -EAGAIN: one changed again and again.
 */
int python_heap_walk(const struct python_memory *memory, const struct python_heap *heap,
	void (*visit)(void *context, uint64_t object, uint64_t type), void *context);

#endif
