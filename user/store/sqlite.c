/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store in a file of SQLite. A batch is one transaction that is on disk when it
 * is committed; who writes at the same time is waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "containers/containers.h"
#include "store/backend.h"

/* In the header of the file (sqlite.org/fileformat2.html, application ID): "HDTa". */
#define APPLICATION_ID 0x48445461
#define TEXT(number) #number
#define NUMBER_TEXT(number) TEXT(number)
#define BUSY_MS 30000
#define BUSY_PAUSE_MS 20

struct sqlite_state {
	sqlite3 *database;
	sqlite3_stmt *inserts[TABLES];
	dev_t device; /* and inode of the file that is open */
	ino_t inode;
};

/* What a person can do about an error of SQLite, and whether trying again may help. */
static int fail(struct store *store, const char *doing)
{
	struct sqlite_state *state = store->state;
	int code = sqlite3_errcode(state->database) & 0xff;

	if (code == SQLITE_FULL)
		return store_fail(
			store, -ENOSPC, "%s: the disk is full, or the file may not grow: make room", store_name(store));
	if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
		return store_fail(store, -EAGAIN, "%s: another process has it locked", store_name(store));
	if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
		return store_fail(store, -EPROTO, "%s: it is no store, or is damaged (%s): take another file",
			store_name(store), sqlite3_errmsg(state->database));
	return store_fail(store, code == SQLITE_READONLY || code == SQLITE_PERM ? -EACCES : -EIO, "%s: %s: %s",
		store_name(store), doing, sqlite3_errmsg(state->database));
}

