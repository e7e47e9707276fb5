/* SPDX-License-Identifier: BSD-2-Clause */
/* What `hdtrace diff` prints. */
#ifndef HDTRACE_REPORT_COMPARISON_H
#define HDTRACE_REPORT_COMPARISON_H

#include <stdio.h>

#include "compare/compare.h"
#include "json_writer.h"

struct comparison_view {
	const char *first, *second; /* what was compared, as the person named it */
	bool dry_run;               /* the first is one, and is judged */
	double percent;             /* by so much it may be off */
};

/* At most 100 columns. Returns 0, or -EIO. */
int comparison_write(FILE *out, const struct comparison *comparison, const struct comparison_view *view);
/* The schema's `comparison`. */
void put_comparison(struct json *json, const struct comparison *comparison, const struct comparison_view *view);

#endif
