// SPDX-License-Identifier: BSD-2-Clause
/*
 * Collectives as they are begun, and who waits for whom. As in model/matching.c,
 * the n-th collective of a communicator is the same one in every rank, and which
 * communicators of different processes are one follows from their size and order.
 * Where a trace began in the middle, the numbers of two ranks are moved so that
 * their last collectives lie closest in time.
 */
#include <math.h>
#include <stdlib.h>

#include "live/state.h"

#define SHIFTS 8         /* how far the last numbers may be off to either side */
#define COMPARED_LEAST 4 /* so many collectives tell the distance of two numberings */
#define MISMATCH_NS 1e9  /* one that differs in kind weighs as much as so much time */

/* --- as they come ---------------------------------------------------------------------- */

static size_t group_find(struct live_rank *rank, uint8_t layer, uint64_t address, int32_t place, int32_t size)
{
	for (size_t i = rank->group_count; i-- > 0;) {
		struct live_group *group = &rank->groups[i];

		if (group->layer == layer && group->address == address && (group->size == size || group->size < 0) &&
			(group->rank == place || group->rank < 0)) {
			group->size = size;
			group->rank = place;
			return i;
		}
	}
	if (rank->group_count == LIVE_GROUPS_MAX)
		return LIVE_GROUPS_MAX - 1;
	rank->groups[rank->group_count] =
		(struct live_group){.address = address, .layer = layer, .rank = place, .size = size};
	return rank->group_count++;
}

static void begun(struct state *state, size_t group_index, const struct event *event, uint8_t kind, uint64_t bytes)
{
	struct live_group *group = &state->rank.groups[group_index];
	struct ring **ring = &state->rings[group_index];
	size_t place;

	group->kind = kind;
	group->bytes = bytes;
	group->time_ns = event->time_ns;
	state->rank.collectives++;
	state->rank.collective_bytes += bytes == LIVE_UNKNOWN ? 0 : bytes;
	/* The last one is several, where there are too many. */
	if (!collective_kind_is_common(kind) || group_index == LIVE_GROUPS_MAX - 1)
		return;
	if (!*ring)
		*ring = calloc(1, sizeof(**ring));
	if (!*ring)
		return;
	place = ++group->collectives % RING_COLLECTIVES;
	(*ring)->time_ns[place] = event->time_ns;
	(*ring)->kind[place] = kind;
}

void collective_take(struct state *state, const struct collective_event *event)
{
	const struct tensor_argument *tensors = (const void *)(event + 1);
	bool receives = event->kind == COLLECTIVE_RECEIVE;
	uint64_t elements = receives ? event->output_elements : event->input_elements;
	const struct tensor_argument *first = receives ? tensors + event->input_shown : tensors;
	uint32_t count = receives ? event->tensor_count - event->input_shown : event->input_shown;

	begun(state, group_find(&state->rank, LAYER_C10D, event->group, event->rank, event->size), &event->event,
		event->kind, collective_bytes(elements, event->element_type, first, count));
}

void library_collective_take(struct state *state, const struct library_collective_event *event)
{
	bool receives = event->kind == COLLECTIVE_RECEIVE;
	uint64_t count = receives ? event->output_count : event->input_count;
	uint8_t bytes = receives ? event->output_element_bytes : event->input_element_bytes;
	bool each = event->counting & (receives ? COUNT_OUTPUT_EACH : COUNT_INPUT_EACH);

	/* Part of one of PyTorch's. */
	if (event->flags & (LIBRARY_INSIDE | LIBRARY_BY_TORCH))
		return;
	if (each && event->size > 0 && count != COUNT_UNKNOWN)
		count *= (uint64_t)event->size;
	begun(state, group_find(&state->rank, event->layer, event->communicator, event->rank, event->size),
		&event->event, event->kind, bytes && count != COUNT_UNKNOWN ? count * bytes : LIVE_UNKNOWN);
}

