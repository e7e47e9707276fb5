/* SPDX-License-Identifier: BSD-2-Clause */
/* A compacted capture is smaller, and its reports say of its window what those of the whole one do. */
#include "window_capture.h"

TestSuite(window, .init = setup, .fini = teardown, .timeout = 60);

/* --- blocks --------------------------------------------------------------------------- */

Test(window, block_that_is_alive_keeps_its_operator_and_line)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "weights.py");
	block_make(0x1000, 11, 0x100);
	noise_make(100);
	start = window_begin();
	operator_make(0, MM, 11, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(arrlenu(rank->blocks), 1);
	cr_expect_str_eq(rank->operator_names[block_at(rank, 0x1000)->name], "aten.empty.memory_format");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "weights.py");
	cr_expect_eq(block_at(rank, 0x1000)->user_count, 1);
	cr_expect_str_eq(rank->end_json, "{\"reason\":\"exit\"}");
}

Test(window, what_died_before_the_window_is_dropped_and_counted)
{
	const struct rank *rank;
	uint64_t start, before;

	capture_begin(true);
	noise_make(100);
	start = window_begin();
	block_make(0x1000, 0, 0);
	capture_end();
	before = file_size();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_lt(file_size(), before);
	cr_expect_eq(records_count(EVENT_ALLOCATE), 1);
	cr_expect_eq(records_count(EVENT_FREE), 0);
	/* The thread's last operator stays, since it may be alive. */
	cr_expect_eq(rank->window.dropped_records, 399);
	cr_expect_gt(rank->window.dropped_bytes, 399 * sizeof(struct event));
	cr_expect_gt(rank->window.since_ns, 1000);
}

Test(window, arguments_that_are_gone_make_no_blocks)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(false);
	block_make(0x2000, 0, 0);
	operator_make(0, MM, 0, 0, DATA(0x2000, 0x3000));
	allocate(1, 0x1000);
	release(0, 0x2000);
	start = window_begin();
	operator_make(0, RELU, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(arrlenu(rank->blocks), 2);
	cr_expect_str_eq(rank->operator_names[block_at(rank, 0x1000)->name], "aten.mm.default");
	cr_expect(block_at(rank, 0x3000)->preexisting);
}

Test(window, block_older_than_the_trace_that_is_used_before_and_freed_in_the_window_is_known)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(false);
	operator_make(0, MM, 0, 0, DATA(0x3000));
	noise_make(10);
	start = window_begin();
	release(0, 0x3000);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(rank->unknown_frees, 0);
	cr_expect_not(block_at(rank, 0x3000)->persistent);
}

Test(window, block_of_an_address_that_is_used_again_is_the_last_one)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "first.py");
	code_make(0x200, "second.py");
	block_make(0x1000, 11, 0x100);
	release(0, 0x1000);
	block_make(0x1000, 12, 0x200);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "second.py");
	cr_expect_eq(rank->reused_addresses, 0);
}

Test(window, operator_that_is_alive_at_the_cut_makes_what_comes_behind_it)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "step.py");
	operator_make(0, MM, 11, 0x100, NO_DATA);
	start = window_begin();
	allocate(1, 0x1000);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_str_eq(rank->operator_names[block_at(rank, 0x1000)->name], "aten.mm.default");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "step.py");
}

Test(window, data_of_a_literal_stays_no_block)
{
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	operator_make(0, LIFT, 0, 0, DATA(0x1000));
	noise_make(10);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_expect_eq(arrlenu(rank_read()->blocks), 10, "of the whole capture");
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(arrlenu(rank_read()->blocks), 0);
}

Test(window, gradients_and_their_parameters_stay_what_they_are)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	block_make(0x2000, 0, 0);
	gradient_make(0x1000, 0x2000);
	block_make(0x3000, 0, 0);
	noise_make(10);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000, 0x3000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(block_at(rank, 0x1000)->category, CATEGORY_PARAMETER);
	cr_expect_eq(block_at(rank, 0x2000)->category, CATEGORY_GRADIENT);
	cr_expect_eq(block_at(rank, 0x3000)->category, CATEGORY_ACTIVATION);
}

