// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two sets of hooks. The plain one stands at the entries of every operator's
 * call and redispatch and is the reference. The sparse one stands on the last
 * call site before the backend, which operators nested in others never pass,
 * and has about a third of the hits; operators without such a site are hooked
 * as in the plain set. Operators that are only made of others (CompositeImplicit)
 * have no call hook in either: what they call is seen.
 */
#include "probe/operator_hooks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hdtrace/capture.h>

#include "containers/containers.h"
#include "symbol/entry.h"
#include "torch/call_sites.h"
#include "torch/operators.h"

/* Fewer operators than this with a usable call site: the library is not built as expected. */
#define SPARSE_SITES_MIN_PERCENT 60

/* The dispatch level that a call site belongs to, from the last before the backend outwards. */
enum site_level { LEVEL_SELECT, LEVEL_INPLACE, LEVEL_AUTOGRAD, LEVEL_OUTER };

struct hooks_builder {
	struct library_plan *plan;
	struct hook_set *set; /* being filled */
	uint8_t flags;        /* enum hook_flag of all hooks of the set */
	const struct torch_operators *operators;
	struct call_site *sites; /* stb_ds, sorted by function, then address */
	size_t slow;             /* probes on instructions that are not emulated */
	size_t dropped;          /* arguments beyond HOOK_ARGUMENTS_MAX */
};

/* --- hooks ------------------------------------------------------------------------ */

/* Operators that allocate and return: nothing is inside them. */
static bool is_leaf(const char *name)
{
	return !strcmp(name, "aten.empty.memory_format") || !strcmp(name, "aten.empty_strided.default");
}

static bool is_named(const char *name, const char *const *beginnings, size_t count)
{
	for (size_t index = 0; index < count; index++)
		if (!strncmp(name, beginnings[index], strlen(beginnings[index])))
			return true;
	return false;
}

/* Factories that allocate and then only fill what they allocated. */
static bool is_fill(const char *name)
{
	static const char *const factories[] = {"aten.zeros.", "aten.ones.", "aten.full.", "aten.rand.", "aten.randn.",
		"aten.randint.", "aten.scalar_tensor."};

	return is_named(name, factories, sizeof(factories) / sizeof(factories[0]));
}

/* What they fill it with. */
static bool is_filler(const char *name)
{
	static const char *const fillers[] = {
		"aten.zero_.", "aten.fill_.", "aten.uniform_.", "aten.normal_.", "aten.random_."};

	return is_named(name, fillers, sizeof(fillers) / sizeof(fillers[0]));
}

/*
 * Hooks that tell little without arguments: of operators that make no storage,
 * and of those that kernels allocate their results with.
 */
static bool is_for_full_only(const struct torch_operator *operator_)
{
	if (!strcmp(operator_->name, "aten.empty.memory_format") ||
		!strcmp(operator_->name, "aten.empty_strided.default"))
		return true;
	return (operator_->flags & TORCH_ALIASES) && !strstr(operator_->symbol, "resize");
}

/*
 * Operators that PyTorch's own bindings call with autograd excluded already, so
 * that no call site is passed: factories from another tensor, and adoptions.
 */
static bool is_called_below_autograd(const struct torch_operator *operator_)
{
	size_t length = strlen(operator_->symbol);
	static const char like[] = "_like";

	return operator_->flags & TORCH_LIFT || (length >= sizeof(like) - 1 && strstr(operator_->symbol, like) != NULL);
}

static struct hook_description description_of(
	struct hooks_builder *builder, size_t index, const struct torch_function *function, enum operator_hook hook)
{
	const struct signature *arguments = &function->arguments;
	struct hook_description description = {
		.operator_ = (uint16_t)index,
		.hook = (uint8_t)hook,
		.flags = builder->flags,
		.keys_register = HOOK_NO_KEYS,
	};

	if (is_leaf(builder->operators->operators[index].name))
		description.flags |= HOOK_LEAF;
	if (is_fill(builder->operators->operators[index].name))
		description.flags |= HOOK_FILL;
	if (is_filler(builder->operators->operators[index].name))
		description.flags |= HOOK_FILLER;
	if (is_for_full_only(&builder->operators->operators[index]))
		description.flags |= HOOK_FULL_ONLY;
	if (hook == HOOK_REDISPATCH && arguments->key_set_place < PLACE_STACK)
		description.keys_register = arguments->key_set_place;
	for (size_t slot = 0; slot < arguments->slot_count; slot++) {
		if (slot == HOOK_ARGUMENTS_MAX) {
			builder->dropped += arguments->slot_count - slot;
			break;
		}
		description.arguments[slot].kind = arguments->slots[slot].kind;
		description.arguments[slot].place = arguments->slots[slot].place;
		if (hook == HOOK_BOXED)
			description.arguments[slot] = (struct hook_argument){
				ARGUMENT_BOXED, (uint8_t)(arguments->argument_count - arguments->slots[slot].argument)};
		description.argument_count++;
	}
	return description;
}

