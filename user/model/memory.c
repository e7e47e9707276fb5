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
 * replaces the old storage; a large one, and any on a device, is a row of its
 * own, and so is any that compiled code makes, which asks the allocator itself,
 * and what comes on a thread of Python before its first operator after the attach;
 * the rest are numbers that Python wraps.
 *
 * An argument at an address where nothing is alive is a storage that the
 * allocator never made (numpy, shared memory) when the target was traced from
 * its start, else one that is older than the attach.
 *
 * The allocator of a device rounds up: the bytes of the block are what counts in
 * totals, those asked for are the storage's. It says with each block what it has
 * given out in all. A block of a device is gone when its allocator is told so,
 * also where a stream that still uses it keeps it from being given out again.
 * One that is older than the trace is known from its free at the latest. What a
 * library asked for inside an operator is no storage but its workspace, also when
 * it keeps that for the next operators.
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

/* --- places ------------------------------------------------------------------ */

/* An address in the memory of a device. */
struct place {
	uint8_t device; /* index into target_state.devices */
	uint64_t address;
};

uint8_t device_find(struct target_state *target, uint8_t type, uint8_t index)
{
	struct device_state fresh = {.device.type = type, .device.index = index};

	for (size_t i = 0; i < arrlenu(target->devices); i++)
		if (target->devices[i].device.type == type && target->devices[i].device.index == index)
			return (uint8_t)i;
	if (arrlenu(target->devices) < DEVICES_MAX)
		arrput(target->devices, fresh);
	else
		return DEVICES_MAX;
	return (uint8_t)(arrlenu(target->devices) - 1);
}

static struct place place_of_argument(struct target_state *target, const struct tensor_argument *argument)
{
	uint8_t device = DEVICE_HOST;

	if (argument->device_type != DEVICE_CPU)
		device = device_find(target, argument->device_type, argument->device_index);
	return (struct place){device, argument->data};
}

/* Not every accelerator shares the host's addresses; theirs have fewer bits than these. */
static uint64_t address_key(struct place place)
{
	return place.address ^ (uint64_t)place.device << 56;
}

static struct address_state *address_find(struct target_state *target, struct place place)
{
	struct address_state fresh = {.live = NONE, .external = NONE};
	uint64_t key = address_key(place);
	ptrdiff_t at = hmgeti(target->addresses, key);

	if (at < 0) {
		hmput(target->addresses, key, fresh);
		at = hmgeti(target->addresses, key);
	}
	return &target->addresses[at].value;
}

