/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the agent tells Prometheus and its likes, as text: their exposition
 * format 0.0.4, or OpenMetrics 1.0. packaging/agent/README.md lists the metrics.
 *
 * Labels are bounded: `ranks` of those that live have series of their own, who
 * came first first; the others are summed up in one, whose job and rank are
 * METRICS_OTHER. So is one that says it is the same rank of the same job.
 * The counters of a rank that ended stay for METRICS_REST_NS, so that who asks
 * once a minute sees how it ended.
 */
#ifndef HDTRACE_AGENT_METRICS_H
#define HDTRACE_AGENT_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/growth.h"
#include "live/live.h"
#include "record/recorder.h"

#define METRICS_OTHER "_other"
#define METRICS_REST_NS 300000000000ull

/* Of the agent itself. */
struct agent_figures {
	struct recording_cost cost;
	uint64_t spool_bytes, spool_segments;         /* that wait for the store */
	uint64_t records, records_held, records_lost; /* in the spool; that wait for room there; that waited too long */
	uint64_t captures, captures_refused, capture_bytes;
	uint64_t store_failures;
	bool store_works, configuration_works;
};

struct metrics_source {
	const struct live *live; /* refreshed */
	const struct growth *growth;
	const char *node;
	const struct agent_figures *figures;
	size_t ranks;    /* with series of their own */
	uint64_t now_ns; /* CLOCK_MONOTONIC */
};

/* Returns the text, to be freed; NULL when memory is out. */
char *metrics_text(const struct metrics_source *source, bool open_metrics, size_t *length);

/*
 * The label `job` of a rank, to be freed: what its launcher calls it; where nothing does, its program and the process
 * that began it: "train.py:1234".
 */
char *metrics_job(const struct live_rank *rank);

/* Its number there: of one that no launcher and no communicator numbers, and that is alone in its job, 0. */
int32_t metrics_rank(const struct live_rank *rank);

/* Is it a rank of which something was seen? */
bool metrics_shows(const struct live_rank *rank);

#endif
