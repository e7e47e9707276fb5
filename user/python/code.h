/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a Python code object out of another process: what is needed to name a
 * frame and to find its lines later. How memory is read is the caller's affair;
 * the memory itself is not trusted: types are checked, and nothing is longer
 * than the limits below.
 */
#ifndef HDTRACE_PYTHON_CODE_H
#define HDTRACE_PYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python/layout.h"

#define PYTHON_TEXT_MAX 4096u         /* bytes of a string as UTF-8, without the NUL */
#define PYTHON_TABLE_MAX (256u << 10) /* bytes of a location table */

/* Reads exactly `length` bytes at `address` of the target: 0, or a negative errno and nothing counts. */
typedef int (*python_read_fn)(void *context, uint64_t address, void *buffer, size_t length);

/* Those fields of a code object that never change during its life; only compared, never followed. */
struct python_code_identity {
	uint64_t type, size, table;
	uint64_t constants, names, exceptions; /* the three tuples and bytes after ob_size */
	uint64_t file, name, qualified_name;
	uint32_t flags, first_line;
};

struct python_code {
	uint64_t address;
	uint64_t first_instruction; /* address */
	uint32_t first_line;
	uint32_t table_format;
	char *file, *name, *qualified_name; /* UTF-8, NUL-terminated */
	uint8_t *table;
	size_t table_length;
	struct python_code_identity identity;
};

/*
 * Types that are known already, 0: none. They live as long as the interpreter,
 * so that they need not be looked at: what is copied of a code object is then
 * enough to read it, even when the process is gone.
 */
struct python_types {
	uint64_t code, text, bytes; /* PyCode_Type, PyUnicode_Type, PyBytes_Type, or what derives from it */
};

/*
 * A string object as UTF-8 in *text, to be freed. -EBADMSG: no string is there; -E2BIG: longer than PYTHON_TEXT_MAX;
 * -ENOMEM, or what `read` returned.
 */
int python_text_read(const struct python_layout *layout, struct python_types *types, python_read_fn read, void *context,
	uint64_t address, char **text);

/*
 * Fills *code, and *types with what was learnt; python_code_clear frees what *code holds. On failure *code is
 * cleared: -EBADMSG no code object is there (or not of this layout), -E2BIG a
 * string or table is longer than the limits, -ESTALE it died while being read,
 * -ENOMEM, or what `read` returned.
 */
int python_code_read(const struct python_layout *layout, struct python_types *types, python_read_fn read, void *context,
	uint64_t address, struct python_code *code);

/*
 * Is the object at code->address still the one that was read? One read. An
 * address is used again soon after a code object died, so a cached one must be
 * asked before it is believed. 1: yes; 0: no; negative: what `read` returned.
 */
int python_code_same(
	const struct python_layout *layout, python_read_fn read, void *context, const struct python_code *code);

void python_code_clear(struct python_code *code); /* accepts one that is cleared already */

#endif
