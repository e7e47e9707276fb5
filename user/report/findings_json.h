/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings as JSON. */
#ifndef HDTRACE_REPORT_FINDINGS_JSON_H
#define HDTRACE_REPORT_FINDINGS_JSON_H

#include "findings/findings.h"
#include "json_writer.h"

/* Members with their key, "findings". `findings`: stb_ds, NULL: none; of any ranks. */
void put_findings_of_rank(struct json *json, const struct finding *findings, const struct rank *rank);
/* Those of its ranks too. */
void put_findings_of_job(struct json *json, const struct finding *findings, const char *job);

/* What `hdtrace explain --json` prints: all of them. */
void put_explanation(struct json *json, const struct finding *findings);

#endif
