// SPDX-License-Identifier: BSD-2-Clause
#include "base/size.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool size_parse(const char *text, uint64_t *size)
{
	static const char units[] = "KMG";
	unsigned long long number;
	const char *unit;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || end == text || *text == '-')
		return false;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1])
			return false;
		for (ptrdiff_t power = 0; power <= unit - units; power++) {
			if (number > UINT64_MAX >> 10)
				return false;
			number <<= 10;
		}
	}
	*size = number;
	return true;
}
