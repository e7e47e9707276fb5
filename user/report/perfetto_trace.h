/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trace in the format of Perfetto: tracks, and events on them. Numbers of
 * fields: protos/perfetto/trace/ of Perfetto, at perfetto_trace.c. Errors of the
 * file are kept in it.
 */
#ifndef HDTRACE_REPORT_PERFETTO_TRACE_H
#define HDTRACE_REPORT_PERFETTO_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "model/model.h"

enum annotation {
	ANNOTATION_TASK,
	ANNOTATION_STEP,
	ANNOTATION_LIVE_BYTES,
	ANNOTATION_LAUNCHES,
	ANNOTATION_BYTES,
	ANNOTATION_COMMUNICATOR,
	ANNOTATION_SEQUENCE,
	ANNOTATION_LAST_RANK,
	ANNOTATION_MATCHED_RANKS,
	ANNOTATIONS
};

enum perfetto_kind { KIND_STEP, KIND_PHASE, KIND_MODULE, KIND_OPERATOR, KIND_COLLECTIVE, KIND_MEMORY, PERFETTO_KINDS };

/* What one rank writes: names have numbers of their own in each sequence. */
struct perfetto_trace {
	FILE *file;
	uint32_t sequence;
	uint64_t tracks;                            /* how many there are in the whole file */
	bool begun;                                 /* the sequence */
	uint8_t *packet, *event, *interned, *inner; /* stb_ds: messages while they are made */
	struct {
		char *key;
		uint64_t value;
	} * names; /* stb_ds map of strings */
	struct {
		struct {
			const char *file, *function;
			uint64_t line;
		} key;
		uint64_t value;
	} * places; /* stb_ds map */
};

/* Each gives the number of a new track. */
uint64_t perfetto_process(struct perfetto_trace *trace, int32_t pid, const char *name);
uint64_t perfetto_thread(struct perfetto_trace *trace, int32_t pid, uint32_t thread, const char *name);
uint64_t perfetto_track(struct perfetto_trace *trace, uint64_t parent, const char *name);
uint64_t perfetto_bytes_track(struct perfetto_trace *trace, uint64_t parent, const char *name);

/* Names and numbers of the next sequence: nothing is known in it. */
void perfetto_sequence(struct perfetto_trace *trace);
void perfetto_free(struct perfetto_trace *trace);

/*
 * An event is begun, described, and then placed on a track at a time: as the start of a slice or as one without
 * duration.
 */
void perfetto_event(struct perfetto_trace *trace, enum perfetto_kind kind, const char *name);
void perfetto_annotate(struct perfetto_trace *trace, enum annotation annotation, int64_t value);
void perfetto_place(struct perfetto_trace *trace, const struct frame *frame); /* NULL: none */
void perfetto_flow(struct perfetto_trace *trace, uint64_t flow, bool ends);   /* the same on all slices of it */
void perfetto_slice(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns);
void perfetto_instant(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns);

/* The innermost open slice of the track ends. */
void perfetto_slice_end(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns);
void perfetto_count(struct perfetto_trace *trace, uint64_t track, uint64_t time_ns, uint64_t value);

#endif