static int run(struct store *store, const char *sql)
{
	struct sqlite_state *state = store->state;

	return sqlite3_exec(state->database, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(store, "cannot be used");
}

/* --- functions of ClickHouse that queries use --------------------------------------- */

/* argMax(value, by), argMin(value, by): the value of the row where `by` is highest, or lowest. */
struct arg_best {
	sqlite3_value *value, *by;
};

static void arg_step(sqlite3_context *context, sqlite3_value **arguments, bool is_max)
{
	struct arg_best *best = sqlite3_aggregate_context(context, sizeof(*best));
	sqlite3_int64 number = sqlite3_value_int64(arguments[1]);

	if (!best || sqlite3_value_type(arguments[1]) == SQLITE_NULL)
		return;
	if (best->by) {
		bool is_real = sqlite3_value_type(arguments[1]) == SQLITE_FLOAT ||
		               sqlite3_value_type(best->by) == SQLITE_FLOAT;
		double difference = sqlite3_value_double(arguments[1]) - sqlite3_value_double(best->by);
		bool is_more = is_real ? difference > 0 : number > sqlite3_value_int64(best->by);
		bool is_less = is_real ? difference < 0 : number < sqlite3_value_int64(best->by);

		if (!(is_max ? is_more : is_less))
			return;
	}
	sqlite3_value_free(best->value);
	sqlite3_value_free(best->by);
	best->value = sqlite3_value_dup(arguments[0]);
	best->by = sqlite3_value_dup(arguments[1]);
}

static void arg_max_step(sqlite3_context *context, int count, sqlite3_value **arguments)
{
	(void)count;
	arg_step(context, arguments, true);
}

static void arg_min_step(sqlite3_context *context, int count, sqlite3_value **arguments)
{
	(void)count;
	arg_step(context, arguments, false);
}

static void arg_end(sqlite3_context *context)
{
	struct arg_best *best = sqlite3_aggregate_context(context, 0);

	if (!best || !best->value)
		return;
	sqlite3_result_value(context, best->value);
	sqlite3_value_free(best->value);
	sqlite3_value_free(best->by);
}

static int functions_add(struct store *store)
{
	struct sqlite_state *state = store->state;
	int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;

	if (sqlite3_create_function(state->database, "argMax", 2, flags, NULL, NULL, arg_max_step, arg_end) ||
		sqlite3_create_function(state->database, "argMin", 2, flags, NULL, NULL, arg_min_step, arg_end))
		return fail(store, "cannot add functions");
	return 0;
}

/* --- opening ---------------------------------------------------------------------- */

/* Another process writes: wait, unless this one is to end. */
static int wait_for_others(void *context, int times)
{
	if (store_is_stopped(context) || times >= BUSY_MS / BUSY_PAUSE_MS)
		return 0;
	usleep(BUSY_PAUSE_MS * 1000);
	return 1;
}

static void database_close(struct sqlite_state *state)
{
	for (int table = 0; table < TABLES; table++) {
		sqlite3_finalize(state->inserts[table]);
		state->inserts[table] = NULL;
	}
	sqlite3_close(state->database);
	state->database = NULL;
}

/* Somebody may have removed the file, or put another in its place: what is written into the old one nobody finds. */
static bool file_is_gone(const struct store *store)
{
	const struct sqlite_state *state = store->state;
	struct stat status;

	return state->database &&
	       (stat(store->place.path, &status) || status.st_dev != state->device || status.st_ino != state->inode);
}

static void file_remember(struct store *store)
{
	struct sqlite_state *state = store->state;
	struct stat status;

	if (stat(store->place.path, &status))
		return;
	state->device = status.st_dev;
	state->inode = status.st_ino;
}

/* It is created by sqlite_init only. */
static int sqlite_open(struct store *store)
{
	store->state = calloc(1, sizeof(struct sqlite_state));
	return store->state ? 0 : store_fail(store, -ENOMEM, "no memory");
}

static int database_open(struct store *store, int flags)
{
	struct sqlite_state *state = store->state;
	int error;

	if (state->database)
		return 0;
	if (sqlite3_open_v2(store->place.path, &state->database, flags, NULL) != SQLITE_OK) {
		struct stat status;
		bool is_missing = stat(store->place.path, &status) && errno == ENOENT;

		error = is_missing && !(flags & SQLITE_OPEN_CREATE)
		                ? store_fail(store, -ENOENT, "%s: there is no store yet: run `hdtrace store init`",
					  store_name(store))
		                : store_fail(store, -EACCES, "%s: cannot be opened: %s", store_name(store),
					  sqlite3_errmsg(state->database));
		sqlite3_close(state->database);
		state->database = NULL;
		return error;
	}
	sqlite3_extended_result_codes(state->database, 1);
	sqlite3_busy_handler(state->database, wait_for_others, store);
	file_remember(store);
	error = functions_add(store);
	/* A commit is on disk when it returns: what sent it removes it from its spool then. */
	return error ? error
	             : run(store, "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536");
}

static void sqlite_close(struct store *store)
{
	struct sqlite_state *state = store->state;

	if (!state)
		return;
	database_close(state);
	free(state);
}

static int pragma_number(struct store *store, const char *sql, int64_t *number)
{
	struct result result = {0};
	int error = store->backend->query(store, sql, NULL, 0, &result);

	if (!error)
		*number = arrlenu(result.cells) && result.cells[0] ? strtoll(result.cells[0], NULL, 10) : 0;
	result_clear(&result);
	return error;
}

/* Only a file that nobody else uses for something else. */
static int owner_check(struct store *store)
{
	int64_t owner = 0, objects = 0;
	int error = pragma_number(store, "PRAGMA application_id", &owner);

	if (!error)
		error = pragma_number(store, "SELECT count(*) FROM sqlite_schema", &objects);
	if (error || owner == APPLICATION_ID || (!owner && !objects))
		return error;
	return store_fail(
		store, -EPROTO, "%s: it is a database of something else: take another file", store_name(store));
}

static int sqlite_init(struct store *store)
{
	char **statements;
	int64_t version = 0;
	int error;

	if (file_is_gone(store))
		database_close(store->state);
	error = database_open(store, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
	if (!error)
		error = owner_check(store);
	if (!error)
		error = pragma_number(store, "PRAGMA user_version", &version);
	if (error || version) /* what is there is judged by store_check */
		return error;
	/* Not in a transaction: what it says is kept in the file, and stays. */
	error = run(store, "PRAGMA journal_mode = WAL");
	if (!error)
		error = run(store, "BEGIN IMMEDIATE");
	statements = schema_sqlite();
	for (size_t index = 0; !error && index < arrlenu(statements); index++)
		error = run(store, statements[index]);
	texts_free(statements);
	if (!error)
		error = run(store,
			"PRAGMA application_id = " NUMBER_TEXT(APPLICATION_ID) ";PRAGMA user_version = " NUMBER_TEXT(
				STORE_SCHEMA_VERSION) ";COMMIT");
	return error;
}

/* --- rows in ------------------------------------------------------------------------ */

static int insert_prepare(struct store *store, enum table_id id)
{
	struct sqlite_state *state = store->state;
	const struct table *table = &tables[id];
	char *columns = columns_text(table, false), *sql = NULL, places[128];
	int error = -ENOMEM;

	for (size_t index = 0; index < table->column_count; index++)
		memcpy(places + 2 * index, ",?", 2);
	places[2 * table->column_count] = 0;
	if (columns &&
		asprintf(&sql, "INSERT OR REPLACE INTO %s (%s) VALUES (%s)", table->name, columns, places + 1) >= 0)
		error = sqlite3_prepare_v3(state->database, sql, -1, SQLITE_PREPARE_PERSISTENT, &state->inserts[id],
				NULL) == SQLITE_OK
		                ? 0
		                : fail(store, "cannot be written");
	free(columns);
	free(sql);
	return error;
}

static int row_insert(struct store *store, const struct table *table, sqlite3_stmt *insert, struct row_cursor *cursor)
{
	struct row_value value;
	int code;

	for (size_t index = 0; index < table->column_count; index++) {
		int place = (int)index + 1;

		if (!row_value_next(cursor, &table->columns[index], &value))
			return store_fail(store, -EBADMSG, "rows of table %s are damaged", table->name);
		if (table->columns[index].type == COLUMN_TEXT)
			sqlite3_bind_text(insert, place, value.text, (int)value.length, SQLITE_STATIC);
		else if (value.unknown)
			sqlite3_bind_null(insert, place);
		else
			sqlite3_bind_int64(insert, place, value.number);
	}
	code = sqlite3_step(insert);
	sqlite3_reset(insert);
	return code == SQLITE_DONE ? 0 : fail(store, "cannot be written");
}

static int sqlite_put(struct store *store, const struct batch *batch)
{
	struct sqlite_state *state = store->state;
	const struct table *table = &tables[batch->table];
	struct row_cursor cursor = {batch->bytes, batch->bytes + arrlenu(batch->bytes)};
	int error = database_open(store, SQLITE_OPEN_READWRITE);

	if (!error && !state->inserts[batch->table])
		error = insert_prepare(store, batch->table);
	if (!error)
		error = run(store, "BEGIN IMMEDIATE");
	if (error)
		return error;
	for (uint32_t row = 0; !error && row < batch->rows; row++)
		error = row_insert(store, table, state->inserts[batch->table], &cursor);
	if (!error)
		error = run(store, "COMMIT");
	/* What went wrong may have rolled it back by itself. */
	if (error && !sqlite3_get_autocommit(state->database))
		sqlite3_exec(state->database, "ROLLBACK", NULL, NULL, NULL);
	return error;
}

/* --- queries ------------------------------------------------------------------------ */

static int parameters_put(struct store *store, const struct parameter *parameters, size_t count)
{
	struct sqlite_state *state = store->state;
	char *create = NULL, *insert = NULL;
	size_t create_length, insert_length;
	FILE *create_out = open_memstream(&create, &create_length),
	     *insert_out = open_memstream(&insert, &insert_length);
	sqlite3_stmt *statement = NULL;
	int error = -ENOMEM;

	if (!create_out || !insert_out)
		goto cleanup;
	fputs("DROP TABLE IF EXISTS temp.parameter; CREATE TEMP TABLE parameter (", create_out);
	fputs("INSERT INTO temp.parameter VALUES (", insert_out);
	for (size_t index = 0; index < count; index++) {
		fprintf(create_out, "%s%s", index ? ", " : "", parameters[index].name);
		fputs(index ? ", ?" : "?", insert_out);
	}
	fputc(')', create_out);
	fputc(')', insert_out);
	if (fflush(create_out) || fflush(insert_out))
		goto cleanup;
	error = run(store, create);
	if (!error && sqlite3_prepare_v2(state->database, insert, -1, &statement, NULL) != SQLITE_OK)
		error = fail(store, "parameters");
	for (size_t index = 0; !error && index < count; index++)
		if (parameters[index].type == COLUMN_TEXT)
			sqlite3_bind_text(statement, (int)index + 1, parameters[index].text, -1, SQLITE_STATIC);
		else
			sqlite3_bind_int64(statement, (int)index + 1, parameters[index].number);
	if (!error && sqlite3_step(statement) != SQLITE_DONE)
		error = fail(store, "parameters");
cleanup:
	sqlite3_finalize(statement);
	if (create_out)
		fclose(create_out);
	if (insert_out)
		fclose(insert_out);
	free(create);
	free(insert);
	return error;
}

static void row_take(sqlite3_stmt *statement, struct result *result)
{
	for (int column = 0; column < sqlite3_column_count(statement); column++) {
		int type = sqlite3_column_type(statement, column);
		const char *text = (const char *)sqlite3_column_text(statement, column);

		if (type == SQLITE_TEXT || type == SQLITE_BLOB)
			result->numbers[column] = false;
		arrput(result->cells, type == SQLITE_NULL || !text ? NULL : strdup(text));
	}
}

static int sqlite_query(
	struct store *store, const char *sql, const struct parameter *parameters, size_t count, struct result *result)
{
	struct sqlite_state *state = store->state;
	sqlite3_stmt *statement = NULL;
	int error = database_open(store, SQLITE_OPEN_READWRITE), code;

	if (!error && count)
		error = parameters_put(store, parameters, count);
	if (error)
		return error;
	if (sqlite3_prepare_v2(state->database, sql, -1, &statement, NULL) != SQLITE_OK)
		return fail(store, "the query is wrong");
	if (!statement || !sqlite3_stmt_readonly(statement)) {
		sqlite3_finalize(statement);
		return store_fail(store, -EPERM, "a query may only read");
	}
	for (int column = 0; column < sqlite3_column_count(statement); column++) {
		arrput(result->names, strdup(sqlite3_column_name(statement, column)));
		arrput(result->numbers, true);
	}
	while ((code = sqlite3_step(statement)) == SQLITE_ROW)
		row_take(statement, result);
	if (code != SQLITE_DONE)
		error = fail(store, "the query failed");
	sqlite3_finalize(statement);
	if (error)
		result_clear(result);
	return error;
}

const struct backend sqlite_backend = {
	.open = sqlite_open,
	.close = sqlite_close,
	.init = sqlite_init,
	.put = sqlite_put,
	.query = sqlite_query,
	.columns_query = "SELECT m.name, c.name, c.type FROM sqlite_schema m, pragma_table_info(m.name) c "
			 "WHERE m.type = 'table' ORDER BY m.name, c.cid",
	.version_query = "PRAGMA user_version",
	.text_type = "TEXT",
	.number_type = "INTEGER",
	.optional_type = "INTEGER",
};
