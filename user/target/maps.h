/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that a process has mapped as code. They are opened through
 * /proc/PID/map_files, so that it is the mapped inode that is read, whatever
 * mount namespace, chroot or replaced path the target lives with.
 */
#ifndef HDTRACE_TARGET_MAPS_H
#define HDTRACE_TARGET_MAPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One file of which at least one segment is executable. */
struct mapped_file {
	uint64_t device; /* as makedev() */
	uint64_t inode;
	uint64_t start, end; /* addresses of its first executable segment */
	uint64_t offset;     /* of that segment in the file */
	char *path;          /* as the target sees it, for messages only */
};

/*
 * Parse the text of /proc/PID/maps (NUL-terminated). Lines that are no file
 * mappings or not well-formed are passed over. The array is stb_ds; free it by
 * maps_free. Returns 0 or -ENOMEM.
 */
int maps_parse(const char *text, struct mapped_file **files);

/* Read and parse the maps of a process. Returns 0 or a negative errno. */
int maps_read(pid_t pid, struct mapped_file **files);

void maps_free(struct mapped_file *files);

/*
 * Open the mapped inode itself, also where its mapping has changed since; one that is not mapped yet (end 0) by its
 * path. Returns a file descriptor or a negative errno.
 */
int mapped_file_open(pid_t pid, const struct mapped_file *file);

#endif
