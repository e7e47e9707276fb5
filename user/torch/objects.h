/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Modules and optimizers of a live process: names of modules, and which storages
 * they hold. Walks the attributes of Python objects in memory that changes
 * meanwhile and is not trusted; what cannot be read is left out.
 *
 * Names are those of nn.Module.named_modules, with the class of the module that
 * a walk began at in front: "Model.layers.1.mlp.weight". What is reached on
 * several ways has the name of the first.
 */
#ifndef HDTRACE_TORCH_OBJECTS_H
#define HDTRACE_TORCH_OBJECTS_H

#include <stdint.h>

#include <hdtrace/capture.h>

#include "python/heap.h"
#include "python/object.h"
#include "torch/layout.h"

/* Told what a walk finds; names are valid during the call only. */
struct objects_visitor {
	void *context;
	/* May be NULL. */
	void (*module)(void *context, uint64_t object, uint64_t type, const char *name);
	/* `element_type`: of tensor_element_type, of parameters. */
	void (*owner)(void *context, enum owner_kind kind, const struct tensor_argument *storage, uint8_t element_type,
		const char *name);
};

struct objects_walk;

/* One walk, over any number of roots. Everything that is pointed to must outlive it. */
struct objects_walk *objects_walk_new(
	struct python_memory *memory, const struct torch_layout *torch, const struct objects_visitor *visitor);
void objects_walk_free(struct objects_walk *walk);

/*
 * All that the interpreter knows: parameters, buffers and gradients of every
 * module, states of all optimizers, and other tensors (OWNER_VARIABLE: the first
 * variable that leads to one is its name, python/variables.h; empty without
 * any), and what nodes of autograd's graph saved. Names begin at modules that no other one holds. `heap` is of
 * python_heap_find; `runtime`: address of _PyRuntime. -EAGAIN: not everything
 * could be read.
 */
int objects_walk_heap(struct objects_walk *walk, struct python_heap *heap, uint64_t runtime);

/*
 * Tensors that variables of what runs lead to at once (OWNER_VARIABLE), whatever
 * else they are: quickly, where there is no time for all objects.
 */
void objects_walk_program(struct objects_walk *walk, uint64_t runtime);

/* The modules below `root`, which the walk has not met before. -EBADMSG: it is no module. */
int objects_walk_modules(struct objects_walk *walk, uint64_t root);

#endif
