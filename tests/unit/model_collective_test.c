/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives: what each was, which of several ranks' are the same one, who came last. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "model/model.h"

#define GROUP 0x1000
#define MILLISECOND 1000000ull

static struct model *model;

static void begin(void)
{
	model = model_new(NULL);
	cr_assert_not_null(model);
}

static void end(void)
{
	model_free(model);
}

TestSuite(collective, .init = begin, .fini = end);

struct record {
	struct collective_event head;
	struct tensor_argument tensors[2];
};

static struct record record_of(uint16_t target, int32_t rank, int32_t size, uint64_t milliseconds)
{
	struct record record = {
		.head = {.event = {.kind = EVENT_COLLECTIVE,
				 .size = sizeof(record),
				 .target = target,
				 .time_ns = milliseconds * MILLISECOND},
			.group = GROUP,
			.input_elements = 10,
			.output_elements = 10,
			.rank = rank,
			.size = size,
			.peer = -1,
			.input_count = 1,
			.output_count = 1,
			.tensor_count = 2,
			.input_shown = 1,
			.kind = COLLECTIVE_ALL_REDUCE,
			.element_type = 6},
		.tensors = {{.data = 0x7000, .bytes = 64}, {.data = 0x7000, .bytes = 64}},
	};

	return record;
}

static void take(const struct record *record)
{
	cr_assert_eq(model_event(model, &record->head.event), 0);
}

static void reduce(uint16_t target, int32_t rank, int32_t size, uint64_t milliseconds)
{
	struct record record = record_of(target, rank, size, milliseconds);

	take(&record);
}

static void targets(uint16_t count, bool from_start)
{
	for (uint16_t i = 0; i < count; i++)
		cr_assert_eq(model_target(model, i, RANK_UNKNOWN, from_start, NULL), 0);
}

static const struct collective *collective_of(size_t rank, size_t index)
{
	const struct rank *of = model_rank(model, rank);

	cr_assert_lt(index, arrlenu(of->collectives));
	return &of->collectives[index];
}

Test(collective, has_words_and_bytes)
{
	struct record record = record_of(0, 0, 1, 1);
	const struct collective *found;

	targets(1, true);
	record.head.operation = 4;
	record.head.kind = COLLECTIVE_REDUCE;
	record.head.element_type = 15;
	record.head.peer = 3;
	record.head.flags = COLLECTIVE_BUCKET;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	found = collective_of(0, 0);
	cr_assert_str_eq(collective_kind_name(found), "reduce");
	cr_assert_str_eq(collective_operation_name(found), "max");
	cr_assert_str_eq(collective_type_name(found), "bfloat16");
	cr_assert_str_eq(collective_mode_name(found), "eager");
	cr_assert_eq(found->input_bytes, 20);
	cr_assert_eq(found->peer, 3);
	cr_assert(found->in_bucket);
	cr_assert_eq(found->matched_ranks, 0);
}

Test(collective, of_an_unknown_type_has_the_bytes_of_its_storages)
{
	struct record record = record_of(0, 0, 1, 1);

	targets(1, true);
	record.head.element_type = 255;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_str_eq(collective_type_name(collective_of(0, 0)), "");
	cr_assert_eq(collective_of(0, 0)->input_bytes, 64);
}

Test(collective, that_is_shorter_than_its_lists_is_refused)
{
	struct record record = record_of(0, 0, 1, 1);

	targets(1, true);
	record.head.frame_count = 1;
	cr_assert_eq(model_event(model, &record.head.event), -EINVAL);
}

Test(collective, with_more_inputs_than_tensors_is_refused)
{
	struct record record = record_of(0, 0, 1, 1);

	targets(1, true);
	record.head.input_shown = 3;
	cr_assert_eq(model_event(model, &record.head.event), -EINVAL);
}

Test(collective, ranks_without_a_launcher_have_the_numbers_of_their_communicator)
{
	targets(2, true);
	reduce(0, 1, 2, 1);
	reduce(1, 0, 2, 1);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(model_rank(model, 0)->target, 1);
	cr_assert_eq(model_rank(model, 0)->rank_source, RANK_OF_COMMUNICATOR);
}

