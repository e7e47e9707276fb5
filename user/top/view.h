/* SPDX-License-Identifier: BSD-2-Clause */
/* What one look shows: the live accounting, what came since the look before, and what the watching costs. */
#ifndef HDTRACE_TOP_VIEW_H
#define HDTRACE_TOP_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "live/live.h"
#include "record/recorder.h"

#define RATE_UNKNOWN (-1.0)

/* Bytes of a rank's main device in the last minutes. */
#define HISTORY_SAMPLES 300
#define HISTORY_SAMPLE_NS 1000000000ull

struct history {
	uint16_t target;
	uint64_t start_time_ns;          /* with the target: which rank */
	uint64_t bytes[HISTORY_SAMPLES]; /* sample n at n % HISTORY_SAMPLES: the most in its second */
	uint64_t samples;
	uint64_t sample_ns;       /* when the last one began */
	uint64_t allocated_bytes; /* by all devices, at the last look */
	double allocation_rate;   /* bytes a second since the look before; RATE_UNKNOWN: this is the first */
	bool seen;
};

struct view {
	struct live *live;
	struct history *histories;              /* stb_ds */
	struct recording_cost cost, first_cost; /* now, and at the first look */
	double record_rate, processor_share;    /* since the look before; RATE_UNKNOWN */
	uint64_t now_ns, before_ns, first_ns;   /* CLOCK_MONOTONIC of the looks */
	int64_t real_ns;                        /* CLOCK_REALTIME of this one */
	bool lite;
	char message[LIVE_TEXT_BYTES]; /* the last that the recorder told */
};

/* Work out rates and history from the live accounting, which was refreshed. */
void view_update(struct view *view, const struct recording_cost *cost, uint64_t now_ns, int64_t real_ns);
void view_free(struct view *view);

/* NULL: it was not there at the last look. */
const struct history *view_history(const struct view *view, const struct live_rank *rank);

/* Allocations of a rank on all devices, in bytes since it is traced. */
uint64_t rank_allocated_bytes(const struct live_rank *rank);

/* One object, and a line feed. 0 or -EIO. */
int view_write_json(const struct view *view, FILE *file);

/* "12.3 MiB"; "-" for LIVE_UNKNOWN. */
#define BYTES_TEXT 16
const char *bytes_text(uint64_t bytes, char text[BYTES_TEXT]);
/* "12.3M", for narrow windows: at most 6 characters. */
const char *bytes_short(uint64_t bytes, char text[BYTES_TEXT]);

#endif
