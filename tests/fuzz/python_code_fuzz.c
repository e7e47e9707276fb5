/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code reader over hostile memory: the input is the memory of a process,
 * which changes between two reads as a running one does, and where reads fail.
 * The first byte chooses the layout and how the memory changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/code.h"
#include "python/location.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pointers in the input are small numbers, so that the fuzzer can find the next object. */
#define MEMORY_BASE 0x100u

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

static unsigned int layout_count(void)
{
	unsigned int count = 0;

	while (python_layout_at(count))
		count++;
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct python_layout *layout;
	struct python_types types = {0};
	struct python_code code;
	struct memory memory;
	int error;

	if (size < 2)
		return 0;
	layout = python_layout_at(data[0] % layout_count());
	memory = (struct memory){.bytes = data + 2, .size = size - 2, .change = data[1]};
	error = python_code_read(layout, &types, memory_read, &memory, MEMORY_BASE, &code);
	if (error) {
		if (code.file || code.name || code.qualified_name || code.table)
			abort();
		return 0;
	}
	code_look(&code);
	error = python_code_same(layout, memory_read, &memory, &code);
	if (!memory.change && error != 1)
		abort();
	python_code_clear(&code);
	return 0;
}
