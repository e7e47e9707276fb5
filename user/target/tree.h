/* SPDX-License-Identifier: BSD-2-Clause */
/* All processes of the machine, and who started whom. */
#ifndef HDTRACE_TARGET_TREE_H
#define HDTRACE_TARGET_TREE_H

#include <sys/types.h>

struct process_entry {
	pid_t pid, parent;
};

/*
 * Every process that is there now, by pid; stb_ds, free it by arrfree. Returns 0
 * or a negative errno.
 */
int processes_read(struct process_entry **entries);

/* The number that a process has in its own pid namespace; its pid where that is the initial one. */
pid_t process_namespace_pid(pid_t pid);

#endif
