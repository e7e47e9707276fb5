/* SPDX-License-Identifier: BSD-2-Clause */
/* What a person names to be compared. */
#ifndef HDTRACE_CLI_SIDE_H
#define HDTRACE_CLI_SIDE_H

#include "cli/cli.h"
#include "compare/usage.h"

struct side {
	struct usage *usages; /* stb_ds, by job and rank */
	int status;           /* STATUS_LOST: a capture is incomplete */
};

/*
 * Of a capture, a memory CSV (its name tells the rank), or a folder that holds a capture, or such files as a report or
 * a dry run leaves them. Returns a negative errno when it cannot be read, which was told. To be given to side_clear
 * in any case.
 */
int side_read(const char *path, const struct model_options *options, struct side *side);
void side_clear(struct side *side);

#endif
