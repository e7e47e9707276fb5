/* SPDX-License-Identifier: BSD-2-Clause */
/* What a trace tells of the model. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"
#include "report/facts.h"

/* c10::ScalarType and one more. */
#define HALF 6
#define FLOAT 7

static void hold(
	struct trace *trace, enum owner_kind kind, uint64_t address, uint64_t bytes, uint8_t type, const char *name)
{
	struct tensor_argument storage = {.data = address, .bytes = bytes};

	make(trace, OP_EMPTY, address, bytes);
	model_owner(trace->model, TEST_TARGET, trace->time, kind, &storage, name);
	if (type)
		model_element_type(trace->model, TEST_TARGET, &storage, type);
}

Test(facts, of_the_model_are_those_of_most_of_its_parameters)
{
	struct trace trace = trace_new(true, false);
	char class[MODEL_CLASS_BYTES];
	const struct rank *rank;

	hold(&trace, OWNER_PARAMETER, 0x1000, 400, FLOAT, "Small.weight");
	hold(&trace, OWNER_PARAMETER, 0x2000, 300, HALF, "Large.a.weight");
	hold(&trace, OWNER_PARAMETER, 0x3000, 300, HALF, "Large.b.weight");
	hold(&trace, OWNER_PARAMETER, 0x4000, 5000, HALF, "SGD.params(0)");
	hold(&trace, OWNER_BUFFER, 0x5000, 9000, FLOAT, "Other.mean");
	hold(&trace, OWNER_PARAMETER, 0x6000, 9000, FLOAT, "Gone.weight");
	release(&trace, 0, 0x6000);
	rank = trace_finish(&trace);
	cr_expect(eq(str, (char *)model_class(rank, class), "Large"));
	cr_expect(eq(str, (char *)model_element_name(rank), "float16"));
	model_free(trace.model);
}

Test(facts, that_nothing_tells_are_not_known)
{
	struct trace trace = trace_new(true, false);
	char class[MODEL_CLASS_BYTES];
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 400);
	hold(&trace, OWNER_PARAMETER, 0x2000, 400, 0, "SGD.params(0)");
	rank = trace_finish(&trace);
	cr_expect(model_class(rank, class) == NULL);
	cr_expect(model_element_name(rank) == NULL);
	model_free(trace.model);
}
