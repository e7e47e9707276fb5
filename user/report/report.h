/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports: each output format is one function of a finished rank. Files appear
 * under their name only when they are whole. Functions return 0 or a negative
 * errno, and print nothing. docs/report.schema.json describes the JSON.
 */
#ifndef HDTRACE_REPORT_H
#define HDTRACE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "findings/findings.h"
#include "model/model.h"

/* The viewers of this CSV draw only pools that they know. */
#define REPORT_POOL_NAME "DefaultEnhancedAscendMemoryPool"

struct report_options {
	const char *pool_name;          /* column pool_type; NULL: REPORT_POOL_NAME */
	bool empty_users;               /* user_tasks {} in the CSV, as a dry run writes it */
	const struct finding *findings; /* stb_ds: of all ranks (findings_find); NULL: there are none */
};

/* Bytes are those of the capture. -ENODATA: nothing was observed, so there are no rows (the JSON says it). */
int report_memory_csv(const struct rank *rank, const struct report_options *options, const char *path);
int report_tasks_csv(const struct rank *rank, const struct report_options *options, const char *path);
/* -ENODATA: no step was completed. */
int report_steps_csv(const struct rank *rank, const struct report_options *options, const char *path);
/* -ENODATA: no driver was called for memory. */
int report_segments_csv(const struct rank *rank, const struct report_options *options, const char *path);
/* -ENODATA: there was no collective. */
int report_collectives_csv(const struct rank *rank, const struct report_options *options, const char *path);
/* Of a rank without any memory the JSON has status "error". */
int report_memory_json(const struct rank *rank, const struct report_options *options, const char *path);

enum report_format {
	REPORT_CSV = 1 << 0,
	REPORT_JSON = 1 << 1,
	REPORT_HTML = 1 << 2, /* a file of the job, not of its ranks */
	REPORT_ALL = REPORT_CSV | REPORT_JSON | REPORT_HTML
};

/*
 * The files of a rank: FOLDER/rank_N/rank_N_memory.csv, _tasks.csv, _memory.json, and _steps.csv, _segments.csv
 * and _collectives.csv where there are any; folders are made. `formats`: those of enum report_format. A rank without
 * any memory gets the JSON only, and -ENODATA.
 */
int report_rank(
	const struct rank *rank, const struct report_options *options, unsigned int formats, const char *folder);

/* The ranks of one job, `count` of them, at least one. */
int report_job_steps_csv(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);
int report_job_json(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);
/* One page of all of them, for a browser. */
int report_job_html(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);
int report_job_summary(const struct rank *const *ranks, size_t count, FILE *out);

/* For people: at most 100 columns, aligned. */
int report_summary(const struct rank *rank, const struct report_options *options, FILE *out);

/* Did the target show any memory at all? */
bool report_has_data(const struct rank *rank);

#endif
