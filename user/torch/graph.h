/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Autograd's graph in a live process: which storages its nodes have saved for
 * the backward pass. It is walked from tensors to the nodes that made them, in
 * memory that changes meanwhile and is not trusted. Nothing of a node's layout
 * is assumed but where its number of references is: objects are known by their
 * run-time types, and so are edges and saved tensors.
 */
#ifndef HDTRACE_TORCH_GRAPH_H
#define HDTRACE_TORCH_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "torch/tensors.h"

#define GRAPH_NAME_MAX 128 /* bytes of a class's name with the NUL; longer ones are cut */

struct graph_visitor {
	void *context;
	/* A live node has a tensor with this storage; `node` is its class, "AddmmBackward0", valid during the call. */
	void (*saved)(void *context, const struct tensor_argument *storage, const char *node);
};

struct graph;

/* One walk of at most `nodes` nodes; NULL: no memory. Everything that is pointed to must outlive it. */
struct graph *graph_new(struct python_memory *memory, const struct torch_layout *torch,
	const struct graph_visitor *visitor, size_t nodes);
void graph_free(struct graph *graph);

/* The node that made a tensor, and all that it leads to and that was not met before. */
void graph_look(struct graph *graph, const struct tensor_place *tensor);

#endif
