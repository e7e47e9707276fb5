// SPDX-License-Identifier: BSD-2-Clause
/*
 * The collectives of a job over its ranks: the n-th on a group is the same one
 * in every rank, and who began it last kept the others waiting.
 *
 * Which groups of different processes are one: of the same size and library, the k-th of these
 * in their process, as all ranks make their groups in the same order. Two
 * that claim the same rank in it are different groups after all: those of one dimension
 * of a mesh, if each rank is claimed equally often. Then the lowest of those that claim a rank are of
 * one group, the next ones of another. Else they are not matched. Where a trace began in the middle, ranks were not
 * attached at the same moment: then numbers are moved so that the collectives lie closest in time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

#define SHIFTS 8         /* how far numbers may be off to either side */
#define COMPARED 64      /* so many collectives are compared to find out */
#define MISMATCH_NS 1e9  /* one that differs in kind or bytes weighs as much as so much time */
#define COMPARED_LEAST 8 /* so many collectives tell the distance of two clocks */
#define SIZE_LEAST 2     /* of a group that has anybody to wait for */

/* One rank's part in a group. */
struct member {
	struct target_state *target;
	uint32_t group;
	uint32_t ordinal;      /* among the groups of its size in its process */
	uint32_t *collectives; /* stb_ds: indices into result.collectives, in order */
	ptrdiff_t shift;       /* number here - number of the first member */
	bool taken;
};

static struct group *group_of(const struct member *member)
{
	return &member->target->result.groups[member->group];
}

static struct collective *collective_at(const struct member *member, ptrdiff_t number)
{
	ptrdiff_t index = number + member->shift;

	return index >= 0 && index < arrlen(member->collectives)
	               ? &member->target->result.collectives[member->collectives[index]]
	               : NULL;
}

/* When it was begun, by the clock of the first capture. */
static uint64_t time_of(const struct member *member, const struct collective *collective)
{
	return collective->time_ns + (uint64_t)member->target->result.clock_offset_ns;
}

static bool is_alike(const struct group *left, const struct group *right)
{
	return left->size == right->size && left->layer == right->layer;
}

static struct member *members_of(const struct model *model)
{
	struct member *members = NULL;

	for (size_t i = 0; i < arrlenu(model->order); i++) {
		struct target_state *target = model->order[i];
		size_t first = arrlenu(members);

		for (uint32_t group = 0; group < arrlenu(target->result.groups); group++) {
			struct member member = {.target = target, .group = group};

			for (uint32_t j = 0; j < group; j++)
				member.ordinal += is_alike(&target->result.groups[j], &target->result.groups[group]);
			arrput(members, member);
		}
		for (uint32_t j = 0; members && j < arrlenu(target->result.collectives); j++)
			if (collective_is_common(&target->result.collectives[j]))
				arrput(members[first + target->result.collectives[j].group].collectives, j);
	}
	return members;
}

static bool is_same_group(const struct member *left, const struct member *right)
{
	return left->ordinal == right->ordinal && is_alike(group_of(left), group_of(right)) &&
	       group_of(left)->size >= SIZE_LEAST && !strcmp(left->target->result.job, right->target->result.job);
}

/* What all ranks must agree on. */
static bool agrees(const struct collective *left, const struct collective *right)
{
	if (left->kind != right->kind || left->operation != right->operation)
		return false;
	if (left->uneven || right->uneven || left->input_bytes == COUNT_UNKNOWN || right->input_bytes == COUNT_UNKNOWN)
		return true;
	switch (left->kind) {
	case COLLECTIVE_ALL_REDUCE:
	case COLLECTIVE_BROADCAST:
	case COLLECTIVE_REDUCE:
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_SCAN:
	case COLLECTIVE_EXCLUSIVE_SCAN:
		return left->input_bytes == right->input_bytes;
	default:
		return true;
	}
}

