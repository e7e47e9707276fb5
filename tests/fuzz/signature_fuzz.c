/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text as a mangled name, as an argument list and as a schema. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/demangle.h"
#include "symbol/signature.h"
#include "torch/operators_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void arguments_use(const char *arguments)
{
	for (int by_memory = 0; by_memory < 2; by_memory++) {
		struct signature signature;

		if (signature_parse(arguments, by_memory, by_memory ? OPTIONAL_STD : OPTIONAL_C10, &signature))
			continue;
		for (size_t i = 0; i < signature.slot_count; i++) {
			uint8_t place = signature.slots[i].place;

			if (place == PLACE_NONE || (place >= PLACE_REGISTERS && place < PLACE_STACK))
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct demangled demangled = {0};
	struct schemas schemas = {0};
	char *text = malloc(size + 1), *readable;

	memcpy(text, data, size);
	text[size] = '\0';
	if (demangle_function(text, &demangled) == 0) {
		if (strlen(demangled.name) + strlen(demangled.arguments) > DEMANGLE_TEXT_MAX)
			abort();
		arguments_use(demangled.arguments);
	}
	arguments_use(text);
	readable = demangle_symbol(text);
	if (readable && strlen(readable) > 1u << 20)
		abort();
	if (schemas_add(&schemas, (const char *)data, size, true) == 0)
		schemas_sort(&schemas);
	free(readable);
	free(text);
	schemas_free(&schemas);
	demangle_free(&demangled);
	return 0;
}
