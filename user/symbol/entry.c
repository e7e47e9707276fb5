/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A length decoder for straight-line x86_64 code, with just as much meaning as
 * the choice of a probe's place needs: which general register an instruction
 * writes, how it moves the stack pointer, and whether the kernel emulates it.
 * Encodings: Intel SDM volume 2, appendix A. What the kernel emulates:
 * arch/x86/kernel/uprobes.c (branch_setup_xol_ops, push_setup_xol_ops). What
 * is not in the tables below ends the search; it is never skipped by guess.
 */
#include "symbol/entry.h"

#include <string.h>

#define STACK_BYTES_MAX (1u << 20) /* a frame beyond this is not followed */
#define WORD_BYTES 8
#define LONG_NOP_MAX 8     /* bytes */
#define INSTRUCTION_MAX 15 /* bytes, by the architecture */
#define REX_B_PREFIX 0x41  /* the only prefix with which the kernel emulates push */

enum register_number { RAX = 0, RCX = 1, RDX = 2, RSP = 4, RBP = 5, RSI = 6, RDI = 7, R8 = 8, R9 = 9 };
#define ARGUMENT_REGISTERS (1u << RDI | 1u << RSI | 1u << RDX | 1u << RCX | 1u << R8 | 1u << R9)

/* What follows an opcode and what it does to general registers. */
enum opcode_flag {
	MODRM = 1 << 0,
	IMM8 = 1 << 1,
	IMM32 = 1 << 2,        /* 2 bytes with an operand-size prefix */
	IMM_WIDE = 1 << 3,     /* as IMM32, but 8 bytes with REX.W */
	WRITE_RM = 1 << 4,     /* if ModRM names a register there */
	WRITE_REG = 1 << 5,    /* the one in ModRM.reg */
	WRITE_OPCODE = 1 << 6, /* the one in the opcode's low three bits */
	BYTE = 1 << 7,         /* written registers are 8-bit ones */
	GROUP = 1 << 8,        /* ModRM.reg says what it is */
	PUSH = 1 << 9,
	PUSH_REG = 1 << 10,
	BRANCH = 1 << 11, /* relative jump, conditional jump or call: emulated */
	NOP = 1 << 12,
	HINT = 1 << 13,    /* nop with ModRM, endbr64 */
	CLOBBER = 1 << 14, /* writes an argument register by definition */
	STACK = 1 << 15,   /* moves sp in a way that is not followed */
	END = 1 << 16,     /* does not go on to the next instruction */
	UNKNOWN = 1 << 17,
};

/* Sources of an instruction's bytes and what was found in them. */
struct instruction {
	const uint8_t *code;
	size_t size;   /* of what can be read from `code` */
	size_t length; /* read so far */
	bool truncated;
	uint8_t rex;         /* 0: none */
	uint8_t prefixes;    /* how many legacy prefixes */
	bool operand_prefix; /* 66 */
	bool repeat_prefix;  /* f3 */
	bool strange_prefix; /* 67: nothing compiled for x86_64 needs it */
	bool vex;
	bool two_byte;
	uint8_t opcode;
	uint32_t flags;
	uint8_t mode, reg, rm; /* ModRM, reg and rm with their REX bit */
	bool base_only;        /* memory operand [rm register + displacement] */
	int32_t displacement;
	int64_t immediate;
};

static uint8_t take_byte(struct instruction *at)
{
	if (at->length >= at->size) {
		at->truncated = true;
		return 0;
	}
	return at->code[at->length++];
}

/* A little-endian signed integer of 1, 2, 4 or 8 bytes. */
static int64_t take_integer(struct instruction *at, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)take_byte(at) << 8 * i;
	if (bytes < sizeof(value) && value >> (8 * bytes - 1))
		value |= ~0ull << 8 * bytes;
	return (int64_t)value;
}

/* --- opcode tables ----------------------------------------------------------- */

