/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operators of a PyTorch library, read from the file alone: the functions
 * at::_ops::X::call and ::redispatch, their names as a dispatch mode would write
 * them (aten.add.Tensor), and where their tensor arguments are at entry.
 */
#ifndef HDTRACE_TORCH_OPERATORS_H
#define HDTRACE_TORCH_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"
#include "symbol/signature.h"

/* Operators of one library; events carry 16-bit indices. */
#define TORCH_OPERATORS_MAX 32768

enum torch_operator_flag {
	TORCH_COMPOSITE = 1 << 0, /* CompositeImplicit: never runs itself, only what it calls */
	TORCH_LIFT = 1 << 1,      /* adopts a storage that was made outside of dispatch */
	/* The argument places may be wrong: unknown types, or the schema is missing or does not fit. */
	TORCH_UNCERTAIN = 1 << 2,
	TORCH_NO_SCHEMA = 1 << 3, /* the name is the C++ one: overload and name are not told apart */
	TORCH_ALIASES = 1 << 4,   /* view or in-place: its results share the storage of an argument */
};

struct torch_function {
	uint64_t address; /* virtual, 0: there is none */
	uint64_t size;
	struct signature arguments;
};

struct torch_operator {
	const char *name;                       /* lives as long as the list */
	const char *symbol;                     /* X of at::_ops::X */
	struct torch_function call, redispatch; /* redispatch.arguments.key_set_place: where its key set is */
	uint8_t flags;                          /* enum torch_operator_flag */
};

struct torch_operators {
	struct torch_operator *operators; /* by name, then by C++ name */
	size_t count;
	size_t uncertain, no_schema, composite; /* how many have the flag */
	enum optional_layout layout;
	char **texts; /* what the names live in */
	size_t text_count;
};

/*
 * Reads the operators of libtorch_cpu (x86_64 places). -ENOENT: the library has
 * none, -ENOTSUP: another machine, -EFBIG: more than the bounds, or of the ELF
 * reader. Free *out with torch_operators_free.
 */
int operators_find(const struct elf_file *libtorch_cpu, struct torch_operators **out);
void torch_operators_free(struct torch_operators *operators);

/*
 * The PyTorch version that a library states, by its soname (libtorch_cpu.so.2.6)
 * or by its build options in .rodata. -ENOENT: it does not say.
 */
int torch_version(const struct elf_file *library, unsigned int *major, unsigned int *minor);

#endif
