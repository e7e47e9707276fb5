/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an allocator did on one device, as formats need it that replay it: its
 * events in order, and the segments that its blocks lie in.
 */
#ifndef HDTRACE_REPORT_HISTORY_H
#define HDTRACE_REPORT_HISTORY_H

#include "model/model.h"

/* A piece of memory that blocks lie in. */
struct region {
	uint64_t address, bytes;
	uint32_t stream;           /* of its blocks, an index as in struct block */
	bool held;                 /* at the end */
	const struct segment *of;  /* NULL: nobody saw where it came from, only the blocks in it */
	const struct block **left; /* stb_ds: blocks that are alive at the end, by address, none overlaps another */
};

enum history_action { HISTORY_SEGMENT_ALLOCATE, HISTORY_SEGMENT_FREE, HISTORY_FREE, HISTORY_ALLOCATE, HISTORY_OOM };

struct history_event {
	uint64_t time_ns;
	uint32_t order; /* as of block_alive_at; 0 of segments */
	uint8_t action; /* enum history_action */
	union {
		const struct block *block;
		const struct out_of_memory *exhausted;
		uint32_t region; /* index into history.regions */
	};
};

struct history {
	struct history_event *events; /* stb_ds, in order; blocks that are older than the trace have no allocation */
	struct region *regions;       /* stb_ds */
};

/*
 * With events of segments only where they explain all blocks: each lies in one that was there as long as the block.
 * Else the regions are the places of all blocks, put together where they are near each other, and are there all the
 * time. Free with history_free.
 */
void history_find(const struct rank *rank, uint8_t device, struct history *history);
void history_free(struct history *history);

#endif
