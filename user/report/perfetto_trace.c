/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of a trace. Names, places in files and words for numbers are sent once
 * a sequence and then referred to by number.
 */
#include "perfetto_trace.h"

#include "containers/containers.h"
#include "protobuf.h"

/* trace.proto, trace_packet.proto */
enum { TRACE_PACKET = 1 };
enum {
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_TRACK = 60
};
enum { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDS_INTERNED = 2 };

/* track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto, counter_descriptor.proto */
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5, TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, UNIT_BYTES = 3 };

/* track_event.proto, debug_annotation.proto */
enum {
	EVENT_CATEGORY_NUMBER = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_NUMBER = 10,
	EVENT_TRACK = 11,
	EVENT_COUNTER_VALUE = 30,
	EVENT_PLACE_NUMBER = 34,
	EVENT_FLOW = 47,
	EVENT_LAST_FLOW = 48
};
enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { ANNOTATION_NAME_NUMBER = 1, ANNOTATION_INTEGER = 4 };

/* interned_data.proto, source_location.proto; of each of its messages 1 is the number and 2 the text. */
enum { INTERNED_CATEGORY = 1, INTERNED_NAME = 2, INTERNED_ANNOTATION = 3, INTERNED_PLACE = 4 };
enum { NAMED_NUMBER = 1, NAMED_TEXT = 2, PLACE_FUNCTION = 3, PLACE_LINE = 4 };

static const char *const KIND_NAMES[PERFETTO_KINDS] = {
	[KIND_STEP] = "step",
	[KIND_PHASE] = "phase",
	[KIND_MODULE] = "module",
	[KIND_OPERATOR] = "operator",
	[KIND_COLLECTIVE] = "collective",
	[KIND_MEMORY] = "memory",
};

static const char *const ANNOTATION_NAMES[ANNOTATIONS] = {
	[ANNOTATION_TASK] = "task",
	[ANNOTATION_STEP] = "step",
	[ANNOTATION_LIVE_BYTES] = "live_bytes",
	[ANNOTATION_LAUNCHES] = "launches",
	[ANNOTATION_BYTES] = "bytes",
	[ANNOTATION_COMMUNICATOR] = "communicator",
	[ANNOTATION_SEQUENCE] = "sequence",
	[ANNOTATION_LAST_RANK] = "last_rank",
	[ANNOTATION_MATCHED_RANKS] = "matched_ranks",
};

static void packet_write(struct perfetto_trace *trace)
{
	uint8_t *whole = NULL;

	proto_varint(&trace->packet, PACKET_SEQUENCE, trace->sequence);
	proto_message(&whole, TRACE_PACKET, &trace->packet);
	fwrite_unlocked(whole, 1, arrlenu(whole), trace->file);
	arrfree(whole);
}

/* --- tracks ------------------------------------------------------------------------------- */

static void track_write(struct perfetto_trace *trace, uint8_t **track)
{
	proto_message(&trace->packet, PACKET_TRACK, track);
	packet_write(trace);
	arrfree(*track);
}

uint64_t perfetto_process(struct perfetto_trace *trace, int32_t pid, const char *name)
{
	uint8_t *track = NULL;

	proto_varint(&track, TRACK_UUID, ++trace->tracks);
	proto_varint(&trace->inner, PROCESS_PID, (uint64_t)pid);
	proto_text(&trace->inner, PROCESS_NAME, name);
	proto_message(&track, TRACK_PROCESS, &trace->inner);
	track_write(trace, &track);
	return trace->tracks;
}

uint64_t perfetto_thread(struct perfetto_trace *trace, int32_t pid, uint32_t thread, const char *name)
{
	uint8_t *track = NULL;

	proto_varint(&track, TRACK_UUID, ++trace->tracks);
	proto_varint(&trace->inner, THREAD_PID, (uint64_t)pid);
	proto_varint(&trace->inner, THREAD_TID, thread);
	proto_text(&trace->inner, THREAD_NAME, name);
	proto_message(&track, TRACK_THREAD, &trace->inner);
	track_write(trace, &track);
	return trace->tracks;
}

static uint64_t track_new(struct perfetto_trace *trace, uint64_t parent, const char *name, bool counts_bytes)
{
	uint8_t *track = NULL;

	proto_varint(&track, TRACK_UUID, ++trace->tracks);
	proto_varint(&track, TRACK_PARENT, parent);
	proto_text(&track, TRACK_NAME, name);
	if (counts_bytes) {
		proto_varint(&trace->inner, COUNTER_UNIT, UNIT_BYTES);
		proto_message(&track, TRACK_COUNTER, &trace->inner);
	}
	track_write(trace, &track);
	return trace->tracks;
}

uint64_t perfetto_track(struct perfetto_trace *trace, uint64_t parent, const char *name)
{
	return track_new(trace, parent, name, false);
}

uint64_t perfetto_bytes_track(struct perfetto_trace *trace, uint64_t parent, const char *name)
{
	return track_new(trace, parent, name, true);
}

