// SPDX-License-Identifier: BSD-2-Clause
/*
 * How sites are found: PLT stubs of the functions by their relocations; every
 * `call rel32` byte pattern that leads to a stub or a function; then, since a
 * pattern may lie inside another instruction, the functions around these (their
 * starts are in .eh_frame_hdr) are decoded from their beginning.
 *
 * Source: System V x86-64 psABI (PLT, relocations).
 */
#include "torch/call_sites.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "containers/containers.h"
#include "symbol/section.h"

#define CALL_OPCODE 0xe8
#define CALL_LENGTH 5
#define JUMP_INDIRECT 0x25ff /* ff 25: jmp *disp32(%rip), little-endian */
#define JUMP_LENGTH 6
#define PLT_ALIGNMENT 8
/* A function longer than this is not decoded; the longest kernels have some 20 KiB. */
#define FUNCTION_BYTES_MAX (256u << 10)

/* A key mask: all bits below one of these; the bits above are no functionality keys. */
#define MASK_BITS_MIN 14
#define MASK_BITS_MAX 48

/* Where a call may lead: a PLT stub, or a function itself. */
struct destination {
	uint64_t address, function;
};

struct finder {
	const struct elf_file *file;
	const uint64_t *functions; /* of this file */
	size_t function_count;
	const char *const *names; /* or of others */
	size_t name_count;
	struct section_bytes text;
	struct destination *slots;        /* stb_ds: GOT slots of the functions, sorted */
	struct destination *destinations; /* stb_ds, sorted */
	uint64_t lowest, highest;         /* of the destinations */
	struct call_site *candidates;     /* stb_ds, sorted: not decoded yet */
	struct function_starts starts;
	struct call_site *sites;
};

static int64_t signed32(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int destination_compare(const void *a, const void *b)
{
	const struct destination *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

static int address_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static const struct destination *destination_find(const struct destination *list, uint64_t address)
{
	struct destination key = {.address = address};

	return list ? bsearch(&key, list, arrlenu(list), sizeof(key), destination_compare) : NULL;
}

static bool is_function(const struct finder *finder, uint64_t address)
{
	return finder->functions &&
	       bsearch(&address, finder->functions, finder->function_count, sizeof(address), address_compare);
}

/* --- destinations --------------------------------------------------------------- */

/* What stands for the function behind a symbol, 0: none of those that are looked for. */
static uint64_t symbol_function(
	const struct finder *finder, const Elf64_Sym *symbol, const struct section_bytes *strings)
{
	const char *name;

	if (!finder->names)
		return is_function(finder, symbol->st_value) ? symbol->st_value : 0;
	if (symbol->st_value || symbol->st_name >= strings->size)
		return 0;
	name = (const char *)strings->data + symbol->st_name; /* section_load ends it with a NUL */
	for (size_t index = 0; index < finder->name_count; index++)
		if (!strcmp(name, finder->names[index]))
			return index + 1;
	return 0;
}

/* GOT slots that a relocation fills with one of the functions. */
static int slots_find(struct finder *finder, const char *section)
{
	struct section_bytes relocations, symbols = {0}, strings = {0};
	int error = section_load(finder->file, section, &relocations);

	if (error == -ENOENT)
		return 0;
	if (error)
		return error;
	error = section_load(finder->file, ".dynsym", &symbols);
	if (!error)
		error = section_load(finder->file, ".dynstr", &strings);
	for (uint64_t at = 0; !error && at + sizeof(Elf64_Rela) <= relocations.size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela relocation;
		Elf64_Sym symbol;
		uint64_t type, index, function;

		memcpy(&relocation, relocations.data + at, sizeof(relocation));
		type = ELF64_R_TYPE(relocation.r_info);
		index = ELF64_R_SYM(relocation.r_info);
		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || index >= symbols.size / sizeof(symbol))
			continue;
		memcpy(&symbol, symbols.data + index * sizeof(symbol), sizeof(symbol));
		function = symbol_function(finder, &symbol, &strings);
		if (function) {
			struct destination slot = {relocation.r_offset, function};

			arrput(finder->slots, slot);
		}
	}
	free(relocations.data);
	free(symbols.data);
	free(strings.data);
	return error;
}

/* Stubs: an indirect jump through one of the slots, at the start of its entry or behind endbr64. */
static int stubs_find(struct finder *finder, const char *section)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct section_bytes plt;
	int error = section_load(finder->file, section, &plt);

	if (error)
		return error == -ENOENT ? 0 : error;
	for (uint64_t at = 0; at + JUMP_LENGTH <= plt.size; at += PLT_ALIGNMENT) {
		uint64_t jump = at;
		const struct destination *slot;
		uint16_t opcode;

		if (at + sizeof(endbr64) + JUMP_LENGTH + 1 <= plt.size &&
			!memcmp(plt.data + at, endbr64, sizeof(endbr64)))
			jump += sizeof(endbr64);
		jump += plt.data[jump] == 0xf2; /* bnd prefix */
		if (jump + JUMP_LENGTH > plt.size)
			break;
		memcpy(&opcode, plt.data + jump, sizeof(opcode));
		if (opcode != JUMP_INDIRECT)
			continue;
		slot = destination_find(finder->slots,
			plt.address + jump + JUMP_LENGTH + (uint64_t)signed32(plt.data + jump + sizeof(opcode)));
		if (slot) {
			struct destination stub = {plt.address + at, slot->function};

			arrput(finder->destinations, stub);
		}
	}
	free(plt.data);
	return 0;
}

