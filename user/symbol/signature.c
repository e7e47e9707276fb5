/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How arguments are passed, type by type. The classes follow from the layouts:
 * a type with its own copy or destructor (Tensor, SymInt, Generator, Storage,
 * and any optional of one) is passed by a hidden pointer; a trivial one of up
 * to 8 bytes in one register, of up to 16 in two or not at all in registers;
 * a larger one on the stack.
 */
#include "symbol/signature.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VECTOR_REGISTERS 8
#define ARGUMENTS_MAX 200 /* of one function */
#define STACK_WORDS_MAX (PLACE_NONE - PLACE_STACK - 1)

/* How a value goes over: so many general registers and vector registers, all or none of them, else stack words. */
struct passing {
	uint8_t general, vector, words; /* words: on the stack when there are no registers, or for lack of classes */
	bool unknown;
};

static const struct passing one_register = {1, 0, 1, false}, two_registers = {2, 0, 2, false},
			    three_words = {0, 0, 3, false}, one_vector = {0, 1, 1, false},
			    register_and_vector = {1, 1, 2, false}, unknown_passing = {1, 0, 1, true};

/* A type's text inside the argument list. */
struct span {
	const char *at;
	size_t length;
};

static bool span_is(struct span span, const char *text)
{
	return strlen(text) == span.length && !memcmp(span.at, text, span.length);
}

static bool span_starts(struct span span, const char *text)
{
	size_t length = strlen(text);

	return length <= span.length && !memcmp(span.at, text, length);
}

static bool span_ends(struct span span, char last)
{
	return span.length && span.at[span.length - 1] == last;
}

static struct span span_trim(struct span span)
{
	while (span.length && *span.at == ' ')
		span.at++, span.length--;
	while (span_ends(span, ' '))
		span.length--;
	return span;
}

/* The argument of a template with that name: "long" of name<long>. */
static bool span_unwrap(struct span span, const char *name, struct span *inner)
{
	size_t length = strlen(name);

	if (!span_starts(span, name) || span.length < length + 2 || span.at[length] != '<' || !span_ends(span, '>'))
		return false;
	*inner = span_trim((struct span){span.at + length + 1, span.length - length - 2});
	return true;
}

static bool span_unwrap_optional(struct span span, struct span *inner)
{
	return span_unwrap(span, "c10::optional", inner) || span_unwrap(span, "std::optional", inner);
}

/* --- classes ----------------------------------------------------------------- */

