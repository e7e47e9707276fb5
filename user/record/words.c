// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which programs a command may start: those that words of it name, or words of a
 * script among its arguments. Nothing of a shell's language is understood: a word
 * that names no program is none, and what a program is good for is found out by
 * who asks.
 */
#include "record/words.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "containers/containers.h"

#define SCRIPT_BYTES_MAX (64u << 10)
#define WORDS_MAX 4096
#define PROGRAMS_MAX 64
#define SEPARATORS " \t\r\n;&|()<>{}\"'`"
#define LIBRARY_PATH "LD_LIBRARY_PATH="

char *command_path(const char *command)
{
	const char *folders = getenv("PATH");
	char *path;

	if (strchr(command, '/'))
		return strdup(command);
	for (const char *at = folders ? folders : ""; *at; at += strspn(at, ":")) {
		size_t length = strcspn(at, ":");

		if (asprintf(&path, "%.*s/%s", (int)length, at, command) < 0)
			return NULL;
		if (!access(path, X_OK))
			return path;
		free(path);
		at += length;
	}
	return NULL;
}

bool is_python(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, "python", strlen("python"));
}

/* A pipe or a device is not to be opened. */
static bool is_regular(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISREG(status.st_mode);
}

/* The beginning of a file that is text, an stb_ds text; NULL: it is none, or a program. */
static char *script_read(const char *path)
{
	FILE *file = is_regular(path) ? fopen(path, "re") : NULL;
	char *text = NULL;
	size_t count;

	if (!file)
		return NULL;
	arrsetlen(text, SCRIPT_BYTES_MAX + 1);
	count = fread(text, 1, SCRIPT_BYTES_MAX, file);
	fclose(file);
	text[count] = '\0';
	if (strlen(text) == count)
		return text;
	arrfree(text);
	return NULL;
}

static void words_split(char ***words, const char *text)
{
	while (*(text += strspn(text, SEPARATORS)) && arrlenu(*words) < WORDS_MAX) {
		size_t length = strcspn(text, SEPARATORS);

		arrput(*words, strndup(text, length));
		text += length;
	}
}

/* What a word of the command line holds: words, and those of a script that it names. */
static void argument_split(char ***words, const char *argument, const char *path)
{
	char *script = script_read(path);

	words_split(words, argument);
	if (script)
		words_split(words, script);
	arrfree(script);
}

char **command_words(char *const *command)
{
	char *path = command_path(command[0]), **words = NULL;

	arrput(words, strdup(command[0]));
	/* The arguments of a Python are its own. */
	if (path && !is_python(path)) {
		argument_split(&words, "", path);
		for (size_t index = 1; command[index]; index++)
			argument_split(&words, command[index], command[index]);
	}
	free(path);
	return words;
}

void words_free(char **words)
{
	for (size_t index = 0; index < arrlenu(words); index++)
		free(words[index]);
	arrfree(words);
}

const char *words_library_path(char *const *words)
{
	for (size_t index = 0; index < arrlenu(words); index++)
		if (!strncmp(words[index], LIBRARY_PATH, strlen(LIBRARY_PATH)))
			return words[index] + strlen(LIBRARY_PATH);
	return NULL;
}

static bool is_among(char *const *paths, const char *path)
{
	for (size_t index = 0; index < arrlenu(paths); index++)
		if (!strcmp(paths[index], path))
			return true;
	return false;
}

char **words_programs(char *const *words)
{
	char **programs = NULL;

	for (size_t index = 0; index < arrlenu(words) && arrlenu(programs) < PROGRAMS_MAX; index++) {
		char *path = words[index][0] == '-' ? NULL : command_path(words[index]);

		if (path && is_regular(path) && !access(path, X_OK) && !is_among(programs, path))
			arrput(programs, path);
		else
			free(path);
	}
	return programs;
}
