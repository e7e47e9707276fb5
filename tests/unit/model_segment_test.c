/* SPDX-License-Identifier: BSD-2-Clause */
/* What drivers gave: segments, calls that failed, exhaustion, programs without PyTorch, kernels. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define MIB (1ull << 20)
#define BASE UINT64_C(0x7f0000000000)
#define MALLOC 100 /* index of a name that is no operator's */

static struct trace device_trace(void)
{
	struct trace trace = trace_new(true, false);

	trace.device_type = DEVICE_CUDA;
	model_operator_name(trace.model, TEST_TARGET, MALLOC, "cudaMalloc", 0);
	return trace;
}

static void segment(struct trace *trace, struct segment_event event)
{
	event.event = trace_event(trace, EVENT_SEGMENT, sizeof(event), 0);
	event.event.operator_ = MALLOC;
	event.device_type = DEVICE_CUDA;
	trace->error = model_event(trace->model, &event.event);
}

static void take(struct trace *trace, uint8_t result, uint64_t address, uint64_t bytes)
{
	segment(trace, (struct segment_event){.action = SEGMENT_ALLOCATE,
			       .result = result,
			       .address = address,
			       .bytes = bytes,
			       .device_index = SEGMENT_DEVICE_UNKNOWN});
}

static void give_back(struct trace *trace, uint64_t address)
{
	segment(trace, (struct segment_event){
			       .action = SEGMENT_FREE, .address = address, .device_index = SEGMENT_DEVICE_UNKNOWN});
}

static void map(struct trace *trace, uint8_t action, uint64_t address, uint64_t bytes)
{
	segment(trace, (struct segment_event){.action = action,
			       .address = address,
			       .bytes = bytes,
			       .caller = 0x5000,
			       .device_index = SEGMENT_DEVICE_UNKNOWN});
}

/* The allocator of cuda:0 gives out a block and says what it holds. */
static void block(struct trace *trace, uint64_t address, uint64_t bytes, uint64_t reserved)
{
	struct device_allocate_event event = {.address = address,
		.bytes = bytes,
		.allocated = trace->allocated += bytes,
		.reserved = reserved,
		.device_type = DEVICE_CUDA};

	event.event = trace_event(trace, EVENT_DEVICE_ALLOCATE, sizeof(event), 0);
	trace->error = model_event(trace->model, &event.event);
}

static void exhausted(struct trace *trace, uint64_t bytes)
{
	struct out_of_memory_event event = {.bytes = bytes, .allocated = trace->allocated, .device_type = DEVICE_CUDA};

	event.event = trace_event(trace, EVENT_OUT_OF_MEMORY, sizeof(event), 0);
	trace->error = model_event(trace->model, &event.event);
}

static const struct device *cuda_of(const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (!strcmp(rank->devices[i].name, "cuda:0"))
			return &rank->devices[i];
	cr_assert(false, "there is no cuda:0");
	return NULL;
}

static void of_memory(struct trace *trace, uint8_t action, uint8_t memory, uint64_t address, uint64_t bytes)
{
	segment(trace, (struct segment_event){.action = action,
			       .memory = memory,
			       .result = SEGMENT_RETURNED,
			       .address = address,
			       .bytes = bytes,
			       .device_index = SEGMENT_DEVICE_UNKNOWN});
}

Test(arrays, that_have_handles_near_each_other_are_held_side_by_side)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	of_memory(&trace, SEGMENT_ALLOCATE, SEGMENT_ARRAY, 0x5000, 2 * MIB);
	of_memory(&trace, SEGMENT_ALLOCATE, SEGMENT_ARRAY, 0x5040, 3 * MIB);
	of_memory(&trace, SEGMENT_FREE, SEGMENT_ARRAY, 0x5000, 0);
	of_memory(&trace, SEGMENT_ALLOCATE, SEGMENT_ARRAY, 0x5080, 0); /* of a format whose size is not known */
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->segments), 2);
	cr_expect_neq(rank->segments[0].end_time_ns, UINT64_MAX);
	cr_expect_eq(rank->segments[1].end_time_ns, UINT64_MAX);
	cr_expect_eq(rank->unsized_segments, 1);
	cr_expect_eq(cuda_of(rank)->segment_peak_bytes, 5 * MIB);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 3 * MIB);
	model_free(trace.model);
}

