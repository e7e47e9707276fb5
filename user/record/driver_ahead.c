// SPDX-License-Identifier: BSD-2-Clause
/*
 * The driver of a PyTorch that has not loaded it yet. That happens with the first
 * memory of a device, which expandable segments map some microseconds later: before
 * anybody could see that the driver is there. A probe belongs to a file, mapped or not, so those
 * of the driver are set when PyTorch's are, in the file that the loader would find
 * (ld.so(8): LD_LIBRARY_PATH, then the folders of the system). Should another one be mapped, it is
 * probed like any other library.
 */
#include "record/session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PROC_PATH_MAX 48

/* Where distributions, NVIDIA's containers, its package for newer runtimes, and WSL have it. */
static const char system_folders[] =
	"/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:/lib64:/lib:"
	"/usr/local/nvidia/lib64:/usr/local/nvidia/lib:/usr/local/cuda/compat:/usr/lib/wsl/lib";

/* A regular file as a process whose root is open sees it, links included; a negative errno. */
static int file_open_in(int root, const char *folder, struct stat *status)
{
	/* What is no file must not be waited for. */
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK, .resolve = RESOLVE_IN_ROOT};
	char *path;
	int fd;

	if (asprintf(&path, "%s/" DRIVER_NAME, folder) < 0)
		return -ENOMEM;
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	free(path);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, status) && S_ISREG(status->st_mode))
		return fd;
	close(fd);
	return -ENOENT;
}

/* The first in a list of folders; a negative errno when it is in none. */
static int driver_open_in(int root, const char *folders, struct stat *status)
{
	char *list = strdup(folders), *rest = list, *folder;
	int fd = -ENOENT;

	while (list && fd < 0 && (folder = strsep(&rest, ":")))
		if (*folder == '/')
			fd = file_open_in(root, folder, status);
	free(list);
	return fd;
}

static int driver_open(const struct target *target, struct stat *status)
{
	const char *own = process_environment(&target->process, "LD_LIBRARY_PATH");
	char path[PROC_PATH_MAX];
	int root, fd = -ENOENT;

	snprintf(path, sizeof(path), "/proc/%d/root", target->process.pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	if (own)
		fd = driver_open_in(root, own, status);
	if (fd < 0)
		fd = driver_open_in(root, system_folders, status);
	close(root);
	return fd;
}

int driver_probe_ahead(struct session *session, struct target *target)
{
	struct mapped_file file = {0};
	char path[PROC_PATH_MAX];
	struct stat status = {0};
	int fd, error;

	if (!target->torch_ready || !target->libraries[LIBRARY_C10_CUDA] || target->libraries[LIBRARY_CUDA] ||
		target->driver_inode)
		return 0;
	fd = driver_open(target, &status);
	if (fd < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	file.device = status.st_dev;
	file.inode = status.st_ino;
	file.path = path;
	error = library_probe_unmapped(session, target, &file, LIBRARY_CUDA);
	if (!error)
		target->driver_inode = file.inode;
	close(fd);
	return error;
}
