/* SPDX-License-Identifier: BSD-2-Clause */
/* Phases, optimizer steps and categories. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define AUTOGRAD "/usr/lib/python3/dist-packages/torch/autograd/__init__.py"
#define GRAPH "/usr/lib/python3/dist-packages/torch/autograd/graph.py"
#define FUNCTION "/usr/lib/python3/dist-packages/torch/autograd/function.py"
#define CHECKPOINT "/usr/lib/python3/dist-packages/torch/utils/checkpoint.py"
#define OPTIMIZER "/usr/lib/python3/dist-packages/torch/optim/optimizer.py"
#define ADAM "/usr/lib/python3/dist-packages/torch/optim/adam.py"
#define SGD "/usr/lib/python3/dist-packages/torch/optim/sgd.py"
#define MAIN                                                                                                           \
	{                                                                                                              \
		"/w/job.py", "<module>", 1, 0                                                                          \
	}
#define BACKWARD                                                                                                       \
	{                                                                                                              \
		AUTOGRAD, "backward", 9, 0                                                                             \
	}
#define RECOMPUTE                                                                                                      \
	{                                                                                                              \
		CHECKPOINT, "backward", 9, 0                                                                           \
	}

#define FRAMES(...)                                                                                                    \
	((const struct frame[]){__VA_ARGS__}), sizeof((const struct frame[]){__VA_ARGS__}) / sizeof(struct frame)

static enum phase phase_of(uint8_t flags, const struct frame *frames, size_t count, bool cut)
{
	struct trace trace = trace_new(true, false);
	enum phase phase;

	model_stack(trace.model, TEST_TARGET, 7, frames, count, cut);
	trace.stack = count ? 7 : 0;
	trace.flags |= flags;
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	phase = trace_finish(&trace)->runs[0].phase;
	model_free(trace.model);
	return phase;
}

static void expect_phase(enum phase want, uint8_t flags, const struct frame *frames, size_t count)
{
	cr_expect(eq(str, (char *)phase_name(phase_of(flags, frames, count, false)), (char *)phase_name(want)));
}

Test(phase, follows_the_frames)
{
	expect_phase(PHASE_FORWARD, 0, FRAMES(MAIN));
	expect_phase(PHASE_BACKWARD, 0, FRAMES(MAIN, BACKWARD));
	expect_phase(PHASE_BACKWARD, 0, FRAMES(MAIN, {GRAPH, "_engine_run_backward", 5, 0}));
	expect_phase(PHASE_FORWARD, 0, FRAMES(MAIN, {GRAPH, "save_on_cpu", 5, 0}));
	expect_phase(PHASE_FORWARD, 0, FRAMES(MAIN, {"/w/my_torch/autograd.py", "backward", 5, 0}));
	expect_phase(PHASE_OPTIMIZER, 0, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 0}, {ADAM, "step", 5, 1}));
	expect_phase(PHASE_OPTIMIZER, 0, FRAMES(MAIN, {OPTIMIZER, "profile_hook_step", 5, 0}, BACKWARD));
	expect_phase(PHASE_FORWARD, 0, FRAMES(MAIN, {OPTIMIZER, "zero_grad", 5, 0}));
}

Test(phase, is_recompute_for_a_checkpoint_inside_a_backward_pass)
{
	expect_phase(PHASE_FORWARD, 0, FRAMES(MAIN, RECOMPUTE));
	expect_phase(PHASE_RECOMPUTE, 0, FRAMES(MAIN, BACKWARD, RECOMPUTE));
	expect_phase(PHASE_BACKWARD, 0, FRAMES(MAIN, BACKWARD, RECOMPUTE, BACKWARD));
	expect_phase(PHASE_RECOMPUTE, 0, FRAMES(MAIN, BACKWARD, RECOMPUTE, BACKWARD, RECOMPUTE));
}

Test(phase, believes_the_engine_where_the_stack_cannot_know)
{
	expect_phase(PHASE_BACKWARD, EVENT_BACKWARD, NULL, 0);
	expect_phase(PHASE_FORWARD, EVENT_BACKWARD, FRAMES(MAIN));
	expect_phase(PHASE_BACKWARD, EVENT_BACKWARD | EVENT_STACK_LOST, FRAMES(MAIN));
	expect_phase(PHASE_BACKWARD, EVENT_BACKWARD, FRAMES({FUNCTION, "apply", 3, 0}, {"/w/f.py", "backward", 4, 0}));
	expect_phase(PHASE_RECOMPUTE, EVENT_BACKWARD, FRAMES({FUNCTION, "apply", 3, 0}, RECOMPUTE));
	expect_phase(PHASE_BACKWARD, EVENT_BACKWARD, FRAMES({FUNCTION, "apply", 3, 0}, RECOMPUTE, BACKWARD));
	cr_expect(eq(int, phase_of(EVENT_BACKWARD, FRAMES(MAIN), true), PHASE_BACKWARD));
	cr_expect(eq(int, phase_of(EVENT_BACKWARD, FRAMES(RECOMPUTE), true), PHASE_RECOMPUTE));
	cr_expect(eq(int, phase_of(0, FRAMES(RECOMPUTE), true), PHASE_FORWARD));
}

/* Phase of an operator without the engine's frame, on a thread that had an operator with it before. */
static enum phase phase_after_engine(uint32_t program_thread, const struct frame *frames, size_t count, bool cut)
{
	struct trace trace = trace_new(true, false);
	enum phase phase;

