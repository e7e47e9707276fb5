/* SPDX-License-Identifier: BSD-2-Clause */
/* What nodes of autograd's graph held for the backward pass, as the memory showed or its end tells. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <hdtrace/capture.h>

#include "model_events.h"

#define INPUT 0x1000
#define OUTPUT 0x2000
#define OTHER 0x3000
#define BYTES 64
#define SAVED "saved for backward by "
#define BY_MM SAVED "aten.mm.default"
#define MODULE "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"
#define STACK_OF_MODULE 7

static struct autograd_node node(uint64_t number)
{
	return (struct autograd_node){.sequence = number, .thread = 1, .known = 1};
}

/* An operator of the forward pass after which the thread gives its next node this number. */
static void forward(struct trace *trace, uint16_t operator_, uint64_t next, const uint64_t *arguments)
{
	trace->next = node(next);
	trace->evaluated = (struct autograd_node){0};
	trace->flags = EVENT_UNGUARDED;
	redispatch(trace, 0, operator_, arguments);
}

/* The engine evaluates a node, and an operator runs for it. */
static void backward(struct trace *trace, uint64_t number)
{
	trace->evaluated = node(number);
	trace->flags = EVENT_UNGUARDED | EVENT_BACKWARD;
	redispatch(trace, 0, OP_MUL, ARGUMENTS(OTHER, BYTES));
}

/* mm (node 0) makes OUTPUT of INPUT, relu (node 1) has OUTPUT as its argument. */
static struct trace saved_trace(void)
{
	struct trace trace = trace_new(true, false);

	make(&trace, OP_EMPTY, OTHER, BYTES);
	make(&trace, OP_EMPTY, INPUT, BYTES);
	forward(&trace, OP_MM, 1, ARGUMENTS(INPUT, BYTES));
	allocate(&trace, 1, OUTPUT, BYTES);
	forward(&trace, OP_RELU, 2, ARGUMENTS(OUTPUT, BYTES));
	return trace;
}

static const struct block *block_at(const struct rank *rank, uint64_t address)
{
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		if (rank->blocks[i].address == address)
			return &rank->blocks[i];
	cr_fatal("no block");
}

static void expect_owner(struct trace *trace, uint64_t address, const char *owner, enum owner_source source)
{
	const struct block *block = block_at(trace_finish(trace), address);

	cr_expect(eq(str, (char *)block->owner, (char *)owner));
	cr_expect(eq(int, block->owner_source, source));
	cr_expect(eq(int, block->category, CATEGORY_ACTIVATION));
	model_free(trace->model);
}

static void held(struct trace *trace, enum owner_kind kind, uint64_t address, const char *name)
{
	struct tensor_argument storage = {.data = address, .bytes = BYTES};

	trace->error = model_owner(trace->model, TEST_TARGET, trace->time, kind, &storage, name);
}

Test(saved, is_what_is_let_go_while_the_node_of_its_operator_is_evaluated)
{
	static const uint64_t PLACES[] = {INPUT, OUTPUT};

	for (int i = 0; i < 2; i++) {
		struct trace trace = saved_trace();

		backward(&trace, 0);
		release(&trace, 0, PLACES[i]);
		expect_owner(&trace, PLACES[i], BY_MM, OWNER_CONCLUDED);
	}
}

Test(saved, has_the_module_of_the_operator)
{
	struct trace trace = trace_new(true, false);

	cr_assert_not(model_module(trace.model, TEST_TARGET, 1, "Model.up"));
	define_stack(&trace, STACK_OF_MODULE, (const struct frame[]){{MODULE, "_call_impl", 1, 1}}, 1);
	make(&trace, OP_EMPTY, OTHER, BYTES);
	make(&trace, OP_EMPTY, INPUT, BYTES);
	trace.stack = STACK_OF_MODULE;
	forward(&trace, OP_MM, 1, ARGUMENTS(INPUT, BYTES));
	trace.stack = 0;
	backward(&trace, 0);
	release(&trace, 0, INPUT);
	expect_owner(&trace, INPUT, BY_MM " (Model.up)", OWNER_CONCLUDED);
}

