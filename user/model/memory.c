/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocations: which lifetimes an address had, and who they belong to.
 *
 * Rules. An allocation belongs to the innermost operator frame of its thread.
 * Freed on the same thread while that frame is alive it is scratch
 * (Workspace); another thread's free is none, because only a thread's own
 * events tell that its frame has ended. An address allocated again while it was
 * believed alive lost its free: the old block ends there, and is counted.
 *
 * A profiler range (OPERATOR_RANGE_BEGIN) makes a storage whose memory it swaps
 * for a heap object's at once. The storage lives on, without an address of the
 * allocator's, until the range ends on its thread.
 *
 * Outside operators: an allocation that follows a storage resize on its thread
 * replaces the old storage; a large one is a row of its own; the rest are
 * numbers that Python wraps.
 *
 * An argument at an address where nothing is alive is a storage that the
 * allocator never made (numpy, shared memory) when the target was traced from
 * its start, else one that is older than the attach.
 *
 * Gradients. AccumulateGrad is about to store an incoming gradient for a leaf:
 * the leaf's block is a parameter. The gradient's block is stored itself, or
 * copied, or added to what is stored. It was stored itself if its own thread
 * does not free it before it stores the next one or leaves the backward pass.
 * What it was copied or added to is found at the end: the first operator on
 * the thread after it that has it as an argument.
 */
#include "state.h"

#include <errno.h>

#include <hdtrace/capture.h>

static struct address_state *address_find(struct target_state *target, uint64_t address)
{
	struct address_state fresh = {.live = NONE, .external = NONE};
	ptrdiff_t at = hmgeti(target->addresses, address);

	if (at < 0) {
		hmput(target->addresses, address, fresh);
		at = hmgeti(target->addresses, address);
	}
	return &target->addresses[at].value;
}

static uint32_t address_live(struct target_state *target, uint64_t address)
{
	ptrdiff_t at = address ? hmgeti(target->addresses, address) : -1;

	return at >= 0 ? target->addresses[at].value.live : NONE;
}

static uint32_t allocation_add(
	struct target_state *target, struct address_state *state, const struct allocation *allocation)
{
	uint32_t index = (uint32_t)arrlenu(target->allocations);

	arrput(target->allocations, *allocation);
	target->allocations[index].generation = state->count++;
	state->live = index;
	return index;
}

/* The timeline's next position; positions count from 1, 0 is before the first. */
static uint32_t moment_add(struct target_state *target, uint32_t allocation, uint32_t run, bool is_free)
{
	struct moment moment = {
		.allocation = allocation,
		.run = run,
		.runs_started = (uint32_t)arrlenu(target->runs),
		.is_free = is_free,
	};

	arrput(target->moments, moment);
	return (uint32_t)arrlenu(target->moments);
}

static void allocation_close(struct target_state *target, struct address_state *state, uint64_t time_ns, uint32_t run)
{
	uint32_t index = state->live;

	target->allocations[index].end_time_ns = time_ns;
	target->allocations[index].last_order = moment_add(target, index, run, true);
	state->live = NONE;
}

uint64_t allocation_total_bytes(const struct allocation *allocation)
{
	return allocation->allocated_bytes ? allocation->allocated_bytes : allocation->bytes;
}

/* --- arguments --------------------------------------------------------------- */

/* The storage's own size; an allocator may have given more. A larger one is not this storage's. */
static void allocation_show_bytes(struct allocation *allocation, uint64_t bytes)
{
	if (!allocation->bytes && (!allocation->allocated_bytes || bytes <= allocation->allocated_bytes))
		allocation->bytes = bytes;
}

