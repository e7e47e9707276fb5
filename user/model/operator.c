/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operators: which of the calls that the hooks report is one that ran.
 *
 * Each thread has a stack of the operator frames that are alive. The depth of
 * an event says how many there are: frames from that index on have ended.
 *
 * - A redispatch with backend keys only certainly runs, and everything inside
 *   it is part of it.
 * - A call is a candidate. It is dropped when a redispatch of the same operator
 *   follows inside it, which then is the operator, and when it only led to
 *   other operators: they came inside it while autograd was not excluded. It
 *   ran when it ends without either, when it was entered with autograd
 *   excluded, and when an operator came inside it with autograd excluded,
 *   which then is part of it.
 * - A boxed kernel runs as a redispatch does. But no kernel of C++ calls another's boxed
 *   one: Python is between it and the call around it, which led there.
 * - What a dropped run did belongs to the redispatch, else to the frame around.
 * - An operator inside which an exception is thrown did not run, unless it goes
 *   on to allocate: then it caught the exception itself.
 *
 * So a run may be decided long after it started; it keeps its place in the
 * order of starts all the same.
 *
 * An optimizer step is complete when, on its thread, an operator comes that is
 * outside any step or in the step of another optimizer, or the program ends.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>

#include <hdtrace/capture.h>

struct thread *thread_find(struct target_state *target, uint32_t thread_id)
{
	struct thread *thread = target->last_thread;
	ptrdiff_t at;

	if (thread && thread->thread_id == thread_id)
		return thread;
	at = hmgeti(target->threads, thread_id);
	if (at >= 0) {
		target->last_thread = target->threads[at].value;
		return target->last_thread;
	}
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->thread_id = thread_id;
	thread->last_run = NONE;
	thread->resize_from = thread->resize_to = NONE;
	thread->leaf = thread->evaluating = thread->storing = thread->accumulating = thread->last_device_block = NONE;
	thread->last_segment = thread->release = thread->collective = thread->freed = NONE;
	hmput(target->threads, thread_id, thread);
	target->last_thread = thread;
	return thread;
}

void thread_free(struct thread *thread)
{
	if (!thread)
		return;
	arrfree(thread->frames);
	arrfree(thread->ranges);
	arrfree(thread->grouped);
	free(thread);
}

static void run_drop(struct target_state *target, uint32_t run, uint32_t into)
{
	target->runs[run].state = RUN_DROPPED;
	target->runs[run].into = into;
}

static bool run_is_dropped(const struct target_state *target, uint32_t run)
{
	return run != NONE && target->runs[run].state == RUN_DROPPED;
}

/* Decide a candidate whose frame, the innermost one, has ended. */
static void candidate_end(struct target_state *target, struct thread *thread, const struct operator_frame *frame)
{
	size_t around = arrlenu(thread->frames);

	if (target->runs[frame->run].state != RUN_OPEN)
		return;
	if (!frame->led_elsewhere && (frame->runs || !frame->unguarded || !frame->has_operators))
		target->runs[frame->run].state = RUN_RAN;
	else
		run_drop(target, frame->run, around ? thread->frames[around - 1].run : NONE);
}

/*
 * An exception left the frame: what it was about did not happen. It belongs to
 * the nearest frame around it that counts by itself; a call that was dropped
 * leads here already.
 */
static void frame_fail(struct target_state *target, struct thread *thread, const struct operator_frame *frame)
{
	size_t around = arrlenu(thread->frames);

	if (frame->kind == FRAME_NESTED || target->runs[frame->run].state == RUN_DROPPED)
		return;
	while (around && run_is_dropped(target, thread->frames[around - 1].run))
		around--;
	run_drop(target, frame->run, around ? thread->frames[around - 1].run : NONE);
}

void thread_trim(struct target_state *target, struct thread *thread, uint32_t depth)
{
	while (arrlenu(thread->frames) > depth) {
		struct operator_frame frame = arrpop(thread->frames);

		if (frame.threw && frame.run != NONE)
			frame_fail(target, thread, &frame);
		else if (frame.kind == FRAME_CANDIDATE)
			candidate_end(target, thread, &frame);
	}
}

uint32_t thread_run(const struct thread *thread, uint32_t depth)
{
	if (depth == 0 || depth > arrlenu(thread->frames))
		return NONE;
	return thread->frames[depth - 1].run;
}

uint8_t flags_in_thread(struct target_state *target, const struct event *event, uint32_t stack)
{
	struct thread *thread = thread_find(target, event->thread_id);

	return thread ? stack_flags(&target->stacks[stack], event, &thread->kind, &target->runs_python) : event->flags;
}

