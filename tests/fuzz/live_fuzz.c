/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Live accounting on any records that pass their check: it must not fall over, its
 * sums must stay sums, and its tables within their bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "live/live.h"
#include "stream/record.h"

#define PLACES_MAX 8
#define BLOCKS_MAX 64
#define ENDED_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Targets that everything may be about, traced in each way. */
static const char *const descriptions[] = {"{\"rank\": 0, \"from_start\": true}", "{\"rank\": 1, \"level\": \"lite\"}",
	"{\"parent\": 0, \"forked\": true}"};

static void target_announce(struct live *live, uint16_t target)
{
	union {
		struct text_record record;
		char bytes[sizeof(struct text_record) + 64];
	} text = {0};

	text.record.length = (uint32_t)strlen(descriptions[target]);
	text.record.event = (struct event){.kind = CAPTURE_TARGET, .target = target, .size = sizeof(text)};
	memcpy(text.record.text, descriptions[target], text.record.length);
	live_take(live, &text.record.event);
}

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void rank_check(const struct live *live, size_t index)
{
	const struct live_rank *rank = live_rank_at(live, index);
	struct live_place places[2 * PLACES_MAX];

	for (size_t i = 0; i < rank->device_count; i++) {
		const struct live_device *device = &rank->devices[i];
		uint64_t categories = 0, phases = 0;

		check(device->blocks <= BLOCKS_MAX && memchr(device->name, 0, sizeof(device->name)));
		for (size_t category = 0; category < CATEGORIES; category++)
			categories += device->category_bytes[category];
		for (size_t phase = 0; phase < PHASES; phase++)
			phases += device->phase_bytes[phase];
		/* Blocks of no known category are in neither. */
		check(rank->ended || (categories <= device->block_bytes && phases <= device->block_bytes));
	}
	for (int table = 0; table < LIVE_TABLES; table++)
		check(live_top(live, index, (enum live_table)table, places, 2 * PLACES_MAX) <= PLACES_MAX + 1);
	check(rank->wait.absent <= live_rank_count(live));
	live_step_ns(rank);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct live *live = live_new(
		&(struct live_limits){.blocks = BLOCKS_MAX, .places = PLACES_MAX, .threads = 3, .ended = ENDED_MAX});
	/* Aligned as records are. */
	uint64_t *copy = calloc(size / sizeof(*copy) + 1, sizeof(*copy));

	memcpy(copy, data, size);
	for (uint16_t target = 0; target < sizeof(descriptions) / sizeof(*descriptions); target++)
		target_announce(live, target);
	for (size_t at = 0; at + sizeof(struct event) <= size;) {
		struct event *record = (struct event *)((char *)copy + at);

		record->target %= 4;
		if (!record_check(record, size - at)) {
			live_take(live, record);
			at += record->size;
		} else {
			at += RECORD_ALIGNMENT;
		}
	}
	live_refresh(live);
	live_refresh(live);
	for (size_t index = 0; index < live_rank_count(live); index++)
		rank_check(live, index);
	check(live_rank_count(live) <= 4 + ENDED_MAX);
	live_free(live);
	free(copy);
	return 0;
}
