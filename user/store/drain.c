/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments go in order; what fails is tried again after a pause that grows. */
#include "store/drain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "containers/containers.h"
#include "store/backend.h"
#include "store/spool.h"

#define PAUSE_FIRST 0.1
/* The longest pause; who has little patience tries at least so many times in it. */
#define PAUSE_MAX 30.0
#define TRIES_MIN 20
#define PAUSE_SLICE 0.1
/* Rows of one table are put together into requests of this size: a server likes few. */
#define GROUP_BYTES (4u << 20)

struct drain {
	struct store *store;
	const struct drain_options *options;
	struct drain_result *result;
	struct batch groups[TABLES]; /* not in the store yet */
	double deadline;
};

static double clock_seconds(void)
{
	return (double)monotonic_ns() / CLOCK_SECOND;
}

static bool is_stopped(const struct drain *drain)
{
	return drain->options->stop && *drain->options->stop;
}

/* Between half and all of it, so that many who wait for one server do not come back together. */
static void wait_about(const struct drain *drain, double seconds)
{
	double end = clock_seconds() + seconds * (0.5 + 0.5 * (double)random() / (double)RAND_MAX);

	while (!is_stopped(drain)) {
		double rest = end - clock_seconds();
		struct timespec slice = {.tv_nsec = (long)((rest < PAUSE_SLICE ? rest : PAUSE_SLICE) * 1e9)};

		if (rest <= 0)
			return;
		nanosleep(&slice, NULL);
	}
}

static double smaller(double one, double other)
{
	return one < other ? one : other;
}

static int put_patiently(struct drain *drain, const struct batch *batch)
{
	double pause = PAUSE_FIRST, longest = smaller(PAUSE_MAX, drain->options->patience_seconds / TRIES_MIN);
	int error;

	while ((error = store_put(drain->store, batch)) == -EAGAIN || error == -ENOSPC) {
		if (is_stopped(drain) || clock_seconds() >= drain->deadline)
			return error;
		drain->result->tries++;
		wait_about(drain, smaller(pause, longest));
		pause = smaller(pause * 2, PAUSE_MAX);
	}
	/* It works: the next failure has all the time again. */
	drain->deadline = clock_seconds() + drain->options->patience_seconds;
	return error;
}

static int group_send(struct drain *drain, struct batch *group)
{
	int error = put_patiently(drain, group);

	if (!error)
		drain->result->records += group->rows;
	batch_clear(group);
	return error;
}

static int groups_send(struct drain *drain)
{
	int error = 0;

	for (int table = 0; table < TABLES; table++)
		if (!error)
			error = group_send(drain, &drain->groups[table]);
		else
			batch_clear(&drain->groups[table]);
	return error;
}

static int group_add(struct drain *drain, const struct batch *batch)
{
	struct batch *group = &drain->groups[batch->table];
	size_t size = arrlenu(batch->bytes);

	group->table = batch->table;
	group->rows += batch->rows;
	memcpy(arraddnptr(group->bytes, size), batch->bytes, size);
	return arrlenu(group->bytes) < GROUP_BYTES ? 0 : group_send(drain, group);
}

/* -EBADMSG: damage; what is before it is in the store. */
static int segment_send(struct drain *drain, struct segment *segment)
{
	struct batch batch;
	int state = 1, error = 0;

	while (!error && (state = segment_next(segment, &batch)) == 1) {
		error = group_add(drain, &batch);
		batch_clear(&batch);
	}
	if (error || (state && state != -EBADMSG)) {
		for (int table = 0; table < TABLES; table++)
			batch_clear(&drain->groups[table]);
		return error ? error
		             : store_fail(drain->store, state, "the spool cannot be read: %s", strerror(-state));
	}
	error = groups_send(drain);
	if (!error && !state)
		drain->result->unfinished_bytes += segment_unfinished(segment);
	return error ? error : state;
}

static int segment_drain(struct drain *drain, const char *folder, const char *name)
{
	struct segment *segment;
	int error = segment_open(folder, name, &segment);

	if (error == -EAGAIN || error == -ENOENT) {
		drain->result->busy += error == -EAGAIN;
		return 0;
	}
	if (error == -EPROTONOSUPPORT)
		return store_fail(drain->store, error,
			"%s/%s was written by another version of hdtrace: use that one to send it", folder, name);
	if (error && error != -EBADMSG)
		return store_fail(drain->store, error, "cannot read %s/%s: %s", folder, name, strerror(-error));
	if (!error)
		error = segment_send(drain, segment);
	if (!error) {
		drain->result->segments++;
		error = spool_remove(folder, name);
		if (error)
			store_fail(drain->store, error, "cannot remove %s/%s: %s", folder, name, strerror(-error));
	} else if (error == -EBADMSG) {
		drain->result->damaged++;
		error = spool_set_aside(folder, name);
		if (error)
			store_fail(drain->store, error, "cannot rename %s/%s: %s", folder, name, strerror(-error));
	}
	segment_close(segment);
	return error;
}

int spool_drain(
	const char *folder, struct store *store, const struct drain_options *options, struct drain_result *result)
{
	struct drain drain = {store, options, result, {{0}}, clock_seconds() + options->patience_seconds};
	char **names;
	int error = spool_list(folder, &names);

	*result = (struct drain_result){0};
	if (error)
		return store_fail(store, error, "the spool %s cannot be read: %s", folder, strerror(-error));
	for (size_t index = 0; !error && index < arrlenu(names); index++)
		error = is_stopped(&drain) ? store_fail(store, -EINTR, "interrupted")
		                           : segment_drain(&drain, folder, names[index]);
	texts_free(names);
	return store_result(store, error);
}

static bool name_ends(const char *name, const char *suffix)
{
	size_t length = strlen(name), suffix_length = strlen(suffix);

	return length > suffix_length && !strcmp(name + length - suffix_length, suffix);
}

int spool_state_read(const char *folder, struct spool_state *state)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;

	*state = (struct spool_state){0};
	if (!entries)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(entries))) {
		bool is_segment = name_ends(entry->d_name, SPOOL_SUFFIX);
		struct stat status;

		if (fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode))
			continue;
		state->segments += is_segment;
		state->bytes += is_segment ? (uint64_t)status.st_size : 0;
		state->damaged += name_ends(entry->d_name, SPOOL_DAMAGED_SUFFIX);
	}
	closedir(entries);
	return 0;
}
