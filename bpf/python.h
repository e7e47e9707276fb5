/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Where the Python code of the current thread stands, by the layout in the
 * target's settings. The thread state is found by the thread-specific key that CPython
 * sets for every thread it knows, since the interpreter lock is usually
 * released while an operator runs.
 */
#ifndef HDTRACE_BPF_PYTHON_H
#define HDTRACE_BPF_PYTHON_H

#include "thread.h"

/* The innermost frame, 0 when this thread runs no Python. Keeps where it was found. */
static __always_inline __u64 python_innermost(struct hit *hit)
{
	const struct target_settings *settings = hit->settings;
	__u64 address = 0, frame = 0;

	hit->thread->python_holder = 0;
	if (!settings->python_thread_slot)
		return 0;
	if (READ_USER(address, arch_thread_pointer() + settings->python_thread_slot) || !address)
		return 0;
	address += settings->python_frame_steps[0];
	if (settings->python_frame_step_count > 1) {
		if (READ_USER(address, address) || !address)
			return 0;
		address += settings->python_frame_steps[1];
	}
	if (READ_USER(frame, address))
		return 0;
	hit->thread->python_holder = address;
	return frame;
}

static __always_inline void python_position_read(struct hit *hit, struct python_position *position)
{
	position->instruction = 0;
	position->frame = python_innermost(hit);
	if (position->frame)
		READ_USER(position->instruction,
			position->frame + hit->settings->frame_base + hit->settings->frame_instruction);
}

/* Is the thread's Python code still where it was? By the place where the innermost frame was found last. */
static __always_inline bool python_is_at(const struct hit *hit, const struct python_position *position)
{
	__u64 frame = 0, instruction = 0;

	if (!hit->thread->python_holder || READ_USER(frame, hit->thread->python_holder) || frame != position->frame)
		return false;
	return !READ_USER(instruction, frame + hit->settings->frame_base + hit->settings->frame_instruction) &&
	       instruction == position->instruction;
}

#endif
