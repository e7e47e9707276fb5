/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which formats there are, and which files each one is: of every rank, in the folder that readers of dry runs expect,
 * and of the job.
 */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/folder.h"

typedef int (*report_writer)(const struct rank *rank, const struct report_options *options, const char *path);

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

const struct report_format_name report_formats[] = {
	{"csv", "tables of blocks, tasks, steps, segments and collectives", REPORT_CSV},
	{"json", "the same blocks with all that is known of the trace", REPORT_JSON},
	{"html", "a page for a browser", REPORT_HTML},
	{"snapshot", "PyTorch's memory snapshot, for pytorch.org/memory_viz", REPORT_SNAPSHOT},
	{"perfetto", "a trace of the job, for ui.perfetto.dev", REPORT_PERFETTO},
	{"folded", "stacks with bytes, for flame graphs", REPORT_FOLDED},
	{"sqlite", "a database of the job", REPORT_SQLITE},
};

const size_t report_format_count = COUNT(report_formats);

const struct report_job_file report_job_files[] = {
	{"job.json", NULL, REPORT_JSON, true, report_job_json},
	{"steps.csv", NULL, REPORT_CSV, true, report_job_steps_csv},
	{"report.html", "page", REPORT_HTML, false, report_job_html},
	{"job.pftrace", "perfetto", REPORT_PERFETTO, false, report_job_perfetto},
	{"job.sqlite", "database", REPORT_SQLITE, false, report_job_sqlite},
};

const size_t report_job_file_count = COUNT(report_job_files);

enum layout { LAYOUT_ANY, LAYOUT_DRY_RUN, LAYOUT_MINDSPORE };

static const struct {
	const char *name; /* behind "rank_N_", but for MindSpore's */
	report_writer write;
	enum report_format format;
	enum layout layout;
	bool optional; /* that there is nothing to write is no error */
} FILES[] = {
	/* The JSON first: it is there even when the others have nothing to say. */
	{"memory.json", report_memory_json, REPORT_JSON, LAYOUT_ANY, false},
	{"memory.csv", report_memory_csv, REPORT_CSV, LAYOUT_DRY_RUN, false},
	{"tasks.csv", report_tasks_csv, REPORT_CSV, LAYOUT_DRY_RUN, false},
	{"memory_block.csv", report_mindspore_blocks_csv, REPORT_CSV, LAYOUT_MINDSPORE, false},
	{"task.csv", report_mindspore_tasks_csv, REPORT_CSV, LAYOUT_MINDSPORE, false},
	{"steps.csv", report_steps_csv, REPORT_CSV, LAYOUT_ANY, true},
	{"segments.csv", report_segments_csv, REPORT_CSV, LAYOUT_ANY, true},
	{"collectives.csv", report_collectives_csv, REPORT_CSV, LAYOUT_ANY, true},
	{"snapshot.pickle", report_snapshot, REPORT_SNAPSHOT, LAYOUT_ANY, false},
	{"peak.folded", report_folded_peak, REPORT_FOLDED, LAYOUT_ANY, false},
	{"allocated.folded", report_folded_allocated, REPORT_FOLDED, LAYOUT_ANY, false},
};

static int file_write(const struct rank *rank, const struct report_options *options, const char *folder, size_t index)
{
	char *path;
	int error;

	if ((FILES[index].layout == LAYOUT_MINDSPORE
			    ? asprintf(&path, "%s/%s", folder, FILES[index].name)
			    : asprintf(&path, "%s/rank_%d_%s", folder, rank->rank, FILES[index].name)) < 0)
		return -ENOMEM;
	error = FILES[index].write(rank, options, path);
	/* One of an earlier trace would be taken for this one's. */
	if (error == -ENODATA)
		unlink(path);
	free(path);
	return error == -ENODATA && FILES[index].optional ? 0 : error;
}

static bool is_wanted(size_t index, const struct report_options *options, unsigned int formats)
{
	enum layout other = options && options->mindspore_layout ? LAYOUT_DRY_RUN : LAYOUT_MINDSPORE;

	return formats & FILES[index].format && FILES[index].layout != other;
}

int report_rank(const struct rank *rank, const struct report_options *options, unsigned int formats, const char *folder)
{
	char *rank_folder;
	int error;

	if (asprintf(&rank_folder, "%s/rank_%d", folder, rank->rank) < 0)
		return -ENOMEM;
	error = folder_make(rank_folder, NULL);
	for (size_t i = 0; i < COUNT(FILES) && (!error || error == -ENODATA); i++)
		if (is_wanted(i, options, formats)) {
			int written = file_write(rank, options, rank_folder, i);

			error = written ? written : error;
		}
	free(rank_folder);
	return error;
}
