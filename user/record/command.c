// SPDX-License-Identifier: BSD-2-Clause
/* Starting a command behind a gate, and waiting for its end as its parent should. */
#include "record/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* As shells have it. */
#define STATUS_NOT_FOUND 127
#define STATUS_NOT_EXECUTABLE 126

static void command_exec(char **command, const struct command_setting *setting, int gate)
{
	char byte;

	setpriority(PRIO_PROCESS, 0, setting->nice);
	setrlimit(RLIMIT_NOFILE, &setting->files);
	sigprocmask(SIG_SETMASK, &setting->mask, NULL);
	signal(SIGPIPE, setting->pipe_handler);
	if (read(gate, &byte, 1) != 1)
		_exit(STATUS_NOT_FOUND); /* hdtrace failed or died before it could trace */
	close(gate);
	execvp(command[0], command);
	fprintf(stderr, "hdtrace: cannot run %s: %s\n", command[0], strerror(errno));
	_exit(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE);
}

int command_start(char **command, const struct command_setting *setting, pid_t *pid, int *gate)
{
	int ends[2], error;

	if (pipe(ends))
		return -errno;
	*pid = fork();
	if (*pid < 0) {
		error = -errno;
		*pid = 0;
		close(ends[0]);
		close(ends[1]);
		return error;
	}
	if (!*pid) {
		close(ends[1]);
		command_exec(command, setting, ends[0]);
	}
	close(ends[0]);
	*gate = ends[1];
	return 0;
}

void command_reap(struct record_result *result)
{
	if (result->command_pid && !result->command_ended &&
		waitpid(result->command_pid, &result->command_status, WNOHANG) == result->command_pid)
		result->command_ended = true;
}

void recorder_wait_command(struct record_result *result)
{
	sigset_t awaited;
	siginfo_t info;

	sigemptyset(&awaited);
	sigaddset(&awaited, SIGINT);
	sigaddset(&awaited, SIGTERM);
	sigaddset(&awaited, SIGCHLD);
	sigprocmask(SIG_BLOCK, &awaited, NULL);
	for (command_reap(result); result->command_pid && !result->command_ended; command_reap(result))
		if (sigwaitinfo(&awaited, &info) == SIGTERM)
			kill(result->command_pid, SIGTERM);
}
