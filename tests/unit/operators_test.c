/* SPDX-License-Identifier: BSD-2-Clause */
/* The operator table of a real library, and the schema rules it rests on. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "elf_image.h"
#include "roots.h"
#include "torch/operators.h"
#include "torch/operators_schema.h"

#define TORCH_CPU "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"
#define TORCH_C10 "/usr/lib/x86_64-linux-gnu/libc10.so.1.13"
#define PYTHON "/usr/bin/python3.11"

static struct elf_file *open_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_file *file;

	cr_assert(fd >= 0, "%s is missing", path);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	return file;
}

/* --- schemas ----------------------------------------------------------------- */

static void add(struct schemas *schemas, const char *text)
{
	cr_assert_eq(schemas_add(schemas, text, strlen(text), true), 0);
}

static enum schema_result result_of_type(const char *type)
{
	struct schemas schemas = {0};
	enum schema_result result;
	char text[256] = "f(Tensor self) -> ";

	strcat(text, type);
	add(&schemas, text);
	cr_assert_eq(schemas.count, 1);
	result = schemas.list[0].result;
	schemas_free(&schemas);
	return result;
}

Test(schema, says_whether_the_result_takes_the_first_register)
{
	static const char *const in_register[] = {"()", "bool", "int", "float", "ScalarType", "QScheme", "Tensor(a!)",
		"(Tensor(a!))", "(Tensor(a!) out)", "(int result)"};
	static const char *const by_memory[] = {"Tensor", "Tensor(a)", "Tensor[]", "Tensor(a)[]", "(Tensor, Tensor)",
		"(Tensor(a!), Tensor(b!))", "(Tensor values, Tensor indices)", "Scalar", "SymInt", "int[]",
		"(float, int)", "Tensor(a!)[]"};

	for (size_t i = 0; i < sizeof(in_register) / sizeof(in_register[0]); i++)
		cr_assert_eq(result_of_type(in_register[i]), SCHEMA_IN_REGISTER, "%s", in_register[i]);
	for (size_t i = 0; i < sizeof(by_memory) / sizeof(by_memory[0]); i++)
		cr_assert_eq(result_of_type(by_memory[i]), SCHEMA_BY_MEMORY, "%s", by_memory[i]);
	cr_assert_eq(result_of_type("Dict(Tensor, Tensor)"), SCHEMA_UNKNOWN);
	cr_assert_eq(result_of_type("int?"), SCHEMA_UNKNOWN);
}

Test(schema, counts_arguments_outside_of_brackets_and_quotes)
{
	struct schemas schemas = {0};

	add(&schemas, "a() -> ()");
	add(&schemas, "b(Tensor(a!) self, int[2] x=[0, 1], *, str s=\"a, (b\", Tensor? t=None) -> Tensor");
	add(&schemas, "c(Tensor dummy, str a=\"\\\"'\\\\\", str b='\"\\'\\\\') -> Tensor");
	cr_assert_eq(schemas.list[0].argument_count, 0);
	cr_assert_eq(schemas.list[1].argument_count, 4);
	cr_assert_eq(schemas.list[2].argument_count, 3);
	schemas_free(&schemas);
}

Test(schema, is_found_by_the_cpp_name_and_the_number_of_arguments)
{
	struct schemas schemas = {0};

	add(&schemas, "quantized::add.out(Tensor a, Tensor b) -> Tensor");
	add(&schemas, "aten::add.out(Tensor a, Tensor b, Tensor c) -> Tensor");
	add(&schemas, "add.out(Tensor a) -> Tensor");
	add(&schemas, "no arrow(Tensor a)");
	add(&schemas, "see foo(bar) -> baz");
	schemas_sort(&schemas);
	cr_assert_eq(schemas.count, 3);
	cr_assert_str_eq(schemas_find(&schemas, "add_out", 1)->name, "add.out");
	cr_assert_str_eq(schemas_find(&schemas, "add_out", 3)->name, "aten::add.out");
	cr_assert_str_eq(schemas_find(&schemas, "add_out", 2)->name, "quantized::add.out");
	cr_assert_str_eq(schemas_find(&schemas, "add_out", 9)->name, "add.out", "another overload of ours, not theirs");
	cr_assert_null(schemas_find(&schemas, "add", 1));
	schemas_free(&schemas);
}

Test(schema, is_found_as_the_tail_of_a_longer_one)
{
	struct schemas schemas = {0};
	const struct schema *schema;
	size_t skip;

	add(&schemas, "special_erfinv.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)");
	schemas_sort(&schemas);
	schema = schemas_find_tail(&schemas, "erfinv_out", 2, &skip);
	cr_assert_not_null(schema);
	cr_assert_str_eq(schema->name + skip, "erfinv.out");
	cr_assert_null(schemas_find_tail(&schemas, "erfinv_out", 3, &skip), "the arguments must fit");
	cr_assert_null(schemas_find_tail(&schemas, "erf_out", 2, &skip));
	schemas_free(&schemas);
}

