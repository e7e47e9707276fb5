/* SPDX-License-Identifier: BSD-2-Clause */
/* Spools: what is acknowledged is there, whatever happens, and once. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "store_records.h"

#define LIMIT (64u << 20)

/* Read all rows of all segments that are not locked; returns how many there are. */
static uint64_t rows_of(const char *folder, int *state)
{
	char **names;
	uint64_t rows = 0;

	*state = spool_list(folder, &names);
	for (size_t index = 0; index < arrlenu(names); index++) {
		struct segment *segment;
		struct batch batch;
		int error = segment_open(folder, names[index], &segment);

		while (!error && (*state = segment_next(segment, &batch)) == 1) {
			rows += batch.rows;
			batch_clear(&batch);
		}
		segment_close(segment);
		free(names[index]);
	}
	arrfree(names);
	return rows;
}

static void put_steps(struct spool *spool, int64_t first, int64_t count)
{
	for (int64_t number = first; number < first + count; number++) {
		struct step_record record = step_numbered(number);

		cr_assert(eq(int, spool_put(spool, TABLE_STEP, &record), 0));
	}
}

/* The path of the only segment, to be freed. */
static char *segment_path(const char *folder)
{
	char **names, *path;

	cr_assert(eq(int, spool_list(folder, &names), 0));
	cr_assert(eq(sz, arrlenu(names), 1));
	path = path_in(folder, names[0]);
	free(names[0]);
	arrfree(names);
	return path;
}

Test(spool, gives_back_what_was_committed)
{
	char *folder = folder_new();
	struct run_record run = {.run = NUMBERED_RUN, .job = "train.py", .user = "eva", .world_size = RECORD_UNKNOWN};
	struct spool *spool;
	struct segment *segment;
	struct batch batch;
	struct row_cursor cursor;
	struct row_value value;
	char **names;

	cr_assert(eq(int, spool_open(folder, LIMIT, &spool), 0));
	cr_assert(eq(int, spool_put(spool, TABLE_RUN, &run), 0));
	put_steps(spool, 0, 3);
	cr_assert(eq(int, spool_commit(spool), 0));
	spool_close(spool);

	spool_list(folder, &names);
	cr_assert(eq(sz, arrlenu(names), 1));
	cr_assert(eq(int, segment_open(folder, names[0], &segment), 0));
	cr_assert(eq(int, segment_next(segment, &batch), 1));
	cr_assert(eq(int, batch.table, TABLE_RUN));
	cr_assert(eq(u32, batch.rows, 1));
	cursor = (struct row_cursor){batch.bytes, batch.bytes + arrlenu(batch.bytes)};
	for (size_t index = 0; index < tables[TABLE_RUN].column_count; index++) {
		const struct column *column = &tables[TABLE_RUN].columns[index];

		cr_assert(row_value_next(&cursor, column, &value));
		if (!strcmp(column->name, "user"))
			cr_expect(value.length == 3 && !memcmp(value.text, "eva", 3));
		if (!strcmp(column->name, "model"))
			cr_expect(eq(sz, value.length, 0));
		if (!strcmp(column->name, "world_size"))
			cr_expect(value.unknown);
	}
	batch_clear(&batch);
	cr_assert(eq(int, segment_next(segment, &batch), 1));
	cr_expect(eq(int, batch.table, TABLE_STEP));
	cr_expect(eq(u32, batch.rows, 3));
	batch_clear(&batch);
	cr_expect(eq(int, segment_next(segment, &batch), 0));
	cr_expect(eq(u64, segment_unfinished(segment), 0));
	segment_close(segment);
	free(names[0]);
	arrfree(names);
	folder_remove(folder);
}

Test(spool, keeps_a_segment_from_readers_while_it_is_written)
{
	char *folder = folder_new(), **names;
	struct spool *spool;
	struct segment *segment;
	int state;

	spool_open(folder, LIMIT, &spool);
	put_steps(spool, 0, 1);
	cr_assert(eq(int, spool_commit(spool), 0));
	spool_list(folder, &names);
	cr_assert(eq(sz, arrlenu(names), 1));
	cr_expect(eq(int, segment_open(folder, names[0], &segment), -EAGAIN));
	spool_seal(spool);
	cr_expect(eq(u64, rows_of(folder, &state), 1));
	put_steps(spool, 1, 1);
	cr_assert(eq(int, spool_commit(spool), 0));
	spool_seal(spool);
	cr_expect(eq(u64, rows_of(folder, &state), 2));
	spool_close(spool);
	free(names[0]);
	arrfree(names);
	folder_remove(folder);
}

