/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A parser for the part of the C++ mangling that PyTorch's operator functions
 * use, and a guarded door to the library's demangler for everything that is
 * only shown. Every substitution is a range of the text written so far, so
 * that the bound on the text bounds the work too.
 */
#include "symbol/demangle.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64        /* nested types */
#define COMPONENTS_MAX 512  /* parts that a name can refer back to */
#define SHOWN_NAME_MAX 1024 /* bytes of a name given to the library's demangler */
/* Each reference to an earlier part multiplies the text by less than 3^(1/3): this many by less than 350. */
#define SHOWN_REFERENCES_MAX 16

/* From libstdc++ (cxxabi.h is C++ only). */
extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

struct component {
	uint32_t start, end; /* of text */
};

struct parser {
	const char *at;
	struct demangled *out;
	struct component components[COMPONENTS_MAX];
	size_t component_count;
	unsigned int depth;
	int err;
};

/* --- text -------------------------------------------------------------------- */

static bool fail(struct parser *parser, int err)
{
	if (!parser->err)
		parser->err = err;
	return false;
}

static bool text_reserve(struct parser *parser, size_t more)
{
	struct demangled *out = parser->out;
	size_t capacity = out->capacity ? out->capacity : 512;
	char *grown;

	if (more > DEMANGLE_TEXT_MAX - out->used)
		return fail(parser, -E2BIG);
	if (out->used + more <= out->capacity)
		return true;
	while (capacity < out->used + more)
		capacity *= 2;
	grown = realloc(out->text, capacity);
	if (!grown)
		return fail(parser, -ENOMEM);
	out->text = grown;
	out->capacity = capacity;
	return true;
}

static bool text_add(struct parser *parser, const char *bytes, size_t count)
{
	if (!text_reserve(parser, count))
		return false;
	memcpy(parser->out->text + parser->out->used, bytes, count);
	parser->out->used += count;
	return true;
}

static bool text_put(struct parser *parser, const char *string)
{
	return text_add(parser, string, strlen(string));
}

/* Repeats an earlier range of the text. */
static bool text_repeat(struct parser *parser, struct component range)
{
	struct demangled *out = parser->out;

	if (!text_reserve(parser, range.end - range.start))
		return false;
	memcpy(out->text + out->used, out->text + range.start, range.end - range.start);
	out->used += range.end - range.start;
	return true;
}

/* Makes the text since `start` a part that later ones can refer to. */
static bool component_add(struct parser *parser, size_t start)
{
	if (parser->component_count == COMPONENTS_MAX)
		return fail(parser, -E2BIG);
	parser->components[parser->component_count++] =
		(struct component){(uint32_t)start, (uint32_t)parser->out->used};
	return true;
}

/* --- grammar ----------------------------------------------------------------- */

static bool parse_type(struct parser *parser);

