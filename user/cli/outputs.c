// SPDX-License-Identifier: BSD-2-Clause
/* From a capture to all reports of all ranks, and what a person is told about it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "containers/containers.h"
#include "findings/findings.h"

#define FORMATS_ALL "all" /* for --format */

/* Of a name that is so long; 0: there is none. */
static unsigned int format_find(const char *name, size_t length)
{
	unsigned int all = 0;

	for (size_t index = 0; index < report_format_count; index++) {
		const struct report_format_name *known = &report_formats[index];

		if (strlen(known->name) == length && !strncmp(name, known->name, length))
			return known->format;
		all |= known->format;
	}
	return length == strlen(FORMATS_ALL) && !strncmp(name, FORMATS_ALL, length) ? all : 0;
}

bool formats_parse(const char *text, unsigned int *formats)
{
	*formats = 0;
	while (*text) {
		size_t length = strcspn(text, ",");
		unsigned int format = format_find(text, length);

		if (!format)
			return false;
		*formats |= format;
		text += length + (text[length] == ',');
	}
	return *formats != 0;
}

/* Whether all of them, or those that are written unless --format says otherwise; to be freed. */
static char *format_names(bool all)
{
	char *names = NULL, *text;

	for (size_t index = 0; index < report_format_count; index++) {
		if (!all && !(report_formats[index].format & REPORT_DEFAULT))
			continue;
		if (names)
			arrput(names, ',');
		for (const char *at = report_formats[index].name; *at; at++)
			arrput(names, *at);
	}
	arrput(names, '\0');
	text = strdup(names);
	arrfree(names);
	return text;
}

char *output_help_filter(int key, const char *text, void *input)
{
	char *known, *usual, *help = NULL;

	(void)input;
	if (key != KEY_FORMAT)
		return (char *)text;
	known = format_names(true);
	usual = format_names(false);
	if (!known || !usual || asprintf(&help, "%s: %s, or " FORMATS_ALL " (%s)", text, known, usual) < 0)
		help = NULL;
	free(known);
	free(usual);
	return help;
}

static void formats_option_parse(const char *text, unsigned int *formats, const struct argp_state *state)
{
	char *known;

	if (formats_parse(text, formats))
		return;
	known = format_names(true);
	argp_error(state, "--format is " FORMATS_ALL " or a list of %s with commas, not %s", known ? known : "names",
		text);
	free(known);
}

static void layout_option_parse(const char *text, struct report_options *options, const struct argp_state *state)
{
	options->mindspore_layout = !strcmp(text, "mindspore");
	if (!options->mindspore_layout && strcmp(text, "dryrun"))
		argp_error(state, "--csv-layout is dryrun or mindspore, not %s", text);
}