Test(spool, is_bounded_and_keeps_what_it_could_not_take)
{
	char *folder = folder_new();
	struct spool *spool;
	int64_t number = 0;
	int error, state;

	spool_open(folder, 65536, &spool);
	do {
		put_steps(spool, number, 100);
		number += 100;
		error = spool_commit(spool);
	} while (!error && number < 1000000);
	cr_expect(eq(int, error, -EDQUOT));
	/* It waits, and is taken when there is room again. */
	spool_seal(spool);
	cr_expect(eq(u64, rows_of(folder, &state), (uint64_t)number - 100));
	{
		char **names;

		spool_list(folder, &names);
		for (size_t index = 0; index < arrlenu(names); index++) {
			cr_expect(eq(int, spool_remove(folder, names[index]), 0));
			free(names[index]);
		}
		arrfree(names);
	}
	cr_expect(eq(int, spool_commit(spool), 0));
	spool_seal(spool);
	cr_expect(eq(u64, rows_of(folder, &state), 100));
	spool_close(spool);
	folder_remove(folder);
}

Test(spool, refuses_more_than_may_wait_for_a_commit)
{
	char *folder = folder_new();
	struct step_record record = step_numbered(1);
	struct spool *spool;
	int error = 0;

	spool_open(folder, LIMIT, &spool);
	for (int64_t number = 0; !error && number < 10000000; number++)
		error = spool_put(spool, TABLE_STEP, &record);
	cr_expect(eq(int, error, -ENOBUFS));
	cr_expect(eq(int, spool_commit(spool), 0));
	cr_expect(eq(int, spool_put(spool, TABLE_STEP, &record), 0));
	spool_close(spool);
	folder_remove(folder);
}

/* Cut at every byte: whole frames are read, and nothing is called damaged. */
Test(spool, that_was_cut_anywhere_has_its_whole_frames)
{
	char *folder = folder_new(), *path;
	struct spool *spool;
	struct stat status;
	off_t one;

	spool_open(folder, LIMIT, &spool);
	put_steps(spool, 0, 10);
	spool_commit(spool);
	path = segment_path(folder);
	stat(path, &status);
	one = status.st_size;
	put_steps(spool, 10, 10);
	spool_commit(spool);
	spool_close(spool);
	stat(path, &status);
	for (off_t size = status.st_size; size >= (off_t)sizeof(struct spool_header); size--) {
		int state;
		uint64_t rows;

		cr_assert(eq(int, truncate(path, size), 0));
		rows = rows_of(folder, &state);
		cr_expect(eq(int, state, 0), "cut to %ld", (long)size);
		cr_expect(eq(u64, rows,
				  size == status.st_size ? 20u
				  : size >= one          ? 10u
							 : 0u),
			"cut to %ld", (long)size);
	}
	free(path);
	folder_remove(folder);
}

Test(spool, tells_damage_in_the_middle)
{
	char *folder = folder_new(), *path;
	struct spool *spool;
	int state, fd;

	spool_open(folder, LIMIT, &spool);
	for (int64_t round = 0; round < 3; round++) {
		put_steps(spool, 10 * round, 10);
		spool_commit(spool);
	}
	spool_close(spool);
	path = segment_path(folder);
	for (off_t at = sizeof(struct spool_header); at < (off_t)(sizeof(struct spool_header) + 100); at++) {
		uint8_t byte;

		fd = open(path, O_RDWR);
		cr_assert(eq(int, (int)pread(fd, &byte, 1, at), 1));
		byte ^= 0x10;
		cr_assert(eq(int, (int)pwrite(fd, &byte, 1, at), 1));
		cr_expect(eq(u64, rows_of(folder, &state), 0));
		cr_expect(eq(int, state, -EBADMSG), "byte %ld", (long)at);
		byte ^= 0x10;
		cr_assert(eq(int, (int)pwrite(fd, &byte, 1, at), 1));
		close(fd);
	}
	cr_expect(eq(u64, rows_of(folder, &state), 30));
	free(path);
	folder_remove(folder);
}

