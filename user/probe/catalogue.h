/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The catalogue: which symbol of which library is what kind of event, and what
 * is lost without it. Operators are too many for a table of names; they are
 * found by their pattern (torch/operators.h).
 */
#ifndef HDTRACE_PROBE_CATALOGUE_H
#define HDTRACE_PROBE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hdtrace/program.h>

#include "probe/program_kind.h"

enum library_role {
	LIBRARY_NONE,
	LIBRARY_C10,          /* allocator of storages */
	LIBRARY_TORCH_CPU,    /* operators, autograd */
	LIBRARY_TORCH_PYTHON, /* PyTorch's own binding of Python */
	LIBRARY_STDCXX,       /* the C++ runtime, which throws exceptions */
	LIBRARY_C10_CUDA,     /* its caching allocator of devices */
	LIBRARY_TORCH_CUDA,   /* operators of devices, pinned memory */
	LIBRARY_CUDA_RUNTIME, /* device_calls.h, and those that follow */
	LIBRARY_CUDA,
	LIBRARY_HIP,
	LIBRARY_ASCEND,
	LIBRARY_LEVEL_ZERO,
	LIBRARY_NCCL, /* library_calls.h, and those that follow */
	LIBRARY_RCCL,
	LIBRARY_HCCL,
	LIBRARY_MPI,
	LIBRARY_CALLER, /* any other file that may call those of devices and collectives; never by its name */
	LIBRARY_PYTHON, /* the interpreter, as a library or as the program itself */
	LIBRARY_ROLES,
};

struct catalogue_row {
	enum library_role library;
	enum program_kind program;
	const char *symbol;   /* of the symbol table; of C++ up to the parameters */
	const char *readable; /* for messages */
	const char *without;  /* what does not work when it is missing */
	bool needed;          /* without it there is nothing to report */
	bool full_only;       /* left out at LEVEL_LITE */
};

/* A USDT point, by provider and name, and which of its arguments are read, in the order of its program. */
struct catalogue_usdt {
	enum library_role library;
	enum program_kind program;
	const char *provider, *name;
	uint8_t arguments[USDT_MALLOC_VALUES];
	const char *without;
};

const struct catalogue_usdt *catalogue_usdt(size_t *count);

const struct catalogue_row *catalogue_rows(size_t *count);

/* What a mapped file may be, by its name; LIBRARY_NONE for files of no interest. */
enum library_role library_role_of(const char *path);

const char *library_role_name(enum library_role role);

#endif