static int destinations_find(struct finder *finder)
{
	static const char *const plts[] = {".plt", ".plt.sec", ".plt.got"};
	int error = slots_find(finder, ".rela.plt");

	if (!error)
		error = slots_find(finder, ".rela.dyn");
	if (finder->slots)
		qsort(finder->slots, arrlenu(finder->slots), sizeof(finder->slots[0]), destination_compare);
	for (size_t index = 0; !error && index < sizeof(plts) / sizeof(plts[0]); index++)
		error = stubs_find(finder, plts[index]);
	for (size_t index = 0; index < finder->function_count; index++) {
		struct destination direct = {finder->functions[index], finder->functions[index]};

		arrput(finder->destinations, direct);
	}
	if (error || !finder->destinations)
		return error ? error : -ENOENT;
	qsort(finder->destinations, arrlenu(finder->destinations), sizeof(finder->destinations[0]),
		destination_compare);
	finder->lowest = finder->destinations[0].address;
	finder->highest = arrlast(finder->destinations).address;
	return 0;
}

/* --- candidates ------------------------------------------------------------------- */

static void candidates_find(struct finder *finder)
{
	const struct section_bytes *text = &finder->text;
	const uint8_t *at = text->data, *end = text->data + text->size - CALL_LENGTH;

	while (text->size > CALL_LENGTH && at < end && (at = memchr(at, CALL_OPCODE, (size_t)(end - at)))) {
		uint64_t address = text->address + (uint64_t)(at - text->data);
		uint64_t target = address + CALL_LENGTH + (uint64_t)signed32(at + 1);
		const struct destination *destination = target >= finder->lowest && target <= finder->highest
		                                                ? destination_find(finder->destinations, target)
		                                                : NULL;

		if (destination) {
			struct call_site site = {.address = address, .function = destination->function};

			arrput(finder->candidates, site);
		}
		at++;
	}
}

/* --- decoding ----------------------------------------------------------------------- */

/* The constant is "all keys below one", perhaps with bits above the functionality keys. */
static uint64_t mask_of(uint64_t constant)
{
	uint64_t below = constant & ((1ull << MASK_BITS_MAX) - 1);

	if (below < (1ull << MASK_BITS_MIN) - 1 || (below & (below + 1)))
		return 0;
	return below;
}

