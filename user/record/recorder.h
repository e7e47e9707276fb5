/* SPDX-License-Identifier: BSD-2-Clause */
/* Recording running processes into a capture. */
#ifndef HDTRACE_RECORD_RECORDER_H
#define HDTRACE_RECORD_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <hdtrace/event.h>
#include <hdtrace/program.h>

#include "model/device.h"

#define RECORD_PIDS_MAX 128

/* Which operator hooks to use. Auto: the sparse set, and the plain one where inference mode is used. */
enum hooks_choice { HOOKS_AUTO, HOOKS_PLAIN, HOOKS_SPARSE };

struct record_options {
	const char *capture_path;
	pid_t pids[RECORD_PIDS_MAX]; /* in ascending order, each once */
	int pid_count;
	bool all_pids;   /* every process that has PyTorch */
	char **command;  /* argv of a command to start, NULL: attach to pids */
	double duration; /* seconds, 0: no limit */
	uint32_t steps;  /* completed optimizer steps, 0: no limit */
	enum tracing_level level;
	enum hooks_choice hooks;
	struct device_choice devices; /* whose memory is recorded, as far as leaving others out saves something */
	uint64_t ring_size;
	bool until_oom;  /* end when the allocator of a device finds no memory */
	uint64_t window; /* bytes that the capture may have, about; 0: no limit */
	bool statistics;
	bool quiet, verbose;
};

enum record_end {
	RECORD_END_EXIT,
	RECORD_END_DURATION,
	RECORD_END_STEPS,
	RECORD_END_SIGNAL,
	RECORD_END_CAPTURE,
	RECORD_END_OUT_OF_MEMORY,
};

struct record_result {
	enum record_end end;
	int signal;        /* that ended the trace, 0: none */
	pid_t command_pid; /* of a started command, 0: none */
	bool command_ended;
	int command_status;   /* as waitpid gives it, once it has ended */
	unsigned int targets; /* processes that were probed */
};

/*
 * Record until the first of: duration, steps, memory of a device that runs out,
 * SIGINT or SIGTERM, the end of all targets. Messages for people go to stderr. Returns 0, or a negative errno
 * after a message was printed: nothing was recorded then.
 */
int recorder_run(const struct record_options *options, struct record_result *result);

/* Wait for a started command that outlives its trace, passing SIGINT and SIGTERM on to it. */
void recorder_wait_command(struct record_result *result);

#endif
