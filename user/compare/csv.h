/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of a CSV file, as Python's csv reads them by default: commas, fields in
 * quotes where needed, CR LF or LF. What is no CSV is refused, with its place.
 */
#ifndef HDTRACE_COMPARE_CSV_H
#define HDTRACE_COMPARE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CSV_FIELD_MAX (1u << 24) /* bytes of a field: stacks of Python have some thousands */
#define CSV_FIELDS_MAX 256       /* of a row */

struct csv {
	FILE *file;
	char *text;         /* stb_ds: fields of the row, each with its NUL */
	size_t *begins;     /* stb_ds: where each field begins in it */
	uint64_t line;      /* where the row begins, from 1 */
	uint64_t at;        /* line that is being read */
	const char *reason; /* why -EBADMSG was given */
	size_t field;       /* and in which field, from 1 */
};

/* The caller keeps the file open, and closes it. */
void csv_open(struct csv *csv, FILE *file);
void csv_close(struct csv *csv);

/*
 * The next row that is not empty: 1; 0: there are no more; -EBADMSG: it is no row (csv->reason, ->line, ->field); or
 * another negative errno of the file.
 */
int csv_next(struct csv *csv);

size_t csv_count(const struct csv *csv);
/* A field of the row, from 0; "" behind the last. Until the next row. */
const char *csv_field(const struct csv *csv, size_t index);

/* A whole number, and nothing else. False where it is none. */
bool csv_number(const char *text, int64_t *number);

#endif
