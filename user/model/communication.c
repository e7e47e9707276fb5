/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of collectives: which blocks each reads and writes, what is copied of these, and what exists only
 * for communication.
 *
 * Rules. One pass over what ran, in order. What a collective of c10d wrote is its own until another one writes there,
 * or an operator computes with it; blocks that operators which only move data make of it until then, or fill from it,
 * are its copies (the concatenation of a gather along another dimension than the first, the parts of an unsharded
 * parameter).
 *
 * A block is a buffer of communication when a collective has it as an argument, Python holds it by nothing that
 * a model or an optimizer has, and all other operators that made it or had it as an argument only move its data,
 * fill it, look at it in another shape or scale it by a number; but not what a reduce-scatter wrote. It is gathered
 * when an all-gather wrote it, or it is a copy of that, and it stands for a parameter: Python holds it as one, or its
 * storage got or lost its memory by a resize.
 *
 * A sum is an average by hand where the last operator on what it reads, or the first on what it wrote, divides or
 * multiplies by a number.
 */
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* What an operator does to its arguments. */
enum effect {
	EFFECT_COMPUTES,
	EFFECT_VIEWS,       /* the same memory in another shape */
	EFFECT_FILLS,       /* with nothing, or one number */
	EFFECT_COPIES,      /* into what it makes, else, where its overload says so, into the last argument */
	EFFECT_COPIES_BACK, /* into arguments before */
	EFFECT_COPIES_ON,   /* into what it makes and into arguments behind */
	EFFECT_SCALES,
};

static const struct {
	const char *name; /* without the overload */
	enum effect effect;
} effects[] = {
	{"aten._reshape_alias", EFFECT_VIEWS},
	{"aten.alias", EFFECT_VIEWS},
	{"aten.as_strided", EFFECT_VIEWS},
	{"aten.detach", EFFECT_VIEWS},
	{"aten.detach_", EFFECT_VIEWS},
	{"aten.expand", EFFECT_VIEWS},
	{"aten.is_same_size", EFFECT_VIEWS},
	{"aten.lift_fresh", EFFECT_VIEWS},
	{"aten.permute", EFFECT_VIEWS},
	{"aten.record_stream", EFFECT_VIEWS},
	{"aten.resize_", EFFECT_VIEWS},
	{"aten.select", EFFECT_VIEWS},
	{"aten.set_", EFFECT_VIEWS},
	{"aten.slice", EFFECT_VIEWS},
	{"aten.split", EFFECT_VIEWS},
	{"aten.split_with_sizes", EFFECT_VIEWS},
	{"aten.squeeze", EFFECT_VIEWS},
	{"aten.t", EFFECT_VIEWS},
	{"aten.transpose", EFFECT_VIEWS},
	{"aten.unbind", EFFECT_VIEWS},
	{"aten.unsqueeze", EFFECT_VIEWS},
	{"aten.view", EFFECT_VIEWS},
	{"aten.empty", EFFECT_FILLS},
	{"aten.empty_like", EFFECT_FILLS},
	{"aten.empty_strided", EFFECT_FILLS},
	{"aten.fill_", EFFECT_FILLS},
	{"aten.full", EFFECT_FILLS},
	{"aten.full_like", EFFECT_FILLS},
	{"aten.new_empty", EFFECT_FILLS},
	{"aten.new_empty_strided", EFFECT_FILLS},
	{"aten.new_zeros", EFFECT_FILLS},
	{"aten.ones", EFFECT_FILLS},
	{"aten.ones_like", EFFECT_FILLS},
	{"aten.zero_", EFFECT_FILLS},
	{"aten.zeros", EFFECT_FILLS},
	{"aten.zeros_like", EFFECT_FILLS},
	{"aten._chunk_cat", EFFECT_COPIES},
	{"aten._foreach_copy_", EFFECT_COPIES_BACK},
	{"aten._to_copy", EFFECT_COPIES},
	{"aten.cat", EFFECT_COPIES},
	{"aten.clone", EFFECT_COPIES},
	{"aten.constant_pad_nd", EFFECT_COPIES},
	{"aten.copy_", EFFECT_COPIES_BACK},
	{"aten.narrow_copy", EFFECT_COPIES},
	{"aten.slice_copy", EFFECT_COPIES},
	{"aten.split_copy", EFFECT_COPIES_ON},
	{"aten.split_with_sizes_copy", EFFECT_COPIES_ON},
	{"aten.stack", EFFECT_COPIES},
	{"aten.view_copy", EFFECT_COPIES},
	{"aten._foreach_div_", EFFECT_SCALES},
	{"aten._foreach_mul_", EFFECT_SCALES},
	{"aten.div", EFFECT_SCALES},
	{"aten.div_", EFFECT_SCALES},
	{"aten.mul", EFFECT_SCALES},
	{"aten.mul_", EFFECT_SCALES},
};

