/* SPDX-License-Identifier: BSD-2-Clause */
/* The peak that a dry run foretells, from its memory CSV (docs/report-format.md). */
#ifndef HDTRACE_AUDIT_PREDICTION_H
#define HDTRACE_AUDIT_PREDICTION_H

#include <stdint.h>
#include <stdio.h>

/*
 * The highest value of column actual_peak_memory. -EBADMSG: it is no CSV, has no such column, or none of its rows has a
 * number there.
 */
int prediction_read(FILE *file, int64_t *peak_bytes);

/* N of a name that ends as rank_N_memory.csv; -1 of any other. */
int prediction_rank(const char *path);

#endif
