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
