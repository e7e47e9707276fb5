/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as code: the place lies inside of them, and longer code does not change a place that was found. */
#include <stdint.h>
#include <stdlib.h>

#include "symbol/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* push, with or without REX.B, or call */
static bool is_loud(const uint8_t *code)
{
	return (code[code[0] == 0x41] & 0xf8) == 0x50 || code[0] == 0xe8;
}

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
	/* Only what writes to the stack is passed over for another one. */
	if (shorter.emulated && shorter.reason == ENTRY_EMULATED && !is_loud(data + shorter.offset))
		abort();
	return 0;
}
