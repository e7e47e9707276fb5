/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of the processes that are traced are ranks; family.c states the rules. */
#ifndef HDTRACE_MODEL_FAMILY_H
#define HDTRACE_MODEL_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relative {
	int32_t parent; /* index of the process that started it, lower than its own; -1: none */
	bool there;     /* else nothing is known of it */
	bool trained;   /* it ran a backward pass or a collective */
	bool forked;    /* without an exec since */
	bool launched;  /* its launcher gave it a number */
	bool idle;      /* nothing was seen of it */
};

/* Is it a rank, as far as is known: not a launcher of ranks, nor what a rank started for other work? */
bool relative_is_rank(const struct relative *relatives, size_t count, size_t index);

#endif
