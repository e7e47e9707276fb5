/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library of a device that is not there, for tests of which calls are seen:
 * built with -DNAMES='"names.h"', whose lines are one macro a function:
 *
 *   GIVE(name, result, bytes)   gives memory: places of the result pointer and of the size
 *   TAKE(name)                  anything else, which succeeds
 *
 * Places are the numbers of arguments, of which there are eight. More than
 * STUB_BYTES_MAX bytes are refused with error STUB_REFUSED.
 */
#include <stdint.h>
#include <stdlib.h>

#define STUB_BYTES_MAX (1ull << 30)
#define STUB_REFUSED 77
#define STUB_ALIGNMENT 4096
#define EXPORT __attribute__((visibility("default"), noinline))

static int give(uint64_t result, uint64_t bytes)
{
	if (bytes > STUB_BYTES_MAX)
		return STUB_REFUSED;
	*(void **)result =
		aligned_alloc(STUB_ALIGNMENT, (bytes + STUB_ALIGNMENT - 1) / STUB_ALIGNMENT * STUB_ALIGNMENT);
	return 0;
}

#define ARGUMENTS uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7
#define LIST                                                                                                           \
	{                                                                                                              \
		a0, a1, a2, a3, a4, a5, a6, a7                                                                         \
	}

#define GIVE(name, result, bytes)                                                                                      \
	EXPORT int name(ARGUMENTS)                                                                                     \
	{                                                                                                              \
		uint64_t list[] = LIST;                                                                                \
		return give(list[result], list[bytes]);                                                                \
	}
#define TAKE(name)                                                                                                     \
	EXPORT int name(ARGUMENTS)                                                                                     \
	{                                                                                                              \
		uint64_t list[] = LIST;                                                                                \
		return list[0] == UINT64_MAX;                                                                          \
	}

#include NAMES
