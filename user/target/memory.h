/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a target's memory: never stops it, never writes, may fail at any time. */
#ifndef HDTRACE_TARGET_MEMORY_H
#define HDTRACE_TARGET_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Read exactly `size` bytes at `address`. Returns 0, or -EFAULT, -ESRCH, -EPERM. */
int memory_read(pid_t pid, uint64_t address, void *buffer, size_t size);

#endif
