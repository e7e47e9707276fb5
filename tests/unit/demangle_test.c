/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and argument types of C++ functions, and that no mangled name makes unbounded text. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbol/demangle.h"
#include "symbol/elf.h"

#define TORCH_CPU "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"

#define assert_function(mangled, expected_name, expected_arguments)                                                    \
	do {                                                                                                           \
		struct demangled d = {0};                                                                              \
		cr_assert_eq(demangle_function(mangled, &d), 0);                                                       \
		cr_assert_str_eq(d.name, expected_name);                                                               \
		cr_assert_str_eq(d.arguments, expected_arguments);                                                     \
		demangle_free(&d);                                                                                     \
	} while (0)

static int refused(const char *mangled)
{
	struct demangled demangled = {0};
	int err = demangle_function(mangled, &demangled);

	demangle_free(&demangled);
	return err;
}

Test(function, is_split_into_name_and_argument_types)
{
	assert_function("_Z4mainv", "main", "");
	assert_function("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE", "at::_ops::add_Tensor::call",
		"at::Tensor const&, at::Tensor const&, c10::Scalar const&");
	assert_function("_ZN2at4_ops10add_Tensor10redispatchEN3c1014DispatchKeySetERKNS_6TensorES6_RKNS2_6ScalarE",
		"at::_ops::add_Tensor::redispatch",
		"c10::DispatchKeySet, at::Tensor const&, at::Tensor const&, c10::Scalar const&");
	assert_function("_Z1fN3c108optionalINS_8ArrayRefIdEEEE", "f", "c10::optional<c10::ArrayRef<double> >");
	assert_function("_Z1fSt8optionalISt17basic_string_viewIcSt11char_traitsIcEEE", "f",
		"std::optional<std::basic_string_view<char, std::char_traits<char> > >");
	assert_function("_Z1fSt5arrayIbLm3EEPKvOi", "f", "std::array<bool, 3ul>, void const*, int&&");
	assert_function("_ZN1a1bB5cxx11Ev", "a::b[abi:cxx11]", "");
	assert_function("_Z1fN1aIiLb1ELin5EEE", "f", "a<int, true, -5>");
}

Test(function, is_refused_by_name_where_its_grammar_is_not_known)
{
	cr_assert_eq(refused("main"), -ENOTSUP);
	cr_assert_eq(refused(""), -ENOTSUP);
	cr_assert_eq(refused("_Z"), -ENOTSUP);
	cr_assert_eq(refused("_ZplRK1aS1_"), -ENOTSUP, "operators");
	cr_assert_eq(refused("_Z1fPFivE"), -ENOTSUP, "function types");
	cr_assert_eq(refused("_Z1fIiEvT_"), -ENOTSUP, "template functions");
	cr_assert_eq(refused("_ZN1a1bILi3EEEvv"), -ENOTSUP, "template functions in namespaces");
	cr_assert_eq(refused("_Z99f"), -ENOTSUP, "a name longer than the text");
	cr_assert_eq(refused("_Z1fS5_"), -ENOTSUP, "a reference to nothing");
	cr_assert_eq(refused("_Z1f"), -ENOTSUP, "no arguments, not even void");
	cr_assert_eq(refused("_ZNE"), -ENOTSUP);
	cr_assert_eq(refused("_Z1fN1a"), -ENOTSUP, "no end");
}

/* A type whose every level holds the one before twice: 2^levels names in a short text. */
static char *doubling(int levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputs("_Z1f", out);
	for (int i = 0; i < levels; i++)
		fputs("1pI", out);
	fputs("1x", out);
	/* Parts 0 to levels - 1 are the names p, then comes x, then what each E completes. */
	for (int i = levels - 1; i < 2 * levels - 1; i++)
		fprintf(out, "S%c%c_E", digits[i / 36], digits[i % 36]);
	fclose(out);
	return text;
}

Test(function, that_stands_for_gigabytes_is_refused)
{
	char *mangled = malloc(DEMANGLE_NAME_MAX + 1);
	char *doubled = doubling(34);
	struct demangled demangled = {0};

	cr_assert_eq(demangle_function(doubled, &demangled), -E2BIG);
	cr_assert(demangled.capacity <= 2 * DEMANGLE_TEXT_MAX);
	demangle_free(&demangled);
	memset(mangled, 'P', DEMANGLE_NAME_MAX);
	memcpy(mangled, "_Z1f", 4);
	mangled[1000] = '\0';
	cr_assert_eq(refused(mangled), -E2BIG, "pointers to pointers to …");
	mangled[1000] = 'P';
	mangled[DEMANGLE_NAME_MAX] = '\0';
	cr_assert_eq(refused(mangled), -E2BIG);
	free(doubled);
	free(mangled);
}

Test(symbol, is_made_readable_for_messages)
{
	static const char *const names[][2] = {{"_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
						       "at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor "
						       "const&, c10::Scalar const&)"},
		{"cudaMalloc", "cudaMalloc"}, {"_Znonsense", "_Znonsense"}, {"", ""}, {"i", "i"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *text = demangle_symbol(names[i][0]);

		cr_assert_str_eq(text, names[i][1]);
		free(text);
	}
}

Test(symbol, that_could_grow_is_shown_mangled)
{
	char *mangled = doubling(30);
	char *text = demangle_symbol(mangled);

	cr_assert_str_eq(text, mangled);
	free(text);
	free(mangled);
}

Test(real, operator_functions_read_as_the_library_demangler_writes_them)
{
	extern char *__cxa_demangle(const char *, char *, size_t *, int *);
	int fd = open(TORCH_CPU, O_RDONLY);
	struct demangled demangled = {0};
	const struct elf_symbol *symbols;
	struct elf_file *file;
	size_t count;

	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	symbols = elf_file_symbols_prefix(file, "_ZN2at4_ops", &count);
	for (size_t i = 0; i < count; i++) {
		char *expected = __cxa_demangle(symbols[i].name, NULL, NULL, &(int){0}), *text;

		cr_assert_eq(demangle_function(symbols[i].name, &demangled), 0, "%s", symbols[i].name);
		cr_assert(asprintf(&text, "%s(%s)", demangled.name, demangled.arguments) > 0);
		cr_assert_str_eq(text, expected);
		free(text);
		free(expected);
	}
	demangle_free(&demangled);
	elf_file_close(file);
}
