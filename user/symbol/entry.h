/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where in a function's first straight line of code to put its entry probe.
 * The kernel emulates a few instructions under a uprobe (push, nop, jmp, jcc,
 * call); any other one is single-stepped out of line and costs about 35 times
 * as much. So the probe moves forward to an emulated instruction, one that does
 * not write to the stack if there is any, as long as every call of the function
 * passes there with its integer arguments untouched and the way of the stack
 * pointer known.
 *
 * Limit: nothing shows whether that place is also the target of a jump back.
 */
#ifndef HDTRACE_SYMBOL_ENTRY_H
#define HDTRACE_SYMBOL_ENTRY_H

#include "symbol/elf.h"

/* Bytes of a function that are looked at. */
#define ENTRY_BYTES_MAX 256

enum entry_reason {
	ENTRY_EMULATED = 0, /* the kernel emulates the instruction at the place */
	ENTRY_LONG_NOP,     /* a nop of several bytes: emulated by new kernels only, nothing else was found */
	ENTRY_ARGUMENT,     /* an argument register is overwritten first */
	ENTRY_STACK,        /* the stack pointer moves in a way that is not followed */
	ENTRY_LOOP,         /* the first emulated instruction jumps back: it is passed several times a call */
	ENTRY_END,          /* the code leaves the function first (ret, indirect jump or call, trap) */
	ENTRY_UNKNOWN,      /* an instruction that this decoder does not know */
	ENTRY_TRUNCATED,    /* no such instruction within ENTRY_BYTES_MAX or the function */
	ENTRY_MACHINE,      /* not decoded for this machine */
};

struct entry_place {
	uint32_t offset;      /* bytes from the entry */
	uint32_t stack_bytes; /* the return address is at sp + stack_bytes there, stack argument k 8 + 8k above it */
	bool emulated;        /* false: the place is the entry itself and expensive, for `reason` */
	uint8_t reason;       /* enum entry_reason */
};

/* What a person should read about a reason; never NULL. */
const char *entry_reason_text(enum entry_reason reason);

/* Decodes the code of a function, `size` bytes from its entry. Always gives a place that can be probed. */
void entry_decode(enum elf_machine machine, const uint8_t *code, size_t size, struct entry_place *place);

/* The same for the function at `address` of a file, `size` bytes long (0: unknown). Errors: of elf_file_read. */
int entry_find(const struct elf_file *file, uint64_t address, uint64_t size, struct entry_place *place);

/*
 * Where behind a call its result can be seen at the least cost: bytes from the
 * instruction after the call to the first emulated one, with the result (rax)
 * and the stack pointer as the call left them; 0 where there is none.
 */
#define RETURN_BYTES_MAX 64
uint32_t return_decode(enum elf_machine machine, const uint8_t *code, size_t size);
/* The same for the address that a call returns to. Errors: of elf_file_read. */
int return_find(const struct elf_file *file, uint64_t address, uint32_t *offset);

#endif