/* The first operator after a gradient may be its copy; another one that is kept must not be taken for it. */
Test(window, gradient_is_not_seen_in_a_later_operator)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	block_make(0x2000, 0, 0);
	gradient_make(0x1000, 0x2000);
	operator_make(0, RELU, 0, 0, NO_DATA);
	operator_make(0, MM, 0, 0, DATA(0x2000));
	allocate(1, 0x3000);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x3000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(block_at(rank, 0x3000)->category, CATEGORY_ACTIVATION);
}

Test(window, owners_and_modules_are_kept_while_what_they_name_is_there)
{
	const struct tensor_argument none = {0}, weight = {.data = 0x1000, .bytes = 64},
				     gone = {.data = 0x900000, .bytes = 64};
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "/usr/lib/torch/nn/modules/module.py");
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_NONE, &none, 0, ""), 0);
	cr_assert_eq(capture_writer_module(writer, 0, now, 0x5000, "Model.layer"), 0);
	block_make(0x1000, 11, 0x100);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_VARIABLE, &weight, 0, "x"), 0);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_PARAMETER, &weight, 0, "Model.layer.weight"), 0);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_VARIABLE, &weight, 0, "y"), 0);
	noise_make(5);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_PARAMETER, &gone, 0, "nothing"), 0);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(arrlenu(rank->blocks), 1);
	cr_expect_eq(block_at(rank, 0x1000)->category, CATEGORY_PARAMETER);
	cr_expect_str_eq(block_at(rank, 0x1000)->owner, "Model.layer.weight");
	cr_expect_eq(records_count(CAPTURE_OWNER), 2, "that owners are told, and the closest one");
	cr_expect_eq(records_count(CAPTURE_MODULE), 1);
}

/* Later versions may append to a record. */
Test(window, records_longer_than_their_kind_lose_what_is_not_known)
{
	struct {
		struct gradient_event event;
		uint64_t more[64];
	} longer = {.event = {.variable = {.data = 0x1000, .bytes = 64}}};
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	longer.event.event = event_make(EVENT_GRADIENT, sizeof(longer), 0);
	memset(longer.more, 0xff, sizeof(longer.more));
	cr_assert_eq(capture_writer_append(writer, &longer.event.event), 0);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(block_at(rank_read(), 0x1000)->category, CATEGORY_PARAMETER);
}

Test(window, gradient_for_a_leaf_that_is_gone_counts_only_where_owners_are_not_told)
{
	const struct tensor_argument none = {0};
	uint64_t start;

	for (int told = 0; told < 2; told++) {
		capture_begin(true);
		if (told)
			cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_NONE, &none, 0, ""), 0);
		block_make(0x1000, 0, 0);
		block_make(0x2000, 0, 0);
		gradient_make(0x1000, 0x2000);
		operator_make(0, RELU, 0, 0, NO_DATA);
		release(0, 0x1000);
		start = window_begin();
		operator_make(0, MM, 0, 0, DATA(0x2000));
		capture_end();
		cr_assert_eq(compact_from(start), 0);
		cr_expect_eq(block_at(rank_read(), 0x2000)->category, told ? CATEGORY_ACTIVATION : CATEGORY_GRADIENT);
	}
}

/* --- stacks ------------------------------------------------------------------------------- */

Test(window, stack_that_is_only_referred_to_in_the_window_keeps_its_frames)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "loop.py");
	operator_make(0, MM, 11, 0x100, NO_DATA);
	noise_make(10);
	start = window_begin();
	block_make(0x1000, 11, 0);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(records_count(CAPTURE_STACK), 1);
	cr_expect_eq(records_count(CAPTURE_CODE), 1);
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "loop.py");
}

