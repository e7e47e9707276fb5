/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Totals of live memory: everything that the allocator gave out and did not
 * take back, rows or not, scratch included; and what is known to be older than
 * the trace, which counts from its first moment on. A run's totals are those
 * after its last allocator event, or at its start when it had none.
 */
#include "state.h"

/* What an allocation adds to the totals: nothing when the allocator does not own it. */
static uint64_t allocation_counted_bytes(const struct allocation *allocation)
{
	if ((allocation->flags & ALLOCATION_EXTERNAL) && !(allocation->flags & ALLOCATION_TRACKED))
		return 0;
	return allocation_total_bytes(allocation);
}

struct running {
	uint64_t live, peak;
	uint32_t run; /* runs before this one have their totals */
};

static void runs_fill(struct passes *passes, struct running *running, uint32_t until)
{
	struct rank *rank = &passes->target->result;

	for (; running->run < until; running->run++) {
		uint32_t public = passes->public_run[running->run];

		if (public == NONE)
			continue;
		rank->runs[public].live_bytes = running->live;
		rank->runs[public].peak_bytes = running->peak;
	}
}

static uint32_t public_run_of(const struct passes *passes, uint32_t run)
{
	uint32_t resolved = run == NONE ? NONE : passes->resolved[run];

	return resolved == NONE ? NONE : passes->public_run[resolved];
}

static void peak_note(struct passes *passes, struct running *running, uint32_t order, uint64_t time_ns, uint32_t run)
{
	struct rank *rank = &passes->target->result;

	if (running->live <= running->peak)
		return;
	running->peak = rank->peak_bytes = running->live;
	rank->peak_order = order;
	rank->peak_time_ns = time_ns;
	rank->peak_run = run;
}

void passes_total(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;
	struct running running = {0};

	for (size_t i = 0; i < arrlenu(target->allocations); i++)
		if (target->allocations[i].first_order == 0)
			running.live += allocation_counted_bytes(&target->allocations[i]);
	rank->peak_run = NONE;
	peak_note(passes, &running, 0, rank->first_time_ns, passes->public_run[RUN_PREEXISTING]);
	for (uint32_t i = 0; i < arrlenu(target->moments); i++) {
		const struct moment *moment = &target->moments[i];
		const struct allocation *allocation = &target->allocations[moment->allocation];
		uint32_t run = public_run_of(passes, moment->run);

		runs_fill(passes, &running, moment->runs_started);
		if (moment->is_free) {
			running.live -= allocation_counted_bytes(allocation);
		} else {
			running.live += allocation_counted_bytes(allocation);
			peak_note(passes, &running, i + 1, allocation->start_time_ns, run);
		}
		if (run != NONE) {
			rank->runs[run].live_bytes = running.live;
			rank->runs[run].peak_bytes = running.peak;
		}
	}
	runs_fill(passes, &running, (uint32_t)arrlenu(target->runs));
	rank->current.total = running.live;
}

/* Categories of the blocks alive at the peak and at the end; what is no row is Other. */
void passes_snapshot(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;

	rank->current.total = 0;
	for (size_t i = 0; i < arrlenu(target->allocations); i++) {
		const struct allocation *allocation = &target->allocations[i];
		uint32_t row = passes->row[i];
		uint8_t category = row == NONE ? CATEGORY_OTHER : rank->blocks[row].category;
		uint64_t bytes = allocation_counted_bytes(allocation);

		if (allocation->first_order <= rank->peak_order && rank->peak_order < allocation->last_order) {
			rank->peak.category[category] += bytes;
			rank->peak.total += bytes;
		}
		if (allocation->last_order == NONE) {
			rank->current.category[category] += bytes;
			rank->current.total += bytes;
		}
		if (row == NONE && allocation->allocated_bytes) {
			rank->untracked_blocks++;
			rank->untracked_bytes += allocation->last_order == NONE ? bytes : 0;
		}
	}
}
