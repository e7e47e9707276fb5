/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks: which are rows, when they start and end, who used them, what the totals were. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define MIB (1ull << 20)

static void expect_plots(const struct block *block, const char *start, const char *end)
{
	char text[PLOT_TEXT_BYTES];

	cr_expect(eq(str, (char *)plot_format(text, block->start, block->start_plot), (char *)start));
	cr_expect(eq(str, (char *)plot_format(text, block_end_task(block), block->end_plot), (char *)end));
}

static void expect_life(const struct rank *rank, size_t row, int64_t start, int64_t end, const char *users)
{
	cr_assert(lt(sz, row, arrlenu(rank->blocks)));
	cr_expect(eq(i64, rank->blocks[row].start, start), "row %zu", row);
	cr_expect(eq(i64, rank->blocks[row].end, end), "row %zu", row);
	cr_expect(eq(str, (char *)user_text(rank, &rank->blocks[row]), (char *)users), "row %zu", row);
}

static const char *row_name(const struct rank *rank, size_t row)
{
	return rank->operator_names[rank->blocks[row].name];
}

/*
 * The worked example of the report specification, as a live target shows it: W is older than the trace, X is batch data
 * made by torch.tensor, B dies after W came back.
 */
static const struct rank *worked_example(struct trace *trace)
{
	make(trace, OP_EMPTY, 0x90, 2048);
	call(trace, 0, OP_LIFT, ARGUMENTS(0x90, 2000));
	redispatch(trace, 0, OP_MM, ARGUMENTS(0x90, 2000, 0x100, 4096));
	allocate(trace, 1, 0x103, 2048);
	redispatch(trace, 0, OP_RELU, ARGUMENTS(0x103, 2000));
	allocate(trace, 1, 0x102, 2048);
	release(trace, 0, 0x103);
	redispatch(trace, 0, OP_VIEW, ARGUMENTS(0x102, 2000));
	redispatch(trace, 0, OP_DETACH, NO_ARGUMENTS);
	redispatch(trace, 0, OP_ADD_, ARGUMENTS(0x102, 2000));
	redispatch(trace, 0, OP_SUM, ARGUMENTS(0x102, 2000));
	allocate(trace, 1, 0x104, 512);
	resize(trace, 0, 0x100, 4096, 0);
	release(trace, 0, 0x100);
	trace->flags |= EVENT_BACKWARD;
	resize(trace, 0, 0, 0, 4096);
	allocate(trace, 0, 0x100, 4096);
	release(trace, 0, 0x102);
	redispatch(trace, 0, OP_MUL, ARGUMENTS(0x104, 4));
	allocate(trace, 1, 0x105, 512);
	release(trace, 0, 0x105);
	gradient(trace, 0x100, 4096, 0, 0);
	return trace_finish(trace);
}

Test(worked_example, gives_its_rows)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank = worked_example(&trace);

	cr_assert(eq(sz, arrlenu(rank->blocks), 6));
	cr_expect(eq(i64, rank->task_count, 8));
	expect_life(rank, 0, 0, 6, "1");
	expect_life(rank, 1, 1, 3, "2");
	expect_life(rank, 2, 2, 7, "3-4-5");
	expect_life(rank, 3, 5, TASK_PERSISTENT, "7");
	expect_life(rank, 4, 6, TASK_PERSISTENT, "");
	expect_life(rank, 5, 7, 8, "");
	model_free(trace.model);
}

Test(worked_example, gives_its_plot_coordinates_and_event_numbers)
{
	static const uint64_t STARTS[] = {0, 1, 2, 4, 6, 8}, ENDS[] = {5, 3, 7, UINT64_MAX, UINT64_MAX, 9};
	struct trace trace = trace_new(false, false);
	const struct rank *rank = worked_example(&trace);

	expect_plots(&rank->blocks[0], "0.500000000000", "6.333333333333");
	expect_plots(&rank->blocks[1], "1.500000000000", "3.500000000000");
	expect_plots(&rank->blocks[2], "2.500000000000", "7.333333333333");
	expect_plots(&rank->blocks[3], "5.500000000000", "");
	expect_plots(&rank->blocks[4], "6.666666666667", "");
	expect_plots(&rank->blocks[5], "7.666666666667", "8.500000000000");
	for (size_t i = 0; i < 6; i++) {
		cr_expect(eq(u64, rank->blocks[i].start_event, STARTS[i]));
		cr_expect(eq(u64, rank->blocks[i].end_event, ENDS[i]));
	}
	model_free(trace.model);
}

