/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory by module. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"
#include "report/modules.h"

#define MODULE "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"

static void hold(struct trace *trace, enum owner_kind kind, uint64_t address, const char *name)
{
	struct tensor_argument storage = {.data = address, .bytes = 64};

	model_owner(trace->model, TEST_TARGET, trace->time, kind, &storage, name);
}

Test(modules, count_what_is_inside_them_too)
{
	const struct frame frame = {MODULE, "_call_impl", 1, 9};
	struct trace trace = trace_new(true, false);
	struct module_total *modules;

	make(&trace, OP_EMPTY, 0x1000, 64);
	make(&trace, OP_EMPTY, 0x2000, 64);
	make(&trace, OP_EMPTY, 0x3000, 64);
	hold(&trace, OWNER_PARAMETER, 0x1000, "M.a.weight");
	hold(&trace, OWNER_BUFFER, 0x2000, "M.mean");
	make(&trace, OP_EMPTY, 0x5000, 64);
	hold(&trace, OWNER_PARAMETER, 0x5000, "M._flat_param(c.weight, c.bias)");
	hold(&trace, OWNER_PARAMETER, 0x3000, "M.b.weight");
	release(&trace, 0, 0x3000);
	model_module(trace.model, TEST_TARGET, 9, "M.a");
	define_stack(&trace, 7, &frame, 1);
	trace.stack = 7;
	make(&trace, OP_MM, 0x4000, 1000);
	release(&trace, 0, 0x4000);
	modules = modules_total(trace_finish(&trace));
	cr_assert(eq(sz, arrlenu(modules), 2), "a parameter that is gone makes no module");
	cr_expect(eq(str, modules[0].name, "M"));
	cr_expect(eq(u64, modules[0].parameter_bytes, 128));
	cr_expect(eq(u64, modules[0].buffer_bytes, 64));
	cr_expect(eq(u64, modules[0].operators, 1));
	cr_expect(eq(str, modules[1].name, "M.a"));
	cr_expect(eq(u64, modules[1].parameter_bytes, 64));
	cr_expect(eq(u64, modules[1].buffer_bytes, 0));
	cr_expect(eq(u64, modules[1].local_peak_bytes, 1192));
	modules_free(modules);
	model_free(trace.model);
}

#define STACK_OF_CALL 7
#define STACK_OF_OTHER_LINE 8
#define STACK_OF_CHECKPOINT 9

/* A trace in which two stacks call the module M.a, from line 10 and 11 of the job. */
static struct trace calls_trace(void)
{
	const struct frame frames[] = {{"/w/job.py", "<module>", 10, 0}, {MODULE, "_call_impl", 1, 9}};
	const struct frame other[] = {{"/w/job.py", "<module>", 11, 0}, {MODULE, "_call_impl", 1, 9}};
	struct trace trace = trace_new(true, false);

	model_module(trace.model, TEST_TARGET, 9, "M.a");
	define_stack(&trace, STACK_OF_CALL, frames, 2);
	define_stack(&trace, STACK_OF_OTHER_LINE, other, 2);
	return trace;
}

static void operate(struct trace *trace, uint64_t stack, uint64_t argument, uint64_t result, uint64_t bytes)
{
	trace->stack = stack;
	redispatch(trace, 0, OP_MM, ARGUMENTS(argument, 100));
	allocate(trace, 1, result, bytes);
}

static const struct module_total *module_named(const struct module_total *modules, const char *name)
{
	for (size_t i = 0; i < arrlenu(modules); i++)
		if (!strcmp(modules[i].name, name))
			return &modules[i];
	cr_assert(false, "no module %s", name);
	return NULL;
}

static uint64_t state_total(const struct module_total *module, enum module_state state, size_t call)
{
	cr_assert(call < arrlenu(module->snapshots[state]), "%s: no call %zu", module_state_name(state), call);
	return module->snapshots[state][call].total;
}

Test(modules, are_called_again_where_an_operator_or_the_line_is_another)
{
	struct trace trace = calls_trace();
	struct module_total *modules;

	make(&trace, OP_EMPTY, 0x1000, 100);
	operate(&trace, STACK_OF_CALL, 0x1000, 0x2000, 8);
	operate(&trace, STACK_OF_CALL, 0x1000, 0x3000, 8);
	operate(&trace, STACK_OF_OTHER_LINE, 0x1000, 0x4000, 8);
	operate(&trace, 0, 0x1000, 0x5000, 8);
	operate(&trace, STACK_OF_OTHER_LINE, 0x1000, 0x6000, 8);
	modules = modules_total(trace_finish(&trace));
	cr_expect(eq(u64, module_named(modules, "M.a")->calls, 3));
	cr_expect(eq(u64, module_named(modules, "M")->calls, 0), "it was never called itself");
	modules_free(modules);
	model_free(trace.model);
}

