/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dispatcher's list of operators in hostile memory: the input is the memory of a
 * process, where the list begins at its start. Kernels that are found must lie in code.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "torch/dispatcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pointers in the input are small numbers, so that the fuzzer can find the next element. */
#define MEMORY_BASE 0x100u
#define CODE_START 0x10000u
#define CODE_END 0x20000u
#define NAME_BYTES_MAX 520 /* two texts of less than 256 bytes, and what is between them */

struct memory {
	const uint8_t *bytes;
	size_t size;
};

static int memory_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct memory *memory = context;
	size_t have;

	if (address < MEMORY_BASE || address - MEMORY_BASE >= memory->size)
		return -EFAULT;
	/* An element may be longer than the input: behind it is nothing. */
	have = memory->size - (size_t)(address - MEMORY_BASE);
	memset(buffer, 0, length);
	memcpy(buffer, memory->bytes + (address - MEMORY_BASE), length < have ? length : have);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory memory = {data, size};
	struct dispatcher_image image = {.read = memory_read,
		.context = &memory,
		.dispatcher = MEMORY_BASE,
		.code = {{CODE_START, CODE_END}, {0, 0}}};
	struct dispatcher_operator *operators;

	dispatcher_read(&image, &operators);
	for (size_t index = 0; index < arrlenu(operators); index++) {
		uint64_t kernel = operators[index].kernels[DISPATCHER_CPU];

		if (strlen(operators[index].name) > NAME_BYTES_MAX || operators[index].kernels[DISPATCHER_CUDA] ||
			(kernel && (kernel < CODE_START || kernel >= CODE_END)))
			abort();
	}
	dispatcher_free(operators);
	return 0;
}
