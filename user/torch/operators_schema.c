/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding schemas: every string with ") -> " in it whose beginning is a name
 * and a parenthesis. The section is read piece by piece, since the one of a
 * CPU library has 60 MB and is somebody else's file.
 */
#include "torch/operators_schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_MAX (1ull << 29)   /* bytes of a section that are looked through */
#define PIECE_BYTES (512u << 10)   /* stays in the second-level cache */
#define SCHEMA_LENGTH_MAX 8192     /* bytes; the longest real one has 1,400 */
#define SCHEMA_NAME_MAX 512        /* bytes of [namespace::]name[.overload] */
#define SCHEMAS_MAX 65536          /* a library has 3,000 to 8,000 */
#define SCHEMA_ARGUMENTS_MAX 10000 /* keeps the count in its field */

static const char arrow[] = ") -> ";

/* --- reading ----------------------------------------------------------------- */

int section_visit(const struct elf_file *file, const char *section, piece_visitor visit, void *context)
{
	struct elf_range range;
	uint64_t done = 0;
	size_t kept = 0;
	char *buffer = NULL;
	int err = elf_file_section(file, section, &range);

	if (err)
		return err;
	if (!range.in_file)
		return -ENOENT;
	if (range.size > SECTION_MAX)
		return -EFBIG;
	buffer = malloc(SCHEMA_LENGTH_MAX + PIECE_BYTES);
	if (!buffer)
		return -ENOMEM;
	while (done < range.size && !err) {
		uint64_t rest = range.size - done;
		ssize_t got = elf_file_read(
			file, range.address + done, buffer + kept, rest < PIECE_BYTES ? (size_t)rest : PIECE_BYTES);
		size_t size;

		if (got <= 0) {
			err = got < 0 ? (int)got : -EIO;
			break;
		}
		size = kept + (size_t)got;
		err = visit(context, buffer, size, (size_t)got);
		done += (uint64_t)got;
		kept = size < SCHEMA_LENGTH_MAX ? size : SCHEMA_LENGTH_MAX;
		memmove(buffer, buffer + size - kept, kept);
	}
	free(buffer);
	return err;
}

static int schemas_visit(void *context, const char *piece, size_t size, size_t fresh)
{
	struct schemas *schemas = context;
	const char *end = piece + size, *at = piece;
	size_t old = size - fresh;
	int err = 0;

	while (!err && (at = memmem(at, (size_t)(end - at), arrow, strlen(arrow)))) {
		const char *stop = memchr(at, 0, (size_t)(end - at));
		const char *before = memrchr(piece, 0, (size_t)(at - piece));

		if (!stop)
			break;
		/* A string that ends among the old bytes was seen; one without start in sight is too long or the first.
		 */
		if ((size_t)(stop - piece) >= old && (before || old == 0)) {
			const char *start = before ? before + 1 : piece;

			err = schemas_add(schemas, start, (size_t)(stop - start), before != NULL);
		}
		at = stop + 1;
	}
	return err;
}

int schemas_read(const struct elf_file *file, struct schemas *out)
{
	int err;

	*out = (struct schemas){0};
	err = section_visit(file, ".rodata", schemas_visit, out);
	if (err)
		schemas_free(out);
	else
		schemas_sort(out);
	return err;
}

void schemas_free(struct schemas *schemas)
{
	for (size_t i = 0; i < schemas->count; i++)
		free(schemas->list[i].name);
	free(schemas->list);
	*schemas = (struct schemas){0};
}

/* --- one schema -------------------------------------------------------------- */

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
	       c == ':';
}

/* Elements between commas outside of brackets and quotes; `*` only separates keyword arguments. */
static size_t elements_count(const char *text, size_t length)
{
	size_t count = 0, depth = 0;
	bool blank = true, star = false;
	char quoted = '\0'; /* the quote that ends the string */

	for (size_t i = 0; i <= length; i++) {
		char c = i < length ? text[i] : ',';

		if (quoted && c == '\\')
			i++;
		else if (quoted ? c == quoted : c == '"' || c == '\'')
			quoted = quoted ? '\0' : c;
		else if (!quoted && (c == '(' || c == '['))
			depth++;
		else if (!quoted && (c == ')' || c == ']') && depth)
			depth--;
		if (i >= length || (c == ',' && !quoted && !depth)) {
			count += !blank && !star;
			blank = true;
			star = false;
		} else if (c != ' ') {
			star = blank && c == '*';
			blank = false;
		}
	}
	return count;
}

static bool text_is(const char *text, size_t length, const char *expected)
{
	return length == strlen(expected) && !memcmp(text, expected, length);
}

/*
 * How the C++ function returns what the schema says (torchgen, api/cpp.py): one
 * written alias is a reference; numbers and enumerations are in a register; all
 * tuples (std::tuple is not trivial), lists and owning types go through memory.
 */
static enum schema_result result_of(const char *text, size_t length)
{
	static const char *const in_register[] = {"int", "bool", "float", "complex", "ScalarType", "Layout", "Device",
		"MemoryFormat", "QScheme", "Stream"};
	static const char *const by_memory[] = {
		"Tensor", "SymInt", "SymFloat", "SymBool", "Scalar", "str", "Generator", "Storage"};
	size_t name = 0;
	const char *written;

