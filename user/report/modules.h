/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory by module, made from the calls of modules that stacks show and from the names of owners. */
#ifndef HDTRACE_REPORT_MODULES_H
#define HDTRACE_REPORT_MODULES_H

#include <stdint.h>

#include "json_writer.h"
#include "model/model.h"

/* Moments of a call, in the order of their names. */
enum module_state {
	STATE_PEAK_BACKWARD,
	STATE_PEAK_FORWARD,
	STATE_POST_BACKWARD,
	STATE_POST_FORWARD,
	STATE_POST_RECOMPUTE,
	STATE_PRE_BACKWARD,
	STATE_PRE_FORWARD,
	STATE_PRE_RECOMPUTE,
	MODULE_STATES
};

const char *module_state_name(enum module_state state); /* "Pre-Forward" */

/* Of so many last calls the snapshots are kept. */
#define MODULE_CALLS_KEPT 4

struct module_total {
	char *name;
	uint64_t parameter_bytes, buffer_bytes; /* alive at the end, of what is inside it too */
	uint64_t local_peak_bytes; /* highest total of all devices while it ran, or after an operator in it; 0: none */
	uint64_t operators;        /* that ran in it */
	uint64_t calls;            /* of its forward pass that operators show; recomputations are none */
	/* Of the last call. */
	uint64_t input_bytes, output_bytes;
	/* stb_ds: of each kept call, in order, a snapshot for each of rank.devices */
	struct snapshot *snapshots[MODULE_STATES];
};

/* By falling local peak, then by name: an stb_ds array, to be given to modules_free. */
struct module_total *modules_total(const struct rank *rank);
void modules_free(struct module_total *modules);

/* A member of the report, with its key: "modules". */
void put_modules(struct json *json, const struct rank *rank);

#endif
