/* SPDX-License-Identifier: BSD-2-Clause */
/* When the agent follows the blocks of a host: a process is played, 20 ms at a time. */
#include <criterion/criterion.h>

#include "agent/budget.h"

#define MILLISECOND 1000000ull
#define SECOND (1000 * MILLISECOND)
#define MEBIBYTE (1ull << 20)

struct play {
	struct budget budget;
	struct budget_facts facts;
	double hits_a_second, steps_a_second; /* of the process; hits are seen only while it is followed */
	double hits, steps;
	uint64_t followed_ns, time_ns, settle_ns; /* settle: so long after a return */
	unsigned int left, returned, settled;
};

static void play_until(struct play *play, uint64_t end_ns, double share)
{
	while (play->time_ns < end_ns) {
		bool followed = play->budget.state != BUDGET_AWAY;

		play->time_ns += 20 * MILLISECOND;
		play->steps += play->steps_a_second / 50;
		play->hits += followed ? play->hits_a_second / 50 : 0;
		play->followed_ns += followed ? 20 * MILLISECOND : 0;
		play->facts.now_ns = SECOND + play->time_ns;
		play->facts.hits = (uint64_t)play->hits;
		play->facts.steps = (uint64_t)play->steps;
		play->facts.settled = play->facts.now_ns - play->budget.since_ns >= play->settle_ns;
		switch (budget_look(&play->budget, &play->facts, share)) {
		case BUDGET_LEAVE:
			play->left++;
			break;
		case BUDGET_RETURN:
			play->returned++;
			break;
		case BUDGET_SETTLE:
			play->settled++;
			break;
		case BUDGET_STAY:
			break;
		}
	}
}

static double share_followed(const struct play *play)
{
	return (double)play->followed_ns / (double)play->time_ns;
}

Test(budget, a_process_within_its_budget_is_always_followed)
{
	struct play play = {.hits_a_second = 0.04 / BUDGET_HIT_SECONDS, .steps_a_second = 10};

	play_until(&play, 100 * SECOND, 0.05);
	cr_expect_eq(play.left, 0);
	cr_expect_eq(share_followed(&play), 1);
}

Test(budget, a_process_over_its_budget_costs_no_more_than_that_on_average)
{
	struct play play = {
		.hits_a_second = 0.25 / BUDGET_HIT_SECONDS, .steps_a_second = 1000, .settle_ns = 100 * MILLISECOND};

	play_until(&play, 300 * SECOND, 0.05);
	cr_expect_gt(play.left, 30, "%u windows", play.left);
	cr_expect_leq(play.left - play.returned, 1);
	cr_expect_lt(share_followed(&play) * 0.25, 0.052, "followed %f", share_followed(&play));
	cr_expect_gt(share_followed(&play) * 0.25, 0.04, "followed %f", share_followed(&play));
}

Test(budget, without_a_limit_every_block_is_seen)
{
	struct play play = {.hits_a_second = 0.9 / BUDGET_HIT_SECONDS, .steps_a_second = 1000};

	play_until(&play, 20 * SECOND, 1);
	cr_expect_eq(play.left, 0);
	/* And at once again where one is lifted. */
	play_until(&play, 30 * SECOND, 0.01);
	cr_assert_eq(play.budget.state, BUDGET_AWAY);
	play_until(&play, 31 * SECOND, 1);
	cr_expect_eq(play.budget.state, BUDGET_FOLLOWED);
}

Test(budget, a_window_has_whole_steps_unless_they_take_too_long)
{
	struct play play = {.hits_a_second = 0.2 / BUDGET_HIT_SECONDS, .steps_a_second = 0.5};

	play_until(&play, 5 * SECOND, 0.05);
	cr_expect_eq(play.left, 0, "left after two steps");
	play_until(&play, 7 * SECOND, 0.05);
	cr_expect_eq(play.left, 1, "not left after three");
	play = (struct play){.hits_a_second = 0.2 / BUDGET_HIT_SECONDS};
	play_until(&play, 9 * SECOND, 0.05);
	cr_expect_eq(play.left, 0, "it may be about to train");
	play_until(&play, 11 * SECOND, 0.05);
	cr_expect_eq(play.left, 1, "a job that makes no steps");
}

Test(budget, growth_of_the_process_opens_a_window_early)
{
	struct play play = {.hits_a_second = 0.5 / BUDGET_HIT_SECONDS,
		.steps_a_second = 1000,
		.facts.resident_bytes = 300 * MEBIBYTE};
	uint64_t left;

	play_until(&play, 2 * SECOND, 0.01);
	cr_assert_eq(play.budget.state, BUDGET_AWAY);
	left = play.time_ns;
	play.facts.resident_bytes = 310 * MEBIBYTE;
	play_until(&play, left + SECOND, 0.01);
	cr_expect_eq(play.budget.state, BUDGET_AWAY);
	play.facts.resident_bytes = 400 * MEBIBYTE;
	play_until(&play, left + SECOND + 100 * MILLISECOND, 0.01);
	cr_expect_neq(play.budget.state, BUDGET_AWAY);
	/* That is what it has now: no reason for another one. */
	play_until(&play, left + 4 * SECOND, 0.01);
	cr_expect_eq(play.budget.state, BUDGET_AWAY);
	play_until(&play, left + 8 * SECOND, 0.01);
	cr_expect_eq(play.budget.state, BUDGET_AWAY);
}

Test(budget, a_return_that_takes_long_makes_long_pauses_and_ends)
{
	struct play slow = {.hits_a_second = 0.1 / BUDGET_HIT_SECONDS, .steps_a_second = 1000, .settle_ns = 2 * SECOND};
	struct play never = {
		.hits_a_second = 0.1 / BUDGET_HIT_SECONDS, .steps_a_second = 1000, .settle_ns = 1000 * SECOND};

	play_until(&slow, 300 * SECOND, 0.05);
	cr_expect_lt(slow.returned, 10, "%u returns of 2 s", slow.returned);
	play_until(&never, 20 * SECOND, 0.05);
	cr_expect_geq(never.settled, 1);
}

Test(budget, a_return_that_fails_is_tried_again_in_a_second)
{
	struct play play = {.hits_a_second = 0.2 / BUDGET_HIT_SECONDS, .steps_a_second = 1000};
	unsigned int returned;

	while (play.returned == 0)
		play_until(&play, play.time_ns + 20 * MILLISECOND, 0.05);
	budget_return_failed(&play.budget, play.facts.now_ns);
	returned = play.returned;
	play_until(&play, play.time_ns + SECOND - 20 * MILLISECOND, 0.05);
	cr_expect_eq(play.returned, returned);
	play_until(&play, play.time_ns + 40 * MILLISECOND, 0.05);
	cr_expect_eq(play.returned, returned + 1);
}
