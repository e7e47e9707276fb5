/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Live accounting: what a job holds now, from the same records as a capture gets,
 * as they come. Its state is bounded: one entry for each live block, tables of a
 * fixed size for names, one ring for each communicator; nothing grows with the
 * number of events, so that it may follow a job for months. What ended is dropped.
 *
 * It rests on the model's rules (model/stack.h, category.h, family.h) and states
 * what the model would say of this moment. What is not known at the level of
 * tracing is said to be unknown: LIVE_UNKNOWN, or the field that says so.
 *
 * Pure: no I/O, no clock but that of the records and of live_refresh. Not for
 * several threads at once.
 *
 * Use: live_new, live_take for every record in order, live_refresh when somebody
 * wants to look, then read the ranks.
 */
#ifndef HDTRACE_LIVE_H
#define HDTRACE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hdtrace/capture.h>

#include "model/model.h"

#define LIVE_UNKNOWN UINT64_MAX

/* One more than there are: what nothing is known of. */
#define LIVE_CATEGORIES (CATEGORIES + 1)
#define LIVE_PHASES (PHASES + 1)

#define LIVE_DEVICES_MAX 32
#define LIVE_STEPS_KEPT 32
#define LIVE_GROUPS_MAX 64
#define LIVE_ABSENT_MAX 8
#define LIVE_TEXT_BYTES 256
#define LIVE_JOB_BYTES 80

struct live_limits {
	size_t blocks;  /* of a rank; later ones count in the totals of their device, but in no table */
	size_t places;  /* names in each table of a rank; what comes later is summed up in one entry */
	size_t threads; /* whose Python stacks are remembered; the one that was quiet for longest goes */
	size_t ended;   /* targets that have ended and are still shown; the oldest goes */
};

/* Bytes and blocks that are alive now. Counters since the target is traced. */
struct live_device {
	char name[DEVICE_NAME_BYTES]; /* "cuda:0" */
	uint8_t type, index;
	bool has_totals; /* its allocator told its own totals: `bytes` is that, and `reserved` is known */

	uint64_t bytes, peak_bytes, peak_time_ns; /* the peak: since the target is traced */
	uint64_t look_peak_bytes,
		next_peak_bytes; /* the highest between the last two calls of live_refresh, and since */
	uint64_t reserved_bytes, reserved_peak_bytes;
	uint64_t size_bytes; /* of the device, LIVE_UNKNOWN: live_device_size was not called */
	/* What drivers gave since the target is traced, to whomever. */
	uint64_t segment_bytes, segments;

	uint64_t blocks, block_bytes; /* that are known one by one */
	/* Sums to `bytes`; the last one: not known. */
	uint64_t category_bytes[LIVE_CATEGORIES];
	uint64_t phase_bytes[LIVE_PHASES]; /* by the phase in which they were made */
	/* Of tensors that no operator had as an argument for a whole step; LIVE_UNKNOWN without arguments (lite). */
	uint64_t idle_bytes, idle_blocks;

	uint64_t allocations, allocated_bytes, frees, freed_bytes;
	uint64_t out_of_memories, out_of_memory_bytes, out_of_memory_time_ns; /* bytes asked for, by the last one */
	char out_of_memory_line[LIVE_TEXT_BYTES];                             /* that asked, "": unknown */
};

/* What blocks have in common: a module or a line. */
struct live_place {
	const char *name; /* "Model.layers.1.mlp", "/job.py:12"; NULL: all those that found no room in the table */
	uint64_t bytes, blocks;
};

/* The last collective of a communicator. */
struct live_group {
	uint64_t address; /* of its object, or the library's handle */
	uint8_t layer;    /* enum collective_layer */
	int32_t rank, size;
	uint64_t collectives; /* begun since the target is traced */
	uint64_t bytes;       /* of the last one's input, LIVE_UNKNOWN */
	uint64_t time_ns;     /* when it was begun */
	uint8_t kind;         /* enum collective_kind */
};

/* A rank has begun a collective that others have not. */
struct live_wait {
	bool waits;
	uint8_t kind;                          /* enum collective_kind */
	uint64_t since_ns;                     /* it began it then */
	uint32_t absent;                       /* how many ranks have not begun it */
	int32_t absent_ranks[LIVE_ABSENT_MAX]; /* the first of them, by their place in the group */
};

