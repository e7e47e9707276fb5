/* SPDX-License-Identifier: BSD-2-Clause */
/* What a report does not say, or not surely, in words. */
#ifndef HDTRACE_REPORT_LIMITATIONS_H
#define HDTRACE_REPORT_LIMITATIONS_H

#include "json_writer.h"
#include "model/model.h"

/* "limitations": [ texts ]. `target`, `end`: parsed texts of the rank, NULL: none. */
void put_limitations(struct json *json, const struct rank *rank, yajl_val target, yajl_val end);

#endif
