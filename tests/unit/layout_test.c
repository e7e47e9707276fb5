/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts: what real libraries say of themselves, and what becomes of numbers that do not fit. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "elf_image.h"
#include "roots.h"
#include "torch/layout.h"
#include "torch/live.h"
#include "torch/operators.h"

#define BIT(bit) (1ull << (bit))

static struct elf_file *library_open(const char *root, const char *name)
{
	char *path = root_library(root, name);
	struct elf_file *file;
	int fd;

	if (!path)
		cr_skip_test("no %s in the root %s: scripts/test-root makes it", name, root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(elf_file_open(fd, &file), 0, "%s", path);
	close(fd);
	free(path);
	return file;
}

/* Of each version by its headers: DispatchKey.h, TensorImpl.h, accumulate_grad.h (compiled). */
static void library_check(
	const char *root, unsigned int minor, uint64_t included, uint64_t excluded, uint16_t storage, uint16_t variable)
{
	struct elf_file *c10 = library_open(root, "libc10"), *torch_cpu = library_open(root, "libtorch_cpu");
	unsigned int found_major, found_minor;
	struct torch_derived derived;
	struct torch_layout layout;
	const char *item;

	torch_derive(c10, torch_cpu, &derived);
	cr_assert_eq(torch_version(torch_cpu, &found_major, &found_minor), 0);
	if (found_minor == minor) {
		cr_assert_eq(derived.keys_included_default, included);
		cr_assert_eq(derived.keys_excluded_default, excluded);
		cr_assert_eq(derived.tensor_storage, storage);
		cr_assert_eq(derived.accumulate_variable, variable);
	}
	cr_assert_geq(torch_layout_make(found_major, found_minor, &derived, &layout, &item), 0);
	elf_file_close(c10);
	elf_file_close(torch_cpu);
}

Test(derive, from_the_libraries_of_1_13)
{
	library_check("", 13, BIT(26) | BIT(35), BIT(40) | BIT(41) | BIT(42), 24, 0x188);
}

Test(derive, from_the_libraries_of_2_6)
{
	library_check("cuda", 6, BIT(26) | BIT(35), 0xffull << 40, 16, 0x1d8);
}

Test(derive, from_the_libraries_of_2_14)
{
	library_check("latest", 14, BIT(26) | BIT(34), 0x3ffull << 39, 16, 0x1d0);
}

/* Of each version by its headers (torch/csrc/autograd/function.h, compiled), and by a debugger in a running job. */
static void nodes_check(const char *root, unsigned int minor, uint16_t sequence, uint32_t counter)
{
	struct elf_file *torch_cpu = library_open(root, "libtorch_cpu");
	unsigned int major, found_minor;
	struct torch_nodes nodes;

	torch_derive_nodes(torch_cpu, &nodes);
	cr_assert_eq(torch_version(torch_cpu, &major, &found_minor), 0);
	cr_expect_neq(nodes.counter.got, 0);
	cr_expect_neq(nodes.thread.got, 0);
	cr_expect_eq(nodes.thread_offset, nodes.sequence_offset + 24);
	if (found_minor == minor) {
		cr_expect_eq(nodes.sequence_offset, sequence);
		cr_expect_eq(nodes.counter.offset, counter);
	}
	elf_file_close(torch_cpu);
}

Test(derive, nodes_of_1_13)
{
	nodes_check("", 13, 24, 0);
}

Test(derive, nodes_of_2_6)
{
	nodes_check("cuda", 6, 24, 0x130);
}

Test(derive, nodes_of_2_14)
{
	nodes_check("latest", 14, 16, 0x178);
}

/* A variable that the loader fills with zeros; dispatcher_read finds the operators there in the end-to-end tests. */
static void dispatcher_check(const char *root)
{
	struct elf_file *torch_cpu = library_open(root, "libtorch_cpu");
	uint64_t address = torch_derive_dispatcher(torch_cpu);
	struct elf_range variables;

	cr_assert_eq(elf_file_section(torch_cpu, ".bss", &variables), 0);
	cr_expect(address >= variables.address && address < variables.address + variables.size);
	elf_file_close(torch_cpu);
}

Test(derive, dispatcher_of_each_version)
{
	dispatcher_check("");
	dispatcher_check("cuda");
	dispatcher_check("latest");
}

/* A function that is not as expected gives nothing, rather than something. */
Test(derive, nothing_from_a_library_without_the_functions)
{
	struct torch_derived derived;
	struct torch_nodes nodes;
	struct elf_file *file;
	struct image image;
	int fd;

	image_begin(&image);
	fd = image_finish(&image);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	torch_derive(file, file, &derived);
	cr_assert_eq(derived.keys_included_default | derived.keys_excluded_default, 0);
	cr_assert_eq(derived.tensor_storage | derived.accumulate_variable, 0);
	torch_derive_nodes(file, &nodes);
	cr_assert_eq(nodes.counter.got | nodes.thread.got | nodes.sequence_offset | nodes.thread_offset, 0);
	cr_assert_eq(torch_derive_dispatcher(file), 0);
	elf_file_close(file);
	close(fd);
}

/* An image with one function under that name. */
static uint16_t storage_of_code(const char *code, size_t size)
{
	static const char names[] = "\0_ZNK3c1010TensorImpl11has_storageEv";
	Elf64_Sym symbols[2] = {{0}, {.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_size = size}};
	struct torch_derived derived;
	struct elf_file *file;
	struct image image;
	int fd;

	image_begin(&image);
	symbols[1].st_shndx = image_section(&image, ".text", SHT_PROGBITS, code, size, 0);
	symbols[1].st_value = image.sections[symbols[1].st_shndx].sh_addr;
	image_symbols(&image, ".dynsym", SHT_DYNSYM, symbols, 2, names, sizeof(names));
	fd = image_finish(&image);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	torch_derive(file, file, &derived);
	elf_file_close(file);
	close(fd);
	return derived.tensor_storage;
}

Test(derive, the_storage_only_from_code_with_one_memory_operand)
{
	/* cmpq $0, 0x18(%rdi); setne %al; ret */
	static const char plain[] = "\x48\x83\x7f\x18\x00\x0f\x95\xc0\xc3";
	/* the same behind endbr64, at 0x10 */
	static const char marked[] = "\xf3\x0f\x1e\xfa\x48\x83\x7f\x10\x00\x0f\x95\xc0\xc3";
	/* mov 0x8(%rdi),%rax; cmpq $0,0x18(%rax); setne %al; ret */
	static const char twice[] = "\x48\x8b\x47\x08\x48\x83\x78\x18\x00\x0f\x95\xc0\xc3";

	cr_assert_eq(storage_of_code(plain, sizeof(plain) - 1), 0x18);
	cr_assert_eq(storage_of_code(marked, sizeof(marked) - 1), 0x10);
	cr_assert_eq(storage_of_code(twice, sizeof(twice) - 1), 0);
	cr_assert_eq(storage_of_code(plain, 3), 0, "cut in the middle of an instruction");
}

static const struct torch_derived good = {BIT(26) | BIT(35), 0xffull << 40, 16, 0x1d8};

Test(layout, follows_from_the_default_key_sets_and_the_storage)
{
	struct torch_layout layout;
	const char *item;

	cr_assert_eq(torch_layout_make(2, 6, &good, &layout, &item), LAYOUT_CHECKED);
	cr_assert_eq(layout.keys_backend, BIT(26) - 1);
	cr_assert_eq(layout.keys_inplace, BIT(35));
	cr_assert_eq(layout.keys_autograd, BIT(36) | BIT(37) | BIT(38));
	cr_assert_eq(layout.keys_fallback, BIT(32) | BIT(33) | BIT(34));
	cr_assert_eq(layout.storage_data, 16);
	cr_assert_eq(layout.storage_bytes, 48);
	cr_assert_eq(torch_layout_make(2, 3, &good, &layout, &item), LAYOUT_DERIVED);
}

/* What headers of these versions say (docs/versions.md), compiled: everything else must follow from the first four. */
Test(layout, of_versions_between_is_that_of_their_headers)
{
	static const struct {
		unsigned int minor;
		struct torch_derived derived;
		uint16_t data, bytes, elements;
		unsigned int select, inplace;
	} versions[] = {
		{0, {BIT(27) | BIT(36), 0xfull << 41, 24, 440}, 24, 56, 168, 27, 36},
		{2, {BIT(27) | BIT(36), 0x7full << 41, 24, 472}, 24, 56, 168, 27, 36},
		{4, {BIT(26) | BIT(35), 0x7full << 40, 16, 472}, 16, 48, 160, 26, 35},
		{7, {BIT(26) | BIT(35), 0x1ffull << 40, 16, 472}, 16, 48, 160, 26, 35},
		{10, {BIT(26) | BIT(35), 0x1ffull << 40, 16, 472}, 16, 48, 0, 26, 35},
		{13, {BIT(26) | BIT(35), 0x3ffull << 40, 16, 472}, 16, 48, 152, 26, 35},
	};

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		unsigned int inplace = versions[i].inplace;
		struct torch_layout layout;
		const char *item;

		cr_assert_eq(torch_layout_make(2, versions[i].minor, &versions[i].derived, &layout, &item),
			LAYOUT_DERIVED, "2.%u", versions[i].minor);
		cr_expect_eq(layout.storage_data, versions[i].data);
		cr_expect_eq(layout.storage_bytes, versions[i].bytes);
		cr_expect_eq(layout.tensor_elements, versions[i].elements, "2.%u", versions[i].minor);
		cr_expect_eq(layout.keys_backend, BIT(versions[i].select) - 1);
		cr_expect_eq(layout.keys_inplace, BIT(inplace));
		cr_expect_eq(layout.keys_autograd, BIT(inplace + 1) | BIT(inplace + 2) | BIT(inplace + 3));
		cr_expect_eq(layout.keys_fallback, BIT(inplace - 1) | BIT(inplace - 2) | BIT(inplace - 3));
	}
}

