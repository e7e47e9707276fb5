/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lists of heap.h; Modules/gcmodule.c, Include/internal/pycore_gc.h. In front
 * of each object stands a PyGC_Head: the next one and the one before, with flags
 * in the low bits. The heads of the lists have the same form; they lie in the
 * state of the interpreter (struct gc_generation), at a place that differs by
 * version and build, but not how.
 */
#include "python/heap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_FLAGS 3ull /* a head may be aligned to four bytes only */
#define HEAD_BYTES 16
#define GENERATION_BYTES 24ul /* head, threshold, count */
#define GENERATIONS 3
#define COUNT_SHIFT 32 /* behind a head: threshold and count, two ints */
/* Behind the generations a pointer may come before the last list. */
#define LAST_LIST_GAP 8

#define STATE_BYTES 32768 /* of a PyInterpreterState, where the collector's may begin */
#define STATE_STEP 4

#define OBJECTS_MAX (1u << 24)
#define WALK_TRIES 40 /* of one list; it changes whenever the target makes an object */
#define ROUNDS 4      /* of all lists, where objects change from one to another in any order */

/* The first list changes with each object that is made; the others while they are collected. */
#define HEAD_TRIES 8
#define FIND_TRIES 10

struct link {
	uint64_t next, previous;
};

/* A link, the count of references and the type. */
struct linked_object {
	struct link link;
	uint64_t references, type;
};

static bool link_read(const struct python_memory *memory, uint64_t address, struct link *link)
{
	if (python_memory_read(memory, address, link, sizeof(*link)))
		return false;
	link->next &= ~LINK_FLAGS;
	link->previous &= ~LINK_FLAGS;
	return true;
}

/* Do the neighbours of a head know it? */
static bool is_head(const struct python_memory *memory, uint64_t address, const struct link *link)
{
	struct link next, previous;

	return link->next && link->previous && link_read(memory, link->next, &next) && next.previous == address &&
	       link_read(memory, link->previous, &previous) && previous.next == address;
}

/* In one of some looks: the target may be about to put an object between a head and its neighbour. */
static bool head_at(const struct python_memory *memory, uint64_t address)
{
	struct link link;

	for (int tries = 0; tries < HEAD_TRIES; tries++)
		if (link_read(memory, address, &link) && is_head(memory, address, &link))
			return true;
	return false;
}

/* Can a copy of the interpreter's state have the heads of the generations at a place? */
static bool heads_can_be_at(const uint8_t *state, size_t place)
{
	for (size_t generation = 0; generation < GENERATIONS; generation++) {
		struct link link;

		memcpy(&link, state + place + generation * GENERATION_BYTES, sizeof(link));
		if (link.next <= STATE_BYTES || link.previous <= STATE_BYTES)
			return false;
	}
	return true;
}

/* The oldest generation, which changes least, is looked at first: most places fall at its first look. */
static bool heads_are_at(const struct python_memory *memory, uint64_t first)
{
	uint64_t oldest = first + (GENERATIONS - 1) * GENERATION_BYTES;
	struct link link;

	if (!link_read(memory, oldest, &link) || !is_head(memory, oldest, &link))
		return false;
	for (size_t generation = 0; generation < GENERATIONS; generation++)
		if (!head_at(memory, first + generation * GENERATION_BYTES))
			return false;
	return true;
}

static void heap_fill(const struct python_memory *memory, uint64_t first, struct python_heap *heap)
{
	uint64_t last = first + GENERATIONS * GENERATION_BYTES;

	for (heap->count = 0; heap->count < GENERATIONS; heap->count++)
		heap->heads[heap->count] = first + heap->count * GENERATION_BYTES;
	for (uint64_t at = last; at <= last + LAST_LIST_GAP + STATE_STEP; at += STATE_STEP) {
		if (!head_at(memory, at))
			continue;
		heap->heads[heap->count++] = at;
		break;
	}
}

static int heads_find(const struct python_memory *memory, uint64_t interpreter, struct python_heap *heap)
{
	size_t size = STATE_BYTES;
	uint8_t *state = malloc(size);
	int error = -ENOENT;

	/* It may lie at the end of what is mapped. */
	while (state && size > GENERATIONS * GENERATION_BYTES && python_memory_read(memory, interpreter, state, size))
		size /= 2;
	for (size_t place = 0; state && error && place + GENERATIONS * GENERATION_BYTES <= size; place += STATE_STEP) {
		if (!heads_can_be_at(state, place) || !heads_are_at(memory, interpreter + place))
			continue;
		heap_fill(memory, interpreter + place, heap);
		error = 0;
	}
	free(state);
	return error;
}

int python_heap_find(const struct python_memory *memory, uint64_t runtime, struct python_heap *heap)
{
	uint64_t interpreter = python_pointer(memory, runtime + memory->layout->runtime.interpreters_head);
	int error = -ENOENT;

	memset(heap, 0, sizeof(*heap));
	/* Heads do not know their neighbours while the collector works on their list. */
	for (int tries = 0; interpreter && error && tries < FIND_TRIES; tries++) {
		if (tries)
			usleep(memory->pause_microseconds);
		error = heads_find(memory, interpreter, heap);
	}
	return error;
}

/* --- blocks -------------------------------------------------------------------- */