/* --- sequences ------------------------------------------------------------------------------ */

static void intern(struct perfetto_trace *trace, uint32_t field, uint64_t number, const char *text)
{
	proto_varint(&trace->inner, NAMED_NUMBER, number);
	proto_text(&trace->inner, NAMED_TEXT, text);
	proto_message(&trace->interned, field, &trace->inner);
}

/* The first packet: what is known by its place in an enumeration. Numbers begin at 1. */
void perfetto_sequence(struct perfetto_trace *trace)
{
	trace->sequence++;
	shfree(trace->names);
	hmfree(trace->places);
	sh_new_strdup(trace->names);
	for (int i = 0; i < PERFETTO_KINDS; i++)
		intern(trace, INTERNED_CATEGORY, (uint64_t)i + 1, KIND_NAMES[i]);
	for (int i = 0; i < ANNOTATIONS; i++)
		intern(trace, INTERNED_ANNOTATION, (uint64_t)i + 1, ANNOTATION_NAMES[i]);
	proto_varint(&trace->packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
	proto_message(&trace->packet, PACKET_INTERNED, &trace->interned);
	packet_write(trace);
}

void perfetto_free(struct perfetto_trace *trace)
{
	shfree(trace->names);
	hmfree(trace->places);
	arrfree(trace->packet);
	arrfree(trace->event);
	arrfree(trace->interned);
	arrfree(trace->inner);
}

/* --- events ----------------------------------------------------------------------------------- */

void perfetto_event(struct perfetto_trace *trace, enum perfetto_kind kind, const char *name)
{
	ptrdiff_t at = shgeti(trace->names, name);
	uint64_t number = shlenu(trace->names) + 1;

	if (at < 0) {
		shput(trace->names, name, number);
		intern(trace, INTERNED_NAME, number, name);
	} else {
		number = trace->names[at].value;
	}
	proto_varint(&trace->event, EVENT_CATEGORY_NUMBER, (uint64_t)kind + 1);
	proto_varint(&trace->event, EVENT_NAME_NUMBER, number);
}

void perfetto_annotate(struct perfetto_trace *trace, enum annotation annotation, int64_t value)
{
	proto_varint(&trace->inner, ANNOTATION_NAME_NUMBER, (uint64_t)annotation + 1);
	proto_varint(&trace->inner, ANNOTATION_INTEGER, (uint64_t)value);
	proto_message(&trace->event, EVENT_ANNOTATION, &trace->inner);
}

void perfetto_place(struct perfetto_trace *trace, const struct frame *frame)
{
	typeof(trace->places->key) key = {NULL, NULL, 0};
	uint64_t number = hmlenu(trace->places) + 1;
	ptrdiff_t at;

	if (!frame)
		return;
	key.file = frame->file;
	key.function = frame->function;
	key.line = frame->line;
	at = hmgeti(trace->places, key);
	if (at < 0) {
		hmput(trace->places, key, number);
		proto_varint(&trace->inner, NAMED_NUMBER, number);
		proto_text(&trace->inner, NAMED_TEXT, frame->file);
		proto_text(&trace->inner, PLACE_FUNCTION, frame->function);
		proto_varint(&trace->inner, PLACE_LINE, frame->line);
		proto_message(&trace->interned, INTERNED_PLACE, &trace->inner);
	} else {
		number = trace->places[at].value;
	}
	proto_varint(&trace->event, EVENT_PLACE_NUMBER, number);
}

void perfetto_flow(struct perfetto_trace *trace, uint64_t flow, bool ends)
{
	proto_fixed64(&trace->event, ends ? EVENT_LAST_FLOW : EVENT_FLOW, flow);
}

static void event_write(struct perfetto_trace *trace, uint64_t type, uint64_t track, uint64_t time_ns)
{
	proto_varint(&trace->event, EVENT_TYPE, type);
	proto_varint(&trace->event, EVENT_TRACK, track);
	proto_varint(&trace->packet, PACKET_TIMESTAMP, time_ns);
	proto_varint(&trace->packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_INTERNED);
	if (arrlenu(trace->interned))
		proto_message(&trace->packet, PACKET_INTERNED, &trace->interned);
	proto_message(&trace->packet, PACKET_TRACK_EVENT, &trace->event);
	packet_write(trace);
}

void perfetto_slice(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns)
{
	event_write(trace, TYPE_SLICE_BEGIN, track, time_ns);
}

void perfetto_instant(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns)
{
	event_write(trace, TYPE_INSTANT, track, time_ns);
}

void perfetto_slice_end(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns)
{
	event_write(trace, TYPE_SLICE_END, track, time_ns);
}

void perfetto_count(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns, uint64_t value)
{
	proto_varint(&trace->event, EVENT_COUNTER_VALUE, value);
	event_write(trace, TYPE_COUNTER, track, time_ns);
}
