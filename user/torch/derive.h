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

void torch_derive(const struct elf_file *libc10, const struct elf_file *libtorch_cpu, struct torch_derived *out);

#endif