Test(collective, knows_who_came_last_and_how_long_each_waited)
{
	targets(3, true);
	for (int32_t rank = 0; rank < 3; rank++) {
		reduce((uint16_t)rank, rank, 3, 10);
		reduce((uint16_t)rank, rank, 3, rank == 1 ? 70 : 20 + (uint64_t)rank);
	}
	cr_assert_eq(model_finish(model), 0);
	for (size_t rank = 0; rank < 3; rank++) {
		cr_assert_eq(collective_of(rank, 1)->matched_ranks, 3);
		cr_assert_eq(collective_of(rank, 1)->last_rank, 1);
		cr_assert_eq(collective_of(rank, 1)->skew_ns, 50 * MILLISECOND);
		cr_assert_eq(collective_of(rank, 1)->absent_rank, RANK_UNKNOWN);
		cr_assert_not(collective_of(rank, 1)->differs);
	}
	cr_assert_eq(collective_of(0, 1)->wait_ns, 50 * MILLISECOND);
	cr_assert_eq(collective_of(1, 1)->wait_ns, 0);
	cr_assert_eq(collective_of(2, 1)->wait_ns, 48 * MILLISECOND);
}

Test(collective, names_a_rank_that_did_not_come)
{
	targets(2, true);
	reduce(0, 0, 2, 1);
	reduce(1, 1, 2, 1);
	reduce(0, 0, 2, 5);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(collective_of(0, 1)->absent_rank, 1);
	cr_assert_eq(collective_of(0, 1)->matched_ranks, 1);
	cr_assert_eq(collective_of(0, 0)->absent_rank, RANK_UNKNOWN);
}

Test(collective, tells_ranks_that_disagree)
{
	struct record other = record_of(1, 1, 2, 1);

	targets(2, true);
	other.head.input_elements = 11;
	reduce(0, 0, 2, 1);
	take(&other);
	cr_assert_eq(model_finish(model), 0);
	cr_assert(collective_of(0, 0)->differs);
	cr_assert(collective_of(1, 0)->differs);
}

/* Rows of five elements for each rank; parts that do not add up to the tensor are left out. */
Test(collective, has_the_elements_for_each_rank)
{
	struct {
		struct record lists;
		uint64_t splits[4];
	} record = {.lists = record_of(0, 0, 2, 1), .splits = {1, 2, 3, 4}};
	const struct rank *rank;

	targets(1, true);
	record.lists.head.event.size = sizeof(record);
	record.lists.head.kind = COLLECTIVE_ALL_TO_ALL;
	record.lists.head.input_elements = 15;
	record.lists.head.output_elements = 36;
	record.lists.head.input_splits = record.lists.head.output_splits = 2;
	take(&record.lists);
	record.lists.head.event.size = sizeof(record) - sizeof(uint64_t);
	cr_assert_eq(model_event(model, &record.lists.head.event), -EINVAL);
	cr_assert_eq(model_finish(model), 0);
	rank = model_rank(model, 0);
	cr_assert_eq(collective_of(0, 0)->input_splits, 2);
	cr_expect_eq(collective_of(0, 0)->output_splits, 0, "36 elements are no rows of 7");
	cr_expect_eq(rank->splits[collective_of(0, 0)->splits], 5);
	cr_expect_eq(rank->splits[collective_of(0, 0)->splits + 1], 10);
}

Test(collective, sends_have_no_number_and_are_not_matched)
{
	struct record send = record_of(0, 0, 2, 1);

	targets(2, true);
	send.head.kind = COLLECTIVE_SEND;
	take(&send);
	reduce(0, 0, 2, 2);
	reduce(1, 1, 2, 2);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(collective_of(0, 0)->sequence, SEQUENCE_NONE);
	cr_assert_eq(collective_of(0, 0)->matched_ranks, 0);
	cr_assert_eq(collective_of(0, 1)->sequence, 0);
	cr_assert_eq(collective_of(0, 1)->matched_ranks, 2);
}

Test(collective, of_ranks_attached_one_after_the_other_is_matched_by_time)
{
	targets(2, false);
	for (uint64_t step = 0; step < 20; step++)
		reduce(0, 0, 2, 100 * step);
	for (uint64_t step = 3; step < 20; step++)
		reduce(1, 1, 2, 100 * step + 7);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(collective_of(1, 0)->skew_ns, 7 * MILLISECOND);
	cr_assert_eq(collective_of(1, 0)->last_rank, 1);
	cr_assert_eq(collective_of(0, 3)->matched_ranks, 2);
	cr_assert_eq(collective_of(0, 19)->matched_ranks, 2);
	cr_assert_eq(collective_of(0, 2)->matched_ranks, 1);
	cr_assert_eq(collective_of(0, 2)->absent_rank, RANK_UNKNOWN, "it was not traced yet");
}