Test(worked_example, gives_its_totals_sizes_and_kinds)
{
	static const uint64_t USED[] = {4096, 8192, 10240, 8704, 8704, 7168};
	static const uint64_t PEAK[] = {4096, 8192, 10240, 10240, 10240, 10240};
	static const uint64_t BYTES[] = {4096, 2000, 2000, 4, 4096, 512};
	struct trace trace = trace_new(false, false);
	const struct rank *rank = worked_example(&trace);

	for (size_t i = 0; i < 6; i++) {
		cr_expect(eq(u64, rank->blocks[i].used_bytes, USED[i]), "row %zu", i);
		cr_expect(eq(u64, rank->blocks[i].peak_bytes, PEAK[i]), "row %zu", i);
		cr_expect(eq(u64, rank->blocks[i].bytes, BYTES[i]), "row %zu", i);
	}
	cr_expect(eq(str, (char *)row_name(rank, 0), (char *)"hdtrace.preexisting"));
	cr_expect(eq(str, (char *)row_name(rank, 4), (char *)"torch.UntypedStorage.resize_"));
	cr_expect(eq(int, rank->blocks[0].phase, PHASE_INITIALIZATION));
	cr_expect(eq(int, rank->blocks[1].phase, PHASE_FORWARD));
	cr_expect(eq(int, rank->blocks[5].phase, PHASE_BACKWARD));
	cr_expect(eq(int, rank->blocks[4].category, CATEGORY_PARAMETER));
	cr_expect(eq(int, rank->blocks[5].category, CATEGORY_TEMP));
	cr_expect(eq(u64, rank->blocks[4].generation, 1));
	cr_expect(eq(u64, rank->peak_bytes, 10240));
	cr_expect(eq(u64, rank->devices[0].current.total, 2048 + 512 + 4096));
	cr_expect(eq(u64, rank->untracked_blocks, 1));
	cr_expect(eq(u64, rank->untracked_bytes, 2048));
	model_free(trace.model);
}

Test(workspace, is_one_row_of_its_task_without_event_numbers)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 512);
	allocate(&trace, 1, 0x2000, 64);
	release(&trace, 1, 0x1000);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	expect_life(rank, 0, 0, 1, "");
	expect_plots(&rank->blocks[0], "0.000000000001", "0.999999999999");
	expect_plots(&rank->blocks[1], "0.500000000000", "");
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_WORKSPACE));
	cr_expect(eq(u64, rank->blocks[0].start_event, UINT64_MAX));
	cr_expect(eq(u64, rank->blocks[0].peak_bytes, 576));
	cr_expect(eq(u64, rank->blocks[0].used_bytes, 64));
	cr_expect(eq(u64, rank->devices[0].peak.category[CATEGORY_WORKSPACE], 512));
	cr_expect(eq(u64, rank->devices[0].peak.total, 576));
	cr_expect(not(rank->blocks[0].persistent));
	model_free(trace.model);
}

Test(workspace, of_an_operator_that_is_no_task_is_no_row_but_counts)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 512);
	release(&trace, 1, 0x1000);
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 0));
	cr_expect(eq(i64, rank->task_count, 0));
	cr_expect(eq(u64, rank->peak_bytes, 512));
	cr_expect(eq(u64, rank->devices[0].peak.category[CATEGORY_OTHER], 512));
	cr_expect(eq(u64, rank->untracked_bytes, 0));
	model_free(trace.model);
}

Test(workspace, is_not_what_another_thread_frees)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 512);
	trace.thread = 2;
	release(&trace, 0, 0x1000);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 1, "");
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_ACTIVATION));
	model_free(trace.model);
}

Test(lifted, blocks_are_untracked_and_make_no_tasks)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	call(&trace, 0, OP_LIFT, ARGUMENTS(0x1000, 64));
	call(&trace, 0, OP_DETACH, ARGUMENTS(0x1000, 64));
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 0));
	cr_expect(eq(i64, rank->task_count, 0));
	cr_expect(eq(sz, arrlenu(rank->runs), 3));
	model_free(trace.model);
}

