// SPDX-License-Identifier: BSD-2-Clause
/*
 * The table. Sources: c10/core/DispatchKey.h (numbers of the keys), DispatchKeySet.h,
 * TensorImpl.h, StorageImpl.h and impl/LocalDispatchKeySet.h of each version; the
 * offsets were read off the compiled accessors and checked against
 * tensor.storage().data_ptr() of running jobs.
 */
#include "torch/layout.h"

#include <stddef.h>

#define BITS_BELOW(bit) ((1ull << (bit)) - 1)
#define BITS(first, last) (BITS_BELOW((last) + 1) & ~BITS_BELOW(first))

static const struct torch_layout layouts[] = {
	{
		.major = 1,
		.minor = 13,
		.keys_backend = BITS_BELOW(26), /* BackendSelect is 26 */
		.keys_autograd = BITS(36, 38),
		.keys_inplace = BITS(35, 35),
		.keys_fallback = BITS(32, 34),
		.keys_excluded_default = BITS(40, 42),                /* the autocast keys */
		.keys_included_default = BITS(26, 26) | BITS(35, 35), /* BackendSelect, ADInplaceOrView */
		.tensor_storage = 24,
		.storage_data = 24,
		.storage_bytes = 56,
		.optional_value = 8,
		.optional_flag = 0,
		.accumulate_variable = 0x188,
		.operator_definition = 0,
		.definition_name = 0,
	},
};

const struct torch_layout *torch_layout_find(int major, int minor)
{
	for (size_t index = 0; index < sizeof(layouts) / sizeof(layouts[0]); index++)
		if (layouts[index].major == major && layouts[index].minor == minor)
			return &layouts[index];
	return NULL;
}

const char *torch_layout_versions(void)
{
	return "1.13";
}
