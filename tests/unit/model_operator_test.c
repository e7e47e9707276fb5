/* SPDX-License-Identifier: BSD-2-Clause */
/* Which calls are operators that ran: candidates, redispatches, nesting, lost records. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define MIB (1ull << 20)

static void expect_runs(struct trace *trace, const char *names)
{
	const struct rank *rank = trace_finish(trace);
	char *got;

	cr_assert(ne(ptr, (void *)rank, NULL));
	got = run_names(rank, false);
	cr_expect(eq(str, got, (char *)names));
	free(got);
	model_free(trace->model);
}

Test(candidate, runs_when_its_frame_ends_without_a_redispatch)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_CLONE, NO_ARGUMENTS);
	call(&trace, 0, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.clone.default aten.view.default");
}

Test(candidate, is_replaced_by_the_redispatch_of_the_same_operator)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_MM, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_MM, NO_ARGUMENTS);
	call(&trace, 0, OP_VIEW, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.mm.default aten.view.default");
}

Test(candidate, gives_its_allocations_to_the_redispatch)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	call(&trace, 0, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 64);
	redispatch(&trace, 1, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 2, 0x2000, 64);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->runs), 1));
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	cr_expect(eq(u32, rank->blocks[0].producer, 0));
	cr_expect(eq(u32, rank->blocks[1].producer, 0));
	cr_expect(eq(u64, rank->runs[0].live_bytes, 128));
	model_free(trace.model);
}

Test(candidate, contains_operators_that_come_with_autograd_excluded)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_CLONE, NO_ARGUMENTS);
	call_guarded(&trace, 1, OP_EMPTY, NO_ARGUMENTS);
	call_guarded(&trace, 1, OP_RELU, NO_ARGUMENTS);
	expect_runs(&trace, "aten.clone.default");
}

Test(candidate, owns_what_is_allocated_inside_its_nested_operators)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	call(&trace, 0, OP_CLONE, NO_ARGUMENTS);
	call_guarded(&trace, 1, OP_EMPTY, NO_ARGUMENTS);
	allocate(&trace, 2, 0x1000, 64);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(str, (char *)rank->operator_names[rank->blocks[0].name], (char *)"aten.clone.default"));
	model_free(trace.model);
}

Test(candidate, can_still_be_replaced_after_nested_operators)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_MM, NO_ARGUMENTS);
	call_guarded(&trace, 1, OP_EMPTY, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_MM, NO_ARGUMENTS);
	expect_runs(&trace, "aten.mm.default");
}

Test(candidate, is_dropped_when_it_only_led_to_other_operators)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_MUL, NO_ARGUMENTS);
	call(&trace, 1, OP_VIEW, NO_ARGUMENTS);
	redispatch(&trace, 2, OP_VIEW, NO_ARGUMENTS);
	call(&trace, 1, OP_MM, NO_ARGUMENTS);
	redispatch(&trace, 2, OP_MM, NO_ARGUMENTS);
	call(&trace, 0, OP_RELU, NO_ARGUMENTS);
	expect_runs(&trace, "aten.view.default aten.mm.default aten.relu.default");
}

Test(candidate, is_dropped_around_a_dropped_one)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_MUL, NO_ARGUMENTS);
	call(&trace, 1, OP_SUM, NO_ARGUMENTS);
	redispatch(&trace, 2, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.view.default");
}

Test(candidate, with_operators_before_its_redispatch_keeps_both_in_order_of_start)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_MM, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_VIEW, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_MM, NO_ARGUMENTS);
	expect_runs(&trace, "aten.view.default aten.mm.default");
}

Test(candidate, entered_with_autograd_excluded_ran_whatever_follows)
{
	struct trace trace = trace_new(true, false);

	call_guarded(&trace, 0, OP_CLONE, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.clone.default aten.view.default");
}

Test(candidate, that_was_seen_running_is_not_dropped_by_a_late_operator)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_CLONE, NO_ARGUMENTS);
	call_guarded(&trace, 1, OP_EMPTY, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.clone.default aten.view.default");
}

Test(redispatch, contains_everything_inside_it)
{
	struct trace trace = trace_new(true, false);

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	call(&trace, 1, OP_EMPTY, NO_ARGUMENTS);
	redispatch(&trace, 2, OP_EMPTY, NO_ARGUMENTS);
	call_guarded(&trace, 1, OP_RELU, NO_ARGUMENTS);
	redispatch(&trace, 0, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.mm.default aten.view.default");
}

Test(redispatch, leaves_an_operator_after_it_in_the_same_call_alone)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_MM, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_MM, NO_ARGUMENTS);
	call(&trace, 1, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.mm.default aten.view.default");
}

Test(boxed, takes_the_place_of_the_call_of_the_same_operator)
{
	struct trace trace = trace_new(true, false);

	call(&trace, 0, OP_MM, ARGUMENTS(0x1000, 64));
	boxed(&trace, 1, OP_MM, ARGUMENTS(0x1000, 64));
	boxed(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	expect_runs(&trace, "aten.mm.default aten.relu.default");
}

/* A class of tensors answers a call by other operators: these ran, also where autograd is excluded all along. */
Test(boxed, ran_where_the_call_around_it_only_led_there)
{
	struct trace trace = trace_new(true, false);

	call_guarded(&trace, 0, OP_MM, NO_ARGUMENTS);
	trace.flags = 0;
	boxed(&trace, 1, OP_VIEW, ARGUMENTS(0x1000, 64));
	redispatch(&trace, 2, OP_CLONE, NO_ARGUMENTS);
	boxed(&trace, 1, OP_RELU, ARGUMENTS(0x1000, 64));
	call(&trace, 0, OP_SUM, ARGUMENTS(0x1000, 64));
	expect_runs(&trace, "aten.view.default aten.relu.default aten.sum.default");
}

