/* SPDX-License-Identifier: BSD-2-Clause */
/* What the ELF reader finds, in hand-made files and in real libraries, and what it refuses. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "elf_image.h"
#include "symbol/elf.h"

#define TORCH_CPU "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"
#define TORCH_C10 "/usr/lib/x86_64-linux-gnu/libc10.so.1.13"
#define PYTHON "/usr/bin/python3.11"

#define FUNCTION ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)
#define LOCAL_FUNCTION ELF64_ST_INFO(STB_LOCAL, STT_FUNC)
#define TLS_VARIABLE ELF64_ST_INFO(STB_GLOBAL, STT_TLS)
#define DATA ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT)

static int open_fd(int fd, struct elf_file **file)
{
	int err = elf_file_open(fd, file);

	close(fd);
	return err;
}

static struct elf_file *open_good(int fd)
{
	struct elf_file *file;

	cr_assert_eq(open_fd(fd, &file), 0);
	return file;
}

static struct elf_file *open_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0, "%s is missing", path);
	return open_good(fd);
}

static int bytes_fd(const void *bytes, size_t size)
{
	int fd = memfd_create("bytes", MFD_CLOEXEC);

	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	return fd;
}

static Elf64_Sym symbol(uint32_t name, uint8_t info, uint64_t address)
{
	return (Elf64_Sym){.st_name = name, .st_info = info, .st_shndx = 1, .st_value = address, .st_size = 16};
}

/* --- what is refused --------------------------------------------------------- */

Test(refuses, files_that_are_no_elf)
{
	struct elf_file *file;
	char zeros[4096] = {0};

	cr_assert_eq(open_fd(bytes_fd("", 0), &file), -ENOEXEC);
	cr_assert_eq(open_fd(bytes_fd("#!/bin/sh\n", 10), &file), -ENOEXEC);
	cr_assert_eq(open_fd(bytes_fd(ELFMAG, SELFMAG), &file), -ENOEXEC);
	cr_assert_eq(open_fd(bytes_fd(zeros, sizeof(zeros)), &file), -ENOEXEC);
	cr_assert_eq(open_fd(open("/", O_RDONLY), &file), -ENOEXEC);
	cr_assert_null(file);
	cr_assert_eq(elf_file_open(-1, &file), -EBADF);
}

Test(refuses, other_classes_orders_types_and_machines)
{
	struct elf_file *file;
	struct image image;

	image_begin(&image);
	image.header.e_ident[EI_CLASS] = ELFCLASS32;
	cr_assert_eq(open_fd(image_finish(&image), &file), -ENOEXEC);
	image_begin(&image);
	image.header.e_ident[EI_DATA] = ELFDATA2MSB;
	cr_assert_eq(open_fd(image_finish(&image), &file), -ENOEXEC);
	image_begin(&image);
	image.header.e_type = ET_REL;
	cr_assert_eq(open_fd(image_finish(&image), &file), -ENOEXEC);
	image_begin(&image);
	image.header.e_machine = EM_RISCV;
	cr_assert_eq(open_fd(image_finish(&image), &file), -ENOEXEC);
}

static int open_with_header(void (*change)(Elf64_Ehdr *header))
{
	struct elf_file *file;
	struct image image;
	Elf64_Ehdr header;
	int fd, err;

	image_begin(&image);
	fd = image_finish(&image);
	cr_assert_eq(pread(fd, &header, sizeof(header), 0), (ssize_t)sizeof(header));
	change(&header);
	cr_assert_eq(pwrite(fd, &header, sizeof(header), 0), (ssize_t)sizeof(header));
	err = open_fd(fd, &file);
	elf_file_close(file);
	return err;
}

static void many_sections(Elf64_Ehdr *header)
{
	header->e_shnum = 0xfeff;
}

static void extended_sections(Elf64_Ehdr *header)
{
	header->e_shnum = 0;
}

static void sections_outside(Elf64_Ehdr *header)
{
	header->e_shoff = UINT64_MAX - 8;
}

static void segments_outside(Elf64_Ehdr *header)
{
	header->e_phoff = 1ull << 40;
}

static void many_segments(Elf64_Ehdr *header)
{
	header->e_phnum = 0xffff;
}

