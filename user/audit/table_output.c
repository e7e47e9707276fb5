/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables, JSON and CSV of a query's answer. */
#include "audit/table_output.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "containers/containers.h"
#include "findings/words.h"
#include "report/json_writer.h"
#include "report/text.h"

#define CELL_BYTES 64
/* Columns of a terminal that a text may take; a longer one loses its front, which says least. */
#define TEXT_COLUMNS 48
#define MICROSECONDS_OF_MILLISECOND 1000.0

static bool name_ends(const char *name, const char *suffix)
{
	size_t length = strlen(name), suffix_length = strlen(suffix);

	return length >= suffix_length && !strcmp(name + length - suffix_length, suffix);
}

/* --- numbers ---------------------------------------------------------------------- */

/* The same number in the same way, whichever store said it: 3.0 is 3. */
static void number_write(char text[CELL_BYTES], const char *cell)
{
	if (strpbrk(cell, ".eE"))
		snprintf(text, CELL_BYTES, "%.15g", strtod(cell, NULL));
	else
		snprintf(text, CELL_BYTES, "%.*s", CELL_BYTES - 1, cell);
}

static void bytes_write(char text[CELL_BYTES], double bytes)
{
	char size[SIZE_TEXT_BYTES];

	snprintf(text, CELL_BYTES, "%s%s", bytes < 0 ? "-" : "", size_format(size, (uint64_t)fabs(bytes)));
}

static void time_write(char text[CELL_BYTES], const char *cell)
{
	time_t time = strtoll(cell, NULL, 10);
	struct tm parts;

	if (!gmtime_r(&time, &parts) || !strftime(text, CELL_BYTES, "%Y-%m-%d %H:%M:%S", &parts))
		number_write(text, cell);
}

static void person_number_write(char text[CELL_BYTES], const char *name, const char *cell)
{
	if (name_ends(name, "_bytes") || strstr(name, "_bytes_per_"))
		bytes_write(text, strtod(cell, NULL));
	else if (name_ends(name, "_us"))
		snprintf(text, CELL_BYTES, "%.1f ms", strtod(cell, NULL) / MICROSECONDS_OF_MILLISECOND);
	else if (!strcmp(name, "time") || name_ends(name, "_time"))
		time_write(text, cell);
	else
		number_write(text, cell);
}

/* --- tables ---------------------------------------------------------------------- */

/* Columns that a text takes: code points, of which none moves the cursor. */
static size_t text_columns(const char *text)
{
	const char *end = text + strlen(text);
	size_t columns = 0;

	for (; text < end; columns++)
		text_next(&text, end);
	return columns;
}

/* The text as it is shown: cut in front, control characters replaced. stb_ds with NUL. */
static char *text_shown(const char *cell)
{
	const char *at = cell, *end = cell + strlen(cell);
	size_t columns = text_columns(cell), skip = columns > TEXT_COLUMNS ? columns - TEXT_COLUMNS + 1 : 0;
	char *text = NULL;

	if (skip)
		memcpy(arraddnptr(text, 3), "…", 3);
	while (at < end) {
		const char *from = at;
		uint32_t code = text_next(&at, end);

		if (skip) {
			skip--;
			continue;
		}
		if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == TEXT_REPLACEMENT)
			arrput(text, '?');
		else
			memcpy(arraddnptr(text, (size_t)(at - from)), from, (size_t)(at - from));
	}
	arrput(text, 0);
	return text;
}

static char *cell_shown(const struct result *result, size_t column, const char *cell)
{
	char number[CELL_BYTES];

	if (!cell)
		return text_shown("-");
	if (!result->numbers[column])
		return text_shown(cell);
	person_number_write(number, result->names[column], cell);
	return text_shown(number);
}

/* "of_parameters_bytes" heads the column as "of parameters". */
static char *head_shown(const char *name)
{
	char *head = NULL;
	size_t length = strlen(name);

	if (name_ends(name, "_bytes") && length > strlen("_bytes"))
		length -= strlen("_bytes");
	else if (name_ends(name, "_us"))
		length -= strlen("_us");
	for (size_t index = 0; index < length; index++)
		arrput(head, name[index]);
	arrput(head, 0);
	for (char *at = head; *at; at++)
		*at = *at == '_' ? ' ' : *at;
	return head;
}

