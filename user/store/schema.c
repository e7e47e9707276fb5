/* SPDX-License-Identifier: BSD-2-Clause */
/* The statements that create the tables and views of either kind of store. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "containers/containers.h"
#include "store/backend.h"

/* Of the run, beside every row that is of one. */
static const char *const run_columns[] = {"job", "user", "model", "version"};
#define RUN_COLUMNS (sizeof(run_columns) / sizeof(run_columns[0]))

static void __attribute__((format(printf, 2, 3))) add(char ***statements, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) >= 0)
		arrput(*statements, text);
	va_end(arguments);
}

char *columns_text(const struct table *table, bool key_only)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (size_t index = 0; out && index < table->column_count; index++)
		if (table->columns[index].key || !key_only)
			fprintf(out, "%s%s", index ? ", " : "", table->columns[index].name);
	if (out)
		fclose(out);
	return text;
}

/* "run TEXT NOT NULL, …". To be freed. */
static char *definitions_text(const struct backend *backend, const struct table *table, const char *suffix)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (size_t index = 0; out && index < table->column_count; index++) {
		const struct column *column = &table->columns[index];

		fprintf(out, "%s%s %s%s", index ? ", " : "", column->name, column_type_name(backend, column),
			column->optional ? "" : suffix);
	}
	if (out)
		fclose(out);
	return text;
}

/* What a view selects; `fact` and `run` are put before names of columns, `format` around those of the run. */
static char *view_columns(const struct table *table, const char *run_format, const char *fact)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (size_t index = 0; out && table->of_run && index < RUN_COLUMNS; index++) {
		for (const char *at = run_format; *at; at++) {
			if (*at == '$')
				fputs(run_columns[index], out);
			else
				fputc(*at, out);
		}
		fputs(", ", out);
	}
	for (size_t index = 0; out && index < table->column_count; index++)
		fprintf(out, "%s%s%s AS %s", index ? ", " : "", fact, table->columns[index].name,
			table->columns[index].name);
	if (out)
		fclose(out);
	return text;
}

char **schema_sqlite(void)
{
	char **statements = NULL;

	for (int index = 0; index < TABLES; index++) {
		const struct table *table = &tables[index];
		char *definitions = definitions_text(&sqlite_backend, table, " NOT NULL");
		char *keys = columns_text(table, true), *columns = view_columns(table, "coalesce(r.$, '') AS $", "f.");

		add(&statements, "CREATE TABLE IF NOT EXISTS %s (%s, PRIMARY KEY (%s)) WITHOUT ROWID", table->name,
			definitions, keys);
		add(&statements, "CREATE VIEW IF NOT EXISTS %ss AS SELECT %s FROM %s f%s", table->name, columns,
			table->name, table->of_run ? " LEFT JOIN run r ON r.run = f.run" : "");
		free(definitions);
		free(keys);
		free(columns);
	}
	return statements;
}

/*
 * Rows with one key become one, at some later time, by ReplacingMergeTree, and at once for who reads with FINAL. What
 * divides a table is part of its key, and what divides it among shards too, so that rows with one key meet.
 */
static void clickhouse_table(char ***statements, const struct store_place *place, const struct table *table)
{
	bool is_shared = *place->cluster != 0;
	const char *local = is_shared ? "_local" : "",
		   *shard = table->of_run || table == &tables[TABLE_RUN] ? "run" : "job";
	char *definitions = definitions_text(&clickhouse_backend, table, ""), *keys = columns_text(table, true);
	char *partition = NULL, *engine = NULL;

	if (asprintf(&partition, table->partition ? "PARTITION BY toYYYYMM(toDateTime(%s)) " : "%s",
		    table->partition ? table->partition : "") < 0 ||
		asprintf(&engine,
			place->replicated
				? "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/%s/%s', '{replica}')"
				: "ReplacingMergeTree()",
			place->database, table->name) < 0)
		goto cleanup;
	add(statements, "CREATE TABLE IF NOT EXISTS %s%s (%s) ENGINE = %s %sORDER BY (%s)", table->name, local,
		definitions, engine, partition, keys);
	if (is_shared)
		add(statements,
			"CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = Distributed(%s, %s, %s_local, cityHash64(%s))",
			table->name, definitions, place->cluster, place->database, table->name, shard);
cleanup:
	free(definitions);
	free(keys);
	free(partition);
	free(engine);
}

static void clickhouse_view(char ***statements, const struct table *table)
{
	char *columns = view_columns(table, "$", "");

	if (table->of_run)
		add(statements,
			"CREATE VIEW IF NOT EXISTS %ss AS SELECT %s FROM (SELECT * FROM %s FINAL) AS f ANY LEFT JOIN "
			"(SELECT run, job, user, model, version FROM run FINAL) AS r USING (run)",
			table->name, columns, table->name);
	else
		add(statements, "CREATE VIEW IF NOT EXISTS %ss AS SELECT %s FROM %s FINAL", table->name, columns,
			table->name);
	free(columns);
}

char **schema_clickhouse(const struct store_place *place)
{
	char **statements = NULL;

	for (int index = 0; index < TABLES; index++)
		clickhouse_table(&statements, place, &tables[index]);
	for (int index = 0; index < TABLES; index++)
		clickhouse_view(&statements, &tables[index]);
	add(&statements, "CREATE TABLE IF NOT EXISTS hdtrace_schema (version Int64) ENGINE = ReplacingMergeTree() "
			 "ORDER BY version");
	add(&statements, "INSERT INTO hdtrace_schema VALUES (%d)", STORE_SCHEMA_VERSION);
	return statements;
}
