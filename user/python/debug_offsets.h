/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an interpreter says of its own structures: since 3.13 _PyRuntime begins
 * with _Py_DebugOffsets, constants in the file that need no live process. They
 * hold for exactly this build and go before the table of layout.h, which adds
 * what they leave out.
 */
#ifndef HDTRACE_PYTHON_DEBUG_OFFSETS_H
#define HDTRACE_PYTHON_DEBUG_OFFSETS_H

#include <stdbool.h>
#include <stddef.h>

#include "python/layout.h"

#define DEBUG_OFFSETS_SINCE 13 /* of CPython 3 */

/* Bytes of _PyRuntime that hold all that is used here. */
#define DEBUG_OFFSETS_SIZE 1024

struct debug_offsets {
	bool free_threaded;
	unsigned int different; /* fields that the table has at another place */
};

/*
 * Lays the offsets in the first `size` bytes of _PyRuntime over *layout, the
 * table's row of that version. -ENOENT: there are none (before 3.13, or no
 * "xdebugpy" in front); -EBADMSG: they are of another version, or no such
 * structure can be. *layout is then as before.
 */
int debug_offsets_read(const void *runtime, size_t size, struct python_layout *layout, struct debug_offsets *found);

#endif
