/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is older than the trace and no block stands for. An allocator tells with each
 * block what it has given out in all; so what it had given out before the first one
 * is known. Blocks of it are known by what Python holds, by their first use or by
 * their free. The rest becomes one row a device, of no address, from the beginning
 * to the end: had anything of it been freed, it would be a row of its own.
 */
#include "state.h"

uint64_t older_total(const struct target_state *target, size_t device)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < arrlenu(target->allocations); i++)
		if (target->allocations[i].device == device && (target->allocations[i].flags & ALLOCATION_PREEXISTING))
			bytes += allocation_total_bytes(&target->allocations[i]);
	return bytes;
}

static void remainder_add(struct target_state *target, size_t device)
{
	struct device_state *state = &target->devices[device];
	uint64_t known = older_total(target, device);
	struct allocation rest = allocation_begin((uint8_t)device, 0, target->result.first_time_ns);

	if (known >= state->before)
		return;
	rest.run = RUN_PREEXISTING;
	rest.flags = ALLOCATION_PREEXISTING | ALLOCATION_REMAINDER;
	rest.allocated_bytes = state->device.remainder_bytes = state->before - known;
	arrput(target->allocations, rest);
}

void remainders_add(struct target_state *target)
{
	/* Traced from its start nothing is older: such a total is of blocks that were lost. */
	if (target->result.from_start)
		return;
	for (size_t device = 0; device < arrlenu(target->devices); device++)
		if (target->devices[device].device.has_totals && arrlenu(target->allocations) < INDEX_MAX)
			remainder_add(target, device);
}