/* A number that is an argument is wrapped in a storage of no more. */
#define NUMBER_BYTES 16

#define NO_COLLECTIVE NONE

/* What is known of an allocation so far. */
struct holding {
	uint32_t writer;       /* collective whose result is in it, NO_COLLECTIVE */
	uint32_t next_made;    /* next allocation of the same run, NONE */
	bool is_argument;      /* of a collective */
	bool is_result;        /* a rank's part of a sum: what was asked for */
	bool is_computed_with; /* or was made by computing */
	bool is_gathered;      /* it has what an all-gather wrote */
	bool is_untouched;     /* nothing but views since the writer */
	bool is_scaled;        /* by the last operator but views */
};

struct copy {
	uint32_t collective, allocation;
};

struct following {
	struct passes *passes;
	uint8_t *operator_effects; /* stb_ds: enum effect, for each name of an operator */
	struct holding *holdings;  /* stb_ds, for each allocation */
	uint32_t *first_made;      /* stb_ds: for each run, NONE */
	uint32_t *collective;      /* stb_ds: for each public run, NO_COLLECTIVE */
	struct copy *copies;       /* stb_ds, in order of what ran */
};

const char *communication_name(enum communication communication)
{
	static const char *const names[] = {
		[COMMUNICATION_NONE] = "", [COMMUNICATION_BUFFER] = "buffer", [COMMUNICATION_GATHERED] = "gathered"};

	return names[communication];
}

/* --- what operators do ---------------------------------------------------------------- */

static enum effect effect_of_name(const char *name)
{
	const char *overload = name ? strrchr(name, '.') : NULL;

	for (size_t i = 0; overload && i < sizeof(effects) / sizeof(effects[0]); i++)
		if (strlen(effects[i].name) == (size_t)(overload - name) &&
			!strncmp(effects[i].name, name, (size_t)(overload - name)))
			return effects[i].effect;
	return EFFECT_COMPUTES;
}

static bool name_is_out(const char *name)
{
	const char *overload = strrchr(name, '.');

	return overload && strstr(overload, "out");
}

/* Two blocks of more than a number, besides where the result goes: one is multiplied by the other. */
static bool run_scales(const struct following *following, uint32_t run)
{
	const struct passes *passes = following->passes;
	const struct target_state *target = passes->target;
	uint32_t large = 0;

	for (uint32_t i = passes->use_start[run]; i < passes->use_start[run + 1]; i++)
		large += allocation_shown_bytes(&target->allocations[passes->used[i]]) > NUMBER_BYTES;
	return large <= 1u + name_is_out(target->operator_names[target->runs[run].operator_]) ||
	       strstr(target->operator_names[target->runs[run].operator_], "_foreach_");
}

static enum effect run_effect(const struct following *following, uint32_t run)
{
	const struct run *it = &following->passes->target->runs[run];
	enum effect effect;

	if (it->source != SOURCE_OPERATOR)
		return EFFECT_FILLS;
	effect = it->operator_ < arrlenu(following->operator_effects) ? following->operator_effects[it->operator_]
	                                                              : EFFECT_COMPUTES;
	return effect == EFFECT_SCALES && !run_scales(following, run) ? EFFECT_COMPUTES : effect;
}

/* --- what ran, in order ------------------------------------------------------------------ */

static struct collective *collective_at(const struct following *following, uint32_t index)
{
	return &following->passes->target->result.collectives[index];
}

