/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each allocator event did to the memory of the devices that are reported,
 * by category, and where in the line of these events each operator ran: so that
 * what was held at any moment can be told afterwards. Events count from 1; at
 * place 0 there is what is older than the trace.
 */
#include "state.h"

/* Where each public run began and had its last event. */
static void runs_place(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct operator_run *runs = target->result.runs;
	uint32_t before = 0;

	for (uint32_t i = 0; i < arrlenu(target->runs); i++) {
		while (before < arrlenu(target->moments) && target->moments[before].runs_started <= i)
			before++;
		if (passes->public_run[i] != NONE)
			runs[passes->public_run[i]].first_order = runs[passes->public_run[i]].last_order = before;
	}
	for (uint32_t i = 0; i < arrlenu(target->moments); i++) {
		uint32_t run = target->moments[i].run == NONE ? NONE : passes->resolved[target->moments[i].run];
		uint32_t public = run == NONE ? NONE : passes->public_run[run];

		if (public != NONE && runs[public].last_order < i + 1)
			runs[public].last_order = i + 1;
	}
}

static uint8_t category_now(const struct passes *passes, uint32_t allocation)
{
	uint32_t row = passes->row[allocation];

	return row == NONE ? CATEGORY_OTHER : passes->target->result.blocks[row].category;
}

/* What there was before the first event, as far as it is known of; the rest of an allocator's total is Other. */
static void older_count(struct passes *passes)
{
	struct target_state *target = passes->target;

	for (uint32_t i = 0; i < arrlenu(target->allocations); i++) {
		const struct allocation *allocation = &target->allocations[i];
		struct device *device = &target->devices[allocation->device].device;

		if (device->reported && !allocation->first_order && (allocation->flags & ALLOCATION_PREEXISTING))
			device->older.category[category_now(passes, i)] += allocation_total_bytes(allocation);
	}
	for (size_t i = 0; i < arrlenu(target->devices); i++) {
		struct device *device = &target->devices[i].device;

		if (device->reported)
			snapshot_complete(&device->older, device->has_totals ? target->devices[i].before : 0);
	}
}

void passes_change(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;

	older_count(passes);
	runs_place(passes);
	arrsetcap(rank->changes, arrlenu(target->moments));
	for (uint32_t i = 0; i < arrlenu(target->moments); i++) {
		const struct moment *moment = &target->moments[i];
		const struct allocation *allocation = &target->allocations[moment->allocation];
		struct change change = {
			.made = allocation->first_order,
			.device = allocation->device,
			.category = category_now(passes, moment->allocation),
			.is_free = moment->is_free,
		};

		if (allocation_is_reported(target, allocation) && !(allocation->flags & ALLOCATION_EXTERNAL))
			change.bytes = allocation_total_bytes(allocation);
		arrput(rank->changes, change);
	}
}

void snapshot_change(struct snapshot *snapshot, const struct change *change)
{
	uint64_t *bytes = &snapshot->category[change->category];

	if (!change->is_free) {
		*bytes += change->bytes;
		snapshot->total += change->bytes;
		return;
	}
	/* What is freed may have been counted with fewer bytes than its allocator tells. */
	*bytes -= change->bytes < *bytes ? change->bytes : *bytes;
	snapshot->total -= change->bytes < snapshot->total ? change->bytes : snapshot->total;
}
