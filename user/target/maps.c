// SPDX-License-Identifier: BSD-2-Clause
/* /proc/PID/maps (proc(5)): one line a mapping, "start-end perms offset major:minor inode path". */
#include "target/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "containers/containers.h"

/* A process with more text than this in its maps is not read: 64 Ki mappings are the kernel's usual limit. */
#define REOPEN_TURNS 3
#define MAPS_TEXT_MAX (32u << 20)
#define MAPS_READ_STEP (256u << 10)
#define FIELDS_BYTES_MAX 128 /* what stands before the path, with the longest numbers and the blanks that pad it */
#define PROC_PATH_MAX 96     /* "/proc/<pid>/map_files/<start>-<end>" with the longest numbers */

static int file_known(const struct mapped_file *files, uint64_t device, uint64_t inode)
{
	for (ptrdiff_t index = arrlen(files) - 1; index >= 0; index--)
		if (files[index].device == device && files[index].inode == inode)
			return 1;
	return 0;
}

/*
 * The fields are copied out first: what stands behind the line is not theirs, and
 * sscanf would measure the whole text again for each line.
 */
static int line_parse(const char *line, size_t length, struct mapped_file *file)
{
	char fields[FIELDS_BYTES_MAX], permissions[5] = "";
	unsigned int major_number, minor_number;
	size_t fields_length = length < sizeof(fields) ? length : sizeof(fields) - 1, path_at;
	int end = 0;

	memcpy(fields, line, fields_length);
	fields[fields_length] = '\0';
	if (sscanf(fields, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 "%n", &file->start, &file->end,
		    permissions, &file->offset, &major_number, &minor_number, &file->inode, &end) != 7)
		return -EINVAL;
	if (permissions[2] != 'x' || !file->inode || file->end <= file->start)
		return -EINVAL;
	for (path_at = (size_t)end; path_at < length && line[path_at] == ' ';)
		path_at++;
	file->device = makedev(major_number, minor_number);
	file->path = strndup(line + path_at, length - path_at);
	return file->path ? 0 : -ENOMEM;
}

int maps_parse(const char *text, struct mapped_file **files)
{
	*files = NULL;
	while (*text) {
		size_t length = strcspn(text, "\n");
		struct mapped_file file = {0};
		int error = line_parse(text, length, &file);

		if (error == -ENOMEM) {
			maps_free(*files);
			*files = NULL;
			return error;
		}
		if (!error && !file_known(*files, file.device, file.inode))
			arrput(*files, file);
		else
			free(file.path);
		text += length + (text[length] == '\n');
	}
	return 0;
}

int maps_read(pid_t pid, struct mapped_file **files)
{
	char path[PROC_PATH_MAX], *text = NULL;
	size_t size = 0, used = 0;
	int error = 0, fd;

	*files = NULL;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t count;

		if (size - used < 2) {
			char *larger = size < MAPS_TEXT_MAX ? realloc(text, size + MAPS_READ_STEP) : NULL;

			if (!larger) {
				error = -ENOMEM;
				goto cleanup;
			}
			text = larger;
			size += MAPS_READ_STEP;
		}
		count = read(fd, text + used, size - used - 1);
		if (count < 0) {
			error = -errno;
			goto cleanup;
		}
		if (!count)
			break;
		used += (size_t)count;
	}
	text[used] = '\0';
	error = maps_parse(text, files);
cleanup:
	free(text);
	close(fd);
	return error;
}

void maps_free(struct mapped_file *files)
{
	for (ptrdiff_t index = 0; index < arrlen(files); index++)
		free(files[index].path);
	arrfree(files);
}

static int map_file_open(pid_t pid, uint64_t start, uint64_t end)
{
	char path[PROC_PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, start, end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Where the same inode is mapped by now. */
static int moved_file_open(pid_t pid, const struct mapped_file *file)
{
	struct mapped_file *files;
	int error = maps_read(pid, &files), fd = -ENOENT;

	if (error)
		return error;
	for (ptrdiff_t index = 0; fd == -ENOENT && index < arrlen(files); index++)
		if (files[index].device == file->device && files[index].inode == file->inode)
			fd = map_file_open(pid, files[index].start, files[index].end);
	maps_free(files);
	return fd;
}

int mapped_file_open(pid_t pid, const struct mapped_file *file)
{
	int fd;

	if (!file->end) {
		fd = open(file->path, O_RDONLY | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	fd = map_file_open(pid, file->start, file->end);
	/* The loader maps a library in one piece at first, and its data over the end of that. */
	for (int turn = 0; fd == -ENOENT && turn < REOPEN_TURNS; turn++)
		fd = moved_file_open(pid, file);
	return fd;
}