/* Eight ranks as a mesh of 2 by 2 by 2: neighbours have one group, those two and those four apart others. */
Test(collective, on_the_dimensions_of_a_mesh_is_matched_in_each_group)
{
	static const int32_t distances[] = {1, 2, 4};

	for (uint16_t i = 0; i < 8; i++)
		cr_assert_eq(model_target(model, i, i, true, NULL), 0);
	for (uint16_t target = 0; target < 8; target++)
		for (uint16_t dimension = 0; dimension < 3; dimension++) {
			struct record record =
				record_of(target, target / distances[dimension] % 2, 2, 10u * dimension + target);

			record.head.group = GROUP + 64 * dimension;
			take(&record);
		}
	cr_assert_eq(model_finish(model), 0);
	for (int32_t rank = 0; rank < 8; rank++)
		for (size_t dimension = 0; dimension < 3; dimension++) {
			const struct collective *found = collective_of((size_t)rank, dimension);

			cr_expect_eq(found->matched_ranks, 2);
			cr_expect_eq(found->last_rank, rank | distances[dimension]);
			cr_expect_eq(found->skew_ns, (uint64_t)distances[dimension] * MILLISECOND);
		}
}

/* Of three that claim a rank and one that claims the other, nobody knows who belongs together. */
Test(collective, of_different_groups_of_one_size_is_not_matched)
{
	for (uint16_t i = 0; i < 4; i++)
		cr_assert_eq(model_target(model, i, i, true, NULL), 0);
	for (uint16_t target = 0; target < 4; target++)
		reduce(target, target > 0, 2, 1);
	cr_assert_eq(model_finish(model), 0);
	for (size_t rank = 0; rank < 4; rank++)
		cr_assert_eq(collective_of(rank, 0)->matched_ranks, 0);
}

/* Ranks that are not in the order of the job's, or that do other things, are of no mesh. */
Test(collective, of_groups_that_do_not_fit_is_not_matched)
{
	for (uint16_t i = 0; i < 4; i++)
		cr_assert_eq(model_target(model, i, i, true, NULL), 0);
	for (uint16_t target = 0; target < 4; target++) {
		struct record record = record_of(target, target % 2 == 0, 2, 1);

		record.head.group += 64;
		take(&record);
		record = record_of(target, target % 2, 4, 2);
		record.head.kind = target % 2 ? COLLECTIVE_BARRIER : COLLECTIVE_ALL_GATHER;
		take(&record);
	}
	cr_assert_eq(model_finish(model), 0);
	for (size_t rank = 0; rank < 4; rank++) {
		cr_expect_eq(collective_of(rank, 0)->matched_ranks, 0);
		cr_expect_eq(collective_of(rank, 1)->matched_ranks, 0);
	}
}

static void reduce_elements(uint16_t target, uint64_t group, uint64_t elements, uint64_t milliseconds)
{
	struct record record = record_of(target, target, 3, milliseconds);

	record.head.group = group;
	record.head.input_elements = elements;
	take(&record);
}

/* Twice the same groups of all ranks: the first rank uses them in another order than the others, but does the same. */
Test(collective, of_groups_used_in_another_order_is_matched_by_what_was_done)
{
	for (uint16_t i = 0; i < 3; i++)
		cr_assert_eq(model_target(model, i, i, true, NULL), 0);
	for (uint16_t target = 0; target < 3; target++) {
		bool is_first = target == 0;

		reduce_elements(target, is_first ? GROUP : 2 * GROUP, is_first ? 11 : 13, 10 * target + 1);
		reduce_elements(target, is_first ? 2 * GROUP : GROUP, is_first ? 13 : 11, 10 * target + 2);
	}
	cr_assert_eq(model_finish(model), 0);
	for (size_t rank = 0; rank < 3; rank++)
		for (size_t index = 0; index < 2; index++) {
			const struct collective *one = collective_of(rank, index);

			cr_expect_eq(one->matched_ranks, 3);
			cr_expect_eq(one->last_rank, 2);
			cr_expect_not(one->differs);
			cr_expect_eq(one->skew_ns, (one->input_bytes == 44 ? 21 : 19) * MILLISECOND);
		}
}

/* What differs in both orders is told as it is. */
Test(collective, of_groups_that_fit_in_no_order_keeps_the_order_of_use)
{
	for (uint16_t i = 0; i < 2; i++)
		cr_assert_eq(model_target(model, i, i, true, NULL), 0);
	for (uint16_t target = 0; target < 2; target++) {
		reduce_elements(target, GROUP, target ? 17 : 11, 1);
		reduce_elements(target, 2 * GROUP, target ? 19 : 13, 2);
	}
	cr_assert_eq(model_finish(model), 0);
	for (size_t index = 0; index < 2; index++) {
		cr_expect_eq(collective_of(0, index)->matched_ranks, 2);
		cr_expect_eq(collective_of(0, index)->skew_ns, 0);
		cr_expect(collective_of(0, index)->differs);
	}
}