	if (text_is(text, length, "()"))
		return SCHEMA_IN_REGISTER;
	if (length >= 2 && text[0] == '(' && text[length - 1] == ')') {
		if (elements_count(text + 1, length - 2) > 1)
			return SCHEMA_BY_MEMORY;
		return result_of(text + 1, length - 2);
	}
	while (name < length && is_name_byte(text[name]))
		name++;
	written = memchr(text, '!', length);
	if (memmem(text, length, "[", 1))
		return SCHEMA_BY_MEMORY;
	if (text_is(text, name, "Tensor") && written)
		return SCHEMA_IN_REGISTER;
	for (size_t i = 0; i < sizeof(in_register) / sizeof(in_register[0]); i++)
		if (text_is(text, name, in_register[i]))
			return name < length && text[name] == '?' ? SCHEMA_UNKNOWN : SCHEMA_IN_REGISTER;
	for (size_t i = 0; i < sizeof(by_memory) / sizeof(by_memory[0]); i++)
		if (text_is(text, name, by_memory[i]))
			return SCHEMA_BY_MEMORY;
	return SCHEMA_UNKNOWN;
}

/* Is every tensor of a result written with an alias, "Tensor(a)", "Tensor(a!)"? Also true without any. */
static bool result_aliases(const char *text, size_t length)
{
	static const char word[] = "Tensor";
	const char *end = text + length;

	while ((text = memmem(text, (size_t)(end - text), word, strlen(word)))) {
		text += strlen(word);
		if (text == end || *text != '(')
			return false;
	}
	return true;
}

/* Keeps the name twice in one piece of memory: as it is, and as the C++ name. */
static int schema_name(struct schema *schema, const char *name, size_t length)
{
	char *symbol;
	const char *colon;

	schema->name = malloc(2 * (length + 1));
	if (!schema->name)
		return -ENOMEM;
	symbol = schema->name + length + 1;
	memcpy(schema->name, name, length);
	schema->name[length] = '\0';
	memcpy(symbol, schema->name, length + 1);
	for (char *dot = symbol; (dot = strchr(dot, '.'));)
		*dot = '_';
	colon = strrchr(symbol, ':');
	schema->symbol = colon ? colon + 1 : symbol;
	schema->symbol_length = (uint16_t)strlen(schema->symbol);
	return 0;
}

static int schemas_reserve(struct schemas *schemas)
{
	size_t capacity = schemas->capacity ? 2 * schemas->capacity : 4096;
	struct schema *grown;

	if (schemas->count < schemas->capacity)
		return 0;
	grown = reallocarray(schemas->list, capacity, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	schemas->list = grown;
	schemas->capacity = capacity;
	return 0;
}

int schemas_add(struct schemas *schemas, const char *text, size_t length, bool whole)
{
	const char *open = memchr(text, '(', length), *close, *name;
	struct schema schema = {0};
	size_t count;
	int err;

	if (length > SCHEMA_LENGTH_MAX || !open || schemas->count == SCHEMAS_MAX)
		return 0;
	close = memmem(open, (size_t)(text + length - open), arrow, strlen(arrow));
	for (name = open; name > text && is_name_byte(name[-1]);)
		name--;
	/* Bytes of another kind before the name: only where constants run into the first string. */
	if (!close || name == open || (whole && name != text) || open - name > SCHEMA_NAME_MAX)
		return 0;
	count = elements_count(open + 1, (size_t)(close - open - 1));
	if (count > SCHEMA_ARGUMENTS_MAX)
		return 0;
	schema.argument_count = (uint16_t)count;
	schema.result = (uint8_t)result_of(close + strlen(arrow), (size_t)(text + length - close) - strlen(arrow));
	schema.aliases = result_aliases(close + strlen(arrow), (size_t)(text + length - close) - strlen(arrow));
	err = schemas_reserve(schemas);
	if (!err)
		err = schema_name(&schema, name, (size_t)(open - name));
	if (!err)
		schemas->list[schemas->count++] = schema;
	return err;
}

/* --- finding ----------------------------------------------------------------- */

static int namespace_rank(const char *name)
{
	if (!strchr(name, ':'))
		return 0;
	return strncmp(name, "aten::", strlen("aten::")) ? 2 : 1;
}

static int schema_compare(const void *left, const void *right)
{
	const struct schema *a = left, *b = right;
	int order = strcmp(a->symbol, b->symbol);

	if (!order)
		order = namespace_rank(a->name) - namespace_rank(b->name);
	if (!order)
		order = strcmp(a->name, b->name);
	return order ? order : (int)a->argument_count - (int)b->argument_count;
}

void schemas_sort(struct schemas *schemas)
{
	if (schemas->count)
		qsort(schemas->list, schemas->count, sizeof(*schemas->list), schema_compare);
}

const struct schema *schemas_find(const struct schemas *schemas, const char *symbol, size_t argument_count)
{
	const struct schema *first = NULL;
	size_t low = 0, high = schemas->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(schemas->list[middle].symbol, symbol) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < schemas->count && !strcmp(schemas->list[low].symbol, symbol); low++) {
		const struct schema *schema = &schemas->list[low];

		if (schema->argument_count == argument_count)
			return schema;
		if (!first && namespace_rank(schema->name) < 2)
			first = schema;
	}
	return first;
}

const struct schema *schemas_find_tail(
	const struct schemas *schemas, const char *symbol, size_t argument_count, size_t *name_skip)
{
	size_t length = strlen(symbol);

	for (size_t i = 0; i < schemas->count; i++) {
		const struct schema *schema = &schemas->list[i];
		size_t whole = schema->symbol_length;

		if (schema->argument_count != argument_count || whole < length)
			continue;
		if (!memcmp(schema->symbol + whole - length, symbol, length)) {
			*name_skip = strlen(schema->name) - length;
			return schema;
		}
	}
	return NULL;
}
