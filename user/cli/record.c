// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace record` and `hdtrace run`: one set of options, one recording. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "base/folder.h"
#include "cli/cli.h"
#include "record/recorder.h"

#define WINDOW_DEFAULT (256ull << 20)
#define WINDOW_MIN (1ull << 20) /* a chunk of a capture takes some 100 KiB, names of operators as much */
#define FOLDER_DEFAULT "hdtrace-out"

enum option_key { KEY_STEPS = KEY_VERB, KEY_LEVEL, KEY_RING_SIZE, KEY_HOOKS, KEY_STATS, KEY_UNTIL_OOM, KEY_WINDOW };

struct arguments {
	struct record_options record;
	struct output_options output;
	const char *folder;
	bool run;
};

#define COMMON_OPTIONS                                                                                                 \
	{"output", 'o', "FOLDER", 0, "where everything goes (" FOLDER_DEFAULT ")", 0},                                 \
		{"duration", 'd', "SECONDS", 0, "stop after so long", 0},                                              \
		{"steps", KEY_STEPS, "N", 0, "stop after N completed optimizer steps", 0},                             \
		{"until-oom", KEY_UNTIL_OOM, NULL, 0, "stop when a device runs out of memory", 0},                     \
		{"window", KEY_WINDOW, "BYTES", 0,                                                                     \
			"with --until-oom: keep the capture below about so much, without what is older (256M)", 0},    \
		{"level", KEY_LEVEL, "LEVEL", 0,                                                                       \
			"full (default), or lite: operators and blocks without users, phases and Python stacks", 0},   \
		{"hooks", KEY_HOOKS, "SET", 0, "operator hooks: auto (default), plain or sparse", 0},                  \
		{"ring-size", KEY_RING_SIZE, "BYTES", 0, "buffer between kernel and hdtrace, a power of two (64M)",    \
			0},                                                                                            \
		{"device", KEY_DEVICE, "LIST", 0,                                                                      \
			"devices to report: auto (accelerators, else the CPU), all, or names as cuda:0,cpu", 0},       \
		{"all-blocks", KEY_ALL_BLOCKS, NULL, 0, "report also what a dry run cannot see", 0},                   \
		{"pool-name", KEY_POOL_NAME, "NAME", 0, "pool_type of the report", 0},                                 \
		{"format", KEY_FORMAT, "LIST", 0, "what to write", 0},                                                 \
		{"csv-layout", KEY_CSV_LAYOUT, "NAME", 0, "columns of the CSV: dryrun (default), or mindspore", 0},    \
		{"stats", KEY_STATS, NULL, 0, "print what the tracing cost", 0},                                       \
		{"quiet", 'q', NULL, 0, "print errors only", 0},                                                       \
	{                                                                                                              \
		"verbose", 'v', NULL, 0, "print what is probed", 0                                                     \
	}

static const struct argp_option options_record[] = {
	{"pid", 'p', "PID[,PID...]", 0,
		"the processes to trace, with all that they started; all: every one that has PyTorch", 0},
	COMMON_OPTIONS,
	{0},
};

static const struct argp_option options_run[] = {
	COMMON_OPTIONS,
	{0},
};

static error_t hooks_parse(const char *text, struct record_options *options, struct argp_state *state)
{
	if (!strcmp(text, "plain"))
		options->hooks = HOOKS_PLAIN;
	else if (!strcmp(text, "sparse"))
		options->hooks = HOOKS_SPARSE;
	else if (strcmp(text, "auto"))
		argp_error(state, "--hooks is auto, plain or sparse, not %s", text);
	return 0;
}

static error_t window_parse(const char *text, struct record_options *options, struct argp_state *state)
{
	if (!size_parse(text, &options->window) || options->window < WINDOW_MIN)
		argp_error(state, "--window is a size from 1M on, not %s", text);
	return 0;
}

