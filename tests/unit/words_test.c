/* SPDX-License-Identifier: BSD-2-Clause */
/* Which programs a command names. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "containers/containers.h"
#include "record/words.h"

static char folder[] = "/tmp/hdtrace-words-XXXXXX";
static char script[64], pipe_[64];

static void begin(void)
{
	FILE *file;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(script, sizeof(script), "%s/script", folder);
	snprintf(pipe_, sizeof(pipe_), "%s/pipe", folder);
	file = fopen(script, "w");
	cr_assert_not_null(file);
	fputs("#!/bin/sh\nexport LD_LIBRARY_PATH=/opt/there\n(cat </dev/null; /bin/true)&&\"/bin/false\" --x\n", file);
	fclose(file);
	cr_assert_eq(chmod(script, 0755), 0);
	cr_assert_eq(mkfifo(pipe_, 0600), 0);
}

static void end(void)
{
	unlink(script);
	unlink(pipe_);
	rmdir(folder);
}

TestSuite(words, .init = begin, .fini = end);

/* Paths of the programs, with a blank between them. */
static const char *programs_of(char *const *command)
{
	static char text[1024];
	char **words = command_words(command), **programs = words_programs(words);
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < arrlenu(programs); i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i ? " " : "", programs[i]);
	words_free(programs);
	words_free(words);
	return text;
}

Test(words, of_a_command_line_that_name_programs_are_found)
{
	cr_expect_str_eq(programs_of((char *[]){"/usr/bin/env", "-i", "A=/bin/false", "/bin/true", "/nowhere/x", NULL}),
		"/usr/bin/env /bin/true");
	cr_expect_str_eq(programs_of((char *[]){"/bin/sh", "-c", "cd /tmp;exec '/bin/true' /bin/true", NULL}),
		"/bin/sh /bin/true");
}

Test(words, of_a_script_are_looked_at_wherever_it_stands)
{
	char text[256];

	snprintf(text, sizeof(text), "%s ", script);
	cr_expect_eq(strncmp(programs_of((char *[]){script, NULL}), text, strlen(text)), 0);
	cr_expect_not_null(strstr(programs_of((char *[]){script, NULL}), "/bin/true /bin/false"));
	cr_expect_not_null(strstr(programs_of((char *[]){"/bin/sh", script, NULL}), "/bin/true /bin/false"));
}

Test(words, of_a_python_are_its_own)
{
	cr_expect_str_eq(programs_of((char *[]){"/usr/bin/python3", "/bin/true", script, NULL}), "/usr/bin/python3");
}

Test(words, that_name_no_file_to_be_opened_do_no_harm)
{
	char *nothing[] = {"/nowhere/program", "", "'", pipe_, folder, "/dev/zero", NULL};

	cr_expect_str_eq(programs_of(nothing), "");
	cr_expect_str_eq(programs_of((char *[]){"/bin/cat", pipe_, "/dev/zero", NULL}), "/bin/cat");
}

Test(words, tell_where_libraries_are_looked_for)
{
	char **words = command_words((char *[]){"/bin/sh", script, NULL});

	cr_expect_str_eq(words_library_path(words), "/opt/there");
	words_free(words);
	words = command_words((char *[]){"/bin/true", NULL});
	cr_expect_null(words_library_path(words));
	words_free(words);
}
