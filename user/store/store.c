/* SPDX-License-Identifier: BSD-2-Clause */
/* A store of either kind, and whether its tables are the ones of table.h. */
#include "store/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "containers/containers.h"
#include "store/backend.h"

int store_fail(struct store *store, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(store->fault, sizeof(store->fault), format, arguments);
	va_end(arguments);
	return error;
}

int store_result(struct store *store, int error)
{
	if (error && !*store->fault)
		store_fail(store, error, "%s: %s", store_name(store), strerror(-error));
	return error;
}

int store_open(const char *url, struct store **result, char fault[STORE_FAULT_BYTES])
{
	struct store *store = calloc(1, sizeof(*store));
	const char *reason = store ? place_parse(url, &store->place) : "no memory";
	int error = store ? -EINVAL : -ENOMEM;

	*result = NULL;
	if (reason) {
		snprintf(fault, STORE_FAULT_BYTES, "%s", reason);
		goto cleanup;
	}
	store->backend = store->place.is_server ? &clickhouse_backend : &sqlite_backend;
	error = store->backend->open(store);
	if (!error) {
		*result = store;
		return 0;
	}
	snprintf(fault, STORE_FAULT_BYTES, "%s", store->fault);
cleanup:
	store_close(store);
	return error;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	if (store->backend)
		store->backend->close(store);
	place_clear(&store->place);
	free(store);
}

void store_stop_by(struct store *store, const volatile sig_atomic_t *stop)
{
	store->stop = stop;
}

const char *store_name(const struct store *store)
{
	return store->place.name;
}

const char *store_fault(const struct store *store)
{
	return store->fault;
}

char *store_spool_folder(const struct store *store, const char *root)
{
	const char *name = store->place.name;
	char *whole = NULL, *folder = NULL, *here = NULL;

	/* A file is the same one from wherever it is named. */
	if (!store->place.is_server && *name != '/')
		here = getcwd(NULL, 0);
	if (asprintf(&whole, "%s%s%s", here ? here : "", here ? "/" : "", name) < 0)
		whole = NULL;
	if (!whole || asprintf(&folder, "%s/%016llx", root, (unsigned long long)XXH3_64bits(whole, strlen(whole))) < 0)
		folder = NULL;
	free(here);
	free(whole);
	return folder;
}

const char *column_type_name(const struct backend *backend, const struct column *column)
{
	if (column->type == COLUMN_TEXT)
		return backend->text_type;
	return column->optional ? backend->optional_type : backend->number_type;
}

/* -ENOENT: no schema was ever made there. */
static int version_check(struct store *store)
{
	struct result result = {0};
	int error = store->backend->query(store, store->backend->version_query, NULL, 0, &result);
	long version = 0;

	if (error)
		return error;
	if (arrlenu(result.cells) && result.cells[0])
		version = strtol(result.cells[0], NULL, 10);
	result_clear(&result);
	if (!version)
		return store_fail(
			store, -ENOENT, "%s: there is no store yet: run `hdtrace store init`", store_name(store));
	if (version == STORE_SCHEMA_VERSION)
		return 0;
	return store_fail(store, -EPROTO, "%s: its tables are of version %ld and this hdtrace knows version %d: %s",
		store_name(store), version, STORE_SCHEMA_VERSION,
		version > STORE_SCHEMA_VERSION ? "install a newer hdtrace" : "start a new store beside it");
}

/* The column of a table that is not as it should be, NULL: none. `cells`: table, column, type of each. */
static const struct column *column_wrong(const struct backend *backend, const struct table *table, char **cells)
{
	size_t at = 0, count = arrlenu(cells);

	while (at < count && strcmp(cells[at], table->name) != 0)
		at += 3;
	for (size_t index = 0; index < table->column_count; index++, at += 3) {
		const struct column *column = &table->columns[index];

		if (at >= count || strcmp(cells[at], table->name) != 0 || strcmp(cells[at + 1], column->name) != 0 ||
			strcmp(cells[at + 2], column_type_name(backend, column)) != 0)
			return column;
	}
	return NULL;
}

static int columns_check(struct store *store)
{
	struct result result = {0};
	int error = store->backend->query(store, store->backend->columns_query, NULL, 0, &result);

	for (int table = 0; !error && table < TABLES; table++) {
		const struct column *wrong = column_wrong(store->backend, &tables[table], result.cells);

		if (wrong)
			error = store_fail(store, -EPROTO,
				"%s: table %s has not the column %s that it should have at its place: "
				"somebody changed it; start a new store",
				store_name(store), tables[table].name, wrong->name);
	}
	result_clear(&result);
	return error;
}

int store_check(struct store *store)
{
	int error;

	store->fault[0] = '\0';
	error = version_check(store);
	return store_result(store, error ? error : columns_check(store));
}

int store_init(struct store *store)
{
	int error;

	store->fault[0] = '\0';
	error = store->backend->init(store);
	return error ? store_result(store, error) : store_check(store);
}

int store_put(struct store *store, const struct batch *batch)
{
	store->fault[0] = '\0';
	return batch->rows ? store_result(store, store->backend->put(store, batch)) : 0;
}

int store_query(
	struct store *store, const char *sql, const struct parameter *parameters, size_t count, struct result *result)
{
	store->fault[0] = '\0';
	return store_result(store, store->backend->query(store, sql, parameters, count, result));
}

void texts_free(char **texts)
{
	for (size_t index = 0; index < arrlenu(texts); index++)
		free(texts[index]);
	arrfree(texts);
}

void result_clear(struct result *result)
{
	texts_free(result->names);
	texts_free(result->cells);
	arrfree(result->numbers);
	*result = (struct result){0};
}