static uint32_t one_byte_flags(uint8_t opcode)
{
	/* add or adc sbb and sub xor cmp, each with six operand forms. */
	if (opcode < 0x40 && (opcode & 7) < 6) {
		static const uint32_t forms[] = {MODRM | WRITE_RM | BYTE, MODRM | WRITE_RM, MODRM | WRITE_REG | BYTE,
			MODRM | WRITE_REG, IMM8, IMM32};
		uint32_t flags = forms[opcode & 7];

		return opcode < 0x38 ? flags : flags & ~(uint32_t)(WRITE_RM | WRITE_REG);
	}
	switch (opcode) {
	case 0x50 ... 0x57:
		return PUSH | PUSH_REG;
	case 0x58 ... 0x5f: /* pop */
	case 0xc9:          /* leave */
		return STACK;
	case 0x63: /* movsxd */
		return MODRM | WRITE_REG;
	case 0x68:
		return PUSH | IMM32;
	case 0x69: /* imul */
		return MODRM | WRITE_REG | IMM32;
	case 0x6a:
		return PUSH | IMM8;
	case 0x6b: /* imul */
		return MODRM | WRITE_REG | IMM8;
	case 0x70 ... 0x7f: /* jcc */
	case 0xeb:          /* jmp */
		return BRANCH | IMM8;
	case 0xe8: /* call */
	case 0xe9: /* jmp */
		return BRANCH | IMM32;
	case 0x80:
		return MODRM | GROUP | IMM8 | BYTE;
	case 0x81:
		return MODRM | GROUP | IMM32;
	case 0x83:
		return MODRM | GROUP | IMM8;
	case 0x84: /* test */
	case 0x85:
		return MODRM;
	case 0x86: /* xchg */
		return MODRM | WRITE_RM | WRITE_REG | BYTE;
	case 0x87:
		return MODRM | WRITE_RM | WRITE_REG;
	case 0x88: /* mov */
		return MODRM | WRITE_RM | BYTE;
	case 0x89:
		return MODRM | WRITE_RM;
	case 0x8a:
		return MODRM | WRITE_REG | BYTE;
	case 0x8b: /* mov */
	case 0x8d: /* lea */
		return MODRM | WRITE_REG;
	case 0x90:
		return NOP;
	case 0x91 ... 0x97: /* xchg with rax */
		return WRITE_OPCODE;
	case 0x98: /* cdqe */
		return 0;
	case 0x99: /* cqo: rdx */
	case 0xa4: /* movs, stos: rdi */
	case 0xa5:
	case 0xaa:
	case 0xab:
		return CLOBBER;
	case 0xa8: /* test with rax */
		return IMM8;
	case 0xa9:
		return IMM32;
	case 0xb0 ... 0xb7: /* mov */
		return WRITE_OPCODE | IMM8 | BYTE;
	case 0xb8 ... 0xbf:
		return WRITE_OPCODE | IMM_WIDE;
	case 0xc0: /* shifts */
		return MODRM | WRITE_RM | IMM8 | BYTE;
	case 0xc1:
		return MODRM | WRITE_RM | IMM8;
	case 0xd0:
	case 0xd2:
		return MODRM | WRITE_RM | BYTE;
	case 0xd1:
	case 0xd3:
		return MODRM | WRITE_RM;
	case 0xc6: /* mov */
		return MODRM | WRITE_RM | IMM8 | BYTE;
	case 0xc7:
		return MODRM | WRITE_RM | IMM32;
	case 0xc2: /* ret */
	case 0xc3:
	case 0xcc: /* int3 */
	case 0xf4: /* hlt */
		return END;
	case 0xf6:
	case 0xfe:
		return MODRM | GROUP | BYTE;
	case 0xf7:
	case 0xff:
		return MODRM | GROUP;
	default:
		return UNKNOWN;
	}
}

