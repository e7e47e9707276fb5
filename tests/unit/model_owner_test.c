/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of modules, and what Python was found to hold. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define MODULE "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"
#define STACK 7

static void module_name(struct trace *trace, uint64_t object, const char *name)
{
	trace->error = model_module(trace->model, TEST_TARGET, object, name);
}

static void owner(struct trace *trace, enum owner_kind kind, uint64_t address, uint64_t bytes, const char *name)
{
	struct tensor_argument storage = {.data = address, .bytes = bytes};

	trace->error = model_owner(trace->model, TEST_TARGET, trace->time, kind, &storage, name);
}

static const char *module_of(struct trace *trace, const struct frame *frames, size_t count)
{
	const struct rank *rank;

	define_stack(trace, STACK, frames, count);
	trace->stack = STACK;
	make(trace, OP_MM, 0x1000, 64);
	rank = trace_finish(trace);
	return rank->stacks[rank->runs[0].stack].module;
}

static void expect_module(const char *want, const struct frame *frames, size_t count)
{
	struct trace trace = trace_new(true, false);

	module_name(&trace, 1, "Model");
	module_name(&trace, 2, "Model.layers.0");
	module_name(&trace, 3, "Model.layers.1");
	module_name(&trace, 4, "Model.a.b");
	cr_expect(eq(str, (char *)module_of(&trace, frames, count), (char *)want));
	model_free(trace.model);
}

#define FRAMES(...)                                                                                                    \
	((const struct frame[]){__VA_ARGS__}), sizeof((const struct frame[]){__VA_ARGS__}) / sizeof(struct frame)

Test(module, of_a_stack_is_the_deepest_one_that_is_called)
{
	expect_module("", FRAMES({"/w/job.py", "<module>", 1, 1}));
	expect_module("Model", FRAMES({MODULE, "_call_impl", 1, 1}, {"/w/job.py", "forward", 1, 2}));
	expect_module("Model.layers.0", FRAMES({MODULE, "_call_impl", 1, 1}, {MODULE, "_call_impl", 1, 2}));
	expect_module("Model.layers.0", FRAMES({MODULE, "_call_impl", 1, 2}, {MODULE, "_call_impl", 1, 1}));
	expect_module("Model.layers.1", FRAMES({MODULE, "_call_impl", 1, 2}, {MODULE, "_call_impl", 1, 3}));
	expect_module("Model.layers.0", FRAMES({MODULE, "_call_impl", 1, 2}, {MODULE, "_call_impl", 1, 4}));
	expect_module("", FRAMES({MODULE, "_call_impl", 1, 99}));
	expect_module("", FRAMES({"/w/my/module.py", "_call_impl", 1, 1}));
	expect_module("", FRAMES({MODULE, "register_forward_hook", 1, 1}));
}

Test(module, is_that_of_the_outer_call_where_there_are_two)
{
	/* What stands in the inner one is a cell, which may lie where a module was. */
	expect_module("Model", FRAMES({MODULE, "_wrapped_call_impl", 1, 1}, {MODULE, "_call_impl", 1, 2}));
	expect_module("Model.layers.0", FRAMES({MODULE, "_wrapped_call_impl", 1, 1}, {MODULE, "_call_impl", 1, 99},
						{MODULE, "_wrapped_call_impl", 1, 2}, {MODULE, "_call_impl", 1, 99}));
}

Test(module, of_another_object_at_the_address_counts_from_then_on)
{
	struct trace trace = trace_new(true, false);
	const struct frame frame = {MODULE, "_call_impl", 1, 1};
	const struct rank *rank;

	trace.stack = STACK;
	module_name(&trace, 1, "First");
	define_stack(&trace, STACK, &frame, 1);
	make(&trace, OP_MM, 0x1000, 64);
	module_name(&trace, 1, "Second");
	define_stack(&trace, STACK, &frame, 1);
	make(&trace, OP_MM, 0x2000, 64);
	rank = trace_finish(&trace);
	cr_expect(eq(str, (char *)rank->stacks[rank->runs[0].stack].module, "First"));
	cr_expect(eq(str, (char *)rank->stacks[rank->runs[1].stack].module, "Second"));
	model_free(trace.model);
}

