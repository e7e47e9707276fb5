// SPDX-License-Identifier: BSD-2-Clause
/* One side of a comparison: a capture, a memory CSV, or a folder that holds either. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "cli/side.h"
#include "containers/containers.h"

#define MEMORY_SUFFIX "_memory.csv"
#define STEPS_SUFFIX "_steps.csv"

static bool ends_with(const char *text, const char *with)
{
	size_t length = strlen(text), tail = strlen(with);

	return length >= tail && !strcmp(text + length - tail, with);
}

/* The number of a name as rank_3 and what is behind it; RANK_UNKNOWN. */
static int32_t rank_of_name(const char *name, const char **behind)
{
	long rank;
	char *end;

	if (strncmp(name, "rank_", strlen("rank_")) != 0 || name[strlen("rank_")] < '0' || name[strlen("rank_")] > '9')
		return RANK_UNKNOWN;
	errno = 0;
	rank = strtol(name + strlen("rank_"), &end, 10);
	*behind = end;
	return errno || rank > INT32_MAX ? RANK_UNKNOWN : (int32_t)rank;
}

/* --- CSV files ----------------------------------------------------------------------------------- */

typedef int (*csv_reader)(FILE *file, struct usage *usage, struct usage_error *error);

static int csv_read(const char *path, csv_reader read, struct usage *usage)
{
	FILE *file = fopen(path, "re");
	struct usage_error fault = {0};
	int error = file ? read(file, usage, &fault) : -errno;

	if (error == -EBADMSG)
		fprintf(stderr, "hdtrace: %s: line %llu, %s\n", path, (unsigned long long)fault.line, fault.text);
	else if (error)
		fprintf(stderr, "hdtrace: cannot read %s: %s\n", path, strerror(-error));
	usage_error_clear(&fault);
	if (file)
		fclose(file);
	return error;
}

/* Steps beside a memory CSV; that there are none is no fault. */
static int steps_read(const char *path, struct usage *usage)
{
	char *steps;
	int error = 0;

	if (!ends_with(path, MEMORY_SUFFIX))
		return 0;
	if (asprintf(&steps, "%.*s" STEPS_SUFFIX, (int)(strlen(path) - strlen(MEMORY_SUFFIX)), path) < 0)
		return -ENOMEM;
	if (!access(steps, F_OK))
		error = csv_read(steps, usage_add_steps_csv, usage);
	free(steps);
	return error;
}

static int file_read(const char *path, int32_t rank, struct side *side)
{
	struct usage usage = {.rank = rank};
	int error = csv_read(path, usage_of_csv, &usage);

	if (!error)
		error = steps_read(path, &usage);
	if (error)
		usage_clear(&usage);
	else
		arrput(side->usages, usage);
	return error;
}

static int named_file_read(const char *path, struct side *side)
{
	const char *slash = strrchr(path, '/'), *behind = "";
	int32_t rank = rank_of_name(slash ? slash + 1 : path, &behind);

	if (rank == RANK_UNKNOWN || strcmp(behind, MEMORY_SUFFIX) != 0) {
		fprintf(stderr, "hdtrace: %s is taken for rank 0: its name is not rank_N" MEMORY_SUFFIX "\n", path);
		rank = 0;
	}
	return file_read(path, rank, side);
}

/* FOLDER/rank_N/rank_N_memory.csv, or FOLDER/rank_N_memory.csv; NULL: the entry is neither. */
static char *entry_path(const char *folder, const char *name, int32_t *rank)
{
	const char *behind = "";
	char *path = NULL;
	int length = -1;

	*rank = rank_of_name(name, &behind);
	if (*rank == RANK_UNKNOWN)
		return NULL;
	if (!*behind)
		length = asprintf(&path, "%s/%s/%s" MEMORY_SUFFIX, folder, name, name);
	else if (!strcmp(behind, MEMORY_SUFFIX))
		length = asprintf(&path, "%s/%s", folder, name);
	if (length < 0)
		return NULL;
	if (access(path, F_OK)) {
		free(path);
		return NULL;
	}
	return path;
}

static int usage_compare(const void *left, const void *right)
{
	const struct usage *a = left, *b = right;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

static int folder_read(const char *folder, struct side *side)
{
	DIR *entries = opendir(folder);
	int error = 0;

	if (!entries) {
		error = -errno;
		fprintf(stderr, "hdtrace: cannot read %s: %s\n", folder, strerror(errno));
		return error;
	}
	for (const struct dirent *entry; !error && (entry = readdir(entries));) {
		int32_t rank;
		char *path = entry_path(folder, entry->d_name, &rank);

		if (path)
			error = file_read(path, rank, side);
		free(path);
	}
	closedir(entries);
	if (!error && !side->usages) {
		fprintf(stderr, "hdtrace: %s holds neither " CAPTURE_NAME " nor rank_N/rank_N" MEMORY_SUFFIX "\n",
			folder);
		return -ENOENT;
	}
	if (side->usages)
		qsort(side->usages, arrlenu(side->usages), sizeof(*side->usages), usage_compare);
	return error;
}

/* --- captures -------------------------------------------------------------------------------------- */

static int capture_read(const char *path, const struct model_options *options, struct side *side)
{
	struct model *model = captures_read(&path, 1, options, &side->status);
	uint32_t job = 0;

	if (!model)
		return -EIO;
	for (size_t i = 0; i < model_rank_count(model); i++) {
		const struct rank *rank = model_rank(model, i);
		struct usage usage;

		job += i && strcmp(rank->job, model_rank(model, i - 1)->job) != 0;
		if (!report_has_data(rank)) {
			fprintf(stderr, "hdtrace: %s: no memory was seen on rank %d\n", path, rank->rank);
			continue;
		}
		usage_of_rank(rank, &usage);
		usage.job = job;
		arrput(side->usages, usage);
	}
	model_free(model);
	return 0;
}

int side_read(const char *path, const struct model_options *options, struct side *side)
{
	struct stat status;
	char *capture;
	int error;

	*side = (struct side){.status = STATUS_COMPLETE};
	if (stat(path, &status)) {
		fprintf(stderr, "hdtrace: cannot read %s: %s\n", path, strerror(errno));
		return -ENOENT;
	}
	if (!S_ISDIR(status.st_mode))
		return ends_with(path, ".csv") ? named_file_read(path, side) : capture_read(path, options, side);
	capture = path_join(path, CAPTURE_NAME);
	if (!capture)
		return -ENOMEM;
	error = access(capture, F_OK) ? folder_read(path, side) : capture_read(capture, options, side);
	free(capture);
	return error;
}

void side_clear(struct side *side)
{
	for (size_t i = 0; i < arrlenu(side->usages); i++)
		usage_clear(&side->usages[i]);
	arrfree(side->usages);
}