/* A launcher that begins anew after one of its ranks was killed. */
Test(collective, of_ranks_that_were_started_anew_is_of_another_job)
{
	for (uint16_t target = 0; target < 4; target++) {
		struct record record = record_of(target, target % 2, 2, target < 2 ? 1 : 20);

		cr_assert_eq(model_target(model, target, target % 2, true, NULL), 0);
		cr_assert_eq(model_family(model, target, -1, false, "job_a"), 0);
		take(&record);
		record.head.event.kind = EVENT_EXIT;
		record.head.event.size = sizeof(record.head.event);
		record.head.event.time_ns += 5 * MILLISECOND;
		take(&record);
	}
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(model_rank_count(model), 4);
	for (size_t index = 0; index < 4; index++) {
		cr_expect_str_eq(model_rank(model, index)->job, index < 2 ? "job_a" : "job_a.restart-1");
		cr_expect_eq(model_rank(model, index)->rank, (int32_t)index % 2);
		cr_expect_eq(collective_of(index, 0)->matched_ranks, 2);
	}
}

/* Two that run at once and say that they are the same rank are no restart. */
Test(collective, of_ranks_at_the_same_time_is_of_one_job)
{
	for (uint16_t target = 0; target < 2; target++) {
		cr_assert_eq(model_target(model, target, 0, true, NULL), 0);
		cr_assert_eq(model_family(model, target, -1, false, "job_a"), 0);
	}
	for (uint16_t target = 0; target < 2; target++)
		reduce(target, target, 2, target + 1);
	cr_assert_eq(model_finish(model), 0);
	cr_expect_str_eq(model_rank(model, 1)->job, "");
	cr_expect_eq(model_rank(model, 1)->rank, 1);
}

Test(collective, of_different_jobs_is_not_matched)
{
	targets(2, true);
	cr_assert_eq(model_family(model, 0, -1, false, "job_a"), 0);
	cr_assert_eq(model_family(model, 1, -1, false, "job_b"), 0);
	reduce(0, 0, 2, 1);
	reduce(1, 1, 2, 1);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(collective_of(0, 0)->matched_ranks, 0);
}

Test(collective, on_a_communicator_of_a_reused_address_counts_anew)
{
	targets(1, true);
	reduce(0, 0, 2, 1);
	reduce(0, 0, 4, 2);
	reduce(0, 0, 4, 3);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(collective_of(0, 1)->group, 1);
	cr_assert_eq(collective_of(0, 2)->sequence, 1);
}

/*
 * Two ranks, each in a capture of its own machine. The second's clock stands at `behind` when the first's stands at 0,
 * and the real time of its machine, which should tell that, is wrong by 3 ms. Ranks come 1 ms after each other, in
 * turns.
 */
static void two_machines(uint64_t behind, unsigned int count)
{
	int64_t real_time = (int64_t)(behind * MILLISECOND), wrong = 3 * (int64_t)MILLISECOND;
	int first;

	cr_assert_eq(model_capture(model, real_time), 0);
	targets(1, true);
	for (unsigned int i = 0; i < count; i++)
		reduce(0, 0, 2, 1000 + 100 * i + i % 2);
	first = model_capture(model, wrong);
	cr_assert_eq(first, 1);
	cr_assert_eq(model_target(model, (uint16_t)first, RANK_UNKNOWN, true, NULL), 0);
	for (unsigned int i = 0; i < count; i++)
		reduce((uint16_t)first, 1, 2, 1000 + behind + 100 * i + !(i % 2));
	cr_assert_eq(model_finish(model), 0);
}

Test(collective, of_several_captures_tell_the_distance_of_their_clocks)
{
	const struct rank *other;

	two_machines(50000, 20);
	other = model_rank(model, 1);
	cr_expect_eq(other->capture, 1);
	/* Right but for the millisecond by which one rank or the other was late. */
	cr_expect_leq(llabs(other->clock_offset_ns + 50000 * (int64_t)MILLISECOND), (int64_t)MILLISECOND);
	for (size_t i = 0; i < 20; i++) {
		cr_expect_eq(collective_of(0, i)->matched_ranks, 2);
		cr_expect_leq(collective_of(0, i)->skew_ns, 2 * MILLISECOND);
	}
}

Test(collective, of_captures_that_have_few_in_common_are_compared_by_the_real_time)
{
	two_machines(50000, 3);
	cr_expect_eq(model_rank(model, 1)->clock_offset_ns, (3 - 50000) * (int64_t)MILLISECOND);
}
