/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of collectives: what they read and write, what is copied of it, what is there for communication only; and
 * their ends. */
#include <criterion/criterion.h>

#include "model_events.h"

#define GROUP 0x1000
#define PART 0x10000, 400
#define WHOLE 0x20000, 800
#define COPY 0x30000, 800
#define OTHER 0x40000, 1600
#define WORK 0x9000

/* Behind those of model_events.h. */
enum own_operator { OP_GATHER = OPS, OP_CAT, OP_DIV_, OP_COPY_, OP_SPLIT_OUT, OP_MUL_OUT, OWN_OPS };

static const char *const OWN_NAMES[] = {"c10d._allgather_base_.default", "aten.cat.default", "aten.div_.Tensor",
	"aten.copy_.default", "aten.split_with_sizes_copy.out", "aten.mul.out"};

static struct trace trace;

static void begin(void)
{
	trace = trace_new(true, false);
	for (uint16_t i = 0; i < OWN_OPS - OPS; i++)
		model_operator_name(trace.model, TEST_TARGET, (uint16_t)(OPS + i), OWN_NAMES[i], 0);
}

static void end(void)
{
	cr_assert_eq(trace.error, 0);
	model_free(trace.model);
}

TestSuite(communication, .init = begin, .fini = end);

/* Of one tensor each, float32. */
static void collective(
	enum collective_kind kind, uint64_t input, uint64_t input_bytes, uint64_t output, uint64_t output_bytes)
{
	struct {
		struct collective_event head;
		struct tensor_argument tensors[2];
	} record = {
		.head = {.group = GROUP,
			.input_elements = input_bytes / 4,
			.output_elements = output_bytes / 4,
			.size = 2,
			.peer = -1,
			.input_count = 1,
			.output_count = 1,
			.tensor_count = 2,
			.input_shown = 1,
			.kind = (uint8_t)kind,
			.operation = kind == COLLECTIVE_ALL_GATHER ? COLLECTIVE_NO_OPERATION : OPERATION_SUM,
			.element_type = 6},
		.tensors = {{.data = input, .bytes = input_bytes}, {.data = output, .bytes = output_bytes}},
	};

	record.head.event = trace_event(&trace, EVENT_COLLECTIVE, sizeof(record), 0);
	record.head.event.operator_ = OP_GATHER;
	trace.error = model_event(trace.model, &record.head.event);
}

static void work(enum work_action action, uint64_t address, bool is_functional)
{
	struct work_event event = {.work = address, .action = (uint8_t)action, .is_functional = is_functional};

	event.event = trace_event(&trace, EVENT_WORK, sizeof(event), 0);
	trace.error = model_event(trace.model, &event.event);
}

static const struct collective *nth(const struct rank *rank, size_t index)
{
	cr_assert_lt(index, arrlenu(rank->collectives));
	return &rank->collectives[index];
}

/* The address of the n-th block of a collective: what it reads, then what it writes, then copies. */
static uint64_t block_at(const struct rank *rank, const struct collective *collective, uint32_t index)
{
	uint32_t row = rank->collective_blocks[collective->blocks + index];

	return row == UINT32_MAX ? 0 : rank->blocks[row].address;
}

static const struct block *block_of(const struct rank *rank, uint64_t address)
{
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		if (rank->blocks[i].address == address)
			return &rank->blocks[i];
	cr_assert_fail("no block at %lx", address);
	return NULL;
}

static void make_part(void)
{
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 1, PART);
}

Test(communication, gather_along_another_dimension_is_linked_to_its_copy)
{
	const struct rank *rank;
	const struct collective *gather;

	make_part();
	make(&trace, OP_EMPTY, WHOLE);
	collective(COLLECTIVE_ALL_GATHER, PART, WHOLE);
	redispatch(&trace, 0, OP_VIEW, ARGUMENTS(WHOLE));
	redispatch(&trace, 0, OP_CAT, ARGUMENTS(WHOLE));
	allocate(&trace, 1, COPY);
	release(&trace, 0, 0x20000);
	redispatch(&trace, 0, OP_MM, ARGUMENTS(COPY));
	rank = trace_finish(&trace);
	gather = nth(rank, 0);
	cr_assert_eq(gather->input_blocks, 1);
	cr_assert_eq(gather->output_blocks, 1);
	cr_assert_eq(gather->copy_blocks, 1);
	cr_assert_eq(block_at(rank, gather, 0), 0x10000);
	cr_assert_eq(block_at(rank, gather, 1), 0x20000);
	cr_assert_eq(block_at(rank, gather, 2), 0x30000);
	/* Only the flat buffer is there for the collective alone. */
	cr_assert_eq(gather->communication_bytes, 800);
	cr_assert_eq(block_of(rank, 0x20000)->communication, COMMUNICATION_BUFFER);
	cr_assert_eq(block_of(rank, 0x10000)->communication, COMMUNICATION_NONE);
	cr_assert_eq(block_of(rank, 0x30000)->communication, COMMUNICATION_NONE);
}