/* Opcodes after 0f. Those of the vector unit leave general registers alone unless named here. */
static uint32_t two_byte_flags(uint8_t opcode)
{
	switch (opcode) {
	case 0x0b: /* ud2 */
		return END;
	case 0x0d: /* prefetchw */
	case 0x18: /* prefetch */
		return MODRM;
	case 0x1e: /* endbr64 */
	case 0x1f: /* nop */
		return MODRM | HINT;
	case 0x10 ... 0x17: /* vector moves */
	case 0x28 ... 0x2b:
	case 0x2e ... 0x2f:
	case 0x51 ... 0x6f: /* vector arithmetic */
	case 0x74 ... 0x76:
	case 0x7c ... 0x7d:
	case 0x7f:
	case 0xd0 ... 0xd6:
	case 0xd8 ... 0xfe:
		return MODRM;
	case 0x70 ... 0x73: /* vector shuffles and shifts */
	case 0xc2:
	case 0xc4:
	case 0xc6:
		return MODRM | IMM8;
	case 0x77: /* vzeroupper */
		return 0;
	case 0x2c ... 0x2d: /* conversions to integer */
	case 0x40 ... 0x4f: /* cmov */
	case 0x50:          /* masks of vectors */
	case 0xd7:
	case 0xaf:          /* imul */
	case 0xb6 ... 0xb8: /* movzx, popcnt */
	case 0xbc ... 0xbf: /* bit scans, movsx */
		return MODRM | WRITE_REG;
	case 0x7e: /* movd */
		return MODRM | WRITE_RM;
	case 0x80 ... 0x8f: /* jcc */
		return BRANCH | IMM32;
	case 0x90 ... 0x9f: /* setcc */
		return MODRM | WRITE_RM | BYTE;
	case 0xa3: /* bt */
		return MODRM;
	case 0xa4: /* shld, shrd */
	case 0xac:
		return MODRM | WRITE_RM | IMM8;
	case 0xa5:
	case 0xad:
	case 0xab: /* bts, btr, btc */
	case 0xb3:
	case 0xbb:
		return MODRM | WRITE_RM;
	case 0xba:
		return MODRM | WRITE_RM | IMM8;
	case 0xc5: /* pextrw */
		return MODRM | WRITE_REG | IMM8;
	case 0xc8 ... 0xcf: /* bswap */
		return WRITE_OPCODE;
	default:
		return UNKNOWN;
	}
}

/* What ModRM.reg makes of a group opcode. */
static uint32_t group_flags(const struct instruction *at)
{
	uint32_t flags = at->flags & ~(uint32_t)GROUP;
	uint8_t member = at->reg & 7;

	switch (at->opcode) {
	case 0x80:
	case 0x81:
	case 0x83: /* add or adc sbb and sub xor; 7: cmp */
		return member == 7 ? flags : flags | WRITE_RM;
	case 0xf6:
	case 0xf7: /* test test not neg; then multiplications and divisions, which write rdx */
		if (member < 2)
			return flags | (at->opcode == 0xf6 ? IMM8 : IMM32);
		return member < 4 ? flags | WRITE_RM : CLOBBER;
	default: /* fe, ff: inc dec; call call jmp jmp push */
		if (member < 2)
			return flags | WRITE_RM;
		if (at->opcode == 0xfe || member == 7)
			return UNKNOWN;
		return member == 6 ? flags | PUSH : END;
	}
}

/* --- decoding ---------------------------------------------------------------- */

static void take_prefixes(struct instruction *at)
{
	for (;; at->length++) {
		if (at->length >= at->size) {
			at->truncated = true;
			return;
		}
		switch (at->code[at->length]) {
		case 0x66:
			at->operand_prefix = true;
			break;
		case 0xf3:
			at->repeat_prefix = true;
			break;
		case 0xf2:
		case 0x26: /* segments */
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
			break;
		case 0x67:
			at->strange_prefix = true;
			break;
		default:
			if ((at->code[at->length] & 0xf0) == 0x40)
				at->rex = take_byte(at);
			return;
		}
		at->prefixes++;
	}
}

