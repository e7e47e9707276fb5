// SPDX-License-Identifier: BSD-2-Clause
/*
 * The plain set of hooks stands at the entries of every operator's call and
 * redispatch; it is the reference. Operators that are only made of others
 * (CompositeImplicit) have no call hook: what they call is seen.
 */
#include "probe/operator_hooks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hdtrace/capture.h>

#include "model/containers.h"
#include "symbol/entry.h"
#include "torch/operators.h"

struct hooks_builder {
	struct library_plan *plan;
	const struct torch_operators *operators;
	size_t slow;    /* probes on instructions that are not emulated */
	size_t dropped; /* arguments beyond HOOK_ARGUMENTS_MAX */
};

static struct hook_description description_of(struct hooks_builder *builder, size_t operator_,
	const struct torch_function *function, enum operator_hook hook)
{
	const struct signature *arguments = &function->arguments;
	struct hook_description description = {
		.operator_ = (uint16_t)operator_,
		.hook = (uint8_t)hook,
		.keys_register = HOOK_NO_KEYS,
	};

	if (hook == HOOK_REDISPATCH && arguments->key_set_place < PLACE_STACK)
		description.keys_register = arguments->key_set_place;
	for (size_t slot = 0; slot < arguments->slot_count; slot++) {
		if (slot == HOOK_ARGUMENTS_MAX) {
			builder->dropped += arguments->slot_count - slot;
			break;
		}
		description.arguments[slot].kind = arguments->slots[slot].kind;
		description.arguments[slot].place = arguments->slots[slot].place;
		description.argument_count++;
	}
	return description;
}

static int entry_hook_add(struct hooks_builder *builder, size_t operator_, const struct torch_function *function,
	enum operator_hook hook)
{
	struct hook_description description = description_of(builder, operator_, function, hook);
	struct entry_place place;
	uint64_t offset;
	int error;

	if (!function->address)
		return 0;
	error = entry_find(builder->plan->elf, function->address, function->size, &place);
	if (!error)
		error = elf_file_offset(builder->plan->elf, function->address + place.offset, &offset);
	if (error)
		return error;
	builder->slow += !place.emulated;
	description.stack_adjust = (int16_t)place.stack_bytes;
	arrput(builder->plan->hooks, description);
	arrput(builder->plan->hook_offsets, offset);
	return 0;
}

static int plain_hooks_add(struct hooks_builder *builder, size_t index)
{
	const struct torch_operator *operator_ = &builder->operators->operators[index];
	int error = 0;

	if (!(operator_->flags & TORCH_COMPOSITE))
		error = entry_hook_add(builder, index, &operator_->call, HOOK_CALL);
	return error ? error : entry_hook_add(builder, index, &operator_->redispatch, HOOK_REDISPATCH);
}

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

int operator_hooks_plan(struct library_plan *plan, enum hooks_choice choice)
{
	struct hooks_builder builder = {.plan = plan};
	struct torch_operators *operators;
	int error = operators_find(plan->elf, &operators);

	(void)choice;
	if (error)
		return error;
	builder.operators = operators;
	error = operators->count > UINT16_MAX ? -EFBIG : names_take(plan, operators);
	for (size_t index = 0; !error && index < operators->count; index++)
		error = plain_hooks_add(&builder, index);
	if (!error)
		plan_find(plan, true, false, NULL, "%zu operators, %td hooks (plain)", operators->count,
			arrlen(plan->hooks));
	if (builder.slow)
		plan_find(plan, false, false, "their hits cost some 35 times more",
			"%zu operator functions start with instructions that the kernel does not emulate", builder.slow);
	if (builder.dropped)
		plan_find(plan, false, false, "their use of blocks is not seen", "%zu tensor arguments are beyond the %d that are read",
			builder.dropped, HOOK_ARGUMENTS_MAX);
	torch_operators_free(operators);
	return error;
}
