/* SPDX-License-Identifier: BSD-2-Clause */
/* Libraries of other PyTorch versions, in the roots that scripts/test-root makes; a test without its root is skipped.
 */
#ifndef HDTRACE_TESTS_ROOTS_H
#define HDTRACE_TESTS_ROOTS_H

#include <criterion/criterion.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Path of the library in a root ("" is this machine), NULL where there is none; to be freed. */
static inline char *root_library(const char *root, const char *name)
{
	const char *cache = getenv("HDTRACE_TEST_CACHE");
	char *pattern, *path = NULL;
	glob_t found;
	int size = *root ? asprintf(&pattern, "%s/%s-*/usr/lib/x86_64-linux-gnu/%s.so.[12].*",
				   cache ? cache : "tests/cache", root, name)
	                 : asprintf(&pattern, "/usr/lib/x86_64-linux-gnu/%s.so.1.13", name);

	if (size < 0)
		abort();
	if (!glob(pattern, 0, NULL, &found))
		path = strdup(found.gl_pathv[0]);
	globfree(&found);
	free(pattern);
	return path;
}

#endif
