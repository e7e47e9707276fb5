/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When modules were called, as operators show it: a call lasts from the first
 * operator that has it in its stack to the last one in a row.
 */
#ifndef HDTRACE_REPORT_MODULE_CALLS_H
#define HDTRACE_REPORT_MODULE_CALLS_H

#include "model/model.h"

#define CALL_NONE UINT32_MAX

enum call_kind { CALL_FORWARD, CALL_RECOMPUTE, CALL_BACKWARD, CALL_KINDS };

struct module_call {
	const char *module; /* of the model: compared as a pointer */
	uint32_t line;      /* where it is called, to tell calls in a row apart */
	uint32_t forward;   /* of a backward one: index of the call that it is the backward pass of, else CALL_NONE */
	uint32_t parent;    /* index of the call that it is inside, CALL_NONE */
	/* How many of rank.changes came before it, until its last one, and before the thread's next operator. */
	uint32_t begin, end, until;
	uint8_t kind; /* enum call_kind */
};

struct module_calls {
	struct module_call *calls; /* stb_ds, in order of their begin */
	uint32_t *of_run;          /* stb_ds: for each of rank.runs the innermost call that it is in, CALL_NONE */
};

void module_calls_find(const struct rank *rank, struct module_calls *calls);
void module_calls_free(struct module_calls *calls);

/* Is `call` the same as `inner`, or around it? */
bool module_call_has(const struct module_calls *calls, uint32_t call, uint32_t inner);

#endif
