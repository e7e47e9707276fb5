// SPDX-License-Identifier: BSD-2-Clause
/*
 * How much memory a target holds, roughly, while it is recorded: so that Python's
 * objects are read where more is held than ever before. What the report says is
 * worked out from the capture; here a peak that is missed by a little, or a block
 * too small to matter, does no harm, so only large blocks are counted.
 */
#include "record/session.h"

#include <stdlib.h>

#include "containers/containers.h"

/* A block of the host that is worth an entry. */
#define BLOCK_BYTES_MIN 4096
/* So many blocks are followed; a job with more has lost its frees, or lives on small ones. */
#define BLOCKS_MAX (1 << 20)
/* A new peak is higher than the last by one of so many parts. */
#define PEAK_PARTS 32
/* Less is not worth a look. */
#define PEAK_BYTES_MIN (1ull << 20)

struct target_peak {
	struct {
		uint64_t key, value; /* address, bytes */
	} * blocks;                  /* stb_ds hash map: of the host */
	uint64_t host, host_peak;
	uint64_t device_peak[UINT8_MAX + 1]; /* by index; of its allocator's own total */
};

static bool peak_is_new(uint64_t bytes, uint64_t *peak)
{
	if (bytes < PEAK_BYTES_MIN || bytes <= *peak + *peak / PEAK_PARTS)
		return false;
	*peak = bytes;
	return true;
}

static bool host_allocate(struct target_peak *peak, const struct allocate_event *event)
{
	ptrdiff_t at;

	if (event->bytes < BLOCK_BYTES_MIN || hmlen(peak->blocks) >= BLOCKS_MAX)
		return false;
	at = hmgeti(peak->blocks, event->address);
	if (at >= 0)
		peak->host -= peak->blocks[at].value;
	hmput(peak->blocks, event->address, event->bytes);
	peak->host += event->bytes;
	return peak_is_new(peak->host, &peak->host_peak);
}

static void host_free(struct target_peak *peak, const struct free_event *event)
{
	ptrdiff_t at = hmgeti(peak->blocks, event->address);

	if (at < 0)
		return;
	peak->host -= peak->blocks[at].value;
	hmdel(peak->blocks, event->address);
}

void peak_follow(struct target *target, const struct event *record)
{
	const struct device_allocate_event *device = (const void *)record;
	bool is_new = false;

	if (record->kind != EVENT_ALLOCATE && record->kind != EVENT_FREE && record->kind != EVENT_DEVICE_ALLOCATE)
		return;
	if (!target->peak)
		target->peak = calloc(1, sizeof(*target->peak));
	if (!target->peak)
		return;
	if (record->kind == EVENT_ALLOCATE)
		is_new = host_allocate(target->peak, (const void *)record);
	else if (record->kind == EVENT_FREE)
		host_free(target->peak, (const void *)record);
	else
		is_new = peak_is_new(device->allocated, &target->peak->device_peak[device->device_index]);
	if (is_new)
		objects_want_peak(target);
}

void peak_forget(struct target *target)
{
	if (!target->peak)
		return;
	hmfree(target->peak->blocks);
	free(target->peak);
	target->peak = NULL;
}