Test(refuses, tables_beyond_the_file_or_beyond_reason)
{
	cr_assert_eq(open_with_header(many_sections), -EFBIG);
	cr_assert_eq(open_with_header(extended_sections), -EFBIG);
	cr_assert_eq(open_with_header(many_segments), -EFBIG);
	cr_assert_eq(open_with_header(sections_outside), -EBADMSG);
	cr_assert_eq(open_with_header(segments_outside), -EBADMSG);
}

Test(refuses, names_that_overlap_beyond_what_tables_do)
{
	enum { NAME = 60000, COUNT = 4000 };
	Elf64_Sym *symbols = calloc(COUNT, sizeof(*symbols));
	char *strings = malloc(NAME + 2);
	struct elf_file *file;
	struct image image;

	memset(strings, 'a', NAME + 1);
	strings[0] = strings[NAME + 1] = '\0';
	for (uint32_t i = 1; i < COUNT; i++)
		symbols[i] = symbol(1 + i, FUNCTION, i);
	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, symbols, COUNT, strings, NAME + 2);
	cr_assert_eq(open_fd(image_finish(&image), &file), -EBADMSG);
	free(symbols);
	free(strings);
}

Test(refuses, symbol_tables_outside_of_the_file)
{
	struct elf_file *file;
	struct image image;
	Elf64_Sym none = {0};

	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, &none, 1, "", 1);
	image.sections[2].sh_size = 1ull << 60;
	cr_assert_eq(open_fd(image_finish(&image), &file), -EBADMSG);
	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, &none, 1, "", 1);
	image.sections[2].sh_link = 77;
	cr_assert_eq(open_fd(image_finish(&image), &file), -EBADMSG);
}

/* --- symbols ----------------------------------------------------------------- */

Test(symbols, are_found_by_their_exact_name_only)
{
	static const char strings[] = "\0alpha\0alphabet\0beta\0gone";
	Elf64_Sym symbols[] = {{0}, symbol(7, FUNCTION, 0x20), symbol(1, DATA, 0x10), symbol(16, TLS_VARIABLE, 0x8),
		{.st_name = 21, .st_info = FUNCTION, .st_shndx = SHN_UNDEF}};
	struct elf_file *file;
	struct image image;
	size_t count;

	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, symbols, 5, strings, sizeof(strings));
	file = open_good(image_finish(&image));
	elf_file_symbols(file, &count);
	cr_assert_eq(count, 3);
	cr_assert_eq(elf_file_symbol(file, "alpha")->address, 0x10);
	cr_assert_eq(elf_file_symbol(file, "alpha")->kind, ELF_OBJECT);
	cr_assert_eq(elf_file_symbol(file, "alphabet")->kind, ELF_FUNCTION);
	cr_assert_eq(elf_file_symbol(file, "alphabet")->size, 16);
	cr_assert_eq(elf_file_symbol(file, "beta")->kind, ELF_TLS);
	cr_assert_null(elf_file_symbol(file, "alphab"));
	cr_assert_null(elf_file_symbol(file, "gone"), "an undefined symbol is not a place");
	cr_assert_null(elf_file_symbol(file, ""));
	cr_assert_null(elf_file_symbol(file, "zeta"));
	elf_file_close(file);
}

/* The tables of this very program, let go and read again. */
Test(symbols, are_there_again_after_the_tables_were_released)
{
	struct elf_file *file = open_path("/proc/self/exe");
	struct elf_symbol before;
	struct elf_range text, again;
	size_t count, released;

	elf_file_symbols(file, &count);
	before = *elf_file_symbol(file, "elf_file_open");
	cr_assert_eq(elf_file_section(file, ".text", &text), 0);
	elf_file_release(file);
	elf_file_release(file);
	cr_assert_eq(elf_file_symbol(file, "elf_file_open")->address, before.address);
	elf_file_symbols(file, &released);
	cr_assert_eq(released, count);
	elf_file_release(file);
	cr_assert_eq(elf_file_section(file, ".text", &again), 0);
	cr_assert_eq(again.address, text.address);
	elf_file_release(file);
	elf_file_close(file);
}

