/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts about the model, from the names and types of its parameters: names begin with the class of the root. */
#include "facts.h"

#include <string.h>

#include "containers/containers.h"

static bool block_is_parameter(const struct block *block)
{
	return block->persistent && block->category == CATEGORY_PARAMETER && *block->owner;
}

const char *model_class(const struct rank *rank, char class[MODEL_CLASS_BYTES])
{
	struct {
		char *key;
		uint64_t value; /* bytes */
	} *classes = NULL;
	uint64_t most = 0;

	sh_new_strdup(classes);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		size_t length = block_is_parameter(block) ? strcspn(block->owner, ".") : MODEL_CLASS_BYTES;
		char name[MODEL_CLASS_BYTES];
		uint64_t bytes;

		/* Parameters that only an optimizer knows are called by it: "SGD.params(0)". */
		if (length >= MODEL_CLASS_BYTES || strstr(block->owner, ".params("))
			continue;
		memcpy(name, block->owner, length);
		name[length] = 0;
		bytes = shget(classes, name) + block->bytes;
		shput(classes, name, bytes);
		if (bytes <= most)
			continue;
		most = bytes;
		memcpy(class, name, length + 1);
	}
	shfree(classes);
	return most ? class : NULL;
}

const char *model_element_name(const struct rank *rank)
{
	uint64_t bytes[UINT8_MAX + 1] = {0};
	unsigned int most = 0;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		if (block_is_parameter(&rank->blocks[i]))
			bytes[rank->blocks[i].element_type] += rank->blocks[i].bytes;
	for (unsigned int type = 1; type <= UINT8_MAX; type++)
		if (bytes[type] > bytes[most] || !most)
			most = type;
	return bytes[most] && *element_type_name((uint8_t)(most - 1)) ? element_type_name((uint8_t)(most - 1)) : NULL;
}
