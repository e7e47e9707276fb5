/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Object layouts and dispatch keys by PyTorch version. They are no public
 * interface of PyTorch: each row was measured on that version, and a version
 * without a row is refused by name.
 */
#ifndef HDTRACE_TORCH_LAYOUT_H
#define HDTRACE_TORCH_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

struct torch_layout {
	int major, minor;
	uint64_t keys_backend;                  /* DispatchKeySet bits that lead to a backend kernel */
	uint64_t keys_autograd;                 /* AutogradOther, AutogradFunctionality, AutogradNestedTensor */
	uint64_t keys_inplace;                  /* ADInplaceOrView */
	uint64_t keys_fallback;                 /* Conjugate, Negative, ZeroTensor */
	uint64_t keys_excluded_default;         /* c10::default_excluded_set, by which TLS is XORed */
	uint64_t keys_included_default;         /* c10::default_included_set, likewise */
	uint16_t tensor_storage;                /* TensorImpl::storage_ */
	uint16_t storage_data;                  /* StorageImpl::data_ptr_ */
	uint16_t storage_bytes;                 /* StorageImpl::size_bytes_ */
	uint16_t optional_value, optional_flag; /* of optional<Tensor> */
	uint16_t accumulate_variable;           /* AccumulateGrad::variable */
	uint16_t operator_definition;           /* torch::jit::Operator -> OperatorHandle::operatorDef_ */
	uint16_t definition_name;               /* OperatorDef: name, then overload name, two std::string */
};

/* The row of a version, NULL when it is unknown. */
const struct torch_layout *torch_layout_find(int major, int minor);

/* The versions that are known, "1.13, …", for messages; static. */
const char *torch_layout_versions(void);

#endif
