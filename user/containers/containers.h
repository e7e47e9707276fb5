/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The growing arrays and hash maps of stb_ds.h, with what is missing there:
 * an array made of zeroes, and the reason why memory that runs out ends the
 * program. stb_ds reports no failed allocation and writes on regardless; the
 * allocator in stb_ds.c stops there instead, with a message.
 */
#ifndef HDTRACE_CONTAINERS_H
#define HDTRACE_CONTAINERS_H

#include <string.h>

#include <stb/stb_ds.h>

/* Give the array exactly `count` elements, all zero. */
#define arrzero(array, count)                                                                                          \
	do {                                                                                                           \
		arrsetlen(array, count);                                                                               \
		if (array)                                                                                             \
			memset(array, 0, sizeof(*(array)) * (size_t)(count));                                          \
	} while (0)

#endif
