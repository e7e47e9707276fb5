/* SPDX-License-Identifier: BSD-2-Clause */
/* The columns of blocks: what a row of the memory CSV has, as numbers. */
#include "page_source.h"

#define PLOT_STEPS (1ull << 20) /* a plot coordinate's fraction in so many parts */

enum { BLOCK_PERSISTENT = 1, BLOCK_PREEXISTING = 2, BLOCK_REMAINDER = 4 };

static const struct block *block_of(const struct source *source, size_t index)
{
	return &source->rank->blocks[index];
}

static const struct operator_run *producer_of(const struct source *source, size_t index)
{
	return &source->rank->runs[block_of(source, index)->producer];
}

static const struct operator_run *forward_of(const struct source *source, const struct operator_run *run)
{
	return run->forward == RUN_NONE ? NULL : &source->rank->runs[run->forward];
}

static uint64_t block_start(struct source *source, size_t index)
{
	return (uint64_t)block_of(source, index)->start;
}

static uint64_t block_life(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	return block->persistent ? 0 : (uint64_t)(block->end - block->start) + 1;
}

static uint64_t block_start_plot(struct source *source, size_t index)
{
	return block_of(source, index)->start_plot * PLOT_STEPS / PLOT_UNIT;
}

static uint64_t block_end_plot(struct source *source, size_t index)
{
	uint64_t fraction = block_of(source, index)->end_plot;

	return fraction == PLOT_NONE ? 0 : fraction * PLOT_STEPS / PLOT_UNIT;
}

static uint64_t block_start_time(struct source *source, size_t index)
{
	return page_time(source->rank, block_of(source, index)->start_time_ns);
}

static uint64_t block_life_time(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	if (block->persistent || block->end_time_ns == UINT64_MAX)
		return 0;
	return page_time(source->rank, block->end_time_ns) - block_start_time(source, index) + 1;
}

static uint64_t block_order(struct source *source, size_t index)
{
	return block_of(source, index)->first_order;
}

static uint64_t block_order_life(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	return block->persistent || block->last_order < block->first_order
	               ? 0
	               : (uint64_t)block->last_order - block->first_order + 1;
}

static uint64_t block_bytes(struct source *source, size_t index)
{
	return block_of(source, index)->bytes;
}

static uint64_t block_allocated(struct source *source, size_t index)
{
	return block_of(source, index)->allocated_bytes;
}

static uint64_t block_address(struct source *source, size_t index)
{
	return block_of(source, index)->address;
}

static uint64_t block_generation(struct source *source, size_t index)
{
	return block_of(source, index)->generation;
}

static uint64_t block_stream(struct source *source, size_t index)
{
	return block_of(source, index)->stream;
}

static uint64_t block_device(struct source *source, size_t index)
{
	return block_of(source, index)->device;
}

static uint64_t block_category(struct source *source, size_t index)
{
	return block_of(source, index)->category;
}

static uint64_t block_phase(struct source *source, size_t index)
{
	return block_of(source, index)->phase;
}

static uint64_t block_flags(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	return (block->persistent ? BLOCK_PERSISTENT : 0) | (block->preexisting ? BLOCK_PREEXISTING : 0) |
	       (block->remainder ? BLOCK_REMAINDER : 0);
}

static uint64_t block_used(struct source *source, size_t index)
{
	return block_of(source, index)->used_bytes;
}

static uint64_t block_peak(struct source *source, size_t index)
{
	return block_of(source, index)->peak_bytes;
}

static uint64_t block_stack(struct source *source, size_t index)
{
	return block_of(source, index)->stack;
}

static uint64_t block_name(struct source *source, size_t index)
{
	return page_text_index(&source->texts, source->rank->operator_names[block_of(source, index)->name]);
}

static uint64_t block_module(struct source *source, size_t index)
{
	return page_text_index(&source->texts, producer_of(source, index)->module);
}

static uint64_t block_owner(struct source *source, size_t index)
{
	return page_text_index(&source->texts, block_of(source, index)->owner);
}

static uint64_t block_forward_task(struct source *source, size_t index)
{
	const struct operator_run *forward = forward_of(source, producer_of(source, index));

	return forward ? page_known(forward->task) : 0;
}

static uint64_t block_forward_stack(struct source *source, size_t index)
{
	const struct operator_run *forward = forward_of(source, producer_of(source, index));

	return forward ? page_known(forward->stack) : 0;
}

static uint64_t block_users(struct source *source, size_t index)
{
	return block_of(source, index)->user_count;
}

static uint64_t block_place(struct source *source, size_t index)
{
	return source->places[index];
}

const struct column page_block_columns[] = {
	{"block.start", PAGE_DELTA, block_start},
	{"block.life", PAGE_PLAIN, block_life},
	{"block.start_plot", PAGE_PLAIN, block_start_plot},
	{"block.end_plot", PAGE_PLAIN, block_end_plot},
	{"block.start_time", PAGE_DELTA, block_start_time},
	{"block.life_time", PAGE_PLAIN, block_life_time},
	{"block.order", PAGE_DELTA, block_order},
	{"block.order_life", PAGE_PLAIN, block_order_life},
	{"block.bytes", PAGE_PLAIN, block_bytes},
	{"block.allocated", PAGE_PLAIN, block_allocated},
	{"block.address", PAGE_PLAIN, block_address},
	{"block.generation", PAGE_PLAIN, block_generation},
	{"block.stream", PAGE_PLAIN, block_stream},
	{"block.device", PAGE_PLAIN, block_device},
	{"block.category", PAGE_PLAIN, block_category},
	{"block.phase", PAGE_PLAIN, block_phase},
	{"block.flags", PAGE_PLAIN, block_flags},
	{"block.used", PAGE_DELTA, block_used},
	{"block.peak", PAGE_DELTA, block_peak},
	{"block.stack", PAGE_PLAIN, block_stack},
	{"block.name", PAGE_PLAIN, block_name},
	{"block.module", PAGE_PLAIN, block_module},
	{"block.owner", PAGE_PLAIN, block_owner},
	{"block.forward_task", PAGE_PLAIN, block_forward_task},
	{"block.forward_stack", PAGE_PLAIN, block_forward_stack},
	{"block.users", PAGE_PLAIN, block_users},
	{"block.place", PAGE_PLAIN, block_place},
};

const size_t page_block_column_count = sizeof(page_block_columns) / sizeof(*page_block_columns);
