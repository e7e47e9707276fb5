// SPDX-License-Identifier: BSD-2-Clause
/*
 * PyTorch looked at before a command starts. To make the plan of its libraries
 * takes some tenths of a second, on a busy machine some seconds, and a short job
 * runs its first operators meanwhile. Where the Python that the command is
 * likely to run keeps PyTorch is known before, so that nothing but setting the
 * probes is left when it is mapped. A wrong guess costs that time and no more.
 */
#include "record/session.h"

#include <errno.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "containers/containers.h"
#include "record/words.h"

#define LINE_BYTES_MAX 256
#define INSTALLATIONS_MAX 4

/* Below the prefix of a Python, most likely first; Debian's own packages do not lie in the folder of a version. */
static const char *const torch_folders[] = {
	"%s/lib/python3*/site-packages/torch/lib",
	"%s/local/lib/python3*/dist-packages/torch/lib",
	"%s/lib/python3/dist-packages/torch/lib",
};

/* The interpreter that the first line of a script names ("#!/usr/bin/python3", "#!/usr/bin/env python3"); NULL: none.
 */
static char *script_interpreter(const char *path)
{
	char line[LINE_BYTES_MAX] = "", *at = line, *word, *found = NULL;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	if (fgets(line, sizeof(line), file) && !strncmp(line, "#!", 2)) {
		at += 2;
		while ((word = strsep(&at, " \t\n")))
			if (is_python(word))
				found = command_path(word);
	}
	fclose(file);
	return found;
}

/* A Python itself, the one of a script, one that another word names, or that other programs would start; NULL: none. */
static char *python_of(char *const *words)
{
	char *path = command_path(words[0]), *python;

	if (path && is_python(path))
		return path;
	python = path ? script_interpreter(path) : NULL;
	free(path);
	for (size_t index = 1; !python && index < arrlenu(words); index++)
		if (is_python(words[index]))
			python = command_path(words[index]);
	return python ? python : command_path("python3");
}

/* Plans of the libraries in a folder; those of PyTorch only when all that belong together are there. */
static int folder_plan(struct session *session, const char *folder)
{
	static const enum library_role roles[] = {
		LIBRARY_C10, LIBRARY_TORCH_CPU, LIBRARY_TORCH_PYTHON, LIBRARY_C10_CUDA, LIBRARY_TORCH_CUDA};
	struct library_plan *plans[LIBRARY_ROLES] = {0};
	int error;

	for (size_t index = 0; index < sizeof(roles) / sizeof(roles[0]); index++) {
		char *path;

		if (asprintf(&path, "%s/%s.so", folder, library_role_name(roles[index])) < 0)
			return -ENOMEM;
		plans[roles[index]] = library_plan_ahead(session, path, roles[index]);
		free(path);
	}
	if (!plans[LIBRARY_C10] || !plans[LIBRARY_TORCH_CPU])
		return 0;
	error = torch_plan_make(plans[LIBRARY_TORCH_CPU], plans[LIBRARY_C10], !session->options->blocks_only);
	if (session->options->verbose)
		session_tell(session, "%s: PyTorch is looked at before it is loaded", folder);
	/* What is wrong with a library matters when it is mapped, and is told then. */
	return error == -ENOMEM ? error : 0;
}

static int prefix_plan(struct session *session, const char *prefix)
{
	int error = 0;

	for (size_t index = 0; !error && index < sizeof(torch_folders) / sizeof(torch_folders[0]); index++) {
		glob_t found;
		char *pattern;

		if (asprintf(&pattern, torch_folders[index], prefix) < 0)
			return -ENOMEM;
		if (!glob(pattern, 0, NULL, &found)) {
			for (size_t at = 0; !error && at < found.gl_pathc && at < INSTALLATIONS_MAX; at++)
				error = folder_plan(session, found.gl_pathv[at]);
			globfree(&found);
		}
		free(pattern);
	}
	return error;
}

int torch_plan_ahead(struct session *session, char *const *words)
{
	char *python = python_of(words), *real = python ? realpath(python, NULL) : NULL;
	const char *prefix, *real_prefix;
	int error = 0;

	if (!python || !real)
		goto cleanup;
	/* A virtual environment has a link to the Python that it is of, and may use the packages there. */
	prefix = dirname(dirname(python));
	real_prefix = dirname(dirname(real));
	error = prefix_plan(session, prefix);
	if (!error && strcmp(prefix, real_prefix) != 0)
		error = prefix_plan(session, real_prefix);
cleanup:
	free(real);
	free(python);
	return error;
}
