/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report.html: one page for the ranks of a job, which needs nothing but itself.
 * Its sources lie in page/; here its data are put where it has its mark: first
 * a head of all ranks as JSON, then the columns of each.
 */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "job_json.h"
#include "output.h"
#include "page_data.h"
#include "page_rank.h"

#define PAGE_VERSION 1
#define DATA_MARK "<!-- data -->"
#define SCOPE_BYTES 32

extern const char report_page_begin[], report_page_end[];

static void put_names(struct json *json)
{
	json_key(json, "categories");
	json_array(json);
	for (int category = 0; category < CATEGORIES; category++)
		json_text(json, category_name((enum category)category));
	json_array_end(json);
}

static void put_phases(struct json *json)
{
	json_key(json, "phases");
	json_array(json);
	for (int phase = 0; phase < PHASES; phase++)
		json_text(json, phase_name((enum phase)phase));
	json_array_end(json);
}

static void put_head(
	struct json *json, const struct rank *const *ranks, size_t count, const struct report_options *options)
{
	json_object(json);
	put_names(json);
	json_put_text(json, "hdtrace", HDTRACE_VERSION);
	json_key(json, "job");
	put_job(json, ranks, count, options ? options->findings : NULL);
	put_phases(json);
	json_key(json, "ranks");
	json_array(json);
	for (size_t i = 0; i < count; i++)
		put_page_rank(json, ranks[i]);
	json_array_end(json);
	json_put_unsigned(json, "version", PAGE_VERSION);
	json_object_end(json);
}

static int head_write(FILE *file, const struct rank *const *ranks, size_t count, const struct report_options *options)
{
	struct json json;
	char *text = NULL;
	size_t length = 0;
	FILE *memory = open_memstream(&text, &length);
	int error;

	if (!memory)
		return -ENOMEM;
	error = json_begin(&json, memory);
	if (!error) {
		put_head(&json, ranks, count, options);
		error = json_end(&json);
	}
	if (fclose(memory) && !error)
		error = -ENOMEM;
	if (!error)
		error = page_text(file, "job", "head", text, length);
	free(text);
	return error;
}

static int data_write(FILE *file, const struct rank *const *ranks, size_t count, const struct report_options *options)
{
	int error = head_write(file, ranks, count, options);

	for (size_t i = 0; !error && i < count; i++) {
		char scope[SCOPE_BYTES];

		snprintf(scope, sizeof(scope), "rank-%zu", i);
		error = page_rank_columns(file, scope, ranks[i]);
	}
	return error;
}

int report_job_html(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path)
{
	size_t length = (size_t)(report_page_end - report_page_begin);
	const char *mark = memmem(report_page_begin, length, DATA_MARK, strlen(DATA_MARK));
	struct output output = {0};
	int error;

	if (!mark)
		return -EINVAL;
	error = output_open(&output, path);
	if (error)
		return error;
	fwrite(report_page_begin, 1, (size_t)(mark - report_page_begin), output.file);
	error = data_write(output.file, ranks, count, options);
	mark += strlen(DATA_MARK);
	fwrite(mark, 1, (size_t)(report_page_end - mark), output.file);
	if (!error)
		error = output_commit(&output);
	output_discard(&output);
	return error;
}