/* Both ways of asking for memory, in the order in which they were used. */
Test(programs, without_pytorch_have_pools_and_other_memory_as_blocks)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 2 * MIB);
	segment(&trace, (struct segment_event){.action = SEGMENT_ALLOCATE,
				.result = SEGMENT_RETURNED,
				.address = BASE + 32 * MIB,
				.bytes = 3 * MIB,
				.pooled = 1,
				.device_index = SEGMENT_DEVICE_UNKNOWN});
	take(&trace, SEGMENT_RETURNED, BASE + 64 * MIB, 4 * MIB);
	give_back(&trace, BASE + 32 * MIB);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->blocks), 3);
	cr_expect_eq(rank->blocks[0].bytes, 2 * MIB);
	cr_expect_eq(rank->blocks[1].bytes, 3 * MIB);
	cr_expect_eq(rank->blocks[2].bytes, 4 * MIB);
	cr_expect_not(rank->blocks[1].persistent);
	model_free(trace.model);
}

Test(imports, are_listed_and_in_no_total)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 2 * MIB);
	of_memory(&trace, SEGMENT_ALLOCATE, SEGMENT_IMPORTED, 0x5000, 7 * MIB);
	of_memory(&trace, SEGMENT_MAP, SEGMENT_IMPORTED, BASE + 32 * MIB, 4 * MIB);
	of_memory(&trace, SEGMENT_ALLOCATE, SEGMENT_IMPORTED, BASE + 64 * MIB, 0); /* by a handle that tells no size */
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->segments), 3);
	cr_expect_eq(rank->unsized_segments, 1);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 2 * MIB);
	cr_expect_eq(cuda_of(rank)->segment_peak_bytes, 2 * MIB);
	model_free(trace.model);
}

Test(mappings, are_certain_once_a_block_lies_in_them)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	for (uint64_t i = 0; i < 3; i++)
		map(&trace, SEGMENT_MAP, BASE + 20 * i * MIB, 20 * MIB);
	block(&trace, BASE, 40 * MIB, 60 * MIB);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->segments), 3);
	cr_expect(rank->segments[0].certain && rank->segments[1].certain);
	cr_expect_not(rank->segments[2].certain);
	model_free(trace.model);
}

/* --- what a call came to -------------------------------------------------------------- */

Test(calls, that_return_give_segments_until_they_are_freed)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 2 * MIB);
	take(&trace, SEGMENT_RETURNED, BASE + 16 * MIB, 20 * MIB);
	give_back(&trace, BASE);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->segments), 2);
	cr_expect_neq(rank->segments[0].end_time_ns, UINT64_MAX);
	cr_expect_eq(rank->segments[1].end_time_ns, UINT64_MAX);
	cr_expect_eq(cuda_of(rank)->segment_peak_bytes, 22 * MIB);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 20 * MIB);
	model_free(trace.model);
}

Test(calls, that_are_refused_are_failures_and_no_memory)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	segment(&trace, (struct segment_event){.action = SEGMENT_ALLOCATE,
				.result = SEGMENT_REFUSED,
				.code = 2,
				.address = BASE,
				.bytes = 2 * MIB});
	segment(&trace, (struct segment_event){
				.action = SEGMENT_CREATE, .result = SEGMENT_REFUSED, .code = 2, .bytes = 3 * MIB});
	segment(&trace, (struct segment_event){.action = SEGMENT_MAP,
				.result = SEGMENT_REFUSED,
				.code = 1,
				.address = BASE,
				.bytes = 4 * MIB});
	take(&trace, SEGMENT_UNCHANGED, 0, 5 * MIB);
	rank = trace_finish(&trace);
	cr_expect_eq(arrlenu(rank->segments), 0);
	cr_assert_eq(arrlenu(rank->failures), 4);
	cr_expect_eq(rank->failures[0].code, 2);
	cr_expect_eq(rank->failures[3].bytes, 5 * MIB);
	cr_expect_eq(rank->segment_failures, 4);
	model_free(trace.model);
}

