// SPDX-License-Identifier: BSD-2-Clause
/* Options of every verb that traces: which processes, and how. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/cli.h"

#define RING_SIZE_MAX (1ull << 30)

bool number_parse(const char *text, double *number)
{
	char *end;

	errno = 0;
	*number = strtod(text, &end);
	return !errno && end != text && !*end && *number > 0;
}

error_t pids_parse(const char *text, struct record_options *options, struct argp_state *state)
{
	if (!strcmp(text, "all")) {
		options->all_pids = true;
		return 0;
	}
	for (const char *at = text; *at;) {
		char *end;
		long pid = strtol(at, &end, 10);

		if (end == at || pid <= 0 || pid > 4194304 /* the kernel's PID_MAX_LIMIT */ || (*end && *end != ','))
			argp_error(state, "-p takes process ids with commas between them, or all, not %s", text);
		if (options->pid_count == RECORD_PIDS_MAX)
			argp_error(state, "at most %d processes can be given", RECORD_PIDS_MAX);
		options->pids[options->pid_count++] = (pid_t)pid;
		at = *end ? end + 1 : end;
	}
	return 0;
}

static int pid_compare(const void *left, const void *right)
{
	pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;

	return (a > b) - (a < b);
}

/* In ascending order, which is that of ranks when nothing says more, and each once. */
void pids_sort(struct record_options *options)
{
	int count = 0;

	qsort(options->pids, (size_t)options->pid_count, sizeof(options->pids[0]), pid_compare);
	for (int index = 0; index < options->pid_count; index++)
		if (!count || options->pids[index] != options->pids[count - 1])
			options->pids[count++] = options->pids[index];
	options->pid_count = count;
}

error_t level_parse(const char *text, struct record_options *options, struct argp_state *state)
{
	if (!strcmp(text, "lite"))
		options->level = LEVEL_LITE;
	else if (!strcmp(text, "full"))
		options->level = LEVEL_FULL;
	else
		argp_error(state, "--level is full or lite, not %s", text);
	return 0;
}

error_t ring_size_parse(const char *text, struct record_options *options, struct argp_state *state)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size;

	if (!size_parse(text, &size) || size < page || size > RING_SIZE_MAX || (size & (size - 1)))
		argp_error(state, "--ring-size is a power of two from %lluK to 1G, not %s",
			(unsigned long long)page >> 10, text);
	options->ring_size = size;
	return 0;
}