Test(symbols, are_listed_by_prefix_in_the_order_of_bytes)
{
	/* Names that agree in their first eight bytes, and in the first sixteen. */
	static const char strings[] =
		"\0abcdefgh\0abcdefghi\0abcdefghijklmnop\0abcdefghijklmnoq\0abcdefg\0\xc3\xa4\0abcdefghijklmnopq";
	static const uint32_t names[] = {1, 10, 20, 37, 54, 62, 65};
	static const char *const expected[] = {"abcdefg", "abcdefgh", "abcdefghi", "abcdefghijklmnop",
		"abcdefghijklmnopq", "abcdefghijklmnoq", "\xc3\xa4"};
	Elf64_Sym symbols[8] = {{0}};
	const struct elf_symbol *found;
	struct elf_file *file;
	struct image image;
	size_t count;

	for (int i = 0; i < 7; i++)
		symbols[1 + i] = symbol(names[6 - i], FUNCTION, 1);
	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, symbols, 8, strings, sizeof(strings));
	file = open_good(image_finish(&image));
	found = elf_file_symbols(file, &count);
	cr_assert_eq(count, 7);
	for (size_t i = 0; i < count; i++)
		cr_assert_str_eq(found[i].name, expected[i]);
	found = elf_file_symbols_prefix(file, "abcdefghi", &count);
	cr_assert_eq(count, 4);
	cr_assert_str_eq(found[0].name, "abcdefghi");
	elf_file_symbols_prefix(file, "abcdefghijklmnopqr", &count);
	cr_assert_eq(count, 0);
	elf_file_symbols_prefix(file, "", &count);
	cr_assert_eq(count, 7);
	elf_file_close(file);
}

Test(symbols, prefer_the_default_version_then_exported_ones)
{
	static const char exported[] = "\0twice";
	static const char all[] = "\0twice@OLD\0twice@@NEW\0twice";
	static const uint16_t versions[] = {0, 0x8002, 3};
	Elf64_Sym dynamic[] = {{0}, symbol(1, FUNCTION, 0x10), symbol(1, FUNCTION, 0x20)};
	Elf64_Sym full[] = {
		{0}, symbol(22, LOCAL_FUNCTION, 0x30), symbol(1, FUNCTION, 0x10), symbol(11, FUNCTION, 0x20)};
	const struct elf_symbol *found;
	struct elf_file *file;
	struct image image;
	size_t count;

	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, dynamic, 3, exported, sizeof(exported));
	image_section(&image, ".gnu.version", SHT_GNU_versym, versions, sizeof(versions), 0);
	image_symbols(&image, ".symtab", SHT_SYMTAB, full, 4, all, sizeof(all));
	file = open_good(image_finish(&image));
	found = elf_file_symbols_prefix(file, "twice", &count);
	cr_assert_eq(count, 3, "both tables name the exported ones: %zu", count);
	cr_assert_eq(found[0].address, 0x20);
	cr_assert_eq(found[1].address, 0x10);
	cr_assert_eq(found[2].address, 0x30);
	cr_assert_eq(elf_file_symbol(file, "twice")->address, 0x20);
	elf_file_close(file);
}

Test(symbols, without_an_end_or_outside_of_their_table_are_left_out)
{
	static const char strings[] = {'\0', 'o', 'k', '\0', 'o', 'p', 'e', 'n'};
	Elf64_Sym symbols[] = {{0}, symbol(1, FUNCTION, 1), symbol(4, FUNCTION, 2), symbol(5000, FUNCTION, 3),
		symbol(UINT32_MAX, FUNCTION, 4)};
	struct elf_file *file;
	struct image image;
	size_t count;

	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, symbols, 5, strings, sizeof(strings));
	file = open_good(image_finish(&image));
	cr_assert_str_eq(elf_file_symbols(file, &count)->name, "ok");
	cr_assert_eq(count, 1);
	elf_file_close(file);
}

Test(symbols, of_a_file_without_any_are_none)
{
	struct elf_file *file;
	struct image image;
	size_t count;

	image_begin(&image);
	file = open_good(image_finish(&image));
	elf_file_symbols(file, &count);
	cr_assert_eq(count, 0);
	elf_file_symbols_prefix(file, "a", &count);
	cr_assert_eq(count, 0);
	cr_assert_null(elf_file_symbol(file, "a"));
	cr_assert_str_eq(elf_file_build_id(file), "");
	cr_assert_str_eq(elf_file_soname(file), "");
	elf_file_close(file);
}

/* --- places ------------------------------------------------------------------ */

