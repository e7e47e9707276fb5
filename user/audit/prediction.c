/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory CSVs of dry runs, read field by field: they may be larger than memory. */
#include "audit/prediction.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PEAK_COLUMN "actual_peak_memory"
/* Of a field only this much is kept: what is looked for is shorter. */
#define FIELD_BYTES 64

/* What ends a field. */
enum ending { ENDS_FIELD, ENDS_ROW, ENDS_FILE, ENDS_WRONG };

/* The next field, quoted or not, into `field`, cut. */
static enum ending field_read(FILE *file, char field[FIELD_BYTES])
{
	size_t length = 0;
	int byte = getc_unlocked(file);
	bool is_quoted = byte == '"';

	if (is_quoted)
		byte = getc_unlocked(file);
	for (;; byte = getc_unlocked(file)) {
		if (byte == EOF)
			break;
		if (is_quoted && byte == '"') {
			byte = getc_unlocked(file);
			is_quoted = byte == '"';
		}
		if (!is_quoted && (byte == ',' || byte == '\n' || byte == EOF))
			break;
		if (length + 1 < FIELD_BYTES && byte != '\r')
			field[length++] = (char)byte;
	}
	field[length] = 0;
	if (byte == EOF)
		return is_quoted ? ENDS_WRONG : ENDS_FILE;
	return byte == ',' ? ENDS_FIELD : ENDS_ROW;
}

/* Which column holds the peak, -1: none; the row is read to its end. */
static int column_find(FILE *file)
{
	char field[FIELD_BYTES];
	enum ending ending = ENDS_FIELD;
	int found = -1;

	for (int column = 0; ending == ENDS_FIELD && column < INT_MAX; column++) {
		ending = field_read(file, field);
		if (!strcmp(field, PEAK_COLUMN))
			found = column;
	}
	return ending == ENDS_ROW ? found : -1;
}

static bool number_parse(const char *text, int64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*number = strtoll(text, &end, 10);
	return !errno && !*end;
}

int prediction_read(FILE *file, int64_t *peak_bytes)
{
	int wanted = column_find(file), column = 0;
	enum ending ending = ENDS_FIELD;
	char field[FIELD_BYTES];

	*peak_bytes = -1;
	while (wanted >= 0 && ending != ENDS_FILE) {
		int64_t number;

		ending = field_read(file, field);
		if (ending == ENDS_WRONG)
			return -EBADMSG;
		if (column == wanted) {
			if (!number_parse(field, &number))
				return -EBADMSG;
			*peak_bytes = number > *peak_bytes ? number : *peak_bytes;
		}
		column = ending == ENDS_FIELD ? column + 1 : 0;
	}
	return *peak_bytes < 0 ? -EBADMSG : 0;
}

int prediction_rank(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int rank, length = 0;

	return sscanf(name, "rank_%9d_memory.csv%n", &rank, &length) == 1 && length && !name[length] && rank >= 0 ? rank
	                                                                                                          : -1;
}