/* VEX prefixes of two (c5) and three bytes (c4): only the map of 0f opcodes. Their register bits are inverted. */
static void take_vex(struct instruction *at)
{
	uint8_t first = take_byte(at);

	at->vex = true;
	at->rex = (first & 0x80) ? 0 : 4;
	if (at->opcode == 0xc4) {
		if ((first & 0x1f) != 1)
			at->strange_prefix = true;
		at->rex |= (first & 0x20) ? 0 : 1;
		first = take_byte(at);
	}
	at->repeat_prefix = (first & 3) == 2;
	at->opcode = take_byte(at);
}

/* 0f opcodes that mean the same behind a VEX prefix; others are mask registers or bit fields there. */
static bool is_vector(uint8_t opcode)
{
	return (opcode >= 0x10 && opcode <= 0x17) || (opcode >= 0x28 && opcode <= 0x2f) ||
	       (opcode >= 0x50 && opcode <= 0x7f) || opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6) ||
	       opcode >= 0xd0;
}

static void take_opcode(struct instruction *at)
{
	at->opcode = take_byte(at);
	if (at->opcode == 0xc4 || at->opcode == 0xc5) {
		take_vex(at);
		at->two_byte = true;
	} else if (at->opcode == 0x0f) {
		at->opcode = take_byte(at);
		at->two_byte = true;
	}
	at->flags = at->two_byte ? two_byte_flags(at->opcode) : one_byte_flags(at->opcode);
	if (at->opcode == 0x90 && !at->two_byte && at->rex & 1)
		at->flags = WRITE_OPCODE; /* xchg r8, rax */
	if (at->strange_prefix || (at->vex && !is_vector(at->opcode)))
		at->flags = UNKNOWN;
}

static void take_modrm(struct instruction *at)
{
	uint8_t modrm = take_byte(at);
	uint8_t low = modrm & 7;

	at->mode = modrm >> 6;
	at->reg = (uint8_t)((modrm >> 3 & 7) | (at->rex & 4) << 1);
	at->rm = (uint8_t)(low | (at->rex & 1) << 3);
	if (at->mode == 3)
		return;
	at->base_only = true;
	if (low == 4) {
		uint8_t sib = take_byte(at);
		uint8_t index = (uint8_t)((sib >> 3 & 7) | (at->rex & 2) << 2);

		at->base_only = index == 4;
		at->rm = (uint8_t)((sib & 7) | (at->rex & 1) << 3);
		low = sib & 7;
	}
	if (at->mode == 0 && low == RBP)
		at->base_only = false; /* no base: relative to rip, or absolute */
	if (at->mode == 1)
		at->displacement = (int32_t)take_integer(at, 1);
	else if (at->mode == 2 || (at->mode == 0 && low == RBP))
		at->displacement = (int32_t)take_integer(at, 4);
}

static void take_immediate(struct instruction *at)
{
	if (at->flags & IMM8)
		at->immediate = take_integer(at, 1);
	else if (at->flags & IMM_WIDE && at->rex & 8)
		at->immediate = take_integer(at, 8);
	else if (at->flags & (IMM32 | IMM_WIDE))
		at->immediate = take_integer(at, at->operand_prefix && !(at->flags & BRANCH) ? 2 : 4);
}

static struct instruction instruction_decode(const uint8_t *code, size_t size)
{
	struct instruction at = {.code = code, .size = size};

	take_prefixes(&at);
	take_opcode(&at);
	if (at.flags & MODRM)
		take_modrm(&at);
	if (at.flags & GROUP)
		at.flags = group_flags(&at);
	take_immediate(&at);
	if (at.length > INSTRUCTION_MAX)
		at.flags = UNKNOWN;
	return at;
}

/* --- meaning ----------------------------------------------------------------- */

static bool is_emulated(const struct instruction *at)
{
	if (at->flags & PUSH_REG)
		return at->length == 1 || (at->length == 2 && at->rex == REX_B_PREFIX);
	if (at->flags & BRANCH)
		return !at->operand_prefix;
	return at->flags & NOP;
}

/* The multi-byte nops of the Intel SDM ("NOP"), the ones that new kernels know; padding with more prefixes is not. */
static bool is_long_nop(const struct instruction *at)
{
	return at->flags & HINT && at->opcode == 0x1f && at->length <= LONG_NOP_MAX &&
	       at->prefixes == at->operand_prefix;
}

