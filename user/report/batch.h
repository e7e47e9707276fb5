/* SPDX-License-Identifier: BSD-2-Clause */
/* What the model was seen to be called with. */
#ifndef HDTRACE_REPORT_BATCH_H
#define HDTRACE_REPORT_BATCH_H

#include "json_writer.h"
#include "tree.h"

/* The member batch_shapes, of the end that a capture tells; `model`: class of the model, NULL: not known. */
void batch_put(struct json *json, yajl_val end, const char *model);

#endif
