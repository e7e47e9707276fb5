/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What differs between two runs, rank by rank: peaks, what they are made of, and
 * steps. The same for a dry run's prediction and a live run, which accepts or
 * refuses the prediction. Pure functions of usages.
 */
#ifndef HDTRACE_COMPARE_H
#define HDTRACE_COMPARE_H

#include "usage.h"

/* A dry run is accepted where its peak is as near to the live one: |dry - live| / max(live, 1) (HyperDryRun). */
#define ACCEPTED_PERCENT 5.0

struct difference {
	const char *name; /* of one of the usages; "": none */
	uint64_t first_bytes, second_bytes;
	uint64_t first_blocks, second_blocks;
};

/* A rank that both sides have. */
struct rank_comparison {
	const struct usage *first, *second;
	struct difference *groups[USAGE_GROUPS]; /* stb_ds, the largest change first */
	double error_percent;                    /* of the first against the second, as a dry run is judged */
};

struct comparison {
	struct rank_comparison *ranks;                  /* stb_ds */
	const struct usage **only_first, **only_second; /* stb_ds: ranks that the other side does not have */
};

/* Usages are referred to. `first`, `second`: stb_ds, by job and rank. */
void comparison_make(struct comparison *comparison, const struct usage *first, const struct usage *second);
void comparison_clear(struct comparison *comparison);

/* Is the first side, a dry run, right about the second? Not where one of its ranks is missing there. */
bool comparison_accepts(const struct comparison *comparison, double percent);

/* b less a, saturated. */
int64_t bytes_change(uint64_t a, uint64_t b);

#endif
