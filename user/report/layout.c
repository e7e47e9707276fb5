/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * First fit over the lifetimes of blocks. The free pieces below the highest
 * place are a treap by place, in which each node knows the largest piece below
 * it: finding, splitting and joining pieces take logarithmic time, since a trace
 * can have a million blocks and as many pieces.
 */
#include "layout.h"

#include <stdlib.h>

#include "containers/containers.h"

#define NODE_NONE 0u
/* Of the generator of priorities (xorshift): any odd number; the same one gives the same picture again. */
#define RANDOM_SEED 0x9e3779b9u

struct gap {
	uint64_t place, bytes, largest; /* of itself and below it */
	uint32_t left, right, priority;
};

struct gaps {
	struct gap *nodes; /* stb_ds; node 0 stands for none */
	uint32_t *unused;  /* stb_ds */
	uint32_t root, random;
	uint64_t top; /* all above is free */
};

static void gap_update(struct gaps *gaps, uint32_t at)
{
	struct gap *gap = &gaps->nodes[at];
	uint64_t left = gaps->nodes[gap->left].largest, right = gaps->nodes[gap->right].largest;

	gap->largest = gap->bytes;
	if (left > gap->largest)
		gap->largest = left;
	if (right > gap->largest)
		gap->largest = right;
}

static uint32_t gap_new(struct gaps *gaps, uint64_t place, uint64_t bytes)
{
	struct gap fresh = {.place = place, .bytes = bytes, .largest = bytes};
	uint32_t at;

	gaps->random ^= gaps->random << 13;
	gaps->random ^= gaps->random >> 17;
	gaps->random ^= gaps->random << 5;
	fresh.priority = gaps->random;
	if (arrlenu(gaps->unused)) {
		at = arrpop(gaps->unused);
		gaps->nodes[at] = fresh;
		return at;
	}
	at = (uint32_t)arrlenu(gaps->nodes);
	arrput(gaps->nodes, fresh);
	return at;
}

/* Those below `place` and the others. */
static void gaps_split(struct gaps *gaps, uint32_t at, uint64_t place, uint32_t *lower, uint32_t *upper)
{
	if (at == NODE_NONE) {
		*lower = *upper = NODE_NONE;
		return;
	}
	if (gaps->nodes[at].place < place) {
		uint32_t rest;

		gaps_split(gaps, gaps->nodes[at].right, place, &rest, upper);
		gaps->nodes[at].right = rest;
		*lower = at;
	} else {
		uint32_t rest;

		gaps_split(gaps, gaps->nodes[at].left, place, lower, &rest);
		gaps->nodes[at].left = rest;
		*upper = at;
	}
	gap_update(gaps, at);
}

static uint32_t gaps_join(struct gaps *gaps, uint32_t lower, uint32_t upper)
{
	if (lower == NODE_NONE || upper == NODE_NONE)
		return lower == NODE_NONE ? upper : lower;
	if (gaps->nodes[lower].priority > gaps->nodes[upper].priority) {
		gaps->nodes[lower].right = gaps_join(gaps, gaps->nodes[lower].right, upper);
		gap_update(gaps, lower);
		return lower;
	}
	gaps->nodes[upper].left = gaps_join(gaps, lower, gaps->nodes[upper].left);
	gap_update(gaps, upper);
	return upper;
}

/* Take the lowest piece that is large enough, from its front; there is one. Returns what the subtree becomes. */
static uint32_t gap_take(struct gaps *gaps, uint32_t at, uint64_t bytes, uint64_t *place)
{
	struct gap *gap = &gaps->nodes[at];

	if (gap->left != NODE_NONE && gaps->nodes[gap->left].largest >= bytes) {
		gap->left = gap_take(gaps, gap->left, bytes, place);
	} else if (gap->bytes >= bytes) {
		*place = gap->place;
		gap->place += bytes;
		gap->bytes -= bytes;
		if (!gap->bytes) {
			arrput(gaps->unused, at);
			return gaps_join(gaps, gap->left, gap->right);
		}
	} else {
		gap->right = gap_take(gaps, gap->right, bytes, place);
	}
	gap_update(gaps, at);
	return at;
}