static bool sums(const struct collective *collective)
{
	return collective->operation == OPERATION_SUM;
}

static void collective_follow(struct following *following, uint32_t index)
{
	struct target_state *target = following->passes->target;
	struct collective *collective = collective_at(following, index);
	const uint32_t *inputs, *outputs;

	/* There may be no array yet. */
	if (!collective->input_blocks && !collective->output_blocks)
		return;
	inputs = target->collective_allocations + collective->blocks;
	outputs = inputs + collective->input_blocks;

	for (uint32_t i = 0; i < collective->input_blocks; i++) {
		if (inputs[i] == NONE)
			continue;
		following->holdings[inputs[i]].is_argument = true;
		if (sums(collective) && following->holdings[inputs[i]].is_scaled)
			collective->division = DIVISION_BEFORE;
	}
	for (uint32_t i = 0; i < collective->output_blocks; i++) {
		struct holding *holding = outputs[i] == NONE ? NULL : &following->holdings[outputs[i]];

		if (!holding)
			continue;
		holding->is_argument = holding->is_untouched = true;
		holding->is_result |= collective->kind == COLLECTIVE_REDUCE_SCATTER;
		holding->is_scaled = false;
		holding->writer = index;
		holding->is_gathered = collective->kind == COLLECTIVE_ALL_GATHER;
	}
}

static void copy_take(struct following *following, uint32_t from, uint32_t to)
{
	struct copy copy = {following->holdings[from].writer, to};

	if (from == to)
		return;
	if (copy.collective != NO_COLLECTIVE)
		arrput(following->copies, copy);
	following->holdings[to].is_gathered = following->holdings[from].is_gathered;
	following->holdings[to].writer = NO_COLLECTIVE;
}

/* Into arguments, from `start` up to `end`; where several are copied at once, those that are copied lie between. */
static void copies_into(struct following *following, uint32_t from, uint32_t start, uint32_t end)
{
	for (uint32_t i = start; i < end; i++)
		if (end - start == 1 || following->holdings[following->passes->used[i]].writer == NO_COLLECTIVE)
			copy_take(following, from, following->passes->used[i]);
}

/* What a run copies of one of its arguments. */
static void argument_copy(struct following *following, uint32_t run, enum effect effect, uint32_t source)
{
	const struct passes *passes = following->passes;
	const struct target_state *target = passes->target;
	uint32_t from = passes->used[source], start = passes->use_start[run], end = passes->use_start[run + 1];

	if (following->holdings[from].writer == NO_COLLECTIVE && !following->holdings[from].is_gathered)
		return;
	if (effect == EFFECT_COPIES_BACK)
		copies_into(following, from, start, source);
	else if (effect == EFFECT_COPIES_ON)
		copies_into(following, from, source + 1, end);
	else if (name_is_out(target->operator_names[target->runs[run].operator_]))
		copies_into(following, from, end - 1, end);
	for (uint32_t made = following->first_made[run]; made != NONE; made = following->holdings[made].next_made)
		if (!(target->allocations[made].flags & ALLOCATION_SCRATCH))
			copy_take(following, from, made);
}

static bool effect_copies(enum effect effect)
{
	return effect == EFFECT_COPIES || effect == EFFECT_COPIES_BACK || effect == EFFECT_COPIES_ON;
}

static void argument_follow(struct following *following, enum effect effect, struct holding *holding)
{
	if (effect == EFFECT_VIEWS)
		return;
	if (effect == EFFECT_SCALES && holding->is_untouched && holding->writer != NO_COLLECTIVE) {
		struct collective *collective = collective_at(following, holding->writer);

		if (sums(collective) && collective->division == DIVISION_NONE)
			collective->division = DIVISION_AFTER;
	}
	holding->is_untouched = false;
	holding->is_scaled = effect == EFFECT_SCALES;
	if (effect != EFFECT_COMPUTES)
		return;
	holding->is_computed_with = true;
	holding->writer = NO_COLLECTIVE;
}

