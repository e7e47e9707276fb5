/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From Python's object of a tensor to its storage, in memory that changes
 * meanwhile: what was read counts only when it is still reached on the same way.
 */
#ifndef HDTRACE_TORCH_TENSORS_H
#define HDTRACE_TORCH_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include <hdtrace/event.h>

#include "python/object.h"
#include "torch/layout.h"

/* A TensorImpl, and how it was reached. */
struct tensor_place {
	uint64_t tensor; /* 0: there is none */
	uint64_t slot;   /* address of the pointer to it */
	uint64_t object; /* Python's object that has this slot, 0: a gradient, which need not have one */
};

/* Of an object whose type derives from Python's type of tensors. */
struct tensor_place tensor_of_object(const struct python_memory *memory, uint64_t object);
/* Of its gradient. */
struct tensor_place tensor_of_gradient(
	const struct python_memory *memory, const struct torch_layout *torch, const struct tensor_place *place);

/* c10::ScalarType of its elements and one more; 0: not known. */
uint8_t tensor_element_type(
	const struct python_memory *memory, const struct torch_layout *torch, const struct tensor_place *place);

/* The storage of a tensor; false where it has none, or what was read is not certain. */
bool tensor_storage_read(const struct python_memory *memory, const struct torch_layout *torch,
	const struct tensor_place *place, struct tensor_argument *found);

#endif
