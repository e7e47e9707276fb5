// SPDX-License-Identifier: BSD-2-Clause
/*
 * Operands of USDT points on x86_64: SIZE@OPERAND, in the assembler's (AT&T)
 * notation. Format: SystemTap wiki, "UserSpaceProbeImplementation".
 */
#include "probe/usdt.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const register_names[USDT_REGISTERS] = {
	[USDT_RAX] = "%rax",
	[USDT_RDX] = "%rdx",
	[USDT_RCX] = "%rcx",
	[USDT_RBX] = "%rbx",
	[USDT_RSI] = "%rsi",
	[USDT_RDI] = "%rdi",
	[USDT_RBP] = "%rbp",
	[USDT_RSP] = "%rsp",
	[USDT_R8] = "%r8",
	[USDT_R9] = "%r9",
	[USDT_R10] = "%r10",
	[USDT_R11] = "%r11",
	[USDT_R12] = "%r12",
	[USDT_R13] = "%r13",
	[USDT_R14] = "%r14",
	[USDT_R15] = "%r15",
};

static bool register_parse(const char *text, size_t length, struct usdt_operand *operand)
{
	for (unsigned int index = 0; index < USDT_REGISTERS; index++)
		if (strlen(register_names[index]) == length && !strncmp(text, register_names[index], length)) {
			operand->register_ = (__u8)index;
			return true;
		}
	return false;
}

/* "-104(%rbp)" and "(%rbp)" */
static bool memory_parse(const char *text, size_t length, struct usdt_operand *operand)
{
	const char *open = memchr(text, '(', length);
	char *end;
	long offset;

	if (!open || text[length - 1] != ')')
		return false;
	errno = 0;
	offset = strtol(text, &end, 10);
	if (errno || offset < INT_MIN || offset > INT_MAX || (open != text && end != open))
		return false;
	operand->memory = 1;
	operand->offset = open == text ? 0 : (__s32)offset;
	return register_parse(open + 1, length - (size_t)(open + 1 - text) - 1, operand);
}

/* --- the place ------------------------------------------------------------------- */

/* Bytes in front of a point that are looked at. */
#define BEFORE_BYTES 16

#define PREFIX_16_BITS 0x66
#define PREFIX_REX 0x40 /* to 0x4f */
#define OPCODE_TEST 0x85
#define OPCODE_JE_SHORT 0x74
#define OPCODE_JE_LONG_0 0x0f
#define OPCODE_JE_LONG_1 0x84
#define JE_SHORT_BYTES 2
#define JE_LONG_BYTES 6

/* Do the bytes before `end` end with `test` of a 16-bit register, or with `cmpw $0` of a word near the code? */
static bool counter_is_tested(const uint8_t *end)
{
	bool rex = (end[-3] & 0xf0) == PREFIX_REX;

	/* 66 [rex] 85 /r with both registers, the same one */
	if (end[-2] == OPCODE_TEST && end[-1] >= 0xc0 && (end[-1] >> 3 & 7) == (end[-1] & 7))
		return end[rex ? -4 : -3] == PREFIX_16_BITS;
	/* 66 83 3d disp32 00 */
	return end[-8] == PREFIX_16_BITS && end[-7] == 0x83 && end[-6] == 0x3d && !end[-1];
}

int usdt_place_find(const struct elf_file *elf, const struct elf_usdt *usdt, uint64_t *address)
{
	uint8_t before[BEFORE_BYTES];
	const uint8_t *end = before + sizeof(before);

	*address = usdt->location;
	if (!usdt->semaphore)
		return 0;
	if (usdt->location < sizeof(before) ||
		elf_file_read(elf, usdt->location - sizeof(before), before, sizeof(before)) != sizeof(before))
		return -ENOTSUP;
	if (end[-JE_SHORT_BYTES] == OPCODE_JE_SHORT && counter_is_tested(end - JE_SHORT_BYTES))
		*address -= JE_SHORT_BYTES;
	else if (end[-JE_LONG_BYTES] == OPCODE_JE_LONG_0 && end[-JE_LONG_BYTES + 1] == OPCODE_JE_LONG_1 &&
		 counter_is_tested(end - JE_LONG_BYTES))
		*address -= JE_LONG_BYTES;
	else
		return -ENOTSUP;
	return 0;
}

/* --- operands ---------------------------------------------------------------------- */

int usdt_operand_parse(const char *text, unsigned int index, struct usdt_operand *operand)
{
	size_t length;

	memset(operand, 0, sizeof(*operand));
	for (text += strspn(text, " "); index; index--) {
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	if (!*text)
		return -ENOENT;
	text += *text == '-';
	if (strncmp(text, "8@", strlen("8@")))
		return -ENOTSUP;
	text += strlen("8@");
	length = strcspn(text, " ");
	if (!length || (!register_parse(text, length, operand) && !memory_parse(text, length, operand)))
		return -ENOTSUP;
	return 0;
}
