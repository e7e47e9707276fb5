/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of an interpreter in made-up memory: what is found, and what is not believed. */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include "python/threads.h"

/* A little memory with an interpreter of two threads, each with a frame of Python code. */
#define MEMORY_BASE 0x10000u
#define MEMORY_SIZE 0x8000u
enum place {
	RUNTIME = 0x0000,
	INTERPRETER = 0x1000,
	THREADS = 0x3000, /* 0x400 bytes each */
	FRAMES = 0x4000,  /* the same */
	CODE = 0x5000,
	CODE_TYPE = 0x5800,
	POINTERS = 0x6000, /* where the threads' pointers point, 0x800 bytes each */
};

#define SPECIFICS 0x310
#define KEY_OF_PYTHON 3
#define SLOT_OF_PYTHON (SPECIFICS + 16 * KEY_OF_PYTHON + 8)

struct memory {
	uint8_t bytes[MEMORY_SIZE];
	struct python_image image;
};

static int memory_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct memory *memory = context;

	if (address < MEMORY_BASE || length > MEMORY_SIZE || address - MEMORY_BASE > MEMORY_SIZE - length)
		return -EFAULT;
	memcpy(buffer, memory->bytes + (address - MEMORY_BASE), length);
	return 0;
}

static void put(struct memory *memory, uint32_t place, uint64_t value)
{
	memcpy(memory->bytes + place, &value, sizeof(value));
}

static uint32_t thread_at(unsigned int thread)
{
	return THREADS + 0x400 * thread;
}

static uint32_t frame_at(unsigned int thread)
{
	return FRAMES + 0x400 * thread;
}

static uint32_t specific_at(unsigned int thread, unsigned int key)
{
	return POINTERS + 0x800 * thread + SPECIFICS + 16 * key + 8;
}

/* The innermost frame, through a structure between where the version has one. */
static void put_innermost(struct memory *memory, unsigned int thread, uint64_t frame)
{
	const struct python_layout *layout = memory->image.layout;
	uint32_t between = thread_at(thread) + 0x200, step = layout->thread.frame_steps[0];

	if (layout->thread.frame_step_count == 1) {
		put(memory, thread_at(thread) + step, frame);
		return;
	}
	put(memory, thread_at(thread) + step, MEMORY_BASE + between);
	put(memory, between + layout->thread.frame_steps[1], frame);
}

static void put_frame(struct memory *memory, unsigned int thread)
{
	const struct python_layout *layout = memory->image.layout;
	uint64_t instruction = layout->frame.index_unit ? 4 : MEMORY_BASE + CODE + layout->code.instructions + 4;

	put(memory, frame_at(thread) + layout->frame.code, (MEMORY_BASE + CODE) | (layout->frame.tag_mask & 1));
	put(memory, frame_at(thread) + layout->frame.instruction, instruction);
	put_innermost(memory, thread, MEMORY_BASE + frame_at(thread));
}

static void memory_make(struct memory *memory, unsigned int minor)
{
	const struct python_layout *layout = python_layout_find(3, minor);

	memset(memory, 0, sizeof(*memory));
	memory->image =
		(struct python_image){layout, memory_read, memory, MEMORY_BASE + RUNTIME, MEMORY_BASE + CODE_TYPE};
	put(memory, RUNTIME + layout->runtime.interpreters_head, MEMORY_BASE + INTERPRETER);
	put(memory, INTERPRETER + layout->interpreter.threads_head, MEMORY_BASE + thread_at(0));
	put(memory, thread_at(0) + layout->thread.next, MEMORY_BASE + thread_at(1));
	put(memory, CODE + layout->object_type, MEMORY_BASE + CODE_TYPE);
	for (unsigned int thread = 0; thread < 2; thread++) {
		put(memory, thread_at(thread) + layout->thread.thread_id, MEMORY_BASE + POINTERS + 0x800 * thread);
		put(memory, specific_at(thread, KEY_OF_PYTHON), MEMORY_BASE + thread_at(thread));
		put_frame(memory, thread);
	}
}