static void run_follow(struct following *following, uint32_t run)
{
	const struct passes *passes = following->passes;
	enum effect effect = run_effect(following, run);

	for (uint32_t i = passes->use_start[run]; effect_copies(effect) && i < passes->use_start[run + 1]; i++)
		argument_copy(following, run, effect, i);
	for (uint32_t i = passes->use_start[run]; i < passes->use_start[run + 1]; i++)
		argument_follow(following, effect, &following->holdings[passes->used[i]]);
	for (uint32_t made = following->first_made[run]; made != NONE; made = following->holdings[made].next_made) {
		following->holdings[made].is_computed_with |= effect == EFFECT_COMPUTES;
		following->holdings[made].is_scaled = effect == EFFECT_SCALES;
	}
}

static void following_begin(struct following *following)
{
	struct passes *passes = following->passes;
	struct target_state *target = passes->target;
	size_t run_count = arrlenu(target->runs);

	arrzero(following->operator_effects, arrlenu(target->operator_names));
	for (size_t i = 0; i < arrlenu(target->operator_names); i++)
		following->operator_effects[i] = (uint8_t)effect_of_name(target->operator_names[i]);
	arrzero(following->first_made, run_count);
	for (size_t i = 0; i < run_count; i++)
		following->first_made[i] = NONE;
	arrzero(following->collective, arrlenu(target->result.runs));
	for (size_t i = 0; i < arrlenu(target->result.runs); i++)
		following->collective[i] = NO_COLLECTIVE;
	for (uint32_t i = 0; i < arrlenu(target->result.collectives); i++)
		if (target->result.collectives[i].run != RUN_NONE)
			following->collective[target->result.collectives[i].run] = i;
	arrzero(following->holdings, arrlenu(target->allocations));
	for (uint32_t i = (uint32_t)arrlenu(target->allocations); i-- > 0;) {
		uint32_t run = target->allocations[i].run == NONE ? NONE : passes->resolved[target->allocations[i].run];

		following->holdings[i] = (struct holding){.writer = NO_COLLECTIVE, .next_made = NONE};
		if (run == NONE)
			continue;
		following->holdings[i].next_made = following->first_made[run];
		following->first_made[run] = i;
	}
}

/* --- results -------------------------------------------------------------------------------- */

static bool is_held_by_model(const struct block *block)
{
	switch (block->category) {
	case CATEGORY_PARAMETER:
	case CATEGORY_BUFFER:
	case CATEGORY_GRADIENT:
	case CATEGORY_OPTSTATE:
		return true;
	default:
		return false;
	}
}

static bool is_made_by_resize(const struct passes *passes, uint32_t allocation)
{
	uint32_t run = passes->target->allocations[allocation].run;

	return run != NONE && passes->target->runs[run].source == SOURCE_RESIZE;
}

static void blocks_classify(struct following *following)
{
	struct passes *passes = following->passes;
	struct target_state *target = passes->target;

	for (size_t i = 0; i < arrlenu(target->moments); i++) {
		uint32_t row = passes->row[target->moments[i].allocation];

		if (target->moments[i].by_resize && row != NONE)
			target->result.blocks[row].resized = true;
	}
	for (uint32_t i = 0; i < arrlenu(following->holdings); i++) {
		const struct holding *holding = &following->holdings[i];
		struct block *block = passes->row[i] == NONE ? NULL : &target->result.blocks[passes->row[i]];

		if (!block)
			continue;
		if (holding->is_gathered &&
			(block->resized || block->category == CATEGORY_PARAMETER || is_made_by_resize(passes, i)))
			block->communication = COMMUNICATION_GATHERED;
		else if (holding->is_argument && !holding->is_result && !holding->is_computed_with &&
			 !is_held_by_model(block))
			block->communication = COMMUNICATION_BUFFER;
	}
}

static int copy_compare(const void *left, const void *right)
{
	const struct copy *a = left, *b = right;

	if (a->collective != b->collective)
		return a->collective < b->collective ? -1 : 1;
	return (a->allocation > b->allocation) - (a->allocation < b->allocation);
}

/* A row of a collective; false when it is none, or was taken before. */
static bool row_take(struct rank *rank, uint32_t index, uint32_t *taken, uint32_t row)
{
	if (row == NONE || taken[row] == index + 1)
		return false;
	taken[row] = index + 1;
	if (rank->blocks[row].communication != COMMUNICATION_NONE)
		rank->collectives[index].communication_bytes += rank->blocks[row].bytes;
	return true;
}

