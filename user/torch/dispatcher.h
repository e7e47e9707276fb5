/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dispatcher of a process: which function of a library is a backend's kernel of
 * an operator, called with its arguments on a stack of c10::IValue. That is how
 * operators run that a class of tensors (__torch_dispatch__) or a script calls, and
 * no symbol names these functions.
 */
#ifndef HDTRACE_TORCH_DISPATCHER_H
#define HDTRACE_TORCH_DISPATCHER_H

#include <stddef.h>
#include <stdint.h>

/* Devices whose kernels are looked at. */
enum dispatcher_device { DISPATCHER_CPU, DISPATCHER_CUDA, DISPATCHER_DEVICES };

struct dispatcher_code {
	uint64_t start, end; /* addresses in the process; both 0: not mapped */
};

struct dispatcher_image {
	int (*read)(void *context, uint64_t address, void *buffer, size_t length); /* 0 or a negative errno */
	void *context;
	uint64_t dispatcher;                             /* address of the one c10::Dispatcher */
	struct dispatcher_code code[DISPATCHER_DEVICES]; /* of the libraries that kernels are in */
};

struct dispatcher_operator {
	char *name;                           /* aten.add.Tensor */
	uint64_t kernels[DISPATCHER_DEVICES]; /* addresses in the process, 0: none in that code */
};

/*
 * Reads the operators, as an array of stb_ds that dispatcher_free frees. -EBADMSG: what is
 * there is no list of operators, or its tables are not as expected; or an error of `read`.
 */
int dispatcher_read(const struct dispatcher_image *image, struct dispatcher_operator **operators);
void dispatcher_free(struct dispatcher_operator *operators);

#endif
