/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plot coordinates: the k-th of the n events of a task lies at k/(n+1) of the
 * way to the next one. Exact, in integers; never 0 and never a whole task.
 */
#include "model.h"

#include <stdio.h>

uint64_t plot_fraction(uint64_t k, uint64_t n)
{
	unsigned __int128 scaled = (unsigned __int128)k * PLOT_UNIT;
	unsigned __int128 parts = (unsigned __int128)n + 1;
	unsigned __int128 whole = scaled / parts, twice = 2 * (scaled % parts);

	if (twice > parts || (twice == parts && (whole & 1)))
		whole++;
	return (uint64_t)whole;
}

const char *plot_format(char text[PLOT_TEXT_BYTES], int64_t task, uint64_t fraction)
{
	if (fraction == PLOT_NONE)
		text[0] = '\0';
	else
		snprintf(text, PLOT_TEXT_BYTES, "%lld.%012llu", (long long)task,
			(unsigned long long)(fraction % PLOT_UNIT));
	return text;
}
