/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of compiled code: their tensors come from no operator, and one node of autograd's graph stands for all. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define MODULE "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"
#define INDUCTOR "/usr/lib/python3/dist-packages/torch/_inductor/output_code.py"
#define ENGINE "/usr/lib/python3/dist-packages/torch/autograd/graph.py"
#define FORWARD_CODE "/cache/ab/cabc.py"
#define BACKWARD_CODE "/cache/cd/ccde.py"
#define IN_FORWARD 7
#define IN_BACKWARD 8
#define BYTES 256 /* far less than what counts outside of compiled code */
#define INPUT 0x1000
#define BUFFER 0x2000
#define GRADIENT 0x3000

static const struct frame FORWARD[] = {{"/w/job.py", "<module>", 3, 0}, {MODULE, "_call_impl", 1, 1},
	{INDUCTOR, "__call__", 9, 0}, {FORWARD_CODE, "call", 20, 0}};
static const struct frame BACKWARD[] = {{"/w/job.py", "<module>", 4, 0}, {ENGINE, "_engine_run_backward", 1, 0},
	{INDUCTOR, "__call__", 9, 0}, {BACKWARD_CODE, "call", 30, 0}, {BACKWARD_CODE, "partition_0", 12, 0}};

static struct trace compiled_trace(void)
{
	struct trace trace = trace_new(true, false);

	cr_assert_not(model_module(trace.model, TEST_TARGET, 1, "Model"));
	define_stack(&trace, IN_FORWARD, FORWARD, sizeof(FORWARD) / sizeof(*FORWARD));
	define_stack(&trace, IN_BACKWARD, BACKWARD, sizeof(BACKWARD) / sizeof(*BACKWARD));
	make(&trace, OP_EMPTY, INPUT, BYTES);
	trace.flags = EVENT_UNGUARDED;
	trace.stack = IN_FORWARD;
	return trace;
}

/* An operator of a region: of the forward pass, behind which the thread gives its next node this number. */
static void in_forward(struct trace *trace, uint64_t next)
{
	trace->next = (struct autograd_node){.sequence = next, .thread = 1, .known = 1};
	trace->evaluated = (struct autograd_node){0};
	redispatch(trace, 0, OP_MM, ARGUMENTS(INPUT, BYTES));
}

/* Of the backward pass, for node 0. */
static void in_backward(struct trace *trace)
{
	trace->evaluated = (struct autograd_node){.sequence = 0, .thread = 1, .known = 1};
	redispatch(trace, 0, OP_MUL, ARGUMENTS(INPUT, BYTES));
}

static const struct block *block_at(const struct rank *rank, uint64_t address)
{
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		if (rank->blocks[i].address == address)
			return &rank->blocks[i];
	cr_fatal("no block");
}

Test(compiled, code_makes_rows_of_any_size)
{
	struct trace trace = compiled_trace();
	const struct rank *rank;
	const struct block *block;

	allocate(&trace, 0, BUFFER, BYTES);
	trace.stack = 0;
	allocate(&trace, 0, GRADIENT, BYTES); /* outside of it, a number that Python wraps */
	rank = trace_finish(&trace);
	block = block_at(rank, BUFFER);
	cr_expect(eq(u64, arrlenu(rank->blocks), 2));
	cr_expect(eq(str, (char *)rank->operator_names[block->name], "compiled.call"));
	cr_expect(eq(str, (char *)rank->runs[block->producer].module, "Model"));
	cr_expect(eq(int, block->phase, PHASE_FORWARD));
	cr_expect(eq(int, block->category, CATEGORY_ACTIVATION));
	model_free(trace.model);
}

Test(compiled, code_is_not_what_inductor_itself_runs)
{
	static const struct frame compiling[] = {{INDUCTOR, "__call__", 9, 0}, {INDUCTOR, "call", 10, 0}};
	static const struct frame called[] = {{"/w/job.py", "<module>", 3, 0}, {"/w/job.py", "call", 10, 0}};
	struct trace trace = compiled_trace();
	const struct rank *rank;

	define_stack(&trace, 20, compiling, 2);
	define_stack(&trace, 21, called, 2);
	trace.stack = 20;
	allocate(&trace, 0, BUFFER, BYTES);
	trace.stack = 21;
	allocate(&trace, 0, GRADIENT, BYTES);
	rank = trace_finish(&trace);
	cr_expect(eq(u64, arrlenu(rank->blocks), 1));
	model_free(trace.model);
}

Test(compiled, code_of_a_backward_pass_works_for_the_node_of_its_operators)
{
	struct trace trace = compiled_trace();
	const struct rank *rank;
	const struct operator_run *run;

	in_forward(&trace, 1);
	trace.stack = IN_BACKWARD;
	trace.flags |= EVENT_BACKWARD;
	allocate(&trace, 0, GRADIENT, BYTES); /* before the first operator of the region */
	in_backward(&trace);
	rank = trace_finish(&trace);
	run = &rank->runs[block_at(rank, GRADIENT)->producer];
	cr_expect(eq(str, (char *)rank->operator_names[run->name], "compiled.partition_0"));
	cr_expect(eq(int, run->phase, PHASE_BACKWARD));
	cr_expect(eq(str, (char *)run->module, "Model"));
	cr_assert(ne(u32, run->forward, RUN_NONE));
	cr_expect(eq(str, (char *)rank->operator_names[rank->runs[run->forward].name], "aten.mm.default"));
	model_free(trace.model);
}

Test(compiled, code_has_one_node_that_saves)
{
	struct trace trace = compiled_trace();
	const struct block *block;

	allocate(&trace, 0, BUFFER, BYTES);
	in_forward(&trace, 1);
	trace.stack = IN_BACKWARD;
	trace.flags |= EVENT_BACKWARD;
	in_backward(&trace);
	release(&trace, 0, BUFFER);
	block = block_at(trace_finish(&trace), BUFFER);
	cr_expect(eq(str, (char *)block->owner, "saved for backward by compiled code (Model)"));
	model_free(trace.model);
}
