/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A viewer that replays a history stops at the first block that lies in no
 * segment. So the driver's segments are taken only when a replay here finds each
 * block in one of them; expandable segments, whose pieces come and go under one
 * block, are not.
 */
#include "history.h"

#include <stdlib.h>

#include "containers/containers.h"
#include "holders.h"

#define NEAR_BYTES (2ull << 20) /* the smallest segment of PyTorch's allocators */

static uint64_t block_end_address(const struct block *block)
{
	return block->address + block_held_bytes(block);
}

static bool is_left(const struct block *block)
{
	return block->persistent || block->last_order == UINT32_MAX;
}

/* --- events of blocks -------------------------------------------------------------------- */

/* What was there goes before what takes its place, unless it came only then. */
static int event_rank(const struct history_event *event)
{
	if (event->action == HISTORY_FREE)
		return event->block->first_order == event->order ? 2 : 0;
	return event->action == HISTORY_ALLOCATE ? 1 : 3;
}

static int event_compare(const void *left, const void *right)
{
	const struct history_event *a = left, *b = right;
	int first = event_rank(a), second = event_rank(b);

	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	if (first != second)
		return first - second;
	return first == 3 ? 0 : (a->block > b->block) - (a->block < b->block);
}

static struct history_event *block_events(const struct rank *rank, uint8_t device)
{
	struct history_event *events = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		struct history_event event = {block->start_time_ns, block->first_order, HISTORY_ALLOCATE, {block}};

		if (block->device != device)
			continue;
		if (block->first_order)
			arrput(events, event);
		event.time_ns = block->end_time_ns;
		event.order = block->last_order > block->first_order ? block->last_order : block->first_order;
		event.action = HISTORY_FREE;
		if (!is_left(block))
			arrput(events, event);
	}
	for (size_t i = 0; i < arrlenu(rank->out_of_memories); i++) {
		const struct out_of_memory *exhausted = &rank->out_of_memories[i];
		struct history_event event = {exhausted->time_ns, exhausted->order, HISTORY_OOM, {NULL}};

		event.exhausted = exhausted;
		if (exhausted->device == device)
			arrput(events, event);
	}
	if (events)
		qsort(events, arrlenu(events), sizeof(*events), event_compare);
	return events;
}

/* --- the driver's segments ------------------------------------------------------------------ */

static bool is_usable(const struct segment *segment, uint8_t device)
{
	return segment->device == device && segment->has_blocks && segment->address && segment->bytes;
}

static int segment_event_compare(const void *left, const void *right)
{
	const struct history_event *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->action == b->action ? 0 : (a->action == HISTORY_SEGMENT_FREE ? -1 : 1);
}

/* Events of the regions that the driver gave, by time; the regions are added. */
static struct history_event *segment_events(const struct rank *rank, uint8_t device, struct region **regions)
{
	struct history_event *events = NULL;

	for (size_t i = 0; i < arrlenu(rank->segments); i++) {
		const struct segment *segment = &rank->segments[i];
		bool held = segment->end_time_ns == UINT64_MAX;
		struct region region = {segment->address, segment->bytes, 0, held, segment, NULL};
		struct history_event event = {segment->start_time_ns, 0, HISTORY_SEGMENT_ALLOCATE, {NULL}};

		if (!is_usable(segment, device))
			continue;
		event.region = (uint32_t)arrlenu(*regions);
		arrput(*regions, region);
		arrput(events, event);
		event.time_ns = segment->end_time_ns;
		event.action = HISTORY_SEGMENT_FREE;
		if (!held)
			arrput(events, event);
	}
	if (events)
		qsort(events, arrlenu(events), sizeof(*events), segment_event_compare);
	return events;
}

/* Both kinds in one order: that of blocks is kept, a segment comes where its time is. */
static struct history_event *events_merge(const struct history_event *blocks, const struct history_event *segments)
{
	struct history_event *merged = NULL;
	size_t at = 0;

	for (size_t i = 0; i < arrlenu(blocks); i++) {
		while (at < arrlenu(segments) && segments[at].time_ns <= blocks[i].time_ns)
			arrput(merged, segments[at++]);
		arrput(merged, blocks[i]);
	}
	while (at < arrlenu(segments))
		arrput(merged, segments[at++]);
	return merged;
}

/* Regions that are there at one moment of a replay, by address. */
struct present {
	struct {
		uint32_t region, blocks;
	} * list; /* stb_ds */
	const struct region *regions;
};

