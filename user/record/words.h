/* SPDX-License-Identifier: BSD-2-Clause */
/* Which programs a command may start. */
#ifndef HDTRACE_RECORD_WORDS_H
#define HDTRACE_RECORD_WORDS_H

#include <stdbool.h>

/* The file that execvp would run, in an allocated text; NULL: none. */
char *command_path(const char *command);

/* By its name. */
bool is_python(const char *path);

/*
 * The command's name, and the words of its arguments and of scripts among them,
 * which a Python's are not: an stb_ds list, to be freed with words_free.
 */
char **command_words(char *const *command);
void words_free(char **words);

/* What LD_LIBRARY_PATH is set to by a word; NULL: it is not. Lies in the words. */
const char *words_library_path(char *const *words);

/* Executable files that words name, each once, in their order: as command_words. */
char **words_programs(char *const *words);

#endif