Test(places, map_between_addresses_and_offsets_and_can_be_read)
{
	struct elf_range range;
	struct elf_file *file;
	struct image image;
	uint64_t offset, address;
	char bytes[64];

	image_begin(&image);
	image_section(&image, ".rodata", SHT_PROGBITS, "contents", 8, 0);
	image_section(&image, ".bss", SHT_NOBITS, "", 0, 0);
	image.sections[2].sh_size = 1 << 20;
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_section(file, ".rodata", &range), 0);
	cr_assert_eq(range.size, 8);
	cr_assert(range.in_file);
	cr_assert_eq(elf_file_offset(file, range.address, &offset), 0);
	cr_assert_eq(offset, range.offset);
	cr_assert_eq(elf_file_address(file, offset + 3, &address), 0);
	cr_assert_eq(address, range.address + 3);
	cr_assert_eq(elf_file_read(file, range.address, bytes, 8), 8);
	cr_assert_arr_eq(bytes, "contents", 8);
	cr_assert_eq(elf_file_section(file, ".bss", &range), 0);
	cr_assert_not(range.in_file);
	cr_assert_eq(elf_file_section(file, ".none", &range), -ENOENT);
	cr_assert_eq(elf_file_offset(file, IMAGE_BASE - 1, &offset), -ENOENT);
	cr_assert_eq(elf_file_address(file, 1ull << 50, &address), -ENOENT);
	cr_assert_eq(elf_file_read(file, UINT64_MAX, bytes, 8), -ENOENT);
	elf_file_close(file);
}

Test(addresses, of_a_code_mapping_are_those_of_its_segment_though_it_begins_in_another)
{
	const uint64_t code = 0x1240, page = 0x1000;
	struct elf_file *file;
	struct image image;
	uint64_t address;

	image_begin(&image);
	image_section(&image, ".text", SHT_PROGBITS, (char[0x3000]){0}, 0x3000, 0);
	image.segments[0].p_flags = PF_R;
	image.segments_end = code;
	image.header.e_phnum = 2;
	image.segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_offset = code,
		.p_vaddr = IMAGE_BASE + page + code,
		.p_filesz = page,
		.p_memsz = page};
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_code_address(file, page, &address), 0);
	cr_assert_eq(address, IMAGE_BASE + 2 * page);
	cr_assert_eq(elf_file_code_address(file, 2 * page, &address), 0);
	cr_assert_eq(address, IMAGE_BASE + 3 * page);
	cr_assert_eq(elf_file_code_address(file, 0, &address), -ENOENT, "no code");
	cr_assert_eq(elf_file_code_address(file, code + page, &address), -ENOENT, "behind it");
	elf_file_close(file);
}

Test(places, end_with_their_segment)
{
	struct elf_range range;
	struct elf_file *file;
	struct image image;
	char bytes[64];

	image_begin(&image);
	image_section(&image, ".data", SHT_PROGBITS, "0123456789", 10, 0);
	image.segments_end = image.sections[1].sh_offset + 10;
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_section(file, ".data", &range), 0);
	cr_assert_eq(elf_file_read(file, range.address + 4, bytes, sizeof(bytes)), 6);
	cr_assert_arr_eq(bytes, "456789", 6);
	cr_assert_eq(elf_file_read(file, range.address + 10, bytes, 1), -ENOENT);
	elf_file_close(file);
}

Test(places, of_a_file_that_was_truncated_meanwhile_are_none)
{
	struct elf_range range;
	struct elf_file *file;
	struct image image;
	char byte;
	int fd;

	image_begin(&image);
	image_section(&image, ".data", SHT_PROGBITS, "0123456789", 10, 0);
	fd = image_finish(&image);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	cr_assert_eq(elf_file_section(file, ".data", &range), 0);
	cr_assert_eq(ftruncate(fd, 64), 0);
	close(fd);
	cr_assert_eq(elf_file_read(file, range.address, &byte, 1), -ENOENT);
	elf_file_close(file);
}

Test(places, of_segments_that_lie_outside_of_the_file_are_none)
{
	struct elf_file *file;
	struct image image;
	uint64_t offset;
	char byte;

	image_begin(&image);
	image.header.e_phnum = 2;
	image.segments[1] =
		(Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x900000, .p_offset = 64, .p_filesz = 1ull << 40};
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_offset(file, 0x900000, &offset), -ENOENT);
	cr_assert_eq(elf_file_read(file, 0x900000, &byte, 1), -ENOENT);
	elf_file_close(file);
}

