/* SPDX-License-Identifier: BSD-2-Clause */
/* From the finished ranks of captures to records of the audit store. */
#ifndef HDTRACE_AUDIT_CAPTURE_RECORDS_H
#define HDTRACE_AUDIT_CAPTURE_RECORDS_H

#include "model/model.h"
#include "store/spool.h"

/* Where and when a capture was made. */
struct capture_origin {
	char *node;             /* NULL: not known */
	uint64_t start_real_ns; /* CLOCK_REALTIME when it began */
	int64_t real_offset_ns; /* CLOCK_REALTIME less CLOCK_MONOTONIC */
};

/* Those of captures, in their order; what cannot be read is zero. stb_ds, to be given to origins_free. */
struct capture_origin *origins_read(const char *const *captures, size_t count);
void origins_free(struct capture_origin *origins);

/* What a person says of a run; NULL: it is found out. */
struct run_choice {
	const char *run, *job, *user, *model, *version;
	uint64_t capacity_bytes; /* of each device; 0: not known */
	/* Somebody who watches all of the run puts in its run, ranks, periods and OOMs: only what he cannot see. */
	bool part;
};

/*
 * Put the ranks of one job into a spool, not committed yet. `origins`: of the
 * captures, by rank->capture. A run has the identity that the first of its
 * captures gives it: the same captures have the same records.
 */
int capture_records_put(struct spool *spool, const struct rank *const *ranks, size_t count,
	const struct capture_origin *origins, const struct run_choice *choice);

/* "train.py" of "python3 -u train.py --epochs 3"; to be freed. */
char *program_name(const char *command);

#endif
