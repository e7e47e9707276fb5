/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments: memory that drivers and their runtimes gave, to PyTorch's allocator
 * or to whoever asked. Blocks lie in those of an allocator.
 *
 * Rules. A call that was seen to return tells its address. One that was not is
 * believed by what stands where its result went, when that can be an address:
 * aligned, and of no segment that is alive. The allocator knows better: when it
 * next says on that thread that it holds as much more, the block it gives out is
 * at the start of the segment. A call of which neither tells failed when the same
 * stands there as before, when it is made again, or when the allocator gives up.
 * Else, or when nothing stands there any more, what it came to is not known: it is
 * memory at no known address, which a free of one that nobody gave may tell.
 *
 * Physical memory that is mapped (expandable segments) is a segment for each
 * mapping; created memory that is never mapped is not counted.
 *
 * Arrays have no address: their handle stands for it, and covers one byte. Memory
 * that was imported is another's, who holds it: it is listed, and in no total.
 *
 * Which device a call is for is what its handle or its thread says, else the
 * device of the blocks in it.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>

/* Drivers align what they give to this at least. */
#define SEGMENT_ALIGNMENT 256u
/* Later ones are counted, not kept. */
#define OUT_OF_MEMORIES_MAX 64
#define FAILURES_MAX 4096

/* --- what is alive -------------------------------------------------------------- */