	define_stack(&trace, 1, FRAMES(MAIN));
	model_stack(trace.model, TEST_TARGET, 7, frames, count, cut);
	trace.thread = program_thread;
	trace.stack = 1;
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	trace.thread = 2;
	trace.stack = 0;
	trace.flags = EVENT_UNGUARDED | EVENT_BACKWARD;
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	trace.stack = 7;
	trace.flags = EVENT_UNGUARDED;
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	phase = trace_finish(&trace)->runs[2].phase;
	model_free(trace.model);
	return phase;
}

/* Callbacks at the end of a backward pass (FSDP's) come outside of any node. */
Test(phase, of_all_that_the_engines_own_thread_does_is_backward)
{
	cr_expect(eq(int, phase_after_engine(1, FRAMES({"/w/f.py", "callback", 3, 0}), false), PHASE_BACKWARD));
	cr_expect(eq(int, phase_after_engine(1, FRAMES({"/w/f.py", "callback", 3, 0}), true), PHASE_FORWARD));
	cr_expect(eq(int, phase_after_engine(1, FRAMES(MAIN), false), PHASE_FORWARD));
	/* A thread that Python began is not the engine's. */
	cr_expect(eq(int, phase_after_engine(2, FRAMES({"/w/f.py", "callback", 3, 0}), false), PHASE_FORWARD));
}

static void run_at(struct trace *trace, uint64_t stack)
{
	trace->stack = stack;
	redispatch(trace, 0, OP_MM, NO_ARGUMENTS);
}

Test(steps, are_complete_when_an_operator_comes_from_elsewhere)
{
	struct trace trace = trace_new(true, false);

	define_stack(&trace, 1, FRAMES(MAIN));
	define_stack(&trace, 2, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 99}, {ADAM, "step", 5, 0xa}));
	define_stack(&trace, 3, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 98}, {ADAM, "step", 6, 0xa}));
	define_stack(&trace, 4, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 97}, {SGD, "step", 5, 0xb}));
	run_at(&trace, 1);
	run_at(&trace, 2);
	run_at(&trace, 3);
	cr_expect(eq(u32, model_steps(trace.model), 0));
	run_at(&trace, 4);
	cr_expect(eq(u32, model_steps(trace.model), 1));
	run_at(&trace, 1);
	run_at(&trace, 1);
	cr_expect(eq(u32, model_steps(trace.model), 2));
	run_at(&trace, 2);
	cr_expect(eq(u32, trace_finish(&trace)->step_count, 2));
	cr_expect(eq(u32, model_rank(trace.model, 0)->runs[4].step, 2));
	model_free(trace.model);
}

