/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each step cost. A step ends where the next one's first operator starts;
 * the time between two operators counts for the phase of the first. Bytes are
 * filled by totals.c while it goes through the allocator events.
 *
 * A micro-step is a forward and a backward pass: one more begins where the
 * thread that starts backward passes goes from forward operators to them.
 * The engine of a device runs on another thread, which says nothing about that.
 */
#include "state.h"

/* Whether the thread that starts backward passes is inside one. */
struct micro_steps {
	uint32_t thread_id; /* it, 0: none was started yet */
	bool in_backward;
};

static void micro_step_follow(struct micro_steps *micro, const struct rank *rank, const struct operator_run *run)
{
	struct step *step = &rank->steps[run->step];
	bool starts = run->phase == PHASE_BACKWARD && rank->stacks[run->stack].in_backward;

	if (starts && !micro->in_backward) {
		step->micro_steps++;
		*micro = (struct micro_steps){.thread_id = run->thread_id, .in_backward = true};
	} else if (run->thread_id == micro->thread_id &&
		   (run->phase == PHASE_FORWARD || run->phase == PHASE_OPTIMIZER)) {
		micro->in_backward = false;
	}
}

void passes_begin_steps(struct passes *passes)
{
	struct rank *rank = &passes->target->result;

	arrzero(rank->steps, (size_t)rank->step_count + 1);
	for (uint32_t i = 0; i < rank->step_count; i++)
		rank->steps[i].complete = true;
}

void passes_fill_steps(struct passes *passes)
{
	struct rank *rank = &passes->target->result;
	struct micro_steps micro = {0};
	size_t count = arrlenu(rank->runs);

	for (size_t i = 0; i < count; i++) {
		const struct operator_run *run = &rank->runs[i];
		struct step *step = &rank->steps[run->step];
		uint64_t next = i + 1 < count ? rank->runs[i + 1].time_ns : rank->last_time_ns;

		if (run->phase == PHASE_INITIALIZATION)
			continue;
		if (!step->operators++)
			step->start_time_ns = run->time_ns;
		if (next > run->time_ns) {
			step->phase_ns[run->phase] += next - run->time_ns;
			step->end_time_ns = next;
		}
		step->launches += run->launches;
		micro_step_follow(&micro, rank, run);
	}
	/* The job did nothing more after the last complete one. */
	if (!arrlast(rank->steps).operators)
		(void)arrpop(rank->steps);
}

/* `until`: when the collectives before this one were done. */
static void step_add_times(
	struct step *step, const struct rank *rank, const struct collective *collective, uint64_t *until)
{
	uint64_t waited = collective_host_wait(rank, collective);
	uint64_t begin = collective->time_ns > *until ? collective->time_ns : *until;

	step->host_wait_ns += waited == UINT64_MAX ? 0 : waited;
	if (collective->finished_ns <= begin)
		return;
	step->communication_ns += collective->finished_ns - begin;
	*until = collective->finished_ns;
}

void rank_add_collectives_to_steps(struct rank *rank)
{
	uint64_t until = 0;

	for (size_t i = 0; i < arrlenu(rank->collectives); i++) {
		const struct collective *collective = &rank->collectives[i];
		uint64_t bytes = collective_only_gets(collective) ? collective->output_bytes : collective->input_bytes;
		struct step *step;

		if (collective->step >= arrlenu(rank->steps))
			continue;
		step = &rank->steps[collective->step];
		step->collectives++;
		step->small_collectives += collective_is_small(collective);
		step->collective_bytes += bytes == COUNT_UNKNOWN ? 0 : bytes;
		step->wait_ns += collective->wait_ns;
		step_add_times(step, rank, collective, &until);
	}
}
