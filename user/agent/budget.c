// SPDX-License-Identifier: BSD-2-Clause
/* When the blocks of a process's host are followed; see budget.h. */
#include "agent/budget.h"

#define SECOND_NS 1000000000ull

/* Hits are counted over so much time. */
#define SLICE_NS (SECOND_NS / 4)
/* A window has so much time, and so many steps where there are any: a step that was seen whole among them. */
#define WINDOW_NS SECOND_NS
#define WINDOW_STEPS 2
/* The first one ends once the job trains, and has what it keeps from its first step. */
#define FIRST_NS (SECOND_NS / 2)
#define FIRST_STEPS 3
/* A job without steps, or whose steps are longer than that, is not waited for. */
#define WINDOW_NS_MAX (10 * SECOND_NS)
#define AWAY_NS_MAX (60 * SECOND_NS)
/* To find out what Python holds takes the agent time, which is to be a small part of its own. */
#define RETURN_SHARE 20
#define RETURN_NS_MAX (5 * SECOND_NS)
/* So much more memory than was ever seen is worth a look. */
#define RESIDENT_BYTES (16u << 20)
#define RESIDENT_PART 20

static void window_begin(struct budget *budget, const struct budget_facts *facts)
{
	budget->since_ns = budget->slice_ns = facts->now_ns;
	budget->slice_hits = facts->hits;
	budget->first_step = facts->steps;
}

static void slice_count(struct budget *budget, const struct budget_facts *facts)
{
	uint64_t time_ns = facts->now_ns - budget->slice_ns;

	if (time_ns < SLICE_NS)
		return;
	budget->cost =
		(double)(facts->hits - budget->slice_hits) * BUDGET_HIT_SECONDS * (double)SECOND_NS / (double)time_ns;
	budget->slice_ns = facts->now_ns;
	budget->slice_hits = facts->hits;
}

static bool window_is_enough(const struct budget *budget, const struct budget_facts *facts)
{
	uint64_t time_ns = facts->now_ns - budget->since_ns, steps = facts->steps - budget->first_step;

	if (time_ns >= WINDOW_NS_MAX)
		return true;
	if (!budget->measured)
		return time_ns >= FIRST_NS && steps >= FIRST_STEPS;
	return time_ns >= WINDOW_NS && (steps >= WINDOW_STEPS || !facts->steps);
}

/* So long that window and pause together cost what they may. */
static uint64_t pause_ns(const struct budget *budget, const struct budget_facts *facts, double share)
{
	double window = (double)(facts->now_ns - budget->since_ns + budget->returned_ns);
	double pause = share > 0 ? window * (budget->cost / share - 1) : (double)AWAY_NS_MAX;
	double least = (double)budget->returned_ns * RETURN_SHARE;

	pause = pause > least ? pause : least;
	return pause < (double)AWAY_NS_MAX ? (uint64_t)pause : AWAY_NS_MAX;
}

static bool resident_has_grown(const struct budget *budget, const struct budget_facts *facts)
{
	return facts->resident_bytes > budget->resident_bytes + budget->resident_bytes / RESIDENT_PART + RESIDENT_BYTES;
}

static enum budget_action followed_look(struct budget *budget, const struct budget_facts *facts, double share)
{
	if (facts->resident_bytes > budget->resident_bytes)
		budget->resident_bytes = facts->resident_bytes;
	slice_count(budget, facts);
	if (budget->cost <= share || share >= 1 || !window_is_enough(budget, facts))
		return BUDGET_STAY;
	budget->measured = true;
	budget->away_until_ns = facts->now_ns + pause_ns(budget, facts, share);
	budget->state = BUDGET_AWAY;
	budget->since_ns = facts->now_ns;
	return BUDGET_LEAVE;
}

static enum budget_action away_look(struct budget *budget, const struct budget_facts *facts, double share)
{
	if (facts->now_ns < budget->retry_ns)
		return BUDGET_STAY;
	if (facts->now_ns < budget->away_until_ns && share < 1 && !resident_has_grown(budget, facts))
		return BUDGET_STAY;
	budget->state = BUDGET_RETURNING;
	budget->since_ns = facts->now_ns;
	return BUDGET_RETURN;
}

static enum budget_action returning_look(struct budget *budget, const struct budget_facts *facts)
{
	uint64_t took = facts->now_ns - budget->since_ns;

	if (!facts->settled && took < RETURN_NS_MAX)
		return BUDGET_STAY;
	budget->returned_ns = took;
	budget->state = BUDGET_FOLLOWED;
	window_begin(budget, facts);
	return BUDGET_SETTLE;
}

enum budget_action budget_look(struct budget *budget, const struct budget_facts *facts, double share)
{
	if (!budget->since_ns)
		window_begin(budget, facts);
	switch (budget->state) {
	case BUDGET_AWAY:
		return away_look(budget, facts, share);
	case BUDGET_RETURNING:
		return returning_look(budget, facts);
	default:
		return followed_look(budget, facts, share);
	}
}

void budget_return_failed(struct budget *budget, uint64_t now_ns)
{
	budget->state = BUDGET_AWAY;
	budget->retry_ns = now_ns + SECOND_NS;
}
