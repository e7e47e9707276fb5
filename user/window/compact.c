// SPDX-License-Identifier: BSD-2-Clause
/*
 * The two passes of a compaction: which records before the cut must stay, then
 * their copy. Behind the cut chunks are copied as they are.
 */
#include "window/window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "containers/containers.h"
#include "stream/capture_reader.h"
#include "stream/record.h"
#include "window/alive.h"

struct compaction {
	const char *path;
	uint64_t tail_start; /* bytes: the first chunk from here on is behind the cut */
	struct capture_writer *draft;
	struct alive alive;
	struct kept *list;    /* stb_ds */
	uint64_t cut;         /* offset in the file */
	bool at_end;          /* nothing is behind it */
	uint64_t cut_time_ns; /* of the first record behind it */
	uint64_t kept_records, kept_bytes;
	struct {
		struct number_key key; /* thread id */
		bool value;
	} * continued; /* threads whose last operator was kept */
	struct {
		struct device_key key;
		uint64_t value;
	} * totals; /* what the allocator had given out of a device, kept blocks so far included */
};

/* --- the first pass ------------------------------------------------------------- */

/* The next record before the cut: 1, 0 at the cut, or a negative errno. */
static int record_next(struct compaction *compaction, struct capture_reader *reader, const struct event **record)
{
	int state = capture_reader_next(reader, record);

	if (state == 1 && capture_reader_chunk(reader) < compaction->tail_start)
		return 1;
	if (state < 0)
		return state;
	compaction->cut = state ? capture_reader_chunk(reader) : capture_reader_damage(reader)->offset;
	compaction->at_end = !state;
	compaction->cut_time_ns = state ? (*record)->time_ns : compaction->alive.last_time_ns;
	return 0;
}

static int alive_find(struct compaction *compaction, struct capture_reader *reader)
{
	const struct event *record;
	int state;

	while ((state = record_next(compaction, reader, &record)) == 1) {
		state = alive_take(&compaction->alive, record);
		if (state)
			return state;
	}
	if (!state)
		compaction->list = alive_list(&compaction->alive);
	return state;
}

/* --- the second pass --------------------------------------------------------------- */

static int record_keep(struct compaction *compaction, const struct event *record)
{
	compaction->kept_records++;
	compaction->kept_bytes += record->size;
	return capture_writer_append(compaction->draft, record);
}

/* Copies the arguments that were alive already and still are; returns their number. */
static uint16_t arguments_copy(struct compaction *compaction, const struct event *event,
	const struct tensor_argument *from, size_t count, uint64_t number, struct tensor_argument *to)
{
	uint16_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (alive_has(&compaction->alive, event->target, &from[i], number))
			to[kept++] = from[i];
	return kept;
}

static int operator_keep(struct compaction *compaction, const struct operator_event *event, const struct kept *kept)
{
	struct {
		struct operator_event head;
		uint8_t bytes[EVENT_TENSORS_MAX * sizeof(struct tensor_argument) +
			      EVENT_FRAMES_MAX * sizeof(struct python_frame)];
	} copy = {.head = *event};
	const struct tensor_argument *tensors = (const struct tensor_argument *)(event + 1);
	bool whole = kept->as == KEPT_WHOLE;
	size_t frames = whole ? event->frame_count * sizeof(struct python_frame) : 0;
	struct number_key thread = number_key(event->event.target, event->event.thread_id);
	struct tensor_argument *arguments = (struct tensor_argument *)copy.bytes;

	copy.head.tensor_count = 0;
	if (!whole) {
		/* The code objects of its frames may be gone. */
		copy.head.frame_count = 0;
		copy.head.event.flags &= (uint8_t)~EVENT_STACK;
	} else
		copy.head.tensor_count = arguments_copy(
			compaction, &event->event, tensors, event->tensor_count, kept->record, arguments);
	memcpy(arguments + copy.head.tensor_count, tensors + event->tensor_count, frames);
	copy.head.event.size = (uint32_t)(sizeof(copy.head) + copy.head.tensor_count * sizeof(*arguments) + frames);
	hmput(compaction->continued, thread, whole);
	return record_keep(compaction, &copy.head.event);
}