static bool take(struct parser *parser, char expected)
{
	if (*parser->at != expected)
		return false;
	parser->at++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* <source-name>: a decimal length and as many bytes. */
static bool parse_source_name(struct parser *parser)
{
	size_t length = 0;

	while (is_digit(*parser->at)) {
		length = length * 10 + (size_t)(*parser->at++ - '0');
		if (length > DEMANGLE_NAME_MAX)
			return fail(parser, -E2BIG);
	}
	if (length == 0 || strnlen(parser->at, length) < length)
		return fail(parser, -ENOTSUP);
	if (!text_add(parser, parser->at, length))
		return false;
	parser->at += length;
	/* ABI tags belong to the name. */
	while (take(parser, 'B')) {
		if (!is_digit(*parser->at))
			return fail(parser, -ENOTSUP);
		if (!text_put(parser, "[abi:") || !parse_source_name(parser) || !text_put(parser, "]"))
			return false;
	}
	return true;
}

/* The number in S<number>_: base 36, S_ is part 0 and S0_ part 1. */
static bool parse_component_number(struct parser *parser, size_t *number)
{
	size_t value = 0;
	bool any = false;

	for (;; parser->at++, any = true) {
		char c = *parser->at;

		if (is_digit(c))
			value = value * 36 + (size_t)(c - '0');
		else if (c >= 'A' && c <= 'Z')
			value = value * 36 + (size_t)(c - 'A') + 10;
		else
			break;
		if (value > COMPONENTS_MAX)
			return fail(parser, -ENOTSUP);
	}
	if (!take(parser, '_'))
		return fail(parser, -ENOTSUP);
	*number = any ? value + 1 : 0;
	return true;
}

/* <substitution> after its S. *standard: it was St, a bare namespace that is no part of its own. */
static bool parse_substitution(struct parser *parser, bool *standard)
{
	static const struct {
		char letter;
		const char *text;
	} abbreviations[] = {{'t', "std"}, {'a', "std::allocator"}, {'b', "std::basic_string"}, {'s', "std::string"},
		{'i', "std::istream"}, {'o', "std::ostream"}, {'d', "std::iostream"}};
	size_t number;

	*standard = *parser->at == 't';
	for (size_t i = 0; i < sizeof(abbreviations) / sizeof(abbreviations[0]); i++)
		if (take(parser, abbreviations[i].letter))
			return text_put(parser, abbreviations[i].text);
	if (!parse_component_number(parser, &number))
		return false;
	if (number >= parser->component_count)
		return fail(parser, -ENOTSUP);
	return text_repeat(parser, parser->components[number]);
}

/* <expr-primary> after its L: an integer, written as the type asks. */
static bool parse_literal(struct parser *parser)
{
	static const struct {
		char type;
		const char *suffix;
	} integers[] = {{'i', ""}, {'j', "u"}, {'l', "l"}, {'m', "ul"}, {'x', "ll"}, {'y', "ull"}};
	char type = *parser->at ? *parser->at++ : '\0';
	const char *digits;
	bool negative;

	if (type == 'b' && (*parser->at == '0' || *parser->at == '1'))
		return text_put(parser, *parser->at++ == '1' ? "true" : "false") &&
		       (take(parser, 'E') || fail(parser, -ENOTSUP));
	negative = take(parser, 'n');
	for (digits = parser->at; is_digit(*parser->at);)
		parser->at++;
	for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
		if (integers[i].type != type || parser->at == digits || !take(parser, 'E'))
			continue;
		return (!negative || text_put(parser, "-")) &&
		       text_add(parser, digits, (size_t)(parser->at - 1 - digits)) &&
		       text_put(parser, integers[i].suffix);
	}
	return fail(parser, -ENOTSUP);
}

/* <template-args> after its I. */
static bool parse_template_arguments(struct parser *parser)
{
	if (!text_put(parser, "<"))
		return false;
	for (bool first = true; !take(parser, 'E'); first = false) {
		if (!first && !text_put(parser, ", "))
			return false;
		if (!(take(parser, 'L') ? parse_literal(parser) : parse_type(parser)))
			return false;
	}
	return text_put(parser, parser->out->text[parser->out->used - 1] == '>' ? " >" : ">");
}

/*
 * <nested-name> after its N, up to and with its E. Every prefix is a part to
 * refer to; the whole is one only if it is a type, which the caller knows.
 */
static bool parse_nested(struct parser *parser, size_t start)
{
	for (bool first = true; !take(parser, 'E'); first = false) {
		bool known = false;

		if (take(parser, 'I')) {
			if (first || !parse_template_arguments(parser))
				return fail(parser, -ENOTSUP);
		} else if (first && take(parser, 'S')) {
			if (!parse_substitution(parser, &known))
				return false;
			known = true;
		} else if (is_digit(*parser->at)) {
			if ((!first && !text_put(parser, "::")) || !parse_source_name(parser))
				return false;
		} else {
			return fail(parser, -ENOTSUP);
		}
		if (!known && *parser->at != 'E' && !component_add(parser, start))
			return false;
	}
	return parser->out->used > start || fail(parser, -ENOTSUP);
}

static const char *builtin_text(char letter)
{
	static const char *const names[] = {['v' - 'a'] = "void",
		['w' - 'a'] = "wchar_t",
		['b' - 'a'] = "bool",
		['c' - 'a'] = "char",
		['a' - 'a'] = "signed char",
		['h' - 'a'] = "unsigned char",
		['s' - 'a'] = "short",
		['t' - 'a'] = "unsigned short",
		['i' - 'a'] = "int",
		['j' - 'a'] = "unsigned int",
		['l' - 'a'] = "long",
		['m' - 'a'] = "unsigned long",
		['x' - 'a'] = "long long",
		['y' - 'a'] = "unsigned long long",
		['n' - 'a'] = "__int128",
		['o' - 'a'] = "unsigned __int128",
		['f' - 'a'] = "float",
		['d' - 'a'] = "double",
		['e' - 'a'] = "long double",
		['g' - 'a'] = "__float128",
		['z' - 'a'] = "..."};

	return letter >= 'a' && letter <= 'z' ? names[letter - 'a'] : NULL;
}

