// SPDX-License-Identifier: BSD-2-Clause
/* An object begins with the address behind the two words at the head of its class's table (Itanium C++ ABI, 2.5.2). */
#include "torch/live.h"

#include <stdbool.h>
#include <string.h>

#define TABLE_HEAD 16
#define TENSOR_BYTES_MAX 64      /* of a TensorImpl up to its storage */
#define TLS_MODULES_MAX 65536    /* loaded objects with thread-local variables */
#define TLS_BYTES_MAX (1u << 20) /* of one object */

static bool tensor_fits(const struct torch_image *image)
{
	uint64_t table, storage, size = image->layout->tensor_storage + sizeof(storage);
	uint8_t tensor[TENSOR_BYTES_MAX];

	if (size > sizeof(tensor) || image->read(image->context, image->undefined_tensor, tensor, size))
		return false;
	memcpy(&table, tensor, sizeof(table));
	memcpy(&storage, tensor + image->layout->tensor_storage, sizeof(storage));
	return table == image->undefined_table + TABLE_HEAD && !storage;
}

static bool keys_fit(const struct torch_image *image)
{
	uint64_t pair[2];

	return !image->read(image->context, image->keys_got, pair, sizeof(pair)) && pair[0] &&
	       pair[0] < TLS_MODULES_MAX && pair[1] < TLS_BYTES_MAX;
}

const char *torch_live_fault(const struct torch_image *image)
{
	if (image->undefined_tensor && image->undefined_table && !tensor_fits(image))
		return "its undefined tensor is not as its files say";
	if (image->keys_got && !keys_fit(image))
		return "the thread's dispatch keys are not where its files say";
	return NULL;
}