/* `kept`: the registers that must not be written, a bit each. */
static enum entry_reason write_check(const struct instruction *at, uint8_t number, uint32_t kept)
{
	/* Without REX, 4 to 7 are the second bytes of registers 0 to 3. */
	if (at->flags & BYTE && !at->rex && number >= 4)
		number -= 4;
	if (number == RSP)
		return ENTRY_STACK;
	return kept >> number & 1 ? ENTRY_ARGUMENT : ENTRY_EMULATED;
}

/* Follows add, sub and lea on the whole stack pointer. Returns whether the instruction is one of them. */
static bool stack_move(const struct instruction *at, int64_t *moved)
{
	bool whole = at->rex & 8 && !at->two_byte;

	if (!whole)
		return false;
	if ((at->opcode == 0x81 || at->opcode == 0x83) && at->mode == 3 && at->rm == RSP) {
		if ((at->reg & 7) != 0 && (at->reg & 7) != 5)
			return false;
		*moved = (at->reg & 7) == 5 ? at->immediate : -at->immediate;
		return true;
	}
	if (at->opcode == 0x8d && at->reg == RSP && at->base_only && at->rm == RSP) {
		*moved = -(int64_t)at->displacement;
		return true;
	}
	return false;
}

static enum entry_reason register_writes(const struct instruction *at, uint32_t kept)
{
	bool vector_move = at->two_byte && at->opcode == 0x7e && at->repeat_prefix;
	enum entry_reason reason = ENTRY_EMULATED;

	if (at->flags & WRITE_RM && at->mode == 3 && !vector_move)
		reason = write_check(at, at->rm, kept);
	if (!reason && at->flags & WRITE_REG)
		reason = write_check(at, at->reg, kept);
	if (!reason && at->flags & WRITE_OPCODE)
		reason = write_check(at, (uint8_t)((at->opcode & 7) | (at->rex & 1) << 3), kept);
	return reason;
}

/* Why the search ends before this instruction's successor, or ENTRY_EMULATED to go on. Moves *stack_bytes. */
static enum entry_reason instruction_pass(const struct instruction *at, uint32_t kept, uint32_t *stack_bytes)
{
	int64_t moved = 0;

	if (at->truncated)
		return ENTRY_TRUNCATED;
	if (at->flags & UNKNOWN)
		return ENTRY_UNKNOWN;
	if (at->flags & END)
		return ENTRY_END;
	if (at->flags & CLOBBER)
		return ENTRY_ARGUMENT;
	if (at->flags & STACK)
		return ENTRY_STACK;
	/* endbr64 and endbr32 are the only ones of their opcode that are surely without effect. */
	if (at->flags & HINT && at->opcode == 0x1e && (at->mode != 3 || (at->reg & 7) != 7))
		return ENTRY_UNKNOWN;
	if (at->flags & PUSH)
		moved = WORD_BYTES;
	else if (!stack_move(at, &moved))
		return register_writes(at, kept);
	if (at->operand_prefix || moved % WORD_BYTES)
		return ENTRY_STACK;
	moved += *stack_bytes;
	if (moved < 0 || moved > STACK_BYTES_MAX)
		return ENTRY_STACK;
	*stack_bytes = (uint32_t)moved;
	return ENTRY_EMULATED;
}

/* A jump back into what was decoded: its place is passed more than once a call. */
static bool is_loop(const struct instruction *at, size_t offset)
{
	int64_t target = (int64_t)(offset + at->length) + at->immediate;

	return at->flags & BRANCH && target >= 0 && target <= (int64_t)offset;
}

/* Emulated without a write to the target's stack, which push and call need. */
static bool is_quiet(const struct instruction *at)
{
	return at->flags & NOP || (at->flags & BRANCH && at->opcode != 0xe8);
}

/*
 * The first emulated instruction; and, since the kernel's write for a push costs
 * as much as a third of the trap, one that writes nothing, where it comes soon.
 */