struct live_rank {
	uint16_t target;
	int32_t pid;              /* -1: unknown */
	int32_t rank;             /* place in the job; RANK_UNKNOWN: nothing tells it */
	uint8_t rank_source;      /* enum rank_source */
	char job[LIVE_JOB_BYTES]; /* "": unknown */
	char command[LIVE_TEXT_BYTES];
	bool is_rank; /* else a launcher, or what loads data (model/family.h) */
	bool ended;
	bool lite; /* traced at LEVEL_LITE */
	bool from_start;
	bool owners_told; /* what Python holds is read: categories rest on it */
	/* Blocks of the host are not followed now (live_host_away), since when, and for how long before that. */
	bool host_away;
	uint64_t host_away_since_ns, host_away_ns;
	uint64_t host_events;                 /* of blocks of the host, since the target is traced */
	uint64_t start_time_ns, last_time_ns; /* of its description, and of its last event */
	uint64_t events;

	struct live_device devices[LIVE_DEVICES_MAX];
	size_t device_count;
	uint64_t blocks_untold; /* blocks that found no room (live_limits.blocks) */

	enum phase phase; /* of the last operator on the thread that trains */
	bool phase_known;
	char line[LIVE_TEXT_BYTES]; /* where that stands, "": unknown */
	bool steps_known;
	uint32_t steps;                    /* complete optimizer steps since the target is traced */
	uint64_t step_time_ns;             /* when the last one ended */
	uint64_t step_ns[LIVE_STEPS_KEPT]; /* how long the last ones took: step n at n % LIVE_STEPS_KEPT */
	uint32_t step_ns_count;            /* how many of them are known */

	struct live_group groups[LIVE_GROUPS_MAX]; /* the last takes what finds no room */
	size_t group_count;
	uint64_t collectives, collective_bytes;
	uint64_t collective_wait_ns; /* for ranks that came later, in collectives that all have begun */
	struct live_wait wait;

	struct event_counters loss;
	uint64_t lost; /* sum of all reasons */
};

struct live;

/* `limits` may be NULL. NULL: no memory. */
struct live *live_new(const struct live_limits *limits);
void live_free(struct live *live);

/* Takes a record of any kind, which passed record_check (stream/record.h). What it cannot use it passes over. */
void live_take(struct live *live, const struct event *record);

/* How large a device of a target is. */
void live_device_size(struct live *live, uint16_t target, uint8_t type, uint8_t index, uint64_t bytes);

/*
 * Blocks of the host are not followed any more, for a while: what comes and goes meanwhile is not known, and what the
 * host holds stays as it was. Then they are followed again, from `now_ns` on; whoever knows tells what Python holds
 * (CAPTURE_OWNER). Then `settled`: what was not seen again is gone, where all that Python holds was told (`whole`);
 * peaks count from there on.
 */
void live_host_away(struct live *live, uint16_t target, uint64_t now_ns);
void live_host_back(struct live *live, uint16_t target, uint64_t now_ns);
void live_host_settled(struct live *live, uint16_t target, uint64_t now_ns, bool whole);

/*
 * Where the main thread of a target stood, as frames innermost first, outside of any record: at LEVEL_LITE all that is
 * known of phases.
 */
void live_stand(struct live *live, uint16_t target, const struct frame *frames, size_t frame_count);

/* Work out what rests on several ranks, or on all blocks: before reading. */
void live_refresh(struct live *live);

/* By target, ended ones too until their place is needed; those that are no ranks too. */
size_t live_rank_count(const struct live *live);
const struct live_rank *live_rank_at(const struct live *live, size_t index);

enum live_table { LIVE_MODULES, LIVE_LINES, LIVE_TABLES };

/*
 * The places of a rank with most live bytes on accelerators, or on the host where it uses none, largest first; returns
 * how many, at most `room`. What has no module or line is in none. Names are valid until the next live_take.
 */
size_t live_top(const struct live *live, size_t index, enum live_table table, struct live_place *places, size_t room);

/* Median of the steps that are known, LIVE_UNKNOWN: none is. */
uint64_t live_step_ns(const struct live_rank *rank);

/* The device of a rank that matters: the accelerator with most bytes, else the host; NULL: none was seen. */
const struct live_device *live_device_main(const struct live_rank *rank);

/* Bytes that blocks could still take: of the device, less what is reserved; LIVE_UNKNOWN. */
uint64_t live_headroom(const struct live_device *device);

/* "unknown" for the last one. */
const char *live_category_name(size_t category);
const char *live_phase_name(size_t phase);

#endif
