// SPDX-License-Identifier: BSD-2-Clause
/*
 * From few numbers to the whole layout. Sources: c10/core/DispatchKey.h (the order
 * of the keys), DispatchKeySet.h (the default sets), TensorImpl.h, StorageImpl.h,
 * Storage.h and Allocator.h of each version.
 */
#include "torch/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define BIT(bit) (1ull << (bit))
#define BITS_BELOW(bit) (BIT(bit) - 1)
#define BITS(first, last) (BITS_BELOW((last) + 1) & ~BITS_BELOW(first))

/* Of c10::DataPtr: pointer, context, deleter, device. */
#define DATA_POINTER_BYTES 32
#define MINOR_FIRST_OF_1 13
#define MINOR_LAST_OF_2 14
/* Where storage_ is while the counts of intrusive_ptr_target have 8 bytes each (until 2.2; 4 in 2.4). */
#define STORAGE_BEHIND_WIDE_COUNTS 24

/* What was read off running programs; versions in between follow from their libraries alone. */
static const struct {
	unsigned int major, minor;
	struct torch_derived values;
} measured[] = {
	{1, 13, {BIT(26) | BIT(35), BITS(40, 42), 24, 0x188}},
	{2, 6, {BIT(26) | BIT(35), BITS(40, 47), 16, 0x1d8}},
	{2, 14, {BIT(26) | BIT(34), BITS(39, 48), 16, 0x1d0}},
};

/*
 * TensorImpl::numel_, by the headers of 1.13, 2.0, 2.2, 2.4, 2.6, 2.7, 2.13 and 2.14 (docs/versions.md). With counts of
 * 8 bytes everything stands a word further behind; somewhere from 2.8 to 2.13 a word in front of it went.
 */
static uint16_t elements_find(unsigned int major, unsigned int minor, uint64_t storage)
{
	if (storage == STORAGE_BEHIND_WIDE_COUNTS)
		return 168;
	if (major == 2 && minor <= 7)
		return 160;
	return major == 2 && minor >= 13 ? 152 : 0;
}

static const struct torch_derived *measured_find(unsigned int major, unsigned int minor)
{
	for (size_t index = 0; index < sizeof(measured) / sizeof(measured[0]); index++)
		if (measured[index].major == major && measured[index].minor == minor)
			return &measured[index].values;
	return NULL;
}

/* One number from two sources, either of which may be 0; false when they disagree. */
static bool number_settle(uint64_t derived, uint64_t known, uint64_t *out, bool *from_table)
{
	*out = derived ? derived : known;
	*from_table |= !derived && known;
	return !derived || !known || derived == known;
}

/*
 * The default included set is {BackendSelect, ADInplaceOrView}. In DispatchKey all
 * keys that lead to a backend kernel stand below the first; Conjugate, Negative and
 * ZeroTensor right below the second; the three of autograd right above it.
 */
static bool keys_fill(struct torch_layout *out)
{
	uint64_t included = out->keys_included_default, select = included & -included;

	out->keys_backend = select - 1;
	out->keys_inplace = included & ~select;
	out->keys_autograd = out->keys_inplace << 1 | out->keys_inplace << 2 | out->keys_inplace << 3;
	out->keys_fallback = out->keys_inplace >> 1 | out->keys_inplace >> 2 | out->keys_inplace >> 3;
	return out->keys_inplace && !(out->keys_inplace & (out->keys_inplace - 1)) && select >= BIT(8) &&
	       out->keys_inplace >= select << 4 && out->keys_inplace <= BIT(60) &&
	       !(out->keys_excluded_default & (out->keys_autograd | (out->keys_autograd - 1)));
}

int torch_layout_make(unsigned int major, unsigned int minor, const struct torch_derived *derived,
	struct torch_layout *out, const char **item)
{
	static const struct torch_derived nothing;
	const struct torch_derived *row = measured_find(major, minor);
	const struct torch_derived *known = row ? row : &nothing;
	uint64_t included, excluded, storage, variable;
	bool from_table = false;

	*item = NULL;
	if (!(major == 1 && minor == MINOR_FIRST_OF_1) && !(major == 2 && minor <= MINOR_LAST_OF_2))
		return -ENOTSUP;
	if (!number_settle(derived->keys_included_default, known->keys_included_default, &included, &from_table) ||
		!number_settle(derived->keys_excluded_default, known->keys_excluded_default, &excluded, &from_table))
		*item = "dispatch keys";
	else if (!number_settle(derived->tensor_storage, known->tensor_storage, &storage, &from_table))
		*item = "TensorImpl";
	else if (!number_settle(derived->accumulate_variable, known->accumulate_variable, &variable, &from_table))
		*item = "AccumulateGrad";
	if (*item)
		return -EINVAL;
	if (!included || !excluded || !storage) {
		*item = included && excluded ? "TensorImpl" : "dispatch keys";
		return -ENODATA;
	}
	*out = (struct torch_layout){
		.keys_included_default = included,
		.keys_excluded_default = excluded,
		.tensor_storage = (uint16_t)storage,
		.tensor_elements = elements_find(major, minor, storage),
		/* Both objects begin with c10::intrusive_ptr_target, and these are their first members. */
		.storage_data = (uint16_t)storage,
		.storage_bytes = (uint16_t)(storage + DATA_POINTER_BYTES),
		.accumulate_variable = (uint16_t)variable,
	};
	if (!keys_fill(out)) {
		*item = "dispatch keys";
		return -EINVAL;
	}
	return from_table ? LAYOUT_TABLE : row ? LAYOUT_CHECKED : LAYOUT_DERIVED;
}

const char *torch_layout_versions(void)
{
	return "1.13, 2.0 to 2.14";
}