/* Place of the first that begins behind the address. */
static size_t present_behind(const struct present *present, uint64_t address)
{
	size_t low = 0, high = arrlenu(present->list);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (present->regions[present->list[middle].region].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Place of the region that a block lies in, -1: none. */
static ptrdiff_t present_of(const struct present *present, const struct block *block)
{
	size_t behind = present_behind(present, block->address);
	const struct region *region;

	if (!behind)
		return -1;
	region = &present->regions[present->list[behind - 1].region];
	return block_end_address(block) <= region->address + region->bytes ? (ptrdiff_t)behind - 1 : -1;
}

/* false: it cannot be what happened. */
static bool present_change(struct present *present, struct region *regions, const struct history_event *event)
{
	bool is_block = event->action == HISTORY_ALLOCATE || event->action == HISTORY_FREE;
	ptrdiff_t at = is_block ? present_of(present, event->block) : 0;
	const struct region *region = is_block ? NULL : &regions[event->region];

	switch (event->action) {
	case HISTORY_ALLOCATE:
		if (at < 0)
			return false;
		present->list[at].blocks++;
		regions[present->list[at].region].stream = event->block->stream;
		return true;
	case HISTORY_FREE:
		if (at < 0 || !present->list[at].blocks)
			return false;
		present->list[at].blocks--;
		return true;
	case HISTORY_SEGMENT_ALLOCATE:
		at = (ptrdiff_t)present_behind(present, region->address);
		if (at && regions[present->list[at - 1].region].address + regions[present->list[at - 1].region].bytes >
				  region->address)
			return false;
		arrinsn(present->list, (size_t)at, 1);
		present->list[at].region = event->region;
		present->list[at].blocks = 0;
		return true;
	case HISTORY_SEGMENT_FREE:
		at = (ptrdiff_t)present_behind(present, region->address) - 1;
		if (at < 0 || present->list[at].region != event->region || present->list[at].blocks)
			return false;
		arrdel(present->list, (size_t)at);
		return true;
	default:
		return true;
	}
}

/* Does every block lie in a segment as long as it lives? Also notes streams. */
static bool segments_explain(const struct rank *rank, uint8_t device, struct history *history)
{
	struct present present = {.regions = history->regions};
	bool explained = arrlenu(history->regions) > 0;

	for (size_t i = 0; explained && i < arrlenu(rank->segments); i++)
		explained = !is_usable(&rank->segments[i], device) || !rank->segments[i].mapped;
	for (size_t i = 0; explained && i < arrlenu(rank->blocks); i++)
		explained = rank->blocks[i].device != device || rank->blocks[i].first_order;
	for (size_t i = 0; explained && i < arrlenu(history->events); i++)
		explained = present_change(&present, history->regions, &history->events[i]);
	arrfree(present.list);
	return explained;
}

/* --- regions by the blocks in them -------------------------------------------------------- */

static int region_compare(const void *left, const void *right)
{
	const struct region *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

static void region_add(struct region **regions, uint64_t address, uint64_t bytes, uint32_t stream)
{
	struct region region = {address, bytes, stream, true, NULL, NULL};

	if (bytes && address + bytes > address)
		arrput(*regions, region);
}

static struct region *regions_by_blocks(const struct rank *rank, uint8_t device)
{
	struct region *pieces = NULL, *regions = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		if (rank->blocks[i].device == device)
			region_add(&pieces, rank->blocks[i].address, block_held_bytes(&rank->blocks[i]),
				rank->blocks[i].stream);
	if (pieces)
		qsort(pieces, arrlenu(pieces), sizeof(*pieces), region_compare);
	for (size_t i = 0; i < arrlenu(pieces); i++) {
		struct region *last = arrlenu(regions) ? &arrlast(regions) : NULL;
		uint64_t end = pieces[i].address + pieces[i].bytes;

		if (last && (pieces[i].address < last->address + last->bytes ||
				    (pieces[i].stream == last->stream &&
					    pieces[i].address - last->address - last->bytes < NEAR_BYTES)))
			last->bytes = end > last->address + last->bytes ? end - last->address : last->bytes;
		else
			arrput(regions, pieces[i]);
	}
	arrfree(pieces);
	return regions;
}

/* --- what is left --------------------------------------------------------------------------- */

static int block_compare(const void *left, const void *right)
{
	const struct block *a = *(const struct block *const *)left, *b = *(const struct block *const *)right;

	return (a->address > b->address) - (a->address < b->address);
}

static int held_compare(const void *left, const void *right)
{
	return region_compare(*(const struct region *const *)left, *(const struct region *const *)right);
}

/* Regions that are held at the end, by address; none overlaps another. */
static struct region **regions_held(struct region *regions)
{
	struct region **held = NULL;

	for (size_t i = 0; i < arrlenu(regions); i++)
		if (regions[i].held)
			arrput(held, &regions[i]);
	if (held)
		qsort(held, arrlenu(held), sizeof(*held), held_compare);
	return held;
}

static const struct block **blocks_left(const struct rank *rank, uint8_t device)
{
	const struct block **left = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		if (rank->blocks[i].device == device && is_left(&rank->blocks[i]))
			arrput(left, &rank->blocks[i]);
	if (left)
		qsort(left, arrlenu(left), sizeof(*left), block_compare);
	return left;
}

/* Give each block that is left to its region; both lists go up. */
static void regions_fill(const struct rank *rank, uint8_t device, struct region *regions)
{
	const struct block **left = blocks_left(rank, device);
	struct region **held = regions_held(regions);
	uint64_t end = 0;
	size_t at = 0;

	for (size_t i = 0; i < arrlenu(left); i++) {
		while (at < arrlenu(held) && held[at]->address + held[at]->bytes < block_end_address(left[i]))
			at++;
		/* Two of one place cannot both be shown: one of them was not seen to end. */
		if (at == arrlenu(held) || left[i]->address < held[at]->address || left[i]->address < end)
			continue;
		arrput(held[at]->left, left[i]);
		end = block_end_address(left[i]);
	}
	arrfree(held);
	arrfree(left);
}

void history_find(const struct rank *rank, uint8_t device, struct history *history)
{
	struct history_event *blocks = block_events(rank, device), *segments;

	*history = (struct history){NULL, NULL};
	segments = segment_events(rank, device, &history->regions);
	history->events = events_merge(blocks, segments);
	if (segments_explain(rank, device, history)) {
		arrfree(blocks);
	} else {
		history_free(history);
		history->events = blocks;
		history->regions = regions_by_blocks(rank, device);
	}
	arrfree(segments);
	regions_fill(rank, device, history->regions);
}

void history_free(struct history *history)
{
	for (size_t i = 0; i < arrlenu(history->regions); i++)
		arrfree(history->regions[i].left);
	arrfree(history->regions);
	arrfree(history->events);
}
