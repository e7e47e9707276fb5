/* SPDX-License-Identifier: BSD-2-Clause */
/* Where tensor arguments are when an operator function is entered. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "symbol/signature.h"

#define T "at::Tensor const&"
#define O "c10::optional<at::Tensor> const&"
#define L "c10::ArrayRef<at::Tensor>"

/* Writes slots as kind:place, for example "T0 L1 s16". */
static const char *places(const char *arguments, bool by_memory, enum optional_layout layout)
{
	static const char kinds[] = {'?', 'T', 'L', 'O', 'I', 'P'};
	static char text[512];
	struct signature signature;
	int at = 0, err = signature_parse(arguments, by_memory, layout, &signature);

	cr_assert_eq(err, 0, "%s: %d", arguments, err);
	cr_assert_eq(signature.unknown_types, 0, "%s", arguments);
	text[0] = '\0';
	for (int i = 0; i < signature.slot_count; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%c%d", i ? " " : "",
			kinds[signature.slots[i].kind], signature.slots[i].place);
	return text;
}
#define assert_places(arguments, by_memory, expected)                                                                  \
	cr_assert_str_eq(places(arguments, by_memory, OPTIONAL_C10), expected)
#define assert_places_std(arguments, by_memory, expected)                                                              \
	cr_assert_str_eq(places(arguments, by_memory, OPTIONAL_STD), expected)

/* The shapes whose slots were compared with the storages of a running PyTorch 1.13. */
Test(places, of_the_operator_shapes_in_use)
{
	assert_places(T ", " T ", c10::Scalar const&", true, "T1 T2");
	assert_places("at::Tensor&, " T ", c10::Scalar const&", false, "T0 T1");
	assert_places(T ", " T ", c10::Scalar const&, at::Tensor&", false, "T0 T1 T3");
	assert_places(T, true, "T1");
	assert_places(T ", c10::ArrayRef<long>", true, "T1");
	assert_places(
		T ", c10::ArrayRef<c10::SymInt>, c10::ArrayRef<c10::SymInt>, c10::optional<c10::SymInt>", true, "T1");
	assert_places(T ", " O ", " O ", " O ", " O ", bool, double, double, bool", true, "T1 O2 O3 O4 O5");
	assert_places(T ", c10::ArrayRef<c10::SymInt>, " O ", " O ", double", true, "T1 O4 O5");
	assert_places(T
		", " T ", " O
		", c10::ArrayRef<long>, c10::ArrayRef<long>, c10::ArrayRef<long>, bool, c10::ArrayRef<long>, long",
		true, "T1 T2 O3");
	assert_places(L ", long", true, "L1");
	assert_places("c10::IListRef<at::Tensor> const&, long", true, "I1");
	assert_places(T ", c10::List<c10::optional<at::Tensor> > const&", true, "T1 P2");
	assert_places(T ", c10::List<c10::optional<at::Tensor> > const&, " T ", bool", true, "T1 P2 T3");
	assert_places(L ", " L ", " L ", c10::Scalar const&", true, "L1 L3 L16");
	assert_places(L ", " L ", " L ", c10::Scalar const&", false, "L0 L2 L4");
	assert_places(L ", " L ", c10::Scalar const&", false, "L0 L2");
	assert_places("c10::ArrayRef<long>, c10::optional<c10::ScalarType>, c10::optional<c10::Layout>, "
		      "c10::optional<c10::Device>, c10::optional<bool>, c10::optional<c10::MemoryFormat>",
		true, "");
	assert_places(
		T ", c10::OptionalArrayRef<long>, bool, c10::optional<c10::ScalarType>, at::Tensor&", false, "T0 T5");
	assert_places(T ", bool, c10::optional<at::Generator>, at::Tensor&", false, "T0 T3");
	assert_places("double, " T ", double, " T, true, "T1 T2");
	assert_places(T ", " T ", c10::optional<long>, c10::optional<double>, at::Tensor&", true, "T1 T2 T16");
}

