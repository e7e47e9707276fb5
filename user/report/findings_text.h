/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings for people: at most 100 columns. `findings`: stb_ds, NULL: none. */
#ifndef HDTRACE_REPORT_FINDINGS_TEXT_H
#define HDTRACE_REPORT_FINDINGS_TEXT_H

#include <stdio.h>

#include "findings/findings.h"

/* All of them, with evidence and advice. Returns 0, or -EIO. */
int findings_write(FILE *out, const struct finding *findings);

/* The two or three that matter most of a rank, in one paragraph each; nothing without any. */
void findings_write_short(FILE *out, const struct finding *findings, const struct rank *rank);

#endif
