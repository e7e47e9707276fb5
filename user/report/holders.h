/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds the memory of a device at one moment. */
#ifndef HDTRACE_REPORT_HOLDERS_H
#define HDTRACE_REPORT_HOLDERS_H

#include "model/model.h"

#define HOLDERS_SHOWN 10

/* Blocks that have something in common. */
struct holder {
	const struct frame *frame; /* of a line: innermost of their stacks; NULL: no Python */
	const char *module;        /* of a module: its name, "": none */
	uint64_t bytes, blocks;
};

struct holders {
	struct snapshot snapshot;                   /* rows of the report; scratch of running operators included */
	struct holder *lines, *modules;             /* stb_ds, largest first */
	const struct block *largest[HOLDERS_SHOWN]; /* largest first */
	size_t largest_count;
};

/* `order`: as of block_alive_at. Free with holders_free. */
void holders_find(const struct rank *rank, uint8_t device, uint32_t order, struct holders *holders);
void holders_free(struct holders *holders);

/*
 * How many of the largest blocks together have at least so many bytes, 0 when
 * HOLDERS_SHOWN of them have not.
 */
size_t holders_enough(const struct holders *holders, uint64_t bytes);

/*
 * Index of the stack that tells most of a block: its own, or, since the engine of a device has none, that of the
 * operator of the forward pass that it belongs to.
 */
uint32_t block_stack_shown(const struct rank *rank, const struct block *block);

#endif