static struct elf_file *file_with_rodata(const char *bytes, size_t size)
{
	struct elf_file *file;
	struct image image;
	int fd;

	image_begin(&image);
	image_section(&image, ".rodata", SHT_PROGBITS, bytes, size, 0);
	fd = image_finish(&image);
	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	return file;
}

/* Every border of the pieces in which a section is read must be harmless. */
Test(schema, is_found_once_wherever_it_lies_in_the_section)
{
	static const char text[] = "\0name.over(Tensor self) -> Tensor";
	enum { SIZE = 3 << 20 };
	char *bytes = malloc(SIZE);
	size_t expected = 0;
	struct schemas schemas;
	struct elf_file *file;

	memset(bytes, 'x', SIZE);
	for (size_t at = 0; at + sizeof(text) < SIZE; at += 4099, expected++)
		memcpy(bytes + at, text, sizeof(text));
	file = file_with_rodata(bytes, SIZE);
	cr_assert_eq(schemas_read(file, &schemas), 0);
	cr_assert_eq(schemas.count, expected, "%zu of %zu", schemas.count, expected);
	schemas_free(&schemas);
	elf_file_close(file);
	free(bytes);
}

Test(schema, texts_without_end_are_none)
{
	static const char bytes[] = {'\0', 'f', '(', ')', ' ', '-', '>', ' ', 'T'};
	struct elf_file *file = file_with_rodata(bytes, sizeof(bytes));
	struct schemas schemas;

	cr_assert_eq(schemas_read(file, &schemas), 0);
	cr_assert_eq(schemas.count, 0);
	schemas_free(&schemas);
	elf_file_close(file);
}

/* --- versions ---------------------------------------------------------------- */

static int version_of(struct elf_file *file, unsigned int expected_major, unsigned int expected_minor)
{
	unsigned int major, minor;
	int err = torch_version(file, &major, &minor);

	elf_file_close(file);
	return err ? err : (major == expected_major && minor == expected_minor);
}

Test(version, is_what_the_library_says)
{
	static const char option[] = "x\0TORCH_VERSION\0"
				     "2.14.1+cpu\0y";
	static const char far[] = "x\0TORCH_VERSION\0nothing\0"
				  "2.14.1\0y";

	cr_assert_eq(version_of(open_path(TORCH_CPU), 1, 13), 1);
	cr_assert_eq(version_of(open_path(TORCH_C10), 1, 13), 1);
	cr_assert_eq(version_of(file_with_rodata(option, sizeof(option)), 2, 14), 1);
	cr_assert_eq(version_of(file_with_rodata(far, sizeof(far)), 2, 14), -ENOENT);
	cr_assert_eq(version_of(open_path(PYTHON), 0, 0), -ENOENT);
}

/* --- the table --------------------------------------------------------------- */

static struct elf_file *library;
static struct torch_operators *table;

static void table_open(void)
{
	library = open_path(TORCH_CPU);
	cr_assert_eq(operators_find(library, &table), 0);
}

static void table_close(void)
{
	torch_operators_free(table);
	elf_file_close(library);
}

static const struct torch_operator *operator_named(const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (!strcmp(table->operators[i].name, name))
			return &table->operators[i];
	cr_assert_fail("%s is missing", name);
	return NULL;
}

TestSuite(table, .init = table_open, .fini = table_close);

Test(table, has_every_operator_with_its_schema)
{
	cr_assert_eq(table->count, 2952);
	cr_assert_eq(table->no_schema, 0);
	cr_assert_eq(table->uncertain, 0);
	cr_assert_eq(table->layout, OPTIONAL_C10);
	for (size_t i = 0; i < table->count; i++) {
		const struct torch_operator *operator_ = &table->operators[i];

		cr_assert_neq(operator_->call.address, 0);
		cr_assert_neq(operator_->redispatch.address, 0);
		cr_assert(operator_->redispatch.arguments.key_set_place <= 1, "%s", operator_->name);
		cr_assert_eq(operator_->redispatch.arguments.slot_count, operator_->call.arguments.slot_count);
		cr_assert_eq(strncmp(operator_->name, "aten.", 5), 0);
		cr_assert(i == 0 || strcmp(operator_[-1].name, operator_->name) < 0, "%s", operator_->name);
	}
}

