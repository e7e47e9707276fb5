/* SPDX-License-Identifier: BSD-2-Clause */
/* Where functions return, in code made by hand and in this program. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <unistd.h>

#include "containers/containers.h"
#include "elf_image.h"
#include "symbol/function_ends.h"

/* Two functions, the second one at SECOND, padded to the start of a third. */
#define SECOND 32
#define THIRD 48

struct code {
	uint8_t text[64];
	size_t size; /* of the first function */
};

struct found {
	uint64_t offsets[8];
	size_t count;
	bool complete;
};

static struct elf_file *code_file(const struct code *code, uint64_t *address)
{
	struct image image;
	struct elf_file *file;
	uint64_t header;
	int fd;

	image_begin(&image);
	*address = IMAGE_BASE + (image.size + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
	image_section(&image, ".text", SHT_PROGBITS, code->text, sizeof(code->text), 0);
	header = IMAGE_BASE + (image.size + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
	struct {
		uint8_t encodings[4];
		int32_t frames;
		uint32_t count;
		int32_t table[6];
	} frames = {{1, 0x1b, 0x03, 0x3b}, 0, 3,
		{(int32_t)(*address - header), 0, (int32_t)(*address + SECOND - header), 0,
			(int32_t)(*address + THIRD - header), 0}};

	image_section(&image, ".eh_frame_hdr", SHT_PROGBITS, &frames, sizeof(frames), 0);
	fd = image_finish(&image);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	return file;
}

static struct found ends_of(const struct code *code)
{
	struct found found = {.count = 0};
	struct function_starts starts;
	uint64_t address, *ends;
	struct elf_file *file = code_file(code, &address);

	cr_assert_eq(function_starts_load(file, &starts), 0);
	cr_assert_eq(function_ends_find(file, &starts, address, code->size, &ends, &found.complete), 0);
	for (; found.count < arrlenu(ends); found.count++)
		found.offsets[found.count] = ends[found.count] - address;
	arrfree(ends);
	function_starts_free(&starts);
	elf_file_close(file);
	return found;
}

#define CODE(first, second)                                                                                            \
	({                                                                                                             \
		struct code code = {.size = sizeof(first) - 1};                                                        \
		memset(code.text, 0xcc, sizeof(code.text));                                                            \
		memcpy(code.text, first, sizeof(first) - 1);                                                           \
		memcpy(code.text + SECOND, second, sizeof(second) - 1);                                                \
		ends_of(&code);                                                                                        \
	})

Test(function_starts, only_the_first_byte_of_a_function_is_its_start)
{
	struct code code = {.text = {0x55, 0x89, 0xf8, 0x5d, 0xc3}, .size = 5};
	struct function_starts starts;
	uint64_t address;
	struct elf_file *file = code_file(&code, &address);

	cr_assert_eq(function_starts_load(file, &starts), 0);
	cr_expect(function_starts_at(&starts, address));
	cr_expect(function_starts_at(&starts, address + THIRD));
	cr_expect_not(function_starts_at(&starts, address + 1));
	cr_expect_not(function_starts_at(&starts, address - 1));
	cr_expect_not(function_starts_at(&starts, 0));
	cr_expect_not(function_starts_at(&starts, UINT64_MAX));
	function_starts_free(&starts);
	elf_file_close(file);
}

Test(ends, are_the_returns_of_all_branches)
{
	/* test edi, edi; je +3; nop; nop; ret; bnd ret */
	struct found found = CODE("\x85\xff\x74\x03\x90\x90\xc3\xf2\xc3", "\xc3");

	cr_assert_eq(found.count, 2);
	cr_expect_eq(found.offsets[0], 6);
	cr_expect_eq(found.offsets[1], 7);
	cr_expect(found.complete);
}

Test(ends, are_no_bytes_inside_other_instructions)
{
	/* mov eax, 0xc3c3c3c3; ret */
	struct found found = CODE("\xb8\xc3\xc3\xc3\xc3\xc3", "\xc3");

	cr_assert_eq(found.count, 1);
	cr_expect_eq(found.offsets[0], 5);
}

Test(ends, of_a_function_that_jumps_to_another_are_those_of_that)
{
	/* jmp SECOND; there: push rbp; pop rbp; ret */
	struct found found = CODE("\xeb\x1e", "\x55\x5d\xc3");

	cr_assert_eq(found.count, 1);
	cr_expect_eq(found.offsets[0], SECOND + 2);
	cr_expect(found.complete);
}

Test(ends, are_not_looked_for_behind_the_last_call)
{
	/* je +1; ret; call SECOND, which does not come back */
	struct found found = CODE("\x74\x01\xc3\xe8\x18\x00\x00\x00", "\xc3");

	cr_assert_eq(found.count, 1);
	cr_expect_eq(found.offsets[0], 2);
	cr_expect(found.complete);
}

Test(ends, are_incomplete_where_only_the_processor_knows_the_way)
{
	/* je +2; jmp rax; ret */
	struct found found = CODE("\x74\x02\xff\xe0\xc3", "\xc3");

	cr_assert_eq(found.count, 1);
	cr_expect_not(found.complete);
	found = CODE("\xff\xe0", "\xc3");
	cr_expect_eq(found.count, 0);
	cr_expect_not(found.complete);
	/* A jump out of all that is known, and bytes that are no instruction. */
	found = CODE("\xe9\x00\x00\x10\x00", "\xc3");
	cr_expect_not(found.complete);
	found = CODE("\x06", "\xc3");
	cr_expect_not(found.complete);
}

Test(ends, of_a_loop_without_one_are_none)
{
	struct found found = CODE("\xeb\xfe", "\xc3"); /* jmp itself */

	cr_expect_eq(found.count, 0);
	cr_expect_not(found.complete);
}
