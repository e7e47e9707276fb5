/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is PyTorch in a process what its files say? One tensor is exported by libc10
 * of every version, the undefined one; and the thread's dispatch keys are found
 * by a pair of words that the loader fills. Both are looked at before anything
 * is believed that rests on the layout.
 */
#ifndef HDTRACE_TORCH_LIVE_H
#define HDTRACE_TORCH_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "torch/layout.h"

/* Addresses in the process; 0: unknown, what needs it is not looked at. */
struct torch_image {
	const struct torch_layout *layout;
	int (*read)(void *context, uint64_t address, void *buffer, size_t length); /* 0 or a negative errno */
	void *context;
	uint64_t undefined_tensor; /* c10::UndefinedTensorImpl::_singleton */
	uint64_t undefined_table;  /* vtable for c10::UndefinedTensorImpl */
	uint64_t keys_got;         /* {TLS module, offset} of the thread's key sets */
};

/* What does not fit, as text, or NULL. To be asked when PyTorch is loaded. */
const char *torch_live_fault(const struct torch_image *image);

#endif