static int slot_of(struct memory *memory)
{
	uint32_t slot;
	int error = python_threads_find(&memory->image, &slot);

	return error ? error : (int)slot;
}

Test(python_threads, keep_their_state_in_the_slot_that_holds_it_in_each)
{
	struct memory memory;

	for (unsigned int i = 0; python_layout_at(i); i++) {
		memory_make(&memory, python_layout_at(i)->minor);
		cr_assert_eq(slot_of(&memory), SLOT_OF_PYTHON, "3.%u", python_layout_at(i)->minor);
	}
	/* Another key before and one after it, each with the state of one thread, or of both. */
	memory_make(&memory, 13);
	put(&memory, specific_at(0, 1), MEMORY_BASE + thread_at(0));
	put(&memory, specific_at(0, 5), MEMORY_BASE + thread_at(0));
	put(&memory, specific_at(1, 5), MEMORY_BASE + thread_at(1));
	cr_assert_eq(slot_of(&memory), SLOT_OF_PYTHON);
	/* A state that is not the thread's own. */
	memory_make(&memory, 13);
	put(&memory, specific_at(0, KEY_OF_PYTHON), MEMORY_BASE + thread_at(1));
	put(&memory, specific_at(1, KEY_OF_PYTHON), MEMORY_BASE + thread_at(0));
	cr_assert_eq(slot_of(&memory), -ESRCH);
}

Test(python_threads, of_an_interpreter_that_does_not_run_are_not_there)
{
	struct memory memory;

	memory_make(&memory, 13);
	put(&memory, RUNTIME + memory.image.layout->runtime.interpreters_head, 0);
	cr_assert_eq(slot_of(&memory), -ENOENT);
	memory_make(&memory, 13);
	memory.image.runtime = 0x7fff00000000;
	cr_assert_eq(slot_of(&memory), -ENOENT, "unmapped");
}

Test(python_threads, need_no_frame_but_one_that_fits_if_there_are_any)
{
	struct memory memory;

	memory_make(&memory, 13);
	put_innermost(&memory, 0, 0);
	cr_assert_eq(slot_of(&memory), SLOT_OF_PYTHON, "one thread is enough");
	put_innermost(&memory, 1, 0);
	cr_assert_eq(slot_of(&memory), SLOT_OF_PYTHON, "no frame contradicts");
	memory_make(&memory, 13);
	memory.bytes[frame_at(0) + memory.image.layout->frame.owner] = 3;
	put(&memory, CODE + memory.image.layout->object_type, MEMORY_BASE);
	cr_assert_eq(slot_of(&memory), -EBADMSG, "no code object");
	memory_make(&memory, 11);
	for (unsigned int thread = 0; thread < 2; thread++)
		put(&memory, frame_at(thread) + memory.image.layout->frame.instruction, MEMORY_BASE + CODE - 8);
	cr_assert_eq(slot_of(&memory), -EBADMSG, "an instruction before its code");
	memory_make(&memory, 9);
	for (unsigned int thread = 0; thread < 2; thread++)
		put(&memory, frame_at(thread) + memory.image.layout->frame.instruction, (uint32_t)-2);
	cr_assert_eq(slot_of(&memory), -EBADMSG, "no index is below -1");
}

Test(python_threads, in_lists_without_end_are_looked_at_for_a_while_only, .timeout = 20)
{
	struct memory memory;

	memory_make(&memory, 12);
	put(&memory, thread_at(1) + memory.image.layout->thread.next, MEMORY_BASE + thread_at(0));
	put(&memory, INTERPRETER + memory.image.layout->interpreter.next, MEMORY_BASE + INTERPRETER);
	cr_assert_eq(slot_of(&memory), SLOT_OF_PYTHON);
	for (unsigned int thread = 0; thread < 2; thread++) {
		put(&memory, frame_at(thread) + memory.image.layout->frame.code, 0);
		put(&memory, frame_at(thread) + memory.image.layout->frame.previous, MEMORY_BASE + frame_at(thread));
	}
	cr_assert_eq(slot_of(&memory), -EBADMSG);
}