/* Mean distance of two members' collectives if the second's numbers are moved so. */
static double distance(const struct member *reference, struct member *member, ptrdiff_t shift)
{
	double sum = 0;
	ptrdiff_t compared = 0;

	member->shift = shift;
	for (ptrdiff_t number = 0; number < COMPARED; number++) {
		const struct collective *left = collective_at(reference, number);
		const struct collective *right = collective_at(member, number);

		if (!left || !right)
			continue;
		compared++;
		sum += fabs((double)(int64_t)(time_of(reference, left) - time_of(member, right)));
		sum += agrees(left, right) ? 0 : MISMATCH_NS;
	}
	return compared ? sum / (double)compared : MISMATCH_NS * COMPARED;
}

/* Around the number at which `member` was when the reference began. */
static void member_align(const struct member *reference, struct member *member)
{
	const struct collective *first = collective_at(reference, 0);
	ptrdiff_t around = 0, best = 0;
	double least = -1;

	if (!first || (reference->target->result.from_start && member->target->result.from_start)) {
		member->shift = 0;
		return;
	}
	while (around < arrlen(member->collectives) &&
		time_of(member, &member->target->result.collectives[member->collectives[around]]) <
			time_of(reference, first))
		around++;
	for (ptrdiff_t shift = around - SHIFTS; shift <= around + SHIFTS; shift++) {
		double here = distance(reference, member, shift);

		if (least < 0 || here < least) {
			least = here;
			best = shift;
		}
	}
	member->shift = best;
}

/* Of the collectives that members would have together, how many are the same, and how many are not. */
struct fit {
	size_t alike, different;
};

static void fit_add(struct fit *fit, const struct member *reference, struct member *member)
{
	member_align(reference, member);
	for (ptrdiff_t number = 0; number < COMPARED; number++) {
		const struct collective *left = collective_at(reference, number);
		const struct collective *right = collective_at(member, number);

		fit->alike += left && right && agrees(left, right);
		fit->different += left && right && !agrees(left, right);
	}
	/* Groups are aligned once they are known. */
	member->shift = 0;
}

static struct member *member_find(struct member *members, const struct target_state *target, const struct member *like)
{
	for (size_t i = 0; i < arrlenu(members); i++)
		if (members[i].target == target && members[i].ordinal == like->ordinal &&
			is_alike(group_of(&members[i]), group_of(like)))
			return &members[i];
	return NULL;
}

/* Do two groups of a process fit better to those of another one the other way round? Then they are. */
static void order_settle(struct member *members, struct member *left, struct member *right)
{
	struct member *first = member_find(members, members[0].target, left);
	struct member *second = member_find(members, members[0].target, right);
	uint32_t ordinal = left->ordinal;
	struct fit straight = {0}, swapped = {0};

	if (!first || !second || first->target == left->target ||
		strcmp(first->target->result.job, left->target->result.job) != 0)
		return;
	fit_add(&straight, first, left);
	fit_add(&straight, second, right);
	fit_add(&swapped, first, right);
	fit_add(&swapped, second, left);
	if (!straight.different || swapped.alike <= straight.alike)
		return;
	left->ordinal = right->ordinal;
	right->ordinal = ordinal;
}

/* Ranks that used groups of one size in another order than the first one: what they did there tells which is which. */
static void orders_settle(struct member *members)
{
	for (size_t i = 0; i < arrlenu(members); i++)
		for (size_t j = i + 1; j < arrlenu(members) && members[j].target == members[i].target; j++)
			if (is_alike(group_of(&members[i]), group_of(&members[j])))
				order_settle(members, &members[i], &members[j]);
}

/* The one whose first collective comes last: all others have it too. */
static struct member *reference_of(struct member **members)
{
	struct member *reference = members[0];

	for (size_t i = 0; i < arrlenu(members); i++) {
		const struct collective *first = collective_at(members[i], 0);
		const struct collective *known = collective_at(reference, 0);

		if (!known || (first && time_of(members[i], first) > time_of(reference, known)))
			reference = members[i];
	}
	return reference;
}

/* Was the rank not traced yet? */
static bool is_before(const struct member *member, ptrdiff_t number)
{
	return number + member->shift < 0;
}

