/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The Python stack of the current thread, by the layout in the target's
 * settings. The thread state is found by the thread-specific key that CPython
 * sets for every thread it knows, since the interpreter lock is usually
 * released while an operator runs.
 */
#ifndef HDTRACE_BPF_PYTHON_H
#define HDTRACE_BPF_PYTHON_H

#include "thread.h"

/* The innermost frame, 0 when this thread runs no Python. */
static __always_inline __u64 python_innermost(const struct target_settings *settings)
{
	__u64 address = 0;

	if (!settings->python_thread_slot)
		return 0;
	if (READ_USER(address, arch_thread_pointer() + settings->python_thread_slot) || !address)
		return 0;
	if (READ_USER(address, address + settings->python_frame_steps[0]) || !address)
		return 0;
	if (settings->python_frame_steps[1] && READ_USER(address, address + settings->python_frame_steps[1]))
		return 0;
	return address;
}

static __always_inline void python_position_read(const struct target_settings *settings,
	struct python_position *position)
{
	position->instruction = 0;
	position->frame = python_innermost(settings);
	if (position->frame)
		READ_USER(position->instruction, position->frame + settings->frame_instruction);
}

struct python_walk {
	struct thread_state *thread;
	const struct target_settings *settings;
	__u64 frame;
	__u64 identity;
	__u32 offset; /* into the record's tail */
	__u32 count;
	bool fault;
};

#define TAIL_MASK (RECORD_TAIL_SIZE - 1)

static __always_inline __u64 identity_mix(__u64 identity, __u64 value)
{
	identity = (identity ^ value) * 0x9e3779b97f4a7c15ULL; /* 2^64 / golden ratio: Fibonacci hashing */
	return identity ^ (identity >> 29);
}

static long python_walk_frame(__u32 index, struct python_walk *walk)
{
	const struct target_settings *settings = walk->settings;
	struct python_frame frame = {};
	__u64 previous = 0;
	__u64 offset;

	if (!walk->frame)
		return 1;
	if (READ_USER(frame.code, walk->frame + settings->frame_code) ||
		READ_USER(previous, walk->frame + settings->frame_previous) ||
		READ_USER(frame.instruction, walk->frame + settings->frame_instruction) ||
		READ_USER(frame.self, walk->frame + settings->frame_self)) {
		walk->fault = true;
		return 1;
	}
	walk->frame = previous;
	offset = walk->offset;
	asm volatile("" : "+r"(offset)); /* keep the check next to the use, for the verifier */
	offset &= TAIL_MASK;
	*(struct python_frame *)(walk->thread->record.tail + offset) = frame;
	walk->offset += sizeof(frame);
	walk->count++;
	walk->identity = identity_mix(identity_mix(identity_mix(walk->identity, frame.code), frame.instruction),
		frame.self);
	return 0;
}

/*
 * Write the frames, innermost first, into the record's tail from `offset` on;
 * returns their number, 0 when this thread has sent the same stack before.
 * The identity is 0 without Python, and the flags tell what is missing.
 */
static __noinline __u32 python_stack_read(struct hit *hit, __u32 offset, __u64 *identity, __u8 *flags)
{
	struct python_walk walk = {
		.thread = hit->thread,
		.settings = hit->settings,
		.frame = python_innermost(hit->settings),
		.identity = 1,
		.offset = offset,
	};
	__u64 slot;

	*identity = 0;
	if (!walk.frame)
		return 0;
	bpf_loop(EVENT_FRAMES_MAX, python_walk_frame, &walk, 0);
	if (walk.fault) {
		*flags |= EVENT_STACK_LOST;
		loss_count(hit->target, LOSS_STACK);
	}
	if (!walk.count)
		return 0;
	if (walk.frame)
		*flags |= EVENT_STACK_CUT;
	*identity = identity_mix(walk.identity, walk.fault) | 1;
	slot = *identity >> 32;
	asm volatile("" : "+r"(slot));
	slot &= STACK_CACHE_SIZE - 1;
	if (hit->thread->stacks_sent[slot] == *identity)
		return 0;
	hit->thread->stacks_sent[slot] = *identity;
	*flags |= EVENT_STACK;
	return walk.count;
}

/* The record that carried the frames was lost: they must be sent again. */
static __always_inline void python_stack_forget(struct hit *hit, __u64 identity)
{
	__u64 slot = identity >> 32;

	asm volatile("" : "+r"(slot));
	slot &= STACK_CACHE_SIZE - 1;
	hit->thread->stacks_sent[slot] = 0;
}

#endif
