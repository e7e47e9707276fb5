/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Totals of live memory, for each device that is reported: everything that the
 * allocator gave out and did not take back, rows or not, scratch included; and
 * what is older than the trace: all that the allocator says it had given out,
 * or, where it says nothing, what is known of it. That counts from the first
 * moment on. A run's totals are those after its last allocator event, or at its
 * start when it had none.
 */
#include "state.h"

bool allocation_is_reported(const struct target_state *target, const struct allocation *allocation)
{
	return target->devices[allocation->device].device.reported;
}

/* What an allocation is in the totals: nothing when the allocator does not own it. */
static uint64_t allocation_counted_bytes(const struct allocation *allocation)
{
	if ((allocation->flags & ALLOCATION_EXTERNAL) && !(allocation->flags & ALLOCATION_TRACKED))
		return 0;
	return allocation_total_bytes(allocation);
}

/* By how much it moves them: where an allocator tells its own, only what that gave out is in them. */
static uint64_t allocation_moved_bytes(const struct target_state *target, const struct allocation *allocation)
{
	if (target->devices[allocation->device].device.has_totals)
		return allocation->allocated_bytes;
	return allocation_counted_bytes(allocation);
}

/* One device while its events are gone through. */
struct running {
	struct passes *passes;
	struct device *device;
	struct run_totals *totals; /* of public runs */
	struct run_totals now;
	uint32_t run; /* runs before this one have their totals */
	uint32_t step;
	uint64_t step_peak_bytes;
	struct balance balance; /* of blocks alone */
};

/* Steps before this one are over. */
static void steps_advance(struct running *running, uint32_t step)
{
	struct step *steps = running->passes->target->result.steps;

	for (; running->step < step; running->step++) {
		steps[running->step].peak_bytes += running->step_peak_bytes;
		steps[running->step].end_bytes += running->now.live_bytes;
		running->step_peak_bytes = running->now.live_bytes;
		running->balance.allocator_bytes = running->now.live_bytes;
		if (running->device->has_totals)
			arrput(running->device->balances, running->balance);
	}
}

static uint32_t step_of(const struct target_state *target, const struct moment *moment)
{
	return moment->runs_started ? target->runs[moment->runs_started - 1].step : 0;
}

static void runs_fill(struct running *running, uint32_t until)
{
	for (; running->run < until; running->run++)
		if (running->passes->public_run[running->run] != NONE)
			running->totals[running->passes->public_run[running->run]] = running->now;
}

static uint32_t public_run_of(const struct passes *passes, uint32_t run)
{
	uint32_t resolved = run == NONE ? NONE : passes->resolved[run];

	return resolved == NONE ? NONE : passes->public_run[resolved];
}

static void peak_note(struct running *running, uint32_t order, uint64_t time_ns, uint32_t run)
{
	if (running->now.live_bytes > running->step_peak_bytes)
		running->step_peak_bytes = running->now.live_bytes;
	if (running->now.live_bytes <= running->now.peak_bytes)
		return;
	running->now.peak_bytes = running->device->peak_bytes = running->now.live_bytes;
	running->device->peak_order = order;
	running->device->peak_time_ns = time_ns;
	running->device->peak_run = run;
}

static uint64_t known_before(const struct target_state *target, size_t device)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < arrlenu(target->allocations); i++)
		if (target->allocations[i].device == device && (target->allocations[i].flags & ALLOCATION_PREEXISTING))
			bytes += allocation_shown_bytes(&target->allocations[i]);
	return bytes - target->devices[device].device.remainder_bytes;
}

static uint64_t bytes_before(const struct target_state *target, size_t device)
{
	uint64_t bytes = 0;

	if (target->devices[device].device.has_totals)
		return target->devices[device].before;
	for (size_t i = 0; i < arrlenu(target->allocations); i++)
		if (target->allocations[i].device == device && target->allocations[i].first_order == 0)
			bytes += allocation_counted_bytes(&target->allocations[i]);
	return bytes;
}

/* Believe what the allocator told until so many moments; returns the place of the next correction. */
static size_t corrections_apply(struct running *running, size_t device, size_t place, uint32_t moments)
{
	const struct target_state *target = running->passes->target;

	for (; place < arrlenu(target->corrections) && target->corrections[place].moments <= moments; place++) {
		if (target->corrections[place].device != device)
			continue;
		running->now.live_bytes = target->corrections[place].live_bytes;
		peak_note(running, target->corrections[place].moments, target->corrections[place].time_ns, NONE);
	}
	return place;
}

