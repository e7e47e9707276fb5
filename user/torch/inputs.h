/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a module is called with, read out of the frame of its call while that
 * runs: shapes and types of tensors among the arguments, and in lists, tuples and
 * dictionaries among them.
 */
#ifndef HDTRACE_TORCH_INPUTS_H
#define HDTRACE_TORCH_INPUTS_H

#include "torch/tensors.h"

#define INPUTS_MAX 64      /* tensors of one call */
#define INPUT_NAME_MAX 128 /* bytes with the NUL */

struct input {
	char name[INPUT_NAME_MAX]; /* place or keyword of the argument, and the way in it: "0", "batch[\"ids\"]" */
	struct tensor_shape shape;
};

/*
 * The arguments of a frame of nn.Module's call (self, *args, **kwargs), appended to
 * the stb_ds array *inputs; false, and nothing is appended, when the frame did not last for as long as that took.
 */
bool inputs_read(struct python_memory *memory, const struct torch_layout *torch, uint64_t frame, struct input **inputs);

#endif
