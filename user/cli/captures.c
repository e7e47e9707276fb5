// SPDX-License-Identifier: BSD-2-Clause
/* From names that a person gives to captures, and from those to a finished model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "containers/containers.h"
#include "replay/replay.h"

/* A capture may be named by its folder. Returns its path, to be freed, or NULL with errno. */
static char *capture_path(const char *input)
{
	struct stat status;

	if (stat(input, &status))
		return NULL;
	return S_ISDIR(status.st_mode) ? path_join(input, CAPTURE_NAME) : strdup(input);
}

void captures_free(char **paths)
{
	for (size_t index = 0; index < arrlenu(paths); index++)
		free(paths[index]);
	arrfree(paths);
}

char **captures_name(const char *const *inputs, size_t count)
{
	char **paths = NULL;

	for (size_t index = 0; index < count; index++) {
		char *path = capture_path(inputs[index]);

		if (!path) {
			fprintf(stderr, "hdtrace: cannot read %s: %s\n", inputs[index], strerror(errno));
			captures_free(paths);
			return NULL;
		}
		arrput(paths, path);
	}
	return paths;
}

static void capture_tell(const char *capture, const struct replay_result *result)
{
	if (!result->damage.complete)
		fprintf(stderr, "hdtrace: %s: %s at byte %llu; the %llu records before it are reported\n", capture,
			result->damage.reason, (unsigned long long)result->damage.offset,
			(unsigned long long)result->damage.records);
	else if (!result->complete)
		fprintf(stderr, "hdtrace: %s: the recording was cut off; what was written is reported\n", capture);
}

/* Which of how many captures is being read. */
struct reading {
	size_t index, count;
};

/* Of several, each is taken for as large as the others. */
static void reading_tell(void *context, uint64_t done, uint64_t all)
{
	const struct reading *reading = context;

	progress_tell(PROGRESS_READ, reading->index * all + done, reading->count * all);
}

/* Feed a capture to the model; *complete stays only when it is whole. */
static int capture_take(const char *capture, struct model *model, struct reading reading, bool *complete)
{
	struct replay_result result = {0};
	int error = replay_file_telling(capture, model, &result, reading_tell, &reading);

	progress_hide();
	if (error)
		fprintf(stderr, "hdtrace: cannot read %s: %s\n", capture,
			*result.damage.reason ? result.damage.reason : strerror(-error));
	else
		capture_tell(capture, &result);
	progress_show();
	*complete &= result.complete;
	replay_result_clear(&result);
	return error;
}

struct model *captures_read(const char *const *captures, size_t count, const struct model_options *options, int *status)
{
	struct model *model = model_new(options);
	bool complete = true;
	int error = 0;

	*status = STATUS_FAILED;
	if (!model) {
		fprintf(stderr, "hdtrace: no memory\n");
		return NULL;
	}
	for (size_t index = 0; !error && index < count; index++)
		error = capture_take(captures[index], model, (struct reading){index, count}, &complete);
	if (!error) {
		progress_tell(PROGRESS_FINISH, 0, 1);
		error = model_finish(model);
		if (error)
			fprintf(stderr, "hdtrace: cannot make the reports: %s\n", strerror(-error));
	}
	if (!error && !model_rank_count(model)) {
		fprintf(stderr, "hdtrace: %s holds no traced process\n", captures[0]);
		error = -ENODATA;
	}
	if (error) {
		model_free(model);
		return NULL;
	}
	for (size_t index = 0; index < model_rank_count(model); index++)
		complete &= rank_complete(model_rank(model, index));
	*status = complete ? STATUS_COMPLETE : STATUS_LOST;
	return model;
}

const struct rank **model_ranks(const struct model *model)
{
	const struct rank **ranks = NULL;

	for (size_t index = 0; index < model_rank_count(model); index++)
		arrput(ranks, model_rank(model, index));
	return ranks;
}
