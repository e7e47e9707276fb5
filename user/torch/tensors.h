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
/* The Python object that a TensorImpl knows of, 0: none was found. */
uint64_t tensor_object(const struct python_memory *memory, uint64_t tensor);
/* Of its gradient. */
struct tensor_place tensor_of_gradient(
	const struct python_memory *memory, const struct torch_layout *torch, const struct tensor_place *place);

/* c10::ScalarType of its elements and one more; 0: not known. */
uint8_t tensor_element_type(
	const struct python_memory *memory, const struct torch_layout *torch, const struct tensor_place *place);

#define TENSOR_DIMENSIONS_MAX 16

struct tensor_shape {
	uint32_t dimensions;
	uint64_t sizes[TENSOR_DIMENSIONS_MAX];
	uint8_t element_type; /* of tensor_element_type */
};

/* The shape of a tensor that is alive and has a storage; false where it is not known, or what was read is not certain.
 */
bool tensor_shape_read(const struct python_memory *memory, const struct torch_layout *torch,
	const struct tensor_place *place, struct tensor_shape *shape);

/* The storage of a tensor; false where it has none, or what was read is not certain. */
bool tensor_storage_read(const struct python_memory *memory, const struct torch_layout *torch,
	const struct tensor_place *place, struct tensor_argument *found);

#endif