Test(layout, is_that_of_the_version_where_nothing_can_be_derived)
{
	static const struct torch_derived nothing;
	struct torch_layout layout, derived;
	const char *item;

	cr_assert_eq(torch_layout_make(2, 6, &nothing, &layout, &item), LAYOUT_TABLE);
	cr_assert_eq(torch_layout_make(2, 6, &good, &derived, &item), LAYOUT_CHECKED);
	cr_assert_arr_eq(&layout, &derived, sizeof(layout));
	cr_assert_eq(torch_layout_make(2, 3, &nothing, &layout, &item), -ENODATA);
	cr_assert_str_eq(item, "dispatch keys");
}

Test(layout, of_another_version_is_refused)
{
	static const struct {
		unsigned int major, minor;
	} versions[] = {{1, 12}, {1, 14}, {2, 15}, {0, 4}, {3, 0}, {9, 99}};
	struct torch_layout layout;
	const char *item;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		cr_assert_eq(torch_layout_make(versions[i].major, versions[i].minor, &good, &layout, &item), -ENOTSUP);
}

Test(layout, is_refused_where_the_library_disagrees_with_its_version)
{
	struct torch_derived other;
	struct torch_layout layout;
	const char *item;

	other = good;
	other.tensor_storage = 24;
	cr_assert_eq(torch_layout_make(2, 6, &other, &layout, &item), -EINVAL);
	cr_assert_str_eq(item, "TensorImpl");
	other = good;
	other.accumulate_variable = 0x188;
	cr_assert_eq(torch_layout_make(2, 6, &other, &layout, &item), -EINVAL);
	cr_assert_str_eq(item, "AccumulateGrad");
	other = good;
	other.keys_excluded_default = BIT(41);
	cr_assert_eq(torch_layout_make(2, 6, &other, &layout, &item), -EINVAL);
	cr_assert_str_eq(item, "dispatch keys");
}