/* The rows of each collective, from one list of allocations to another. */
static void blocks_publish(struct following *following)
{
	const struct passes *passes = following->passes;
	struct rank *rank = &passes->target->result;
	uint32_t *taken = NULL;
	size_t copy = 0;

	arrzero(taken, arrlenu(rank->blocks));
	if (following->copies)
		qsort(following->copies, arrlenu(following->copies), sizeof(*following->copies), copy_compare);
	for (uint32_t i = 0; i < arrlenu(rank->collectives); i++) {
		struct collective *collective = &rank->collectives[i];
		uint32_t first = collective->blocks;

		collective->blocks = (uint32_t)arrlenu(rank->collective_blocks);
		for (uint32_t j = 0; j < collective->input_blocks + collective->output_blocks; j++) {
			uint32_t allocation = passes->target->collective_allocations[first + j];
			uint32_t row = allocation == NONE ? NONE : passes->row[allocation];

			arrput(rank->collective_blocks, row);
			row_take(rank, i, taken, row);
		}
		for (; copy < arrlenu(following->copies) && following->copies[copy].collective == i; copy++) {
			uint32_t row = passes->row[following->copies[copy].allocation];

			if (!row_take(rank, i, taken, row))
				continue;
			arrput(rank->collective_blocks, row);
			collective->copy_blocks++;
		}
	}
	arrfree(taken);
}

/* --- steps ---------------------------------------------------------------------------------- */

/* Bytes that come or go. */
struct edge {
	uint64_t time_ns, bytes;
	bool is_end;
};

static int edge_compare(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return (int)b->is_end - (int)a->is_end;
}

static struct edge *edges_of(const struct rank *rank)
{
	struct edge *edges = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		struct edge start = {block->start_time_ns, block->bytes, false};
		struct edge end = {block->end_time_ns, block->bytes, true};

		if (block->communication == COMMUNICATION_NONE)
			continue;
		arrput(edges, start);
		if (!block->persistent)
			arrput(edges, end);
	}
	if (edges)
		qsort(edges, arrlenu(edges), sizeof(*edges), edge_compare);
	return edges;
}

static void steps_fill(struct rank *rank)
{
	struct edge *edges = edges_of(rank);
	uint64_t live = 0;
	size_t edge = 0;

	for (size_t i = 0; i < arrlenu(rank->steps); i++) {
		struct step *step = &rank->steps[i];
		/* The last one has what happened at its very end. */
		uint64_t end = step->end_time_ns + (i + 1 == arrlenu(rank->steps));

		for (; edge < arrlenu(edges) && edges[edge].time_ns < step->start_time_ns; edge++)
			live += edges[edge].is_end ? -edges[edge].bytes : edges[edge].bytes;
		step->communication_peak_bytes = live;
		for (; edge < arrlenu(edges) && edges[edge].time_ns < end; edge++) {
			live += edges[edge].is_end ? -edges[edge].bytes : edges[edge].bytes;
			step->communication_bytes += edges[edge].is_end ? 0 : edges[edge].bytes;
			if (live > step->communication_peak_bytes)
				step->communication_peak_bytes = live;
		}
	}
	arrfree(edges);
}

void passes_communicate(struct passes *passes)
{
	struct following following = {.passes = passes};
	struct target_state *target = passes->target;

	if (!arrlenu(target->result.collectives))
		return;
	following_begin(&following);
	for (uint32_t run = 0; run < arrlenu(target->runs); run++) {
		uint32_t public_run = passes->public_run[run];

		if (target->runs[run].state != RUN_RAN)
			continue;
		if (public_run != NONE && following.collective[public_run] != NO_COLLECTIVE)
			collective_follow(&following, following.collective[public_run]);
		else
			run_follow(&following, run);
	}
	blocks_classify(&following);
	blocks_publish(&following);
	steps_fill(&target->result);
	arrfree(following.operator_effects);
	arrfree(following.holdings);
	arrfree(following.first_made);
	arrfree(following.collective);
	arrfree(following.copies);
}
