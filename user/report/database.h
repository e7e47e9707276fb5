/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A database that is written once, in one transaction: rows of tables, and texts
 * that have a number each. The first error is kept; after it nothing happens.
 */
#ifndef HDTRACE_REPORT_DATABASE_H
#define HDTRACE_REPORT_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

struct database {
	sqlite3 *connection;
	int error; /* negative errno */
};

/* The rows of one table, while they are added. */
struct table {
	struct database *database;
	sqlite3_stmt *insert;
	int column; /* of the row at hand */
	int64_t rows;
	char *text; /* stb_ds: the last one */
};

/* The file must be there and empty. */
void database_open(struct database *database, const char *path);
void database_run(struct database *database, const char *sql);
/* Ends the transaction and closes; returns the first error. */
int database_close(struct database *database);

void table_open(struct table *table, struct database *database, const char *name, int columns);
void table_close(struct table *table);

/* The values of a row, in the order of its columns; then row_end. */
void row_integer(struct table *table, int64_t value);
void row_unsigned(struct table *table, uint64_t value);
void row_integer_if(struct table *table, bool known, int64_t value); /* else NULL */
/* As in the CSV: wrong bytes are U+FFFD, line breaks spaces. */
void row_text(struct table *table, const char *text);
void row_end(struct table *table);

/* A table of a number and a text each. */
struct text_table {
	struct table table;
	char *clean; /* stb_ds: the last text */
	struct {
		char *key;
		int64_t value;
	} * numbers; /* stb_ds map of strings */
};

void text_table_open(struct text_table *texts, struct database *database, const char *name);
void text_table_close(struct text_table *texts);
/* The number of a text; it is added when it is new. */
int64_t text_number(struct text_table *texts, const char *text);

#endif