/* A type that starts with a name; it may go on with template arguments. */
static bool parse_named_type(struct parser *parser, size_t start)
{
	bool standard = false, known = false;

	if (take(parser, 'N')) {
		if (!parse_nested(parser, start))
			return false;
	} else if (take(parser, 'S')) {
		if (!parse_substitution(parser, &standard))
			return false;
		if (standard && (!is_digit(*parser->at) || !text_put(parser, "::") || !parse_source_name(parser)))
			return fail(parser, -ENOTSUP);
		known = !standard;
	} else if (!is_digit(*parser->at) || !parse_source_name(parser)) {
		return fail(parser, -ENOTSUP);
	}
	if (!known && !component_add(parser, start))
		return false;
	if (!take(parser, 'I'))
		return true;
	return parse_template_arguments(parser) && component_add(parser, start);
}

static bool parse_qualified_type(struct parser *parser)
{
	static const struct {
		char letter;
		const char *text;
	} qualifiers[] = {{'P', "*"}, {'R', "&"}, {'O', "&&"}, {'K', " const"}};
	size_t start = parser->out->used;
	const char *builtin = builtin_text(*parser->at);

	if (builtin) {
		parser->at++;
		return text_put(parser, builtin);
	}
	for (size_t i = 0; i < sizeof(qualifiers) / sizeof(qualifiers[0]); i++)
		if (take(parser, qualifiers[i].letter))
			return parse_type(parser) && text_put(parser, qualifiers[i].text) &&
			       component_add(parser, start);
	return parse_named_type(parser, start);
}

static bool parse_type(struct parser *parser)
{
	bool good;

	if (parser->depth == DEPTH_MAX)
		return fail(parser, -E2BIG);
	parser->depth++;
	good = parse_qualified_type(parser);
	parser->depth--;
	return good;
}

/* <encoding> of a function that is no template: its name, then the types of its arguments. */
static bool parse_function(struct parser *parser, size_t *arguments)
{
	if (!take(parser, '_') || !take(parser, 'Z'))
		return fail(parser, -ENOTSUP);
	if (take(parser, 'N')) {
		if (!parse_nested(parser, 0))
			return false;
	} else if (!is_digit(*parser->at) || !parse_source_name(parser)) {
		return fail(parser, -ENOTSUP);
	}
	/* A template function's first type is its result. */
	if (parser->out->text[parser->out->used - 1] == '>' || !text_add(parser, "", 1))
		return fail(parser, -ENOTSUP);
	*arguments = parser->out->used;
	if (!strcmp(parser->at, "v"))
		return text_add(parser, "", 1);
	do {
		if (parser->out->used > *arguments && !text_put(parser, ", "))
			return false;
		if (!parse_type(parser))
			return false;
	} while (*parser->at);
	return text_add(parser, "", 1);
}

int demangle_function(const char *mangled, struct demangled *out)
{
	struct parser parser;
	size_t arguments = 0;

	parser.at = mangled;
	parser.out = out;
	parser.component_count = 0;
	parser.depth = 0;
	parser.err = 0;
	out->used = 0;
	out->name = out->arguments = "";
	if (strnlen(mangled, DEMANGLE_NAME_MAX) == DEMANGLE_NAME_MAX)
		return -E2BIG;
	if (!parse_function(&parser, &arguments))
		return parser.err;
	out->name = out->text;
	out->arguments = out->text + arguments;
	return 0;
}

void demangle_free(struct demangled *demangled)
{
	free(demangled->text);
	*demangled = (struct demangled){0};
}

/* --- for messages ------------------------------------------------------------ */

/* References (S_, S1_, T_, …) wherever they might stand, and pack expansions, which repeat what is in them. */
static bool text_is_bounded(const char *mangled)
{
	size_t references = 0;

	if (strnlen(mangled, SHOWN_NAME_MAX) == SHOWN_NAME_MAX || strstr(mangled, "Dp") || strstr(mangled, "sp"))
		return false;
	for (const char *at = mangled; *at; at++) {
		const char *end = at + 1;

		if (*at != 'S' && *at != 'T')
			continue;
		while (is_digit(*end) || (*end >= 'A' && *end <= 'Z'))
			end++;
		references += *end == '_';
	}
	return references <= SHOWN_REFERENCES_MAX;
}

char *demangle_symbol(const char *mangled)
{
	char *text = NULL;
	int status;

	if (!strncmp(mangled, "_Z", 2) && text_is_bounded(mangled))
		text = __cxa_demangle(mangled, NULL, NULL, &status);
	return text ? text : strndup(mangled, DEMANGLE_NAME_MAX);
}