Test(boxed, is_part_of_an_operator_that_runs)
{
	struct trace trace = trace_new(true, false);

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	boxed(&trace, 1, OP_CLONE, NO_ARGUMENTS);
	expect_runs(&trace, "aten.mm.default");
}

Test(nested, arguments_are_not_uses)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_RELU, ARGUMENTS(0x1000, 64));
	rank = trace_finish(&trace);
	cr_expect(eq(u32, rank->blocks[0].user_count, 0));
	cr_expect(eq(i64, rank->task_count, 1));
	model_free(trace.model);
}

Test(exception, makes_the_operator_that_raised_no_task)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_MM, ARGUMENTS(0x1000, 64));
	throw(&trace, 1);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	rank = trace_finish(&trace);
	cr_expect(eq(i64, rank->task_count, 2));
	cr_assert(eq(u32, rank->blocks[0].user_count, 1));
	cr_expect(eq(i64, rank->users[rank->blocks[0].first_user], 1));
	model_free(trace.model);
}

Test(exception, through_a_call_and_its_redispatch_leaves_what_is_around_them)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	call(&trace, 0, OP_MM, ARGUMENTS(0x1000, 64));
	redispatch(&trace, 1, OP_MM, ARGUMENTS(0x1000, 64));
	throw(&trace, 2);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	rank = trace_finish(&trace);
	cr_expect(eq(i64, rank->task_count, 2));
	cr_expect(eq(u32, rank->blocks[0].user_count, 1));
	model_free(trace.model);
}

Test(exception, that_an_operator_catches_itself_changes_nothing)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	throw(&trace, 1);
	allocate(&trace, 1, 0x1000, 64);
	redispatch(&trace, 0, OP_RELU, NO_ARGUMENTS);
	rank = trace_finish(&trace);
	cr_expect(eq(i64, rank->task_count, 1));
	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	model_free(trace.model);
}

Test(profiler_range, has_a_handle_that_lives_until_it_ends)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 0, OP_RANGE_BEGIN, NO_ARGUMENTS);
	allocate(&trace, 1, 0x1000, 288);
	release(&trace, 1, 0x1000);
	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_RANGE_END, NO_ARGUMENTS);
	make(&trace, OP_EMPTY, 0x2000, 64);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 3));
	cr_expect(eq(i64, rank->blocks[0].start, 0));
	cr_expect(eq(i64, rank->blocks[0].end, 2));
	cr_expect(eq(u64, rank->blocks[0].bytes, 288));
	cr_expect(eq(u64, rank->reused_addresses, 0));
	cr_expect(rank->blocks[1].persistent);
	model_free(trace.model);
}

