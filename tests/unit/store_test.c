/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores of SQLite: rows once, schemas that are not ours refused, parameters that are only values; and URLs. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "store/place.h"
#include "store/tsv.h"
#include "store_records.h"

static void put_number(struct store *store, int64_t number)
{
	struct batch batch = {.table = TABLE_STEP};
	struct step_record record = step_numbered(number);

	batch_add(&batch, &record);
	cr_expect(eq(int, store_put(store, &batch), 0), "%s", store_fault(store));
	batch_clear(&batch);
}

Test(store, has_a_record_once_that_comes_twice)
{
	char *folder = folder_new();
	struct store *store = store_new(folder);

	for (int round = 0; round < 3; round++)
		for (int64_t number = 0; number < 5; number++)
			put_number(store, number);
	cr_expect(eq(i64, store_number(store, "SELECT count(*) FROM steps"), 5));
	cr_expect(eq(i64, store_number(store, "SELECT sum(peak_bytes) FROM steps"), 10 << 20));
	store_close(store);
	folder_remove(folder);
}

Test(store, keeps_what_is_not_known_as_null_and_texts_as_they_are)
{
	char *folder = folder_new();
	struct store *store = store_new(folder);
	struct batch periods = {.table = TABLE_PERIOD}, runs = {.table = TABLE_RUN};
	struct period_record period = {.run = NUMBERED_RUN,
		.device = "cuda:0",
		.capacity_bytes = RECORD_UNKNOWN,
		.reserved_peak_bytes = RECORD_UNKNOWN,
		.reserved_bytes = 5,
		.dead_bytes = INT64_MIN + 1,
		.rank = -1};
	struct run_record run = {.run = NUMBERED_RUN, .job = "a'b\"c\\\t\n\xff", .model = "Modèle"};

	batch_add(&periods, &period);
	batch_add(&runs, &run);
	cr_assert(eq(int, store_put(store, &periods), 0), "%s", store_fault(store));
	cr_assert(eq(int, store_put(store, &runs), 0), "%s", store_fault(store));
	cr_expect(eq(i64,
		store_number(store, "SELECT count(*) FROM periods WHERE capacity_bytes IS NULL AND "
				    "reserved_bytes = 5 AND rank = -1 AND model = 'Modèle' AND dead_bytes < 0"),
		1));
	cr_expect(eq(i64, store_number(store, "SELECT length(CAST(job AS BLOB)) FROM runs"), 9));
	batch_clear(&periods);
	batch_clear(&runs);
	store_close(store);
	folder_remove(folder);
}

Test(store, cuts_texts_between_characters)
{
	char *folder = folder_new(), *text = NULL;
	struct store *store = store_new(folder);
	struct batch runs = {.table = TABLE_RUN};
	struct run_record run = {.run = NUMBERED_RUN};

	arrput(text, 'x');
	for (int index = 0; index < ROW_TEXT_MAX; index++)
		memcpy(arraddnptr(text, 2), "é", 2);
	arrput(text, 0);
	run.job = text;
	batch_add(&runs, &run);
	cr_expect(rows_check(TABLE_RUN, 1, runs.bytes, arrlenu(runs.bytes)));
	cr_assert(eq(int, store_put(store, &runs), 0));
	cr_expect(eq(i64, store_number(store, "SELECT length(CAST(job AS BLOB)) FROM runs"), ROW_TEXT_MAX - 1));
	batch_clear(&runs);
	arrfree(text);
	store_close(store);
	folder_remove(folder);
}

/* A store in which somebody did `sql`; what store_check and store_init say of it then. */
static void check_changed(const char *sql, int wanted)
{
	char *folder = folder_new(), *path = path_in(folder, "audit.db"), fault[STORE_FAULT_BYTES];
	struct store *store = store_new(folder);
	sqlite3 *database;

	store_close(store);
	sqlite3_open(path, &database);
	cr_assert(eq(int, sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK), "%s", sqlite3_errmsg(database));
	sqlite3_close(database);
	cr_assert(eq(int, store_open(path, &store, fault), 0));
	cr_expect(eq(int, store_check(store), wanted), "%s: %s", sql, store_fault(store));
	cr_expect(eq(int, store_init(store), wanted), "%s: %s", sql, store_fault(store));
	if (wanted)
		cr_expect(ne(str, (char *)store_fault(store), ""));
	store_close(store);
	free(path);
	folder_remove(folder);
}

