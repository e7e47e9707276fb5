/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line on the terminal while reports are made: how much is done, and how long
 * the rest may take. Only where standard error is a terminal, and only when it takes
 * longer than a second; it is gone at the end, and while something else is printed.
 */
#ifndef HDTRACE_CLI_PROGRESS_H
#define HDTRACE_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is to be done, in this order; how much of the whole each is follows from a table. */
enum progress_part { PROGRESS_READ, PROGRESS_FINISH, PROGRESS_RANKS, PROGRESS_JOBS, PROGRESS_PARTS };

/* `formats`: enum report_format, 0: nothing is written. Nothing is shown unless `shown`. */
void progress_begin(unsigned int formats, bool shown);
/* `done` of `all` of a part; what came before it is done. Nothing without progress_begin. */
void progress_tell(enum progress_part part, uint64_t done, uint64_t all);
/* The line makes room for something else that is printed, and comes back. */
void progress_hide(void);
void progress_show(void);
void progress_end(void);

/* What is left, in seconds, when `done` (0 to 1) took so long; negative: too early to say. */
double progress_left(double done, double seconds);
/* "hdtrace: 42 %, about 12 s left" */
#define PROGRESS_TEXT 64
const char *progress_text(double done, double left, char text[PROGRESS_TEXT]);

#endif