/* All that began the collective of this number, which becomes the `match`-th; false when nobody did. */
static bool number_match(struct member **members, ptrdiff_t number, uint32_t match)
{
	const struct collective *example = NULL;
	uint64_t first = UINT64_MAX, last = 0;
	int32_t last_rank = RANK_UNKNOWN, absent = RANK_UNKNOWN;
	uint32_t came = 0;
	bool differs = false;

	for (size_t i = 0; i < arrlenu(members); i++) {
		struct collective *one = collective_at(members[i], number);
		uint64_t time;

		if (!one) {
			if (absent == RANK_UNKNOWN && !is_before(members[i], number))
				absent = members[i]->target->result.rank;
			continue;
		}
		differs |= example && !agrees(example, one);
		example = one;
		time = time_of(members[i], one);
		first = time < first ? time : first;
		if (!came++ || time > last) {
			last = time;
			last_rank = members[i]->target->result.rank;
		}
	}
	for (size_t i = 0; came && i < arrlenu(members); i++) {
		struct collective *one = collective_at(members[i], number);

		if (!one)
			continue;
		one->matched_ranks = came;
		one->match = match;
		one->absent_rank = absent;
		one->differs = differs;
		one->last_rank = last_rank;
		one->skew_ns = last - first;
		one->wait_ns = last - time_of(members[i], one);
	}
	return came > 0;
}

/* Move the numbers of all members to those of one; returns the lowest that anybody has. */
static ptrdiff_t group_align(struct member **members)
{
	struct member *reference = reference_of(members);
	ptrdiff_t earliest = 0;

	for (size_t i = 0; i < arrlenu(members); i++) {
		if (members[i] != reference)
			member_align(reference, members[i]);
		earliest = -members[i]->shift < earliest ? -members[i]->shift : earliest;
	}
	return earliest;
}

/* `matches`: how many there are so far. */
static void group_match(struct member **members, uint32_t *matches)
{
	for (ptrdiff_t number = group_align(members);; number++) {
		if (number_match(members, number, *matches + 1))
			(*matches)++;
		else if (number >= 0)
			return;
	}
}

/* --- clocks of several captures ----------------------------------------------------- */

/* When the last rank of a capture began the collective of this number; 0: none of it did. */
static uint64_t latest_time(struct member **members, ptrdiff_t number, uint16_t capture)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < arrlenu(members); i++) {
		const struct collective *one =
			members[i]->target->result.capture == capture ? collective_at(members[i], number) : NULL;

		if (one && time_of(members[i], one) > latest)
			latest = time_of(members[i], one);
	}
	return latest;
}

/* How much later than the first capture's ranks those of another one seem to begin what they begin together. */
static void group_compare(struct member **members, uint16_t capture, int64_t **differences)
{
	ptrdiff_t end = 0;

	for (size_t i = 0; i < arrlenu(members); i++)
		end = arrlen(members[i]->collectives) > end ? arrlen(members[i]->collectives) : end;
	for (ptrdiff_t number = group_align(members); number < end; number++) {
		uint64_t here = latest_time(members, number, 0), there = latest_time(members, number, capture);

		if (here && there)
			arrput(*differences, (int64_t)(there - here));
	}
}

