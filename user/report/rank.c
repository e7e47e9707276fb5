/* SPDX-License-Identifier: BSD-2-Clause */
/* All files of one rank, in the folder that readers of dry runs expect. */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_MODE 0777 /* less the umask */

typedef int (*report_writer)(const struct rank *rank, const struct report_options *options, const char *path);

static const struct {
	const char *suffix;
	report_writer write;
	enum report_format format;
	bool optional; /* that there is nothing to write is no error */
} FILES[] = {
	/* The JSON first: it is there even when the others have nothing to say. */
	{"memory.json", report_memory_json, REPORT_JSON, false},
	{"memory.csv", report_memory_csv, REPORT_CSV, false},
	{"tasks.csv", report_tasks_csv, REPORT_CSV, false},
	{"steps.csv", report_steps_csv, REPORT_CSV, true},
	{"segments.csv", report_segments_csv, REPORT_CSV, true},
	{"collectives.csv", report_collectives_csv, REPORT_CSV, true},
};

static int folder_make(const char *path)
{
	return mkdir(path, FOLDER_MODE) && errno != EEXIST ? -errno : 0;
}

static int file_write(const struct rank *rank, const struct report_options *options, const char *folder, size_t index)
{
	char *path;
	int error;

	if (asprintf(&path, "%s/rank_%d_%s", folder, rank->rank, FILES[index].suffix) < 0)
		return -ENOMEM;
	error = FILES[index].write(rank, options, path);
	/* One of an earlier trace would be taken for this one's. */
	if (error == -ENODATA)
		unlink(path);
	free(path);
	return error == -ENODATA && FILES[index].optional ? 0 : error;
}

int report_rank(const struct rank *rank, const struct report_options *options, unsigned int formats, const char *folder)
{
	char *rank_folder;
	int error;

	if (asprintf(&rank_folder, "%s/rank_%d", folder, rank->rank) < 0)
		return -ENOMEM;
	error = folder_make(folder);
	if (!error)
		error = folder_make(rank_folder);
	for (size_t i = 0; i < sizeof(FILES) / sizeof(*FILES) && (!error || error == -ENODATA); i++)
		if (formats & FILES[i].format) {
			int written = file_write(rank, options, rank_folder, i);

			error = written ? written : error;
		}
	free(rank_folder);
	return error;
}