/* --- notes ------------------------------------------------------------------- */

static size_t note_write(uint8_t *at, const char *owner, uint32_t type, const void *description, uint32_t size)
{
	uint32_t name_size = (uint32_t)strlen(owner) + 1, header[3] = {name_size, size, type};
	size_t name_padded = (name_size + 3) & ~3u;

	memcpy(at, header, sizeof(header));
	memcpy(at + sizeof(header), owner, name_size);
	memcpy(at + sizeof(header) + name_padded, description, size);
	return sizeof(header) + name_padded + ((size + 3) & ~3u);
}

Test(notes, give_the_build_id_in_hex)
{
	uint8_t notes[256] = {0};
	size_t size = note_write(notes, "CORE", 3, "\1\2\3\4", 4);
	struct elf_file *file;
	struct image image;
	uint16_t section;

	size += note_write(notes + size, "GNU", NT_GNU_BUILD_ID, "\x00\xab\x10\xff\x7f", 5);
	image_begin(&image);
	section = image_section(&image, ".note.gnu.build-id", SHT_NOTE, notes, size, 0);
	image.header.e_phnum = 2;
	image.segments[1] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_align = 4, .p_offset = image.sections[section].sh_offset, .p_filesz = size};
	file = open_good(image_finish(&image));
	cr_assert_str_eq(elf_file_build_id(file), "00ab10ff7f");
	elf_file_close(file);
}

static size_t usdt_write(uint8_t *at, const uint64_t addresses[3], const char *strings, uint32_t size)
{
	uint8_t description[128];

	memcpy(description, addresses, 24);
	memcpy(description + 24, strings, size);
	return note_write(at, "stapsdt", 3, description, 24 + size);
}

Test(notes, give_usdt_points_moved_with_their_base)
{
	static const char strings[] = "torch\0malloc\0008@%rdi -8@%rsi";
	uint8_t notes[1024] = {0};
	struct elf_file *file;
	struct elf_usdt usdt;
	struct image image;
	size_t size, position = 0;
	uint16_t base;

	image_begin(&image);
	base = image_section(&image, ".stapsdt.base", SHT_PROGBITS, "", 1, 0);
	size = usdt_write(notes, (uint64_t[]){0x1000, 0x5000, 0}, strings, sizeof(strings));
	size += note_write(notes + size, "other", 3, "x", 1);
	size += usdt_write(notes + size, (uint64_t[]){0x1000, image.sections[base].sh_addr, 0x99}, "a\0b\0", 5);
	size += usdt_write(notes + size, (uint64_t[]){0x1000, 0, 0}, "no end", 6);
	image_section(&image, ".note.stapsdt", SHT_NOTE, notes, size, 0);
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_usdt(file, &position, &usdt), 1);
	cr_assert_str_eq(usdt.provider, "torch");
	cr_assert_str_eq(usdt.name, "malloc");
	cr_assert_str_eq(usdt.arguments, "8@%rdi -8@%rsi");
	cr_assert_eq(usdt.location, 0x1000 + image.sections[base].sh_addr - 0x5000);
	cr_assert_eq(usdt.semaphore, 0);
	cr_assert_eq(elf_file_usdt(file, &position, &usdt), 1);
	cr_assert_eq(usdt.location, 0x1000);
	cr_assert_eq(usdt.semaphore, 0x99);
	cr_assert_str_eq(usdt.arguments, "");
	cr_assert_eq(elf_file_usdt(file, &position, &usdt), 0, "a string without end is no point");
	elf_file_close(file);
}

Test(notes, that_are_cut_off_end_the_list)
{
	uint8_t notes[64] = {0};
	uint32_t huge[3] = {8, UINT32_MAX - 3, 3};
	struct elf_file *file;
	struct elf_usdt usdt;
	struct image image;
	size_t position = 0;

	memcpy(notes, huge, sizeof(huge));
	memcpy(notes + sizeof(huge), "stapsdt", 8);
	image_begin(&image);
	image_section(&image, ".note.stapsdt", SHT_NOTE, notes, sizeof(notes), 0);
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_usdt(file, &position, &usdt), 0);
	elf_file_close(file);
}