uint32_t run_add(struct target_state *target, const struct event *event, enum run_source source, uint64_t stack)
{
	struct run run = {
		.time_ns = event->time_ns,
		.operator_ = event->operator_,
		.thread_id = event->thread_id,
		.step = target->steps,
		.stack = stack_find(target, stack),
		.into = NONE,
		.state = RUN_RAN,
		.source = (uint8_t)source,
	};

	run.flags = flags_in_thread(target, event, run.stack);
	arrput(target->runs, run);
	return (uint32_t)arrlenu(target->runs) - 1;
}

bool run_has(const struct target_state *target, const struct run *run, uint8_t flag)
{
	return run->source == SOURCE_OPERATOR && run->operator_ < arrlenu(target->operator_flags) &&
	       (target->operator_flags[run->operator_] & flag);
}

/* A dropped run leads to its redispatch, or to a run around it that was not dropped by then: no cycle. */
uint32_t run_resolve(const struct target_state *target, uint32_t run)
{
	while (run_is_dropped(target, run))
		run = target->runs[run].into;
	return run;
}

static struct operator_frame *frame_innermost(struct thread *thread, enum frame_kind kind)
{
	for (size_t i = arrlenu(thread->frames); i-- > 0;)
		if (thread->frames[i].kind == kind)
			return &thread->frames[i];
	return NULL;
}

/* The call that a redispatch of the same operator came from. */
static struct operator_frame *frame_of_call(
	const struct target_state *target, struct thread *thread, uint16_t operator_)
{
	for (size_t i = arrlenu(thread->frames); i-- > 0;) {
		struct operator_frame *frame = &thread->frames[i];

		if (frame->kind == FRAME_CANDIDATE && frame->operator_ == operator_ &&
			target->runs[frame->run].state == RUN_OPEN)
			return frame;
	}
	return NULL;
}

/*
 * The frame of a running operator that this one is part of, or NULL: it stands
 * on its own. Notes at an open candidate around it what it says about that one.
 */
static struct operator_frame *frame_containing(
	const struct target_state *target, struct thread *thread, uint8_t hook, bool unguarded)
{
	struct operator_frame *frame = frame_innermost(thread, FRAME_RUNNING);

	if (frame)
		return frame;
	frame = frame_innermost(thread, FRAME_CANDIDATE);
	if (!frame || target->runs[frame->run].state != RUN_OPEN)
		return NULL;
	if (unguarded || hook == HOOK_BOXED) {
		frame->has_operators = true;
		frame->led_elsewhere |= hook == HOOK_BOXED;
		return NULL;
	}
	frame->runs = true;
	return frame;
}

/* Frames whose records were lost. */
static void thread_pad(struct thread *thread, uint32_t depth)
{
	struct operator_frame unknown = {.run = NONE, .kind = FRAME_UNKNOWN};

	while (arrlenu(thread->frames) < depth)
		arrput(thread->frames, unknown);
}

/*
 * The first operator of the engine's own behind AccumulateGrad may be what copies or adds the gradient. Hooks of the
 * leaf run before that (1.13), or behind.
 */
static void accumulation_follow(struct target_state *target, struct thread *thread, uint32_t run, enum phase phase)
{
	const struct run *added = &target->runs[run];
	bool by_hook = stack_is_called_by_engine(&target->stacks[added->stack], added->flags);
	struct accumulation accumulation = {
		.run = run, .allocation = thread->accumulating, .leaf = thread->leaf, .by_hook = by_hook};

	if (thread->accumulating == NONE)
		return;
	if (phase == PHASE_BACKWARD)
		arrput(target->accumulations, accumulation);
	if (!by_hook)
		thread->accumulating = NONE;
}

/* What a new operator on the thread says about the things that were going on there. */
static void thread_follow(struct target_state *target, struct thread *thread, uint32_t run)
{
	const struct run *added = &target->runs[run];
	enum phase phase = stack_phase(&target->stacks[added->stack], added->flags);

	accumulation_follow(target, thread, run, phase);
	if (phase != PHASE_BACKWARD && phase != PHASE_RECOMPUTE)
		gradient_settle(target, thread);
	thread->resize_from = thread->resize_to = NONE;
	thread->resize_bytes = 0;
}

static void uses_add(struct target_state *target, uint32_t run, const struct event *event,
	const struct tensor_argument *tensors, uint32_t tensor_count)
{
	for (uint32_t i = 0; i < tensor_count; i++) {
		struct use use = {.run = run, .allocation = memory_argument(target, event, &tensors[i])};

		if (use.allocation != NONE)
			arrput(target->uses, use);
	}
}

static bool event_holds(const struct event *event, size_t header, size_t tensors, size_t frames)
{
	return event->size >= header + tensors * sizeof(struct tensor_argument) + frames * sizeof(struct python_frame);
}

