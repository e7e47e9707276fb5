/* SPDX-License-Identifier: BSD-2-Clause */
/* The ranks of a job side by side, as a JSON object. */
#ifndef HDTRACE_REPORT_JOB_JSON_H
#define HDTRACE_REPORT_JOB_JSON_H

#include "findings/findings.h"
#include "json_writer.h"
#include "model/model.h"

/* What job.json is. `findings`: stb_ds, of any ranks. */
void put_job(struct json *json, const struct rank *const *ranks, size_t count, const struct finding *findings);

#endif
