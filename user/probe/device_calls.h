/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of drivers of devices and of their runtimes: those that give memory
 * and take it back, and those that find and launch kernels. By the names and arguments of
 * their C interfaces, which are stable.
 */
#ifndef HDTRACE_PROBE_DEVICE_CALLS_H
#define HDTRACE_PROBE_DEVICE_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include <hdtrace/event.h>
#include <hdtrace/program.h>

#include "probe/catalogue.h"

struct device_call {
	enum library_role library;
	enum program_kind program; /* PROGRAM_CALLED, PROGRAM_LAUNCHED or PROGRAM_SOUGHT */
	const char *symbol;
	struct segment_call call;  /* of PROGRAM_CALLED */
	struct kernel_call kernel; /* of the others */
};

const struct device_call *device_calls(size_t *count);

/* Does what it came to show only when it returns? What gives memory back is taken as done. */
bool device_call_has_result(const struct device_call *call);

/* Does a library of this role have such functions? */
bool library_is_of_devices(enum library_role role);

#endif