Test(spool, of_another_version_is_left_alone)
{
	char *folder = folder_new(), *path = path_in(folder, "1" SPOOL_SUFFIX);
	struct segment *segment;
	FILE *file = fopen(path, "w");

	fputs("this is no segment, but it is long enough to be one", file);
	fclose(file);
	cr_expect(eq(int, segment_open(folder, "1" SPOOL_SUFFIX, &segment), -EBADMSG));
	cr_expect(eq(int, segment_open(folder, "2" SPOOL_SUFFIX, &segment), -ENOENT));
	free(path);
	folder_remove(folder);
}

/* --- kill -9 at any moment ------------------------------------------------------------- */

#define KILLS 100
#define PAUSE_MAX_US 3000

/* Commits numbered records for ever, and tells each number that was acknowledged. */
static void write_for_ever(const char *folder, int64_t first, int acknowledged)
{
	struct spool *spool;

	if (spool_open(folder, LIMIT, &spool))
		_exit(2);
	for (int64_t number = first;; number++) {
		struct step_record record = step_numbered(number);

		if (spool_put(spool, TABLE_STEP, &record) || spool_commit(spool))
			_exit(3);
		if (write(acknowledged, &number, sizeof(number)) != sizeof(number))
			_exit(4);
		if (number % 16 == 0)
			spool_seal(spool);
	}
}

static void drain_for_ever(const char *folder)
{
	struct store *store = store_new(folder);
	struct drain_options options = {0};
	struct drain_result result;
	char *spool = path_in(folder, "spool");

	while (!spool_drain(spool, store, &options, &result) || true)
		;
}

static void pause_us(long us)
{
	struct timespec time = {.tv_nsec = us * 1000};

	nanosleep(&time, NULL);
}

static void kill_and_reap(pid_t child)
{
	int status;

	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	cr_assert(eq(int, WIFSIGNALED(status) != 0, 1), "it ended by itself with %d", WEXITSTATUS(status));
}

/* Whoever writes and whoever empties the spool is killed again and again. */
Test(spool, loses_nothing_and_doubles_nothing_when_everybody_is_killed, .timeout = 60)
{
	char *folder = folder_new(), *spool_folder = path_in(folder, "spool"), sql[128];
	int64_t *acknowledged = NULL, next = 0, number;
	struct drain_options options = {0};
	struct drain_result result;
	struct store *store = store_new(folder);
	int ends[2];

	store_close(store);
	srandom(7);
	cr_assert(eq(int, pipe2(ends, O_NONBLOCK), 0));
	for (int round = 0; round < KILLS; round++) {
		pid_t writer = fork(), reader;

		if (!writer)
			write_for_ever(spool_folder, next, ends[1]);
		reader = fork();
		if (!reader)
			drain_for_ever(folder);
		/* Every other round in the middle of the work, the others in its beginning too. */
		if (round % 2)
			cr_assert(eq(int, poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, -1), 1));
		pause_us(random() % PAUSE_MAX_US);
		kill_and_reap(random() % 2 ? writer : reader);
		kill(writer, SIGKILL);
		kill(reader, SIGKILL);
		while (waitpid(-1, NULL, 0) > 0)
			;
		while (read(ends[0], &number, sizeof(number)) == sizeof(number)) {
			arrput(acknowledged, number);
			next = number + 1; /* what was not acknowledged is put in again */
		}
	}
	cr_assert(ge(sz, arrlenu(acknowledged), KILLS / 2));
	store = store_new(folder);
	cr_assert(gt(i64, store_number(store, "SELECT count(*) FROM steps"), 0), "nothing was sent meanwhile");
	cr_assert(eq(int, spool_drain(spool_folder, store, &options, &result), 0), "%s", store_fault(store));
	cr_expect(eq(u64, result.damaged, 0));
	for (size_t index = 0; index < arrlenu(acknowledged); index++) {
		number = acknowledged[index];
		snprintf(sql, sizeof(sql), "SELECT peak_bytes FROM steps WHERE step = %lld", (long long)number);
		cr_expect(eq(i64, store_number(store, sql), number << 20), "record %lld", (long long)number);
	}
	cr_expect(eq(i64, store_number(store, "SELECT count(*) - count(DISTINCT step) FROM steps"), 0));
	/* At most the one that was being acknowledged when its writer was killed is there beside them. */
	cr_expect(le(i64, store_number(store, "SELECT count(*) FROM steps"), (int64_t)arrlenu(acknowledged) + KILLS));
	store_close(store);
	arrfree(acknowledged);
	free(spool_folder);
	folder_remove(folder);
}