static void shown_write(FILE *out, const char *text, size_t width, bool is_right, bool is_last)
{
	size_t columns = text_columns(text);

	for (size_t pad = columns; is_right && pad < width; pad++)
		fputc(' ', out);
	fputs(text, out);
	for (size_t pad = columns; !is_right && !is_last && pad < width; pad++)
		fputc(' ', out);
	fputs(is_last ? "\n" : "  ", out);
}

static void table_write(FILE *out, const struct query *query, const struct result *result, size_t rows)
{
	size_t columns = arrlenu(result->names), *widths = NULL;
	char **shown = NULL;

	fprintf(out, "%s\n\n", query->title);
	if (!rows) {
		fputs("nothing\n", out);
		return;
	}
	arrzero(widths, columns);
	for (size_t index = 0; index < columns; index++)
		arrput(shown, head_shown(result->names[index]));
	for (size_t index = 0; index < rows * columns; index++)
		arrput(shown, cell_shown(result, index % columns, result->cells[index]));
	for (size_t index = 0; index < arrlenu(shown); index++) {
		size_t width = text_columns(shown[index]);

		widths[index % columns] = width > widths[index % columns] ? width : widths[index % columns];
	}
	for (size_t index = 0; index < arrlenu(shown); index++) {
		size_t column = index % columns;

		shown_write(out, shown[index], widths[column], result->numbers[column], column + 1 == columns);
		arrfree(shown[index]);
	}
	arrfree(shown);
	arrfree(widths);
}

/* --- for programs ------------------------------------------------------------------ */

static void csv_write(FILE *out, const struct result *result, size_t rows)
{
	size_t columns = arrlenu(result->names);
	char number[CELL_BYTES];

	for (size_t index = 0; index < columns; index++) {
		text_write_csv(out, result->names[index]);
		fputs(index + 1 < columns ? "," : "\r\n", out);
	}
	for (size_t index = 0; index < rows * columns; index++) {
		size_t column = index % columns;
		const char *cell = result->cells[index];

		if (cell && result->numbers[column]) {
			number_write(number, cell);
			fputs(number, out);
		} else if (cell) {
			text_write_csv(out, cell);
		}
		fputs(column + 1 < columns ? "," : "\r\n", out);
	}
}

static void json_cell(struct json *json, const struct result *result, size_t column, const char *cell)
{
	char number[CELL_BYTES];

	json_key(json, result->names[column]);
	if (!cell) {
		json_null(json);
	} else if (result->numbers[column]) {
		number_write(number, cell);
		json_raw(json, number, strlen(number));
	} else {
		json_text(json, cell);
	}
}

static int json_write(FILE *out, const struct query *query, const struct parameter *parameters,
	const struct result *result, size_t rows)
{
	size_t columns = arrlenu(result->names);
	struct json json = {0};
	int error = json_begin(&json, out);

	if (error)
		return error;
	json_object(&json);
	json_put_text(&json, "query", query->name);
	json_put_text(&json, "title", query->title);
	json_key(&json, "parameters");
	json_object(&json);
	for (size_t index = 0; index < arrlenu(parameters); index++)
		if (parameters[index].type == COLUMN_TEXT)
			json_put_text(&json, parameters[index].name, parameters[index].text);
		else
			json_put_signed(&json, parameters[index].name, parameters[index].number);
	json_object_end(&json);
	json_put_unsigned(&json, "row_count", columns ? arrlenu(result->cells) / columns : 0);
	if (json_list(&json, "rows", rows)) {
		for (size_t row = 0; row < rows; row++) {
			json_object(&json);
			for (size_t column = 0; column < columns; column++)
				json_cell(&json, result, column, result->cells[row * columns + column]);
			json_object_end(&json);
		}
		json_array_end(&json);
	}
	json_object_end(&json);
	return json_end(&json);
}

int answer_write(FILE *out, enum answer_format format, const struct query *query, const struct parameter *parameters,
	const struct result *result, size_t limit)
{
	size_t columns = arrlenu(result->names), all = columns ? arrlenu(result->cells) / columns : 0;
	size_t rows = limit && limit < all ? limit : all;

	switch (format) {
	case ANSWER_JSON:
		return json_write(out, query, parameters, result, rows);
	case ANSWER_CSV:
		csv_write(out, result, rows);
		break;
	case ANSWER_TABLE:
		table_write(out, query, result, rows);
		if (rows < all)
			fprintf(out, "\n%zu more rows; --limit 0 shows all\n", all - rows);
		break;
	}
	return ferror(out) ? -EIO : 0;
}