/* Two micro-steps and an optimizer's step, then a forward operator. */
static const struct rank *trace_of_steps(struct trace *trace)
{
	*trace = trace_new(true, false);
	define_stack(trace, 1, FRAMES(MAIN));
	define_stack(trace, 2, FRAMES(MAIN, BACKWARD));
	define_stack(trace, 3, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 99}, {ADAM, "step", 5, 0xa}));
	for (int micro = 0; micro < 2; micro++) {
		trace->stack = 1;
		make(trace, OP_MM, 0x1000, 64);
		trace->stack = 2;
		make(trace, OP_MUL, 0x2000, 100);
		release(trace, 0, 0x1000);
		release(trace, 0, 0x2000);
	}
	trace->stack = 3;
	make(trace, OP_ADD_, 0x3000, 32);
	trace->stack = 1;
	make(trace, OP_MM, 0x4000, 16);
	return trace_finish(trace);
}

Test(steps, tell_what_they_cost)
{
	struct trace trace;
	const struct rank *rank = trace_of_steps(&trace);

	cr_assert(eq(sz, arrlenu(rank->steps), 2));
	cr_expect(rank->steps[0].complete && !rank->steps[1].complete);
	cr_expect(eq(u32, rank->steps[0].micro_steps, 2));
	cr_expect(eq(u32, rank->steps[0].operators, 5));
	cr_expect(eq(u32, rank->steps[1].operators, 1));
	cr_expect(eq(u64, rank->steps[0].allocated_bytes, 2 * 164 + 32));
	cr_expect(eq(u64, rank->steps[0].peak_bytes, 164));
	cr_expect(eq(u64, rank->steps[0].end_bytes, 32));
	cr_expect(eq(u64, rank->steps[1].peak_bytes, 48));
	cr_expect(eq(u64, rank->steps[1].end_bytes, 48));
	/* Each phase lasts until an operator of another one. */
	cr_expect(eq(u64, rank->steps[0].phase_ns[PHASE_FORWARD], 2 * 20));
	cr_expect(eq(u64, rank->steps[0].phase_ns[PHASE_BACKWARD], 2 * 40));
	cr_expect(eq(u64, rank->steps[0].phase_ns[PHASE_OPTIMIZER], 20));
	cr_expect(eq(u64, step_duration(&rank->steps[0]), 140));
	model_free(trace.model);
}

/* A device's engine runs backward operators on a thread of its own, which starts no micro-step. */
Test(steps, count_backward_passes_where_they_are_started)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	define_stack(&trace, 1, FRAMES(MAIN));
	define_stack(&trace, 2, FRAMES(MAIN, BACKWARD));
	for (int micro = 0; micro < 3; micro++) {
		trace.stack = 1;
		trace.flags = EVENT_UNGUARDED;
		redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
		trace.stack = 2;
		redispatch(&trace, 0, OP_MUL, NO_ARGUMENTS);
		trace.thread = 2;
		trace.stack = 0;
		trace.flags = EVENT_UNGUARDED | EVENT_BACKWARD;
		redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
		redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
		trace.thread = 1;
	}
	rank = trace_finish(&trace);
	cr_expect(eq(u32, rank->steps[0].micro_steps, 3));
	model_free(trace.model);
}

Test(steps, are_complete_when_the_program_ends_but_not_when_the_trace_does)
{
	for (int finalized = 0; finalized < 2; finalized++) {
		struct trace trace = trace_new(true, false);
		struct event end = trace_event(&trace, finalized ? EVENT_FINALIZE : EVENT_EXIT, sizeof(end), 0);

		define_stack(&trace, 1, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 99}, {ADAM, "step", 5, 0xa}));
		run_at(&trace, 1);
		model_event(trace.model, &end);
		cr_expect(eq(u32, trace_finish(&trace)->step_count, (uint32_t)finalized));
		model_free(trace.model);
	}
}

Test(steps, of_the_slowest_target_that_still_runs_count)
{
	struct trace trace = trace_new(true, false);

	define_stack(&trace, 1, FRAMES(MAIN));
	define_stack(&trace, 2, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 99}, {ADAM, "step", 5, 0xa}));
	run_at(&trace, 2);
	run_at(&trace, 1);
	cr_expect(eq(u32, model_steps(trace.model), 1));
	model_target(trace.model, 5, 1, true, NULL);
	cr_expect(eq(u32, model_steps(trace.model), 0));
	model_end(trace.model, 5, "{}");
	cr_expect(eq(u32, model_steps(trace.model), 1));
	model_free(trace.model);
}

