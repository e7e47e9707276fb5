/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts of a process: what it runs, for whom, its place in a job, and whether it still lives. */
#ifndef HDTRACE_TARGET_PROCESS_H
#define HDTRACE_TARGET_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_POD_BYTES 37 /* a UUID as text */

struct process {
	pid_t pid;
	int pidfd; /* readable when the process has ended */
	uid_t uid;
	char *command;     /* arguments joined by spaces, or the name of a process without arguments */
	char *executable;  /* path as the target sees it, NULL when unknown */
	char *environment; /* as it was at exec: NUL-separated, may be NULL */
	size_t environment_size;
	char pod[PROCESS_POD_BYTES]; /* uid of its Kubernetes pod, "": in none */
};

/*
 * Open a process. Returns 0, -ESRCH when there is none, -ENOTSUP for a thread
 * that is not its process's leader, else a negative errno.
 */
int process_open(pid_t pid, struct process *process);
void process_close(struct process *process);

/* Read command, executable and environment again: after an exec. */
int process_refresh(struct process *process);

/* The uid of a Kubernetes pod in the text of /proc/PID/cgroup; "": there is none. */
void process_pod_find(const char *cgroup, char pod[PROCESS_POD_BYTES]);

/* Value of an environment variable at exec time, NULL when unset. */
const char *process_environment(const struct process *process, const char *name);

/* An environment variable as a number from 0 on; returns false when unset or no such number. */
bool process_environment_number(const struct process *process, const char *name, long *value);

/* False for a kernel thread, and for a process that has ended. */
bool process_has_memory(const struct process *process);

bool process_is_alive(const struct process *process);

/*
 * When a process was started, in clock ticks since the machine was: with its pid, who it is. 0: there is none.
 * Source: proc(5), field 22 of stat.
 */
uint64_t process_start_ticks(pid_t pid);

/* Of its memory; 0: it is not known. Source: proc(5), the second number of statm. */
uint64_t process_resident_bytes(pid_t pid);

/* program.c: does the text of the Python program that it runs contain a word? False when it cannot be read. */
bool process_program_mentions(const struct process *process, const char *word);

#endif
