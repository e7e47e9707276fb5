/* SPDX-License-Identifier: BSD-2-Clause */
/* A command that hdtrace starts, to be traced from its first instruction. */
#ifndef HDTRACE_RECORD_COMMAND_H
#define HDTRACE_RECORD_COMMAND_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "record/recorder.h"

/* What the recorder changed for itself and the command is to have as it was. */
struct command_setting {
	sigset_t mask;
	sighandler_t pipe_handler; /* of SIGPIPE */
	struct rlimit files;
	int nice;
};

/*
 * Make the process of a command, which waits before its exec until a byte is
 * written to *gate; closing the gate ends it instead. 0 or a negative errno.
 */
int command_start(char **command, const struct command_setting *setting, pid_t *pid, int *gate);

/* Take the status of a command that has ended, without waiting. */
void command_reap(struct record_result *result);

#endif