Test(saved, is_not_what_another_operator_had)
{
	struct trace trace = saved_trace();

	backward(&trace, 1);
	release(&trace, 0, INPUT);
	expect_owner(&trace, INPUT, "", OWNER_UNKNOWN);
}

Test(saved, is_not_what_is_let_go_outside_of_the_engine)
{
	struct trace trace = saved_trace();

	backward(&trace, 0);
	trace.flags = 0;
	release(&trace, 0, INPUT);
	expect_owner(&trace, INPUT, "", OWNER_UNKNOWN);
}

Test(saved, counts_more_than_the_variable_before_it)
{
	struct trace trace = saved_trace();

	held(&trace, OWNER_VARIABLE, INPUT, "local x in train (train.py:1)");
	backward(&trace, 0);
	release(&trace, 0, INPUT);
	expect_owner(&trace, INPUT, BY_MM, OWNER_CONCLUDED);
}

Test(saved, and_variables_count_as_they_were_seen_last)
{
	struct trace trace = saved_trace();
	const struct rank *rank;

	held(&trace, OWNER_VARIABLE, INPUT, "local x in train (train.py:1)");
	held(&trace, OWNER_SAVED, INPUT, SAVED "MmBackward0");
	held(&trace, OWNER_SAVED, OUTPUT, SAVED "ReluBackward0");
	held(&trace, OWNER_VARIABLE, OUTPUT, "global y in __main__");
	held(&trace, OWNER_VARIABLE, OUTPUT, "");
	rank = trace_finish(&trace);
	cr_expect(eq(str, (char *)block_at(rank, INPUT)->owner, SAVED "MmBackward0"));
	cr_expect(eq(str, (char *)block_at(rank, OUTPUT)->owner, "global y in __main__"));
	model_free(trace.model);
}

Test(saved, by_several_nodes_is_called_by_the_one_that_lets_it_go)
{
	struct trace trace = saved_trace();

	held(&trace, OWNER_SAVED, INPUT, SAVED "ReluBackward0");
	backward(&trace, 0);
	release(&trace, 0, INPUT);
	expect_owner(&trace, INPUT, BY_MM, OWNER_CONCLUDED);
}

Test(saved, is_never_a_parameter)
{
	struct trace trace = saved_trace();

	held(&trace, OWNER_PARAMETER, INPUT, "Model.weight");
	held(&trace, OWNER_SAVED, INPUT, SAVED "MmBackward0");
	backward(&trace, 0);
	release(&trace, 0, INPUT);
	cr_expect(eq(str, (char *)block_at(trace_finish(&trace), INPUT)->owner, "Model.weight"));
	model_free(trace.model);
}

Test(saved, by_nodes_before_the_attach_is_an_activation)
{
	struct trace trace = trace_new(false, false);

	make(&trace, OP_EMPTY, OTHER, BYTES);
	held(&trace, OWNER_SAVED, INPUT, SAVED "MmBackward0");
	expect_owner(&trace, INPUT, SAVED "MmBackward0", OWNER_SEEN);
}

Test(gradients, are_added_up_in_the_module_that_used_the_parameter)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	cr_assert_not(model_module(trace.model, TEST_TARGET, 1, "Model.up"));
	define_stack(&trace, STACK_OF_MODULE, (const struct frame[]){{MODULE, "_call_impl", 1, 1}}, 1);
	make(&trace, OP_EMPTY, INPUT, BYTES);
	make(&trace, OP_EMPTY, OTHER, BYTES);
	trace.stack = STACK_OF_MODULE;
	forward(&trace, OP_MM, 1, ARGUMENTS(INPUT, BYTES));
	trace.stack = 0;
	trace.flags = EVENT_UNGUARDED | EVENT_BACKWARD;
	gradient(&trace, INPUT, BYTES, OTHER, BYTES);
	redispatch(&trace, 0, OP_ADD_, ARGUMENTS(OTHER, BYTES));
	rank = trace_finish(&trace);
	cr_expect(eq(str, (char *)arrlast(rank->runs).module, "Model.up"));
	cr_expect(eq(u32, arrlast(rank->runs).forward, RUN_NONE));
	model_free(trace.model);
}
