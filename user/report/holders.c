/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks that were alive at one moment, by category, by line, and the largest. */
#include "holders.h"

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "text.h"

/* Texts of the model are there once: equal ones have equal addresses. */
struct line_key {
	const char *file;
	uint64_t line;
};

uint64_t block_held_bytes(const struct block *block)
{
	return block->allocated_bytes ? block->allocated_bytes : block->bytes;
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

static int line_compare(const void *left, const void *right)
{
	const struct holder_line *a = left, *b = right;

	return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

void holders_find(const struct rank *rank, uint8_t device, uint32_t order, struct holders *holders)
{
	struct {
		struct line_key key;
		size_t value;
	} *index = NULL;

	memset(holders, 0, sizeof(*holders));
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		const struct frame *leaf = stack_leaf(&rank->stacks[block->stack]);
		struct line_key key = {leaf ? leaf->file : NULL, leaf ? leaf->line : 0};
		struct holder_line fresh = {.frame = leaf};
		ptrdiff_t at;

		if (block->device != device || !block_alive_at(block, order))
			continue;
		holders->snapshot.total += block_held_bytes(block);
		holders->snapshot.category[block->category] += block_held_bytes(block);
		largest_insert(holders, block);
		at = hmgeti(index, key);
		if (at < 0) {
			hmput(index, key, arrlenu(holders->lines));
			arrput(holders->lines, fresh);
			at = hmgeti(index, key);
		}
		holders->lines[index[at].value].bytes += block_held_bytes(block);
		holders->lines[index[at].value].blocks++;
	}
	hmfree(index);
	if (holders->lines)
		qsort(holders->lines, arrlenu(holders->lines), sizeof(*holders->lines), line_compare);
}

void holders_free(struct holders *holders)
{
	arrfree(holders->lines);
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
