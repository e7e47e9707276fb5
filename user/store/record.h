/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the audit store keeps, one struct a table. Whoever observes a job fills
 * them in and gives them to a spool (spool.h); docs/audit.md describes the tables.
 *
 * A record is told from all others by its key: the members so marked in
 * table.c. The same observation always has the same key, and a record that
 * arrives twice is there once. Times are seconds of CLOCK_REALTIME, sizes are
 * bytes. Texts are borrowed; NULL is the empty one.
 */
#ifndef HDTRACE_STORE_RECORD_H
#define HDTRACE_STORE_RECORD_H

#include <stdint.h>

/* A number that is not known, where that may be. */
#define RECORD_UNKNOWN INT64_MIN

/* One start of a job that was observed. */
struct run_record {
	const char *run; /* its identity: run_identity */
	const char *job, *user, *model, *version;
	const char *instance;         /* what the launcher calls it, as a number of Slurm's */
	const char *command, *source; /* source: "capture" or "agent" */
	const char *torch_version, *hdtrace_version;
	int64_t world_size, start_time;
};

struct rank_record {
	const char *run, *node;
	int64_t rank, pid, start_time, end_time, steps, complete, lost_events;
};

/* The memory of a device, as a rank used it from start_time to end_time. */
struct period_record {
	const char *run, *device, *node;
	int64_t rank, start_time, end_time;
	int64_t capacity_bytes;                                /* of the device */
	int64_t peak_bytes, end_bytes;                         /* allocated */
	int64_t reserved_peak_bytes, reserved_bytes;           /* held by the allocator; the second at the end */
	int64_t dead_bytes;                                    /* at the peak, of blocks that nothing used any more */
	int64_t parameter_bytes, buffer_bytes, gradient_bytes; /* at the peak, from here on */
	int64_t activation_bytes, temp_bytes, optstate_bytes, other_bytes, workspace_bytes;
	int64_t steps, step_time_us; /* the median */
	int64_t out_of_memories;
	const char *peak_phase, *peak_operator, *peak_line;
};

struct step_record {
	const char *run;
	int64_t rank, start_time, step, complete;
	int64_t duration_us, forward_us, recompute_us, backward_us, optimizer_us, wait_us;
	int64_t peak_bytes, end_bytes, allocated_bytes, operators, collectives, collective_bytes;
};

/* `moment` of holders and blocks. */
#define MOMENT_PEAK "peak"
#define MOMENT_OUT_OF_MEMORY "out_of_memory"

/* What held memory at a peak (time: start_time of the period), or when there was no more (that of the oom_record). */
struct holder_record {
	const char *run, *device, *moment;
	const char *kind; /* "category", "line" or "module" */
	const char *name;
	int64_t rank, time, microsecond, place, bytes, blocks;
};

/* One of the largest blocks at such a moment. */
struct block_record {
	const char *run, *device, *moment, *category, *phase, *operator_, *line, *module, *owner;
	int64_t rank, time, microsecond, place, bytes;
	int64_t age_us; /* since it was made */
};

struct finding_record {
	const char *run, *finding, *device, *kind, *severity, *confidence, *text, *advice, *line;
	int64_t rank, time, bytes, saves_bytes;
};

struct oom_record {
	const char *run, *device, *node, *operator_, *phase, *line;
	int64_t rank, time, microsecond, asked_bytes, allocated_bytes, reserved_bytes, largest_gap_bytes,
		capacity_bytes;
};

/* The peak that a dry run foretells for a job. */
struct prediction_record {
	const char *job, *version, *model;
	int64_t rank, time, peak_bytes;
};

#endif
