/* SPDX-License-Identifier: BSD-2-Clause */
/* Call sites, in files made by hand and in the real library. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "containers/containers.h"
#include "elf_image.h"
#include "torch/call_sites.h"
#include "torch/operators.h"

#define CALL_LENGTH 5
#define JUMP_LENGTH 6

/* --- made by hand ------------------------------------------------------------------- */

/* Addresses that need no bytes: a function that is called, another one, and the GOT slot of the first. */
#define FUNCTION (IMAGE_BASE + 0x100000)
#define OTHER (IMAGE_BASE + 0x200000)
#define SLOT (IMAGE_BASE + 0x300000)

#define MASK_AUTOGRAD ((1ull << 36) - 1)

/* What a library has: two functions of text, a PLT stub for FUNCTION, and an unwind table. */
struct library {
	uint8_t text[128];
	size_t size;
	uint64_t address, stub; /* of .text and of the stub */
	size_t second;          /* where the second function starts */
	uint8_t table_encoding;
};

/* Where the next section of an image will be. */
static uint64_t next_address(const struct image *image)
{
	return IMAGE_BASE + (image->size + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
}

static void text_put(struct library *library, const void *bytes, size_t size)
{
	memcpy(library->text + library->size, bytes, size);
	library->size += size;
}

/* Returns the address of the call. */
static uint64_t text_put_call(struct library *library, uint64_t target)
{
	uint64_t at = library->address + library->size;
	int32_t distance = (int32_t)(target - (at + CALL_LENGTH));

	text_put(library, "\xe8", 1);
	text_put(library, &distance, sizeof(distance));
	return at;
}

static void text_put_constant(struct library *library, uint64_t constant)
{
	text_put(library, "\x48\xba", 2); /* movabs $constant, %rdx */
	text_put(library, &constant, sizeof(constant));
}

static void plt_add(struct image *image, struct library *library)
{
	static const char strings[] = "\0function";
	Elf64_Sym symbols[2] = {{0}, {.st_name = 1,
					     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					     .st_shndx = 1,
					     .st_value = FUNCTION,
					     .st_size = 16}};
	Elf64_Rela relocation = {.r_offset = SLOT, .r_info = ELF64_R_INFO(1, R_X86_64_JUMP_SLOT)};
	uint8_t plt[16] = {0xff, 0x25};
	int32_t distance;

	image_symbols(image, ".dynsym", SHT_DYNSYM, symbols, 2, strings, sizeof(strings));
	image_section(image, ".rela.plt", SHT_RELA, &relocation, sizeof(relocation), 0);
	library->stub = next_address(image);
	distance = (int32_t)(SLOT - (library->stub + JUMP_LENGTH));
	memcpy(plt + 2, &distance, sizeof(distance));
	image_section(image, ".plt", SHT_PROGBITS, plt, sizeof(plt), 0);
}

static struct elf_file *library_finish(struct image *image, struct library *library)
{
	uint64_t header = next_address(image);
	struct {
		uint8_t encodings[4];
		int32_t frames;
		uint32_t count;
		int32_t table[4];
	} frames = {{1, 0x1b, 0x03, library->table_encoding}, 0, 2,
		{(int32_t)(library->address - header), 0, (int32_t)(library->address + library->second - header), 0}};
	struct elf_file *file;
	int fd;

	image_section(image, ".eh_frame_hdr", SHT_PROGBITS, &frames, sizeof(frames), 0);
	fd = image_finish(image);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	return file;
}

static void library_begin(struct image *image, struct library *library)
{
	*library = (struct library){.table_encoding = 0x3b};
	image_begin(image);
	plt_add(image, library);
	library->address = next_address(image);
}

static int find(struct elf_file *file, struct call_site **sites)
{
	static const uint64_t functions[] = {FUNCTION, OTHER};
	int error = call_sites_find(file, functions, 2, sites);

	elf_file_close(file);
	return error;
}

Test(call_sites, are_direct_calls_and_calls_of_stubs_with_their_constant)
{
	struct image image;
	struct library library;
	struct call_site *sites;
	uint64_t direct, by_stub, second;

	library_begin(&image, &library);
	direct = text_put_call(&library, OTHER);
	text_put_constant(&library, MASK_AUTOGRAD);
	by_stub = text_put_call(&library, library.stub);
	text_put(&library, "\xc3", 1);
	library.second = library.size;
	text_put_call(&library, FUNCTION + 1);
	second = text_put_call(&library, FUNCTION);
	text_put(&library, "\xc3\x90\x90\x90\x90\x90", 6);
	image_section(&image, ".text", SHT_PROGBITS, library.text, library.size, 0);
	cr_assert_eq(find(library_finish(&image, &library), &sites), 0);
	cr_assert_eq(arrlen(sites), 3);
	cr_assert_eq(sites[0].address, direct);
	cr_assert_eq(sites[0].function, OTHER);
	cr_assert_eq(sites[0].mask, 0, "no constant yet");
	cr_assert_eq(sites[1].address, by_stub);
	cr_assert_eq(sites[1].function, FUNCTION);
	cr_assert_eq(sites[1].mask, MASK_AUTOGRAD);
	cr_assert_eq(sites[2].address, second);
	cr_assert_eq(sites[2].mask, 0, "the constant of another function does not count");
	arrfree(sites);
}

Test(call_sites, are_no_bytes_inside_other_instructions)
{
	struct image image;
	struct library library;
	struct call_site *sites;

	library_begin(&image, &library);
	text_put(&library, "\x48\xb8\x90\x90\x90", 5); /* movabs: the call is part of its constant */
	text_put_call(&library, OTHER);
	text_put(&library, "\xc3", 1);
	library.second = library.size;
	text_put(&library, "\xc3\x90\x90\x90\x90\x90", 6);
	image_section(&image, ".text", SHT_PROGBITS, library.text, library.size, 0);
	cr_assert_eq(find(library_finish(&image, &library), &sites), 0);
	cr_assert_eq(arrlen(sites), 0);
	arrfree(sites);
}

Test(call_sites, need_an_unwind_table_that_is_known)
{
	struct image image;
	struct library library;
	struct call_site *sites;

	library_begin(&image, &library);
	library.table_encoding = 0x1b;
	text_put_call(&library, OTHER);
	text_put(&library, "\xc3\x90\x90\x90\x90\x90", 6);
	image_section(&image, ".text", SHT_PROGBITS, library.text, library.size, 0);
	cr_assert_eq(find(library_finish(&image, &library), &sites), -ENOENT);
	cr_assert_null(sites);
}

Test(call_sites, of_another_machine_are_not_decoded)
{
	struct image image;
	struct library library;
	struct call_site *sites;

	library_begin(&image, &library);
	image.header.e_machine = EM_AARCH64;
	image_section(&image, ".text", SHT_PROGBITS, library.text, sizeof(library.text), 0);
	cr_assert_eq(find(library_finish(&image, &library), &sites), -ENOTSUP);
}

/* --- the real library ------------------------------------------------------------------ */

#define TORCH_CPU "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"

static int address_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* The address that the GOT slot of a PLT stub gets, by the symbol of its relocation; 0: not such a stub. */
static uint64_t stub_target(const struct elf_file *file, uint64_t stub)
{
	struct elf_range relocations, symbols;
	uint8_t jump[JUMP_LENGTH];
	int32_t distance;

	cr_assert_eq(elf_file_section(file, ".rela.plt", &relocations), 0);
	cr_assert_eq(elf_file_section(file, ".dynsym", &symbols), 0);
	if (elf_file_read(file, stub, jump, sizeof(jump)) != sizeof(jump) || jump[0] != 0xff || jump[1] != 0x25)
		return 0;
	memcpy(&distance, jump + 2, sizeof(distance));
	for (uint64_t at = 0; at < relocations.size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela relocation;
		Elf64_Sym symbol;

		elf_file_read(file, relocations.address + at, &relocation, sizeof(relocation));
		if (relocation.r_offset != stub + JUMP_LENGTH + (uint64_t)distance)
			continue;
		elf_file_read(file, symbols.address + ELF64_R_SYM(relocation.r_info) * sizeof(symbol), &symbol,
			sizeof(symbol));
		return symbol.st_value;
	}
	return 0;
}

/* PyTorch as Debian 12 has it; the prototype, in another language, counted as many. */
Test(call_sites, of_the_real_library_are_calls_of_redispatch_functions, .timeout = 120)
{
	enum { SITES = 6573, STUBS_CHECKED = 40 };
	int fd = open(TORCH_CPU, O_RDONLY | O_CLOEXEC);
	struct torch_operators *operators;
	struct elf_file *file;
	struct call_site *sites;
	uint64_t *functions = NULL;
	size_t with_mask = 0;

	cr_assert_geq(fd, 0, "%s is missing", TORCH_CPU);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	cr_assert_eq(operators_find(file, &operators), 0);
	for (size_t i = 0; i < operators->count; i++)
		arrput(functions, operators->operators[i].redispatch.address);
	qsort(functions, arrlenu(functions), sizeof(functions[0]), address_compare);
	cr_assert_eq(call_sites_find(file, functions, arrlenu(functions), &sites), 0);
	cr_assert_eq(arrlen(sites), SITES, "%td sites", arrlen(sites));
	for (size_t i = 0; i < SITES; i++) {
		uint8_t call[CALL_LENGTH];
		uint64_t target;
		int32_t distance;

		cr_assert(i == 0 || sites[i - 1].address < sites[i].address);
		cr_assert_eq(elf_file_read(file, sites[i].address, call, sizeof(call)), CALL_LENGTH);
		cr_assert_eq(call[0], 0xe8);
		cr_assert_not_null(bsearch(
			&sites[i].function, functions, arrlenu(functions), sizeof(functions[0]), address_compare));
		with_mask += sites[i].mask != 0;
		memcpy(&distance, call + 1, sizeof(distance));
		target = sites[i].address + CALL_LENGTH + (uint64_t)distance;
		if (target != sites[i].function && i % (SITES / STUBS_CHECKED) == 0)
			cr_assert_eq(stub_target(file, target), sites[i].function, "site at %#lx", sites[i].address);
	}
	cr_assert_gt(with_mask, SITES * 9 / 10, "%zu sites have a mask", with_mask);
	arrfree(functions);
	arrfree(sites);
	torch_operators_free(operators);
	elf_file_close(file);
}