static int hook_add(struct hooks_builder *builder, uint64_t address, const struct hook_description *description)
{
	uint64_t offset;
	int error = elf_file_offset(builder->plan->elf, address, &offset);

	if (error)
		return error;
	arrput(builder->set->hooks, *description);
	arrput(builder->set->offsets, offset);
	return 0;
}

static int entry_hook_add(
	struct hooks_builder *builder, size_t index, const struct torch_function *function, enum operator_hook hook)
{
	struct hook_description description = description_of(builder, index, function, hook);
	struct entry_place place;
	int error;

	if (!function->address)
		return 0;
	error = entry_find(builder->plan->elf, function->address, function->size, &place);
	if (error)
		return error;
	builder->slow += !place.emulated;
	description.stack_adjust = (int16_t)place.stack_bytes;
	return hook_add(builder, function->address + place.offset, &description);
}

static int plain_hooks_add(struct hooks_builder *builder, size_t index)
{
	const struct torch_operator *operator_ = &builder->operators->operators[index];
	int error = 0;

	if (!(operator_->flags & TORCH_COMPOSITE))
		error = entry_hook_add(builder, index, &operator_->call, HOOK_CALL);
	return error ? error : entry_hook_add(builder, index, &operator_->redispatch, HOOK_REDISPATCH);
}

/* --- the sparse set ------------------------------------------------------------------ */