Test(store, of_another_schema_is_refused)
{
	check_changed("SELECT 1", 0);
	check_changed("PRAGMA user_version = 2", -EPROTO);
	check_changed("ALTER TABLE period RENAME COLUMN peak_bytes TO peak", -EPROTO);
	check_changed("DROP TABLE oom", -EPROTO);
	check_changed("CREATE TABLE another (x)", 0);
}

Test(store, is_never_made_of_a_file_of_something_else)
{
	char *folder = folder_new(), *path = path_in(folder, "other.db"), fault[STORE_FAULT_BYTES];
	struct store *store;
	sqlite3 *database;
	FILE *file;

	sqlite3_open(path, &database);
	sqlite3_exec(database, "CREATE TABLE mine (x)", NULL, NULL, NULL);
	sqlite3_close(database);
	cr_assert(eq(int, store_open(path, &store, fault), 0));
	cr_expect(eq(int, store_init(store), -EPROTO));
	store_close(store);

	file = fopen(path, "w");
	fputs("this is a text, which is longer than the head of a database of SQLite has to be\n", file);
	fclose(file);
	cr_assert(eq(int, store_open(path, &store, fault), 0));
	cr_expect(eq(int, store_init(store), -EPROTO), "%s", store_fault(store));
	store_close(store);
	free(path);
	folder_remove(folder);
}

Test(store, that_is_not_there_is_not_made_by_reading)
{
	char *folder = folder_new(), *path = path_in(folder, "none.db"), fault[STORE_FAULT_BYTES];
	struct store *store;

	cr_assert(eq(int, store_open(path, &store, fault), 0));
	cr_expect(eq(int, store_check(store), -ENOENT));
	cr_expect(eq(int, access(path, F_OK), -1));
	store_close(store);
	free(path);
	folder_remove(folder);
}

/* A file that may not grow, as on a full disk: nothing is half there, and later it goes on. */
Test(store, that_is_full_says_so_and_takes_the_rest_later)
{
	char *folder = folder_new(), *spool_folder = path_in(folder, "spool");
	struct store *store = store_new(folder);
	struct rlimit limit = {300000, RLIM_INFINITY};
	struct drain_options options = {0};
	struct drain_result result;
	struct spool_state state;
	struct spool *spool;
	int error;

	cr_assert(eq(int, spool_open(spool_folder, 64 << 20, &spool), 0));
	for (int64_t number = 0; number < 20000; number++) {
		struct step_record record = step_numbered(number);

		spool_put(spool, TABLE_STEP, &record);
	}
	cr_assert(eq(int, spool_commit(spool), 0));
	spool_close(spool);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	error = spool_drain(spool_folder, store, &options, &result);
	cr_expect(ne(int, error, 0));
	spool_state_read(spool_folder, &state);
	cr_expect(eq(u64, state.segments, 1));
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	cr_expect(eq(int, spool_drain(spool_folder, store, &options, &result), 0), "%s", store_fault(store));
	cr_expect(eq(i64, store_number(store, "SELECT count(*) FROM steps"), 20000));
	cr_expect(eq(i64, store_number(store, "SELECT count(DISTINCT step) FROM steps"), 20000));
	spool_state_read(spool_folder, &state);
	cr_expect(eq(u64, state.segments, 0));
	store_close(store);
	free(spool_folder);
	folder_remove(folder);
}

/* Who stops a drain, or has something in the spool that cannot be read, is told so in words. */
Test(store, says_why_a_spool_is_not_drained)
{
	char *folder = folder_new(), *spool_folder = path_in(folder, "spool"), *loop = path_in(spool_folder, "a.spool");
	struct store *store = store_new(folder);
	volatile sig_atomic_t stop = 1;
	struct drain_options options = {.stop = &stop};
	struct drain_result result;

	cr_assert(eq(int, mkdir(spool_folder, 0700), 0));
	cr_assert(eq(int, symlink("a.spool", loop), 0));
	cr_expect(eq(int, spool_drain(spool_folder, store, &options, &result), -EINTR));
	cr_expect(eq(str, (char *)store_fault(store), "interrupted"));
	stop = 0;
	cr_expect(eq(int, spool_drain(spool_folder, store, &options, &result), -ELOOP));
	cr_expect(strstr(store_fault(store), loop) != NULL, "%s", store_fault(store));
	/* What was wrong once is not said of what is wrong later. */
	cr_assert(eq(int, unlink(loop), 0));
	cr_assert(eq(int, rmdir(spool_folder), 0));
	cr_expect(eq(int, store_check(store), 0));
	cr_expect(eq(str, (char *)store_fault(store), ""));
	store_close(store);
	free(loop);
	free(spool_folder);
	folder_remove(folder);
}

