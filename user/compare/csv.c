// SPDX-License-Identifier: BSD-2-Clause
/* A CSV reader of one pass over the bytes. Its input is somebody else's: every length is bounded. */
#include "csv.h"

#include <errno.h>
#include <stdlib.h>

#include "containers/containers.h"

void csv_open(struct csv *csv, FILE *file)
{
	*csv = (struct csv){.file = file, .at = 1};
}

void csv_close(struct csv *csv)
{
	arrfree(csv->text);
	arrfree(csv->begins);
}

static int refuse(struct csv *csv, const char *reason)
{
	csv->reason = reason;
	csv->field = arrlenu(csv->begins);
	return -EBADMSG;
}

static int field_put(struct csv *csv, int c)
{
	if (c == '\0')
		return refuse(csv, "a NUL byte: this is no text");
	if (arrlenu(csv->text) - csv->begins[arrlenu(csv->begins) - 1] >= CSV_FIELD_MAX)
		return refuse(csv, "the field is longer than 16 MiB");
	arrput(csv->text, (char)c);
	return 0;
}

/* Behind the opening quote, to behind the closing one. */
static int quoted_read(struct csv *csv)
{
	for (;;) {
		int c = getc_unlocked(csv->file), error;

		if (c == EOF)
			return refuse(csv, "the quotes are not closed");
		if (c == '"') {
			int next = getc_unlocked(csv->file);

			if (next != '"') {
				if (next != EOF)
					ungetc(next, csv->file);
				return 0;
			}
		}
		csv->at += c == '\n';
		error = field_put(csv, c);
		if (error)
			return error;
	}
}

/* One field. Gives what ended it: ',', '\n', EOF, or a negative errno. */
static int field_read(struct csv *csv, int *end)
{
	int c = getc_unlocked(csv->file), error = 0;

	if (c == '"') {
		error = quoted_read(csv);
		c = getc_unlocked(csv->file);
		if (!error && c != ',' && c != '\r' && c != '\n' && c != EOF)
			error = refuse(csv, "there is something behind the closing quote");
	}
	for (; !error && c != ',' && c != '\n' && c != EOF; c = getc_unlocked(csv->file)) {
		int next;

		/* A carriage return is part of the line's end, nothing else. */
		if (c != '\r') {
			error = field_put(csv, c);
			continue;
		}
		next = getc_unlocked(csv->file);
		if (next != '\n' && next != EOF)
			error = refuse(csv, "a carriage return inside the line");
		else if (next != EOF)
			ungetc(next, csv->file);
	}
	*end = c;
	return error;
}

static int row_read(struct csv *csv, int *end)
{
	arrsetlen(csv->text, 0);
	arrsetlen(csv->begins, 0);
	csv->line = csv->at;
	do {
		int error;

		if (arrlenu(csv->begins) >= CSV_FIELDS_MAX)
			return refuse(csv, "the row has more than 256 fields");
		arrput(csv->begins, arrlenu(csv->text));
		error = field_read(csv, end);
		if (error)
			return error;
		arrput(csv->text, '\0');
	} while (*end == ',');
	csv->at += *end == '\n';
	return ferror(csv->file) ? -EIO : 0;
}

int csv_next(struct csv *csv)
{
	int end, error;

	do {
		error = row_read(csv, &end);
		if (error)
			return error;
		if (csv_count(csv) > 1 || *csv_field(csv, 0))
			return 1;
	} while (end != EOF);
	return 0;
}

size_t csv_count(const struct csv *csv)
{
	return arrlenu(csv->begins);
}

const char *csv_field(const struct csv *csv, size_t index)
{
	return index < arrlenu(csv->begins) ? csv->text + csv->begins[index] : "";
}

bool csv_number(const char *text, int64_t *number)
{
	char *end;

	if ((*text < '0' || *text > '9') && *text != '-')
		return false;
	errno = 0;
	*number = strtoll(text, &end, 10);
	return !errno && end != text && !*end;
}