/* Trivial types of at most four bytes: still one register with the flag of an optional behind them. */
static bool is_small(struct span type)
{
	static const char *const names[] = {"bool", "char", "signed char", "unsigned char", "short", "unsigned short",
		"int", "unsigned int", "float", "c10::ScalarType", "c10::Layout", "c10::Device", "c10::DeviceType",
		"c10::MemoryFormat", "c10::QScheme", "torch::headeronly::ScalarType", "torch::headeronly::Layout",
		"torch::headeronly::DeviceType", "torch::headeronly::MemoryFormat"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (span_is(type, names[i]))
			return true;
	return false;
}

static bool is_eight_bytes(struct span type)
{
	return span_is(type, "long") || span_is(type, "unsigned long") || span_is(type, "long long") ||
	       span_is(type, "unsigned long long");
}

static bool is_non_trivial(struct span type)
{
	static const char *const names[] = {"at::Tensor", "at::Generator", "c10::Scalar", "c10::SymInt",
		"c10::SymFloat", "c10::SymBool", "c10::Storage", "at::Storage"};
	struct span inner;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (span_is(type, names[i]))
			return true;
	return span_unwrap(type, "c10::List", &inner) || span_unwrap(type, "c10::intrusive_ptr", &inner);
}

static bool is_string_view(struct span type)
{
	struct span inner;

	return span_is(type, "c10::string_view") || span_unwrap(type, "c10::basic_string_view", &inner) ||
	       span_unwrap(type, "std::basic_string_view", &inner);
}

static struct passing optional_passing(struct span inner, enum optional_layout layout)
{
	struct span element;

	if (is_small(inner) || is_non_trivial(inner))
		return one_register;
	if (is_eight_bytes(inner))
		return two_registers;
	if (span_is(inner, "double"))
		return register_and_vector;
	if (span_unwrap(inner, "c10::ArrayRef", &element))
		return layout == OPTIONAL_STD ? three_words : two_registers;
	if (is_string_view(inner))
		return three_words;
	return unknown_passing;
}

static bool is_bool_array(struct span type)
{
	struct span inner;
	char *end;

	if (!span_unwrap(type, "std::array", &inner) || !span_starts(inner, "bool, "))
		return false;
	return strtoul(inner.at + strlen("bool, "), &end, 10) <= 8;
}

static struct passing type_passing(struct span type, enum optional_layout layout)
{
	struct span inner;

	if (span_ends(type, '&') || span_ends(type, '*') || is_small(type) || is_eight_bytes(type) ||
		is_non_trivial(type) || is_bool_array(type)) {
		if (span_is(type, "float"))
			return one_vector;
		return one_register;
	}
	if (span_is(type, "double"))
		return one_vector;
	if (span_is(type, "c10::DispatchKeySet") || span_is(type, "at::Dimname"))
		return one_register;
	if (span_unwrap(type, "c10::ArrayRef", &inner) || is_string_view(type) || span_is(type, "c10::Stream"))
		return two_registers;
	if (span_unwrap(type, "c10::OptionalArrayRef", &inner))
		return layout == OPTIONAL_STD ? three_words : two_registers;
	if (span_unwrap_optional(type, &inner))
		return optional_passing(inner, layout);
	return unknown_passing;
}

/* --- tensors ----------------------------------------------------------------- */

/* Without a reference: a type passed by hidden pointer looks the same to the callee. */
static struct span without_reference(struct span type)
{
	while (span_ends(type, '&'))
		type = span_trim((struct span){type.at, type.length - 1});
	if (type.length > strlen(" const") &&
		!memcmp(type.at + type.length - strlen(" const"), " const", strlen(" const")))
		type.length -= strlen(" const");
	return type;
}

/* The kind of tensor argument, 0 if it is none. *hidden: it holds tensors in a way that is not read. */
static uint8_t tensor_kind(struct span type, bool *hidden)
{
	struct span base = without_reference(type), inner, element;
	bool reference = span_ends(type, '&');

	if (span_is(base, "at::Tensor"))
		return ARGUMENT_TENSOR;
	if (span_is(type, "c10::ArrayRef<at::Tensor>"))
		return ARGUMENT_TENSOR_LIST;
	if (span_unwrap_optional(base, &inner) && span_is(inner, "at::Tensor"))
		return ARGUMENT_OPTIONAL_TENSOR;
	if (reference && span_is(base, "c10::IListRef<at::Tensor>"))
		return ARGUMENT_ITENSOR_LIST;
	if (span_unwrap(base, "c10::List", &inner) && span_unwrap_optional(inner, &element) &&
		span_is(element, "at::Tensor"))
		return ARGUMENT_OPTIONAL_TENSOR_LIST;
	*hidden = memmem(type.at, type.length, "Tensor", strlen("Tensor")) != NULL;
	return 0;
}

/* --- places ------------------------------------------------------------------ */

struct allocation {
	unsigned int general, vector, words; /* in use */
};

/* Where a value of that passing begins. Registers are given all or none; later values may still use the rest. */
static unsigned int place_take(struct allocation *used, struct passing passing)
{
	unsigned int place;
	bool by_register = passing.general + passing.vector > 0;

	if (by_register && used->general + passing.general <= PLACE_REGISTERS &&
		used->vector + passing.vector <= VECTOR_REGISTERS) {
		place = used->general;
		used->general += passing.general;
		used->vector += passing.vector;
		return place;
	}
	place = PLACE_STACK + used->words;
	used->words += passing.words;
	return place;
}

static int argument_add(struct signature *out, struct span type, enum optional_layout layout, struct allocation *used)
{
	struct passing passing = type_passing(type, layout);
	bool hidden = false;
	uint8_t kind = tensor_kind(type, &hidden);
	unsigned int place = place_take(used, passing);

	if (out->argument_count == ARGUMENTS_MAX || used->words > STACK_WORDS_MAX)
		return -E2BIG;
	if (out->argument_count++ == 0 && span_is(type, "c10::DispatchKeySet"))
		out->key_set_place = (uint8_t)place;
	out->unknown_types += passing.unknown || hidden;
	if (!kind)
		return 0;
	if (out->slot_count == SIGNATURE_SLOTS_MAX)
		return -E2BIG;
	out->slots[out->slot_count++] =
		(struct argument_slot){kind, (uint8_t)place, (uint8_t)(out->argument_count - 1)};
	return 0;
}

/* The end of the type that starts at `at`: a comma outside of brackets, or the end. NULL: brackets do not match. */
static const char *type_end(const char *at)
{
	size_t depth = 0;

	for (; *at && (depth || *at != ','); at++) {
		if (*at == '<' || *at == '(')
			depth++;
		else if ((*at == '>' || *at == ')') && depth-- == 0)
			return NULL;
	}
	return depth ? NULL : at;
}

int signature_parse(const char *arguments, bool by_memory, enum optional_layout layout, struct signature *out)
{
	struct allocation used = {.general = by_memory ? 1 : 0};
	const char *end;
	int err = 0;

	*out = (struct signature){.key_set_place = PLACE_NONE};
	if (!*arguments)
		return 0;
	for (const char *at = arguments; !err; at = end + 1) {
		struct span type;

		end = type_end(at);
		if (!end)
			return -EINVAL;
		type = span_trim((struct span){at, (size_t)(end - at)});
		if (type.length == 0)
			return -EINVAL;
		err = argument_add(out, type, layout, &used);
		if (!*end)
			break;
	}
	return err;
}
