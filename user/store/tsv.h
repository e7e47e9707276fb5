/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ClickHouse answers, in its format TabSeparatedWithNamesAndTypes: a line
 * of names, one of types, then rows; in values a backslash escapes, and \N is
 * NULL. Source: ClickHouse's documentation of formats.
 */
#ifndef HDTRACE_STORE_TSV_H
#define HDTRACE_STORE_TSV_H

#include <stdio.h>

#include "store/store.h"

/* 0; -EBADMSG: the answer is cut, or its rows have different numbers of values (the result is empty then). */
int tsv_parse(const char *text, size_t length, struct result *result);

/* One value of a row, escaped. */
void tsv_write(FILE *out, const char *text);

#endif
