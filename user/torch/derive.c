// SPDX-License-Identifier: BSD-2-Clause
/*
 * The functions, and what of them is read (seen in PyTorch 1.13, 2.6 and 2.14):
 *
 * TensorImpl::has_storage compares storage_ with null: its one memory operand.
 *
 * tls_is_dispatch_keyset_included and _excluded XOR the thread's word with the
 * default set, their one 64-bit constant; compilers may fold a complement into it.
 *
 * AccumulateGrad adds one member to Node, behind all of Node's, so that it is
 * the largest offset in the constructor and in apply().
 */
#include "torch/derive.h"

#include <stdbool.h>
#include <stddef.h>

#include <Zydis/Zydis.h>

#define FUNCTION_BYTES_MAX 4096
#define OFFSET_MAX 4096 /* of a member of these objects */
#define HIGHEST_KEY_BIT (1ull << 63)

#define HAS_STORAGE "_ZNK3c1010TensorImpl11has_storageEv"
#define IS_INCLUDED "_ZN3c104impl31tls_is_dispatch_keyset_includedENS_14DispatchKeySetE"
#define IS_EXCLUDED "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE"
#define ACCUMULATE_MAKE "_ZN5torch8autograd14AccumulateGradC1EN2at6TensorE"
#define ACCUMULATE_APPLY "_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE"

/* What the instructions of one function mention. */
struct mentioned {
	uint64_t constant;     /* the 64-bit one; 0: none or several */
	uint64_t largest;      /* offset from a general register, but for the stack's */
	unsigned int accesses; /* operands with such an offset */
	unsigned int constants;
};

static bool is_object(const ZydisDecodedOperandMem *memory)
{
	return memory->segment != ZYDIS_REGISTER_FS && memory->base != ZYDIS_REGISTER_NONE &&
	       memory->base != ZYDIS_REGISTER_RIP && memory->base != ZYDIS_REGISTER_RSP &&
	       memory->index == ZYDIS_REGISTER_NONE && memory->disp.has_displacement && memory->disp.value > 0 &&
	       memory->disp.value < OFFSET_MAX;
}

static void operand_note(const ZydisDecodedOperand *operand, struct mentioned *mentioned)
{
	if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY && is_object(&operand->mem)) {
		uint64_t offset = (uint64_t)operand->mem.disp.value;

		mentioned->accesses++;
		mentioned->largest = offset > mentioned->largest ? offset : mentioned->largest;
	}
	if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operand->size == 64 && operand->imm.value.u > UINT32_MAX) {
		mentioned->constant = mentioned->constants++ ? 0 : operand->imm.value.u;
	}
}

/* Look at every instruction of a function; false when it is missing or cannot be decoded to its end. */
static bool function_read(const struct elf_file *file, const char *name, struct mentioned *mentioned)
{
	const struct elf_symbol *symbol = elf_file_symbol(file, name);
	uint8_t code[FUNCTION_BYTES_MAX];
	ZydisDecoder decoder;
	ssize_t size;

	*mentioned = (struct mentioned){0};
	if (!symbol || elf_file_machine(file) != ELF_MACHINE_X86_64)
		return false;
	size = elf_file_read(file, symbol->address, code, symbol->size < sizeof(code) ? symbol->size : sizeof(code));
	if (size <= 0 || (uint64_t)size != symbol->size)
		return false;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < (size_t)size;) {
		ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
		ZydisDecodedInstruction instruction;

		if (!ZYAN_SUCCESS(
			    ZydisDecoderDecodeFull(&decoder, code + at, (size_t)size - at, &instruction, operands)))
			return false;
		for (size_t index = 0; index < instruction.operand_count_visible; index++)
			operand_note(&operands[index], mentioned);
		at += instruction.length;
	}
	return true;
}

/* A default set leaves the highest bit alone: where that is set, the constant is the complement. */
static uint64_t default_set(const struct elf_file *libc10, const char *function)
{
	struct mentioned mentioned;

	if (!function_read(libc10, function, &mentioned))
		return 0;
	return mentioned.constant & HIGHEST_KEY_BIT ? ~mentioned.constant : mentioned.constant;
}

static uint16_t storage_offset(const struct elf_file *libc10)
{
	struct mentioned mentioned;

	return function_read(libc10, HAS_STORAGE, &mentioned) && mentioned.accesses == 1 ? (uint16_t)mentioned.largest
	                                                                                 : 0;
}

static uint16_t variable_offset(const struct elf_file *libtorch_cpu)
{
	struct mentioned made, applied;

	if (!function_read(libtorch_cpu, ACCUMULATE_MAKE, &made) ||
		!function_read(libtorch_cpu, ACCUMULATE_APPLY, &applied) || made.largest != applied.largest ||
		made.largest % sizeof(uint64_t))
		return 0;
	return (uint16_t)made.largest;
}

void torch_derive(const struct elf_file *libc10, const struct elf_file *libtorch_cpu, struct torch_derived *out)
{
	*out = (struct torch_derived){
		.keys_included_default = default_set(libc10, IS_INCLUDED),
		.keys_excluded_default = default_set(libc10, IS_EXCLUDED),
		.tensor_storage = storage_offset(libc10),
		.accumulate_variable = variable_offset(libtorch_cpu),
	};
}
