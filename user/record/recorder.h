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
#include "model/model.h"

#define RECORD_PIDS_MAX 128

/* Which operator hooks to use. Auto: the sparse set, and the plain one where inference mode is used. */
enum hooks_choice { HOOKS_AUTO, HOOKS_PLAIN, HOOKS_SPARSE };

/* A recording that goes on, for a sink. */
struct recording;

/*
 * Somebody who follows a recording while it goes on, beside the capture or in its place. Functions that are NULL are
 * not called. All are called from recorder_run, none while another one runs.
 */
struct record_sink {
	void *context;
	/* Each record as a capture has it, in order, checked (stream/record.h); valid during the call only. */
	void (*take)(void *context, const struct event *record);
	/* Whenever the ring was read: at least every 20 ms, after the probes of what is there were set. True: the end.
	 */
	bool (*tick)(void *context, struct recording *recording);
	/* Signals that are handled as well, ended by 0; NULL: none. True: the end. */
	const int *signals;
	bool (*signalled)(void *context, int number);
	/* What would go to stderr, without the program's name and a line feed; NULL: it goes there. */
	void (*tell)(void *context, const char *message);
};

struct recording_cost {
	uint64_t read_ns;        /* CLOCK_MONOTONIC: what happened until then has been taken */
	uint64_t records, bytes; /* from the ring */
	uint64_t processor_ns;   /* of this process, user and system */
	uint64_t memory_bytes;   /* resident now */
	uint64_t refused;        /* processes for which there was no place */
	uint64_t probe_hits;     /* UINT64_MAX: only counted with record_options.statistics */
};
void recording_cost(const struct recording *recording, struct recording_cost *cost);
/*
 * Where the main thread of a target stands, innermost frame first: an stb_ds array, to be given to
 * recording_stand_free. Read from outside: it runs on meanwhile. NULL: that cannot be read.
 */
struct frame *recording_stand(struct recording *recording, uint16_t target);
void recording_stand_free(struct frame *frames);

/*
 * Follow the blocks of a target's host, or leave them for a while: 0, or a negative errno, and nothing has changed.
 * Left, some may still come for a moment. When they are followed again, what Python holds is read anew.
 */
int recording_follow_host(struct recording *recording, uint16_t target, bool follow);
/*
 * When those objects of Python began to be read of which the sink has all owners (CLOCK_MONOTONIC, ns); 0: none were,
 * or not all could be.
 */
uint64_t recording_owners_ns(const struct recording *recording, uint16_t target);

struct record_options {
	const char *capture_path;       /* NULL: no capture is written */
	const struct record_sink *sink; /* NULL: nobody */
	/*
	 * At LEVEL_LITE too: what Python holds storages by, read from outside, and the steps of optimizers. A capture
	 * of that level has the former and not the latter.
	 */
	bool owners, steps_told;
	bool blocks_only;            /* no hooks of operators, which cost most: whoever made a block is not known */
	bool stay;                   /* with all_pids: also who comes later, and for ever, whoever ends */
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
	RECORD_END_SINK,
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