/* Options that rest on others, when all are known. */
static void options_check(struct arguments *arguments, struct argp_state *state)
{
	struct record_options *options = &arguments->record;

	if (arguments->run && !options->command)
		argp_error(state, "which command? hdtrace run [options] -- COMMAND ...");
	if (!arguments->run && !options->pid_count && !options->all_pids)
		argp_error(state, "which process? -p PID");
	if (options->steps && options->level == LEVEL_LITE)
		argp_error(state, "--steps does not work with --level lite: steps are known from Python stacks");
	if (options->window && !options->until_oom)
		argp_error(state, "--window goes with --until-oom: other traces keep everything");
	if (options->until_oom && !options->window)
		options->window = WINDOW_DEFAULT;
}

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;
	double number;

	switch (key) {
	case 'o':
		arguments->folder = text;
		return 0;
	case 'd':
		if (!number_parse(text, &arguments->record.duration))
			argp_error(state, "-d takes seconds, not %s", text);
		return 0;
	case KEY_STEPS:
		if (!number_parse(text, &number) || number > UINT32_MAX || number != (uint32_t)number)
			argp_error(state, "--steps takes a number of steps, not %s", text);
		arguments->record.steps = (uint32_t)number;
		return 0;
	case KEY_LEVEL:
		return level_parse(text, &arguments->record, state);
	case KEY_HOOKS:
		return hooks_parse(text, &arguments->record, state);
	case KEY_RING_SIZE:
		return ring_size_parse(text, &arguments->record, state);
	case KEY_UNTIL_OOM:
		arguments->record.until_oom = true;
		return 0;
	case KEY_WINDOW:
		return window_parse(text, &arguments->record, state);
	case KEY_STATS:
		arguments->record.statistics = true;
		return 0;
	case 'q':
		arguments->record.quiet = true;
		break; /* the reports are quiet too */
	case 'v':
		arguments->record.verbose = true;
		return 0;
	case 'p':
		return pids_parse(text, &arguments->record, state);
	case ARGP_KEY_ARG:
		if (!arguments->run)
			argp_error(state, "unexpected argument %s", text);
		arguments->record.command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		pids_sort(&arguments->record);
		options_check(arguments, state);
		return 0;
	}
	return output_option_parse(key, text, &arguments->output, state);
}

static int command_status(struct record_result *result, int status)
{
	recorder_wait_command(result);
	if (status == STATUS_FAILED)
		return STATUS_FAILED;
	if (WIFSIGNALED(result->command_status))
		return 128 + WTERMSIG(result->command_status);
	return WEXITSTATUS(result->command_status);
}

static int recording_do(struct arguments *arguments)
{
	struct record_result result = {0};
	char *capture = NULL;
	size_t made = 0;
	int error = folder_make(arguments->folder, &made), status = STATUS_FAILED;

	if (!error && access(arguments->folder, W_OK | X_OK)) {
		error = -errno;
		folder_unmake(arguments->folder, made);
	}
	if (error) {
		fprintf(stderr, "hdtrace: cannot write to the folder %s: %s; choose another one with -o\n",
			arguments->folder, strerror(-error));
		return STATUS_FAILED;
	}
	capture = path_join(arguments->folder, CAPTURE_NAME);
	if (!capture)
		return STATUS_FAILED;
	arguments->record.capture_path = capture;
	arguments->record.devices = arguments->output.devices;
	error = recorder_run(&arguments->record, &result);
	if (!error && !result.targets) {
		/* A command without PyTorch has run all the same. */
		status = arguments->run && result.end != RECORD_END_CAPTURE ? STATUS_COMPLETE : STATUS_FAILED;
		if (result.end != RECORD_END_CAPTURE && (!arguments->run || !arguments->output.quiet))
			fprintf(stderr,
				"hdtrace: nothing was traced: no process loaded PyTorch while hdtrace watched%s\n",
				arguments->run ? "" : "; `hdtrace doctor -p PID` tells what it sees");
	} else if (!error) {
		status = outputs_write((const char *const[]){capture}, 1, arguments->folder, &arguments->output);
	}
	if (!result.targets)
		folder_unmake(arguments->folder, made);
	if (result.command_pid)
		status = command_status(&result, status);
	free(capture);
	return status;
}

static int verb_do(int argc, char **argv, const struct argp *argp, bool run)
{
	struct arguments arguments = {
		.record.ring_size = RING_SIZE_DEFAULT,
		.output.formats = REPORT_DEFAULT,
		.output.summary_to_stderr = run, /* stdout is the command's */
		.folder = FOLDER_DEFAULT,
		.run = run,
	};

	argv[0] = run ? "hdtrace run" : "hdtrace record"; /* what argp calls the program */
	argp_err_exit_status = STATUS_USAGE;
	/* In order: options behind the command are the command's. */
	if (argp_parse(argp, argc, argv, ARGP_IN_ORDER, NULL, &arguments))
		return STATUS_USAGE;
	return recording_do(&arguments);
}

int verb_record(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options_record,
		.parser = option_parse,
		.doc = "Trace running processes and report their memory.",
		.help_filter = output_help_filter,
	};

	return verb_do(argc, argv, &argp, false);
}

int verb_run(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options_run,
		.parser = option_parse,
		.args_doc = "-- COMMAND [ARGUMENT...]",
		.doc = "Start a command and trace it from its first instruction.",
		.help_filter = output_help_filter,
	};

	return verb_do(argc, argv, &argp, true);
}
