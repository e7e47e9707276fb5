// SPDX-License-Identifier: BSD-2-Clause
#include "symbol/function_ends.h"

#include <errno.h>
#include <stdlib.h>

#include <Zydis/Zydis.h>

#include "containers/containers.h"

/* A way on through the code that was not looked at yet. */
struct way {
	uint64_t address;
	uint64_t end; /* of the function that it is in */
};

struct seen {
	uint64_t key;
	bool value;
};

struct walk {
	const struct elf_file *file;
	const struct function_starts *starts;
	ZydisDecoder decoder;
	struct way *ways;  /* stb_ds */
	struct seen *seen; /* stb_ds: instructions */
	uint64_t *ends;    /* stb_ds */
	bool complete;
};

static int address_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static void way_add(struct walk *walk, uint64_t address, uint64_t end)
{
	struct way way = {address, end};

	arrput(walk->ways, way);
}

/* Where a direct jump of the function leads; false: only the processor knows. */
static bool target_find(const ZydisDecodedInstruction *instruction, uint64_t address, uint64_t *target)
{
	if (!instruction->raw.imm[0].size || !instruction->raw.imm[0].is_relative)
		return false;
	*target = address + instruction->length + (uint64_t)instruction->raw.imm[0].value.s;
	return true;
}

/* A jump out of the function is its last call: what that returns, the function does. */
static void jump_follow(
	struct walk *walk, const ZydisDecodedInstruction *instruction, const struct way *at, uint64_t start)
{
	uint64_t target, end = at->end;

	if (!target_find(instruction, at->address, &target) ||
		((target < start || target >= end) && !function_end_find(walk->starts, target, &end)))
		walk->complete = false;
	else
		way_add(walk, target, end);
}

/* Look at one instruction and note where it leads. */
static int instruction_walk(struct walk *walk, struct way at, uint64_t start)
{
	uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
	ZydisDecodedInstruction instruction;
	ssize_t got = elf_file_read(walk->file, at.address, code, sizeof(code));

	if (got == -ENOMEM)
		return (int)got;
	if (got <= 0 || !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
				&walk->decoder, ZYAN_NULL, code, (ZyanUSize)got, &instruction))) {
		walk->complete = false;
		return 0;
	}
	switch (instruction.meta.category) {
	case ZYDIS_CATEGORY_RET:
		arrput(walk->ends, at.address);
		return 0;
	case ZYDIS_CATEGORY_UNCOND_BR:
		jump_follow(walk, &instruction, &at, start);
		return 0;
	case ZYDIS_CATEGORY_COND_BR:
		jump_follow(walk, &instruction, &at, start);
		break;
	default:
		break;
	}
	/* Behind the last call of a function that does not come back there is another one, or nothing. */
	if (instruction.meta.category == ZYDIS_CATEGORY_INTERRUPT || instruction.mnemonic == ZYDIS_MNEMONIC_UD2 ||
		instruction.mnemonic == ZYDIS_MNEMONIC_HLT)
		return 0;
	if (at.address + instruction.length < at.end)
		way_add(walk, at.address + instruction.length, at.end);
	return 0;
}

int function_ends_find(const struct elf_file *file, const struct function_starts *starts, uint64_t address,
	uint64_t size, uint64_t **ends, bool *complete)
{
	struct walk walk = {.file = file, .starts = starts, .complete = true};
	uint64_t end;
	int error = 0;

	*ends = NULL;
	*complete = false;
	if (elf_file_machine(file) != ELF_MACHINE_X86_64)
		return -ENOTSUP;
	ZydisDecoderInit(&walk.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (size || function_end_find(starts, address, &end))
		way_add(&walk, address, size ? address + size : end);
	while (!error && arrlenu(walk.ways) && hmlenu(walk.seen) < ENDS_INSTRUCTIONS_MAX) {
		struct way at = arrpop(walk.ways);

		if (hmgeti(walk.seen, at.address) >= 0)
			continue;
		hmput(walk.seen, at.address, true);
		error = instruction_walk(&walk, at, address);
	}
	*complete = walk.complete && !arrlenu(walk.ways) && arrlenu(walk.ends);
	if (error)
		arrfree(walk.ends);
	else if (walk.ends)
		qsort(walk.ends, arrlenu(walk.ends), sizeof(walk.ends[0]), address_compare);
	*ends = walk.ends;
	arrfree(walk.ways);
	hmfree(walk.seen);
	return error;
}
