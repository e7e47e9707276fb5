/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of libraries of collectives, and where each has what: NCCL and those
 * with its interface, HCCL, MPI. By the names and arguments of their C interfaces,
 * which are stable.
 */
#ifndef HDTRACE_PROBE_LIBRARY_CALLS_H
#define HDTRACE_PROBE_LIBRARY_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include <hdtrace/event.h>
#include <hdtrace/program.h>

#include "probe/catalogue.h"
#include "probe/program_kind.h"

struct library_function {
	const char *symbol;
	struct library_call call; /* without `layer` */
};

/* The functions that a library of this role may have; none for other roles. */
const struct library_function *library_functions(enum library_role role, size_t *count);

/*
 * A second name of the functions, and one for large counts: what comes before and behind the symbol, and what else
 * holds then. The n-th; NULL past the end. The first one is the symbol itself.
 */
struct library_variant {
	const char *before, *behind;
	uint8_t width;        /* enum library_width */
	bool only_collective; /* other functions have no such variant */
};
const struct library_variant *library_variant(enum library_role role, size_t index);

enum collective_layer library_layer(enum library_role role);

/* The program that its hits go to. */
enum program_kind library_program(const struct library_call *call);

/* Does what it says show only when it returns? */
bool library_call_has_result(const struct library_call *call);

/* Has a library of this role collectives, without PyTorch? */
bool library_is_of_collectives(enum library_role role);

#endif
