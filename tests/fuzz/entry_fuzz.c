/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as code: the place lies inside of them, and longer code does not change a place that was found. */
#include <stdint.h>
#include <stdlib.h>

#include "symbol/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct entry_place place, shorter;

	entry_decode(ELF_MACHINE_X86_64, data, size, &place);
	if (!place.emulated) {
		if (place.offset || place.stack_bytes || place.reason == ENTRY_EMULATED)
			abort();
		return 0;
	}
	if (place.offset >= size || place.offset >= ENTRY_BYTES_MAX || place.stack_bytes % 8)
		abort();
	entry_decode(ELF_MACHINE_X86_64, data, place.offset, &shorter);
	if (shorter.emulated && shorter.reason == ENTRY_EMULATED)
		abort();
	return 0;
}