Test(category, follows_the_phase_of_creation)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	define_stack(&trace, 1, FRAMES(MAIN, BACKWARD));
	define_stack(&trace, 2, FRAMES(MAIN, BACKWARD, RECOMPUTE));
	define_stack(&trace, 3, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 99}));
	make(&trace, OP_MM, 0x1000, 64);
	trace.stack = 1;
	make(&trace, OP_MM, 0x2000, 64);
	trace.stack = 2;
	make(&trace, OP_MM, 0x3000, 64);
	trace.stack = 3;
	make(&trace, OP_MM, 0x4000, 64);
	rank = trace_finish(&trace);
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_ACTIVATION));
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_TEMP));
	cr_expect(eq(int, rank->blocks[2].category, CATEGORY_ACTIVATION));
	cr_expect(eq(int, rank->blocks[3].category, CATEGORY_OPTSTATE));
	cr_expect(eq(u64, rank->devices[0].peak.category[CATEGORY_ACTIVATION], 128));
	model_free(trace.model);
}

/* A leaf, then an incoming gradient made in the backward pass. */
static struct trace trace_before_gradient(void)
{
	struct trace trace = trace_new(true, false);

	define_stack(&trace, 1, FRAMES(MAIN, BACKWARD));
	define_stack(&trace, 2, FRAMES(MAIN));
	make(&trace, OP_EMPTY, 0x1000, 64);
	trace.stack = 1;
	make(&trace, OP_MM, 0x2000, 64);
	return trace;
}

Test(gradient, is_the_incoming_block_when_that_is_kept)
{
	struct trace trace = trace_before_gradient();
	const struct rank *rank;

	gradient(&trace, 0x1000, 64, 0x2000, 64);
	redispatch(&trace, 0, OP_DETACH, ARGUMENTS(0x2000, 64));
	run_at(&trace, 2);
	release(&trace, 0, 0x2000);
	rank = trace_finish(&trace);
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_PARAMETER));
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_GRADIENT));
	model_free(trace.model);
}

Test(gradient, kept_by_the_engines_thread_may_be_freed_by_another)
{
	struct trace trace = trace_before_gradient();

	trace.thread = 2;
	gradient(&trace, 0x1000, 64, 0x2000, 64);
	trace.thread = 1;
	release(&trace, 0, 0x2000);
	cr_expect(eq(int, trace_finish(&trace)->blocks[1].category, CATEGORY_GRADIENT));
	model_free(trace.model);
}

Test(gradient, stays_kept_when_its_thread_frees_something_else)
{
	struct trace trace = trace_before_gradient();

	make(&trace, OP_MM, 0x3000, 64);
	gradient(&trace, 0x1000, 64, 0x2000, 64);
	release(&trace, 0, 0x3000);
	cr_expect(eq(int, trace_finish(&trace)->blocks[1].category, CATEGORY_GRADIENT));
	model_free(trace.model);
}

Test(gradient, that_the_same_thread_frees_after_the_next_one_was_kept)
{
	struct trace trace = trace_before_gradient();

	gradient(&trace, 0x1000, 64, 0x2000, 64);
	gradient(&trace, 0x1000, 64, 0, 0);
	release(&trace, 0, 0x2000);
	cr_expect(eq(int, trace_finish(&trace)->blocks[1].category, CATEGORY_GRADIENT));
	model_free(trace.model);
}

Test(gradient, is_what_the_incoming_block_is_added_to)
{
	struct trace trace = trace_before_gradient();
	const struct rank *rank;

	make(&trace, OP_MM, 0x3000, 64);
	gradient(&trace, 0x1000, 64, 0x2000, 64);
	call(&trace, 0, OP_ADD_, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_ADD_, ARGUMENTS(0x3000, 64, 0x2000, 64));
	release(&trace, 0, 0x2000);
	gradient(&trace, 0x1000, 64, 0, 0);
	rank = trace_finish(&trace);
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_TEMP));
	cr_expect(eq(int, rank->blocks[2].category, CATEGORY_GRADIENT));
	model_free(trace.model);
}

