// SPDX-License-Identifier: BSD-2-Clause
/* Segments that are alive, and what the allocator told of calls whose result was not seen (user/model/segment.c). */
#include "window/alive.h"

/* What a driver gives is aligned to this at least. */
#define SEGMENT_ALIGNMENT 256u

static void segment_begin(struct alive *alive, uint16_t target, uint64_t address, const struct segment *segment)
{
	hmput(alive->segments, number_key(target, address), *segment);
}

static void segment_end(struct alive *alive, uint16_t target, uint64_t address)
{
	(void)hmdel(alive->segments, number_key(target, address));
}

/* Mappings that begin in a range. */
static void range_end(struct alive *alive, uint16_t target, uint64_t address, uint64_t bytes)
{
	for (ptrdiff_t i = hmlen(alive->segments) - 1; i >= 0; i--) {
		struct number_key key = alive->segments[i].key;

		if (key.target == target && key.number - address < (bytes ? bytes : 1))
			(void)hmdel(alive->segments, key);
	}
}

/* Nothing more will be known of the call: one that may have given memory stays. */
static void doubt_end(struct alive *alive, struct strand *strand, bool failed)
{
	if (strand->segment && !strand->segment_address && !failed && !strand->segment_unchanged)
		arrput(alive->always, strand->segment);
	strand->segment = 0;
}

static void allocate_take(struct alive *alive, struct strand *strand, const struct segment_event *event)
{
	struct segment segment = {.record = alive->records, .bytes = event->bytes};
	bool returned = event->result == SEGMENT_RETURNED && event->address;
	bool handle = event->memory == SEGMENT_ARRAY || event->memory == SEGMENT_IMPORTED;
	bool found =
		event->result == SEGMENT_FOUND && event->address && (handle || event->address % SEGMENT_ALIGNMENT == 0);

	if (!event->bytes)
		return;
	if (returned || found)
		segment_begin(alive, event->event.target, event->address, &segment);
	if (returned)
		return;
	strand->segment = alive->records;
	strand->segment_bytes = event->bytes;
	strand->segment_caller = event->caller;
	strand->segment_address = found ? event->address : 0;
	strand->segment_unchanged = event->result == SEGMENT_UNCHANGED;
	strand->segment_unreadable = event->result == SEGMENT_UNREADABLE;
}

void segments_take(struct alive *alive, struct strand *strand, const struct segment_event *event)
{
	struct segment segment = {.record = alive->records, .bytes = event->bytes};
	uint16_t target = event->event.target;

	doubt_end(alive, strand,
		!strand->segment_unreadable && event->action == SEGMENT_ALLOCATE &&
			event->bytes == strand->segment_bytes && event->caller == strand->segment_caller);
	if (event->result == SEGMENT_REFUSED)
		return;
	switch (event->action) {
	case SEGMENT_ALLOCATE:
		allocate_take(alive, strand, event);
		break;
	case SEGMENT_MAP:
	case SEGMENT_REGISTER:
		if (event->address && event->bytes)
			segment_begin(alive, target, event->address, &segment);
		break;
	case SEGMENT_FREE:
	case SEGMENT_UNREGISTER:
		segment_end(alive, target, event->address);
		break;
	case SEGMENT_UNMAP:
		range_end(alive, target, event->address, event->bytes);
		break;
	default:
		break;
	}
}

void segments_confirm(struct alive *alive, struct strand *strand, uint16_t target, uint64_t address, uint64_t more)
{
	struct segment segment = {.record = strand->segment, .bytes = more, .corrected = true};

	if (strand->segment && more && strand->segment_bytes == more) {
		if (strand->segment_address && strand->segment_address != address)
			segment_end(alive, target, strand->segment_address);
		segment_begin(alive, target, address, &segment);
		strand->segment = 0;
	} else if (more) {
		doubt_end(alive, strand, false);
	}
}
