/* SPDX-License-Identifier: BSD-2-Clause */
/* How a job is divided over its ranks, as far as its communicators show it. */
#ifndef HDTRACE_REPORT_PARALLEL_H
#define HDTRACE_REPORT_PARALLEL_H

#include "json_writer.h"
#include "model/model.h"

/* The member parallel: degrees by kind, null where none is known. */
void parallel_put(struct json *json, const struct rank *rank);

#endif