Test(modules, hold_what_is_alive_before_and_after_a_call_and_at_its_highest)
{
	struct trace trace = calls_trace();
	const struct module_total *module;
	struct module_total *modules;

	make(&trace, OP_EMPTY, 0x1000, 100);
	make(&trace, OP_EMPTY, 0x1800, 1000);
	operate(&trace, STACK_OF_CALL, 0x1000, 0x2000, 200);
	trace.stack = STACK_OF_CALL;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x2000, 200));
	allocate(&trace, 1, 0x3000, 50);
	/* A local of the function goes as it returns, its argument when its caller lets go. */
	release(&trace, 0, 0x2000);
	release(&trace, 0, 0x1000);
	trace.stack = 0;
	redispatch(&trace, 0, OP_SUM, ARGUMENTS(0x3000, 50, 0x1800, 1000));
	allocate(&trace, 1, 0x4000, 8);
	modules = modules_total(trace_finish(&trace));
	module = module_named(modules, "M.a");
	cr_expect(eq(u64, state_total(module, STATE_PRE_FORWARD, 0), 1100));
	cr_expect(eq(u64, state_total(module, STATE_PEAK_FORWARD, 0), 1350));
	cr_expect(eq(u64, state_total(module, STATE_POST_FORWARD, 0), 1150));
	cr_expect(eq(u64, module->snapshots[STATE_POST_FORWARD][0].category[CATEGORY_ACTIVATION], 1150));
	cr_expect(eq(u64, module->local_peak_bytes, 1350));
	cr_expect(eq(u64, module->input_bytes, 100), "what was not used in it is no input");
	cr_expect(eq(u64, module->output_bytes, 50), "what was not used outside is no output");
	cr_expect(eq(sz, arrlenu(module->snapshots[STATE_PRE_BACKWARD]), 0));
	modules_free(modules);
	model_free(trace.model);
}

Test(modules, keep_the_states_of_their_last_calls)
{
	struct trace trace = calls_trace();
	const struct module_total *module;
	struct module_total *modules;

	make(&trace, OP_EMPTY, 0x1000, 100);
	for (uint64_t call = 0; call < MODULE_CALLS_KEPT + 2; call++) {
		operate(&trace, STACK_OF_CALL, 0x1000, 0x2000 + call * 0x100, 10);
		operate(&trace, 0, 0x1000, 0x8000 + call * 0x100, 1);
	}
	modules = modules_total(trace_finish(&trace));
	module = module_named(modules, "M.a");
	cr_expect(eq(u64, module->calls, MODULE_CALLS_KEPT + 2));
	cr_expect(eq(sz, arrlenu(module->snapshots[STATE_PRE_FORWARD]), MODULE_CALLS_KEPT));
	cr_expect(eq(u64, state_total(module, STATE_PRE_FORWARD, 0), 100 + 2 * 11));
	cr_expect(eq(u64, state_total(module, STATE_POST_FORWARD, MODULE_CALLS_KEPT - 1),
		100 + (MODULE_CALLS_KEPT + 1) * 11 + 10));
	modules_free(modules);
	model_free(trace.model);
}

static struct autograd_node node(uint64_t number)
{
	return (struct autograd_node){.sequence = number, .thread = 1, .known = 1};
}

Test(modules, have_backward_passes_for_each_call_and_recomputations_apart)
{
	const struct frame frames[] = {{"/w/job.py", "<module>", 12, 0},
		{"/usr/lib/python3/dist-packages/torch/autograd/__init__.py", "backward", 1, 0},
		{"/usr/lib/python3/dist-packages/torch/utils/checkpoint.py", "backward", 1, 0},
		{MODULE, "_call_impl", 1, 9}};
	struct trace trace = calls_trace();
	const struct module_total *module;
	struct module_total *modules;

	define_stack(&trace, STACK_OF_CHECKPOINT, frames, 4);
	make(&trace, OP_EMPTY, 0x1000, 100);
	for (uint64_t call = 0; call < 2; call++) {
		trace.next = node(call + 1);
		operate(&trace, STACK_OF_CALL, 0x1000, 0x2000 + call * 0x1000, 10);
		operate(&trace, 0, 0x1000, 0x2100 + call * 0x1000, 1);
	}
	trace.flags |= EVENT_BACKWARD;
	for (uint64_t call = 2; call-- > 0;) {
		trace.evaluated = node(call);
		operate(&trace, 0, 0x1000, 0x4000 + call * 0x1000, 1000);
		/* What adds gradients up is of no operator, and interrupts nothing. */
		trace.evaluated = (struct autograd_node){0};
		operate(&trace, 0, 0x1000, 0x4100 + call * 0x1000, 1);
	}
	operate(&trace, STACK_OF_CHECKPOINT, 0x1000, 0x7000, 5);
	modules = modules_total(trace_finish(&trace));
	module = module_named(modules, "M.a");
	cr_expect(eq(u64, module->calls, 2));
	cr_expect(eq(u64, state_total(module, STATE_PRE_BACKWARD, 0), 122));
	cr_expect(eq(u64, state_total(module, STATE_POST_BACKWARD, 0), 1122));
	cr_expect(eq(u64, state_total(module, STATE_PEAK_BACKWARD, 1), 2123));
	cr_expect(eq(u64, state_total(module, STATE_PRE_RECOMPUTE, 0), 2124));
	cr_expect(eq(u64, state_total(module, STATE_POST_RECOMPUTE, 0), 2129));
	modules_free(modules);
	model_free(trace.model);
}
