/* SPDX-License-Identifier: BSD-2-Clause */
/* Folders, made with their parents, and paths in them. */
#ifndef HDTRACE_BASE_FOLDER_H
#define HDTRACE_BASE_FOLDER_H

#include <stddef.h>

/*
 * Create a folder and its parents. Returns 0 or a negative errno; then nothing
 * is left of what was made. *made, unless NULL, is for folder_unmake.
 */
int folder_make(const char *path, size_t *made);

/* Remove the folders that folder_make made, as far as they are empty. */
void folder_unmake(const char *path, size_t made);

/* "FOLDER/name", to be freed; NULL when memory is out. */
char *path_join(const char *folder, const char *name);

#endif