static uint32_t address_live(struct target_state *target, struct place place)
{
	ptrdiff_t at = place.address ? hmgeti(target->addresses, address_key(place)) : -1;

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

struct allocation allocation_begin(uint8_t device, uint64_t address, uint64_t time_ns)
{
	return (struct allocation){
		.address = address,
		.device = device,
		.start_time_ns = time_ns,
		.end_time_ns = UINT64_MAX,
		.last_order = NONE,
		.resized_from = NONE,
		.leaf = NONE,
		.released_in = NONE,
	};
}

/* One whose making was not seen, at the time when it shows up. */
static struct allocation allocation_unseen(const struct target_state *target, struct place place, uint64_t time_ns)
{
	struct allocation allocation = allocation_begin(place.device, place.address, time_ns);

	allocation.run = RUN_PREEXISTING;
	allocation.flags = target->result.from_start ? ALLOCATION_EXTERNAL : ALLOCATION_PREEXISTING;
	return allocation;
}

uint32_t memory_argument(struct target_state *target, const struct event *event, const struct tensor_argument *argument)
{
	struct place place = place_of_argument(target, argument);
	struct allocation unseen = allocation_unseen(target, place, event->time_ns);
	uint32_t live;
	struct address_state *state;

	if (place.device == DEVICES_MAX)
		return NONE;
	unseen.bytes = argument->bytes;
	live = address_live(target, place);
	if (live != NONE) {
		allocation_show_bytes(&target->allocations[live], argument->bytes);
		return live;
	}
	if (!argument->data || !argument->bytes || arrlenu(target->allocations) >= INDEX_MAX)
		return NONE;
	state = address_find(target, place);
	if (state->external != NONE && !target->all_blocks) {
		state->live = state->external;
		return state->live;
	}
	/* Where a block died before, one older than the trace cannot be: its allocation was lost, or it is foreign. */
	if (state->count)
		unseen.flags = ALLOCATION_EXTERNAL;
	if (unseen.flags & ALLOCATION_PREEXISTING)
		target->devices[place.device].device.seen = true;
	allocation_add(target, state, &unseen);
	if (unseen.flags & ALLOCATION_EXTERNAL)
		state->external = state->live;
	return state->live;
}

/*
 * The memory of the target was read at a time that lies behind the event at
 * hand: a block that began after it cannot be meant, nor one that does not
 * reach so far. Where no block was ever seen, one is older than the trace.
 */
void memory_owner(struct target_state *target, uint64_t time_ns, unsigned int kind,
	const struct tensor_argument *storage, const char *name)
{
	struct event event = {.time_ns = time_ns};
	struct place place = place_of_argument(target, storage);
	uint32_t live;
	struct allocation *allocation;

	if (kind == OWNER_NONE) {
		target->result.owners_told = true;
		return;
	}
	live = place.device == DEVICES_MAX ? NONE : address_live(target, place);
	if (place.device == DEVICES_MAX || (live == NONE && target->result.from_start))
		return;
	if (live == NONE) {
		if (hmgeti(target->addresses, address_key(place)) >= 0)
			return;
		live = memory_argument(target, &event, storage);
	}
	allocation = live == NONE ? NULL : &target->allocations[live];
	if (!allocation || (allocation->start_time_ns > time_ns && !(allocation->flags & ALLOCATION_PREEXISTING)) ||
		(allocation->allocated_bytes && storage->bytes > allocation->allocated_bytes))
		return;
	/* A variable that is gone was its name all the same; of variables and nodes the last that was seen counts. */
	if (allocation->holder && (!*name || (allocation->holder < kind && allocation->holder != OWNER_VARIABLE)))
		return;
	allocation_show_bytes(allocation, storage->bytes);
	allocation->owner = name;
	allocation->holder = (uint8_t)kind;
	allocation->owner_source = OWNER_SEEN;
}

void memory_element_type(struct target_state *target, const struct tensor_argument *storage, uint8_t element_type)
{
	struct place place = place_of_argument(target, storage);
	uint32_t live = place.device == DEVICES_MAX ? NONE : address_live(target, place);

	if (live != NONE && target->allocations[live].holder == OWNER_PARAMETER)
		target->allocations[live].element_type = element_type;
}

/* --- allocate, free ---------------------------------------------------- */

/* An address is given out again although its block was believed alive. */
static void address_reuse(struct target_state *target, struct address_state *state, uint64_t time_ns, uint32_t run)
{
	const struct allocation *old = &target->allocations[state->live];

	/* Storages from elsewhere come and go unseen: nothing was lost. */
	if (old->allocated_bytes)
		target->result.reused_addresses++;
	if ((old->flags & ALLOCATION_EXTERNAL) && !target->all_blocks)
		state->live = NONE;
	else {
		allocation_close(target, state, time_ns, run);
		arrlast(target->moments).unseen = true;
	}
}

/* What an allocator gave out. */
struct given {
	const struct event *event;
	struct place place;
	uint64_t bytes, stack;
};

/* Numbers that Python wraps are made outside operators, on the CPU: not worth a row. */
static bool given_is_number(struct target_state *target, const struct thread *thread, const struct given *given)
{
	const struct stack *stack = &target->stacks[stack_find(target, given->stack)];
	/* Attached in the middle: what a factory makes that may have begun before, which is left out, has a maker. */
	bool first = !target->result.from_start && !thread->met && stack->frame_count;
	uint64_t least = first || given->event->flags & EVENT_LITE ? OUTSIDE_BYTES_MIN_LITE : OUTSIDE_BYTES_MIN;

	if (stack->in_compiled)
		return false;
	return given->place.device == DEVICE_HOST && given->bytes < least && !target->all_blocks;
}

/* A run of its own for an allocation outside operators, NONE when it is not worth one. */
static uint32_t outside_run(struct target_state *target, struct thread *thread, const struct given *given)
{
	uint64_t announced = thread->resize_bytes;

	thread->resize_bytes = 0;
	if (announced && given->bytes >= announced)
		return run_add(target, given->event, SOURCE_RESIZE, given->stack);
	thread->resize_from = NONE;
	return given_is_number(target, thread, given) ? NONE
	                                              : run_add(target, given->event, SOURCE_OUTSIDE, given->stack);
}

static int block_give(struct target_state *target, const struct given *given)
{
	const struct event *event = given->event;
	struct thread *thread = thread_find(target, event->thread_id);
	uint64_t announced;
	struct allocation allocation = allocation_begin(given->place.device, given->place.address, event->time_ns);
	struct address_state *state;

	if (!thread)
		return -ENOMEM;
	if (arrlenu(target->allocations) >= INDEX_MAX || arrlenu(target->runs) >= INDEX_MAX ||
		arrlenu(target->moments) >= INDEX_MAX - 1)
		return -E2BIG;
	thread_trim(target, thread, event->depth);
	if (!given->place.address || !given->bytes)
		return 0;
	announced = thread->resize_bytes;
	for (size_t i = 0; i < arrlenu(thread->frames); i++)
		thread->frames[i].threw = false;
	allocation.allocated_bytes = given->bytes;
	allocation.stack = stack_find(target, given->stack);
	allocation.run = thread_run(thread, event->depth);
	state = address_find(target, given->place);
	if (state->live != NONE)
		address_reuse(target, state, event->time_ns, allocation.run);
	if (allocation.run == NONE) {
		allocation.run = outside_run(target, thread, given);
		allocation.flags |= allocation.run == NONE ? 0 : ALLOCATION_OUTSIDE;
	}
	if (allocation.run != NONE && target->runs[allocation.run].source == SOURCE_RESIZE) {
		allocation.bytes = announced;
		thread->resize_to = (uint32_t)arrlenu(target->allocations);
	}
	allocation_add(target, state, &allocation);
	target->allocations[state->live].first_order = moment_add(target, state->live, allocation.run, false);
	target->devices[given->place.device].device.seen = true;
	if (given->place.device != DEVICE_HOST) {
		thread->last_device_block = state->live;
		thread->resized = thread->resizing;
		thread->resizing = false;
	}
	target->result.stacks_cut += !!(event->flags & EVENT_STACK_CUT);
	target->result.allocations++;
	target->result.allocated_bytes += given->bytes;
	return 0;
}

int memory_allocate(struct target_state *target, const struct allocate_event *event)
{
	struct given given = {
		.event = &event->event,
		.place = {DEVICE_HOST, event->address},
		.bytes = event->bytes,
		.stack = event->stack,
	};

	return block_give(target, &given);
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

/* Close what is alive at a place, which its allocator has taken back. */
static void block_take(
	struct target_state *target, struct thread *thread, const struct event *event, struct place place)
{
	struct address_state *state = address_find(target, place);
	uint32_t index = state->live;
	struct allocation *allocation = &target->allocations[index];
	bool by_resize;

	target->result.frees++;
	target->result.freed_bytes += allocation_total_bytes(allocation);
	if (allocation->run != NONE && thread_has_run(thread, allocation->run)) {
		if (run_has(target, &target->runs[allocation->run], OPERATOR_RANGE_BEGIN)) {
			arrput(thread->ranges, index);
			state->live = NONE;
			return;
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
	if (event->flags & EVENT_BACKWARD)
		allocation->released_in = thread->evaluating;
	allocation_close(target, state, event->time_ns, thread_run(thread, event->depth));
	arrlast(target->moments).by_resize = by_resize;
}

/* The thread of a free, its frames up to date, in *thread. */
static int free_begin(struct target_state *target, const struct event *event, struct thread **thread)
{
	*thread = thread_find(target, event->thread_id);
	if (!*thread)
		return -ENOMEM;
	if (arrlenu(target->moments) >= INDEX_MAX - 1 || arrlenu(target->allocations) >= INDEX_MAX)
		return -E2BIG;
	thread_trim(target, *thread, event->depth);
	return 0;
}

int memory_free(struct target_state *target, const struct free_event *event)
{
	struct place place = {DEVICE_HOST, event->address};
	struct thread *thread;
	uint32_t index;
	int error = free_begin(target, &event->event, &thread);

	if (error)
		return error;
	index = address_live(target, place);
	if (index == NONE || (target->allocations[index].flags & ALLOCATION_EXTERNAL)) {
		target->result.unknown_frees++;
		/* Whatever was there is gone: an owner that was read before must not bring it back. */
		(void)address_find(target, place);
		if (index == NONE || !target->all_blocks)
			return 0;
	}
	block_take(target, thread, &event->event, place);
	return 0;
}

/* --- devices -------------------------------------------------------------------- */

/* What an allocator says of itself: what it has given out, and had before the block at hand, and what it holds. */
struct totals {
	uint64_t before, allocated, reserved;
};

static void totals_take(
	struct target_state *target, uint8_t device, const struct event *event, const struct totals *totals)
{
	struct device_state *state = &target->devices[device];
	struct correction correction = {
		.live_bytes = totals->before,
		.time_ns = event->time_ns,
		.moments = (uint32_t)arrlenu(target->moments),
		.device = device,
	};

	if (!state->device.has_totals) {
		state->before = totals->before;
	} else if (state->allocated != totals->before) {
		state->device.unexplained_totals++;
		arrput(target->corrections, correction);
	}
	state->device.has_totals = true;
	state->allocated = totals->allocated;
	state->device.reserved_bytes = totals->reserved;
	if (totals->reserved > state->device.reserved_peak_bytes)
		state->device.reserved_peak_bytes = totals->reserved;
}

/* How many bytes more the allocator holds than when it was heard of last; 0 when it was never. */
static uint64_t reserved_more(const struct device_state *state, uint64_t reserved)
{
	uint64_t before = state->device.has_totals ? state->device.reserved_bytes : 0;

	return reserved > before ? reserved - before : 0;
}

int memory_device_allocate(struct target_state *target, const struct device_allocate_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	struct given given = {
		.event = &event->event,
		.place = {device_find(target, event->device_type, event->device_index), event->address},
		.bytes = event->bytes,
		.stack = event->stack,
	};
	struct totals totals = {
		.before = event->allocated > event->bytes ? event->allocated - event->bytes : 0,
		.allocated = event->allocated,
		.reserved = event->reserved,
	};
	uint64_t more;

	if (!thread)
		return -ENOMEM;
	if (event->device_type == DEVICE_CPU || given.place.device == DEVICES_MAX)
		return 0;
	more = reserved_more(&target->devices[given.place.device], event->reserved);
	totals_take(target, given.place.device, &event->event, &totals);
	segment_block(target, thread, given.place.device, event->address, more);
	mappings_confirm(target, event->address, event->bytes);
	return block_give(target, &given);
}

/*
 * A block that nothing is known of shows up when it is freed. It is older than
 * the trace; where nothing can be, its allocation was lost.
 */
static void unseen_add(struct target_state *target, const struct device_free_event *event, struct place place)
{
	struct allocation allocation = allocation_unseen(target, place, event->event.time_ns);

	allocation_add(target, address_find(target, place), &allocation);
	target->devices[place.device].device.seen = true;
}

int memory_device_free(struct target_state *target, const struct device_free_event *event)
{
	struct place place = {device_find(target, event->device_type, event->device_index), event->address};
	struct totals totals = {
		.before = event->allocated + event->bytes,
		.allocated = event->allocated,
		.reserved = event->reserved,
	};
	struct thread *thread;
	struct allocation *allocation;
	int error = free_begin(target, &event->event, &thread);

	if (error || event->device_type == DEVICE_CPU || place.device == DEVICES_MAX || !place.address || !event->bytes)
		return error;
	totals_take(target, place.device, &event->event, &totals);
	if (address_live(target, place) == NONE)
		unseen_add(target, event, place);
	allocation = &target->allocations[address_live(target, place)];
	if (!allocation->allocated_bytes)
		allocation->allocated_bytes = event->bytes; /* known by its use until now, or not at all */
	target->result.unknown_frees += !!(allocation->flags & ALLOCATION_EXTERNAL);
	address_find(target, place)->external = NONE;
	block_take(target, thread, &event->event, place);
	return 0;
}

static uint16_t stream_find(struct device *device, uint64_t handle)
{
	if (!arrlenu(device->streams))
		arrput(device->streams, 0);
	for (size_t i = 0; i < arrlenu(device->streams); i++)
		if (device->streams[i] == handle)
			return (uint16_t)i;
	if (arrlenu(device->streams) == STREAMS_MAX)
		return 0;
	arrput(device->streams, handle);
	return (uint16_t)(arrlenu(device->streams) - 1);
}

int memory_device_request(struct target_state *target, const struct device_request_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	struct allocation *allocation;

	if (!thread)
		return -ENOMEM;
	if (thread->last_device_block == NONE)
		return 0;
	allocation = &target->allocations[thread->last_device_block];
	if (allocation->address != event->address || event->bytes > allocation->allocated_bytes)
		return 0;
	thread->last_device_block = NONE;
	allocation->bytes = event->bytes;
	if (event->maker == MAKER_LIBRARY && !thread->resized && !(allocation->flags & ALLOCATION_OUTSIDE))
		allocation->flags |= ALLOCATION_LIBRARY;
	allocation->stream = stream_find(&target->devices[allocation->device].device, event->stream);
	return 0;
}

/* --- segments as blocks ------------------------------------------------------------ */

int memory_segment_begin(struct target_state *target, uint32_t index, const struct event *event)
{
	const struct segment *segment = &target->result.segments[index];
	struct given given = {
		.event = event,
		.place = {segment->device, segment->address},
		.bytes = segment->bytes,
	};
	uint32_t run;
	int error;

	if (segment->device == DEVICES_MAX || !segment->address || !segment->bytes ||
		segment->memory == SEGMENT_IMPORTED)
		return 0;
	error = block_give(target, &given);
	run = error ? NONE : arrlast(target->allocations).run;
	/* Outside operators it is known by who called for it. */
	if (run != NONE && target->runs[run].source == SOURCE_OUTSIDE) {
		target->runs[run].source = SOURCE_SEGMENT;
		target->runs[run].operator_ = index;
	}
	return error;
}

int memory_segment_end(struct target_state *target, uint32_t index, const struct event *event)
{
	const struct segment *segment = &target->result.segments[index];
	struct place place = {segment->device, segment->address};
	struct thread *thread;
	int error = free_begin(target, event, &thread);

	if (!error && segment->device != DEVICES_MAX && address_live(target, place) != NONE)
		block_take(target, thread, event, place);
	return error;
}

/* --- resizes --------------------------------------------------------------------- */

/* Inside an operator little needs to be known beforehand: its allocation and free tell the rest. */
int memory_resize(struct target_state *target, const struct resize_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);

	if (!thread)
		return -ENOMEM;
	thread_trim(target, thread, event->event.depth);
	thread->resize_from = thread->resize_to = NONE;
	thread->resize_bytes = 0;
	thread->resizing = event->bytes_after > 0;
	if (event->event.depth > 0 || event->before.bytes == event->bytes_after)
		return 0;
	thread->resize_from = address_live(target, place_of_argument(target, &event->before));
	thread->resize_bytes = event->bytes_after;
	return 0;
}

/* --- gradients ----------------------------------------------------------------- */

void gradient_settle(struct target_state *target, struct thread *thread)
{
	if (thread->storing != NONE) {
		target->allocations[thread->storing].flags |= ALLOCATION_GRADIENT;
		target->allocations[thread->storing].leaf = thread->leaf;
	}
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
	thread->leaf = variable;
	return 0;
}