Test(gradient, is_the_copy_when_the_incoming_block_is_copied)
{
	struct trace trace = trace_before_gradient();
	const struct rank *rank;

	gradient(&trace, 0x1000, 64, 0x2000, 64);
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x2000, 64));
	allocate(&trace, 1, 0x3000, 64);
	release(&trace, 0, 0x2000);
	make(&trace, OP_MM, 0x4000, 64);
	rank = trace_finish(&trace);
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_TEMP));
	cr_expect(eq(int, rank->blocks[2].category, CATEGORY_GRADIENT));
	cr_expect(eq(int, rank->blocks[3].category, CATEGORY_TEMP));
	model_free(trace.model);
}

/* Of a gradient at 0x2000 a hook has made a clone at 0x3000, and runs on. */
static struct trace trace_in_hook(void)
{
	struct trace trace = trace_before_gradient();

	define_stack(&trace, 3, FRAMES(MAIN, BACKWARD, {"/w/job.py", "<lambda>", 4, 0}));
	gradient(&trace, 0x1000, 64, 0x2000, 64);
	trace.stack = 3;
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x2000, 64));
	allocate(&trace, 1, 0x3000, 64);
	return trace;
}

Test(gradient, is_not_what_a_hook_made_of_it)
{
	struct trace trace = trace_in_hook();
	const struct rank *rank;

	trace.stack = 2;
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x2000, 64));
	allocate(&trace, 1, 0x4000, 64);
	rank = trace_finish(&trace);
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_GRADIENT));
	cr_expect(eq(int, rank->blocks[2].category, CATEGORY_TEMP));
	cr_expect(eq(int, rank->blocks[3].category, CATEGORY_ACTIVATION), "made behind the backward pass");
	model_free(trace.model);
}

Test(gradient, is_the_last_that_a_hook_made_when_the_incoming_block_is_not_kept)
{
	struct trace trace = trace_in_hook();
	const struct rank *rank;

	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x2000, 64));
	allocate(&trace, 1, 0x4000, 64);
	release(&trace, 0, 0x2000);
	trace.stack = 1;
	make(&trace, OP_MM, 0x5000, 64);
	rank = trace_finish(&trace);
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_TEMP));
	cr_expect(eq(int, rank->blocks[2].category, CATEGORY_TEMP));
	cr_expect(eq(int, rank->blocks[3].category, CATEGORY_GRADIENT));
	cr_expect(eq(int, rank->blocks[4].category, CATEGORY_TEMP));
	model_free(trace.model);
}

Test(preexisting, blocks_that_only_the_optimizer_used_are_its_state)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	define_stack(&trace, 3, FRAMES(MAIN, {OPTIMIZER, "wrapper", 5, 99}));
	trace.stack = 3;
	redispatch(&trace, 0, OP_ADD_, ARGUMENTS(0x1000, 64, 0x2000, 64, 0x3000, 64));
	trace.stack = 0;
	redispatch(&trace, 0, OP_ADD_, ARGUMENTS(0x2000, 64));
	gradient(&trace, 0x3000, 64, 0, 0);
	rank = trace_finish(&trace);
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_OPTSTATE));
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_OTHER));
	cr_expect(eq(int, rank->blocks[2].category, CATEGORY_PARAMETER));
	model_free(trace.model);
}

Test(preexisting, blocks_that_no_operator_used_are_not_the_optimizers)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	call(&trace, 0, OP_MUL, ARGUMENTS(0x1000, 64));
	redispatch(&trace, 1, OP_VIEW, NO_ARGUMENTS);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(u32, rank->blocks[0].user_count, 0));
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_OTHER));
	model_free(trace.model);
}

Test(stacks, of_the_same_identity_are_kept_apart_when_they_differ)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	define_stack(&trace, 1, FRAMES(MAIN));
	run_at(&trace, 1);
	define_stack(&trace, 1, FRAMES(MAIN));
	run_at(&trace, 1);
	define_stack(&trace, 1, FRAMES({"/w/other.py", "f", 4, 0}));
	run_at(&trace, 1);
	rank = trace_finish(&trace);
	cr_expect(eq(u32, rank->runs[0].stack, rank->runs[1].stack));
	cr_expect(eq(str, (char *)rank->stacks[rank->runs[0].stack].frames[0].file, (char *)"/w/job.py"));
	cr_expect(eq(str, (char *)rank->stacks[rank->runs[2].stack].frames[0].file, (char *)"/w/other.py"));
	model_free(trace.model);
}