uint32_t memory_argument(struct target_state *target, const struct event *event, const struct tensor_argument *argument)
{
	struct allocation unseen = {
		.address = argument->data,
		.bytes = argument->bytes,
		.start_time_ns = event->time_ns,
		.end_time_ns = UINT64_MAX,
		.run = RUN_PREEXISTING,
		.last_order = NONE,
		.resized_from = NONE,
		.flags = target->result.from_start ? ALLOCATION_EXTERNAL : ALLOCATION_PREEXISTING,
	};
	uint32_t live = address_live(target, argument->data);
	struct address_state *state;

	if (live != NONE) {
		allocation_show_bytes(&target->allocations[live], argument->bytes);
		return live;
	}
	if (!argument->data || !argument->bytes || arrlenu(target->allocations) >= INDEX_MAX)
		return NONE;
	state = address_find(target, argument->data);
	if (state->external != NONE && !target->all_blocks) {
		state->live = state->external;
		return state->live;
	}
	/* Where a block died before, one older than the trace cannot be: its allocation was lost, or it is foreign. */
	if (state->count)
		unseen.flags = ALLOCATION_EXTERNAL;
	allocation_add(target, state, &unseen);
	if (unseen.flags & ALLOCATION_EXTERNAL)
		state->external = state->live;
	return state->live;
}

/* --- allocate, free, resize ---------------------------------------------------- */

/* An address is given out again although its block was believed alive. */
static void address_reuse(struct target_state *target, struct address_state *state, uint64_t time_ns, uint32_t run)
{
	const struct allocation *old = &target->allocations[state->live];

	/* Storages from elsewhere come and go unseen: nothing was lost. */
	if (old->allocated_bytes)
		target->result.reused_addresses++;
	if ((old->flags & ALLOCATION_EXTERNAL) && !target->all_blocks)
		state->live = NONE;
	else
		allocation_close(target, state, time_ns, run);
}

/* A run of its own for an allocation outside operators, NONE when it is not worth one. */
static uint32_t outside_run(struct target_state *target, struct thread *thread, const struct allocate_event *event)
{
	uint64_t announced = thread->resize_bytes;
	uint64_t least = event->event.flags & EVENT_LITE ? OUTSIDE_BYTES_MIN_LITE : OUTSIDE_BYTES_MIN;

	thread->resize_bytes = 0;
	if (announced && event->bytes >= announced)
		return run_add(target, &event->event, SOURCE_RESIZE, event->stack);
	thread->resize_from = NONE;
	if (event->bytes >= least || target->all_blocks)
		return run_add(target, &event->event, SOURCE_OUTSIDE, event->stack);
	return NONE;
}

int memory_allocate(struct target_state *target, const struct allocate_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	uint64_t announced;
	struct allocation allocation = {
		.address = event->address,
		.allocated_bytes = event->bytes,
		.start_time_ns = event->event.time_ns,
		.end_time_ns = UINT64_MAX,
		.stack = stack_find(target, event->stack),
		.last_order = NONE,
		.resized_from = NONE,
	};
	struct address_state *state;

	if (!thread)
		return -ENOMEM;
	if (arrlenu(target->allocations) >= INDEX_MAX || arrlenu(target->runs) >= INDEX_MAX ||
		arrlenu(target->moments) >= INDEX_MAX - 1)
		return -E2BIG;
	thread_trim(target, thread, event->event.depth);
	if (!event->address || !event->bytes)
		return 0;
	announced = thread->resize_bytes;
	for (size_t i = 0; i < arrlenu(thread->frames); i++)
		thread->frames[i].threw = false;
	allocation.run = thread_run(thread, event->event.depth);
	state = address_find(target, event->address);
	if (state->live != NONE)
		address_reuse(target, state, event->event.time_ns, allocation.run);
	if (allocation.run == NONE) {
		allocation.run = outside_run(target, thread, event);
		allocation.flags |= allocation.run == NONE ? 0 : ALLOCATION_OUTSIDE;
	}
	if (allocation.run != NONE && target->runs[allocation.run].source == SOURCE_RESIZE) {
		allocation.bytes = announced;
		thread->resize_to = (uint32_t)arrlenu(target->allocations);
	}
	allocation_add(target, state, &allocation);
	target->allocations[state->live].first_order = moment_add(target, state->live, allocation.run, false);
	target->result.stacks_cut += !!(event->event.flags & EVENT_STACK_CUT);
	target->result.allocations++;
	target->result.allocated_bytes += event->bytes;
	return 0;
}

