/* SPDX-License-Identifier: BSD-2-Clause */
/* `hdtrace top`: a live view of what jobs hold, on the terminal or as JSON. */
#ifndef HDTRACE_TOP_H
#define HDTRACE_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "record/recorder.h"

struct top_options {
	double interval;       /* seconds between two looks */
	bool once;             /* one look after an interval, then the end */
	bool json;             /* a line of JSON for each look, instead of the screen */
	uint64_t device_bytes; /* of each accelerator, where its driver does not tell; 0: it does, or nobody */
};

/*
 * Watch what `record` says, whose sink is filled in here, until somebody has seen enough or all targets have ended.
 * Returns 0 or a negative errno, of which a message was printed. *found: was there anything to watch?
 */
int top_run(const struct top_options *options, struct record_options *record, bool *found);

#endif
