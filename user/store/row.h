/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of one table as bytes: in ClickHouse's RowBinary, so that a batch is the
 * body of an INSERT as it is. A number is an Int64 of 8 bytes, least
 * significant first, before it a byte that is 1 for NULL (and ends the value)
 * where it is optional; a text is its length as LEB128, then its bytes.
 * Source: ClickHouse's documentation of formats, RowBinary.
 */
#ifndef HDTRACE_STORE_ROW_H
#define HDTRACE_STORE_ROW_H

#include "store/table.h"

/* Longer texts are cut. */
#define ROW_TEXT_MAX 4096
/* A batch is given on when it has this many bytes; one row more fits below BATCH_BYTES_MAX. */
#define BATCH_BYTES 524288
#define BATCH_BYTES_MAX 1048576

struct batch {
	enum table_id table;
	uint32_t rows;
	uint8_t *bytes; /* stb_ds */
};

/* `record`: the struct of the batch's table. */
void batch_add(struct batch *batch, const void *record);
void batch_clear(struct batch *batch);

/* Where a walk through the values of rows is. */
struct row_cursor {
	const uint8_t *at, *end;
};

struct row_value {
	bool unknown;
	int64_t number;
	const char *text; /* not ended by NUL */
	size_t length;
};

/* The next value, which is of `column`. Returns false when the bytes are none. */
bool row_value_next(struct row_cursor *cursor, const struct column *column, struct row_value *value);

/* Are the bytes exactly so many rows of the table? */
bool rows_check(enum table_id table, uint32_t rows, const uint8_t *bytes, size_t size);

#endif