Test(calls, whose_result_was_overwritten_are_found_by_what_the_allocator_holds)
{
	static const struct {
		uint8_t result;
		uint64_t address;
	} overwritten[] = {{SEGMENT_UNREADABLE, 0}, {SEGMENT_UNCHANGED, 0x1234}, {SEGMENT_FOUND, 0x1234},
		{SEGMENT_FOUND, BASE + 64 * MIB} /* an address, but of something else */};

	for (size_t i = 0; i < sizeof(overwritten) / sizeof(overwritten[0]); i++) {
		struct trace trace = device_trace();
		const struct segment *found = NULL;
		const struct rank *rank;

		take(&trace, overwritten[i].result, overwritten[i].address, 2 * MIB);
		block(&trace, BASE, MIB, 2 * MIB);
		give_back(&trace, BASE);
		rank = trace_finish(&trace);
		for (size_t j = 0; j < arrlenu(rank->segments); j++)
			if (rank->segments[j].bytes)
				found = &rank->segments[j];
		cr_assert_not_null(found, "case %zu", i);
		cr_expect_eq(found->address, BASE, "case %zu: %#lx", i, (unsigned long)found->address);
		cr_expect(found->certain && found->has_blocks);
		cr_expect_neq(found->end_time_ns, UINT64_MAX);
		cr_expect_eq(cuda_of(rank)->segment_peak_bytes, 2 * MIB);
		model_free(trace.model);
	}
}

Test(calls, without_a_result_failed_when_they_are_made_again_or_the_allocator_gives_up)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_UNCHANGED, 0x1234, 2 * MIB);
	take(&trace, SEGMENT_UNCHANGED, 0x1234, 2 * MIB);
	exhausted(&trace, MIB);
	rank = trace_finish(&trace);
	cr_expect_eq(arrlenu(rank->failures), 2);
	cr_expect_eq(arrlenu(rank->segments), 0);
	model_free(trace.model);
}

Test(calls, without_a_result_and_without_a_sign_of_failure_gave_memory_somewhere)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_UNREADABLE, 0, 2 * MIB);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->segments), 1);
	cr_expect_eq(rank->segments[0].address, 0);
	cr_expect_not(rank->segments[0].certain);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 2 * MIB);
	model_free(trace.model);
}

/* A program may ask for the same twice, and hand its driver variables that are gone soon. */
Test(calls, whose_result_is_gone_are_not_taken_for_refused_ones)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_UNREADABLE, 0, 2 * MIB);
	take(&trace, SEGMENT_UNREADABLE, 0, 2 * MIB);
	take(&trace, SEGMENT_RETURNED, BASE, MIB);
	rank = trace_finish(&trace);
	cr_expect_eq(rank->segment_failures, 0);
	cr_expect_eq(arrlenu(rank->segments), 3);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 5 * MIB);
	model_free(trace.model);
}

Test(calls, whose_result_is_gone_have_the_address_that_is_given_back_if_there_is_only_one)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_UNREADABLE, 0, 2 * MIB);
	give_back(&trace, BASE);
	give_back(&trace, BASE + 2 * MIB);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->segments), 1);
	cr_expect_eq(rank->segments[0].address, BASE);
	cr_expect_neq(rank->segments[0].end_time_ns, UINT64_MAX);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 0);
	cr_expect_eq(rank->unknown_segment_frees, 1);
	model_free(trace.model);
}

static void refuse_free(struct trace *trace, uint64_t time_ns, uint64_t address)
{
	struct segment_event event = {.action = SEGMENT_FREE,
		.result = SEGMENT_REFUSED,
		.code = 1,
		.address = address,
		.device_index = SEGMENT_DEVICE_UNKNOWN};

	event.event = trace_event(trace, EVENT_SEGMENT, sizeof(event), 0);
	event.event.operator_ = MALLOC;
	event.event.time_ns = time_ns;
	event.device_type = DEVICE_CUDA;
	trace->error = model_event(trace->model, &event.event);
}

/* A free is told at once, and again with the time of its begin where it was refused. */
Test(calls, that_give_back_and_are_refused_leave_what_was_there)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 2 * MIB);
	take(&trace, SEGMENT_RETURNED, BASE + 16 * MIB, 4 * MIB);
	give_back(&trace, BASE);
	refuse_free(&trace, trace.time, BASE);
	give_back(&trace, BASE + MIB);
	refuse_free(&trace, trace.time, BASE + MIB);
	rank = trace_finish(&trace);
	cr_expect_eq(rank->segments[0].end_time_ns, UINT64_MAX);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 6 * MIB);
	cr_expect_eq(cuda_of(rank)->segment_peak_bytes, 6 * MIB);
	cr_expect_eq(rank->segment_failures, 2);
	cr_expect_eq(rank->failures[0].code, 1);
	cr_expect_eq(rank->unknown_segment_frees, 0);
	model_free(trace.model);
}

