/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What nodes of autograd's graph held for the backward pass, after the fact.
 *
 * A node lets go what it saved when the engine has evaluated it, before it goes
 * on to the next one. So a block that was made before the backward pass, that
 * the forward operator of a node had as an argument or made, and that is freed
 * while the engine evaluates this node was held by it, and by nothing else any
 * more. It is the last that is known of the block: it counts more than a
 * variable, or another node, that was seen to hold it earlier.
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <hdtrace/capture.h>

#define SAVED_BY "saved for backward by "
#define COMPILED_CODE "compiled code"

/* The run whose node held an allocation until its end, NONE: not known. */
static uint32_t saver_find(const struct passes *passes, uint32_t index, const struct operator_run *runs)
{
	const struct allocation *allocation = &passes->target->allocations[index];
	uint32_t released = allocation->released_in == NONE ? NONE : passes->resolved[allocation->released_in];
	uint32_t maker = released == NONE ? NONE : passes->maker[released];
	uint32_t producer = allocation->run == NONE ? NONE : passes->resolved[allocation->run];
	uint32_t public = producer == NONE ? NONE : passes->public_run[producer];

	if (maker == NONE || public == NONE ||
		(producer > maker && (!passes->region[maker] || passes->region[producer] != passes->region[maker])) ||
		runs[public].phase == PHASE_BACKWARD || (allocation->flags & (ALLOCATION_SCRATCH | ALLOCATION_LIBRARY)))
		return NONE;
	if (producer == maker || run_uses(passes, maker, index))
		return maker;
	/* Compiled code has one node for all that it does. */
	if (passes->region[maker] &&
		(passes->region[producer] == passes->region[maker] || region_uses(passes, maker, index)))
		return maker;
	return NONE;
}

/* "saved for backward by OPERATOR (MODULE)". */
static int saved_name(
	struct model *model, const struct passes *passes, struct allocation *allocation, const struct operator_run *run)
{
	const char *operator_ = passes->target->stacks[run->stack].in_compiled
	                                ? COMPILED_CODE
	                                : passes->target->operator_names[run->name];
	char *text;

	if (asprintf(&text, SAVED_BY "%s%s%s%s", operator_, *run->module ? " (" : "", run->module,
		    *run->module ? ")" : "") < 0)
		return -ENOMEM;
	allocation->owner = model_text(model, text);
	allocation->owner_source = OWNER_CONCLUDED;
	allocation->holder = OWNER_SAVED;
	free(text);
	return 0;
}

int passes_conclude_saved(struct model *model, struct passes *passes, const struct operator_run *runs)
{
	struct target_state *target = passes->target;
	int error = 0;

	for (uint32_t i = 0; i < arrlenu(target->allocations) && !error; i++) {
		struct allocation *allocation = &target->allocations[i];
		bool better = allocation->holder && allocation->holder < OWNER_VARIABLE;
		uint32_t saver = better ? NONE : saver_find(passes, i, runs);

		if (saver != NONE)
			error = saved_name(model, passes, allocation, &runs[passes->public_run[saver]]);
	}
	return error;
}
