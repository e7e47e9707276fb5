// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which targets are ranks (family.h), of which job, with which number.
 *
 * The number of a rank is what its launcher wrote into its environment, else the
 * rank in its largest communicator, else the lowest that is free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "state.h"

bool target_is_rank(const struct model *model, const struct target_state *target)
{
	struct relative *relatives = NULL;
	bool is_rank;

	for (size_t i = 0; i < arrlenu(model->targets); i++) {
		const struct target_state *other = model->targets[i];
		struct relative relative = {.parent = -1};

		if (other)
			relative = (struct relative){
				.parent = other->parent,
				.there = true,
				.trained = other->trained,
				.forked = other->forked,
				.launched = other->result.rank != RANK_UNKNOWN,
				.idle = !target_was_active(other),
			};
		arrput(relatives, relative);
	}
	is_rank = relative_is_rank(relatives, arrlenu(relatives), target->target);
	arrfree(relatives);
	return is_rank;
}

static bool is_taken(const struct model *model, const struct target_state *target, int32_t rank)
{
	for (size_t i = 0; i < arrlenu(model->order); i++) {
		const struct target_state *other = model->order[i];

		if (other != target && other->result.rank == rank && !strcmp(other->result.job, target->result.job))
			return true;
	}
	return false;
}

/* Had an earlier process its number, which had ended before it began? Then its launcher began the job anew. */
static bool is_restart_of(const struct target_state *target, const struct target_state *earlier)
{
	return earlier->ended && target->result.rank != RANK_UNKNOWN && target->result.rank == earlier->result.rank &&
	       target->result.capture == earlier->result.capture && !strcmp(target->job, earlier->job) &&
	       earlier->result.last_time_ns < target->result.first_time_ns;
}

/* The ranks of each time are a job of their own. From the last one on, as all are compared by the first name. */
static void restarts_name(struct model *model)
{
	for (size_t i = arrlenu(model->order); i-- > 0;) {
		struct target_state *target = model->order[i];
		unsigned int restarts = 0;
		char *name;

		for (size_t j = 0; j < i; j++)
			restarts += is_restart_of(target, model->order[j]);
		if (!restarts || asprintf(&name, "%s.restart-%u", *target->job ? target->job : "job", restarts) < 0)
			continue;
		target->job = model_text(model, name);
		free(name);
	}
}

/* Jobs have names only where there are several. */
static void jobs_name(struct model *model)
{
	bool several = false;

	for (size_t i = 1; i < arrlenu(model->order); i++)
		several |= strcmp(model->order[i]->job, model->order[0]->job) != 0;
	for (size_t i = 0; several && i < arrlenu(model->order); i++)
		model->order[i]->result.job = model->order[i]->job;
}

/* Earlier targets first; a number that another has is none. */
static void number_take(struct model *model, struct target_state *target, int32_t rank, enum rank_source source)
{
	if (target->result.rank != RANK_UNKNOWN || rank == RANK_UNKNOWN || is_taken(model, target, rank))
		return;
	target->result.rank = rank;
	target->result.rank_source = (uint8_t)source;
}

static int32_t largest_group_rank(const struct rank *rank)
{
	const struct group *largest = NULL;

	for (size_t i = 0; i < arrlenu(rank->groups); i++)
		if (!largest || rank->groups[i].size > largest->size)
			largest = &rank->groups[i];
	return largest ? largest->rank : RANK_UNKNOWN;
}

static void number_any(struct model *model, struct target_state *target)
{
	int32_t rank = 0;

	while (is_taken(model, target, rank))
		rank++;
	number_take(model, target, rank, RANK_OF_ORDER);
}

void ranks_number(struct model *model)
{
	int32_t *told = NULL;

	restarts_name(model);
	jobs_name(model);
	for (size_t i = 0; i < arrlenu(model->order); i++) {
		arrput(told, model->order[i]->result.rank);
		model->order[i]->result.rank = RANK_UNKNOWN;
	}
	for (size_t i = 0; i < arrlenu(model->order); i++)
		number_take(model, model->order[i], told[i], RANK_OF_LAUNCHER);
	for (size_t i = 0; i < arrlenu(model->order); i++)
		number_take(model, model->order[i], largest_group_rank(&model->order[i]->result), RANK_OF_COMMUNICATOR);
	for (size_t i = 0; i < arrlenu(model->order); i++)
		number_any(model, model->order[i]);
	arrfree(told);
}
