/* SPDX-License-Identifier: BSD-2-Clause */
/* The dispatcher's operators and kernels, out of memory that is laid out as PyTorch's; and memory that is not. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "torch/dispatcher.h"

#define OPERATORS 64
#define ELEMENT_WORDS 80
#define NAME_WORD 2
#define OVERLOAD_WORD 6
#define TABLE_WORD 33 /* of the first entry; its boxed function is the next word */
#define CPU_CODE 0x100000u
#define CUDA_CODE 0x200000u
#define OTHER_CODE 0x300000u
#define CODE_BYTES 0x10000u

/* A process with a list of operators; addresses are those of this one. */
struct process {
	uint64_t list[3];
	uint64_t elements[OPERATORS][ELEMENT_WORDS];
	char names[OPERATORS][32];
	size_t entry_words;
};

static int process_read(void *context, uint64_t address, void *buffer, size_t length)
{
	uint64_t start = (uint64_t)(uintptr_t)context;

	if (address < start || length > sizeof(struct process) || address - start > sizeof(struct process) - length)
		return -EFAULT;
	memcpy(buffer, (const void *)(uintptr_t)address, length);
	return 0;
}

static void string_set(uint64_t *string, const char *text)
{
	string[0] = (uint64_t)(uintptr_t)text;
	string[1] = strlen(text);
}

/* The boxed function of a backend: 0 none, 1 the CPU, 2 CUDA. */
static uint64_t *kernel(struct process *process, size_t operator_, size_t backend)
{
	return &process->elements[operator_][TABLE_WORD + 1 + backend * process->entry_words];
}

/* Of every second operator there is a function for no backend; each has one of its own for the CPU and for CUDA. */
static struct process *process_make(size_t entry_words)
{
	struct process *process = calloc(1, sizeof(*process));
	uint64_t *before = process->list;

	process->entry_words = entry_words;
	for (size_t index = 0; index < OPERATORS; index++) {
		uint64_t *element = process->elements[index];

		element[1] = (uint64_t)(uintptr_t)before;
		before[0] = (uint64_t)(uintptr_t)element;
		before = element;
		snprintf(process->names[index], sizeof(process->names[index]), "aten::operator_%zu", index);
		string_set(&element[NAME_WORD], process->names[index]);
		string_set(&element[OVERLOAD_WORD], index % 3 ? "" : process->names[index] + strlen("aten::"));
		if (index % 2)
			*kernel(process, index, 0) = CPU_CODE + 8;
		*kernel(process, index, 1) = CPU_CODE + 0x100 + index;
		*kernel(process, index, 2) = CUDA_CODE + 0x100 + index;
	}
	before[0] = (uint64_t)(uintptr_t)process->list;
	process->list[1] = (uint64_t)(uintptr_t)before;
	process->list[2] = OPERATORS;
	return process;
}

static int process_look(struct process *process, struct dispatcher_operator **operators)
{
	struct dispatcher_image image = {.read = process_read,
		.context = process,
		.dispatcher = (uint64_t)(uintptr_t)process->list,
		.code = {{CPU_CODE, CPU_CODE + CODE_BYTES}, {CUDA_CODE, CUDA_CODE + CODE_BYTES}}};

	return dispatcher_read(&image, operators);
}

static void kernels_check(size_t entry_words)
{
	struct process *process = process_make(entry_words);
	struct dispatcher_operator *operators;

	cr_assert_eq(process_look(process, &operators), 0);
	cr_assert_eq(arrlenu(operators), OPERATORS);
	cr_expect_str_eq(operators[1].name, "aten.operator_1.default");
	cr_expect_str_eq(operators[3].name, "aten.operator_3.operator_3");
	for (size_t index = 0; index < OPERATORS; index++) {
		cr_expect_eq(operators[index].kernels[DISPATCHER_CPU], CPU_CODE + 0x100 + index);
		cr_expect_eq(operators[index].kernels[DISPATCHER_CUDA], CUDA_CODE + 0x100 + index);
	}
	dispatcher_free(operators);
	free(process);
}

Test(dispatcher, has_the_kernels_of_the_backends)
{
	kernels_check(4);
}

/* 2.14 has a word more in each entry. */
Test(dispatcher, has_them_where_entries_are_longer)
{
	kernels_check(5);
}

Test(dispatcher, leaves_out_kernels_in_other_code)
{
	struct process *process = process_make(4);
	struct dispatcher_operator *operators;

	*kernel(process, 5, 1) = OTHER_CODE;
	*kernel(process, 6, 2) = 0;
	cr_assert_eq(process_look(process, &operators), 0);
	cr_expect_eq(operators[5].kernels[DISPATCHER_CPU], 0);
	cr_expect_eq(operators[5].kernels[DISPATCHER_CUDA], CUDA_CODE + 0x100 + 5);
	cr_expect_eq(operators[6].kernels[DISPATCHER_CUDA], 0);
	dispatcher_free(operators);
	free(process);
}

Test(dispatcher, leaves_out_operators_whose_name_cannot_be_read)
{
	struct process *process = process_make(4);
	struct dispatcher_operator *operators;

	process->elements[2][NAME_WORD] = 16;
	process->elements[3][NAME_WORD + 1] = UINT64_MAX;
	string_set(&process->elements[4][NAME_WORD], "without a namespace");
	cr_assert_eq(process_look(process, &operators), 0);
	cr_assert_eq(arrlenu(operators), OPERATORS - 3);
	cr_expect_str_eq(operators[2].name, "aten.operator_5.default");
	dispatcher_free(operators);
	free(process);
}

Test(dispatcher, refuses_a_list_that_does_not_hold)
{
	struct process *process = process_make(4);
	struct dispatcher_operator *operators;

	process->elements[7][1] = 0; /* the element before */
	cr_expect_eq(process_look(process, &operators), -EBADMSG);
	cr_expect_null(operators);
	process->elements[7][0] = 16; /* an element that is nowhere */
	process->elements[7][1] = (uint64_t)(uintptr_t)process->elements[6];
	cr_expect_eq(process_look(process, &operators), -EFAULT);
	process->list[0] = (uint64_t)(uintptr_t)process->list; /* no element */
	cr_expect_eq(process_look(process, &operators), -EBADMSG);
	free(process);
}

/* Two places follow each other so closely or so far that they are no entries of one table. */
Test(dispatcher, refuses_tables_that_are_none)
{
	struct dispatcher_operator *operators;
	struct process *process = process_make(2);

	cr_expect_eq(process_look(process, &operators), -EBADMSG);
	free(process);
	process = process_make(9);
	cr_expect_eq(process_look(process, &operators), -EBADMSG);
	free(process);
	process = process_make(4);
	for (size_t index = 0; index < OPERATORS; index++)
		*kernel(process, index, 0) = CPU_CODE + 8; /* nothing tells how long an entry is */
	cr_expect_eq(process_look(process, &operators), -EBADMSG);
	free(process);
}
