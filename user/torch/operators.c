/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operator table: pairs of functions from the symbols, names and results
 * from the schemas, argument places from the signatures. An operator is
 * composite if a function of the same base name and the same arguments exists
 * in at::compositeimplicitautograd, and none in at::cpu: one that has both
 * (silu_backward) runs its kernel.
 */
#include "torch/operators.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "symbol/demangle.h"
#include "torch/operators_schema.h"

#define OPERATORS_PREFIX "_ZN2at4_ops"
#define COMPOSITE_PREFIX "_ZN2at25compositeimplicitautograd"
#define KERNEL_PREFIX "_ZN2at3cpu"
#define STANDARD_OPTIONAL "St8optional"
#define SYMBOL_NAME_MAX 512    /* bytes of X */
#define TAIL_SEARCHES_MAX 1024 /* operators whose schema is looked for among all; 17 to 40 are needed */
#define FUNCTIONS_MAX 65536

/* Functions of one namespace, as sorted hashes of name and arguments. */
struct function_set {
	uint64_t *hashes;
	size_t count;
};

struct finder {
	const struct elf_file *file;
	struct torch_operators *out;
	struct schemas schemas;
	struct demangled demangled;
	struct function_set composites, kernels;
	size_t tail_searches;
};

/* --- composite functions ----------------------------------------------------- */

static uint64_t signature_hash(const char *name, size_t name_length, const char *arguments)
{
	return XXH3_64bits_withSeed(arguments, strlen(arguments), XXH3_64bits(name, name_length));
}

static int compare_hashes(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static int functions_read(struct finder *finder, const char *prefix, struct function_set *set)
{
	size_t count;
	const struct elf_symbol *symbols = elf_file_symbols_prefix(finder->file, prefix, &count);

	if (count > FUNCTIONS_MAX)
		return -EFBIG;
	if (count == 0)
		return 0;
	set->hashes = calloc(count, sizeof(*set->hashes));
	if (!set->hashes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const char *name;
		int err = demangle_function(symbols[i].name, &finder->demangled);

		if (err == -ENOMEM)
			return err;
		if (err || symbols[i].kind != ELF_FUNCTION)
			continue;
		name = strrchr(finder->demangled.name, ':');
		if (!name)
			continue;
		set->hashes[set->count++] = signature_hash(name + 1, strlen(name + 1), finder->demangled.arguments);
	}
	qsort(set->hashes, set->count, sizeof(*set->hashes), compare_hashes);
	return 0;
}

/* The C++ functions of an operator are called name, name_symint or, with out arguments last, name_outf. */
static bool functions_have(const struct function_set *set, const char *base, size_t base_length, const char *arguments)
{
	static const char *const endings[] = {"", "_symint", "_outf"};
	char name[SYMBOL_NAME_MAX + 8];

	if (base_length > SYMBOL_NAME_MAX || set->count == 0)
		return false;
	memcpy(name, base, base_length);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t length = base_length + strlen(endings[i]);
		uint64_t hash;

		memcpy(name + base_length, endings[i], strlen(endings[i]));
		hash = signature_hash(name, length, arguments);
		if (bsearch(&hash, set->hashes, set->count, sizeof(hash), compare_hashes))
			return true;
	}
	return false;
}

/* --- functions --------------------------------------------------------------- */

enum function_role { ROLE_NONE, ROLE_CALL, ROLE_REDISPATCH };

/* Splits _ZN2at4_ops<length>X4callE… into X and what is called; the mangled name is enough. */
static enum function_role role_of(const struct elf_symbol *symbol, const char **name, size_t *length)
{
	char *end;
	unsigned long value = strtoul(symbol->name + strlen(OPERATORS_PREFIX), &end, 10);

	if (symbol->kind != ELF_FUNCTION || value == 0 || value > SYMBOL_NAME_MAX || strnlen(end, value) < value)
		return ROLE_NONE;
	*name = end;
	*length = value;
	end += value;
	if (!strncmp(end, "4callE", strlen("4callE")))
		return ROLE_CALL;
	if (!strncmp(end, "10redispatchE", strlen("10redispatchE")))
		return ROLE_REDISPATCH;
	return ROLE_NONE;
}

/* The operator's schema, and how many bytes of its name are not its own. */
static const struct schema *schema_find(struct finder *finder, const char *symbol, size_t argument_count, size_t *skip)
{
	const struct schema *schema = schemas_find(&finder->schemas, symbol, argument_count);

	*skip = 0;
	if (schema || finder->tail_searches >= TAIL_SEARCHES_MAX)
		return schema;
	finder->tail_searches++;
	return schemas_find_tail(&finder->schemas, symbol, argument_count, skip);
}

