// SPDX-License-Identifier: BSD-2-Clause
/* Facts of a process from /proc (proc(5)); its life by pidfd_open(2). */
#include "target/process.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Limit on arguments and environment: what the kernel itself allows by default is 2 MiB. */
#define PROC_TEXT_MAX (4u << 20)
#define PROC_PATH_MAX 64

static int proc_read(pid_t pid, const char *name, char **text, size_t *size)
{
	char path[PROC_PATH_MAX];
	FILE *file;
	int error = 0;

	*text = NULL;
	*size = 0;
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	for (size_t room = 4096; room <= PROC_TEXT_MAX; room *= 2) {
		char *larger = realloc(*text, room + 1);

		if (!larger) {
			error = -ENOMEM;
			break;
		}
		*text = larger;
		*size += fread(*text + *size, 1, room - *size, file);
		if (*size < room)
			break;
	}
	if (*text)
		(*text)[*size] = '\0';
	fclose(file);
	return error;
}

static char *command_read(pid_t pid)
{
	char *text;
	size_t size;

	if (proc_read(pid, "cmdline", &text, &size) || !size) {
		free(text);
		if (proc_read(pid, "comm", &text, &size)) {
			free(text);
			return NULL;
		}
		if (text)
			text[strcspn(text, "\n")] = '\0';
		return text;
	}
	for (size_t index = 0; index + 1 < size; index++)
		if (!text[index])
			text[index] = ' ';
	return text;
}

/* Does a UUID begin here? systemd's names have _ in place of -. */
static bool uuid_take(const char *text, char uuid[PROCESS_POD_BYTES])
{
	for (size_t index = 0; index < PROCESS_POD_BYTES - 1; index++) {
		bool dash = index == 8 || index == 13 || index == 18 || index == 23;

		if (dash ? text[index] != '-' && text[index] != '_' : !isxdigit((unsigned char)text[index]))
			return false;
		uuid[index] = dash ? '-' : text[index];
	}
	uuid[PROCESS_POD_BYTES - 1] = '\0';
	return true;
}

/* The kubelet names groups "…/pod<uid>/…" or "…-pod<uid>.slice/…" (Kubernetes, cgroup drivers). */
void process_pod_find(const char *cgroup, char pod[PROCESS_POD_BYTES])
{
	static const char before[] = "pod";

	for (const char *at = strstr(cgroup, before); at; at = strstr(at + 1, before))
		if (at > cgroup && (at[-1] == '/' || at[-1] == '-') && uuid_take(at + strlen(before), pod))
			return;
	pod[0] = '\0';
}

static void pod_read(struct process *process)
{
	char *text;
	size_t size;

	process->pod[0] = '\0';
	if (!proc_read(process->pid, "cgroup", &text, &size) && text)
		process_pod_find(text, process->pod);
	free(text);
}

int process_refresh(struct process *process)
{
	char path[PROC_PATH_MAX], target[PATH_MAX];
	ssize_t length;

	free(process->command);
	free(process->executable);
	free(process->environment);
	process->executable = process->environment = NULL;
	process->environment_size = 0;
	process->command = command_read(process->pid);
	if (!process->command)
		return -ESRCH;
	if (proc_read(process->pid, "environ", &process->environment, &process->environment_size)) {
		free(process->environment);
		process->environment = NULL;
	}
	pod_read(process);
	snprintf(path, sizeof(path), "/proc/%d/exe", process->pid);
	length = readlink(path, target, sizeof(target) - 1);
	if (length > 0)
		process->executable = strndup(target, (size_t)length);
	return 0;
}

int process_open(pid_t pid, struct process *process)
{
	char path[PROC_PATH_MAX];
	struct stat status;
	int error;

	memset(process, 0, sizeof(*process));
	process->pid = pid;
	process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (process->pidfd < 0) {
		/* The kernel knows the number, but as a thread inside a process: EINVAL, since 6.9 ENOENT. */
		return errno == EINVAL || errno == ENOENT ? -ENOTSUP : -errno;
	}
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &status)) {
		error = -errno;
		goto cleanup;
	}
	process->uid = status.st_uid;
	error = process_refresh(process);
	if (!error && !process_is_alive(process))
		error = -ESRCH;
cleanup:
	if (error)
		process_close(process);
	return error;
}

void process_close(struct process *process)
{
	if (process->pidfd >= 0)
		close(process->pidfd);
	process->pidfd = -1;
	free(process->command);
	free(process->executable);
	free(process->environment);
	process->command = process->executable = process->environment = NULL;
}

const char *process_environment(const struct process *process, const char *name)
{
	size_t length = strlen(name);
	const char *entry = process->environment, *end = entry + process->environment_size;

	while (entry && entry < end) {
		if (!strncmp(entry, name, length) && entry[length] == '=')
			return entry + length + 1;
		entry += strlen(entry) + 1;
	}
	return NULL;
}

bool process_environment_number(const struct process *process, const char *name, long *value)
{
	const char *text = process_environment(process, name);
	char *end;

	if (!text || !*text)
		return false;
	errno = 0;
	*value = strtol(text, &end, 10);
	return !errno && !*end && *value >= 0;
}

bool process_has_memory(const struct process *process)
{
	char path[PROC_PATH_MAX], target[PATH_MAX];

	/* A kernel thread has the link, but it leads nowhere; so does that of a zombie. */
	snprintf(path, sizeof(path), "/proc/%d/exe", process->pid);
	return readlink(path, target, sizeof(target)) >= 0 || errno != ENOENT;
}

bool process_is_alive(const struct process *process)
{
	struct pollfd descriptor = {.fd = process->pidfd, .events = POLLIN};

	return poll(&descriptor, 1, 0) == 0;
}

uint64_t process_start_ticks(pid_t pid)
{
	unsigned long long ticks = 0;
	const char *at;
	char *text;
	size_t size;

	if (proc_read(pid, "stat", &text, &size))
		return 0;
	/* The name, in parentheses, may have anything in it; behind the last one is field 3. */
	at = text ? strrchr(text, ')') : NULL;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at, NULL, 10);
	free(text);
	return ticks;
}

uint64_t process_resident_bytes(pid_t pid)
{
	unsigned long long total, pages = 0;
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &total, &pages) != 2)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