static int difference_compare(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

static void clock_move(const struct model *model, uint16_t capture, int64_t offset_ns)
{
	for (size_t i = 0; i < arrlenu(model->order); i++)
		if (model->order[i]->result.capture == capture)
			model->order[i]->result.clock_offset_ns += offset_ns;
}

/*
 * First by the real time of the machines, which their network keeps to milliseconds. Then by what ranks of both did
 * together: sometimes these are late, sometimes those, so that half of the differences lie on either side of the
 * clocks'.
 */
static void clock_settle(const struct model *model, struct member ***groups, uint16_t capture)
{
	int64_t *differences = NULL;

	clock_move(model, capture, model->sources[capture].real_offset_ns - model->sources[0].real_offset_ns);
	for (size_t i = 0; i < arrlenu(groups); i++)
		group_compare(groups[i], capture, &differences);
	if (arrlenu(differences) >= COMPARED_LEAST) {
		qsort(differences, arrlenu(differences), sizeof(*differences), difference_compare);
		clock_move(model, capture, -differences[arrlenu(differences) / 2]);
	}
	arrfree(differences);
}

/* Two of one rank cannot be of one group. */
static bool ranks_are_distinct(struct member **members)
{
	for (size_t i = 0; i < arrlenu(members); i++)
		for (size_t j = 0; j < i; j++)
			if (group_of(members[i])->rank == group_of(members[j])->rank)
				return false;
	return true;
}

/* How many claim the rank that a member has, and how many of these are lower ranks of the job than it. */
static size_t claims_count(struct member **members, const struct member *member, size_t *lower)
{
	size_t count = 0;

	*lower = 0;
	for (size_t i = 0; i < arrlenu(members); i++) {
		if (group_of(members[i])->rank != group_of(member)->rank)
			continue;
		count++;
		*lower += members[i]->target->result.rank < member->target->result.rank;
	}
	return count;
}

/* A group has its ranks in the order of the job's, and its members do the same things most of the time. */
static bool is_one_group(struct member **members)
{
	size_t compared = 0, alike = 0;

	for (size_t i = 1; i < arrlenu(members); i++) {
		for (size_t j = 0; j < i; j++)
			if ((group_of(members[i])->rank < group_of(members[j])->rank) !=
				(members[i]->target->result.rank < members[j]->target->result.rank))
				return false;
		for (ptrdiff_t number = 0; number < COMPARED; number++) {
			const struct collective *left = collective_at(members[0], number);
			const struct collective *right = collective_at(members[i], number);

			compared += left && right;
			alike += left && right && agrees(left, right);
		}
	}
	return 2 * alike >= compared;
}

/* The groups of one dimension of a mesh: each rank of a group is claimed by as many as there are groups. */
static void mesh_split(struct member **members, struct member ****groups)
{
	size_t lower, count = claims_count(members, members[0], &lower);
	struct member **one;

	for (size_t i = 0; i < arrlenu(members); i++)
		if (members[i]->target->result.rank == RANK_UNKNOWN ||
			claims_count(members, members[i], &lower) != count)
			return;
	for (size_t place = 0; place < count; place++) {
		one = NULL;
		for (size_t i = 0; i < arrlenu(members); i++) {
			claims_count(members, members[i], &lower);
			if (lower == place)
				arrput(one, members[i]);
		}
		if (arrlenu(one) > 1 && is_one_group(one))
			arrput(*groups, one);
		else
			arrfree(one);
	}
}

/* Members that are of one group, each list in stb_ds. */
static struct member ***groups_find(struct member *members)
{
	struct member ***groups = NULL;

	for (size_t i = 0; i < arrlenu(members); i++) {
		struct member **same = NULL;

		for (size_t j = i; j < arrlenu(members); j++)
			if (!members[j].taken && is_same_group(&members[i], &members[j])) {
				members[j].taken = true;
				arrput(same, &members[j]);
			}
		if (arrlenu(same) > 1 && ranks_are_distinct(same)) {
			arrput(groups, same);
			continue;
		}
		if (arrlenu(same) > 1)
			mesh_split(same, &groups);
		arrfree(same);
	}
	return groups;
}

void collectives_match(struct model *model)
{
	struct member *members = members_of(model);
	struct member ***groups;
	uint32_t matches = 0;

	orders_settle(members);
	groups = groups_find(members);
	for (size_t capture = 1; capture < arrlenu(model->sources); capture++)
		clock_settle(model, groups, (uint16_t)capture);
	for (size_t i = 0; i < arrlenu(groups); i++) {
		group_match(groups[i], &matches);
		arrfree(groups[i]);
	}
	arrfree(groups);
	for (size_t i = 0; i < arrlenu(members); i++)
		arrfree(members[i].collectives);
	arrfree(members);
}
