// SPDX-License-Identifier: BSD-2-Clause
/* One budget for each process; what it decides is done to the probes and to the accounting at once. */
#include "agent/follower.h"

#include <stdlib.h>

#include "agent/budget.h"
#include "base/clock.h"
#include "containers/containers.h"
#include "target/process.h"

/* Resident sizes are looked at so often. */
#define RESIDENT_NS (CLOCK_SECOND / 4)

struct followed {
	uint16_t target;
	uint64_t start_time_ns; /* of the rank: with its target, who it is */
	struct budget budget;
	uint64_t resident_bytes, resident_ns; /* when that was read */
	bool seen, settled;
};

struct follower {
	bool owners;
	struct followed *followed; /* stb_ds */
};

struct follower *follower_new(bool owners)
{
	struct follower *follower = calloc(1, sizeof(*follower));

	if (follower)
		follower->owners = owners;
	return follower;
}

void follower_free(struct follower *follower)
{
	if (!follower)
		return;
	arrfree(follower->followed);
	free(follower);
}

static struct followed *followed_of(struct follower *follower, const struct live_rank *rank)
{
	for (size_t index = 0; index < arrlenu(follower->followed); index++)
		if (follower->followed[index].target == rank->target &&
			follower->followed[index].start_time_ns == rank->start_time_ns)
			return &follower->followed[index];
	arrput(follower->followed, ((struct followed){.target = rank->target, .start_time_ns = rank->start_time_ns}));
	return &arrlast(follower->followed);
}

/* What Python holds was told as it is since the return. */
static bool is_settled(
	const struct follower *follower, const struct followed *followed, const struct recording *recording)
{
	return !follower->owners || recording_owners_ns(recording, followed->target) >= followed->budget.since_ns;
}

static void budget_do(struct follower *follower, struct followed *followed, enum budget_action action,
	struct live *live, struct recording *recording, uint64_t now_ns)
{
	uint16_t target = followed->target;

	switch (action) {
	case BUDGET_LEAVE:
		if (recording_follow_host(recording, target, false))
			followed->budget.state = BUDGET_FOLLOWED;
		else
			live_host_away(live, target, now_ns);
		break;
	case BUDGET_RETURN:
		if (recording_follow_host(recording, target, true))
			budget_return_failed(&followed->budget, now_ns);
		else
			live_host_back(live, target, now_ns);
		break;
	case BUDGET_SETTLE:
		live_host_settled(live, target, now_ns, follower->owners && followed->settled);
		break;
	case BUDGET_STAY:
		break;
	}
}

static void rank_follow(struct follower *follower, struct live *live, const struct live_rank *rank,
	struct recording *recording, double share, uint64_t now_ns)
{
	struct followed *followed = followed_of(follower, rank);
	struct budget_facts facts = {.now_ns = now_ns, .hits = rank->host_events, .steps = rank->steps};

	followed->seen = true;
	if (now_ns - followed->resident_ns >= RESIDENT_NS) {
		followed->resident_bytes = process_resident_bytes(rank->pid);
		followed->resident_ns = now_ns;
	}
	facts.resident_bytes = followed->resident_bytes;
	facts.settled = is_settled(follower, followed, recording);
	followed->settled = facts.settled;
	budget_do(follower, followed, budget_look(&followed->budget, &facts, share), live, recording, now_ns);
}

void follower_tick(struct follower *follower, struct live *live, struct recording *recording, double share)
{
	uint64_t now_ns = monotonic_ns();

	for (size_t index = 0; index < arrlenu(follower->followed); index++)
		follower->followed[index].seen = false;
	for (size_t index = 0; index < live_rank_count(live); index++) {
		const struct live_rank *rank = live_rank_at(live, index);

		if (!rank->ended)
			rank_follow(follower, live, rank, recording, share, now_ns);
	}
	for (size_t index = arrlenu(follower->followed); index-- > 0;)
		if (!follower->followed[index].seen)
			arrdelswap(follower->followed, index);
}