Test(places, start_behind_a_key_set_in_redispatch)
{
	struct signature signature;

	assert_places("c10::DispatchKeySet, " T ", " T, true, "T2 T3");
	assert_places("c10::DispatchKeySet, at::Tensor&, " T, false, "T1 T2");
	cr_assert_eq(signature_parse("c10::DispatchKeySet, " T, true, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.key_set_place, 1);
	cr_assert_eq(signature_parse("c10::DispatchKeySet, " T, false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.key_set_place, 0);
	cr_assert_eq(signature_parse(T ", c10::DispatchKeySet", false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.key_set_place, PLACE_NONE, "only the first argument is one");
}

Test(places, of_two_words_are_both_in_registers_or_both_on_the_stack)
{
	/* Five registers are in use: the list goes to the stack, the tensor after it takes the sixth. */
	assert_places("long, long, long, long, long, " L ", " T, false, "L16 T5");
	assert_places("long, long, long, long, long, " L ", " T ", " T, false, "L16 T5 T18");
	assert_places("long, long, long, long, " L ", " T, false, "L4 T16");
}

Test(places, on_the_stack_count_words)
{
	assert_places("long, long, long, long, long, long, long, " T ", c10::optional<long>, " T, false, "T17 T20");
	/* 24 bytes in memory, whatever registers are left. */
	assert_places("c10::optional<c10::basic_string_view<char> >, " T, false, "T0");
	assert_places(
		"long, long, long, long, long, long, c10::optional<c10::basic_string_view<char> >, " T, false, "T19");
	/* The ninth double has no register. */
	assert_places("double, double, double, double, double, double, double, double, double, long, long, long, "
		      "long, long, long, " T,
		false, "T17");
}

Test(places, follow_the_optional_that_pytorch_was_built_with)
{
	assert_places_std(
		T ", c10::OptionalArrayRef<long>, bool, std::optional<c10::ScalarType>, at::Tensor&", false, "T0 T3");
	assert_places_std(T ", std::optional<c10::ArrayRef<double> >, at::Tensor&", false, "T0 T1");
	assert_places(T ", c10::optional<c10::ArrayRef<double> >, at::Tensor&", false, "T0 T3");
	assert_places_std(T ", std::optional<at::Tensor> const&, std::optional<double>, std::optional<long>, " T, true,
		"T1 O2 T16");
	assert_places_std("c10::List<std::optional<at::Tensor> > const&", true, "P1");
	assert_places_std("std::basic_string_view<char, std::char_traits<char> >, " T, false, "T2");
}

Test(places, of_tensors_passed_by_hidden_pointer_read_like_references)
{
	assert_places(
		"at::Tensor, c10::optional<at::Tensor>, c10::Storage, c10::SymInt, at::Tensor", false, "T0 O1 T4");
}

Test(types, that_are_not_known_are_counted)
{
	struct signature signature;

	cr_assert_eq(signature_parse("at::Tensor const&, foo::Bar, " T, false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.unknown_types, 1);
	cr_assert_eq(signature.argument_count, 3);
	cr_assert_eq(signature_parse("c10::ArrayRef<std::optional<at::Tensor> >", false, OPTIONAL_STD, &signature), 0);
	cr_assert_eq(signature.unknown_types, 1, "tensors that are not read");
	cr_assert_eq(signature_parse("foo::Bar const&", false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.unknown_types, 0, "a reference is a pointer, whatever to");
	cr_assert_eq(signature_parse("c10::optional<foo::Bar>", false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.unknown_types, 1);
	cr_assert_eq(signature_parse("std::array<bool, 9ul>", false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.unknown_types, 1);
}

Test(types, of_malformed_lists_are_refused)
{
	struct signature signature;

	cr_assert_eq(signature_parse("", false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.argument_count, 0);
	cr_assert_eq(signature_parse(",", false, OPTIONAL_C10, &signature), -EINVAL);
	cr_assert_eq(signature_parse("long,", false, OPTIONAL_C10, &signature), -EINVAL);
	cr_assert_eq(signature_parse("a<b", false, OPTIONAL_C10, &signature), -EINVAL);
	cr_assert_eq(signature_parse("a>b", false, OPTIONAL_C10, &signature), -EINVAL);
}

Test(types, beyond_the_bounds_are_refused)
{
	struct signature signature;
	char text[8192] = "at::Tensor&";

	for (int i = 0; i < SIGNATURE_SLOTS_MAX - 1; i++)
		strcat(text, ", at::Tensor&");
	cr_assert_eq(signature_parse(text, false, OPTIONAL_C10, &signature), 0);
	cr_assert_eq(signature.slot_count, SIGNATURE_SLOTS_MAX);
	strcat(text, ", at::Tensor&");
	cr_assert_eq(signature_parse(text, false, OPTIONAL_C10, &signature), -E2BIG);
	strcpy(text, "long");
	for (int i = 0; i < 300; i++)
		strcat(text, ", long");
	cr_assert_eq(signature_parse(text, false, OPTIONAL_C10, &signature), -E2BIG);
}
