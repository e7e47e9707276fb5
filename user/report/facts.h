/* SPDX-License-Identifier: BSD-2-Clause */
/* What a trace tells of the model that runs. */
#ifndef HDTRACE_REPORT_FACTS_H
#define HDTRACE_REPORT_FACTS_H

#include "model/model.h"

#define MODEL_CLASS_BYTES 128

/* Class of the model: of the trees of modules, that with most bytes of parameters at the end; NULL: none has any. */
const char *model_class(const struct rank *rank, char class[MODEL_CLASS_BYTES]);
/* The type that most bytes of its parameters have, "float32"; NULL: not known. */
const char *model_element_name(const struct rank *rank);

#endif
