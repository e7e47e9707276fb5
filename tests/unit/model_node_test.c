/* SPDX-License-Identifier: BSD-2-Clause */
/* From operators of a backward pass to those of the forward pass, by the numbers of autograd's nodes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define MODULE "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"
#define STACK_OF_MODULE 7
#define BLOCK 0x1000

static struct autograd_node node(uint64_t number, uint64_t thread)
{
	return (struct autograd_node){.sequence = number, .thread = thread, .known = 1};
}

/* An operator of the forward pass, whose thread (also PyTorch's number of it) then gives its next node this number. */
static void forward(struct trace *trace, uint16_t operator_, uint64_t next)
{
	trace->next = node(next, trace->thread);
	trace->evaluated = (struct autograd_node){0};
	trace->flags = EVENT_UNGUARDED;
	redispatch(trace, 0, operator_, ARGUMENTS(BLOCK, 64));
}

/* An operator that runs for a node. */
static void backward(struct trace *trace, struct autograd_node evaluated)
{
	trace->evaluated = evaluated;
	trace->flags = EVENT_UNGUARDED | EVENT_BACKWARD;
	redispatch(trace, 0, OP_MUL, ARGUMENTS(BLOCK, 64));
}

static struct trace nodes_trace(void)
{
	struct trace trace = trace_new(true, false);

	make(&trace, OP_EMPTY, BLOCK, 64);
	return trace;
}

/* The name of what the last run belongs to, "": nothing. */
static const char *forward_name(struct trace *trace)
{
	const struct rank *rank = trace_finish(trace);
	uint32_t forward = rank->runs[arrlenu(rank->runs) - 1].forward;

	return forward == RUN_NONE ? "" : rank->operator_names[rank->runs[forward].name];
}

static void expect_forward(struct trace *trace, const char *want)
{
	cr_expect(eq(str, (char *)forward_name(trace), (char *)want));
	model_free(trace->model);
}

Test(nodes, belong_to_the_operator_after_which_the_number_is_higher)
{
	static const char *const WANT[] = {
		"aten.mm.default", "aten.relu.default", "aten.sum.default", "aten.sum.default"};

	/* Two nodes before sum: one of a Python function around it, one of its own. */
	for (uint64_t number = 0; number < 4; number++) {
		struct trace trace = nodes_trace();

		forward(&trace, OP_MM, 1);
		forward(&trace, OP_RELU, 2);
		forward(&trace, OP_DETACH, 2);
		forward(&trace, OP_SUM, 4);
		backward(&trace, node(number, 1));
		expect_forward(&trace, WANT[number]);
	}
}

Test(nodes, that_are_made_late_belong_to_the_operator_before)
{
	struct trace trace = nodes_trace();
	struct autograd_node late = node(1, 1);

	forward(&trace, OP_ADD_, 1);
	forward(&trace, OP_SUM, 3);
	late.late = 1;
	backward(&trace, late);
	expect_forward(&trace, "aten.add_.Tensor");
}

Test(nodes, of_each_thread_have_numbers_of_their_own)
{
	struct trace trace = nodes_trace();

	forward(&trace, OP_MM, 1);
	trace.thread = 2;
	forward(&trace, OP_RELU, 1);
	trace.thread = 1;
	backward(&trace, node(0, 2));
	expect_forward(&trace, "aten.relu.default");
}

Test(nodes, older_than_the_trace_lead_nowhere)
{
	struct trace trace = nodes_trace();

	forward(&trace, OP_MM, 100);
	forward(&trace, OP_RELU, 101);
	backward(&trace, node(98, 1));
	expect_forward(&trace, "");
	/* But the first operator's own node is known. */
	trace = nodes_trace();
	forward(&trace, OP_MM, 100);
	backward(&trace, node(99, 1));
	expect_forward(&trace, "aten.mm.default");
}

Test(nodes, that_nobody_is_known_to_have_made_lead_nowhere)
{
	struct trace trace = nodes_trace();

	forward(&trace, OP_MM, 1);
	backward(&trace, node(7, 1));
	expect_forward(&trace, "");
	trace = nodes_trace();
	forward(&trace, OP_MM, 1);
	backward(&trace, node(0, 9));
	expect_forward(&trace, "");
	trace = nodes_trace();
	forward(&trace, OP_MM, 1);
	backward(&trace, (struct autograd_node){.sequence = 0, .thread = 1});
	expect_forward(&trace, "");
}

/* A backward pass that is itself differentiated makes nodes while it evaluates others. */
Test(nodes, of_a_backward_pass_lead_to_its_operators)
{
	struct trace trace = nodes_trace();

	forward(&trace, OP_MM, 1);
	trace.next = node(2, 1);
	backward(&trace, node(0, 1));
	backward(&trace, node(1, 1));
	expect_forward(&trace, "aten.mul.Tensor");
}

Test(nodes, give_the_module_of_the_forward_pass)
{
	static const struct frame FRAMES[] = {{"/w/main.py", "<module>", 1, 0}, {MODULE, "_call_impl", 2, 1}};
	struct trace trace = nodes_trace();
	const struct rank *rank;

	model_module(trace.model, TEST_TARGET, 1, "Model");
	define_stack(&trace, STACK_OF_MODULE, FRAMES, 2);
	trace.stack = STACK_OF_MODULE;
	forward(&trace, OP_MM, 1);
	trace.stack = 0;
	backward(&trace, node(0, 1));
	make(&trace, OP_MUL, 0x2000, 32);
	rank = trace_finish(&trace);
	cr_expect(eq(str, (char *)rank->runs[arrlenu(rank->runs) - 1].module, (char *)"Model"));
	cr_expect(eq(u32, rank->runs[arrlenu(rank->runs) - 1].stack, 0));
	model_free(trace.model);
}
