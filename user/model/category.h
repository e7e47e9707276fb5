/* SPDX-License-Identifier: BSD-2-Clause */
/* The category of a block, from what is known of it: the one place with the order of these. */
#ifndef HDTRACE_MODEL_CATEGORY_H
#define HDTRACE_MODEL_CATEGORY_H

#include "model.h"

struct category_facts {
	bool workspace;   /* scratch of an operator, or a library's */
	uint8_t holder;   /* enum owner_kind: what Python was found to hold it by */
	bool parameter;   /* a leaf that gradients are made for */
	bool gradient;    /* stored as the gradient of one */
	bool preexisting; /* older than the trace, or never seen being made */
	enum phase phase; /* in which it was made */
};

enum category category_of(const struct category_facts *facts);

#endif