Test(table, names_overloads_as_a_dispatch_mode_does)
{
	cr_assert_str_eq(operator_named("aten.add.Tensor")->symbol, "add_Tensor");
	cr_assert_str_eq(operator_named("aten.mm.default")->symbol, "mm");
	cr_assert_str_eq(operator_named("aten.__and__.Tensor")->symbol, "__and___Tensor");
	cr_assert_str_eq(operator_named("aten._foreach_add_.ScalarList")->symbol, "_foreach_add__ScalarList");
	cr_assert_str_eq(operator_named("aten.erfinv.out")->symbol, "erfinv_out");
}

Test(table, has_the_addresses_of_the_symbols)
{
	const struct torch_operator *add_operator = operator_named("aten.add.Tensor");
	const struct elf_symbol *call =
		elf_file_symbol(library, "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE");

	cr_assert_eq(add_operator->call.address, call->address);
	cr_assert_eq(add_operator->call.size, call->size);
}

Test(table, places_arguments_by_how_the_result_is_returned)
{
	const struct torch_operator *add_operator = operator_named("aten.add.Tensor");
	const struct torch_operator *in_place = operator_named("aten.add_.Tensor");
	const struct torch_operator *out = operator_named("aten.sum.IntList_out");

	cr_assert_eq(add_operator->call.arguments.slots[0].place, 1);
	cr_assert_eq(add_operator->redispatch.arguments.slots[0].place, 2);
	cr_assert_eq(add_operator->redispatch.arguments.key_set_place, 1);
	cr_assert_eq(in_place->call.arguments.slots[0].place, 0);
	cr_assert_eq(in_place->redispatch.arguments.key_set_place, 0);
	cr_assert_eq(out->call.arguments.slots[1].place, 5);
	cr_assert_eq(out->redispatch.arguments.slots[1].place, PLACE_STACK);
}

Test(table, marks_composite_and_lifting_operators)
{
	cr_assert(operator_named("aten.reshape.default")->flags & TORCH_COMPOSITE);
	cr_assert(operator_named("aten.dropout.default")->flags & TORCH_COMPOSITE);
	cr_assert(operator_named("aten.matmul.out")->flags & TORCH_COMPOSITE);
	cr_assert_not(operator_named("aten.mm.default")->flags & TORCH_COMPOSITE);
	cr_assert_not(operator_named("aten.silu.default")->flags & TORCH_COMPOSITE);
	cr_assert_not(operator_named("aten.silu_backward.default")->flags & TORCH_COMPOSITE);
	cr_assert_eq(table->composite, 850); /* 853 in the registry, three of which have kernels too */
	cr_assert(operator_named("aten.lift_fresh.default")->flags & TORCH_LIFT);
	cr_assert(operator_named("aten.lift.default")->flags & TORCH_LIFT);
	cr_assert_not(operator_named("aten.lift_fresh_copy.default")->flags & TORCH_LIFT);
}

/* Of a later version: signatures have std::optional, and still nothing is guessed. */
static void root_check(const char *root)
{
	char *path = root_library(root, "libtorch_cpu");
	struct torch_operators *operators;
	struct elf_file *file;
	bool kept = false;

	if (!path)
		cr_skip_test("no PyTorch in the root %s: scripts/test-root makes it", root);
	file = open_path(path);
	cr_assert_eq(operators_find(file, &operators), 0);
	cr_assert_gt(operators->count, 3000);
	cr_assert_eq(operators->no_schema, 0);
	cr_assert_eq(operators->uncertain, 0);
	cr_assert_eq(operators->layout, OPTIONAL_STD);
	for (size_t i = 0; i < operators->count; i++) {
		const struct torch_operator *operator_ = &operators->operators[i];

		cr_assert_neq(operator_->call.address, 0, "%s", operator_->name);
		cr_assert_neq(operator_->redispatch.address, 0, "%s", operator_->name);
		cr_assert(operator_->redispatch.arguments.key_set_place <= 1, "%s", operator_->name);
		/* An optional array takes three stack words: `out` stands behind them. */
		if (!strcmp(operator_->name, "aten.sum.IntList_out")) {
			kept = true;
			cr_assert_eq(operator_->call.arguments.slots[1].place, 3);
			cr_assert_eq(operator_->redispatch.arguments.slots[1].place, 4);
		}
	}
	cr_assert(kept);
	torch_operators_free(operators);
	elf_file_close(file);
	free(path);
}

Test(table, of_the_cuda_build_has_every_operator_with_its_schema, .timeout = 120)
{
	root_check("cuda");
}

Test(table, of_the_latest_version_has_every_operator_with_its_schema, .timeout = 120)
{
	root_check("latest");
}

Test(libraries, without_operators_have_no_table)
{
	struct elf_file *file = open_path(TORCH_C10);
	struct torch_operators *none;

	cr_assert_eq(operators_find(file, &none), -ENOENT);
	cr_assert_null(none);
	elf_file_close(file);
}
