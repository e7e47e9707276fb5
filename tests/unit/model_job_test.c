/* SPDX-License-Identifier: BSD-2-Clause */
/* Which targets are ranks, of which job, with which number. */
#include <criterion/criterion.h>

#include <stdio.h>

#include "model/model.h"

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

TestSuite(job, .init = begin, .fini = end);

static void target(uint16_t index, int32_t rank, int32_t parent, bool forked, const char *job)
{
	cr_assert_eq(model_target(model, index, rank, true, NULL), 0);
	cr_assert_eq(model_family(model, index, parent, forked, job), 0);
}

static void train(uint16_t index)
{
	struct gradient_event gradient = {
		.event = {.kind = EVENT_GRADIENT, .size = sizeof(gradient), .target = index, .time_ns = 1}};

	cr_assert_eq(model_event(model, &gradient.event), 0);
}

/* "target:rank" of each, with its job before it where there is one. */
static const char *ranks(void)
{
	static char text[512];
	size_t length = 0;

	cr_assert_eq(model_finish(model), 0);
	text[0] = '\0';
	for (size_t i = 0; i < model_rank_count(model); i++) {
		const struct rank *rank = model_rank(model, i);

		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s%s%u:%d", i ? " " : "", rank->job,
			*rank->job ? "/" : "", rank->target, rank->rank);
	}
	return text;
}

static void allocate(uint16_t index)
{
	struct segment_event given = {
		.event = {.kind = EVENT_SEGMENT, .size = sizeof(given), .target = index, .time_ns = 1},
		.action = SEGMENT_ALLOCATE,
		.result = SEGMENT_RETURNED,
		.address = 1 << 20,
		.bytes = 1 << 20,
	};

	cr_assert_eq(model_event(model, &given.event), 0);
}

Test(job, a_shell_that_did_nothing_is_no_rank_when_what_it_started_did_something)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, RANK_UNKNOWN, 0, false, "");
	allocate(1);
	cr_expect_str_eq(ranks(), "1:0");
}

Test(job, a_program_that_did_something_and_what_it_started_are_both_ranks)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, RANK_UNKNOWN, 0, false, "");
	allocate(0);
	allocate(1);
	cr_expect_str_eq(ranks(), "0:0 1:1");
}

Test(job, a_launcher_is_no_rank_when_what_it_started_trains)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, RANK_UNKNOWN, 0, false, "");
	target(2, RANK_UNKNOWN, 0, false, "");
	train(1);
	train(2);
	cr_assert_str_eq(ranks(), "1:0 2:1");
}

Test(job, a_launcher_is_no_rank_when_it_gave_out_numbers)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, 1, 0, false, "");
	target(2, 0, 0, false, "");
	cr_assert_str_eq(ranks(), "2:0 1:1");
}

Test(job, what_a_rank_started_for_other_work_is_no_rank)
{
	target(0, 0, -1, false, "");
	target(1, 0, 0, false, "");
	train(0);
	cr_assert_str_eq(ranks(), "0:0");
}

Test(job, a_forked_child_is_a_rank_when_it_trains)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, RANK_UNKNOWN, 0, true, "");
	target(2, RANK_UNKNOWN, 0, true, "");
	train(2);
	cr_assert_str_eq(ranks(), "2:0");
}

Test(job, processes_of_one_family_that_do_not_train_are_all_ranks_but_forked_ones)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, RANK_UNKNOWN, 0, false, "");
	target(2, RANK_UNKNOWN, 0, true, "");
	cr_assert_str_eq(ranks(), "0:0 1:1");
}

Test(job, a_number_that_is_taken_or_unknown_becomes_the_lowest_that_is_free)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, 0, -1, false, "");
	target(2, 3, -1, false, "");
	target(3, 3, -1, false, "");
	cr_assert_str_eq(ranks(), "1:0 0:1 3:2 2:3");
}

Test(job, several_jobs_have_ranks_of_their_own)
{
	target(0, 0, -1, false, "job_b");
	target(1, 0, -1, false, "job_a");
	target(2, 1, -1, false, "job_b");
	cr_assert_str_eq(ranks(), "job_a/1:0 job_b/0:0 job_b/2:1");
}

Test(job, one_job_needs_no_name)
{
	target(0, 0, -1, false, "job_a");
	target(1, 1, -1, false, "job_a");
	cr_assert_str_eq(ranks(), "0:0 1:1");
}

Test(job, steps_are_those_of_ranks_only)
{
	target(0, RANK_UNKNOWN, -1, false, "");
	target(1, 0, 0, false, "");
	train(1);
	cr_assert_eq(model_steps(model), 0);
	cr_assert_str_eq(ranks(), "1:0");
}

Test(job, a_parent_that_comes_later_or_is_itself_is_none)
{
	target(0, RANK_UNKNOWN, 1, false, "");
	target(1, RANK_UNKNOWN, 1, false, "");
	train(1);
	cr_assert_str_eq(ranks(), "0:0 1:1");
}
