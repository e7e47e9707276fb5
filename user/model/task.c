/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which blocks are tracked, and which runs are tasks.
 *
 * Rules. A block made inside an operator and a block older than the trace are
 * tracked; a block made outside operators is tracked when it has a run of its
 * own (memory.c). Scratch is not, nor what a library keeps for itself. Neither is a
 * block whose first user is a lift: torch.tensor made it where the dry run does not
 * look (all_blocks keeps those too). Blocks of devices that are not reported are as if they were not
 * there. None of this depends on what is a task, so there is no circle.
 *
 * A run is a task if an argument is a tracked block, or if it made a tracked
 * block that outlives it. Tasks are numbered in order of start, from 0; what is
 * older than the trace, if there is any, is made by task 0.
 */
#include "state.h"

#include <hdtrace/capture.h>

static void runs_resolve(struct passes *passes)
{
	struct target_state *target = passes->target;

	arrzero(passes->resolved, arrlenu(target->runs));
	for (uint32_t run = 0; run < arrlenu(target->runs); run++)
		passes->resolved[run] = run_resolve(target, run);
}

/* Arguments by run, in order, each block once; those of runs that did not run go. */
static void uses_group(struct passes *passes)
{
	struct target_state *target = passes->target;
	size_t run_count = arrlenu(target->runs);
	uint32_t *seen = NULL, *next = NULL, kept = 0;

	arrzero(passes->use_start, run_count + 1);
	for (size_t i = 0; i < arrlenu(target->uses); i++)
		passes->use_start[target->uses[i].run + 1]++;
	for (size_t run = 0; run < run_count; run++)
		passes->use_start[run + 1] += passes->use_start[run];
	arrzero(next, run_count);
	if (next)
		memcpy(next, passes->use_start, run_count * sizeof(*next));
	arrzero(passes->used, arrlenu(target->uses));
	for (size_t i = 0; i < arrlenu(target->uses); i++)
		passes->used[next[target->uses[i].run]++] = target->uses[i].allocation;

	arrzero(seen, arrlenu(target->allocations));
	for (uint32_t run = 0; run < run_count; run++) {
		uint32_t from = passes->use_start[run], to = next[run];

		passes->use_start[run] = kept;
		for (uint32_t i = from; i < to && target->runs[run].state == RUN_RAN; i++) {
			if (seen[passes->used[i]] == run + 1)
				continue;
			seen[passes->used[i]] = run + 1;
			passes->used[kept++] = passes->used[i];
		}
	}
	passes->use_start[run_count] = kept;
	arrfree(seen);
	arrfree(next);
}

static uint32_t allocation_producer(const struct passes *passes, const struct allocation *allocation)
{
	return allocation->run == NONE ? NONE : passes->resolved[allocation->run];
}

static void lifts_mark(struct passes *passes)
{
	struct target_state *target = passes->target;

	for (uint32_t run = 0; run < arrlenu(target->runs); run++) {
		for (uint32_t i = passes->use_start[run]; i < passes->use_start[run + 1]; i++) {
			struct allocation *used = &target->allocations[passes->used[i]];

			if ((used->flags & ALLOCATION_USED) || allocation_producer(passes, used) == run)
				continue;
			used->flags |= ALLOCATION_USED;
			if (run_has(target, &target->runs[run], OPERATOR_LIFT))
				used->flags |= ALLOCATION_LIFTED;
		}
	}
}

static bool allocation_is_tracked(const struct passes *passes, const struct allocation *allocation)
{
	bool all_blocks = passes->target->all_blocks;

	if (allocation->flags & ALLOCATION_PREEXISTING)
		return true;
	if (allocation->flags & ALLOCATION_EXTERNAL)
		return all_blocks && allocation->generation == 0;
	if (allocation->flags & (ALLOCATION_SCRATCH | ALLOCATION_LIBRARY))
		return false;
	if ((allocation->flags & ALLOCATION_LIFTED) && !all_blocks)
		return false;
	return allocation_producer(passes, allocation) != NONE;
}

/* Count what every run made that outlives it, and mark in `makes` those that made a tracked one. */
static void blocks_track(struct passes *passes, bool *makes)
{
	struct target_state *target = passes->target;

	for (size_t i = 0; i < arrlenu(target->allocations); i++) {
		struct allocation *allocation = &target->allocations[i];
		uint32_t producer = allocation_producer(passes, allocation);

		if (!allocation_is_reported(target, allocation))
			continue;
		if (producer != NONE && !(allocation->flags & (ALLOCATION_SCRATCH | ALLOCATION_LIBRARY)))
			passes->made[producer]++;
		if (!allocation_is_tracked(passes, allocation))
			continue;
		allocation->flags |= ALLOCATION_TRACKED;
		makes[producer] = true;
	}
}

bool run_uses(const struct passes *passes, uint32_t run, uint32_t allocation)
{
	for (uint32_t i = passes->use_start[run]; i < passes->use_start[run + 1]; i++)
		if (passes->used[i] == allocation)
			return true;
	return false;
}

static bool run_uses_tracked(const struct passes *passes, uint32_t run)
{
	for (uint32_t i = passes->use_start[run]; i < passes->use_start[run + 1]; i++)
		if (passes->target->allocations[passes->used[i]].flags & ALLOCATION_TRACKED)
			return true;
	return false;
}

void passes_number_tasks(struct passes *passes)
{
	struct target_state *target = passes->target;
	uint32_t run_count = (uint32_t)arrlenu(target->runs), tasks = 0;
	bool *makes = NULL;

	runs_resolve(passes);
	uses_group(passes);
	lifts_mark(passes);
	arrzero(makes, run_count);
	arrzero(passes->made, run_count);
	blocks_track(passes, makes);
	arrzero(passes->task, run_count);
	arrzero(passes->tasks_before, run_count + 1);
	for (uint32_t run = 0; run < run_count; run++) {
		bool is_task = target->runs[run].state == RUN_RAN && (makes[run] || run_uses_tracked(passes, run));

		passes->tasks_before[run] = tasks;
		passes->task[run] = is_task ? (int64_t)tasks++ : TASK_NONE;
	}
	passes->tasks_before[run_count] = tasks;
	target->result.task_count = tasks;
	arrfree(makes);
}