static uint64_t instruction_mask(const ZydisDecodedInstruction *instruction)
{
	if (instruction->mnemonic != ZYDIS_MNEMONIC_MOV && instruction->mnemonic != ZYDIS_MNEMONIC_AND)
		return 0;
	for (int index = 0; index < 2; index++)
		if (instruction->raw.imm[index].size >= 32)
			return mask_of(
				instruction->raw.imm[index].value.u &
				(instruction->raw.imm[index].size == 32 && instruction->raw.imm[index].is_signed &&
							instruction->operand_width == 64
						? ~0ull
					: instruction->raw.imm[index].size == 32 ? UINT32_MAX
										 : ~0ull));
	return 0;
}

/* Decode one function as far as its last candidate and keep the candidates that are instructions. */
static void function_decode(
	struct finder *finder, const ZydisDecoder *decoder, uint64_t start, size_t first, size_t last)
{
	uint64_t address = start, mask = 0;
	size_t next = first;

	while (next < last) {
		const uint8_t *at = finder->text.data + (address - finder->text.address);
		ZydisDecodedInstruction instruction;
		uint64_t found;

		while (next < last && finder->candidates[next].address < address)
			next++; /* it lies inside an instruction */
		if (next == last)
			return;
		if (address == finder->candidates[next].address) {
			finder->candidates[next].mask = mask;
			arrput(finder->sites, finder->candidates[next]);
			next++;
		}
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, ZYAN_NULL, at,
			    finder->text.size - (address - finder->text.address), &instruction)))
			return;
		found = instruction_mask(&instruction);
		if (found)
			mask = found;
		address += instruction.length;
		if (address - start > FUNCTION_BYTES_MAX || address >= finder->text.address + finder->text.size)
			return;
	}
}

static int candidates_decode(struct finder *finder)
{
	size_t count = arrlenu(finder->candidates);
	uint32_t frame_count, frame = 0;
	ZydisDecoder decoder;
	int error = function_starts_load(finder->file, &finder->starts);

	if (error)
		return error;
	frame_count = finder->starts.count;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t first = 0, last; first < count; first = last) {
		uint64_t end;

		while (frame + 1 < frame_count &&
			function_start(&finder->starts, frame + 1) <= finder->candidates[first].address)
			frame++;
		end = frame + 1 < frame_count ? function_start(&finder->starts, frame + 1) : UINT64_MAX;
		for (last = first; last < count && finder->candidates[last].address < end;)
			last++;
		if (frame_count && function_start(&finder->starts, frame) >= finder->text.address &&
			function_start(&finder->starts, frame) <= finder->candidates[first].address)
			function_decode(finder, &decoder, function_start(&finder->starts, frame), first, last);
		if (last == first) /* an unsorted table: nothing can be said */
			return -ENOENT;
	}
	return 0;
}

static int sites_find(struct finder *finder, struct call_site **sites)
{
	int error;

	*sites = NULL;
	if (elf_file_machine(finder->file) != ELF_MACHINE_X86_64)
		return -ENOTSUP;
	error = destinations_find(finder);
	if (!error)
		error = section_load(finder->file, ".text", &finder->text);
	if (!error) {
		candidates_find(finder);
		error = candidates_decode(finder);
	}
	if (error)
		arrfree(finder->sites);
	else
		*sites = finder->sites;
	arrfree(finder->slots);
	arrfree(finder->destinations);
	arrfree(finder->candidates);
	free(finder->text.data);
	function_starts_free(&finder->starts);
	return error;
}

int call_sites_find(
	const struct elf_file *file, const uint64_t *functions, size_t function_count, struct call_site **sites)
{
	struct finder finder = {.file = file, .functions = functions, .function_count = function_count};

	return sites_find(&finder, sites);
}

int call_sites_find_imports(
	const struct elf_file *file, const char *const *names, size_t name_count, struct call_site **sites)
{
	struct finder finder = {.file = file, .names = names, .name_count = name_count};

	return sites_find(&finder, sites);
}
