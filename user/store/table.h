/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of the store: their columns, types, keys and meanings. Both
 * schemas, the encoding of records and the documentation follow from here.
 */
#ifndef HDTRACE_STORE_TABLE_H
#define HDTRACE_STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/record.h"

/* Of the tables as they are here; one that was made with another is not written to. */
#define STORE_SCHEMA_VERSION 1

/* Numbers stand in spools. */
enum table_id {
	TABLE_RUN,
	TABLE_RANK,
	TABLE_PERIOD,
	TABLE_STEP,
	TABLE_HOLDER,
	TABLE_BLOCK,
	TABLE_FINDING,
	TABLE_OOM,
	TABLE_PREDICTION,
	TABLES
};

enum column_type { COLUMN_TEXT, COLUMN_NUMBER };

struct column {
	const char *name;
	size_t offset; /* in the record */
	enum column_type type;
	bool key;
	bool optional; /* RECORD_UNKNOWN becomes NULL */
	const char *meaning;
};

struct table {
	const char *name;             /* its view is called so with an s behind */
	const struct column *columns; /* the key's first, in its order */
	size_t column_count;
	const char *partition; /* the column with the time that it is divided by, NULL: none */
	bool of_run;           /* its view has what is known of the run */
	const char *meaning;
};

extern const struct table tables[TABLES];

#endif
