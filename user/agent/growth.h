/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast the memory of a device grows: the highest bytes of each interval,
 * and a line through the last GROWTH_SAMPLES of them. Highest, since a
 * step's own rise and fall is no growth. Bounded: GROWTH_SAMPLES for each
 * device of each rank that lives.
 */
#ifndef HDTRACE_AGENT_GROWTH_H
#define HDTRACE_AGENT_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "live/live.h"

#define GROWTH_SAMPLES 60
/* Fewer say nothing. */
#define GROWTH_SAMPLES_MIN 5

struct growth;

/* `interval_ns` between two samples; NULL when memory is out. */
struct growth *growth_new(uint64_t interval_ns);
void growth_free(struct growth *growth);

/* What is held now. To be called at each look, for all of live; ranks that ended are forgotten. */
void growth_look(struct growth *growth, const struct live *live, uint64_t now_ns);

/* Bytes an hour, negative where it shrinks. False: not known yet. */
bool growth_rate(const struct growth *growth, const struct live_rank *rank, size_t device, double *bytes_per_hour);

#endif
