// SPDX-License-Identifier: BSD-2-Clause
#include "base/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_MODE 0777 /* less the umask */

/* One more folder of a path; *made becomes the length of the first that was not there before. */
static int folder_add(const char *path, size_t *made)
{
	struct stat status;
	int error;

	if (!mkdir(path, FOLDER_MODE)) {
		if (!*made)
			*made = strlen(path);
		return 0;
	}
	/* What exists counts, whatever else stands against making it (EROFS, EACCES). */
	error = -errno;
	if (stat(path, &status))
		return error;
	return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

int folder_make(const char *path, size_t *made)
{
	char *copy = strdup(path);
	size_t first = 0;
	int error = 0;

	if (!copy)
		return -ENOMEM;
	for (char *at = copy + 1; *path && *at && !error; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		error = folder_add(copy, &first);
		*at = '/';
	}
	if (!error)
		error = folder_add(copy, &first);
	if (error)
		folder_unmake(path, first);
	else if (made)
		*made = first;
	free(copy);
	return error;
}

void folder_unmake(const char *path, size_t made)
{
	char *copy = made ? strdup(path) : NULL;

	/* From the innermost outwards; one that is not empty stops it. */
	while (copy && strlen(copy) >= made && (!rmdir(copy) || errno == ENOENT)) {
		char *slash = strrchr(copy, '/');

		if (!slash || slash == copy)
			break;
		*slash = '\0';
	}
	free(copy);
}

char *path_join(const char *folder, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}
