/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code reader over hostile memory: the input is the memory of a process,
 * which changes between two reads as a running one does, and where reads fail.
 * The first byte chooses the layout, the second one how the memory changes. A
 * layout may also be what debug offsets in the input say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/code.h"
#include "python/debug_offsets.h"
#include "python/location.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pointers in the input are small numbers, so that the fuzzer can find the next object. */
#define MEMORY_BASE 0x100u

/* In the first byte: the layout is changed by debug offsets. */
#define OFFSETS_BIT 0x80u

struct memory {
	const uint8_t *bytes;
	size_t size;
	uint8_t change; /* added to one byte of every read after the first few, 0: memory stands still */
	unsigned int reads;
};

static int memory_read(void *context, uint64_t address, void *buffer, size_t length)
{
	struct memory *memory = context;

	memory->reads++;
	if (address < MEMORY_BASE || length > memory->size || address - MEMORY_BASE > memory->size - length)
		return -EFAULT;
	memcpy(buffer, memory->bytes + (address - MEMORY_BASE), length);
	if (memory->change && memory->reads > memory->change % 16u && length)
		((uint8_t *)buffer)[memory->reads % length] += memory->change;
	return 0;
}

static void code_look(const struct python_code *code)
{
	uint32_t line;

	if (strlen(code->file) > PYTHON_TEXT_MAX || strlen(code->name) > PYTHON_TEXT_MAX ||
		strlen(code->qualified_name) > PYTHON_TEXT_MAX || code->table_length > PYTHON_TABLE_MAX)
		abort();
	(void)location_line(code->table_format, code->table, code->table_length, code->first_line, 64, &line);
}

static struct python_layout layout_choose(uint8_t choice)
{
	unsigned int count = 0;

	while (python_layout_at(count))
		count++;
	return *python_layout_at(choice % OFFSETS_BIT % count);
}

/* With the right cookie and version in front, so that the rest is looked at. */
static void layout_change(struct python_layout *layout, const uint8_t *data)
{
	uint64_t version = (uint64_t)layout->major << 24 | (uint64_t)layout->minor << 16, not_free = 0;
	uint8_t bytes[DEBUG_OFFSETS_SIZE];
	struct debug_offsets found;

	memcpy(bytes, data, sizeof(bytes));
	memcpy(bytes, "xdebugpy", 8);
	memcpy(bytes + 8, &version, sizeof(version));
	memcpy(bytes + 16, &not_free, sizeof(not_free));
	(void)debug_offsets_read(bytes, sizeof(bytes), layout, &found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct python_layout layout;
	struct python_types types = {0};
	struct python_code code;
	struct memory memory;
	int error;

	if (size < 2)
		return 0;
	layout = layout_choose(data[0]);
	memory = (struct memory){.bytes = data + 2, .size = size - 2, .change = data[1]};
	if (data[0] & OFFSETS_BIT && size > DEBUG_OFFSETS_SIZE + 2) {
		layout_change(&layout, data + 2);
		memory.bytes += DEBUG_OFFSETS_SIZE;
		memory.size -= DEBUG_OFFSETS_SIZE;
	}
	error = python_code_read(&layout, &types, memory_read, &memory, MEMORY_BASE, &code);
	if (error) {
		if (code.file || code.name || code.qualified_name || code.table)
			abort();
		return 0;
	}
	code_look(&code);
	error = python_code_same(&layout, memory_read, &memory, &code);
	if (!memory.change && error != 1)
		abort();
	python_code_clear(&code);
	return 0;
}
