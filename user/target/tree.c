// SPDX-License-Identifier: BSD-2-Clause
/* From /proc/PID/stat and /proc/PID/status (proc(5)). */
#include "target/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"

#define PROC_PATH_MAX 64
#define LINE_MAX_BYTES 1024

/* The name in stat may hold anything, brackets too: what counts is behind the last one. */
static pid_t parent_read(pid_t pid)
{
	char path[PROC_PATH_MAX], line[LINE_MAX_BYTES];
	const char *behind;
	size_t size;
	FILE *file;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	size = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[size] = '\0';
	behind = strrchr(line, ')');
	return behind && sscanf(behind, ") %*c %d", &parent) == 1 ? parent : -1;
}

static int entry_compare(const void *left, const void *right)
{
	pid_t a = ((const struct process_entry *)left)->pid, b = ((const struct process_entry *)right)->pid;

	return (a > b) - (a < b);
}

int processes_read(struct process_entry **entries)
{
	DIR *folder = opendir("/proc");
	const struct dirent *name;

	*entries = NULL;
	if (!folder)
		return -errno;
	while ((name = readdir(folder))) {
		struct process_entry entry;

		if (!isdigit((unsigned char)name->d_name[0]))
			continue;
		entry.pid = (pid_t)strtol(name->d_name, NULL, 10);
		entry.parent = parent_read(entry.pid);
		if (entry.parent >= 0)
			arrput(*entries, entry);
	}
	closedir(folder);
	if (*entries)
		qsort(*entries, arrlenu(*entries), sizeof(**entries), entry_compare);
	return 0;
}

pid_t process_namespace_pid(pid_t pid)
{
	static const char key[] = "NSpid:";
	char path[PROC_PATH_MAX], line[LINE_MAX_BYTES];
	pid_t inner = pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		if (strncmp(line, key, strlen(key)) || !last)
			continue;
		inner = (pid_t)strtol(last, NULL, 10);
		break;
	}
	if (file)
		fclose(file);
	return inner;
}
