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

/*
 * Give the array exactly `count` elements, all zero. Also an empty one is not
 * NULL afterwards: the allocator of stb_ds.c ends the program first. `count` is
 * evaluated more than once.
 */
#define arrzero(array, count)                                                                                          \
	do {                                                                                                           \
		arrsetcap(array, (size_t)(count) + 1);                                                                 \
		if (!(array))                                                                                          \
			__builtin_unreachable();                                                                       \
		arrsetlen(array, count);                                                                               \
		memset(array, 0, sizeof(*(array)) * (size_t)(count));                                                  \
	} while (0)

#endif
