/* SPDX-License-Identifier: BSD-2-Clause */
/* USDT points: what their operands say, and where they are probed. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#include "elf_image.h"
#include "probe/usdt.h"

Test(operands, are_registers_and_memory_near_them)
{
	static const struct {
		const char *text;
		unsigned int index;
		struct usdt_operand operand;
	} operands[] = {
		{"-8@%rax -1@%dl -8@%r14 -8@-104(%rbp)", 0, {.register_ = USDT_RAX}},
		{"-8@%rax -1@%dl -8@%r14 -8@-104(%rbp)", 2, {.register_ = USDT_R14}},
		{"-8@%rax -1@%dl -8@%r14 -8@-104(%rbp)", 3, {.register_ = USDT_RBP, .memory = 1, .offset = -104}},
		{"8@(%rsp)", 0, {.register_ = USDT_RSP, .memory = 1}},
		{"8@1024(%r8)", 0, {.register_ = USDT_R8, .memory = 1, .offset = 1024}},
		{"  8@%rdi  8@%r9", 1, {.register_ = USDT_R9}},
	};
	struct usdt_operand operand;

	for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++) {
		cr_assert_eq(
			usdt_operand_parse(operands[i].text, operands[i].index, &operand), 0, "%s", operands[i].text);
		cr_expect(memcmp(&operand, &operands[i].operand, sizeof(operand)) == 0, "%s", operands[i].text);
	}
}

Test(operands, of_other_kinds_are_refused)
{
	static const char *const texts[] = {"4@%eax", "-1@%dl", "8@$5", "8@%xmm0", "8@", "8@8(%rax", "8@x(%rax)",
		"8@8(%rax,%rbx)", "8@99999999999(%rax)", "8@5x(%rax)", "@%rax", "8%rax", "8@%raxx", "8@%ra"};
	struct usdt_operand operand;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_eq(usdt_operand_parse(texts[i], 0, &operand), -ENOTSUP, "%s", texts[i]);
	cr_expect_eq(usdt_operand_parse("", 0, &operand), -ENOENT);
	cr_expect_eq(usdt_operand_parse("8@%rax 8@%rbx ", 2, &operand), -ENOENT);
}

/* Offset of the place for a point behind these bytes, with a counter unless `plain`; SIZE_MAX: refused. */
static size_t place_behind(const uint8_t *code, size_t size, bool plain)
{
	struct elf_usdt usdt = {.semaphore = plain ? 0 : 0x1000};
	struct elf_file *file;
	struct image image;
	uint64_t address;
	int error, fd;

	image_begin(&image);
	image_section(&image, ".text", SHT_PROGBITS, code, size, 0);
	usdt.location = image.sections[1].sh_addr + size - 1;
	fd = image_finish(&image);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	error = usdt_place_find(file, &usdt, &address);
	elf_file_close(file);
	if (error)
		cr_assert_eq(error, -ENOTSUP);
	return error ? SIZE_MAX : (size_t)(address - (usdt.location - (size - 1)));
}

/* What a compiler puts in front of a point: the counter is loaded or compared, and a branch goes around. */
#define PADDING 0x48, 0x8d, 0x0d, 1, 2, 3, 4, 0x48, 0x8d, 0x0d, 1, 2, 3, 4, 0x90, 0x90
#define NOP 0x90

Test(places, are_the_branch_that_looks_at_the_counter)
{
	static const uint8_t loaded[] = {PADDING, 0x66, 0x85, 0xf6, 0x74, 0xb1, NOP};
	static const uint8_t loaded_high[] = {PADDING, 0x66, 0x45, 0x85, 0xc0, 0x0f, 0x84, 1, 2, 3, 4, NOP};
	static const uint8_t compared[] = {PADDING, 0x66, 0x83, 0x3d, 1, 2, 3, 4, 0, 0x74, 0x10, NOP};

	cr_expect_eq(place_behind(loaded, sizeof(loaded), false), sizeof(loaded) - 3);
	cr_expect_eq(place_behind(loaded_high, sizeof(loaded_high), false), sizeof(loaded_high) - 7);
	cr_expect_eq(place_behind(compared, sizeof(compared), false), sizeof(compared) - 3);
}

Test(places, without_a_counter_are_the_points_themselves)
{
	static const uint8_t code[] = {PADDING, NOP};

	cr_expect_eq(place_behind(code, sizeof(code), true), sizeof(code) - 1);
}

Test(places, that_are_not_certain_are_refused)
{
	static const uint8_t no_branch[] = {PADDING, 0x66, 0x85, 0xf6, NOP};
	static const uint8_t other_branch[] = {PADDING, 0x66, 0x85, 0xf6, 0x75, 0xb1, NOP};
	static const uint8_t other_size[] = {PADDING, 0x48, 0x85, 0xf6, 0x74, 0xb1, NOP};
	static const uint8_t two_registers[] = {PADDING, 0x66, 0x85, 0xf7, 0x74, 0xb1, NOP};
	static const uint8_t other_value[] = {PADDING, 0x66, 0x83, 0x3d, 1, 2, 3, 4, 1, 0x74, 0x10, NOP};

	cr_expect_eq(place_behind(no_branch, sizeof(no_branch), false), SIZE_MAX);
	cr_expect_eq(place_behind(other_branch, sizeof(other_branch), false), SIZE_MAX);
	cr_expect_eq(place_behind(other_size, sizeof(other_size), false), SIZE_MAX);
	cr_expect_eq(place_behind(two_registers, sizeof(two_registers), false), SIZE_MAX);
	cr_expect_eq(place_behind(other_value, sizeof(other_value), false), SIZE_MAX);
}