/* A run of its own, with its frame. */
static uint32_t operator_start(struct target_state *target, struct thread *thread, const struct operator_event *event)
{
	struct operator_frame frame = {
		.operator_ = event->event.operator_,
		.unguarded = event->event.flags & EVENT_UNGUARDED,
		.kind = event->hook == HOOK_CALL ? FRAME_CANDIDATE : FRAME_RUNNING,
	};
	struct operator_frame *call = NULL;
	uint32_t stack = stack_find(target, event->stack);

	if (event->hook != HOOK_CALL)
		call = frame_of_call(target, thread, event->event.operator_);
	target->steps += step_follow(&thread->place, &target->stacks[stack], event->event.flags);
	frame.run = run_add(target, &event->event, SOURCE_OPERATOR, event->stack);
	target->runs[frame.run].next = event->next;
	target->runs[frame.run].evaluated = event->evaluated;
	thread->evaluating = event->evaluated.known ? frame.run : NONE;
	if (frame.kind == FRAME_CANDIDATE)
		target->runs[frame.run].state = RUN_OPEN;
	if (call)
		run_drop(target, call->run, frame.run);
	arrput(thread->frames, frame);
	thread_follow(target, thread, frame.run);
	return frame.run;
}

int operator_enter(struct target_state *target, const struct operator_event *event)
{
	const struct tensor_argument *tensors = (const void *)(event + 1);
	struct thread *thread = thread_find(target, event->event.thread_id);
	const struct operator_frame *around = NULL;
	bool runs = event->hook != HOOK_CALL;

	if (!thread)
		return -ENOMEM;
	if (!event_holds(&event->event, sizeof(*event), event->tensor_count, event->frame_count))
		return -EINVAL;
	if (arrlenu(target->runs) >= INDEX_MAX || arrlenu(target->uses) >= INDEX_MAX - UINT16_MAX)
		return -E2BIG;
	thread->met = true;
	thread_trim(target, thread, event->event.depth);
	thread_pad(thread, event->event.depth);

	if (frame_innermost(thread, FRAME_RUNNING) || !runs || !frame_of_call(target, thread, event->event.operator_))
		around = frame_containing(target, thread, event->hook, event->event.flags & EVENT_UNGUARDED);
	if (around) {
		struct operator_frame nested = {.run = around->run, .kind = FRAME_NESTED};

		arrput(thread->frames, nested);
		thread->last_run = NONE;
		return 0;
	}
	thread->last_run = operator_start(target, thread, event);
	target->result.arguments_cut += !!(event->event.flags & EVENT_TENSORS_CUT);
	target->result.stacks_cut += !!(event->event.flags & EVENT_STACK_CUT);
	uses_add(target, thread->last_run, &event->event, tensors, event->tensor_count);
	if (run_has(target, &target->runs[thread->last_run], OPERATOR_RANGE_END))
		memory_range_end(target, thread, &event->event);
	return 0;
}

uint32_t operator_note(struct target_state *target, const struct event *event, uint64_t stack,
	const struct tensor_argument *tensors, uint32_t tensor_count)
{
	uint32_t run;

	if (arrlenu(target->runs) >= INDEX_MAX || arrlenu(target->uses) >= INDEX_MAX - UINT16_MAX)
		return NONE;
	run = run_add(target, event, SOURCE_OPERATOR, stack);
	uses_add(target, run, event, tensors, tensor_count);
	return run;
}

int operator_throw(struct target_state *target, const struct event *event)
{
	struct thread *thread = thread_find(target, event->thread_id);

	if (!thread)
		return -ENOMEM;
	thread_trim(target, thread, event->depth);
	for (size_t i = 0; i < arrlenu(thread->frames); i++)
		thread->frames[i].threw = true;
	return 0;
}

int operator_tensors(struct target_state *target, const struct tensors_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);

	if (!thread)
		return -ENOMEM;
	if (!event_holds(&event->event, sizeof(*event), event->tensor_count, 0))
		return -EINVAL;
	if (arrlenu(target->uses) >= INDEX_MAX - UINT16_MAX)
		return -E2BIG;
	if (thread->last_run == NONE)
		return 0;
	target->result.arguments_cut += !!(event->event.flags & EVENT_TENSORS_CUT);
	uses_add(target, thread->last_run, &event->event, (const void *)(event + 1), event->tensor_count);
	return 0;
}

/* The trace is over: every frame has ended. A step that this cuts short is no completed one. */
void operators_end(struct target_state *target)
{
	for (ptrdiff_t i = 0; i < hmlen(target->threads); i++) {
		struct thread *thread = target->threads[i].value;

		thread_trim(target, thread, 0);
		gradient_settle(target, thread);
	}
}

void steps_end(struct target_state *target)
{
	for (ptrdiff_t i = 0; i < hmlen(target->threads); i++) {
		struct thread *thread = target->threads[i].value;

		target->steps += thread->place.in_optimizer;
		thread->place.in_optimizer = false;
	}
}