static void expect_block(const struct rank *rank, size_t index, enum category category, const char *name)
{
	cr_assert(index < arrlenu(rank->blocks));
	cr_expect(eq(str, (char *)category_name(rank->blocks[index].category), (char *)category_name(category)));
	cr_expect(eq(str, (char *)rank->blocks[index].owner, (char *)name));
}

Test(owner, gives_a_block_its_category_and_name)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	make(&trace, OP_EMPTY, 0x2000, 64);
	make(&trace, OP_EMPTY, 0x3000, 64);
	make(&trace, OP_EMPTY, 0x4000, 64);
	make(&trace, OP_EMPTY, 0x5000, 64);
	owner(&trace, OWNER_PARAMETER, 0x1000, 64, "M.weight");
	owner(&trace, OWNER_BUFFER, 0x2000, 64, "M.mean");
	owner(&trace, OWNER_GRADIENT, 0x3000, 64, "M.weight");
	owner(&trace, OWNER_OPTIMIZER, 0x4000, 64, "Adam.exp_avg(M.weight)");
	owner(&trace, OWNER_VARIABLE, 0x5000, 64, "");
	rank = trace_finish(&trace);
	expect_block(rank, 0, CATEGORY_PARAMETER, "M.weight");
	expect_block(rank, 1, CATEGORY_BUFFER, "M.mean");
	expect_block(rank, 2, CATEGORY_GRADIENT, "M.weight");
	expect_block(rank, 3, CATEGORY_OPTSTATE, "Adam.exp_avg(M.weight)");
	expect_block(rank, 4, CATEGORY_ACTIVATION, "");
	model_free(trace.model);
}

Test(owner, of_a_parameter_goes_before_others_in_any_order)
{
	struct trace trace = trace_new(true, false);

	make(&trace, OP_EMPTY, 0x1000, 64);
	owner(&trace, OWNER_OPTIMIZER, 0x1000, 64, "SGD.copy(M.weight)");
	owner(&trace, OWNER_PARAMETER, 0x1000, 64, "M.weight");
	owner(&trace, OWNER_VARIABLE, 0x1000, 64, "");
	expect_block(trace_finish(&trace), 0, CATEGORY_PARAMETER, "M.weight");
	model_free(trace.model);
}

Test(owner, by_a_variable_keeps_its_name_when_the_variable_is_gone)
{
	struct trace trace = trace_new(true, false);

	make(&trace, OP_EMPTY, 0x1000, 64);
	owner(&trace, OWNER_VARIABLE, 0x1000, 64, "local x in f (job.py:1)");
	owner(&trace, OWNER_VARIABLE, 0x1000, 64, "");
	expect_block(trace_finish(&trace), 0, CATEGORY_ACTIVATION, "local x in f (job.py:1)");
	model_free(trace.model);
}

Test(owner, that_was_read_before_the_block_began_is_not_its_owner)
{
	struct trace trace = trace_new(true, false);
	struct tensor_argument storage = {.data = 0x1000, .bytes = 64};
	uint64_t before = trace.time;

	make(&trace, OP_EMPTY, 0x1000, 64);
	model_owner(trace.model, TEST_TARGET, before, OWNER_PARAMETER, &storage, "M.weight");
	expect_block(trace_finish(&trace), 0, CATEGORY_ACTIVATION, "");
	model_free(trace.model);
}

Test(owner, of_more_bytes_than_the_block_has_is_not_believed)
{
	struct trace trace = trace_new(true, false);

	make(&trace, OP_EMPTY, 0x1000, 64);
	owner(&trace, OWNER_PARAMETER, 0x1000, 65, "M.weight");
	expect_block(trace_finish(&trace), 0, CATEGORY_ACTIVATION, "");
	model_free(trace.model);
}

Test(owner, of_what_is_older_than_the_attach_makes_its_row)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x9000, 64);
	owner(&trace, OWNER_BUFFER, 0x1000, 640, "M.mean");
	release(&trace, 0, 0x1000);
	rank = trace_finish(&trace);
	expect_block(rank, 0, CATEGORY_BUFFER, "M.mean");
	cr_expect(eq(u64, rank->blocks[0].bytes, 640));
	cr_expect(rank->blocks[0].preexisting && !rank->blocks[0].persistent);
	cr_expect(eq(u64, rank->unknown_frees, 0));
	model_free(trace.model);
}