/* What would go into a file that nobody finds any more goes into a new one. */
Test(store, whose_file_was_taken_away_makes_another)
{
	char *folder = folder_new(), *path = path_in(folder, "audit.db");
	struct store *store;
	char fault[STORE_FAULT_BYTES];

	cr_assert(eq(int, store_open(path, &store, fault), 0));
	for (int64_t round = 0; round < 2; round++) {
		cr_assert(eq(int, store_init(store), 0), "%s", store_fault(store));
		put_number(store, round);
		cr_expect(eq(i64, store_number(store, "SELECT count(*) FROM step"), 1));
		cr_expect(eq(int, access(path, F_OK), 0));
		cr_expect(eq(int, unlink(path), 0));
	}
	store_close(store);
	free(path);
	folder_remove(folder);
}

Test(store, takes_parameters_as_values_only)
{
	char *folder = folder_new();
	struct store *store = store_new(folder);
	struct parameter parameters[] = {
		{.name = "job", .type = COLUMN_TEXT, .text = "x' OR 1=1; DROP TABLE run; --"},
		{.name = "number", .type = COLUMN_NUMBER, .number = -7},
	};
	struct result result = {0};

	cr_assert(eq(
		int, store_query(store, "SELECT job AS j, number + 1 AS n FROM parameter", parameters, 2, &result), 0));
	cr_assert(eq(sz, arrlenu(result.cells), 2));
	cr_expect(eq(str, result.cells[0], (char *)parameters[0].text));
	cr_expect(eq(str, result.cells[1], "-6"));
	cr_expect(eq(int, result.numbers[0], 0));
	cr_expect(eq(int, result.numbers[1], 1));
	result_clear(&result);
	cr_expect(eq(int, store_query(store, "DELETE FROM run", NULL, 0, &result), -EPERM));
	cr_expect(eq(int, store_query(store, "SELECT nothing", NULL, 0, &result), -EIO));
	store_close(store);
	folder_remove(folder);
}

Test(store, knows_the_functions_of_the_other_engine)
{
	char *folder = folder_new();
	struct store *store = store_new(folder);

	cr_expect(eq(i64,
		store_number(store, "SELECT argMax(x, y) FROM (SELECT 1 AS x, 5 AS y UNION ALL SELECT 2, 9 UNION "
				    "ALL SELECT 3, NULL UNION ALL SELECT 4, 9)"),
		2));
	cr_expect(eq(i64,
		store_number(store, "SELECT argMin(x, y) FROM (SELECT 1 AS x, 5.5 AS y UNION ALL SELECT 2, 5.25)"), 2));
	cr_expect(eq(
		i64, store_number(store, "SELECT argMax(x, y) IS NULL FROM (SELECT 1 AS x, 1 AS y) WHERE x > 1"), 1));
	store_close(store);
	folder_remove(folder);
}

/* --- URLs ------------------------------------------------------------------------------ */

static void check_server(const char *url, const char *address, const char *database, const char *user)
{
	struct store_place place;
	const char *wrong = place_parse(url, &place);

	cr_assert(eq(ptr, (void *)wrong, NULL), "%s: %s", url, wrong);
	cr_expect(place.is_server);
	cr_expect(eq(str, place.address, (char *)address));
	cr_expect(eq(str, place.database, (char *)database));
	cr_expect(eq(str, place.user, (char *)user));
	cr_expect(eq(ptr, strstr(place.name, "secret"), NULL));
	place_clear(&place);
}