/* Index into target->live_segments of the first that begins behind an address. */
static size_t live_behind(const struct target_state *target, uint64_t address)
{
	size_t low = 0, high = arrlenu(target->live_segments);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (target->result.segments[target->live_segments[middle]].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_handle(uint8_t memory, bool mapped)
{
	return memory == SEGMENT_ARRAY || (memory == SEGMENT_IMPORTED && !mapped);
}

/* Bytes from its address on that are its own. */
static uint64_t span_of(const struct segment *segment)
{
	return is_handle(segment->memory, segment->mapped) ? 1 : segment->bytes;
}

/* The segment that an address lies in, NONE. */
static uint32_t live_at(const struct target_state *target, uint64_t address)
{
	size_t behind = live_behind(target, address);
	const struct segment *segment;

	if (!behind)
		return NONE;
	segment = &target->result.segments[target->live_segments[behind - 1]];
	return address - segment->address < span_of(segment) ? target->live_segments[behind - 1] : NONE;
}

static bool live_overlaps(const struct target_state *target, uint64_t address, uint64_t bytes)
{
	size_t behind = live_behind(target, address);

	if (live_at(target, address) != NONE)
		return true;
	return behind < arrlenu(target->live_segments) &&
	       target->result.segments[target->live_segments[behind]].address - address < bytes;
}

/* What an allocator calls for is its own, though no block may lie in it yet. */
static bool is_of_allocator(const struct target_state *target, const struct segment *segment)
{
	if (segment->memory == SEGMENT_IMPORTED)
		return false;
	return segment->has_blocks || hmgeti(((struct target_state *)target)->allocators, segment->caller) >= 0;
}

static void moment_add(struct target_state *target, uint32_t segment, bool is_end)
{
	struct segment_moment moment = {segment, is_end};

	arrput(target->segment_moments, moment);
}

static void segment_end(struct target_state *target, uint32_t index, uint64_t time_ns)
{
	struct segment *segment = &target->result.segments[index];
	size_t behind = live_behind(target, segment->address);

	if (behind && target->live_segments[behind - 1] == index)
		arrdel(target->live_segments, behind - 1);
	segment->end_time_ns = time_ns;
	moment_add(target, index, true);
}

/* Whatever was believed to be alive there is not: its end was not seen. */
static void range_clear(struct target_state *target, uint64_t address, uint64_t bytes, uint64_t time_ns)
{
	uint32_t index;
	size_t behind;

	while ((index = live_at(target, address)) != NONE)
		segment_end(target, index, time_ns);
	while ((behind = live_behind(target, address)) < arrlenu(target->live_segments) &&
		target->result.segments[target->live_segments[behind]].address - address < bytes)
		segment_end(target, target->live_segments[behind], time_ns);
}

static void segment_begin(struct target_state *target, struct thread *thread, const struct segment *segment)
{
	uint32_t index = (uint32_t)arrlenu(target->result.segments);
	size_t place;

	range_clear(target, segment->address, span_of(segment), segment->start_time_ns);
	arrput(target->result.segments, *segment);
	place = live_behind(target, segment->address);
	arrins(target->live_segments, place, index);
	moment_add(target, index, false);
	thread->last_segment = index;
}

/* --- calls ------------------------------------------------------------------------ */

/* Where nothing told the device: threads begin with the first; of one from before the trace only if it is the only one.
 */
static uint8_t device_guess(struct target_state *target, uint8_t type)
{
	uint8_t only = DEVICES_MAX;
	size_t count = 0;

	for (size_t i = 0; i < arrlenu(target->devices); i++)
		if (target->devices[i].device.type == type) {
			only = (uint8_t)i;
			count++;
		}
	if (!count || target->result.from_start)
		return device_find(target, type, 0);
	return count == 1 ? only : DEVICES_MAX;
}

static uint8_t device_of(struct target_state *target, const struct segment_event *event)
{
	if (event->memory == SEGMENT_HOST)
		return device_find(target, DEVICE_PINNED, 0);
	if (event->device_index == SEGMENT_DEVICE_UNKNOWN)
		return device_guess(target, event->device_type);
	return device_find(target, event->device_type, event->device_index);
}

static struct segment segment_of(struct target_state *target, const struct segment_event *event)
{
	return (struct segment){
		.address = event->address,
		.bytes = event->bytes,
		.stream = event->stream,
		.caller = event->caller,
		.start_time_ns = event->event.time_ns,
		.end_time_ns = UINT64_MAX,
		.function = event->event.operator_,
		.thread_id = event->event.thread_id,
		.memory = event->memory,
		.device_type = event->device_type,
		.device = device_of(target, event),
		.mapped = event->action == SEGMENT_MAP,
		.registered = event->action == SEGMENT_REGISTER,
		.pooled = event->pooled,
		.certain = event->result == SEGMENT_RETURNED,
	};
}

static void failure_add(struct target_state *target, const struct segment *segment, int32_t code)
{
	struct segment_failure failure = {
		.time_ns = segment->start_time_ns,
		.bytes = segment->bytes,
		.caller = segment->caller,
		.function = segment->function,
		.code = code,
		.device_type = segment->device_type,
		.device = segment->device,
	};

	target->result.segment_failures++;
	if (arrlenu(target->result.failures) < FAILURES_MAX)
		arrput(target->result.failures, failure);
}

/* Nothing more will be known of the thread's call without a result. */
static void doubt_end(struct target_state *target, struct thread *thread, bool failed)
{
	struct segment segment = thread->doubtful;

	if (!segment.bytes)
		return;
	thread->doubtful.bytes = 0;
	if (failed || thread->doubtful_unchanged) {
		failure_add(target, &segment, 0);
		return;
	}
	segment.address = 0;
	arrput(target->unplaced, (uint32_t)arrlenu(target->result.segments));
	arrput(target->result.segments, segment);
	moment_add(target, arrlast(target->unplaced), false);
}

static bool is_made_again(const struct segment *doubtful, const struct segment_event *event)
{
	return event->action == SEGMENT_ALLOCATE && event->bytes == doubtful->bytes &&
	       event->caller == doubtful->caller;
}

static bool result_is_plausible(const struct target_state *target, const struct segment_event *event)
{
	bool handle = is_handle(event->memory, false);

	return event->result == SEGMENT_FOUND && event->address &&
	       (handle || event->address % SEGMENT_ALIGNMENT == 0) &&
	       !live_overlaps(target, event->address, handle ? 1 : event->bytes);
}

/* Memory from a driver's pool is a block, unless there is an allocator of blocks above it. */
static bool segment_is_block(const struct target_state *target, const struct segment *segment)
{
	return segment->pooled && segment->device != DEVICES_MAX && !target->devices[segment->device].device.has_totals;
}

static void segment_allocate(struct target_state *target, struct thread *thread, const struct segment_event *event)
{
	struct segment segment = segment_of(target, event);

	if (event->result == SEGMENT_REFUSED && (event->bytes || event->memory == SEGMENT_IMPORTED)) {
		failure_add(target, &segment, event->code);
		return;
	}
	if (!event->bytes && segment.memory > SEGMENT_HOST) {
		target->result.unsized_segments++;
		return;
	}
	if (!event->bytes)
		return;
	if ((event->result == SEGMENT_RETURNED && event->address) || result_is_plausible(target, event)) {
		segment_begin(target, thread, &segment);
		if (target->pools_are_blocks && segment_is_block(target, &segment))
			memory_segment_begin(target, thread->last_segment, &event->event);
	} else {
		thread->doubtful = segment;
		thread->doubtful_unchanged = event->result == SEGMENT_UNCHANGED;
		thread->doubtful_unreadable = event->result == SEGMENT_UNREADABLE;
	}
}

static void segment_map(struct target_state *target, struct thread *thread, const struct segment_event *event)
{
	struct segment segment = segment_of(target, event);

	if (event->result == SEGMENT_REFUSED)
		failure_add(target, &segment, event->code);
	else if (event->address && event->bytes)
		segment_begin(target, thread, &segment);
}

/* Created memory counts when it is mapped; that there was none to create is told here. */
static void segment_create(struct target_state *target, const struct segment_event *event)
{
	struct segment segment = segment_of(target, event);

	if (event->result == SEGMENT_REFUSED || event->result == SEGMENT_UNCHANGED)
		failure_add(target, &segment, event->result == SEGMENT_REFUSED ? event->code : 0);
}

/* What an allocator gives back in one go. */
static void release_note(
	struct target_state *target, struct thread *thread, const struct segment_event *event, uint32_t index)
{
	const struct segment *segment = &target->result.segments[index];
	struct segment_release release = {
		.time_ns = event->event.time_ns,
		.device = segment->device,
		.in_operator = event->event.depth > 0,
	};

	if (!is_of_allocator(target, segment))
		return;
	if (thread->release == NONE || target->result.releases[thread->release].device != segment->device) {
		thread->release = (uint32_t)arrlenu(target->result.releases);
		arrput(target->result.releases, release);
	}
	target->result.releases[thread->release].segments++;
	target->result.releases[thread->release].bytes += segment->bytes;
}

/* What the thread's call gave back, NONE; it was nothing that is known. */
static void freed_note(struct thread *thread, uint32_t segment, bool unknown)
{
	thread->freed = segment;
	thread->freed_unknown = unknown;
}

/* The only segment at no known address, if it is of this memory: from now on it is here. NONE: it cannot be told. */
static uint32_t unplaced_take(struct target_state *target, uint8_t memory, uint64_t address)
{
	uint32_t index = target->unplaced && arrlenu(target->unplaced) == 1 ? target->unplaced[0] : NONE;
	struct segment *segment = index == NONE ? NULL : &target->result.segments[index];

	if (!segment || segment->memory != memory)
		return NONE;
	arrsetlen(target->unplaced, 0);
	segment->address = address;
	return index;
}

/* The segment that a call gives back, NONE. */
static uint32_t freed_find(struct target_state *target, const struct segment_event *event)
{
	uint32_t index = event->address ? live_at(target, event->address) : NONE;
	const struct segment *segment;

	if (index == NONE)
		return event->address ? unplaced_take(target, event->memory, event->address) : NONE;
	segment = &target->result.segments[index];
	if (segment->address != event->address || segment->registered != (event->action == SEGMENT_UNREGISTER) ||
		(event->memory == SEGMENT_HOST && segment->memory != SEGMENT_HOST))
		return NONE;
	return index;
}

static void segment_free(struct target_state *target, struct thread *thread, const struct segment_event *event)
{
	uint32_t index = freed_find(target, event);

	freed_note(thread, index, index == NONE && event->address);
	target->result.unknown_segment_frees += thread->freed_unknown;
	if (index == NONE)
		return;
	release_note(target, thread, event, index);
	if (target->pools_are_blocks && segment_is_block(target, &target->result.segments[index]))
		memory_segment_end(target, index, &event->event);
	segment_end(target, index, event->event.time_ns);
}

static void segment_unmap(struct target_state *target, struct thread *thread, const struct segment_event *event)
{
	uint64_t address = event->address, end = address + event->bytes;
	uint32_t index = live_at(target, address);

	freed_note(thread, NONE, index == NONE);
	target->result.unknown_segment_frees += thread->freed_unknown;
	while (index != NONE) {
		address = target->result.segments[index].address + target->result.segments[index].bytes;
		release_note(target, thread, event, index);
		segment_end(target, index, event->event.time_ns);
		index = address < end ? live_at(target, address) : NONE;
	}
}

/* A block that came from a pool has ended with its segment, and stays so. */
static bool may_live_again(const struct target_state *target, const struct segment *segment)
{
	return !(target->pools_are_blocks && segment_is_block(target, segment)) && !segment->has_blocks &&
	       !live_overlaps(target, segment->address, span_of(segment));
}

/* What the thread's last call wanted to give back, and was not taken. */
static void segment_keep(struct target_state *target, struct thread *thread, const struct segment_event *event)
{
	struct segment *segment = thread->freed == NONE ? NULL : &target->result.segments[thread->freed];
	size_t moment = arrlenu(target->segment_moments);

	target->result.unknown_segment_frees -= thread->freed_unknown;
	if (!segment || segment->end_time_ns != event->event.time_ns || !may_live_again(target, segment))
		return;
	while (moment--)
		if (target->segment_moments[moment].segment == thread->freed && target->segment_moments[moment].is_end)
			break;
	arrdel(target->segment_moments, moment);
	segment->end_time_ns = UINT64_MAX;
	moment = live_behind(target, segment->address);
	arrins(target->live_segments, moment, thread->freed);
}

static bool is_refused_free(const struct segment_event *event)
{
	return event->result == SEGMENT_REFUSED &&
	       (event->action == SEGMENT_FREE || event->action == SEGMENT_UNREGISTER ||
		       event->action == SEGMENT_UNMAP || event->action == SEGMENT_RELEASE);
}

int segment_event(struct target_state *target, const struct segment_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);

	if (!thread)
		return -ENOMEM;
	if (is_refused_free(event)) {
		struct segment segment = segment_of(target, event);

		failure_add(target, &segment, event->code);
		segment_keep(target, thread, event);
		freed_note(thread, NONE, false);
		return 0;
	}
	if (arrlenu(target->result.segments) >= INDEX_MAX || arrlenu(target->segment_moments) >= INDEX_MAX - 1)
		return -E2BIG;
	thread_trim(target, thread, event->event.depth);
	doubt_end(target, thread, !thread->doubtful_unreadable && is_made_again(&thread->doubtful, event));
	freed_note(thread, NONE, false);
	if (event->action != SEGMENT_FREE && event->action != SEGMENT_UNMAP)
		thread->release = NONE;
	switch (event->action) {
	case SEGMENT_ALLOCATE:
		segment_allocate(target, thread, event);
		break;
	case SEGMENT_FREE:
	case SEGMENT_UNREGISTER:
		segment_free(target, thread, event);
		break;
	case SEGMENT_MAP:
	case SEGMENT_REGISTER:
		segment_map(target, thread, event);
		break;
	case SEGMENT_UNMAP:
		segment_unmap(target, thread, event);
		break;
	case SEGMENT_CREATE:
		segment_create(target, event);
		break;
	default:
		break;
	}
	return 0;
}

/* --- what the allocator says ---------------------------------------------------------- */

/* The segment of this thread that the allocator has just taken, found by how much more it holds. */
static uint32_t segment_confirm(struct target_state *target, struct thread *thread, uint64_t address, uint64_t more)
{
	struct segment *last;

	if (thread->doubtful.bytes && thread->doubtful.bytes == more) {
		struct segment segment = thread->doubtful;

		thread->doubtful.bytes = 0;
		segment.address = address;
		segment_begin(target, thread, &segment);
		return thread->last_segment;
	}
	if (thread->last_segment == NONE)
		return NONE;
	last = &target->result.segments[thread->last_segment];
	if (last->certain || last->mapped || last->end_time_ns != UINT64_MAX || last->bytes != more)
		return NONE;
	if (last->address != address) {
		struct segment segment = *last;

		/* What was taken for its result was something else. */
		segment_end(target, thread->last_segment, last->start_time_ns);
		target->result.segments[thread->last_segment].bytes = 0;
		segment.address = address;
		segment_begin(target, thread, &segment);
	}
	return thread->last_segment;
}

void mappings_confirm(struct target_state *target, uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes;
	uint32_t index;

	while (address < end && (index = live_at(target, address)) != NONE && target->result.segments[index].mapped) {
		target->result.segments[index].certain = true;
		address = target->result.segments[index].address + target->result.segments[index].bytes;
	}
}

void segment_block(struct target_state *target, struct thread *thread, uint8_t device, uint64_t address, uint64_t more)
{
	uint32_t index = more ? segment_confirm(target, thread, address, more) : NONE;
	struct segment *segment;

	if (more)
		doubt_end(target, thread, false);
	thread->last_segment = NONE;
	thread->release = NONE;
	if (index != NONE)
		target->result.segments[index].certain = true;
	else
		index = live_at(target, address);
	if (index == NONE)
		return;
	segment = &target->result.segments[index];
	segment->has_blocks = true;
	segment->device = device;
	if (segment->caller && hmgeti(target->allocators, segment->caller) < 0)
		hmput(target->allocators, segment->caller, true);
}

/* --- out of memory ------------------------------------------------------------------------ */

struct range {
	uint64_t address, end;
};

static int range_compare(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

/* Addresses of an allocator's segments on a device; mappings that touch are one. */
static struct range *held_ranges(const struct target_state *target, uint8_t device)
{
	struct range *ranges = NULL;
	bool mapped = false;

	for (size_t i = 0; i < arrlenu(target->live_segments); i++) {
		const struct segment *segment = &target->result.segments[target->live_segments[i]];
		struct range range = {segment->address, segment->address + segment->bytes};

		if (!is_of_allocator(target, segment))
			continue;
		if (segment->device != device && segment->device != DEVICES_MAX)
			continue;
		if (segment->mapped && mapped && arrlast(ranges).end == range.address)
			arrlast(ranges).end = range.end;
		else
			arrput(ranges, range);
		mapped = segment->mapped;
	}
	return ranges;
}

static struct range *block_ranges(const struct target_state *target, uint8_t device)
{
	struct range *ranges = NULL;

	for (size_t i = 0; i < hmlenu(target->addresses); i++) {
		uint32_t live = target->addresses[i].value.live;
		const struct allocation *allocation = live == NONE ? NULL : &target->allocations[live];

		if (allocation && allocation->device == device) {
			struct range range = {
				allocation->address, allocation->address + allocation_total_bytes(allocation)};

			arrput(ranges, range);
		}
	}
	if (ranges)
		qsort(ranges, arrlenu(ranges), sizeof(*ranges), range_compare);
	return ranges;
}

/* The longest run of bytes inside the segments that no block covers; UINT64_MAX: no segment is known. */
static uint64_t largest_gap(const struct target_state *target, uint8_t device)
{
	struct range *held = held_ranges(target, device), *blocks = block_ranges(target, device);
	uint64_t largest = held ? 0 : UINT64_MAX;
	size_t block = 0;

	for (size_t i = 0; i < arrlenu(held); i++) {
		uint64_t free_from = held[i].address;

		for (; block < arrlenu(blocks) && blocks[block].address < held[i].end; block++) {
			if (blocks[block].address > free_from && blocks[block].address - free_from > largest)
				largest = blocks[block].address - free_from;
			if (blocks[block].end > free_from)
				free_from = blocks[block].end;
		}
		if (free_from < held[i].end && held[i].end - free_from > largest)
			largest = held[i].end - free_from;
	}
	arrfree(held);
	arrfree(blocks);
	return largest;
}

int memory_exhausted(struct target_state *target, const struct out_of_memory_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	uint8_t device = device_find(target, event->device_type, event->device_index);
	struct out_of_memory entry = {
		.time_ns = event->event.time_ns,
		.bytes = event->bytes,
		.allocated_bytes = event->allocated,
		.reserved_bytes = event->reserved_bytes,
		.order = (uint32_t)arrlenu(target->moments),
		.device = device,
	};
	uint32_t run;

	if (!thread)
		return -ENOMEM;
	thread_trim(target, thread, event->event.depth);
	doubt_end(target, thread, true);
	target->result.out_of_memory_count++;
	if (device == DEVICES_MAX || arrlenu(target->result.out_of_memories) == OUT_OF_MEMORIES_MAX)
		return 0;
	run = thread_run(thread, event->event.depth);
	entry.name = run == NONE ? NONE : target->runs[run].operator_;
	entry.stack = run == NONE ? stack_find(target, event->stack) : target->runs[run].stack;
	entry.phase = (uint8_t)stack_phase(
		&target->stacks[entry.stack], run == NONE ? event->event.flags : target->runs[run].flags);
	entry.largest_gap = largest_gap(target, device);
	arrput(target->result.out_of_memories, entry);
	return 0;
}

/* --- kernels --------------------------------------------------------------------------------- */

int kernel_launch(struct target_state *target, const struct launch_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	/* Stubs are no small numbers: those stand for functions that launch what only a handle tells. */
	uint64_t key = event->function ? event->function : event->event.operator_;
	ptrdiff_t at = hmgeti(target->kernel_index, key);
	struct kernel kernel = {.function = event->function, .launcher = event->event.operator_};
	uint32_t run;

	if (!thread)
		return -ENOMEM;
	thread_trim(target, thread, event->event.depth);
	if (at < 0) {
		hmput(target->kernel_index, key, (uint32_t)arrlenu(target->result.kernels));
		arrput(target->result.kernels, kernel);
		at = hmgeti(target->kernel_index, key);
	}
	target->result.kernels[target->kernel_index[at].value].launches++;
	run = thread_run(thread, event->event.depth);
	if (run != NONE)
		target->runs[run].launches++;
	return 0;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* What was given until now, all of it or what came from pools of the driver. */
static int moments_become_blocks(struct target_state *target, bool pools_only)
{
	int error = 0;

	for (size_t i = 0; i < arrlenu(target->segment_moments) && !error; i++) {
		const struct segment_moment *moment = &target->segment_moments[i];
		const struct segment *segment = &target->result.segments[moment->segment];
		struct event event = {
			.time_ns = moment->is_end ? segment->end_time_ns : segment->start_time_ns,
			.thread_id = segment->thread_id,
		};

		if (pools_only && !segment_is_block(target, segment))
			continue;
		error = moment->is_end ? memory_segment_end(target, moment->segment, &event)
		                       : memory_segment_begin(target, moment->segment, &event);
	}
	return error;
}

int segments_meet_pytorch(struct target_state *target)
{
	if (target->pools_are_blocks)
		return 0;
	target->pools_are_blocks = true;
	return moments_become_blocks(target, true);
}

int segments_become_blocks(struct target_state *target)
{
	if (target->pools_are_blocks || arrlenu(target->allocations) || arrlenu(target->runs) > 1)
		return 0;
	return moments_become_blocks(target, false);
}

static void devices_guess(struct target_state *target)
{
	struct rank *rank = &target->result;

	for (size_t i = 0; i < arrlenu(rank->segments); i++)
		if (rank->segments[i].device == DEVICES_MAX)
			rank->segments[i].device = device_guess(target, rank->segments[i].device_type);
	for (size_t i = 0; i < arrlenu(rank->failures); i++)
		if (rank->failures[i].device == DEVICES_MAX)
			rank->failures[i].device = device_guess(target, rank->failures[i].device_type);
}

void segments_finish(struct target_state *target)
{
	for (size_t i = 0; i < hmlenu(target->threads); i++)
		doubt_end(target, target->threads[i].value, false);
	devices_guess(target);
	for (size_t i = 0; i < arrlenu(target->result.segments); i++)
		target->result.segments[i].has_blocks = is_of_allocator(target, &target->result.segments[i]);
}

/* Bytes held of each device, and of them those outside the allocator of blocks. */
void segments_total(struct target_state *target)
{
	uint64_t held[DEVICES_MAX] = {0}, outside[DEVICES_MAX] = {0};

	for (size_t i = 0; i < arrlenu(target->segment_moments); i++) {
		const struct segment_moment *moment = &target->segment_moments[i];
		const struct segment *segment = &target->result.segments[moment->segment];
		uint64_t change = moment->is_end ? -segment->bytes : segment->bytes;
		struct device *device;

		if (segment->device == DEVICES_MAX || segment->memory == SEGMENT_IMPORTED)
			continue;
		device = &target->devices[segment->device].device;
		held[segment->device] += change;
		outside[segment->device] += segment->has_blocks ? 0 : change;
		device->segment_bytes = held[segment->device];
		device->outside_bytes = outside[segment->device];
		if (device->segment_bytes > device->segment_peak_bytes)
			device->segment_peak_bytes = device->segment_bytes;
		if (device->outside_bytes > device->outside_peak_bytes)
			device->outside_peak_bytes = device->outside_bytes;
	}
}
