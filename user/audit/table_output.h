/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a query answered, for people or for programs. A column whose name ends
 * in _bytes holds bytes, in _us microseconds, time or _time Unix time: for
 * people these are written with units; programs get the numbers.
 */
#ifndef HDTRACE_AUDIT_TABLE_OUTPUT_H
#define HDTRACE_AUDIT_TABLE_OUTPUT_H

#include <stdio.h>

#include "audit/query.h"

enum answer_format { ANSWER_TABLE, ANSWER_JSON, ANSWER_CSV };

/* At most `limit` rows, 0: all. Returns 0 or a negative errno. */
int answer_write(FILE *out, enum answer_format format, const struct query *query, const struct parameter *parameters,
	const struct result *result, size_t limit);

#endif