Test(owner, that_was_read_before_an_unknown_block_was_freed_does_not_bring_it_back)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x9000, 64);
	release(&trace, 0, 0x1000);
	owner(&trace, OWNER_BUFFER, 0x1000, 640, "M.mean");
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(u64, rank->unknown_frees, 1));
	model_free(trace.model);
}

Test(owner, of_what_a_whole_trace_never_saw_makes_no_row)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x9000, 64);
	owner(&trace, OWNER_BUFFER, 0x1000, 640, "M.mean");
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 1));
	model_free(trace.model);
}

/* A leaf and its gradient, of which only some runs know what Python holds. */
static const struct rank *leaf_trace(struct trace *trace, bool told, bool parameter)
{
	*trace = trace_new(true, false);
	if (told)
		owner(trace, OWNER_NONE, 0, 0, "");
	make(trace, OP_EMPTY, 0x1000, 64);
	if (parameter)
		owner(trace, OWNER_PARAMETER, 0x1000, 64, "M.weight");
	make(trace, OP_MM, 0x2000, 64);
	gradient(trace, 0x1000, 64, 0x2000, 64);
	return trace_finish(trace);
}

Test(owner, tells_a_parameter_from_another_leaf)
{
	struct trace trace;
	const struct rank *rank = leaf_trace(&trace, true, false);

	expect_block(rank, 0, CATEGORY_ACTIVATION, "");
	expect_block(rank, 1, CATEGORY_ACTIVATION, "");
	model_free(trace.model);
	rank = leaf_trace(&trace, true, true);
	expect_block(rank, 0, CATEGORY_PARAMETER, "M.weight");
	expect_block(rank, 1, CATEGORY_GRADIENT, "M.weight");
	model_free(trace.model);
	/* Without Python's objects autograd's word has to do. */
	rank = leaf_trace(&trace, false, false);
	expect_block(rank, 0, CATEGORY_PARAMETER, "");
	expect_block(rank, 1, CATEGORY_GRADIENT, "");
	model_free(trace.model);
}

/* The same leaf, older than the trace, and the gradient that autograd stores for it. */
static void expect_older_leaf(unsigned int holder, enum category leaf, enum category stored)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	owner(&trace, OWNER_NONE, 0, 0, "");
	if (holder)
		owner(&trace, holder, 0x1000, 64, "global w in __main__");
	make(&trace, OP_MM, 0x2000, 64);
	gradient(&trace, 0x1000, 64, 0x2000, 64);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	cr_expect(eq(int, rank->blocks[0].category, leaf));
	cr_expect(eq(int, rank->blocks[1].category, stored));
	model_free(trace.model);
}

Test(owner, of_an_older_leaf_decides_what_it_is)
{
	expect_older_leaf(OWNER_NONE, CATEGORY_PARAMETER, CATEGORY_GRADIENT);
	expect_older_leaf(OWNER_PARAMETER, CATEGORY_PARAMETER, CATEGORY_GRADIENT);
	expect_older_leaf(OWNER_VARIABLE, CATEGORY_OTHER, CATEGORY_ACTIVATION);
}

Test(owner, by_a_variable_is_not_the_optimizers_though_a_closure_uses_it_in_a_step)
{
	static const struct frame STEP[] = {
		{"/usr/lib/python3/dist-packages/torch/optim/optimizer.py", "wrapper", 1, 9}};

	for (int known = 0; known < 2; known++) {
		struct trace trace = trace_new(false, false);
		const struct rank *rank;

		if (known)
			owner(&trace, OWNER_VARIABLE, 0x1000, 64, "global inputs in __main__");
		define_stack(&trace, STACK, STEP, 1);
		trace.stack = STACK;
		redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
		rank = trace_finish(&trace);
		expect_block(
			rank, 0, known ? CATEGORY_OTHER : CATEGORY_OPTSTATE, known ? "global inputs in __main__" : "");
		model_free(trace.model);
	}
}