/* As cudaFreeHost of memory of a device, where nothing tells that it was refused. */
Test(calls, that_give_back_memory_of_another_kind_end_nothing)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 2 * MIB);
	segment(&trace, (struct segment_event){.action = SEGMENT_FREE,
				.memory = SEGMENT_HOST,
				.address = BASE,
				.device_index = SEGMENT_DEVICE_UNKNOWN});
	rank = trace_finish(&trace);
	cr_expect_eq(rank->segments[0].end_time_ns, UINT64_MAX);
	cr_expect_eq(rank->unknown_segment_frees, 1);
	model_free(trace.model);
}

Test(calls, at_an_address_that_is_held_end_what_was_there)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 4 * MIB);
	take(&trace, SEGMENT_RETURNED, BASE + 2 * MIB, 4 * MIB);
	rank = trace_finish(&trace);
	cr_expect_neq(rank->segments[0].end_time_ns, UINT64_MAX);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 4 * MIB);
	model_free(trace.model);
}

Test(mappings, are_segments_and_end_range_by_range)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	for (uint64_t i = 0; i < 4; i++)
		map(&trace, SEGMENT_MAP, BASE + i * 2 * MIB, 2 * MIB);
	map(&trace, SEGMENT_UNMAP, BASE + 2 * MIB, 4 * MIB);
	map(&trace, SEGMENT_UNMAP, BASE + 6 * MIB, 0);
	map(&trace, SEGMENT_UNMAP, BASE + 64 * MIB, 2 * MIB);
	rank = trace_finish(&trace);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 2 * MIB);
	cr_expect_eq(rank->segments[0].end_time_ns, UINT64_MAX);
	cr_expect_eq(rank->unknown_segment_frees, 1);
	model_free(trace.model);
}

/* --- allocator and others ----------------------------------------------------------------- */

Test(segments, with_blocks_are_the_allocators_and_others_are_outside)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 20 * MIB);
	block(&trace, BASE + MIB, MIB, 20 * MIB);
	take(&trace, SEGMENT_RETURNED, BASE + 64 * MIB, 3 * MIB);
	rank = trace_finish(&trace);
	cr_expect(rank->segments[0].has_blocks);
	cr_expect_not(rank->segments[1].has_blocks);
	cr_expect_eq(cuda_of(rank)->outside_bytes, 3 * MIB);
	cr_expect_eq(cuda_of(rank)->segment_bytes, 23 * MIB);
	model_free(trace.model);
}

Test(segments, given_back_in_one_go_are_one_release)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	for (uint64_t i = 0; i < 3; i++) {
		take(&trace, SEGMENT_RETURNED, BASE + 32 * i * MIB, 20 * MIB);
		block(&trace, BASE + 32 * i * MIB, MIB, 20 * (i + 1) * MIB);
	}
	give_back(&trace, BASE);
	give_back(&trace, BASE + 32 * MIB);
	block(&trace, BASE + 70 * MIB, MIB, 20 * MIB);
	give_back(&trace, BASE + 64 * MIB);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->releases), 2);
	cr_expect_eq(rank->releases[0].segments, 2);
	cr_expect_eq(rank->releases[0].bytes, 40 * MIB);
	cr_expect_eq(rank->releases[1].segments, 1);
	model_free(trace.model);
}

/* --- exhaustion ------------------------------------------------------------------------------ */

Test(exhaustion, knows_the_largest_free_piece_of_the_segments)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	take(&trace, SEGMENT_RETURNED, BASE, 20 * MIB);
	block(&trace, BASE, 4 * MIB, 20 * MIB);
	block(&trace, BASE + 7 * MIB, 5 * MIB, 20 * MIB);          /* free: 4 to 7 and 12 to 20 */
	take(&trace, SEGMENT_RETURNED, BASE + 64 * MIB, 30 * MIB); /* nobody's: free for nobody */
	exhausted(&trace, 9 * MIB);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->out_of_memories), 1);
	cr_expect_eq(rank->out_of_memories[0].largest_gap, 8 * MIB);
	cr_expect_eq(rank->out_of_memories[0].bytes, 9 * MIB);
	model_free(trace.model);
}

Test(exhaustion, sees_mappings_that_touch_as_one_piece)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	map(&trace, SEGMENT_MAP, BASE, 2 * MIB);
	block(&trace, BASE, MIB, 2 * MIB);
	map(&trace, SEGMENT_MAP, BASE + 2 * MIB, 2 * MIB);
	map(&trace, SEGMENT_MAP, BASE + 4 * MIB, 2 * MIB);
	exhausted(&trace, 9 * MIB);
	rank = trace_finish(&trace);
	cr_expect_eq(rank->out_of_memories[0].largest_gap, 5 * MIB);
	model_free(trace.model);
}

