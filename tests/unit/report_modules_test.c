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
	cr_expect(eq(u64, modules[0].parameter_bytes, 64));
	cr_expect(eq(u64, modules[0].buffer_bytes, 64));
	cr_expect(eq(u64, modules[0].operators, 1));
	cr_expect(eq(str, modules[1].name, "M.a"));
	cr_expect(eq(u64, modules[1].parameter_bytes, 64));
	cr_expect(eq(u64, modules[1].buffer_bytes, 0));
	cr_expect(eq(u64, modules[1].local_peak_bytes, 1128));
	modules_free(modules);
	model_free(trace.model);
}