static int tensors_keep(struct compaction *compaction, const struct tensors_event *event, uint64_t number)
{
	struct {
		struct tensors_event head;
		struct tensor_argument tensors[EVENT_TENSORS_MAX];
	} copy = {.head = *event};

	copy.head.tensor_count = arguments_copy(compaction, &event->event, (const struct tensor_argument *)(event + 1),
		event->tensor_count, number, copy.tensors);
	copy.head.event.size = (uint32_t)(sizeof(copy.head) + copy.head.tensor_count * sizeof(struct tensor_argument));
	return copy.head.tensor_count ? record_keep(compaction, &copy.head.event) : 0;
}

/*
 * Either of the two may be gone. A leaf that is gone was no parameter, for which
 * alone gradients count where owners are told.
 */
static int gradient_keep(struct compaction *compaction, const struct gradient_event *event, uint64_t number)
{
	struct gradient_event copy = *event;
	bool told;

	copy.event.size = sizeof(copy); /* a record may be longer than its kind */
	if (!alive_has(&compaction->alive, event->event.target, &event->variable, number))
		copy.variable = (struct tensor_argument){0};
	told = hmget(compaction->alive.targets, event->event.target).owners > 0;
	if (!alive_has(&compaction->alive, event->event.target, &event->gradient, number) ||
		(told && !copy.variable.data))
		copy.gradient = (struct tensor_argument){0};
	return record_keep(compaction, &copy.event);
}

/* Totals as if nothing but the kept blocks, and those older than the capture, had ever been there. */
static int device_allocate_keep(struct compaction *compaction, const struct device_allocate_event *event)
{
	struct {
		struct device_allocate_event head;
		struct python_frame frames[EVENT_FRAMES_MAX];
	} copy = {.head = *event};
	struct device_key key = {event->event.target, event->device_type, event->device_index};
	const struct device *device = &hmgetp(compaction->alive.devices, key)->value;
	uint64_t total;

	if (hmgeti(compaction->totals, key) < 0)
		hmput(compaction->totals, key,
			device->allocated > device->alive_bytes ? device->allocated - device->alive_bytes : 0);
	total = hmget(compaction->totals, key) + event->bytes;
	hmput(compaction->totals, key, total);
	copy.head.event.size = (uint32_t)(sizeof(copy.head) + event->frame_count * sizeof(*copy.frames));
	copy.head.allocated = total;
	copy.head.reserved = device->reserved;
	memcpy(copy.frames, event + 1, event->frame_count * sizeof(*copy.frames));
	return record_keep(compaction, &copy.head.event);
}

/* A segment is where the allocator found it. */
static int segment_keep(struct compaction *compaction, const struct segment_event *event, const struct kept *kept)
{
	struct segment_event copy = *event;

	copy.event.size = sizeof(copy);
	if (kept->address) {
		copy.address = kept->address;
		copy.result = SEGMENT_RETURNED;
	}
	return record_keep(compaction, &copy.event);
}

static int stack_keep(struct compaction *compaction, const struct event *record)
{
	struct {
		struct stack_record head;
		struct python_frame frames[EVENT_FRAMES_MAX];
	} copy = {.head.event = *record};
	struct event_stack stack;

	if (!event_stack_find(record, &stack))
		return 0;
	copy.head.stack = stack.identity;
	copy.head.frame_count = (uint16_t)stack.frame_count;
	copy.head.event.kind = CAPTURE_STACK;
	copy.head.event.operator_ = 0;
	copy.head.event.depth = 0;
	copy.head.event.flags = record->flags & (EVENT_STACK_CUT | EVENT_STACK_LOST);
	copy.head.event.size = (uint32_t)(sizeof(copy.head) + stack.frame_count * sizeof(*copy.frames));
	memcpy(copy.frames, stack.frames, stack.frame_count * sizeof(*copy.frames));
	return record_keep(compaction, &copy.head.event);
}

