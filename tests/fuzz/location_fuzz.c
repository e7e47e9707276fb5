/* SPDX-License-Identifier: BSD-2-Clause */
/* The location table decoder over hostile tables: it ends, reads only its bytes, and its answers are consistent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/location.h"
#include "python/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t first_line, line, again;
	char *text, *twice;

	if (size < sizeof(first_line))
		return 0;
	memcpy(&first_line, data, sizeof(first_line));
	data += sizeof(first_line);
	size -= sizeof(first_line);
	/* Every unit that so many bytes can cover, and one more. */
	for (uint64_t unit = 0; unit <= 8 * size && unit < 4096; unit++) {
		int error = location_line(LOCATION_FORMAT_311, data, size, first_line, 2 * unit, &line);

		if (error && error != -ENOENT && error != -EBADMSG)
			abort();
		if (!error && (location_line(LOCATION_FORMAT_311, data, size, first_line, 2 * unit + 1, &again) ||
				      again != line))
			abort();
	}
	/* A byte covers at most eight units: that far nothing reaches. */
	if (location_line(LOCATION_FORMAT_311, data, size, first_line, UINT64_MAX, &line) == 0)
		abort();
	/* Text made valid is valid: it does not change again. */
	text = utf8_sanitize((const char *)data, size);
	twice = utf8_sanitize(text, strlen(text));
	if (strcmp(text, twice) != 0)
		abort();
	free(text);
	free(twice);
	return 0;
}
