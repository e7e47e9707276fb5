/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of one rank, as data of the page. */
#ifndef HDTRACE_REPORT_PAGE_RANK_H
#define HDTRACE_REPORT_PAGE_RANK_H

#include <stdio.h>

#include "json_writer.h"
#include "model/model.h"

/* An object of what fits on one screen: peaks, totals, what was lost, when memory was exhausted. */
void put_page_rank(struct json *json, const struct rank *rank);
/* Columns of blocks, tasks, steps and all else that there are many of; `scope`: "rank-0". */
int page_rank_columns(FILE *file, const char *scope, const struct rank *rank);

#endif