/* Appends a text to those that the list owns; NULL: no memory. The array has room for two an operator. */
static const char *text_keep(struct torch_operators *list, char *text)
{
	if (text)
		list->texts[list->text_count++] = text;
	return text;
}

/* aten.add.Tensor from [namespace::]add[.Tensor]. */
static const char *name_write(struct torch_operators *list, const char *schema_name)
{
	const char *base = strrchr(schema_name, ':');
	const char *dot, *overload = "default";
	size_t base_length, namespace_length = strlen("aten");
	const char *space = "aten";
	char *text;

	if (base && base > schema_name + 1) {
		space = schema_name;
		namespace_length = (size_t)(base - 1 - schema_name);
	}
	base = base ? base + 1 : schema_name;
	dot = strchr(base, '.');
	base_length = dot ? (size_t)(dot - base) : strlen(base);
	if (dot)
		overload = dot + 1;
	if (asprintf(&text, "%.*s.%.*s.%s", (int)namespace_length, space, (int)base_length, base, overload) < 0)
		return NULL;
	return text_keep(list, text);
}

static const char *name_without_schema(struct torch_operators *list, const char *symbol)
{
	char *text;

	return asprintf(&text, "aten.%s", symbol) < 0 ? NULL : text_keep(list, text);
}

static int function_signature(
	struct finder *finder, const struct elf_symbol *symbol, bool by_memory, struct torch_function *function)
{
	int err = demangle_function(symbol->name, &finder->demangled);

	if (!err)
		err = signature_parse(
			finder->demangled.arguments, by_memory, finder->out->layout, &function->arguments);
	if (err)
		function->arguments = (struct signature){.key_set_place = PLACE_NONE, .unknown_types = 1};
	function->address = symbol->address;
	function->size = symbol->size;
	return err == -ENOMEM ? err : 0;
}

/* Counts a call's arguments before its schema, and so its result, is known. */
static int argument_count(
	struct finder *finder, const struct elf_symbol *call, const struct elf_symbol *redispatch, size_t *count)
{
	struct torch_function function;
	int err = function_signature(finder, call ? call : redispatch, false, &function);

	*count = function.arguments.argument_count;
	if (!call && *count)
		--*count; /* the key set */
	return err;
}

/* The arguments without the key set, as text: of `call`, or of `redispatch` behind its first. */
static const char *plain_arguments(const struct finder *finder, bool from_call)
{
	const char *arguments = finder->demangled.arguments;
	const char *comma;

	if (from_call)
		return arguments;
	comma = strstr(arguments, ", ");
	return comma ? comma + 2 : "";
}

static void flags_set(struct torch_operator *operator_, const struct schema *schema, size_t count)
{
	bool fits = schema && schema->argument_count == count && schema->result != SCHEMA_UNKNOWN;
	bool keyed = !operator_->redispatch.address || operator_->redispatch.arguments.key_set_place < PLACE_REGISTERS;

	if (!schema)
		operator_->flags |= TORCH_NO_SCHEMA;
	if (!fits || !keyed || operator_->call.arguments.unknown_types || operator_->redispatch.arguments.unknown_types)
		operator_->flags |= TORCH_UNCERTAIN;
	if (schema && schema->aliases)
		operator_->flags |= TORCH_ALIASES;
	if (!strncmp(operator_->name, "aten.lift.", strlen("aten.lift.")) ||
		!strncmp(operator_->name, "aten.lift_fresh.", strlen("aten.lift_fresh.")))
		operator_->flags |= TORCH_LIFT;
}

/* Makes one operator of its functions; one of the two may be NULL. */
static int operator_make(struct finder *finder, const char *name, size_t length, const struct elf_symbol *call,
	const struct elf_symbol *redispatch)
{
	struct torch_operators *out = finder->out;
	struct torch_operator *made = &out->operators[out->count];
	const struct schema *schema;
	bool by_memory;
	const char *base, *arguments;
	size_t count, skip;
	int err = argument_count(finder, call, redispatch, &count);

	if (err)
		return err;
	*made = (struct torch_operator){.symbol = text_keep(out, strndup(name, length))};
	made->call.arguments.key_set_place = made->redispatch.arguments.key_set_place = PLACE_NONE;
	if (!made->symbol)
		return -ENOMEM;
	schema = schema_find(finder, made->symbol, count, &skip);
	made->name = schema ? name_write(out, schema->name + skip) : name_without_schema(out, made->symbol);
	if (!made->name)
		return -ENOMEM;
	by_memory = !schema || schema->result != SCHEMA_IN_REGISTER;
	if (redispatch)
		err = function_signature(finder, redispatch, by_memory, &made->redispatch);
	if (!err && call)
		err = function_signature(finder, call, by_memory, &made->call);
	if (err)
		return err;
	flags_set(made, schema, count);
	base = strchr(made->name, '.') + 1;
	length = strcspn(base, ".");
	arguments = plain_arguments(finder, call != NULL);
	if (functions_have(&finder->composites, base, length, arguments) &&
		!functions_have(&finder->kernels, base, length, arguments))
		made->flags |= TORCH_COMPOSITE;
	out->count++;
	return 0;
}