void memory_range_end(struct target_state *target, struct thread *thread, const struct event *event)
{
	struct allocation *handle;
	uint32_t index;

	if (!arrlenu(thread->ranges) || arrlenu(target->moments) >= INDEX_MAX - 1)
		return;
	index = arrpop(thread->ranges);
	handle = &target->allocations[index];
	handle->end_time_ns = event->time_ns;
	handle->last_order = moment_add(target, index, NONE, true);
}

static bool thread_has_run(const struct thread *thread, uint32_t run)
{
	for (size_t i = 0; i < arrlenu(thread->frames); i++)
		if (thread->frames[i].run == run)
			return true;
	return false;
}

int memory_free(struct target_state *target, const struct free_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	struct address_state *state;
	struct allocation *allocation;
	uint32_t index;
	bool by_resize;

	if (!thread)
		return -ENOMEM;
	if (arrlenu(target->moments) >= INDEX_MAX - 1)
		return -E2BIG;
	thread_trim(target, thread, event->event.depth);
	index = address_live(target, event->address);
	if (index == NONE || (target->allocations[index].flags & ALLOCATION_EXTERNAL)) {
		target->result.unknown_frees++;
		if (index == NONE || !target->all_blocks)
			return 0;
	}
	state = address_find(target, event->address);
	allocation = &target->allocations[index];
	target->result.frees++;
	target->result.freed_bytes += allocation_total_bytes(allocation);
	if (allocation->run != NONE && thread_has_run(thread, allocation->run)) {
		if (run_has(target, &target->runs[allocation->run], OPERATOR_RANGE_BEGIN)) {
			arrput(thread->ranges, index);
			state->live = NONE;
			return 0;
		}
		allocation->flags |= ALLOCATION_SCRATCH;
	}
	if (thread->storing == index)
		thread->storing = NONE;
	by_resize = thread->resize_from == index;
	if (by_resize && thread->resize_to != NONE)
		target->allocations[thread->resize_to].resized_from = index;
	if (by_resize)
		thread->resize_from = thread->resize_to = NONE;
	allocation_close(target, state, event->event.time_ns, thread_run(thread, event->event.depth));
	arrlast(target->moments).by_resize = by_resize;
	return 0;
}

/* Inside an operator nothing needs to be known beforehand: its allocation and free tell it all. */
int memory_resize(struct target_state *target, const struct resize_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);

	if (!thread)
		return -ENOMEM;
	thread_trim(target, thread, event->event.depth);
	thread->resize_from = thread->resize_to = NONE;
	thread->resize_bytes = 0;
	if (event->event.depth > 0 || event->bytes_before == event->bytes_after)
		return 0;
	thread->resize_from = address_live(target, event->address);
	thread->resize_bytes = event->bytes_after;
	return 0;
}

/* --- gradients ----------------------------------------------------------------- */

void gradient_settle(struct target_state *target, struct thread *thread)
{
	if (thread->storing != NONE)
		target->allocations[thread->storing].flags |= ALLOCATION_GRADIENT;
	thread->storing = NONE;
}

int memory_gradient(struct target_state *target, const struct gradient_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	uint32_t variable, gradient;

	if (!thread)
		return -ENOMEM;
	thread_trim(target, thread, event->event.depth);
	gradient_settle(target, thread);
	variable = memory_argument(target, &event->event, &event->variable);
	gradient = memory_argument(target, &event->event, &event->gradient);
	if (variable != NONE)
		target->allocations[variable].flags |= ALLOCATION_PARAMETER;
	thread->storing = thread->accumulating = gradient;
	return 0;
}
