/* SPDX-License-Identifier: BSD-2-Clause */
/* The methods of c10d's process groups that are collectives, and where each has what. */
#ifndef HDTRACE_PROBE_COLLECTIVE_CALLS_H
#define HDTRACE_PROBE_COLLECTIVE_CALLS_H

#include <stddef.h>

#include <hdtrace/event.h>
#include <hdtrace/program.h>

#include "probe/catalogue.h"

struct collective_method {
	const char *name;      /* of the method */
	const char *operator_; /* "c10d.allreduce_.default" */
	struct collective_call call;
};

const struct collective_method *collective_methods(size_t *count);

/* A function by which the end of collectives is known, and who waits for it; call.kind is an enum work_action. */
struct work_function {
	const char *symbol; /* up to its parameters */
	enum library_role library;
	struct collective_call call;
};

const struct work_function *work_functions(size_t *count);

/* The n-th class that has them, and the library that it is in; NULL past the end. */
const char *collective_class(size_t index, enum library_role *library);

/* Room for the symbol of a method up to its parameters. */
#define COLLECTIVE_SYMBOL_BYTES 96
void collective_symbol(const char *class_name, const char *method, char symbol[COLLECTIVE_SYMBOL_BYTES]);

#endif