/* --- one communicator in several ranks --------------------------------------------------- */

struct member {
	struct state *state;
	size_t group;
	int64_t number; /* of its last collective, by the numbers of the first member */
};

static struct live_group *group_of(const struct member *member)
{
	return &member->state->rank.groups[member->group];
}

static struct ring *ring_of(const struct member *member)
{
	return member->state->rings[member->group];
}

static bool is_alike(const struct live_group *left, const struct live_group *right)
{
	return left->size == right->size && left->layer == right->layer;
}

static size_t group_ordinal(const struct live_rank *rank, size_t group)
{
	size_t ordinal = 0;

	for (size_t i = 0; i < group; i++)
		ordinal += is_alike(&rank->groups[i], &rank->groups[group]);
	return ordinal;
}

static bool is_same_group(const struct member *left, const struct member *right)
{
	const struct live_rank *a = &left->state->rank, *b = &right->state->rank;

	return is_alike(group_of(left), group_of(right)) && group_of(left)->rank != group_of(right)->rank &&
	       !strcmp(a->job, b->job) && group_ordinal(a, left->group) == group_ordinal(b, right->group);
}

/* When a member began a number of its own; 0: that is not kept. */
static uint64_t time_of(const struct member *member, int64_t number)
{
	int64_t last = (int64_t)group_of(member)->collectives;

	if (number < 1 || number > last || number + RING_COLLECTIVES <= last)
		return 0;
	return ring_of(member)->time_ns[number % RING_COLLECTIVES];
}

static uint8_t kind_of(const struct member *member, int64_t number)
{
	return ring_of(member)->kind[number % RING_COLLECTIVES];
}

/* Mean distance of what both have, if a member's numbers are moved so; negative: too little to say. */
static double distance(const struct member *reference, const struct member *member, int64_t offset)
{
	int64_t last = (int64_t)group_of(member)->collectives;
	double sum = 0;
	int compared = 0;

	for (int64_t number = last; number > last - RING_COLLECTIVES && number > 0; number--) {
		uint64_t here = time_of(member, number), there = time_of(reference, number + offset);

		if (!here || !there)
			continue;
		compared++;
		sum += fabs((double)(int64_t)(here - there));
		sum += kind_of(member, number) == kind_of(reference, number + offset) ? 0 : MISMATCH_NS;
	}
	return compared < COMPARED_LEAST ? -1 : sum / compared;
}

static bool member_align(const struct member *reference, struct member *member)
{
	struct ring *ring = ring_of(member);
	int64_t around = (int64_t)group_of(reference)->collectives - (int64_t)group_of(member)->collectives;
	double least = -1;

	if (ring->aligned && ring->reference == reference->state->rank.target)
		return true;
	ring->offset = 0;
	ring->aligned = reference->state->rank.from_start && member->state->rank.from_start;
	for (int64_t offset = around - SHIFTS; !ring->aligned && offset <= around + SHIFTS; offset++) {
		double here = distance(reference, member, offset);

		if (here < 0 || (least >= 0 && here >= least))
			continue;
		least = here;
		ring->offset = offset;
	}
	ring->aligned |= least >= 0;
	ring->reference = reference->state->rank.target;
	ring->counted = group_of(member)->collectives;
	return ring->aligned;
}

/* All that have a communicator, from a rank on; none unless all of it can be compared. */
static struct member *members_of(struct live *live, size_t first, size_t group)
{
	struct member one = {.state = live->states[first], .group = group}, *members = NULL;

	arrput(members, one);
	for (size_t i = first + 1; i < arrlenu(live->states); i++) {
		struct member member = {.state = live->states[i]};

		for (; member.group < member.state->rank.group_count; member.group++)
			if (!member.state->rank.ended && ring_of(&member) && is_same_group(&members[0], &member))
				break;
		if (member.group < member.state->rank.group_count)
			arrput(members, member);
	}
	for (size_t i = 0; i < arrlenu(members); i++) {
		if (i && !member_align(&members[0], &members[i])) {
			arrfree(members);
			return NULL;
		}
		members[i].number =
			(int64_t)group_of(&members[i])->collectives + (i ? ring_of(&members[i])->offset : 0);
	}
	return members;
}