/* --- the list ---------------------------------------------------------------- */

static int compare_operators(const void *left, const void *right)
{
	const struct torch_operator *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : strcmp(a->symbol, b->symbol);
}

static enum optional_layout layout_of(const struct elf_symbol *symbols, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strstr(symbols[i].name, STANDARD_OPTIONAL))
			return OPTIONAL_STD;
	return OPTIONAL_C10;
}

/* Functions of one operator are neighbours: the symbols are sorted, and X comes before what is called. */
static int operators_collect(struct finder *finder, const struct elf_symbol *symbols, size_t count)
{
	size_t end;
	int err = 0;

	for (size_t start = 0; start < count && !err; start = end) {
		const struct elf_symbol *functions[ROLE_REDISPATCH + 1] = {0};
		const char *name, *other;
		size_t length, other_length;
		enum function_role role = role_of(&symbols[start], &name, &length);

		end = start + 1;
		if (role == ROLE_NONE)
			continue;
		functions[role] = &symbols[start];
		for (; end < count; end++) {
			role = role_of(&symbols[end], &other, &other_length);
			if (role != ROLE_NONE && (other_length != length || memcmp(other, name, length)))
				break;
			if (role != ROLE_NONE && !functions[role])
				functions[role] = &symbols[end];
		}
		err = operator_make(finder, name, length, functions[ROLE_CALL], functions[ROLE_REDISPATCH]);
	}
	return err;
}

static int operators_read(struct finder *finder)
{
	struct torch_operators *out = finder->out;
	size_t count;
	const struct elf_symbol *symbols = elf_file_symbols_prefix(finder->file, OPERATORS_PREFIX, &count);
	int err;

	if (count == 0)
		return -ENOENT;
	if (count > (size_t)2 * TORCH_OPERATORS_MAX)
		return -EFBIG;
	out->operators = calloc(count, sizeof(*out->operators));
	out->texts = calloc(2 * count, sizeof(*out->texts));
	if (!out->operators || !out->texts)
		return -ENOMEM;
	out->layout = layout_of(symbols, count);
	err = schemas_read(finder->file, &finder->schemas);
	if (err && err != -ENOENT)
		return err;
	err = functions_read(finder, COMPOSITE_PREFIX, &finder->composites);
	if (!err)
		err = functions_read(finder, KERNEL_PREFIX, &finder->kernels);
	if (!err)
		err = operators_collect(finder, symbols, count);
	if (!err && out->count > TORCH_OPERATORS_MAX)
		err = -EFBIG;
	if (!err && out->count == 0)
		err = -ENOENT;
	return err;
}

int operators_find(const struct elf_file *libtorch_cpu, struct torch_operators **out)
{
	struct finder finder = {.file = libtorch_cpu};
	int err;

	*out = NULL;
	if (elf_file_machine(libtorch_cpu) != ELF_MACHINE_X86_64)
		return -ENOTSUP;
	finder.out = calloc(1, sizeof(*finder.out));
	if (!finder.out)
		return -ENOMEM;
	err = operators_read(&finder);
	if (err)
		goto cleanup;
	qsort(finder.out->operators, finder.out->count, sizeof(*finder.out->operators), compare_operators);
	for (size_t i = 0; i < finder.out->count; i++) {
		uint8_t flags = finder.out->operators[i].flags;

		finder.out->uncertain += (flags & TORCH_UNCERTAIN) != 0;
		finder.out->no_schema += (flags & TORCH_NO_SCHEMA) != 0;
		finder.out->composite += (flags & TORCH_COMPOSITE) != 0;
	}
	*out = finder.out;
	finder.out = NULL;
cleanup:
	torch_operators_free(finder.out);
	schemas_free(&finder.schemas);
	demangle_free(&finder.demangled);
	free(finder.composites.hashes);
	free(finder.kernels.hashes);
	return err;
}

void torch_operators_free(struct torch_operators *operators)
{
	if (!operators)
		return;
	for (size_t i = 0; i < operators->text_count; i++)
		free(operators->texts[i]);
	free(operators->texts);
	free(operators->operators);
	free(operators);
}