Test(exhaustion, without_segments_knows_no_free_piece)
{
	struct trace trace = device_trace();

	block(&trace, BASE, MIB, 20 * MIB);
	exhausted(&trace, 9 * MIB);
	cr_expect_eq(trace_finish(&trace)->out_of_memories[0].largest_gap, UINT64_MAX);
	model_free(trace.model);
}

Test(exhaustion, keeps_the_name_of_the_operator_that_then_raises)
{
	struct trace trace = device_trace();
	const struct rank *rank;
	struct out_of_memory_event event = {.bytes = MIB, .device_type = DEVICE_CUDA};

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	event.event = trace_event(&trace, EVENT_OUT_OF_MEMORY, sizeof(event), 1);
	model_event(trace.model, &event.event);
	throw(&trace, 1);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->out_of_memories), 1);
	cr_expect_str_eq(rank->operator_names[rank->out_of_memories[0].name], TEST_NAMES[OP_MM]);
	model_free(trace.model);
}

/* --- without an allocator of blocks ------------------------------------------------------------- */

Test(programs, without_pytorch_have_their_segments_as_blocks)
{
	struct trace trace = device_trace();
	const struct rank *rank;

	segment(&trace, (struct segment_event){.action = SEGMENT_ALLOCATE,
				.result = SEGMENT_RETURNED,
				.address = BASE,
				.bytes = 2 * MIB,
				.caller = 0x1000});
	segment(&trace, (struct segment_event){.action = SEGMENT_ALLOCATE,
				.result = SEGMENT_RETURNED,
				.address = BASE + 8 * MIB,
				.bytes = MIB,
				.caller = 0x2000});
	give_back(&trace, BASE);
	model_symbol(trace.model, TEST_TARGET, 0x1000, "solver", "solve(int)", 16);
	model_symbol(trace.model, TEST_TARGET, 0x2000, "libx.so", "", 0);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->blocks), 2);
	cr_expect_str_eq(rank->operator_names[rank->blocks[0].name], "native.solve(int)");
	cr_expect_str_eq(rank->operator_names[rank->blocks[1].name], "native.libx.so");
	cr_expect_not(rank->blocks[0].persistent);
	cr_expect(rank->blocks[1].persistent);
	cr_expect_eq(cuda_of(rank)->peak_bytes, 3 * MIB);
	model_free(trace.model);
}

Test(pools, of_a_driver_give_blocks_to_the_operators_that_ask)
{
	struct trace trace = device_trace();
	struct segment_event event = {.action = SEGMENT_ALLOCATE,
		.result = SEGMENT_RETURNED,
		.address = BASE,
		.bytes = MIB,
		.pooled = 1,
		.device_type = DEVICE_CUDA};
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	event.event = trace_event(&trace, EVENT_SEGMENT, sizeof(event), 1);
	model_event(trace.model, &event.event);
	event.action = SEGMENT_FREE;
	event.event = trace_event(&trace, EVENT_SEGMENT, sizeof(event), 0);
	model_event(trace.model, &event.event);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->blocks), 1);
	cr_expect_str_eq(rank->operator_names[rank->blocks[0].name], TEST_NAMES[OP_MM]);
	cr_expect_not(rank->blocks[0].persistent);
	model_free(trace.model);
}

/* --- kernels ---------------------------------------------------------------------------------- */

Test(kernels, are_counted_by_stub_and_for_the_operator_that_launches)
{
	struct trace trace = device_trace();
	struct launch_event event = {.function = 0x4000};
	const struct rank *rank;

	make(&trace, OP_MM, 0x1000, 1 << 20);
	for (int i = 0; i < 3; i++) {
		event.event = trace_event(&trace, EVENT_LAUNCH, sizeof(event), i < 2);
		model_event(trace.model, &event.event);
	}
	event.function = 0;
	event.event = trace_event(&trace, EVENT_LAUNCH, sizeof(event), 0);
	event.event.operator_ = MALLOC;
	model_event(trace.model, &event.event);
	rank = trace_finish(&trace);
	cr_assert_eq(arrlenu(rank->kernels), 2);
	cr_expect_eq(rank->kernels[0].launches, 3);
	cr_expect_eq(rank->kernels[1].launches, 1);
	cr_expect_eq(rank->runs[0].launches, 2);
	model_free(trace.model);
}