void entry_decode(enum elf_machine machine, const uint8_t *code, size_t size, struct entry_place *place)
{
	struct entry_place long_nop = {0}, loud = {0};
	enum entry_reason reason = ENTRY_EMULATED;
	uint32_t stack_bytes = 0;
	size_t offset = 0;

	*place = (struct entry_place){.reason = ENTRY_MACHINE};
	if (machine != ELF_MACHINE_X86_64)
		return;
	if (size > ENTRY_BYTES_MAX)
		size = ENTRY_BYTES_MAX;
	while (!reason) {
		struct instruction at = instruction_decode(code + offset, size - offset);

		if (!at.truncated && is_emulated(&at) && is_loop(&at, offset)) {
			reason = ENTRY_LOOP;
		} else if (!at.truncated && is_emulated(&at)) {
			struct entry_place found = {(uint32_t)offset, stack_bytes, true, ENTRY_EMULATED};

			if (is_quiet(&at)) {
				*place = found;
				return;
			}
			if (!loud.emulated)
				loud = found;
			if (at.flags & BRANCH) /* a call: nothing is as it was behind it */
				reason = ENTRY_ARGUMENT;
		} else if (!at.truncated && is_long_nop(&at) && !long_nop.emulated) {
			long_nop = (struct entry_place){(uint32_t)offset, stack_bytes, true, ENTRY_LONG_NOP};
		}
		if (!reason)
			reason = instruction_pass(&at, ARGUMENT_REGISTERS, &stack_bytes);
		offset += at.length;
	}
	if (loud.emulated)
		*place = loud;
	else
		*place = long_nop.emulated ? long_nop : (struct entry_place){.reason = (uint8_t)reason};
}

uint32_t return_decode(enum elf_machine machine, const uint8_t *code, size_t size)
{
	uint32_t stack_bytes = 0;
	size_t offset = 0;

	if (machine != ELF_MACHINE_X86_64)
		return 0;
	while (offset < size) {
		struct instruction at = instruction_decode(code + offset, size - offset);

		if (!at.truncated && is_emulated(&at))
			return (uint32_t)offset;
		if (instruction_pass(&at, 1u << RAX, &stack_bytes) || stack_bytes)
			break;
		offset += at.length;
	}
	return 0;
}

int return_find(const struct elf_file *file, uint64_t address, uint32_t *offset)
{
	uint8_t code[RETURN_BYTES_MAX];
	ssize_t got = elf_file_read(file, address, code, sizeof(code));

	*offset = got < 0 ? 0 : return_decode(elf_file_machine(file), code, (size_t)got);
	return got < 0 ? (int)got : 0;
}

int entry_find(const struct elf_file *file, uint64_t address, uint64_t size, struct entry_place *place)
{
	uint8_t code[ENTRY_BYTES_MAX];
	ssize_t got;

	if (size == 0 || size > sizeof(code))
		size = sizeof(code);
	got = elf_file_read(file, address, code, (size_t)size);
	if (got < 0)
		return (int)got;
	entry_decode(elf_file_machine(file), code, (size_t)got, place);
	return 0;
}

const char *entry_reason_text(enum entry_reason reason)
{
	switch (reason) {
	case ENTRY_EMULATED:
		return "the instruction is emulated by the kernel";
	case ENTRY_LONG_NOP:
		return "a long nop, which older kernels single-step";
	case ENTRY_ARGUMENT:
		return "an argument register is overwritten before the first emulated instruction";
	case ENTRY_STACK:
		return "the stack pointer cannot be followed to the first emulated instruction";
	case ENTRY_LOOP:
		return "the first emulated instruction is part of a loop";
	case ENTRY_END:
		return "the function is left before any emulated instruction";
	case ENTRY_UNKNOWN:
		return "an instruction before the first emulated one is unknown";
	case ENTRY_TRUNCATED:
		return "no emulated instruction near the entry";
	case ENTRY_MACHINE:
		return "entry code is not decoded for this machine";
	}
	return "unknown reason";
}