Test(lifted, later_stays_tracked)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	call(&trace, 0, OP_LIFT, ARGUMENTS(0x1000, 64));
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, TASK_PERSISTENT, "1-2");
	model_free(trace.model);
}

Test(lifted, is_not_what_the_lift_itself_made)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_LIFT, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 64);
	redispatch(&trace, 1, OP_LIFT, ARGUMENTS(0x1000, 64));
	expect_life(trace_finish(&trace), 0, 0, TASK_PERSISTENT, "");
	model_free(trace.model);
}

Test(lifted, blocks_are_rows_with_all_blocks)
{
	struct trace trace = trace_new(true, true);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	call(&trace, 0, OP_LIFT, ARGUMENTS(0x1000, 64));
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, TASK_PERSISTENT, "1");
	model_free(trace.model);
}

Test(outside, small_allocations_are_untracked)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	allocate(&trace, 0, 0x1000, 8);
	redispatch(&trace, 0, OP_MUL, ARGUMENTS(0x1000, 8));
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 0));
	cr_expect(eq(i64, rank->task_count, 0));
	cr_expect(eq(u64, rank->devices[0].current.category[CATEGORY_OTHER], 8));
	model_free(trace.model);
}

/* What a factory made that began before the attach, maybe, and so was left out: a thread's first one. */
Test(outside, what_comes_before_the_first_operator_of_an_attached_thread_is_a_row)
{
	static const struct frame FRAMES[] = {{"job.py", "build", 5, 0}};

	for (int from_start = 0; from_start < 2; from_start++) {
		struct trace trace = trace_new(from_start, false);
		const struct rank *rank;

		define_stack(&trace, 7, FRAMES, 1);
		trace.stack = 7;
		allocate(&trace, 0, 0x100, 16); /* a number */
		allocate(&trace, 0, 0x1000, 4096);
		redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 4000));
		allocate(&trace, 0, 0x3000, 4096);
		trace.thread = 2;
		trace.stack = 0;
		allocate(&trace, 0, 0x5000, 4096); /* no Python runs there */
		rank = trace_finish(&trace);
		cr_assert(eq(sz, arrlenu(rank->blocks), from_start ? 0 : 1));
		if (!from_start) {
			cr_expect(eq(u64, rank->blocks[0].bytes, 4000));
			cr_expect(eq(str, (char *)row_name(rank, 0), (char *)"python.build"));
			cr_expect(eq(str, (char *)user_text(rank, &rank->blocks[0]), (char *)"1"));
		}
		model_free(trace.model);
	}
}

Test(outside, large_allocations_take_an_index_and_the_name_of_their_function)
{
	static const struct frame FRAMES[] = {{"/w/job.py", "<module>", 3, 0}, {"/w/buffers.py", "make_buffer", 7, 0}};
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	allocate(&trace, 0, 0x1000, MIB);
	define_stack(&trace, 42, FRAMES, 2);
	trace.stack = 42;
	allocate(&trace, 0, 0x900000, 2 * MIB);
	trace.stack = 0;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x900000, 2 * MIB));
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, TASK_PERSISTENT, "");
	expect_life(rank, 1, 1, TASK_PERSISTENT, "2");
	cr_expect(eq(str, (char *)row_name(rank, 0), (char *)"native.allocation"));
	cr_expect(eq(str, (char *)row_name(rank, 1), (char *)"python.make_buffer"));
	model_free(trace.model);
}

Test(storage_resize, ends_the_old_block_where_the_new_one_starts)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	resize(&trace, 0, 0x1000, 64, 128);
	allocate(&trace, 0, 0x2000, 128);
	release(&trace, 0, 0x1000);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 1, "");
	expect_life(rank, 1, 1, TASK_PERSISTENT, "");
	expect_plots(&rank->blocks[0], "0.500000000000", "1.333333333333");
	expect_plots(&rank->blocks[1], "1.666666666667", "");
	cr_expect(eq(str, (char *)row_name(rank, 1), (char *)"torch.UntypedStorage.resize_"));
	cr_expect(eq(u64, rank->peak_bytes, 192));
	model_free(trace.model);
}

Test(storage_resize, to_nothing_is_a_free_at_the_next_index)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	resize(&trace, 0, 0x1000, 64, 0);
	release(&trace, 0, 0x1000);
	allocate(&trace, 0, 0x2000, 8);
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 1));
	expect_life(rank, 0, 0, 1, "");
	cr_expect(eq(i64, rank->task_count, 1));
	model_free(trace.model);
}

