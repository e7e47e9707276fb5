/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data inside a page: each piece is an element of its own, which browsers keep
 * as text and never run, deflated (zlib) and in base64. So nothing of a target
 * can end the element or become markup. docs/report-format.md describes them.
 */
#ifndef HDTRACE_REPORT_PAGE_DATA_H
#define HDTRACE_REPORT_PAGE_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A page counts in doubles: greater numbers become this one. */
#define PAGE_NUMBER_MAX (1ull << 52)

enum page_coding {
	PAGE_PLAIN, /* the numbers */
	PAGE_DELTA, /* each less the one before, the sign in the lowest bit: for what grows slowly */
};

/* `scope`: "rank-0"; names are hdtrace's own. 0 or a negative errno; errors of the file are kept in it. */
int page_column(
	FILE *file, const char *scope, const char *name, const uint64_t *values, size_t count, enum page_coding coding);
int page_text(FILE *file, const char *scope, const char *name, const char *text, size_t length);

#endif