Test(store_place, is_read_from_urls)
{
	static const char *const wrong[] = {"", "sqlite:", "ftp://host/x", "http://", "http://host/a-b",
		"http://host/a;b", "http://host/x?cluster=a'b", "http://host/x?other=1", "http://host:port/x"};
	struct store_place place;

	check_server("http://host", "http://host:8123", "hdtrace", "");
	check_server("clickhouse://eva:secret@host:99/fleet", "http://host:99", "fleet", "eva");
	check_server("https://eva@host/fleet", "https://host:8443", "fleet", "eva");
	cr_expect(eq(ptr, (void *)place_parse("http://h/d?cluster=all&replicated=1", &place), NULL));
	cr_expect(eq(str, place.cluster, "all"));
	cr_expect(place.replicated);
	place_clear(&place);
	cr_expect(eq(ptr, (void *)place_parse("sqlite:///var/a.db", &place), NULL));
	cr_expect(eq(str, place.path, "/var/a.db"));
	place_clear(&place);
	cr_expect(eq(ptr, (void *)place_parse("a b.db", &place), NULL));
	cr_expect(eq(str, place.path, "a b.db"));
	place_clear(&place);
	for (size_t index = 0; index < sizeof(wrong) / sizeof(wrong[0]); index++) {
		cr_expect(ne(ptr, (void *)place_parse(wrong[index], &place), NULL), "%s", wrong[index]);
		place_clear(&place);
	}
}

/* --- answers of ClickHouse ---------------------------------------------------------------- */

static int parse(const char *text, struct result *result)
{
	*result = (struct result){0};
	return tsv_parse(text, strlen(text), result);
}

Test(tsv, has_names_types_and_values)
{
	struct result result;

	cr_assert(eq(int,
		parse("a\tb\tc\nString\tNullable(Int64)\tFloat64\nx\\ty\\\\\\n\t\\N\tnan\n\t-3\t1.5\n", &result), 0));
	cr_assert(eq(sz, arrlenu(result.names), 3));
	cr_assert(eq(sz, arrlenu(result.cells), 6));
	cr_expect(eq(str, result.names[2], "c"));
	cr_expect(eq(int, result.numbers[0], 0));
	cr_expect(eq(int, result.numbers[1], 1));
	cr_expect(eq(str, result.cells[0], "x\ty\\\n"));
	cr_expect(eq(ptr, result.cells[1], NULL));
	cr_expect(eq(ptr, result.cells[2], NULL));
	cr_expect(eq(str, result.cells[3], ""));
	cr_expect(eq(str, result.cells[5], "1.5"));
	result_clear(&result);
}

Test(tsv, that_is_none_is_refused)
{
	static const char *const wrong[] = {
		"", "a\n", "a\nString", "a\tb\nString\n", "a\nString\nx\ty\n", "a\nString\nx"};
	struct result result;

	for (size_t index = 0; index < sizeof(wrong) / sizeof(wrong[0]); index++) {
		cr_expect(eq(int, parse(wrong[index], &result), -EBADMSG), "%s", wrong[index]);
		cr_expect(eq(sz, arrlenu(result.cells), 0));
	}
}

/* --- documentation -------------------------------------------------------------------------- */

Test(store, has_its_columns_in_the_documentation)
{
	static char text[65536];
	FILE *file = fopen("docs/audit.md", "r");
	size_t length = fread(text, 1, sizeof(text) - 1, file);

	text[length] = 0;
	fclose(file);
	for (int table = 0; table < TABLES; table++) {
		char *head = NULL, *at;

		cr_assert(gt(int, asprintf(&head, "**%ss**: %s.", tables[table].name, tables[table].meaning), 0));
		at = strstr(text, head);
		cr_assert(ne(ptr, at, NULL), "%s", head);
		free(head);
		for (size_t index = 0; index < tables[table].column_count; index++) {
			const struct column *column = &tables[table].columns[index];
			const char *mark = column->key ? "**" : column->optional ? "*" : "";
			char *row = NULL;

			cr_assert(gt(int,
				asprintf(&row, "| %s`%s`%s | %s |\n", mark, column->name, mark, column->meaning), 0));
			at = strstr(at, row);
			cr_assert(ne(ptr, at, NULL), "%s: %s", tables[table].name, row);
			free(row);
		}
	}
}