Test(storage_resize, inside_an_operator_keeps_that_operator_as_last_user)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_RESIZE_, ARGUMENTS(0x1000, 64));
	resize(&trace, 1, 0x1000, 64, 128);
	allocate(&trace, 1, 0x2000, 128);
	release(&trace, 1, 0x1000);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 1, "1");
	expect_life(rank, 1, 1, TASK_PERSISTENT, "");
	expect_plots(&rank->blocks[0], "0.500000000000", "1.333333333333");
	expect_plots(&rank->blocks[1], "1.666666666667", "");
	cr_expect(eq(str, (char *)row_name(rank, 1), (char *)"aten.resize_.default"));
	model_free(trace.model);
}

Test(end, of_an_argument_that_its_operator_frees_without_making_another_is_after_it)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	release(&trace, 1, 0x1000);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 2, "1");
	cr_expect(eq(i64, rank->task_count, 2));
	model_free(trace.model);
}

Test(end, before_a_storage_resize_is_found_by_the_operator_after_it)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	make(&trace, OP_EMPTY, 0x2000, 64);
	release(&trace, 0, 0x1000);
	resize(&trace, 0, 0x2000, 64, 128);
	allocate(&trace, 0, 0x3000, 128);
	release(&trace, 0, 0x2000);
	make(&trace, OP_EMPTY, 0x4000, 64);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 3, "");
	expect_life(rank, 1, 1, 2, "");
	expect_life(rank, 2, 2, TASK_PERSISTENT, "");
	model_free(trace.model);
}

Test(end, inside_a_task_is_that_task_and_outside_the_next_one)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	make(&trace, OP_EMPTY, 0x2000, 64);
	make(&trace, OP_EMPTY, 0x3000, 64);
	release(&trace, 1, 0x1000);
	release(&trace, 0, 0x2000);
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	release(&trace, 1, 0x3000);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 2, "");
	expect_life(rank, 1, 1, 3, "");
	expect_life(rank, 2, 2, 3, "");
	model_free(trace.model);
}

Test(end, comes_before_the_starts_of_the_same_task)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 1, 0x2000, 64);
	release(&trace, 1, 0x1000);
	allocate(&trace, 1, 0x3000, 64);
	rank = trace_finish(&trace);
	expect_plots(&rank->blocks[0], "0.500000000000", "1.250000000000");
	expect_plots(&rank->blocks[1], "1.500000000000", "");
	expect_plots(&rank->blocks[2], "1.750000000000", "");
	model_free(trace.model);
}

Test(end, is_after_a_later_user_on_another_thread)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x1000, 64));
	trace.thread = 2;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	trace.thread = 1;
	release(&trace, 1, 0x1000);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 3, "1-2");
	model_free(trace.model);
}

Test(users, are_each_task_once_without_the_producer)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_MUL, ARGUMENTS(0x1000, 64, 0x1000, 64));
	allocate(&trace, 1, 0x2000, 64);
	redispatch(&trace, 0, OP_ADD_, ARGUMENTS(0x2000, 64, 0x1000, 64));
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, TASK_PERSISTENT, "1-2");
	expect_life(rank, 1, 1, TASK_PERSISTENT, "2");
	model_free(trace.model);
}

Test(frees, that_were_lost_end_the_block_where_its_address_is_given_out_again)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_MM, ARGUMENTS(0x1000, 64));
	redispatch(&trace, 0, OP_RELU, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 32);
	release(&trace, 0, 0x7777);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, 2, "1");
	expect_life(rank, 1, 2, TASK_PERSISTENT, "");
	cr_expect(eq(u64, rank->reused_addresses, 1));
	cr_expect(eq(u64, rank->unknown_frees, 1));
	cr_expect(not(rank_complete(rank)));
	cr_expect(eq(u64, rank->devices[0].current.total, 32));
	model_free(trace.model);
}

Test(nothing, comes_of_empty_allocations)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 0);
	allocate(&trace, 1, 0, 64);
	rank = trace_finish(&trace);
	cr_expect(eq(u64, rank->allocations, 0));
	cr_expect(eq(i64, rank->task_count, 0));
	cr_expect(rank_complete(rank));
	model_free(trace.model);
}

