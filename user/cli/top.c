// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace top`: a live view of what running processes hold. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "cli/cli.h"
#include "top/top.h"

/* At lite a job sends a few MB in a second, which are read 50 times; the buffer is most of the memory that top takes.
 */
#define RING_SIZE_LITE (8ull << 20)
#define INTERVAL_DEFAULT 1.0
#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 3600.0

enum option_key {
	KEY_ONCE = KEY_VERB,
	KEY_JSON,
	KEY_INTERVAL,
	KEY_TOP_LEVEL,
	KEY_TOP_RING_SIZE,
	KEY_DEVICE_MEMORY,
	KEY_TOP_STATS
};

struct arguments {
	struct record_options record;
	struct top_options top;
};

static error_t interval_parse(const char *text, struct top_options *options, struct argp_state *state)
{
	if (!number_parse(text, &options->interval) || options->interval < INTERVAL_MIN ||
		options->interval > INTERVAL_MAX)
		argp_error(
			state, "--interval takes seconds from %.1f to %.0f, not %s", INTERVAL_MIN, INTERVAL_MAX, text);
	return 0;
}

static error_t arguments_check(struct arguments *arguments, struct argp_state *state)
{
	pids_sort(&arguments->record);
	if (!arguments->record.ring_size)
		arguments->record.ring_size =
			arguments->record.level == LEVEL_LITE ? RING_SIZE_LITE : RING_SIZE_DEFAULT;
	if (!arguments->record.pid_count && !arguments->record.all_pids)
		argp_error(state, "which process? -p PID, of a launcher for all its ranks, or -p all");
	if (arguments->top.once && !arguments->top.json)
		argp_error(state, "--once goes with --json: a screen that is shown once is gone at once");
	return 0;
}

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case 'p':
		return pids_parse(text, &arguments->record, state);
	case KEY_ONCE:
		arguments->top.once = true;
		return 0;
	case KEY_JSON:
		arguments->top.json = true;
		return 0;
	case KEY_INTERVAL:
		return interval_parse(text, &arguments->top, state);
	case KEY_TOP_LEVEL:
		return level_parse(text, &arguments->record, state);
	case KEY_TOP_RING_SIZE:
		return ring_size_parse(text, &arguments->record, state);
	case KEY_DEVICE_MEMORY:
		if (!size_parse(text, &arguments->top.device_bytes) || !arguments->top.device_bytes)
			argp_error(state, "--device-memory is a size as 80G, not %s", text);
		return 0;
	case KEY_TOP_STATS:
		arguments->record.statistics = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument %s", text);
		return 0;
	case ARGP_KEY_END:
		return arguments_check(arguments, state);
	}
	return ARGP_ERR_UNKNOWN;
}

int verb_top(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"pid", 'p', "PID[,PID...]", 0,
			"the processes to watch, with all that they started; all: every one that has PyTorch, also "
			"later",
			0},
		{"once", KEY_ONCE, NULL, 0, "with --json: one look, after an interval, then the end", 0},
		{"json", KEY_JSON, NULL, 0, "an object of JSON for each look, instead of the screen", 0},
		{"interval", KEY_INTERVAL, "SECONDS", 0, "between two looks (1)", 0},
		{"level", KEY_TOP_LEVEL, "LEVEL", 0,
			"lite (default), or full: also lines, activations and phases of blocks; costs the target more",
			0},
		{"device-memory", KEY_DEVICE_MEMORY, "BYTES", 0,
			"how much a device has, where its driver does not tell, for the headroom", 0},
		{"ring-size", KEY_TOP_RING_SIZE, "BYTES", 0,
			"buffer between kernel and hdtrace, a power of two (8M, with --level full 64M)", 0},
		{"stats", KEY_TOP_STATS, NULL, 0, "count hits of probes, which costs a little", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.doc = "Watch what running processes hold. Nothing is written; keys: h shows them.",
	};
	struct arguments arguments = {
		.record = {.level = LEVEL_LITE, .quiet = true, .owners = true, .steps_told = true},
		.top.interval = INTERVAL_DEFAULT,
	};
	bool found = false;

	argv[0] = "hdtrace top";
	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &arguments))
		return STATUS_USAGE;
	arguments.record.stay = arguments.record.all_pids && !arguments.top.once;
	/* At that level operators tell it nothing, and their hooks cost most. */
	arguments.record.blocks_only = arguments.record.level == LEVEL_LITE;
	if (top_run(&arguments.top, &arguments.record, &found))
		return STATUS_FAILED;
	if (!found && !arguments.record.stay) {
		fprintf(stderr, "hdtrace: nothing was seen: no process loaded PyTorch; `hdtrace doctor -p PID` tells "
				"what it sees\n");
		return STATUS_FAILED;
	}
	return STATUS_COMPLETE;
}
