// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace diff`: what differs between two runs, and whether a dry run was right about a live one. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/side.h"
#include "report/comparison.h"

enum option_key { KEY_JSON = 'j', KEY_DRY_RUN = KEY_VERB, KEY_TOLERANCE };

struct arguments {
	struct model_options model;
	struct comparison_view view;
	int named; /* sides */
	bool json;
};

static bool percent_parse(const char *text, double *percent)
{
	char *end;

	*percent = strtod(text, &end);
	return end != text && !*end && isfinite(*percent) && *percent >= 0;
}

static error_t side_take(struct arguments *arguments, const char *text, const struct argp_state *state)
{
	if (arguments->view.dry_run ? arguments->named : arguments->named > 1)
		argp_error(state, "%s is one too many: two runs are compared", text);
	if (!arguments->view.dry_run && !arguments->named)
		arguments->view.first = text;
	else
		arguments->view.second = text;
	arguments->named++;
	return 0;
}

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case KEY_JSON:
		arguments->json = true;
		return 0;
	case KEY_DEVICE:
		if (!device_choice_parse(text, &arguments->model.devices))
			argp_error(state, "--device is auto, all or a list as cpu,cuda:1,npu,pinned, not %s", text);
		return 0;
	case KEY_DRY_RUN:
		/* What was named before it is the live run. */
		arguments->view.second = arguments->view.first;
		arguments->view.first = text;
		arguments->view.dry_run = true;
		if (arguments->named > 1)
			argp_error(state, "a dry run is compared with one live run");
		return 0;
	case KEY_TOLERANCE:
		if (!percent_parse(text, &arguments->view.percent))
			argp_error(state, "--tolerance is a number of percent, not %s", text);
		return 0;
	case ARGP_KEY_ARG:
		return side_take(arguments, text, state);
	case ARGP_KEY_END:
		if (!arguments->view.first || !arguments->view.second)
			argp_error(state, arguments->view.dry_run
						  ? "which live run? give its capture, or its folder"
						  : "two runs are compared: give their captures, folders or "
						    "memory CSV files");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static int json_print(const struct comparison *comparison, const struct comparison_view *view)
{
	struct json json;
	int error = json_begin(&json, stdout);

	if (error)
		return error;
	put_comparison(&json, comparison, view);
	return json_end(&json);
}

static int sides_compare(const struct arguments *arguments, const struct side *first, const struct side *second)
{
	struct comparison comparison;
	int error, status = first->status == STATUS_COMPLETE ? second->status : first->status;

	comparison_make(&comparison, first->usages, second->usages);
	error = arguments->json ? json_print(&comparison, &arguments->view)
	                        : comparison_write(stdout, &comparison, &arguments->view);
	if (status == STATUS_LOST)
		fprintf(stderr, "hdtrace: a trace is incomplete: what is said of it may be wrong\n");
	if (arguments->view.dry_run && !comparison_accepts(&comparison, arguments->view.percent))
		status = STATUS_REFUSED;
	comparison_clear(&comparison);
	/* main tells what went wrong with standard output. */
	return error && errno != EPIPE ? STATUS_FAILED : status;
}

int verb_diff(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", KEY_JSON, NULL, 0, "for programs", 0},
		{"dry-run", KEY_DRY_RUN, "CSV|FOLDER", 0, "judge this dry run by the live run that is named", 0},
		{"tolerance", KEY_TOLERANCE, "PERCENT", 0, "by so much a dry run may be off (5)", 0},
		{"device", KEY_DEVICE, "LIST", 0, "devices of captures: auto, all, or names as cuda:0,cpu", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.args_doc = "FIRST SECOND\n--dry-run CSV|FOLDER LIVE",
		.doc = "Compare two runs, each a capture, a folder or a rank_N_memory.csv: their peaks, what these are "
		       "made of, "
		       "and their steps.",
	};
	struct arguments arguments = {.view.percent = ACCEPTED_PERCENT};
	struct side first = {0}, second = {0};
	int status = STATUS_FAILED;

	argv[0] = "hdtrace diff";
	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &arguments))
		return STATUS_USAGE;
	signal(SIGPIPE, SIG_IGN);
	if (!side_read(arguments.view.first, &arguments.model, &first) &&
		!side_read(arguments.view.second, &arguments.model, &second))
		status = sides_compare(&arguments, &first, &second);
	side_clear(&first);
	side_clear(&second);
	return status;
}
