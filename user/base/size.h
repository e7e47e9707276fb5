/* SPDX-License-Identifier: BSD-2-Clause */
/* Sizes as people write them. */
#ifndef HDTRACE_BASE_SIZE_H
#define HDTRACE_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Parse "64M"; K, M, G are powers of 1024. Returns false when it is no size. */
bool size_parse(const char *text, uint64_t *size);

#endif
