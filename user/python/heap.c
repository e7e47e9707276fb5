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
/* Behind the generations a pointer may come before the last list. */
#define LAST_LIST_GAP 8

#define STATE_BYTES 32768 /* of a PyInterpreterState, where the collector's may begin */
#define STATE_STEP 4

#define OBJECTS_MAX (1u << 24)
#define WALK_TRIES 40 /* of one list; it changes whenever the target makes an object */
#define WALK_PAUSE_MICROSECONDS 500

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

static bool head_at(const struct python_memory *memory, uint64_t address)
{
	struct link link;

	return link_read(memory, address, &link) && is_head(memory, address, &link);
}

/* The bytes at a place of the interpreter's state as a head: looked at in the copy first. */
static bool state_head(const struct python_memory *memory, const uint8_t *state, uint64_t interpreter, size_t place)
{
	struct link link;

	memcpy(&link, state + place, sizeof(link));
	link.next &= ~LINK_FLAGS;
	link.previous &= ~LINK_FLAGS;
	return link.next > STATE_BYTES && link.previous > STATE_BYTES && is_head(memory, interpreter + place, &link);
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

int python_heap_find(const struct python_memory *memory, uint64_t runtime, struct python_heap *heap)
{
	uint64_t interpreter = python_pointer(memory, runtime + memory->layout->runtime.interpreters_head);
	size_t size = STATE_BYTES;
	uint8_t *state = malloc(size);
	int error = -ENOENT;

	/* It may lie at the end of what is mapped. */
	while (state && size > GENERATIONS * GENERATION_BYTES && python_memory_read(memory, interpreter, state, size))
		size /= 2;
	for (size_t place = 0; state && error && place + GENERATIONS * GENERATION_BYTES <= size; place += STATE_STEP) {
		bool found = true;

		for (size_t generation = 0; found && generation < GENERATIONS; generation++)
			found = state_head(memory, state, interpreter, place + generation * GENERATION_BYTES);
		if (!found)
			continue;
		heap_fill(memory, interpreter + place, heap);
		error = 0;
	}
	free(state);
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

/* From a head back to it. -EAGAIN: the list was changed under the walk. */
static int list_walk(struct blocks *blocks, uint64_t head, void (*visit)(void *context, uint64_t object, uint64_t type),
	void *context)
{
	struct link start;
	uint64_t before = head;

	memset(blocks->tags, 0, sizeof(blocks->tags));
	if (!link_read(blocks->memory, head, &start))
		return -EAGAIN;
	for (uint64_t at = start.next, count = 0; at != head; count++) {
		struct linked_object object;

		if (count == OBJECTS_MAX || !object_read(blocks, at, before, &object))
			return -EAGAIN;
		visit(context, at + HEAD_BYTES, object.type);
		before = at;
		at = object.link.next & ~LINK_FLAGS;
	}
	return 0;
}

int python_heap_walk(const struct python_memory *memory, const struct python_heap *heap,
	void (*visit)(void *context, uint64_t object, uint64_t type), void *context)
{
	struct blocks *blocks = malloc(sizeof(*blocks));
	int result = 0;

	if (!blocks)
		return -ENOMEM;
	blocks->memory = memory;
	for (unsigned int list = 0; list < heap->count; list++) {
		int error = -EAGAIN;

		for (int tries = 0; error && tries < WALK_TRIES; tries++) {
			if (tries)
				usleep(WALK_PAUSE_MICROSECONDS);
			error = list_walk(blocks, heap->heads[list], visit, context);
		}
		result = error ? error : result;
	}
	free(blocks);
	return result;
}
