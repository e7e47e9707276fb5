/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one place where the functions of stb_ds.h are compiled for the whole
 * program. Its allocations cannot fail here: see containers.h.
 */
#include <stdio.h>
#include <stdlib.h>

static void *memory_grow(void *memory, size_t bytes)
{
	void *grown = realloc(memory, bytes);

	if (!grown && bytes) {
		fprintf(stderr, "hdtrace: no memory for %zu bytes\n", bytes);
		abort();
	}
	return grown;
}

#define STBDS_REALLOC(context, memory, bytes) memory_grow(memory, bytes)
#define STBDS_FREE(context, memory) free(memory)

/* Its hash functions shift and read unaligned on purpose. */
#if defined(__clang__)
#pragma clang attribute push(                                                                                          \
	__attribute__((no_sanitize("undefined", "unsigned-integer-overflow"))), apply_to = function)
#endif
#define STB_DS_IMPLEMENTATION
#include <stb/stb_ds.h>
#if defined(__clang__)
#pragma clang attribute pop
#endif