Test(window, stacks_that_a_thread_would_send_again_are_dropped)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "loop.py");
	for (uint64_t i = 0; i < 20; i++)
		operator_make(0, MM, i + 1, 0x100, NO_DATA); /* all of one place in the cache of the thread */
	operator_make(0, MM, 0, 0, NO_DATA);
	start = window_begin();
	block_make(0x1000, 20, 0);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(records_count(CAPTURE_STACK), 1);
	rank = rank_read();
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "loop.py");
}

Test(window, stack_keeps_the_code_object_that_was_at_the_address_then)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "old.py");
	block_make(0x1000, 11, 0x100);
	code_make(0x100, "new.py");
	block_make(0x2000, 1ull << 32 | 12, 0x100);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000, 0x2000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "old.py");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x2000)), "new.py");
}

/* --- devices ---------------------------------------------------------------------------------- */

static const struct device *device_of(const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (!strcmp(rank->devices[i].name, "cuda:0"))
			return &rank->devices[i];
	cr_assert_fail("no device");
	return NULL;
}

Test(window, totals_of_a_device_follow_from_the_blocks_that_are_kept)
{
	const struct device *device;
	uint64_t start;

	capture_begin(false);
	allocated = CUDA_BYTES(100); /* older than the trace */
	for (uint64_t i = 0; i < 10; i++) {
		operator_on(DEVICE_CUDA, 0, EMPTY, 0, 0, NO_DATA);
		device_allocate(0x10000 + i * 0x1000, CUDA_BYTES(i + 1), 1 << 20);
	}
	for (uint64_t i = 0; i < 10; i += 2)
		device_release(0x10000 + i * 0x1000, CUDA_BYTES(i + 1), 1 << 20);
	start = window_begin();
	operator_on(DEVICE_CUDA, 0, EMPTY, 0, 0, NO_DATA);
	device_allocate(0x50000, CUDA_BYTES(7), 1 << 20);
	device_release(0x11000, CUDA_BYTES(2), 1 << 20);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	device = device_of(rank_read());
	cr_expect_eq(device->unexplained_totals, 0);
	cr_expect_eq(device->current.total, allocated);
	cr_expect_eq(device->peak_bytes, allocated + CUDA_BYTES(2));
	cr_expect_eq(device->reserved_bytes, 1 << 20);
}

Test(window, segments_that_are_held_stay_where_the_allocator_found_them)
{
	const struct rank *rank;
	uint64_t start, bytes = 2 << 20;

	capture_begin(true);
	operator_on(DEVICE_CUDA, 0, EMPTY, 0, 0, NO_DATA);
	segment_call(SEGMENT_ALLOCATE, SEGMENT_RETURNED, 0x100000, bytes);
	segment_call(SEGMENT_FREE, SEGMENT_TAKEN, 0x100000, 0);
	segment_call(SEGMENT_ALLOCATE, SEGMENT_FOUND, 0x900100, bytes);
	device_allocate(0x400000, CUDA_BYTES(1), bytes);
	noise_make(10);
	start = window_begin();
	segment_call(SEGMENT_ALLOCATE, SEGMENT_RETURNED, 0x800000, bytes);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_assert_eq(arrlenu(rank->segments), 2);
	cr_expect_eq(rank->segments[0].address, 0x400000);
	cr_expect(rank->segments[0].certain && rank->segments[0].has_blocks);
	cr_expect_eq(rank->segments[1].address, 0x800000);
	cr_expect_eq(device_of(rank)->segment_bytes, 2 * bytes);
}

Test(window, unmapped_segments_are_gone)
{
	uint64_t start;

	capture_begin(true);
	for (uint64_t i = 0; i < 4; i++)
		segment_call(SEGMENT_MAP, SEGMENT_RETURNED, 0x1000000 + i * 0x200000, 0x200000);
	segment_call(SEGMENT_UNMAP, SEGMENT_TAKEN, 0x1200000, 0x400000);
	start = window_begin();
	noise_make(1);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(records_count(EVENT_SEGMENT), 2);
	cr_expect_eq(arrlenu(rank_read()->segments), 2);
}
