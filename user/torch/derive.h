/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts and key sets of PyTorch out of the library's own code: small exported
 * functions whose only memory operand or constant is the number that is wanted.
 * Nothing here depends on a version; what is not as expected stays 0.
 */
#ifndef HDTRACE_TORCH_DERIVE_H
#define HDTRACE_TORCH_DERIVE_H

#include <stdint.h>

#include "symbol/elf.h"

/* 0: could not be read. */
struct torch_derived {
	uint64_t keys_included_default; /* c10::default_included_set */
	uint64_t keys_excluded_default; /* c10::default_excluded_set */
	uint16_t tensor_storage;        /* TensorImpl::storage_: also the size of c10::intrusive_ptr_target */
	uint16_t accumulate_variable;   /* AccumulateGrad::variable */
};

/* A variable of each thread: at the block of the TLS module that the pair {module, offset} names, plus both offsets. */
struct torch_tls {
	uint64_t got; /* address of the pair in the file */
	uint32_t offset;
};

/* How autograd numbers the nodes of its graph; all 0 when one of them could not be read. */
struct torch_nodes {
	struct torch_tls counter; /* at::sequence_number: the number that the thread's next node gets */
	struct torch_tls
		thread; /* at::RecordFunction::currentThreadId: PyTorch's own number of the thread, 0: none yet */
	uint16_t sequence_offset; /* torch::autograd::Node::sequence_nr_ */
	uint16_t thread_offset;   /* thread_id_: of the thread that made it */
};

void torch_derive(const struct elf_file *libc10, const struct elf_file *libtorch_cpu, struct torch_derived *out);

/* Address in the file of the one c10::Dispatcher, 0: it cannot be told. */
uint64_t torch_derive_dispatcher(const struct elf_file *libtorch_cpu);

void torch_derive_nodes(const struct elf_file *libtorch_cpu, struct torch_nodes *out);

#endif
