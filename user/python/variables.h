/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names by which a running program reaches objects: locals of the functions
 * that run, globals of their modules, attributes of plain objects, items of
 * lists, tuples and dictionaries. What is looked for is the caller's affair.
 *
 * Names: `local x in train (train.py:12)`, where 12 is the line at which the
 * function begins; `global cache[3] in __main__`; and below a plain object its
 * class: `Trainer.average["loss"]`.
 */
#ifndef HDTRACE_PYTHON_VARIABLES_H
#define HDTRACE_PYTHON_VARIABLES_H

#include "python/object.h"

/* Where a program has an object. */
struct python_variable {
	uint64_t object;
	uint64_t place;       /* address of the pointer to it */
	uint64_t frame, code; /* of a local, else 0 */
	const char *name;     /* valid during the call only */
};

struct variables_search {
	struct python_memory *memory;
	void *context;
	bool (*is_wanted)(void *context, uint64_t object);
	/* Objects of this type are not looked into: others know better what they have. */
	bool (*is_opaque)(void *context, uint64_t type);
	/* Attributes of the object of variables_of_object that are left out, by their names' objects. */
	bool (*is_internal)(void *context, uint64_t key);
	void (*found)(void *context, const struct python_variable *variable);
	size_t looks; /* into objects, at most; 0: as many as are worth the time */
};

/* Is the object still where it was found? What was read of it in between is its own then. */
bool python_variable_holds(const struct python_memory *memory, const struct python_variable *variable);

struct variables;

/* Globals come before locals, outer functions before inner ones, what is near before what is deep. */
struct variables *variables_new(const struct variables_search *search);
void variables_free(struct variables *variables);

/* What the attributes of an object lead to, under a name of the caller's. */
void variables_of_object(struct variables *variables, uint64_t object, const char *name);
/* Globals and locals of all that runs in the interpreter. `runtime`: address of _PyRuntime. */
void variables_of_program(struct variables *variables, uint64_t runtime);
/* Locals of a function whose frame outlives it, in a traceback for example: `object` is Python's frame object. */
void variables_of_frame(struct variables *variables, uint64_t object);
/* Globals of one module of Python that are wanted themselves. */
void variables_of_module(struct variables *variables, uint64_t module);

#endif
