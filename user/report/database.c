/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SQLite, told that nobody else sees the file before it is whole: without a
 * journal and without waiting for the disk. What fails is thrown away.
 */
#include "database.h"

#include <errno.h>
#include <stdio.h>

#include "containers/containers.h"
#include "text.h"

#define INSERT_BYTES 512

static void check(struct database *database, int result)
{
	if (result == SQLITE_OK || result == SQLITE_DONE || database->error)
		return;
	switch (result & 0xff) {
	case SQLITE_FULL:
		database->error = -ENOSPC;
		return;
	case SQLITE_NOMEM:
		database->error = -ENOMEM;
		return;
	default:
		database->error = -EIO;
	}
}

void database_run(struct database *database, const char *sql)
{
	if (!database->error)
		check(database, sqlite3_exec(database->connection, sql, NULL, NULL, NULL));
}

void database_open(struct database *database, const char *path)
{
	*database = (struct database){NULL, 0};
	check(database, sqlite3_open_v2(path, &database->connection, SQLITE_OPEN_READWRITE, NULL));
	database_run(database, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
			       "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536; BEGIN");
}

int database_close(struct database *database)
{
	database_run(database, "COMMIT");
	check(database, sqlite3_close(database->connection));
	database->connection = NULL;
	return database->error;
}

void table_open(struct table *table, struct database *database, const char *name, int columns)
{
	char insert[INSERT_BYTES];
	int length = snprintf(insert, sizeof(insert), "INSERT INTO %s VALUES (?", name);

	*table = (struct table){.database = database};
	for (int i = 1; i < columns; i++)
		length += snprintf(insert + length, sizeof(insert) - (size_t)length, ",?");
	snprintf(insert + length, sizeof(insert) - (size_t)length, ")");
	if (!database->error)
		check(database, sqlite3_prepare_v2(database->connection, insert, -1, &table->insert, NULL));
}

void table_close(struct table *table)
{
	sqlite3_finalize(table->insert); /* its error was that of a row */
	arrfree(table->text);
}

void row_integer(struct table *table, int64_t value)
{
	if (!table->database->error)
		check(table->database, sqlite3_bind_int64(table->insert, ++table->column, value));
}

void row_unsigned(struct table *table, uint64_t value)
{
	row_integer(table, (int64_t)value);
}

void row_integer_if(struct table *table, bool known, int64_t value)
{
	if (known)
		row_integer(table, value);
	else
		table->column++; /* what is not bound is NULL */
}

void row_text(struct table *table, const char *text)
{
	arrsetlen(table->text, 0);
	table->text = text_append_replaced(table->text, text, "", ' ');
	arrput(table->text, '\0');
	if (!table->database->error)
		check(table->database,
			sqlite3_bind_text(table->insert, ++table->column, table->text, -1, SQLITE_TRANSIENT));
}

void row_end(struct table *table)
{
	if (!table->database->error) {
		check(table->database, sqlite3_step(table->insert));
		sqlite3_reset(table->insert); /* gives the error of the step once more */
		sqlite3_clear_bindings(table->insert);
	}
	table->column = 0;
	table->rows++;
}

void text_table_open(struct text_table *texts, struct database *database, const char *name)
{
	*texts = (struct text_table){.numbers = NULL};
	table_open(&texts->table, database, name, 2);
	sh_new_strdup(texts->numbers);
}

void text_table_close(struct text_table *texts)
{
	table_close(&texts->table);
	shfree(texts->numbers);
	arrfree(texts->clean);
}

int64_t text_number(struct text_table *texts, const char *text)
{
	int64_t number = texts->table.rows;
	ptrdiff_t at;

	/* As it will be in the table: two that differ in wrong bytes alone are one. */
	arrsetlen(texts->clean, 0);
	texts->clean = text_append_replaced(texts->clean, text, "", ' ');
	arrput(texts->clean, '\0');
	at = shgeti(texts->numbers, texts->clean);
	if (at >= 0)
		return texts->numbers[at].value;
	shput(texts->numbers, texts->clean, number);
	row_integer(&texts->table, number);
	row_text(&texts->table, texts->clean);
	row_end(&texts->table);
	return number;
}
