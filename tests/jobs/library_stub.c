/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library of collectives that does nothing, for tests of which calls are seen:
 * built with -DNAMES='"names.h"', whose lines are LIBRARY(name); the
 * function MAKE puts COMMUNICATOR where its argument number RESULT points to.
 */
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default"), noinline))
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

static int act(const char *name, const uint64_t *arguments)
{
	if (!strcmp(name, TEXT(MAKE)))
		*(uint64_t *)arguments[RESULT] = COMMUNICATOR;
	return 0;
}

#define LIBRARY(name)                                                                                                  \
	EXPORT int name(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,     \
		uint64_t a7, uint64_t a8, uint64_t a9)                                                                 \
	{                                                                                                              \
		uint64_t list[] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9};                                            \
		return act(#name, list);                                                                               \
	}

#include NAMES