/*
 * Objects that were made together lie together: memory is read in blocks, which
 * may be somewhat old. What does not fit is read again by itself.
 */
#define BLOCK_BYTES 4096
#define BLOCKS 1024

struct blocks {
	const struct python_memory *memory;
	uint64_t tags[BLOCKS]; /* address of the block that is there, 0: none */
	uint8_t bytes[BLOCKS][BLOCK_BYTES];
};

static bool object_cached(struct blocks *blocks, uint64_t address, struct linked_object *object)
{
	uint64_t tag = address / BLOCK_BYTES * BLOCK_BYTES, offset = address % BLOCK_BYTES;
	size_t slot = (tag / BLOCK_BYTES) % BLOCKS;

	if (!tag || offset > BLOCK_BYTES - sizeof(*object))
		return false;
	if (blocks->tags[slot] != tag) {
		blocks->tags[slot] = 0;
		if (python_memory_read(blocks->memory, tag, blocks->bytes[slot], BLOCK_BYTES))
			return false;
		blocks->tags[slot] = tag;
	}
	memcpy(object, blocks->bytes[slot] + offset, sizeof(*object));
	return true;
}

/* The object at a link, which must know the one before it. */
static bool object_read(struct blocks *blocks, uint64_t address, uint64_t before, struct linked_object *object)
{
	if (object_cached(blocks, address, object) && (object->link.previous & ~LINK_FLAGS) == before)
		return true;
	return !python_memory_read(blocks->memory, address, object, sizeof(*object)) &&
	       (object->link.previous & ~LINK_FLAGS) == before;
}

/* --- walks --------------------------------------------------------------------- */

static bool is_any_head(const struct python_heap *heap, uint64_t address)
{
	for (unsigned int list = 0; list < heap->count; list++)
		if (heap->heads[list] == address)
			return true;
	return false;
}

/*
 * Where the list goes on behind what seems to be its last object. What was read
 * in a block may be old: objects were made since, or the whole list was moved.
 */
static bool end_read(const struct blocks *blocks, uint64_t last, uint64_t *next)
{
	struct link link;

	if (!link_read(blocks->memory, last, &link))
		return false;
	*next = link.next;
	return true;
}

/*
 * From a head back to it. -EAGAIN: the list was changed under the walk. One that
 * was put at the end of another leads to that one's head.
 */
static int list_walk(struct blocks *blocks, struct python_heap *heap, unsigned int list,
	void (*visit)(void *context, uint64_t object, uint64_t type), void *context)
{
	uint64_t head = heap->heads[list], before = head, at;

	memset(blocks->tags, 0, sizeof(blocks->tags));
	heap->objects[list] = 0;
	if (!end_read(blocks, head, &at))
		return -EAGAIN;
	for (;;) {
		struct linked_object object;

		if (at == head && (!end_read(blocks, before, &at) || at == head))
			break;
		if (heap->objects[list]++ == OBJECTS_MAX || is_any_head(heap, at) ||
			!object_read(blocks, at, before, &object))
			return -EAGAIN;
		visit(context, at + HEAD_BYTES, object.type);
		before = at;
		at = object.link.next & ~LINK_FLAGS;
	}
	return at == head ? 0 : -EAGAIN;
}

/* How often each generation but the youngest had to do with a collection. */
struct collections {
	uint64_t counts[GENERATIONS - 1];
};

static struct collections collections_read(const struct python_memory *memory, const struct python_heap *heap)
{
	struct collections collections = {{0}};

	for (unsigned int list = 1; list < GENERATIONS && list < heap->count; list++)
		collections.counts[list - 1] = python_pointer(memory, heap->heads[list] + HEAD_BYTES) >> COUNT_SHIFT;
	return collections;
}

/* Every list once, each followed again until it holds. */
static int lists_walk(struct blocks *blocks, struct python_heap *heap,
	void (*visit)(void *context, uint64_t object, uint64_t type), void *context)
{
	int result = 0;

	for (unsigned int list = 0; list < heap->count; list++) {
		int error = -EAGAIN;

		for (int tries = 0; error && tries < WALK_TRIES; tries++) {
			heap->retries += tries > 0;
			if (tries)
				usleep(blocks->memory->pause_microseconds);
			error = list_walk(blocks, heap, list, visit, context);
		}
		result = error ? error : result;
	}
	return result;
}

/*
 * Objects go from younger lists to older ones, in the order of the walk: none is
 * missed. Where the collector takes the oldest ones in pieces, from one list to
 * another and back, a walk counts only when it did not in the meantime.
 */
int python_heap_walk(const struct python_memory *memory, struct python_heap *heap,
	void (*visit)(void *context, uint64_t object, uint64_t type), void *context)
{
	struct blocks *blocks = malloc(sizeof(*blocks));
	bool whole = false;
	int result = 0;

	if (!blocks)
		return -ENOMEM;
	blocks->memory = memory;
	heap->retries = 0;
	for (int round = 0; !whole && round < ROUNDS; round++) {
		struct collections before = collections_read(memory, heap), after;

		heap->retries += round > 0;
		result = lists_walk(blocks, heap, visit, context);
		after = collections_read(memory, heap);
		whole = result || !memory->layout->collects_in_pieces || !memcmp(&before, &after, sizeof(after));
	}
	free(blocks);
	return whole ? result : -EAGAIN;
}
