/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The walk of Python's objects over hostile memory: the input is the memory of a
 * process, which changes between two reads as a running one does, and where reads
 * fail. The first byte chooses the layout, the second how the memory changes, the
 * third where the interpreter is. What is found must have a sane name and storage.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "torch/objects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pointers in the input are small numbers, so that the fuzzer can find the next object. */
#define MEMORY_BASE 0x100u
#define HEADER_BYTES 3
#define NAME_BYTES_MAX 1100 /* a class, an optimizer's key and a parameter's name at most */
#define READS_MAX 200000u   /* the recorder has a deadline */

struct memory {
	const uint8_t *bytes;
	size_t size;
	uint8_t change; /* added to one byte of every read after the first few, 0: memory stands still */
	unsigned int reads;
};

static int memory_read(void *context, uint64_t address, void *buffer, size_t length)
{
	struct memory *memory = context;

	if (memory->reads++ > READS_MAX || address < MEMORY_BASE || length > memory->size ||
		address - MEMORY_BASE > memory->size - length)
		return -EFAULT;
	memcpy(buffer, memory->bytes + (address - MEMORY_BASE), length);
	if (memory->change && memory->reads > memory->change && length)
		((uint8_t *)buffer)[memory->reads % length] += memory->change;
	return 0;
}

static void module_look(void *context, uint64_t object, uint64_t type, const char *name)
{
	(void)context;
	if (!object || !type || strlen(name) > NAME_BYTES_MAX)
		abort();
}

static void owner_look(void *context, enum owner_kind kind, const struct tensor_argument *storage, uint8_t element_type,
	const char *name)
{
	(void)context;
	(void)element_type;
	if (kind == OWNER_NONE || kind >= OWNER_KINDS || !storage->data || !storage->bytes ||
		strlen(name) > NAME_BYTES_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct torch_layout torch = {.tensor_storage = 16, .storage_data = 16, .storage_bytes = 48};
	static const struct objects_visitor visitor = {.module = module_look, .owner = owner_look};
	struct memory memory = {.bytes = data + HEADER_BYTES, .size = size - HEADER_BYTES};
	struct python_memory python = {.read = memory_read, .context = &memory};
	struct python_heap heap;
	struct objects_walk *walk;
	unsigned int layouts = 0;

	if (size <= HEADER_BYTES)
		return 0;
	while (python_layout_at(layouts))
		layouts++;
	python.layout = python_layout_at(data[0] % layouts);
	memory.change = data[1];
	walk = objects_walk_new(&python, &torch, &visitor);
	if (!walk)
		return 0;
	(void)objects_walk_modules(walk, MEMORY_BASE);
	if (!python_heap_find(&python, MEMORY_BASE + data[2], &heap))
		(void)objects_walk_heap(walk, &heap, MEMORY_BASE + data[2]);
	/* Objects at every place, whether or not a list leads to them. */
	heap = (struct python_heap){.heads = {MEMORY_BASE}, .count = 1};
	(void)objects_walk_heap(walk, &heap, MEMORY_BASE + data[2]);
	objects_walk_program(walk, MEMORY_BASE + data[2]);
	objects_walk_free(walk);
	return 0;
}
