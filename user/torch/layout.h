/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Object layouts and dispatch keys of one PyTorch library. They are no public
 * interface of PyTorch: what can be derived from the library's own code is, and
 * must agree with what was measured on that version, where it was.
 */
#ifndef HDTRACE_TORCH_LAYOUT_H
#define HDTRACE_TORCH_LAYOUT_H

#include <stdint.h>

#include "torch/derive.h"

struct torch_layout {
	uint64_t keys_backend;                  /* DispatchKeySet bits that lead to a backend kernel */
	uint64_t keys_autograd;                 /* AutogradOther, AutogradFunctionality, AutogradNestedTensor */
	uint64_t keys_inplace;                  /* ADInplaceOrView */
	uint64_t keys_fallback;                 /* Conjugate, Negative, ZeroTensor */
	uint64_t keys_excluded_default;         /* c10::default_excluded_set, by which TLS is XORed */
	uint64_t keys_included_default;         /* c10::default_included_set, likewise */
	uint16_t tensor_storage;                /* TensorImpl::storage_ */
	uint16_t tensor_elements;               /* TensorImpl::numel_, before data_type_; 0: unknown */
	uint16_t storage_data;                  /* StorageImpl::data_ptr_ */
	uint16_t storage_bytes;                 /* StorageImpl::size_bytes_ */
	uint16_t optional_value, optional_flag; /* of optional<Tensor> */
	uint16_t accumulate_variable;           /* AccumulateGrad::variable; 0: unknown */
	uint16_t operator_definition;           /* torch::jit::Operator -> OperatorHandle::operatorDef_ */
	uint16_t definition_name;               /* OperatorDef: name, then overload name, two std::string */
};

/* Where the numbers of a layout come from. */
enum layout_source {
	LAYOUT_CHECKED, /* derived, and equal to what was measured on that version */
	LAYOUT_DERIVED, /* derived; that version was not measured */
	LAYOUT_TABLE,   /* some could not be derived: as measured on that version */
};

/*
 * Make the layout of a version, but for optional<Tensor>, which follows from the
 * operators' signatures. Returns an enum layout_source; -ENOTSUP for a version
 * outside of torch_layout_versions, -ENODATA when something could neither be
 * derived nor was measured, -EINVAL when the two disagree or what was derived
 * makes no sense; of the last two, *item says what it is about.
 */
int torch_layout_make(unsigned int major, unsigned int minor, const struct torch_derived *derived,
	struct torch_layout *out, const char **item);

/* The versions that are known, for messages; static. */
const char *torch_layout_versions(void);

#endif
