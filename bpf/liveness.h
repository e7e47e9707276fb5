/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Which operator frames are alive, without return probes. A frame is alive while
 * it lies above the stack pointer and its return address still stands in its
 * place. Both can be true by accident after it returned, so more facts overrule
 * them: autograd was excluded when it was entered but is not any more (guarded);
 * the hook that is hit cannot be reached below it (sealed, leaf; for factories
 * operator.bpf.c); the thread's Python code has moved on.
 */
#ifndef HDTRACE_BPF_LIVENESS_H
#define HDTRACE_BPF_LIVENESS_H

#include "python.h"

#define DTV_ENTRY_SIZE 16 /* glibc dtv_t */

/* Address of a thread's variable, whose pair {TLS module, offset} stands at `pair`; 0 when it has none yet. */
static __noinline __u64 thread_variable_find(__u64 pair)
{
	__u64 got[2], table = 0, block = 0;

	if (!pair || bpf_probe_read_user(got, sizeof(got), (void *)pair) || !got[0])
		return 0;
	if (READ_USER(table, arch_thread_pointer() + ARCH_DTV) || READ_USER(block, table + got[0] * DTV_ENTRY_SIZE))
		return 0;
	return block && block != (__u64)-1 ? block + got[1] : 0;
}

/* Of the thread's {included, excluded} dispatch key sets. */
static __always_inline __u64 dispatch_keys_find(const struct target_settings *settings)
{
	return thread_variable_find(settings->keys_got);
}

/*
 * The key set that this thread excludes from dispatch; 0 when it cannot be read.
 * At LEVEL_LITE it is taken to be both levels of autograd: frames are told by
 * their words alone.
 */
static __always_inline __u64 keys_excluded(struct hit *hit)
{
	__u64 excluded = 0;

	if (hit->settings->level == LEVEL_LITE)
		return hit->settings->keys_autograd | hit->settings->keys_inplace;
	if (!hit->thread->keys_address)
		hit->thread->keys_address = dispatch_keys_find(hit->settings);
	if (!hit->thread->keys_address || READ_USER(excluded, hit->thread->keys_address + sizeof(__u64)))
		return 0;
	return excluded ^ hit->settings->keys_excluded_default;
}

/*
 * The thread is in inference mode: it alone takes the in-place level out of the
 * included keys.
 */
static __always_inline bool inference_is_on(struct hit *hit)
{
	__u64 included = 0;

	if (!hit->thread->keys_address)
		hit->thread->keys_address = dispatch_keys_find(hit->settings);
	if (!hit->thread->keys_address || READ_USER(included, hit->thread->keys_address))
		return false;
	return !((included ^ hit->settings->keys_included_default) & hit->settings->keys_inplace);
}

/* Autograd is excluded on this thread: what runs now runs below an autograd kernel. */
static __always_inline bool autograd_is_excluded(const struct hit *hit, __u64 excluded)
{
	return (excluded & hit->settings->keys_autograd) == hit->settings->keys_autograd;
}

/*
 * Python calls a boxed kernel, or code that is called for one instruction of it. While
 * autograd is excluded around Python too, nothing else would tell that it has returned.
 */
static __noinline bool boxed_is_alive(struct hit *hit, const struct python_position *entered)
{
	__u64 holder = hit->thread->python_holder;
	struct python_position now;

	python_position_read(hit, &now);
	hit->thread->python_holder = holder;
	return now.frame == entered->frame && now.instruction == entered->instruction;
}

/*
 * Forget frames that ended; thread->frame_count then says how many are alive
 * (not returned: the verifier would follow each number on its own). `strict`:
 * the position of the Python code must agree even for a frame that was entered
 * with autograd excluded; for others it always must.
 */
static __noinline int frames_check(struct hit *hit, bool guarded, bool strict)
{
	struct thread_state *thread = hit->thread;
	__u32 count = thread->frame_count, alive = 0;

	for (__u32 index = 0; index < FRAMES_DEPTH_MAX; index++) {
		struct operator_frame *frame = &thread->frames[index];

		if (index >= count || (frame->guarded && !guarded) || !call_is_alive(&frame->call, hit->stack_pointer))
			break;
		if (frame->boxed && !boxed_is_alive(hit, &frame->position))
			break;
		alive = index + 1;
	}
	if (alive && alive <= FRAMES_DEPTH_MAX && thread->position.frame &&
		(strict || !thread->frames[alive - 1].guarded)) {
		if (!python_is_at(hit, &thread->position))
			alive = 0;
	}
	thread->frame_count = alive;
	if (thread->running > alive)
		thread->running = 0;
	return 0;
}

/* The same for a hit on an operator, which can rule out more. */
static __always_inline void frames_check_around(
	struct hit *hit, const struct hook_description *description, bool guarded)
{
	struct thread_state *thread = hit->thread;
	__u32 last = thread->running - 1; /* the frame that runs is the innermost one */

	if (thread->running && last < FRAMES_DEPTH_MAX &&
		(thread->frames[last].leaf ||
			(thread->frames[last].sealed && (description->flags & HOOK_AUTOGRAD_LEVEL)))) {
		thread->frame_count = last;
		thread->running = 0;
	}
	if (thread->frame_count)
		frames_check(hit, guarded, true);
}

static __always_inline bool engine_is_alive(struct hit *hit)
{
	if (!hit->thread->engine.place)
		return false;
	if (call_is_alive(&hit->thread->engine, hit->stack_pointer))
		return true;
	hit->thread->engine.place = 0;
	return false;
}

/*
 * Is this inside the operator whose frame lies above? The word that tells is in the
 * target, and a look there costs as much as all the rest. But the same code allocates
 * at the same distance from the same frame again: what was found is kept.
 */
static __always_inline bool frame_is_alive_lite(const struct hit *hit, const struct call_frame *call)
{
	__u64 key = identity_mix(call->word, call->place - hit->stack_pointer) & ~1ULL;
	__u64 *verdict = &hit->thread->verdicts[key >> VERDICTS_SHIFT];

	if (call->place <= hit->stack_pointer)
		return false;
	if ((*verdict & ~1ULL) != key)
		*verdict = key | call_is_alive(call, hit->stack_pointer);
	return *verdict & 1;
}

/*
 * At LEVEL_LITE the stack pointer has to do for an operator that certainly runs, but
 * not for numbers: PyTorch wraps Python's where the last frame seems to be still.
 */
static __always_inline __u32 hit_depth_lite(const struct hit *hit, bool number)
{
	__u32 count = hit->thread->frame_count, last = count - 1;
	const struct call_frame *call = &hit->thread->frames[last & (FRAMES_DEPTH_MAX - 1)].call;

	if (!count)
		return 0;
	if (hit->thread->running && !number)
		return call->place > hit->stack_pointer ? count : 0;
	return frame_is_alive_lite(hit, call) ? count : 0;
}

/* How many operator frames are alive; `number`: what is allocated may be a number that PyTorch wraps. */
static __always_inline __u32 hit_depth(struct hit *hit, bool number)
{
	struct thread_state *thread = hit->thread;

	if (hit->settings->level == LEVEL_LITE)
		return hit_depth_lite(hit, number);
	/* A guarded frame needs no second proof here: what else excludes autograd allocates nothing but numbers. */
	if (thread->frame_count)
		frames_check(hit, autograd_is_excluded(hit, keys_excluded(hit)), number);
	return *(volatile __u32 *)&thread->frame_count;
}

#endif
