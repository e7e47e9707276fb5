/* SPDX-License-Identifier: BSD-2-Clause */
/* Values as people write them. Each returns false when the text is none, and leaves the number as it was. */
#ifndef HDTRACE_AUDIT_VALUE_H
#define HDTRACE_AUDIT_VALUE_H

#include <stdbool.h>
#include <stdint.h>

bool value_number(const char *text, int64_t *number);
/* "40G", "1.5T", "512": bytes, units are powers of 1024; a B or iB behind the unit is understood. */
bool value_size(const char *text, int64_t *bytes);
/* "now", "-7d" (s, m, h, d, w before `now`), "2026-11-30", "2026-11-30T12:00[:30]" (UTC), or Unix time. */
bool value_time(const char *text, int64_t now, int64_t *time);

#endif