Test(layout, is_refused_where_the_default_keys_are_no_such_sets)
{
	static const struct torch_derived wrong[] = {
		{BIT(26), 0xffull << 40, 16, 0},                     /* one key */
		{BIT(26) | BIT(30) | BIT(35), 0xffull << 40, 16, 0}, /* three */
		{BIT(26) | BIT(28), 0xffull << 40, 16, 0},           /* no room for what stands between them */
		{BIT(2) | BIT(35), 0xffull << 40, 16, 0},            /* no room for backends */
		{BIT(26) | BIT(35), 0xffull << 37, 16, 0},           /* autograd is excluded */
	};
	struct torch_layout layout;
	const char *item;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(torch_layout_make(2, 3, &wrong[i], &layout, &item), -EINVAL, "%zu", i);
		cr_assert_str_eq(item, "dispatch keys");
	}
}

/* --- in a process ------------------------------------------------------------------------ */

#define MEMORY_BASE 0x7f0000000000
#define TENSOR (MEMORY_BASE + 0x100)
#define TABLE (MEMORY_BASE + 0x200)
#define KEYS (MEMORY_BASE + 0x300)

static uint64_t memory[128]; /* from MEMORY_BASE on */

static int image_read(void *context, uint64_t address, void *buffer, size_t length)
{
	(void)context;
	if (address < MEMORY_BASE || address + length > MEMORY_BASE + sizeof(memory))
		return -EFAULT;
	memcpy(buffer, (uint8_t *)memory + (address - MEMORY_BASE), length);
	return 0;
}

