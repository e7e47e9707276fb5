/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of compiled code: what runs of one thread follow each other in one file
 * that inductor made is one call of it. Some of them are operators, which say for
 * which node of autograd's graph they work; the others, that made tensors by
 * asking the allocator, work for the same.
 */
#include "state.h"

struct last_region {
	uint32_t key;     /* thread */
	const char *file; /* that its last run was in, NULL: in none */
	uint32_t region;
};

void passes_find_regions(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct last_region *threads = NULL; /* stb_ds map */
	uint32_t regions = 0;

	arrzero(passes->region, arrlenu(target->runs));
	for (uint32_t i = 0; i < arrlenu(target->runs); i++) {
		const struct stack *stack = &target->stacks[target->runs[i].stack];
		const char *file = stack->in_compiled ? stack->frames[stack->frame_count - 1].file : NULL;
		struct last_region *last = hmgetp_null(threads, target->runs[i].thread_id);
		struct last_region now = {target->runs[i].thread_id, file, 0};

		if (target->runs[i].state != RUN_RAN)
			continue;
		if (file)
			now.region = last && last->file == file ? last->region : ++regions;
		passes->region[i] = now.region;
		hmputs(threads, now);
	}
	hmfree(threads);
	arrzero(passes->region_runs, regions + 1);
	for (uint32_t i = 0; i < arrlenu(target->runs); i++) {
		struct region_runs *runs = &passes->region_runs[passes->region[i]];

		if (!passes->region[i])
			continue;
		runs->first = runs->end ? runs->first : i;
		runs->end = i + 1;
	}
}

uint32_t region_maker(const struct passes *passes, uint32_t run)
{
	uint32_t region = passes->region[run];

	for (uint32_t i = passes->region_runs[region].first; region && i < passes->region_runs[region].end; i++)
		if (passes->region[i] == region && passes->maker[i] != NONE)
			return passes->maker[i];
	return NONE;
}

bool region_uses(const struct passes *passes, uint32_t run, uint32_t allocation)
{
	uint32_t region = passes->region[run];

	for (uint32_t i = passes->region_runs[region].first; region && i < passes->region_runs[region].end; i++)
		if (passes->region[i] == region && run_uses(passes, i, allocation))
			return true;
	return false;
}
