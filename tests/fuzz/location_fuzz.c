/* SPDX-License-Identifier: BSD-2-Clause */
/* The location table decoder over hostile tables: it ends, reads only its bytes, and its answers are consistent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/location.h"
#include "python/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every offset that a table of that size can name. */
static void lines_look(uint32_t format, const uint8_t *table, size_t size, uint32_t first_line)
{
	uint64_t units = format == LOCATION_FORMAT_311 ? 8 * size : 64 * size;
	uint32_t line, again;

	for (uint64_t unit = 0; unit <= units && unit < 1024; unit++) {
		int error = location_line(format, table, size, first_line, 2 * unit, &line);

		if (error && error != -ENOENT && error != -EBADMSG)
			abort();
		if (!error && format == LOCATION_FORMAT_311 &&
			(location_line(format, table, size, first_line, 2 * unit + 1, &again) || again != line))
			abort();
	}
	/* No table reaches that far; before 3.10 the last line has no end. */
	if (location_line(format, table, size, first_line, UINT64_MAX, &line) == 0 && format != LOCATION_FORMAT_309)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t first_line;
	char *text, *twice;

	if (size < sizeof(first_line))
		return 0;
	memcpy(&first_line, data, sizeof(first_line));
	data += sizeof(first_line);
	size -= sizeof(first_line);
	lines_look(LOCATION_FORMAT_309, data, size, first_line);
	lines_look(LOCATION_FORMAT_310, data, size, first_line);
	lines_look(LOCATION_FORMAT_311, data, size, first_line);
	/* Text made valid is valid: it does not change again. */
	text = utf8_sanitize((const char *)data, size);
	twice = utf8_sanitize(text, strlen(text));
	if (strcmp(text, twice) != 0)
		abort();
	free(text);
	free(twice);
	return 0;
}
