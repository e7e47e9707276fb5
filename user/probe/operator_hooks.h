/* SPDX-License-Identifier: BSD-2-Clause */
/* Which hooks follow the operators of a PyTorch library. */
#ifndef HDTRACE_PROBE_OPERATOR_HOOKS_H
#define HDTRACE_PROBE_OPERATOR_HOOKS_H

#include "probe/plan.h"

/*
 * Fill the plan's sparse set of hooks, and the operators' names and flags. The
 * set stays empty, with a finding, where it does not fit the library. -ENOENT:
 * the library has no operators; else 0 or a negative errno.
 */
int operator_hooks_plan(struct library_plan *plan);

/* Add a finding; `remedy` is NULL when it is good. */
void plan_find(struct library_plan *plan, bool good, bool fatal, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

#endif