Test(external, storages_are_listed_once_and_make_no_tasks)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x9000, 640));
	make(&trace, OP_EMPTY, 0x9000, 64);
	release(&trace, 0, 0x9000);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x9000, 640));
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->externals), 1));
	cr_expect(eq(u64, rank->externals[0].address, 0x9000));
	cr_expect(eq(u64, rank->externals[0].bytes, 640));
	cr_expect(eq(u64, rank->externals[0].uses, 2));
	cr_expect(eq(i64, rank->task_count, 1));
	cr_expect(eq(u64, rank->reused_addresses, 0));
	cr_expect(eq(u64, rank->peak_bytes, 64));
	model_free(trace.model);
}

Test(external, storages_are_rows_with_all_blocks)
{
	struct trace trace = trace_new(true, true);
	const struct rank *rank;

	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x9000, 640));
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, TASK_PERSISTENT, "1");
	cr_expect(eq(u64, rank->peak_bytes, 640));
	model_free(trace.model);
}

Test(preexisting, blocks_are_made_by_the_initialization_task)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x9000, 640));
	release(&trace, 0, 0x9000);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	expect_life(rank, 0, 0, 3, "2");
	expect_life(rank, 1, 1, TASK_PERSISTENT, "");
	cr_expect(rank->blocks[0].preexisting);
	cr_expect(eq(u64, rank->blocks[0].allocated_bytes, 0));
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_OTHER));
	cr_expect(eq(str, (char *)rank->operator_names[rank->runs[0].name], (char *)"hdtrace.preexisting"));
	cr_expect(eq(int, rank->runs[0].phase, PHASE_INITIALIZATION));
	cr_expect(eq(u64, rank->unknown_frees, 0));
	cr_expect(eq(u64, rank->peak_bytes, 704));
	cr_expect(eq(u64, rank->blocks[1].used_bytes, 704));
	model_free(trace.model);
}

Test(preexisting, blocks_that_none_used_are_unknown)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	release(&trace, 0, 0x9000);
	make(&trace, OP_EMPTY, 0x1000, 64);
	rank = trace_finish(&trace);
	expect_life(rank, 0, 0, TASK_PERSISTENT, "");
	cr_expect(eq(u64, rank->unknown_frees, 1));
	model_free(trace.model);
}

Test(preexisting, is_nothing_at_an_address_where_a_block_died_before)
{
	struct trace trace = trace_new(false, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	release(&trace, 0, 0x1000);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(sz, arrlenu(rank->externals), 1));
	model_free(trace.model);
}

Test(totals, never_lose_the_peak_down_the_file)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	trace.thread = 2;
	redispatch(&trace, 0, OP_RELU, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 64);
	trace.thread = 1;
	allocate(&trace, 1, 0x2000, 64);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	cr_expect(eq(u64, rank->blocks[0].address, 0x2000));
	cr_expect(eq(u64, rank->blocks[0].peak_bytes, 128));
	cr_expect(eq(u64, rank->blocks[1].peak_bytes, 128));
	cr_expect(eq(u64, rank->blocks[1].used_bytes, 64));
	model_free(trace.model);
}

Test(totals, take_the_size_of_the_storage_only_when_it_fits_the_allocation)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 512);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 9999));
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 400));
	rank = trace_finish(&trace);
	cr_expect(eq(u64, rank->blocks[0].bytes, 400));
	cr_expect(eq(u64, rank->blocks[0].allocated_bytes, 512));
	model_free(trace.model);
}

Test(peak, knows_the_blocks_that_were_alive)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	make(&trace, OP_EMPTY, 0x2000, 640);
	release(&trace, 0, 0x1000);
	make(&trace, OP_EMPTY, 0x3000, 32);
	rank = trace_finish(&trace);
	cr_expect(eq(u64, rank->peak_bytes, 704));
	cr_expect(block_alive_at(&rank->blocks[0], rank->devices[0].peak_order));
	cr_expect(block_alive_at(&rank->blocks[1], rank->devices[0].peak_order));
	cr_expect(not(block_alive_at(&rank->blocks[2], rank->devices[0].peak_order)));
	cr_expect(eq(u64, rank->devices[0].peak.total, 704));
	cr_expect(eq(u64, rank->devices[0].current.total, 672));
	cr_expect(eq(u32, rank->devices[0].peak_run, 1));
	model_free(trace.model);
}