Test(communication, block_that_something_computes_with_is_no_buffer)
{
	const struct rank *rank;

	make_part();
	make(&trace, OP_EMPTY, WHOLE);
	collective(COLLECTIVE_ALL_GATHER, PART, WHOLE);
	redispatch(&trace, 0, OP_MM, ARGUMENTS(WHOLE));
	/* What is made of it from now on is no copy of the gather's. */
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(WHOLE));
	allocate(&trace, 1, COPY);
	rank = trace_finish(&trace);
	cr_assert_eq(nth(rank, 0)->copy_blocks, 0);
	cr_assert_eq(nth(rank, 0)->communication_bytes, 0);
}

Test(communication, parameter_that_is_gathered_and_let_go_is_there_for_communication)
{
	const struct rank *rank;
	const struct collective *gather;

	make_part();
	make(&trace, OP_EMPTY, WHOLE);
	make(&trace, OP_EMPTY, COPY);
	collective(COLLECTIVE_ALL_GATHER, PART, WHOLE);
	redispatch(&trace, 0, OP_SPLIT_OUT, ARGUMENTS(WHOLE, COPY));
	release(&trace, 0, 0x20000);
	redispatch(&trace, 0, OP_MM, ARGUMENTS(COPY));
	resize(&trace, 0, COPY, 0);
	release(&trace, 0, 0x30000);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(PART));
	rank = trace_finish(&trace);
	gather = nth(rank, 0);
	cr_assert_eq(gather->copy_blocks, 1);
	cr_assert_eq(block_of(rank, 0x30000)->communication, COMMUNICATION_GATHERED);
	cr_assert(block_of(rank, 0x30000)->resized);
	cr_assert_not(block_of(rank, 0x20000)->resized);
	cr_assert_eq(gather->communication_bytes, 1600);
	cr_assert_eq(rank->steps[0].communication_bytes, 1600);
	cr_assert_eq(rank->steps[0].communication_peak_bytes, 1600);
}

Test(communication, bucket_that_is_filled_and_read_by_copies_is_a_buffer)
{
	const struct rank *rank;

	make_part();
	make(&trace, OP_EMPTY, WHOLE);
	redispatch(&trace, 0, OP_MUL_OUT, ARGUMENTS(PART, WHOLE));
	collective(COLLECTIVE_ALL_REDUCE, WHOLE, WHOLE);
	redispatch(&trace, 0, OP_COPY_, ARGUMENTS(PART, WHOLE));
	rank = trace_finish(&trace);
	cr_assert_eq(block_of(rank, 0x20000)->communication, COMMUNICATION_BUFFER);
	cr_assert_eq(nth(rank, 0)->copy_blocks, 1);
	cr_assert_eq(block_at(rank, nth(rank, 0), 2), 0x10000);
	cr_assert_eq(nth(rank, 0)->division, DIVISION_BEFORE);
	cr_assert_str_eq(collective_division_name(nth(rank, 0)), "before");
	cr_assert_eq(nth(rank, 0)->communication_bytes, 800);
}

Test(communication, sum_that_is_divided_is_an_average_by_hand)
{
	const struct rank *rank;

	make_part();
	collective(COLLECTIVE_ALL_REDUCE, PART, PART);
	redispatch(&trace, 0, OP_VIEW, ARGUMENTS(PART));
	redispatch(&trace, 0, OP_DIV_, ARGUMENTS(PART));
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(PART));
	collective(COLLECTIVE_ALL_REDUCE, PART, PART);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(PART));
	redispatch(&trace, 0, OP_DIV_, ARGUMENTS(PART));
	collective(COLLECTIVE_ALL_GATHER, PART, PART);
	/* By another tensor: no average. */
	make(&trace, OP_MM, OTHER);
	redispatch(&trace, 0, OP_DIV_, ARGUMENTS(PART, OTHER));
	collective(COLLECTIVE_ALL_REDUCE, PART, PART);
	rank = trace_finish(&trace);
	cr_assert_eq(nth(rank, 0)->division, DIVISION_AFTER);
	cr_assert_eq(nth(rank, 1)->division, DIVISION_NONE);
	cr_assert_eq(nth(rank, 2)->division, DIVISION_NONE);
	cr_assert_eq(nth(rank, 3)->division, DIVISION_NONE);
}

Test(communication, mode_is_compiled_below_generated_code)
{
	static const char *const files[] = {"/job.py", "/usr/lib/torch/distributed/_functional_collectives.py",
		"/tmp/torchinductor_root/ab/cabc.py", "<eval_with_key>.9 from /usr/lib/torch/fx/proxy.py:1"};
	static const enum collective_mode modes[] = {MODE_EAGER, MODE_FUNCTIONAL, MODE_COMPILED, MODE_COMPILED};
	const struct rank *rank;

	for (uint64_t i = 0; i < 4; i++) {
		struct collective_event event = {.group = GROUP, .size = 2, .peer = -1, .stack = i + 1};
		struct frame frames[] = {{.file = "/job.py", .function = "f"}, {.file = files[i], .function = "g"},
			{.file = "/usr/lib/torch/_ops.py", .function = "__call__"}};

		define_stack(&trace, i + 1, frames, 3);
		event.event = trace_event(&trace, EVENT_COLLECTIVE, sizeof(event), 0);
		trace.error = model_event(trace.model, &event.event);
	}
	rank = trace_finish(&trace);
	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(nth(rank, i)->mode, modes[i], "%s", files[i]);
}

