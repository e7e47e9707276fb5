/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that appears under its name only when it is whole. */
#ifndef HDTRACE_REPORT_OUTPUT_H
#define HDTRACE_REPORT_OUTPUT_H

#include <stdio.h>

struct output {
	FILE *file;
	char *path, *temporary;
};

/* Create the file beside its final name, as .NAME.RANDOM.tmp. */
int output_open(struct output *output, const char *path);
/* Give it its name. On an error, also one of any earlier write, the file is gone. */
int output_commit(struct output *output);
/* Remove it; nothing happens after output_commit, or before output_open of a zeroed struct. */
void output_discard(struct output *output);

#endif