static uint64_t *word(uint64_t address)
{
	return &memory[(address - MEMORY_BASE) / sizeof(uint64_t)];
}

/* A process as it should be, with a layout of 2.6. */
static struct torch_image image_good(struct torch_layout *layout)
{
	const char *item;

	cr_assert_eq(torch_layout_make(2, 6, &good, layout, &item), LAYOUT_CHECKED);
	memset(memory, 0x11, sizeof(memory));
	*word(TENSOR) = TABLE + 16;
	*word(TENSOR + 16) = 0;
	*word(KEYS) = 9;
	*word(KEYS + 8) = 8;
	return (struct torch_image){.layout = layout,
		.read = image_read,
		.undefined_tensor = TENSOR,
		.undefined_table = TABLE,
		.keys_got = KEYS};
}

Test(live, finds_nothing_wrong_where_everything_is_in_place)
{
	struct torch_layout layout;
	struct torch_image image = image_good(&layout);

	cr_assert_null(torch_live_fault(&image));
	image.undefined_tensor = image.keys_got = 0;
	memset(memory, 0x11, sizeof(memory));
	cr_assert_null(torch_live_fault(&image), "nothing to look at");
}

Test(live, tells_a_tensor_of_another_class_or_layout)
{
	struct torch_layout layout;
	struct torch_image image = image_good(&layout);

	*word(TENSOR) = TABLE;
	cr_assert_not_null(strstr(torch_live_fault(&image), "undefined tensor"));
	image = image_good(&layout);
	layout.tensor_storage = 24;
	cr_assert_not_null(strstr(torch_live_fault(&image), "undefined tensor"));
	image = image_good(&layout);
	image.undefined_tensor = 0x1000;
	cr_assert_not_null(strstr(torch_live_fault(&image), "undefined tensor"), "it cannot be read");
}

Test(live, tells_keys_that_the_loader_did_not_fill)
{
	struct torch_layout layout;
	struct torch_image image = image_good(&layout);

	*word(KEYS) = 0;
	cr_assert_not_null(strstr(torch_live_fault(&image), "dispatch keys"));
	image = image_good(&layout);
	*word(KEYS + 8) = 0x7fd5c63f5218;
	cr_assert_not_null(strstr(torch_live_fault(&image), "dispatch keys"), "an address is no offset");
	image = image_good(&layout);
	image.keys_got = MEMORY_BASE + sizeof(memory) - 8;
	cr_assert_not_null(strstr(torch_live_fault(&image), "dispatch keys"), "half of it cannot be read");
}