static int site_compare(const void *a, const void *b)
{
	const struct call_site *left = a, *right = b;

	if (left->function != right->function)
		return left->function < right->function ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static int address_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static enum site_level level_of(const struct torch_layout *layout, const struct call_site *site)
{
	uint64_t below_autograd = (layout->keys_autograd & -layout->keys_autograd) - 1;
	uint64_t below_inplace = layout->keys_inplace - 1;

	if (site->mask == below_autograd)
		return LEVEL_AUTOGRAD;
	if (site->mask == below_inplace)
		return LEVEL_INPLACE;
	return site->mask > below_autograd ? LEVEL_OUTER : LEVEL_SELECT;
}

static int sites_load(struct hooks_builder *builder)
{
	uint64_t *functions = NULL;
	int error;

	for (size_t index = 0; index < builder->operators->count; index++)
		if (builder->operators->operators[index].redispatch.address)
			arrput(functions, builder->operators->operators[index].redispatch.address);
	if (!functions)
		return -ENOENT;
	qsort(functions, arrlenu(functions), sizeof(functions[0]), address_compare);
	error = call_sites_find(builder->plan->elf, functions, arrlenu(functions), &builder->sites);
	arrfree(functions);
	if (!error && builder->sites)
		qsort(builder->sites, arrlenu(builder->sites), sizeof(builder->sites[0]), site_compare);
	return error;
}

static size_t sites_first(const struct hooks_builder *builder, uint64_t function)
{
	size_t low = 0, high = arrlenu(builder->sites);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (builder->sites[middle].function < function)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int site_hook_add(
	struct hooks_builder *builder, size_t index, const struct call_site *site, enum site_level level)
{
	struct hook_description description =
		description_of(builder, index, &builder->operators->operators[index].redispatch, HOOK_REDISPATCH);

	description.flags |= HOOK_CALL_SITE | (level == LEVEL_SELECT ? 0 : HOOK_AUTOGRAD_LEVEL | HOOK_BEFORE_SELECT);
	description.stack_adjust = -(int16_t)sizeof(uint64_t); /* the return address that the call will push */
	return hook_add(builder, site->address, &description);
}

/* Hook the sites of one operator that are the last before the backend; *hooked tells whether there are any. */
static int sites_hook(struct hooks_builder *builder, size_t index, bool *hooked)
{
	uint64_t function = builder->operators->operators[index].redispatch.address;
	size_t first = sites_first(builder, function);
	bool inplace = false, autograd = false;
	int error = 0;

	*hooked = false;
	for (size_t at = first; at < arrlenu(builder->sites) && builder->sites[at].function == function; at++) {
		inplace |= level_of(builder->plan->torch, &builder->sites[at]) == LEVEL_INPLACE;
		autograd |= level_of(builder->plan->torch, &builder->sites[at]) == LEVEL_AUTOGRAD;
	}
	for (size_t at = first; !error && at < arrlenu(builder->sites) && builder->sites[at].function == function;
		at++) {
		enum site_level level = level_of(builder->plan->torch, &builder->sites[at]);

		/* Where there is an in-place kernel, autograd's goes on to it and is not the last. */
		if (level == LEVEL_OUTER || (level == LEVEL_AUTOGRAD && inplace))
			continue;
		/* A copy between types has a factory level too, which operators nested in others pass all the time. */
		if (level == LEVEL_SELECT && (inplace || autograd))
			continue;
		error = site_hook_add(builder, index, &builder->sites[at], level);
		*hooked = true;
	}
	return error;
}

static int sparse_hooks_add(struct hooks_builder *builder, size_t index, size_t *with_sites)
{
	const struct torch_operator *operator_ = &builder->operators->operators[index];
	bool hooked = false;
	int error = 0;

	if (operator_->flags & TORCH_COMPOSITE)
		return 0;
	if (operator_->redispatch.address)
		error = sites_hook(builder, index, &hooked);
	*with_sites += hooked;
	if (!error && !hooked)
		return plain_hooks_add(builder, index);
	if (!error && is_called_below_autograd(operator_))
		error = entry_hook_add(builder, index, &operator_->call, HOOK_CALL);
	return error;
}

static int sparse_set_make(struct hooks_builder *builder)
{
	size_t with_sites = 0, candidates = 0;
	int error = sites_load(builder);

	for (size_t index = 0; !error && index < builder->operators->count; index++) {
		candidates += !(builder->operators->operators[index].flags & TORCH_COMPOSITE);
		error = sparse_hooks_add(builder, index, &with_sites);
	}
	if (!error && with_sites * 100 < candidates * SPARSE_SITES_MIN_PERCENT)
		error = -ENOTSUP;
	if (error) {
		arrsetlen(builder->set->hooks, 0);
		arrsetlen(builder->set->offsets, 0);
	}
	return error;
}

/* --- both ------------------------------------------------------------------------------ */

static int names_take(struct library_plan *plan, const struct torch_operators *operators)
{
	for (size_t index = 0; index < operators->count; index++) {
		char *name = strdup(operators->operators[index].name);
		uint32_t flags = operators->operators[index].flags & TORCH_LIFT ? OPERATOR_LIFT : 0;

		if (!name)
			return -ENOMEM;
		arrput(plan->operator_names, name);
		arrput(plan->operator_flags, flags);
	}
	return 0;
}

/* What is only made of others has no kernel of its own; it gets a description without a hook. */
static void boxed_describe(struct hooks_builder *builder)
{
	for (size_t index = 0; index < builder->operators->count; index++) {
		const struct torch_operator *operator_ = &builder->operators->operators[index];
		const struct torch_function *function =
			operator_->call.address ? &operator_->call : &operator_->redispatch;
		struct hook_description description = description_of(builder, index, function, HOOK_BOXED);

		if (operator_->flags & TORCH_COMPOSITE)
			description.hook = HOOK_CALL;
		arrput(builder->plan->boxed, description);
	}
}

static void slow_find(struct hooks_builder *builder)
{
	if (builder->slow)
		plan_find(builder->plan, false, false, "their hits cost some 35 times more",
			"%zu operator functions start with instructions that the kernel does not emulate",
			builder->slow);
	if (builder->dropped)
		plan_find(builder->plan, false, false, "their use of blocks is not seen",
			"%zu tensor arguments are beyond the %d that are read", builder->dropped, HOOK_ARGUMENTS_MAX);
}

int plain_hooks_plan(struct library_plan *plan)
{
	struct hooks_builder builder = {.plan = plan, .set = &plan->sets[HOOK_SET_PLAIN], .flags = HOOK_PLAIN};
	struct torch_operators *operators;
	int error;

	if (arrlen(builder.set->hooks))
		return 0;
	error = operators_find(plan->elf, &operators);
	if (error)
		return error;
	builder.operators = operators;
	for (size_t index = 0; !error && index < operators->count; index++)
		error = plain_hooks_add(&builder, index);
	if (!error) {
		plan_find(plan, true, false, NULL, "%td plain hooks", arrlen(builder.set->hooks));
		slow_find(&builder);
	}
	torch_operators_free(operators);
	return error;
}

int operator_hooks_plan(struct library_plan *plan)
{
	struct hooks_builder builder = {.plan = plan, .set = &plan->sets[HOOK_SET_SPARSE]};
	struct torch_operators *operators;
	int error = operators_find(plan->elf, &operators);

	if (error)
		return error;
	builder.operators = operators;
	plan->torch->optional_value = operators->layout == OPTIONAL_STD ? 0 : sizeof(uint64_t);
	plan->torch->optional_flag = operators->layout == OPTIONAL_STD ? sizeof(uint64_t) : 0;
	error = operators->count > EXTRA_NAMES_FIRST ? -EFBIG : names_take(plan, operators);
	boxed_describe(&builder);
	if (!error && !sparse_set_make(&builder)) {
		plan_find(plan, true, false, NULL, "%zu operators, %td sparse hooks", operators->count,
			arrlen(builder.set->hooks));
		slow_find(&builder);
	} else if (!error) {
		plan_find(plan, false, false, "the plain set is used, which costs about half as much again",
			"the sparse set of hooks does not fit this library");
	}
	arrfree(builder.sites);
	torch_operators_free(operators);
	return error;
}
