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
 * the largest offset in the constructor and in apply(). The constructor stores
 * what RecordFunction::currentThreadId returns in Node::thread_id_; the number
 * of the node stands three words before (torch/csrc/autograd/function.h).
 *
 * Dispatcher::realSingleton returns the address of its static variable, the first
 * that it computes relative to itself.
 *
 * Functions that return a variable of the thread ask __tls_get_addr for it, with
 * a pair of words of the library's global offset table, and may add an offset.
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
#define DISPATCHER "_ZN3c1010Dispatcher13realSingletonEv"
#define SEQUENCE_PEEK "_ZN2at15sequence_number4peekEv"
#define THREAD_NUMBER "_ZN2at14RecordFunction15currentThreadIdEv"
#define ACCUMULATE_APPLY "_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE"

/* From Node::sequence_nr_ to Node::thread_id_: topological_nr_ and a flag are between them. */
#define SEQUENCE_TO_THREAD (3 * sizeof(uint64_t))

/* An instruction of a function; `next` is the address behind it. */
struct step {
	uint64_t next;
	ZydisDecodedInstruction instruction;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

typedef void step_look(void *context, const struct step *step);

/* Look at every instruction of a function; false when it is missing or cannot be decoded to its end. */
static bool function_walk(const struct elf_file *file, const char *name, step_look *look, void *context)
{
	const struct elf_symbol *symbol = elf_file_symbol(file, name);
	uint8_t code[FUNCTION_BYTES_MAX];
	ZydisDecoder decoder;
	struct step step;
	ssize_t size;

	if (!symbol || elf_file_machine(file) != ELF_MACHINE_X86_64)
		return false;
	size = elf_file_read(file, symbol->address, code, symbol->size < sizeof(code) ? symbol->size : sizeof(code));
	if (size <= 0 || (uint64_t)size != symbol->size)
		return false;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < (size_t)size;) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(
			    &decoder, code + at, (size_t)size - at, &step.instruction, step.operands)))
			return false;
		at += step.instruction.length;
		step.next = symbol->address + at;
		look(context, &step);
	}
	return true;
}

/* --- what the instructions of one function mention ---------------------------------- */

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

static void mentioned_look(void *context, const struct step *step)
{
	for (size_t index = 0; index < step->instruction.operand_count_visible; index++)
		operand_note(&step->operands[index], context);
}

static bool function_read(const struct elf_file *file, const char *name, struct mentioned *mentioned)
{
	*mentioned = (struct mentioned){0};
	return function_walk(file, name, mentioned_look, mentioned);
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

/* --- the autograd graph ------------------------------------------------------------- */

struct tls_access {
	struct torch_tls found;
	uint64_t got; /* what __tls_get_addr is asked with */
	bool called, done;
};

static void tls_look(void *context, const struct step *step)
{
	const ZydisDecodedOperand *to = &step->operands[0], *from = &step->operands[1];
	struct tls_access *access = context;

	if (access->done)
		return;
	if (access->called && step->instruction.mnemonic == ZYDIS_MNEMONIC_MOV &&
		from->type == ZYDIS_OPERAND_TYPE_MEMORY && from->mem.base == ZYDIS_REGISTER_RAX &&
		from->mem.disp.value >= 0 && from->mem.disp.value <= UINT32_MAX) {
		access->found = (struct torch_tls){.got = access->got, .offset = (uint32_t)from->mem.disp.value};
		access->done = true;
	} else if (step->instruction.mnemonic == ZYDIS_MNEMONIC_LEA && to->reg.value == ZYDIS_REGISTER_RDI &&
		   from->mem.base == ZYDIS_REGISTER_RIP) {
		access->got = step->next + (uint64_t)from->mem.disp.value;
	} else if (step->instruction.mnemonic == ZYDIS_MNEMONIC_CALL) {
		access->called = access->got != 0;
	}
}

static struct torch_tls tls_of(const struct elf_file *libtorch_cpu, const char *function)
{
	struct tls_access access = {0};

	function_walk(libtorch_cpu, function, tls_look, &access);
	return access.found;
}

struct stored_result {
	uint64_t offset; /* of the member that the first result is stored in */
	bool called;     /* by the instruction before */
};

static void result_look(void *context, const struct step *step)
{
	const ZydisDecodedOperand *to = &step->operands[0], *from = &step->operands[1];
	struct stored_result *stored = context;

	if (stored->called && !stored->offset && step->instruction.mnemonic == ZYDIS_MNEMONIC_MOV &&
		to->type == ZYDIS_OPERAND_TYPE_MEMORY && is_object(&to->mem) &&
		from->type == ZYDIS_OPERAND_TYPE_REGISTER && from->reg.value == ZYDIS_REGISTER_RAX)
		stored->offset = (uint64_t)to->mem.disp.value;
	stored->called = step->instruction.mnemonic == ZYDIS_MNEMONIC_CALL;
}

static uint16_t node_thread_offset(const struct elf_file *libtorch_cpu)
{
	struct stored_result stored = {0};

	if (!function_walk(libtorch_cpu, ACCUMULATE_MAKE, result_look, &stored) || stored.offset % sizeof(uint64_t) ||
		stored.offset <= SEQUENCE_TO_THREAD)
		return 0;
	return (uint16_t)stored.offset;
}

static void address_look(void *context, const struct step *step)
{
	const ZydisDecodedOperand *from = &step->operands[1];
	uint64_t *address = context;

	if (!*address && step->instruction.mnemonic == ZYDIS_MNEMONIC_LEA && from->mem.base == ZYDIS_REGISTER_RIP)
		*address = step->next + (uint64_t)from->mem.disp.value;
}

uint64_t torch_derive_dispatcher(const struct elf_file *libtorch_cpu)
{
	uint64_t address = 0;

	function_walk(libtorch_cpu, DISPATCHER, address_look, &address);
	return address;
}

void torch_derive_nodes(const struct elf_file *libtorch_cpu, struct torch_nodes *out)
{
	*out = (struct torch_nodes){
		.counter = tls_of(libtorch_cpu, SEQUENCE_PEEK),
		.thread = tls_of(libtorch_cpu, THREAD_NUMBER),
		.thread_offset = node_thread_offset(libtorch_cpu),
	};
	if (!out->counter.got || !out->thread.got || !out->thread_offset)
		*out = (struct torch_nodes){0};
	else
		out->sequence_offset = (uint16_t)(out->thread_offset - SEQUENCE_TO_THREAD);
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