error_t output_option_parse(int key, char *text, struct output_options *options, const struct argp_state *state)
{
	switch (key) {
	case 'q':
		options->quiet = true;
		return 0;
	case KEY_ALL_BLOCKS:
		options->all_blocks = true;
		return 0;
	case KEY_DEVICE:
		if (!device_choice_parse(text, &options->devices))
			argp_error(state, "--device is auto, all or a list as cpu,cuda:1,npu,pinned, not %s", text);
		return 0;
	case KEY_POOL_NAME:
		options->report.pool_name = text;
		return 0;
	case KEY_FORMAT:
		formats_option_parse(text, &options->formats, state);
		return 0;
	case KEY_CSV_LAYOUT:
		layout_option_parse(text, &options->report, state);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* No memory: of any device, or only of others than those that were asked for. */
static void nothing_tell(const struct rank *rank)
{
	bool others = false;

	fprintf(stderr, "hdtrace: rank %d: ", rank->rank);
	if (arrlenu(rank->collectives))
		fprintf(stderr, "%zu collectives; ", (size_t)arrlenu(rank->collectives));
	fputs("no memory was seen", stderr);
	for (ptrdiff_t index = 0; index < arrlen(rank->devices); index++) {
		if (!rank->devices[index].seen)
			continue;
		fprintf(stderr, "%s%s", others ? ", " : " on the devices of --device, only on ",
			rank->devices[index].name);
		others = true;
	}
	fprintf(stderr, "; rank_%d_memory.json says more\n", rank->rank);
}

static int rank_write_into(const struct rank *rank, const char *folder, const struct output_options *options)
{
	FILE *out = options->summary_to_stderr ? stderr : stdout;
	int error = report_rank(rank, &options->report, options->formats, folder);

	if (error == -ENODATA) {
		progress_hide();
		if (!options->quiet)
			nothing_tell(rank);
		progress_show();
		return 0;
	}
	if (error) {
		progress_hide();
		fprintf(stderr, "hdtrace: cannot write the reports of rank %d below %s: %s\n", rank->rank, folder,
			strerror(-error));
		return error;
	}
	if (options->quiet)
		return 0;
	progress_hide();
	/* Who reads the summary may have gone; the reports of other ranks are written all the same. */
	error = report_summary(rank, &options->report, out);
	fprintf(out, "reports     %s/rank_%d/\n\n", folder, rank->rank);
	progress_show();
	return error == -EIO ? 0 : error;
}

/* Ranks of several jobs are kept apart: FOLDER/JOB/rank_N. */
static int rank_write(const struct rank *rank, const char *folder, const struct output_options *options)
{
	char *job_folder = *rank->job ? path_join(folder, rank->job) : NULL;
	int error;

	if (*rank->job && !job_folder)
		return -ENOMEM;
	error = job_folder ? folder_make(job_folder, NULL) : 0;
	if (!error)
		error = rank_write_into(rank, job_folder ? job_folder : folder, options);
	else
		fprintf(stderr, "hdtrace: cannot write to the folder %s: %s\n", job_folder, strerror(-error));
	free(job_folder);
	return error;
}

static int job_file_write(const struct rank *const *ranks, size_t count, const char *folder, const char *name,
	const struct report_options *options, report_job_writer write)
{
	char *job_folder = path_join(folder, ranks[0]->job);
	char *path = job_folder ? path_join(job_folder, name) : NULL;
	int error = path ? write(ranks, count, options, path) : -ENOMEM;

	if (error)
		fprintf(stderr, "hdtrace: cannot write %s: %s\n", path ? path : name, strerror(-error));
	free(path);
	free(job_folder);
	return error;
}

static int job_write(
	const struct rank *const *ranks, size_t count, const char *folder, const struct output_options *options)
{
	FILE *out = options->summary_to_stderr ? stderr : stdout;
	bool several = count > 1;
	int error = 0;

	progress_hide();
	if (several && !options->quiet)
		report_job_summary(ranks, count, out);
	progress_show();
	for (size_t index = 0; !error && index < report_job_file_count; index++) {
		const struct report_job_file *file = &report_job_files[index];

		if (!(options->formats & file->format) || (file->compares && !several))
			continue;
		error = job_file_write(ranks, count, folder, file->name, &options->report, file->write);
		progress_hide();
		if (!error && file->label && !options->quiet)
			fprintf(out, "%-11s %s/%s%s%s\n", file->label, folder, ranks[0]->job, *ranks[0]->job ? "/" : "",
				file->name);
		progress_show();
	}
	return error;
}

/* Ranks come by job. */
static int jobs_write(const struct rank *const *ranks, const char *folder, const struct output_options *options)
{
	size_t count = arrlenu(ranks), first = 0;
	int error = 0;

	for (size_t index = 1; !error && index <= count; index++) {
		if (index < count && !strcmp(ranks[index]->job, ranks[first]->job))
			continue;
		progress_tell(PROGRESS_JOBS, first, count);
		error = job_write(ranks + first, index - first, folder, options);
		first = index;
	}
	return error;
}

int outputs_write(const char *const *captures, size_t count, const char *folder, const struct output_options *options)
{
	struct model_options model_options = {.all_blocks = options->all_blocks, .devices = options->devices};
	struct output_options with_findings = *options;
	struct finding *findings;
	const struct rank **ranks;
	struct model *model;
	int error = 0, status;

	signal(SIGPIPE, SIG_IGN);
	progress_begin(options->formats, !options->quiet);
	model = captures_read(captures, count, &model_options, &status);
	if (!model) {
		progress_end();
		return status;
	}
	ranks = model_ranks(model);
	findings = findings_find(ranks, arrlenu(ranks), NULL);
	with_findings.report.findings = findings;
	for (size_t index = 0; !error && index < arrlenu(ranks); index++) {
		progress_tell(PROGRESS_RANKS, index, arrlenu(ranks));
		error = rank_write(ranks[index], folder, &with_findings);
	}
	if (!error)
		error = jobs_write(ranks, folder, &with_findings);
	progress_end();
	findings_free(findings);
	arrfree(ranks);
	model_free(model);
	return error ? STATUS_FAILED : status;
}
