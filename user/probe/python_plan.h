/* SPDX-License-Identifier: BSD-2-Clause */
/* What a file says of the CPython in it: which one it is, and the layout of its structures. */
#ifndef HDTRACE_PROBE_PYTHON_PLAN_H
#define HDTRACE_PROBE_PYTHON_PLAN_H

#include "probe/plan.h"

/*
 * Fill the plan's version, runtime and layout of CPython, with findings that
 * tell why where Python must be left out. A file without an interpreter has no
 * runtime, and no findings. 0 or -ENOMEM.
 */
int python_plan(struct library_plan *plan);

#endif
