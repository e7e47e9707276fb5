/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory by module, made from the names of operators' modules and of owners. */
#ifndef HDTRACE_REPORT_MODULES_H
#define HDTRACE_REPORT_MODULES_H

#include <stdint.h>

#include "model/model.h"

struct module_total {
	char *name;
	uint64_t parameter_bytes, buffer_bytes; /* alive at the end, of what is inside it too */
	uint64_t local_peak_bytes; /* highest total of all devices after an operator in it; 0: none was seen */
	uint64_t operators;        /* that ran in it */
};

/* By falling local peak, then by name: an stb_ds array, to be given to modules_free. */
struct module_total *modules_total(const struct rank *rank);
void modules_free(struct module_total *modules);

#endif
