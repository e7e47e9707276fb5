// SPDX-License-Identifier: BSD-2-Clause
/* How findings and summaries name what they speak of. */
#include "words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "containers/containers.h"

const char *size_format(char text[SIZE_TEXT_BYTES], uint64_t bytes)
{
	static const char *const UNITS[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	int unit = -1;

	while (value >= 1024 && unit < (int)(sizeof(UNITS) / sizeof(*UNITS)) - 1) {
		value /= 1024;
		unit++;
	}
	if (unit < 0)
		snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " B", bytes);
	else
		snprintf(text, SIZE_TEXT_BYTES, "%.1f %s", value, UNITS[unit]);
	return text;
}

const struct frame *stack_line(const struct stack *stack)
{
	for (uint32_t i = stack->frame_count; i > 0; i--)
		if (!strstr(stack->frames[i - 1].file, "-packages/torch/") && stack->frames[i - 1].file[0] != '<')
			return &stack->frames[i - 1];
	return stack_leaf(stack);
}

const struct stack *run_origin(const struct rank *rank, const struct operator_run *run)
{
	return &rank->stacks[run->forward == RUN_NONE ? run->stack : rank->runs[run->forward].stack];
}

char *sentence(const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	int length;

	va_start(arguments, format);
	length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	arrzero(text, (length < 0 ? 0 : length) + 1);
	va_start(arguments, format);
	vsnprintf(text, arrlenu(text), format, arguments);
	va_end(arguments);
	return text;
}

double percent_of(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}
