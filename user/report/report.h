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
	bool mindspore_layout; /* blocks and tasks as CSV files of MindSpore's memory tracker, not as a dry run's */
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

/* MindSpore's own two: memory_block.csv, task.csv. */
int report_mindspore_blocks_csv(const struct rank *rank, const struct report_options *options, const char *path);
int report_mindspore_tasks_csv(const struct rank *rank, const struct report_options *options, const char *path);
/* A memory snapshot as PyTorch pickles it. */
int report_snapshot(const struct rank *rank, const struct report_options *options, const char *path);
/* Stacks with bytes, for flame graphs: of what was alive at the peak, and of all that was allocated. */
int report_folded_peak(const struct rank *rank, const struct report_options *options, const char *path);
int report_folded_allocated(const struct rank *rank, const struct report_options *options, const char *path);

enum report_format {
	REPORT_CSV = 1 << 0,
	REPORT_JSON = 1 << 1,
	REPORT_HTML = 1 << 2,
	REPORT_SNAPSHOT = 1 << 3,
	REPORT_PERFETTO = 1 << 4,
	REPORT_FOLDED = 1 << 5,
	REPORT_SQLITE = 1 << 6,
	REPORT_DEFAULT = REPORT_CSV | REPORT_JSON | REPORT_HTML
};

/* What --format can name, and what it is for people. */
struct report_format_name {
	const char *name, *summary;
	enum report_format format;
};

extern const struct report_format_name report_formats[];
extern const size_t report_format_count;

/*
 * The files of a rank: FOLDER/rank_N/rank_N_memory.csv, _tasks.csv, _memory.json, and _steps.csv, _segments.csv
 * and _collectives.csv where there are any; folders are made. `formats`: those of enum report_format. A rank without
 * any memory gets the JSON only, and -ENODATA.
 */
int report_rank(
	const struct rank *rank, const struct report_options *options, unsigned int formats, const char *folder);

/* A file of the ranks of one job, `count` of them, at least one. */
typedef int (*report_job_writer)(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);

int report_job_steps_csv(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);
int report_job_json(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);
/* One page of all of them, for a browser. */
int report_job_html(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);
/* One trace of all of them, for Perfetto's viewer. */
int report_job_perfetto(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);
/* One database of all of them. */
int report_job_sqlite(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path);

struct report_job_file {
	const char *name;
	const char *label; /* what people are told that it is; NULL: nothing */
	enum report_format format;
	bool compares; /* ranks: one alone needs none */
	report_job_writer write;
};

extern const struct report_job_file report_job_files[];
extern const size_t report_job_file_count;

int report_job_summary(const struct rank *const *ranks, size_t count, FILE *out);

/* For people: at most 100 columns, aligned. */
int report_summary(const struct rank *rank, const struct report_options *options, FILE *out);

/* Did the target show any memory at all? */
bool report_has_data(const struct rank *rank);

#endif
