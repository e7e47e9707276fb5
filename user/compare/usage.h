/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a rank used at its peak, by category, module, operator and line: of a
 * finished rank of the model, or of a memory CSV, that of a dry run included.
 */
#ifndef HDTRACE_COMPARE_USAGE_H
#define HDTRACE_COMPARE_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/model.h"

enum usage_group { USAGE_CATEGORY, USAGE_MODULE, USAGE_OPERATOR, USAGE_LINE, USAGE_GROUPS };

/* Bytes of the peak that have something in common. */
struct amount {
	char *name; /* stb_ds; "": none */
	uint64_t bytes, blocks;
};

struct usage {
	uint32_t job; /* the jobs of a side are numbered */
	int32_t rank;
	uint64_t peak_bytes;                 /* what the allocator had given out at most */
	uint64_t block_bytes;                /* of it, in blocks that are known */
	struct amount *groups[USAGE_GROUPS]; /* stb_ds, by name */
	bool has_steps;
	uint32_t steps;                    /* complete ones */
	uint64_t step_ns, step_peak_bytes; /* medians of them */
};

/* Why a CSV was refused. */
struct usage_error {
	uint64_t line; /* from 1 */
	char *text;    /* stb_ds: column and reason, and what to do where that helps */
};

void usage_of_rank(const struct rank *rank, struct usage *usage);

/*
 * Of a memory CSV of 22 columns (HyperDryRun's), or of 20 or fewer (MindSpore's): columns are found by their names.
 * The peak is the highest actual_peak_memory, its moment the row of the highest actual_used_memory; where these are
 * not there, both are of the sizes that are alive. Returns -EBADMSG with an error for usage_error_clear.
 */
int usage_of_csv(FILE *file, struct usage *usage, struct usage_error *error);
/* Its steps, from a steps CSV beside it. */
int usage_add_steps_csv(FILE *file, struct usage *usage, struct usage_error *error);

void usage_clear(struct usage *usage);
void usage_error_clear(struct usage_error *error);

const char *usage_group_name(enum usage_group group); /* "category" */

/* Inside of this room. */
struct amounts {
	struct amount *list;
	struct {
		char *key;
		size_t value;
	} * index; /* stb_ds map of strings */
};

void amounts_add(struct amounts *amounts, const char *name, uint64_t bytes, uint64_t blocks);
/* By name; the index is gone. */
struct amount *amounts_end(struct amounts *amounts);
/* The one in the middle; 0 of none. Sorts. */
uint64_t usage_median(uint64_t *values);

#endif
