/* SPDX-License-Identifier: BSD-2-Clause */
/* Tab separated values of ClickHouse, read and written. */
#include "store/tsv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "store/backend.h"

/* What stands behind a backslash, and what is meant; any other stands for itself. */
static const char escapes[] = "bfnrt0", meanings[] = "\b\f\n\r\t";

/* The value between two tabs, to be freed; NULL for \N. */
static char *value_copy(const char *at, const char *end)
{
	char *value = malloc((size_t)(end - at) + 1), *to = value;

	if (!value || (end - at == 2 && !memcmp(at, "\\N", 2))) {
		free(value);
		return NULL;
	}
	while (at < end) {
		if (*at == '\\' && at + 1 < end) {
			const char *escape = strchr(escapes, *++at);

			*to++ = escape && *escape ? meanings[escape - escapes] : *at;
			at++;
		} else {
			*to++ = *at++;
		}
	}
	*to = 0;
	return value;
}

/* Appends the values of a line to *values, and returns how many they are. */
static size_t line_take(const char *at, const char *end, char ***values)
{
	size_t count = 0;

	for (;;) {
		const char *tab = memchr(at, '\t', (size_t)(end - at));

		arrput(*values, value_copy(at, tab ? tab : end));
		count++;
		if (!tab)
			return count;
		at = tab + 1;
	}
}

/* NaN and infinities are what a division by zero gave: not known. */
static bool number_is_known(const char *text)
{
	return !strstr(text, "nan") && !strstr(text, "inf");
}

static bool type_is_number(const char *type)
{
	static const char nullable[] = "Nullable(";

	if (!strncmp(type, nullable, strlen(nullable)))
		type += strlen(nullable);
	return !strncmp(type, "Int", 3) || !strncmp(type, "UInt", 4) || !strncmp(type, "Float", 5);
}

static void types_take(char **types, struct result *result)
{
	for (size_t index = 0; index < arrlenu(types); index++)
		arrput(result->numbers, types[index] && type_is_number(types[index]));
}

static void numbers_check(struct result *result)
{
	size_t columns = arrlenu(result->names);

	for (size_t index = 0; index < arrlenu(result->cells); index++) {
		char *cell = result->cells[index];

		if (!cell || !result->numbers[index % columns] || number_is_known(cell))
			continue;
		free(cell);
		result->cells[index] = NULL;
	}
}

int tsv_parse(const char *text, size_t length, struct result *result)
{
	const char *end = text + length;
	char **types = NULL;
	size_t line = 0, count = 0;
	int error = 0;

	while (!error && text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		char ***values = line == 0 ? &result->names : line == 1 ? &types : &result->cells;
		size_t found;

		if (!newline) {
			error = -EBADMSG;
			break;
		}
		found = line_take(text, newline, values);
		count = line ? count : found;
		error = found == count ? 0 : -EBADMSG;
		text = newline + 1;
		line++;
	}
	if (line < 2)
		error = -EBADMSG;
	for (size_t index = 0; index < arrlenu(result->names); index++)
		error = result->names[index] ? error : -EBADMSG;
	if (!error) {
		types_take(types, result);
		numbers_check(result);
	} else {
		result_clear(result);
	}
	texts_free(types);
	return error;
}

void tsv_write(FILE *out, const char *text)
{
	for (; *text; text++) {
		const char *meaning = strchr(meanings, *text);

		if (*text == '\\')
			fputs("\\\\", out);
		else if (meaning)
			fprintf(out, "\\%c", escapes[meaning - meanings]);
		else
			fputc(*text, out);
	}
}