/* --- who waits ------------------------------------------------------------------------------ */

static int64_t own_number(const struct member *members, size_t index, int64_t number)
{
	return number - (index ? ring_of(&members[index])->offset : 0);
}

/* What all have begun: each waited from its own begin until the last one's. */
static void waits_add(struct member *members, int64_t complete)
{
	size_t count = arrlenu(members);
	int64_t from = (int64_t)ring_of(&members[0])->counted + 1;

	if (complete - from >= RING_COLLECTIVES)
		from = complete - RING_COLLECTIVES + 1;
	for (int64_t number = from; number <= complete; number++) {
		uint64_t last = 0;
		bool all = true;

		for (size_t i = 0; i < count; i++) {
			uint64_t time = time_of(&members[i], own_number(members, i, number));

			all &= time != 0;
			last = time > last ? time : last;
		}
		for (size_t i = 0; all && i < count; i++)
			members[i].state->rank.collective_wait_ns +=
				last - time_of(&members[i], own_number(members, i, number));
	}
	if (complete > (int64_t)ring_of(&members[0])->counted)
		ring_of(&members[0])->counted = (uint64_t)complete;
}

static void wait_tell(struct member *members, size_t index, int64_t complete)
{
	struct live_wait wait = {.waits = true};
	int64_t number = own_number(members, index, complete + 1);

	wait.since_ns = time_of(&members[index], number);
	wait.kind = wait.since_ns ? kind_of(&members[index], number) : group_of(&members[index])->kind;
	for (size_t i = 0; i < arrlenu(members); i++) {
		if (members[i].number > complete)
			continue;
		if (wait.absent < LIVE_ABSENT_MAX)
			wait.absent_ranks[wait.absent] = group_of(&members[i])->rank;
		wait.absent++;
	}
	/* Of several, what it waits for longest. */
	if (wait.since_ns &&
		(!members[index].state->rank.wait.waits || wait.since_ns < members[index].state->rank.wait.since_ns))
		members[index].state->rank.wait = wait;
}

static void group_refresh(struct live *live, size_t first, size_t group)
{
	struct member *members = members_of(live, first, group);
	int64_t complete = INT64_MAX;

	for (size_t i = 0; i < arrlenu(members); i++)
		complete = members[i].number < complete ? members[i].number : complete;
	if (arrlenu(members) > 1)
		waits_add(members, complete);
	for (size_t i = 0; arrlenu(members) > 1 && i < arrlenu(members); i++)
		if (members[i].number > complete)
			wait_tell(members, i, complete);
	arrfree(members);
}

/* Has an earlier rank the same communicator? Then it is done with. */
static bool is_first(const struct live *live, size_t index, size_t group)
{
	struct member member = {.state = live->states[index], .group = group};

	for (size_t i = 0; i < index; i++) {
		struct member other = {.state = live->states[i]};

		for (; other.group < other.state->rank.group_count; other.group++)
			if (!other.state->rank.ended && ring_of(&other) && is_same_group(&member, &other))
				return false;
	}
	return true;
}

void collectives_refresh(struct live *live)
{
	for (size_t i = 0; i < arrlenu(live->states); i++)
		live->states[i]->rank.wait = (struct live_wait){0};
	for (size_t i = 0; i < arrlenu(live->states); i++) {
		struct state *state = live->states[i];

		for (size_t group = 0; !state->rank.ended && group < state->rank.group_count; group++)
			if (state->rings[group] && state->rank.groups[group].size > 1 && is_first(live, i, group))
				group_refresh(live, i, group);
	}
}