static int listed_keep(struct compaction *compaction, const struct event *record, const struct kept *kept)
{
	if (kept->as == KEPT_STACK)
		return stack_keep(compaction, record);
	switch (record->kind) {
	case EVENT_OPERATOR:
		return operator_keep(compaction, (const void *)record, kept);
	case EVENT_TENSORS:
		return tensors_keep(compaction, (const void *)record, kept->record);
	case EVENT_GRADIENT:
		return gradient_keep(compaction, (const void *)record, kept->record);
	case EVENT_DEVICE_ALLOCATE:
		return device_allocate_keep(compaction, (const void *)record);
	case EVENT_SEGMENT:
		return segment_keep(compaction, (const void *)record, kept);
	default:
		return record_keep(compaction, record);
	}
}

/* Further arguments follow their operator; that of a dropped one must not go to the one before. */
static int unlisted_keep(struct compaction *compaction, const struct event *record, uint64_t number)
{
	struct number_key thread = number_key(record->target, record->thread_id);

	if (record->kind == EVENT_OPERATOR)
		hmput(compaction->continued, thread, false);
	if (record->kind == EVENT_TENSORS && hmget(compaction->continued, thread))
		return tensors_keep(compaction, (const void *)record, number);
	return 0;
}

static int window_tell(struct compaction *compaction)
{
	/* Of an older record like this one nothing is missed. */
	const struct alive *alive = &compaction->alive;
	const struct window_record *before = &alive->dropped;
	struct window_record record = {
		.event = {.time_ns = compaction->cut_time_ns, .size = sizeof(record), .kind = CAPTURE_WINDOW},
		.since_ns = compaction->cut_time_ns,
		.dropped_records =
			before->dropped_records + alive->records - compaction->kept_records - (before->event.size > 0),
		.dropped_bytes = before->dropped_bytes + alive->bytes - compaction->kept_bytes - before->event.size,
	};

	return capture_writer_append(compaction->draft, &record.event);
}

static void alive_bytes_sum(struct alive *alive)
{
	for (ptrdiff_t i = 0; i < hmlen(alive->storages); i++) {
		const struct storage_key *key = &alive->storages[i].key;
		struct device_key device = {key->target, key->device_type, key->device_index};
		ptrdiff_t at = hmgeti(alive->devices, device);

		if (at >= 0)
			alive->devices[at].value.alive_bytes += alive->storages[i].value.bytes;
	}
}

static int kept_copy(struct compaction *compaction, struct capture_reader *reader)
{
	const struct event *record;
	size_t next = 0;
	int state;

	alive_bytes_sum(&compaction->alive);
	for (uint64_t number = 1; number <= compaction->alive.records; number++) {
		const struct kept *kept = next < arrlenu(compaction->list) ? &compaction->list[next] : NULL;
		bool listed = kept && kept->record == number;

		state = capture_reader_next(reader, &record);
		if (state != 1)
			return state ? state : -EBADMSG;
		state = listed ? listed_keep(compaction, record, kept) : unlisted_keep(compaction, record, number);
		if (state)
			return state;
		next += listed;
	}
	return window_tell(compaction);
}

/* --- both ------------------------------------------------------------------------------ */

static int pass_do(
	struct compaction *compaction, int (*pass)(struct compaction *compaction, struct capture_reader *reader))
{
	struct capture_reader *reader;
	int error = capture_reader_open(compaction->path, &reader, NULL);

	if (!error)
		error = pass(compaction, reader);
	capture_reader_close(reader);
	return error;
}

static int tail_copy(struct compaction *compaction, uint64_t end)
{
	int fd = open(compaction->path, O_RDONLY | O_CLOEXEC), error;

	if (fd < 0)
		return -errno;
	error = capture_writer_copy(compaction->draft, fd, compaction->cut, end);
	close(fd);
	return error;
}

int window_compact(const char *path, uint64_t size, uint64_t tail, struct capture_writer *draft, uint64_t *end)
{
	struct compaction compaction = {
		.path = path,
		.tail_start = size > tail ? size - tail : 0,
		.draft = draft,
	};
	int error = pass_do(&compaction, alive_find);

	if (!error)
		error = pass_do(&compaction, kept_copy);
	*end = compaction.at_end ? compaction.cut : size;
	if (!error)
		error = tail_copy(&compaction, *end);
	alive_clear(&compaction.alive);
	arrfree(compaction.list);
	hmfree(compaction.continued);
	hmfree(compaction.totals);
	return error;
}
