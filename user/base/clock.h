/* SPDX-License-Identifier: BSD-2-Clause */
/* Clocks in nanoseconds. */
#ifndef HDTRACE_BASE_CLOCK_H
#define HDTRACE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND 1000000000ll

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * CLOCK_SECOND + now.tv_nsec;
}

/* CLOCK_MONOTONIC, which that of bpf_ktime_get_ns is too. */
static inline uint64_t monotonic_ns(void)
{
	return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

#endif
