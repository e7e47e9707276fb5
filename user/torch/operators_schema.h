/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operator schemas, `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) ->
 * Tensor`, as they stand as strings in the read-only data of a library.
 */
#ifndef HDTRACE_TORCH_OPERATORS_SCHEMA_H
#define HDTRACE_TORCH_OPERATORS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"

enum schema_result {
	SCHEMA_IN_REGISTER, /* a number, a reference, nothing */
	SCHEMA_BY_MEMORY,   /* through a hidden pointer argument: tensors, tuples, lists */
	SCHEMA_UNKNOWN,
};

struct schema {
	char *name;         /* [namespace::]name[.overload] */
	const char *symbol; /* name without namespace, written with _ for the dot: X of at::_ops::X */
	uint16_t symbol_length;
	uint16_t argument_count;
	uint8_t result; /* enum schema_result */
	bool aliases;   /* all results share the storage of an argument, or there are none */
};

struct schemas {
	struct schema *list; /* by symbol; without namespace before those with one */
	size_t count, capacity;
};

/* All schemas in .rodata. -ENOENT: no such section, -ENOMEM, or of the ELF reader. Free with schemas_free. */
int schemas_read(const struct elf_file *file, struct schemas *out);
void schemas_free(struct schemas *schemas);

/* Adds the schema that a string is, if it is one; `whole`: the string's first byte is known. */
int schemas_add(struct schemas *schemas, const char *text, size_t length, bool whole);
void schemas_sort(struct schemas *schemas);

/*
 * The schema of an operator by its C++ name, preferring one with that many
 * arguments; NULL: none. `name_skip` bytes of its name are not part of the
 * operator's: the linker keeps a string that is the tail of another one only there.
 */
const struct schema *schemas_find(const struct schemas *schemas, const char *symbol, size_t argument_count);
const struct schema *schemas_find_tail(
	const struct schemas *schemas, const char *symbol, size_t argument_count, size_t *name_skip);

/*
 * Shows a section's bytes in overlapping pieces: `fresh` bytes of `piece` were not
 * shown before, the older ones before them are there for what crosses the border.
 * Stops at a result other than 0 and returns it.
 */
typedef int (*piece_visitor)(void *context, const char *piece, size_t size, size_t fresh);
int section_visit(const struct elf_file *file, const char *section, piece_visitor visit, void *context);

#endif
