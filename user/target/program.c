// SPDX-License-Identifier: BSD-2-Clause
/*
 * The text of the program that an interpreter runs. Its path comes from the
 * target's arguments and is resolved below the target's own root only.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/process.h"

#define PROGRAM_ENDING ".py"
#define PROGRAM_BYTES_MAX (4u << 20)
#define ARGUMENTS_BYTES_MAX (64u << 10)
#define PROC_PATH_MAX 64

/* Opens below the root of the process, whatever links the path goes through. */
static int open_in_root(pid_t pid, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	char root_path[PROC_PATH_MAX];
	int root, fd;

	snprintf(root_path, sizeof(root_path), "/proc/%d/root", pid);
	root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(root);
	return fd;
}

/* A relative path counts from the working directory, which is itself named from the target's root. */
static int program_open(pid_t pid, const char *argument)
{
	char link[PROC_PATH_MAX], directory[4096], *path;
	ssize_t length;
	int fd;

	if (*argument == '/')
		return open_in_root(pid, argument);
	snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
	length = readlink(link, directory, sizeof(directory) - 1);
	if (length <= 0)
		return -ENOENT;
	directory[length] = '\0';
	if (asprintf(&path, "%s/%s", directory, argument) < 0)
		return -ENOMEM;
	fd = open_in_root(pid, path);
	free(path);
	return fd;
}

static bool file_mentions(int fd, const char *word)
{
	struct stat status;
	bool found = false;
	ssize_t size;
	char *text;

	if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size > PROGRAM_BYTES_MAX)
		return false;
	text = malloc((size_t)status.st_size + 1);
	if (!text)
		return false;
	size = read(fd, text, (size_t)status.st_size);
	if (size > 0)
		found = memmem(text, (size_t)size, word, strlen(word)) != NULL;
	free(text);
	return found;
}

bool process_program_mentions(const struct process *process, const char *word)
{
	char path[PROC_PATH_MAX], arguments[ARGUMENTS_BYTES_MAX];
	size_t size;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", process->pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	size = fread(arguments, 1, sizeof(arguments) - 1, file);
	fclose(file);
	arguments[size] = '\0';
	for (const char *argument = arguments; argument < arguments + size; argument += strlen(argument) + 1) {
		size_t length = strlen(argument);
		bool found;
		int fd;

		if (length < sizeof(PROGRAM_ENDING) ||
			strcmp(argument + length - strlen(PROGRAM_ENDING), PROGRAM_ENDING))
			continue;
		fd = program_open(process->pid, argument);
		if (fd < 0)
			return false;
		found = file_mentions(fd, word);
		close(fd);
		return found;
	}
	return false;
}
