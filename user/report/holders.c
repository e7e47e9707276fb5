/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks that were alive at one moment, by category, by line, and the largest. */
#include "holders.h"

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"

/* Texts of the model are there once: equal ones have equal addresses. */
struct group_key {
	const char *text;
	uint64_t line;
};

/* Holders by what their blocks have in common. */
struct groups {
	struct holder *holders; /* stb_ds */
	struct {
		struct group_key key;
		size_t value;
	} * index; /* stb_ds map */
};

static void group_add(struct groups *groups, struct group_key key, struct holder fresh, uint64_t bytes)
{
	ptrdiff_t at = hmgeti(groups->index, key);
	size_t place = at < 0 ? arrlenu(groups->holders) : groups->index[at].value;

	if (at < 0) {
		hmput(groups->index, key, place);
		arrput(groups->holders, fresh);
	}
	if (place < arrlenu(groups->holders)) {
		groups->holders[place].bytes += bytes;
		groups->holders[place].blocks++;
	}
}

uint32_t block_stack_shown(const struct rank *rank, const struct block *block)
{
	const struct operator_run *run = &rank->runs[block->producer];

	if (rank->stacks[block->stack].frame_count || run->forward == RUN_NONE)
		return block->stack;
	return rank->runs[run->forward].stack;
}

/* Keep the largest blocks, largest first; of equal ones the older. */
static void largest_insert(struct holders *holders, const struct block *block)
{
	size_t at = holders->largest_count;

	while (at && block_held_bytes(holders->largest[at - 1]) < block_held_bytes(block))
		at--;
	if (at == HOLDERS_SHOWN)
		return;
	if (holders->largest_count < HOLDERS_SHOWN)
		holders->largest_count++;
	memmove(&holders->largest[at + 1], &holders->largest[at],
		(holders->largest_count - at - 1) * sizeof(*holders->largest));
	holders->largest[at] = block;
}

static int holder_compare(const void *left, const void *right)
{
	const struct holder *a = left, *b = right;

	return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* The holders of the groups, largest first; the index is not needed any more. */
static struct holder *groups_end(struct groups *groups)
{
	hmfree(groups->index);
	if (groups->holders)
		qsort(groups->holders, arrlenu(groups->holders), sizeof(*groups->holders), holder_compare);
	return groups->holders;
}

void holders_find(const struct rank *rank, uint8_t device, uint32_t order, struct holders *holders)
{
	struct groups lines = {0}, modules = {0};

	memset(holders, 0, sizeof(*holders));
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		const struct operator_run *run = &rank->runs[block->producer];
		const struct frame *leaf = stack_leaf(&rank->stacks[block_stack_shown(rank, block)]);
		struct group_key line = {leaf ? leaf->file : NULL, leaf ? leaf->line : 0}, module = {run->module, 0};
		uint64_t bytes = block_held_bytes(block);

		if (block->device != device || !block_alive_at(block, order))
			continue;
		holders->snapshot.total += bytes;
		holders->snapshot.category[block->category] += bytes;
		if (!block->remainder)
			largest_insert(holders, block);
		group_add(&lines, line, (struct holder){.frame = leaf}, bytes);
		group_add(&modules, module, (struct holder){.module = run->module}, bytes);
	}
	holders->lines = groups_end(&lines);
	holders->modules = groups_end(&modules);
}

void holders_free(struct holders *holders)
{
	arrfree(holders->lines);
	arrfree(holders->modules);
}

size_t holders_enough(const struct holders *holders, uint64_t bytes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < holders->largest_count; i++) {
		sum += block_held_bytes(holders->largest[i]);
		if (sum >= bytes)
			return i + 1;
	}
	return 0;
}
