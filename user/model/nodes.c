/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an operator of a backward pass to the one of the forward pass that it
 * belongs to, by the numbers of autograd's nodes.
 *
 * Each thread numbers the nodes that it makes. An operator shows, where it goes
 * to its backend, which number its thread gives next: so a node was made by the
 * first operator that shows a higher number than the node's own, in the thread
 * that made it. A late node (CopySlices) comes after its operator: it belongs to
 * the one before. A Python function makes its node before it runs: that leads
 * to its first operator. Nodes that were made before the trace lead to none.
 */
#include "state.h"

/* What operators of one thread showed, in order. */
struct shown {
	uint64_t next; /* number of the next node */
	uint32_t run;
};

struct thread_nodes {
	uint64_t key; /* PyTorch's number of the thread */
	struct shown *value;
};

static struct thread_nodes *nodes_collect(const struct target_state *target)
{
	struct thread_nodes *threads = NULL;

	for (uint32_t i = 0; i < arrlenu(target->runs); i++) {
		const struct run *run = &target->runs[i];
		struct shown shown = {.next = run->next.sequence, .run = i};
		ptrdiff_t at;

		/* A thread without a number has made no node yet. */
		if (!run->next.known || !run->next.thread)
			continue;
		at = hmgeti(threads, run->next.thread);
		if (at < 0) {
			hmput(threads, run->next.thread, NULL);
			at = hmgeti(threads, run->next.thread);
		}
		arrput(threads[at].value, shown);
	}
	return threads;
}

/* Index of the first that shows a higher number. */
static size_t first_above(const struct shown *shown, uint64_t sequence)
{
	size_t from = 0, to = arrlenu(shown);

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (shown[middle].next > sequence)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* The run that made a node, NONE: not in the trace. */
static uint32_t node_maker(struct thread_nodes *threads, struct autograd_node node)
{
	ptrdiff_t at = hmgeti(threads, node.thread);
	const struct shown *shown = at < 0 ? NULL : threads[at].value;
	size_t above;

	if (!shown)
		return NONE;
	above = first_above(shown, node.sequence);
	if (node.late)
		return above ? shown[above - 1].run : NONE;
	/* Nothing says when the nodes before the first operator were made, but for its own. */
	if (above == arrlenu(shown) || (!above && shown[0].next != node.sequence + 1))
		return NONE;
	return shown[above].run;
}

/*
 * What adds a gradient up works for no operator's node. It belongs to the module
 * that used the parameter last.
 */
static void accumulations_place(struct passes *passes, struct operator_run *runs)
{
	struct target_state *target = passes->target;
	uint32_t *last = NULL; /* by allocation: public run of a module's forward, and one more */
	size_t next = 0;

	arrzero(last, arrlenu(target->allocations));
	for (uint32_t i = 0; i < arrlenu(target->runs); i++) {
		uint32_t public = passes->public_run[i];

		for (; next < arrlenu(target->accumulations) && target->accumulations[next].run <= i; next++) {
			const struct accumulation *accumulation = &target->accumulations[next];
			uint32_t run = passes->resolved[accumulation->run];
			struct operator_run *adding =
				run == NONE || passes->public_run[run] == NONE ? NULL : &runs[passes->public_run[run]];

			if (adding && !*adding->module && accumulation->leaf != NONE && last[accumulation->leaf])
				adding->module = runs[last[accumulation->leaf] - 1].module;
		}
		if (public == NONE || !*runs[public].module ||
			(runs[public].phase != PHASE_FORWARD && runs[public].phase != PHASE_RECOMPUTE))
			continue;
		for (uint32_t at = passes->use_start[i]; at < passes->use_start[i + 1]; at++)
			last[passes->used[at]] = public + 1;
	}
	arrfree(last);
}

static void backward_link(
	const struct passes *passes, struct operator_run *backward, uint32_t maker, const struct operator_run *runs)
{
	backward->forward = passes->public_run[maker];
	if (!*backward->module)
		backward->module = runs[backward->forward].module;
}

/* What compiled code made besides its operators works for the same node as they do. */
static void regions_link(const struct passes *passes, struct operator_run *runs)
{
	for (uint32_t i = 0; i < arrlenu(passes->region); i++) {
		uint32_t public = passes->region[i] ? passes->public_run[i] : NONE, maker;
		struct operator_run *run = public == NONE ? NULL : &runs[public];

		if (!run || run->forward != RUN_NONE)
			continue;
		maker = region_maker(passes, i);
		if (maker != NONE)
			backward_link(passes, run, maker, runs);
	}
}

void passes_link_nodes(struct passes *passes, struct operator_run *runs)
{
	struct target_state *target = passes->target;
	struct thread_nodes *threads = nodes_collect(target);

	arrzero(passes->maker, arrlenu(target->runs));
	for (uint32_t i = 0; i < arrlenu(target->runs); i++) {
		const struct run *run = &target->runs[i];
		uint32_t public = passes->public_run[i], maker = NONE;
		struct operator_run *backward = public == NONE ? NULL : &runs[public];

		passes->maker[i] = NONE;
		/* What a backward pass computes again is of the forward pass itself. */
		if (!backward || backward->phase != PHASE_BACKWARD || !run->evaluated.known)
			continue;
		maker = node_maker(threads, run->evaluated);
		maker = maker == NONE || maker >= i ? NONE : passes->resolved[maker];
		if (maker == NONE || passes->public_run[maker] == NONE)
			continue;
		passes->maker[i] = maker;
		backward_link(passes, backward, maker, runs);
	}
	regions_link(passes, runs);
	for (ptrdiff_t i = 0; i < hmlen(threads); i++)
		arrfree(threads[i].value);
	hmfree(threads);
	accumulations_place(passes, runs);
}