/* What the blocks add up to, whatever their allocator says. */
static void balance_count(struct balance *balance, const struct moment *moment, const struct allocation *allocation)
{
	if (allocation->flags & ALLOCATION_EXTERNAL)
		return;
	if (!moment->is_free)
		balance->traced_bytes += allocation->allocated_bytes;
	else if (allocation->flags & ALLOCATION_PREEXISTING)
		balance->older_bytes -= allocation_total_bytes(allocation);
	else
		balance->traced_bytes -= allocation->allocated_bytes;
}

static void moment_count(struct running *running, uint32_t index)
{
	const struct target_state *target = running->passes->target;
	const struct moment *moment = &target->moments[index];
	const struct allocation *allocation = &target->allocations[moment->allocation];
	uint64_t bytes = allocation_moved_bytes(target, allocation), live = running->now.live_bytes;
	uint32_t run = public_run_of(running->passes, moment->run);

	runs_fill(running, moment->runs_started);
	steps_advance(running, step_of(target, moment));
	balance_count(&running->balance, moment, allocation);
	/* The allocator's total has lost it already, where it tells one. */
	if (moment->unseen && running->device->has_totals)
		bytes = 0;
	if (moment->is_free) {
		running->now.live_bytes = live > bytes ? live - bytes : 0;
	} else {
		running->now.live_bytes += bytes;
		target->result.steps[running->step].allocated_bytes += bytes;
		peak_note(running, index + 1, allocation->start_time_ns, run);
	}
	if (run != NONE)
		running->totals[run] = running->now;
}

static void device_total(struct passes *passes, size_t device)
{
	struct target_state *target = passes->target;
	struct running running = {.passes = passes, .device = &target->devices[device].device};
	size_t correction = 0;

	arrzero(passes->totals[device], arrlenu(target->result.runs));
	running.totals = passes->totals[device];
	running.now.live_bytes = bytes_before(target, device);
	running.device->older_known_bytes = known_before(target, device);
	running.balance.older_bytes = older_total(target, device);
	if (running.device->has_totals)
		running.device->older_bytes = target->devices[device].before;
	running.device->peak_run = NONE;
	peak_note(&running, 0, target->result.first_time_ns, passes->public_run[RUN_PREEXISTING]);
	for (uint32_t i = 0; i < arrlenu(target->moments); i++) {
		correction = corrections_apply(&running, device, correction, i);
		if (target->allocations[target->moments[i].allocation].device == device)
			moment_count(&running, i);
	}
	runs_fill(&running, (uint32_t)arrlenu(target->runs));
	steps_advance(&running, (uint32_t)arrlenu(target->result.steps));
	running.device->current.total = running.now.live_bytes;
}

void passes_total(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;

	arrzero(passes->totals, arrlenu(target->devices));
	for (size_t device = 0; device < arrlenu(target->devices); device++) {
		if (!target->devices[device].device.reported)
			continue;
		device_total(passes, device);
		rank->peak_bytes += target->devices[device].device.peak_bytes;
		for (size_t run = 0; run < arrlenu(rank->runs); run++)
			rank->runs[run].live_bytes += passes->totals[device][run].live_bytes;
	}
}

/* What the allocator had given out and nothing is known of: older than the trace, and not used or freed since. */
void snapshot_complete(struct snapshot *snapshot, uint64_t total)
{
	uint64_t known = 0;

	for (int category = 0; category < CATEGORIES; category++)
		known += snapshot->category[category];
	if (known < total)
		snapshot->category[CATEGORY_OTHER] += total - known;
	snapshot->total = known < total ? total : known;
}

/* Categories of the blocks alive at the peak and at the end; what is no row is Other. */
void passes_snapshot(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;

	for (size_t i = 0; i < arrlenu(target->allocations); i++) {
		const struct allocation *allocation = &target->allocations[i];
		struct device *device = &target->devices[allocation->device].device;
		uint32_t row = passes->row[i];
		uint8_t category = row == NONE ? CATEGORY_OTHER : rank->blocks[row].category;
		uint64_t bytes = allocation_counted_bytes(allocation);

		if (!device->reported)
			continue;
		if (allocation->first_order <= device->peak_order && device->peak_order < allocation->last_order)
			device->peak.category[category] += bytes;
		if (allocation->last_order == NONE)
			device->current.category[category] += bytes;
		if (row == NONE && allocation->allocated_bytes) {
			rank->untracked_blocks++;
			rank->untracked_bytes += allocation->last_order == NONE ? bytes : 0;
		}
	}
	for (size_t i = 0; i < arrlenu(target->devices); i++) {
		struct device *device = &target->devices[i].device;

		snapshot_complete(&device->peak, device->has_totals ? device->peak_bytes : 0);
		snapshot_complete(&device->current, device->has_totals ? device->current.total : 0);
	}
}