Test(communication, of_one_element_is_small)
{
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x50000, 4);
	collective(COLLECTIVE_ALL_REDUCE, 0x50000, 4, 0x50000, 4);
	collective(COLLECTIVE_ALL_GATHER, 0x50000, 4, 0x50000, 4);
	collective(COLLECTIVE_ALL_REDUCE, WHOLE, WHOLE);
	rank = trace_finish(&trace);
	cr_assert(collective_is_small(nth(rank, 0)));
	cr_assert_not(collective_is_small(nth(rank, 1)));
	cr_assert_not(collective_is_small(nth(rank, 2)));
	cr_assert_eq(rank->steps[0].small_collectives, 1);
}

Test(communication, wait_lasts_until_the_work_is_done)
{
	const struct rank *rank;
	uint64_t waited, finished;

	make_part();
	collective(COLLECTIVE_ALL_REDUCE, PART, PART);
	work(WORK_MADE, WORK, false);
	work(WORK_WAITED, WORK, true);
	waited = trace.time;
	trace.time += 500;
	work(WORK_FINISHED, WORK, false);
	finished = trace.time;
	/* Done before anybody waits; and nobody knows this one. */
	collective(COLLECTIVE_ALL_REDUCE, PART, PART);
	work(WORK_MADE, WORK, false);
	work(WORK_FINISHED, WORK, false);
	work(WORK_WAITED, WORK, false);
	work(WORK_FINISHED, WORK + 8, false);
	/* Never done. */
	collective(COLLECTIVE_ALL_REDUCE, PART, PART);
	work(WORK_MADE, WORK, false);
	work(WORK_WAITED, WORK, false);
	trace.time += 1000;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(PART));
	rank = trace_finish(&trace);
	cr_assert_eq(collective_host_wait(rank, nth(rank, 0)), finished - waited);
	cr_assert_eq(nth(rank, 0)->mode, MODE_FUNCTIONAL);
	cr_assert_eq(nth(rank, 1)->mode, MODE_EAGER);
	cr_assert_eq(collective_host_wait(rank, nth(rank, 1)), 0);
	cr_assert_eq(nth(rank, 2)->finished_ns, 0);
	cr_assert_eq(collective_host_wait(rank, nth(rank, 2)), 1010);
	cr_assert_eq(rank->steps[0].host_wait_ns, finished - waited + 1010);
	cr_assert_eq(rank->steps[0].communication_ns,
		nth(rank, 0)->finished_ns - nth(rank, 0)->time_ns + nth(rank, 1)->finished_ns - nth(rank, 1)->time_ns);
}

/* The flag of a bucket is the record's. */
static void bucket(uint64_t work_address)
{
	struct collective_event event = {.group = GROUP, .size = 2, .peer = -1, .flags = COLLECTIVE_BUCKET};

	event.event = trace_event(&trace, EVENT_COLLECTIVE, sizeof(event), 0);
	trace.error = model_event(trace.model, &event.event);
	work(WORK_MADE, work_address, false);
}

Test(communication, buckets_are_waited_for_one_after_another)
{
	const struct rank *rank;
	uint64_t waited, first, second;

	for (int step = 0; step < 2; step++) {
		bucket(WORK);
		bucket(WORK + 8);
		bucket(WORK + 16);
		work(WORK_FINISHED, WORK + 16, false);
		work(WORK_WAIT_BUCKETS, 0, false);
		waited = trace.time;
		trace.time += 100;
		work(WORK_FINISHED, WORK, false);
		first = trace.time;
		trace.time += 100;
		work(WORK_FINISHED, WORK + 8, false);
		second = trace.time;
	}
	rank = trace_finish(&trace);
	for (size_t step = 0; step < 2; step++) {
		cr_assert_eq(collective_host_wait(rank, nth(rank, 3 * step)), first - waited);
		cr_assert_eq(collective_host_wait(rank, nth(rank, 3 * step + 1)), second - first);
		cr_assert_eq(collective_host_wait(rank, nth(rank, 3 * step + 2)), 0);
	}
}

Test(communication, end_that_no_work_tells_is_not_known)
{
	const struct rank *rank;

	make_part();
	collective(COLLECTIVE_ALL_REDUCE, PART, PART);
	work(WORK_MADE, WORK, false);
	work(WORK_WAITED, WORK, false);
	work(200, WORK, false);
	rank = trace_finish(&trace);
	cr_assert_eq(collective_host_wait(rank, nth(rank, 0)), UINT64_MAX);
}
