/* SPDX-License-Identifier: BSD-2-Clause */
/* CSV files of somebody else: a usage that holds together, or one fault with its place. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"
#include "containers/containers.h"

#define HEADER                                                                                                         \
	"start_time_stamp,end_time_stamp,size,actual_used_memory,actual_peak_memory,file_name,line_num,type,node_"     \
	"name,graph_name\n"
#define STEPS_HEADER "complete,duration_ns,peak_bytes\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* The same bytes as they are, and behind a header that leads to the rows. */
static FILE *file_of(const char *header, const uint8_t *data, size_t size, char **text)
{
	size_t length = strlen(header);

	*text = malloc(length + size + 1);
	require(*text != NULL);
	memcpy(*text, header, length);
	if (size)
		memcpy(*text + length, data, size);
	return fmemopen(*text, length + size ? length + size : 1, "r");
}

static void usage_check(const struct usage *usage)
{
	for (int group = 0; group < USAGE_GROUPS; group++)
		for (size_t i = 1; i < arrlenu(usage->groups[group]); i++)
			require(strcmp(usage->groups[group][i - 1].name, usage->groups[group][i].name) < 0);
}

static void memory_read(const char *header, const uint8_t *data, size_t size)
{
	struct usage usage = {0}, *side = NULL;
	struct usage_error error = {0};
	struct comparison comparison;
	char *text;
	FILE *file = file_of(header, data, size, &text);
	int result;

	require(file != NULL);
	result = usage_of_csv(file, &usage, &error);
	require(result == 0 || (result == -EBADMSG && error.text && error.line > 0));
	usage_check(&usage);
	arrput(side, usage);
	comparison_make(&comparison, side, side);
	require(arrlenu(comparison.ranks) == 1 && comparison.ranks[0].error_percent == 0);
	comparison_clear(&comparison);
	arrfree(side);
	usage_clear(&usage);
	usage_error_clear(&error);
	fclose(file);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usage usage = {0};
	struct usage_error error = {0};
	char *text;
	FILE *file = file_of(STEPS_HEADER, data, size, &text);
	int result;

	require(file != NULL);
	result = usage_add_steps_csv(file, &usage, &error);
	require(result == 0 || (result == -EBADMSG && error.text));
	usage_error_clear(&error);
	fclose(file);
	free(text);
	memory_read("", data, size);
	memory_read(HEADER, data, size);
	return 0;
}
