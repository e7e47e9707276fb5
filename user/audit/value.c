/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers, sizes and times from text. */
#include "audit/value.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool value_number(const char *text, int64_t *number)
{
	long long value;
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '-')
		return false;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || *end || end == text)
		return false;
	*number = value;
	return true;
}

bool value_size(const char *text, int64_t *bytes)
{
	static const char units[] = "KMGTP";
	const char *unit;
	double value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	value = strtod(text, &end);
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	for (const char *at = units; unit && at <= unit; at++)
		value *= 1024;
	end += unit ? 1 : 0;
	end += unit && *end == 'i' ? 1 : 0;
	end += *end == 'B' ? 1 : 0;
	if (*end || !(value < (double)INT64_MAX))
		return false;
	*bytes = (int64_t)value;
	return true;
}

/* "-7d". */
static bool time_before(const char *text, int64_t now, int64_t *time)
{
	static const struct {
		char letter;
		int64_t seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
	long long count;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	count = strtoll(text, &end, 10);
	for (size_t index = 0; !errno && index < sizeof(units) / sizeof(units[0]); index++) {
		if (*end != units[index].letter || end[1] || count > now / units[index].seconds)
			continue;
		*time = now - count * units[index].seconds;
		return true;
	}
	return false;
}

bool value_time(const char *text, int64_t now, int64_t *time)
{
	static const char *const formats[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"};

	if (!strcmp(text, "now")) {
		*time = now;
		return true;
	}
	if (*text == '-')
		return time_before(text + 1, now, time);
	for (size_t index = 0; index < sizeof(formats) / sizeof(formats[0]); index++) {
		struct tm parts = {0};
		const char *end = strptime(text, formats[index], &parts);

		if (!end || *end)
			continue;
		*time = timegm(&parts);
		return true;
	}
	return value_number(text, time);
}