/* --- TLS --------------------------------------------------------------------- */

Test(tls, slot_pair_is_found_by_the_relocations_that_name_the_symbol)
{
	static const char strings[] = "\0wanted\0other";
	Elf64_Sym symbols[] = {{0}, {.st_name = 8, .st_info = TLS_VARIABLE}, {.st_name = 1, .st_info = TLS_VARIABLE}};
	Elf64_Rela relocations[] = {
		{.r_offset = 0x100, .r_info = ELF64_R_INFO(1, R_X86_64_DTPMOD64)},
		{.r_offset = 0x108, .r_info = ELF64_R_INFO(1, R_X86_64_DTPOFF64)},
		{.r_offset = 0x200, .r_info = ELF64_R_INFO(2, R_X86_64_TPOFF64)},
		{.r_offset = 0x300, .r_info = ELF64_R_INFO(2, R_X86_64_DTPMOD64)},
		{.r_offset = 0x308, .r_info = ELF64_R_INFO(2, R_X86_64_DTPOFF64)},
	};
	struct elf_file *file;
	struct image image;
	uint64_t got;

	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, symbols, 3, strings, sizeof(strings));
	image_section(&image, ".rela.dyn", SHT_RELA, relocations, sizeof(relocations), 0);
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_tls_got(file, "wanted", &got), 0);
	cr_assert_eq(got, 0x300);
	cr_assert_eq(elf_file_tls_got(file, "missing", &got), -ENOENT);
	elf_file_close(file);
	image_begin(&image);
	image_symbols(&image, ".dynsym", SHT_DYNSYM, symbols, 3, strings, sizeof(strings));
	image_section(&image, ".rela.dyn", SHT_RELA, relocations, 4 * sizeof(relocations[0]), 0);
	file = open_good(image_finish(&image));
	cr_assert_eq(elf_file_tls_got(file, "wanted", &got), -ENOENT, "half a pair is none");
	elf_file_close(file);
}

/* --- real files -------------------------------------------------------------- */

Test(real, libtorch_has_its_symbols_soname_and_key_set_slot)
{
	struct elf_file *file = open_path(TORCH_CPU);
	const struct elf_symbol *symbols;
	size_t count;
	uint64_t got, offset;

	cr_assert_eq(elf_file_machine(file), ELF_MACHINE_X86_64);
	cr_assert_str_eq(elf_file_soname(file), "libtorch_cpu.so.1.13");
	cr_assert_eq(strlen(elf_file_build_id(file)), 40);
	symbols = elf_file_symbols(file, &count);
	cr_assert(count > 33000);
	for (size_t i = 1; i < count; i++)
		cr_assert(strcmp(symbols[i - 1].name, symbols[i].name) <= 0);
	for (size_t i = 0; i < count; i += 97)
		cr_assert_str_eq(elf_file_symbol(file, symbols[i].name)->name, symbols[i].name);
	elf_file_symbols_prefix(file, "_ZN2at4_ops", &count);
	cr_assert_eq(count, 5904);
	cr_assert_eq(elf_file_tls_got(file, "_ZN3c104impl26raw_local_dispatch_key_setE", &got), 0);
	cr_assert_eq(elf_file_offset(file, got, &offset), 0);
	elf_file_close(file);
}

Test(real, c10_defines_the_key_set_as_a_tls_variable)
{
	struct elf_file *file = open_path(TORCH_C10);
	const struct elf_symbol *key_set = elf_file_symbol(file, "_ZN3c104impl26raw_local_dispatch_key_setE");

	cr_assert_not_null(key_set);
	cr_assert_eq(key_set->kind, ELF_TLS);
	cr_assert_eq(key_set->size, 16);
	elf_file_close(file);
}

Test(real, python_has_usdt_points_on_nops)
{
	struct elf_file *file = open_path(PYTHON);
	struct elf_usdt usdt;
	size_t position = 0, count = 0;

	for (; elf_file_usdt(file, &position, &usdt) == 1; count++) {
		uint8_t code;

		cr_assert_str_eq(usdt.provider, "python");
		cr_assert_eq(elf_file_read(file, usdt.location, &code, 1), 1);
		cr_assert_eq(code, 0x90);
		cr_assert_neq(usdt.semaphore, 0);
	}
	cr_assert_eq(count, 8);
	elf_file_close(file);
}
