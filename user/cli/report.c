// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace report`: the reports of a capture, again or elsewhere. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "cli/cli.h"
#include "containers/containers.h"

enum option_key { KEY_EMPTY_USERS = KEY_VERB };

struct arguments {
	struct output_options output;
	const char **inputs; /* stb_ds */
	const char *folder;
};

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case 'o':
		arguments->folder = text;
		return 0;
	case KEY_EMPTY_USERS:
		arguments->output.report.empty_users = true;
		return 0;
	case ARGP_KEY_ARG:
		arrput(arguments->inputs, text);
		return 0;
	case ARGP_KEY_END:
		if (!arrlenu(arguments->inputs))
			argp_error(state, "which capture? give its file, or the folder that holds it");
		if (arrlenu(arguments->inputs) > 1 && !arguments->folder)
			argp_error(state, "where do the reports of several captures go? say it with -o FOLDER");
		return 0;
	}
	return output_option_parse(key, text, &arguments->output, state);
}

/* Beside the capture, unless -o says otherwise. */
static char *folder_path(const struct arguments *arguments, const char *capture)
{
	const char *slash = strrchr(capture, '/');

	if (arguments->folder)
		return strdup(arguments->folder);
	return slash ? strndup(capture, slash == capture ? 1 : (size_t)(slash - capture)) : strdup(".");
}

int verb_report(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"output", 'o', "FOLDER", 0, "where the reports go (beside the capture)", 0},
		{"format", KEY_FORMAT, "LIST", 0, "what to write", 0},
		{"csv-layout", KEY_CSV_LAYOUT, "NAME", 0, "columns of the CSV: dryrun (default), or mindspore", 0},
		{"device", KEY_DEVICE, "LIST", 0, "devices to report: auto, all, or names as cuda:0,cpu", 0},
		{"all-blocks", KEY_ALL_BLOCKS, NULL, 0, "report also what a dry run cannot see", 0},
		{"pool-name", KEY_POOL_NAME, "NAME", 0, "pool_type of the report", 0},
		{"empty-users", KEY_EMPTY_USERS, NULL, 0, "leave user_tasks empty in the CSV, as a dry run does", 0},
		{"quiet", 'q', NULL, 0, "print errors only", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.args_doc = "CAPTURE|FOLDER...",
		.doc = "Make the reports of a capture, or of several that ranks of the same jobs are in.",
		.help_filter = output_help_filter,
	};
	struct arguments arguments = {.output.formats = REPORT_DEFAULT};
	char **captures, *folder = NULL;
	int error, status = STATUS_FAILED;
	size_t made = 0;

	argv[0] = "hdtrace report";
	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &arguments)) {
		arrfree(arguments.inputs);
		return STATUS_USAGE;
	}
	captures = captures_name(arguments.inputs, arrlenu(arguments.inputs));
	if (!captures)
		goto cleanup;
	folder = folder_path(&arguments, captures[0]);
	error = folder ? folder_make(folder, &made) : -ENOMEM;
	if (error)
		fprintf(stderr, "hdtrace: cannot make the folder %s: %s; choose another one with -o\n",
			folder ? folder : "?", strerror(-error));
	else
		status = outputs_write((const char *const *)captures, arrlenu(captures), folder, &arguments.output);
	if (status == STATUS_FAILED)
		folder_unmake(folder ? folder : "", made);
cleanup:
	free(folder);
	captures_free(captures);
	arrfree(arguments.inputs);
	return status;
}