Test(threads, are_independent)
{
	struct trace trace = trace_new(true, false);

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	trace.thread = 2;
	redispatch(&trace, 0, OP_RELU, NO_ARGUMENTS);
	trace.thread = 1;
	redispatch(&trace, 1, OP_EMPTY, NO_ARGUMENTS);
	trace.thread = 2;
	redispatch(&trace, 0, OP_VIEW, NO_ARGUMENTS);
	expect_runs(&trace, "aten.mm.default aten.relu.default aten.view.default");
}

Test(records, of_more_tensors_belong_to_the_threads_last_operator)
{
	struct trace trace = trace_new(true, false);
	struct {
		struct tensors_event event;
		struct tensor_argument tensor;
	} more = {.event.tensor_count = 1, .tensor = {.data = 0x1000, .bytes = 64}};
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	trace.thread = 2;
	redispatch(&trace, 0, OP_RELU, NO_ARGUMENTS);
	trace.thread = 1;
	more.event.event = trace_event(&trace, EVENT_TENSORS, sizeof(more), 0);
	cr_expect(eq(int, model_event(trace.model, &more.event.event), 0));
	rank = trace_finish(&trace);
	cr_expect(eq(u32, rank->blocks[0].user_count, 1));
	cr_expect(eq(str, (char *)rank->operator_names[rank->runs[1].name], (char *)"aten.mm.default"));
	cr_expect(eq(i64, rank->runs[1].task, 1));
	cr_expect(eq(i64, rank->runs[2].task, TASK_NONE));
	model_free(trace.model);
}

Test(records, of_more_tensors_of_a_nested_operator_are_not_uses)
{
	struct trace trace = trace_new(true, false);
	struct {
		struct tensors_event event;
		struct tensor_argument tensor;
	} more = {.event.tensor_count = 1, .tensor = {.data = 0x1000, .bytes = 64}};

	make(&trace, OP_EMPTY, 0x1000, 64);
	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	redispatch(&trace, 1, OP_RELU, NO_ARGUMENTS);
	more.event.event = trace_event(&trace, EVENT_TENSORS, sizeof(more), 1);
	cr_expect(eq(int, model_event(trace.model, &more.event.event), 0));
	cr_expect(eq(u32, trace_finish(&trace)->blocks[0].user_count, 0));
	model_free(trace.model);
}

Test(records, shorter_than_their_lists_are_refused)
{
	struct trace trace = trace_new(true, false);
	struct operator_event event = {.tensor_count = 3};

	event.event = trace_event(&trace, EVENT_OPERATOR, sizeof(event), 0);
	cr_expect(eq(int, model_event(trace.model, &event.event), -22));
	model_free(trace.model);
}

Test(records, of_lost_frames_leave_the_rest_in_place)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	redispatch(&trace, 2, OP_MM, NO_ARGUMENTS);
	allocate(&trace, 3, 0x1000, 64);
	allocate(&trace, 2, 0x2000, 64);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(u64, rank->blocks[0].address, 0x1000));
	cr_expect(eq(u64, rank->untracked_blocks, 1));
	model_free(trace.model);
}

Test(records, after_the_interpreter_began_to_shut_down_do_not_count)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, MIB);
	notice(&trace, EVENT_FINALIZE);
	release(&trace, 0, 0x1000);
	rank = trace_finish(&trace);
	cr_expect(rank->blocks[0].persistent);
	cr_expect(eq(i64, rank->blocks[0].end, TASK_PERSISTENT));
	model_free(trace.model);
}

Test(records, before_an_exec_that_starts_the_job_change_nothing)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank;

	notice(&trace, EVENT_EXEC);
	make(&trace, OP_EMPTY, 0x1000, 64);
	notice(&trace, EVENT_EXEC);
	make(&trace, OP_EMPTY, 0x2000, 64);
	rank = trace_finish(&trace);
	cr_expect(eq(sz, arrlenu(rank->blocks), 1));
	model_free(trace.model);
}

Test(names, that_never_came_say_so)
{
	struct trace trace = trace_new(true, false);

	redispatch(&trace, 0, 4000, NO_ARGUMENTS);
	expect_runs(&trace, "hdtrace.unknown");
}