static uint64_t place_take(struct gaps *gaps, uint64_t bytes)
{
	uint64_t place = gaps->top;

	if (gaps->nodes[gaps->root].largest >= bytes)
		gaps->root = gap_take(gaps, gaps->root, bytes, &place);
	else
		gaps->top += bytes;
	return place;
}

/* The last piece of a subtree, or the first. */
static uint32_t gap_outermost(const struct gaps *gaps, uint32_t at, bool last)
{
	uint32_t next = at;

	while (next != NODE_NONE) {
		at = next;
		next = last ? gaps->nodes[at].right : gaps->nodes[at].left;
	}
	return at;
}

static void place_free(struct gaps *gaps, uint64_t place, uint64_t bytes)
{
	uint32_t lower, upper, joined;

	gaps_split(gaps, gaps->root, place, &lower, &upper);
	joined = gap_outermost(gaps, lower, true);
	if (joined != NODE_NONE && gaps->nodes[joined].place + gaps->nodes[joined].bytes == place) {
		place = gaps->nodes[joined].place;
		bytes += gaps->nodes[joined].bytes;
		gaps_split(gaps, lower, place, &lower, &joined);
		arrput(gaps->unused, joined);
	}
	joined = gap_outermost(gaps, upper, false);
	if (joined != NODE_NONE && gaps->nodes[joined].place == place + bytes) {
		bytes += gaps->nodes[joined].bytes;
		gaps_split(gaps, upper, gaps->nodes[joined].place + 1, &joined, &upper);
		arrput(gaps->unused, joined);
	}
	if (place + bytes == gaps->top)
		gaps->top = place;
	else
		lower = gaps_join(gaps, lower, gap_new(gaps, place, bytes));
	gaps->root = gaps_join(gaps, lower, upper);
}

/* --- events in their order ----------------------------------------------------------- */

/* A block begins or ends. */
struct edge {
	uint32_t order, block;
	bool is_end;
};

static int edge_compare(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	if (a->is_end != b->is_end)
		return a->is_end ? -1 : 1;
	return (a->block > b->block) - (a->block < b->block);
}

static struct edge *edges_of(const struct rank *rank)
{
	struct edge *edges = NULL;

	for (uint32_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		struct edge start = {block->first_order, i, false}, end = {block->last_order, i, true};

		if (!block_held_bytes(block) || block->last_order <= block->first_order)
			continue;
		arrput(edges, start);
		if (!block->persistent)
			arrput(edges, end);
	}
	if (edges)
		qsort(edges, arrlenu(edges), sizeof(*edges), edge_compare);
	return edges;
}

uint64_t *layout_places(const struct rank *rank)
{
	struct edge *edges = edges_of(rank);
	struct gaps *devices = NULL;
	struct gap none = {0};
	uint64_t *places = NULL;

	arrzero(places, arrlenu(rank->blocks));
	arrzero(devices, arrlenu(rank->devices));
	for (size_t i = 0; i < arrlenu(devices); i++) {
		devices[i].random = RANDOM_SEED;
		arrput(devices[i].nodes, none);
	}
	for (size_t i = 0; i < arrlenu(edges); i++) {
		const struct block *block = &rank->blocks[edges[i].block];

		if (edges[i].is_end)
			place_free(&devices[block->device], places[edges[i].block], block_held_bytes(block));
		else
			places[edges[i].block] = place_take(&devices[block->device], block_held_bytes(block));
	}
	for (size_t i = 0; i < arrlenu(devices); i++) {
		arrfree(devices[i].nodes);
		arrfree(devices[i].unused);
	}
	arrfree(devices);
	arrfree(edges);
	return places;
}
