// SPDX-License-Identifier: BSD-2-Clause
/*
 * Recomputation that costs time and lowers no peak. What the peak would be
 * without it is worked out: each block that a recomputation made for the backward
 * pass is the twin of one of the forward pass, made by the same operator at the
 * same place; without recomputation the twin would have stayed until then.
 */
#include "survey.h"

#include <inttypes.h>

#include "containers/containers.h"
#include "words.h"

#define TIME_SHARE 0.03 /* of the steps: less is not worth a word */
#define HELP_SHARE 0.02 /* of the peak without it: lowered by less, it did not help */

/* What twins have in common. Texts of the model are there once. */
struct twin_key {
	const char *module;
	const char *file;
	uint64_t bytes;
	uint32_t line, name;
};

struct twin {
	struct twin_key key;
	size_t *value; /* stb_ds: rows of the forward pass, the youngest last */
};

static struct twin_key key_of(const struct rank *rank, const struct block *block)
{
	const struct frame *leaf = stack_leaf(&rank->stacks[block->stack]);
	struct twin_key key;

	/* It is compared as bytes. */
	memset(&key, 0, sizeof(key));
	key.module = rank->runs[block->producer].module;
	key.file = leaf ? leaf->file : NULL;
	key.line = leaf ? leaf->line : 0;
	key.bytes = block_held_bytes(block);
	key.name = block->name;
	return key;
}

static bool backward_uses(const struct survey *survey, const struct block *block)
{
	for (uint32_t i = block->user_count; i > 0; i--) {
		const struct operator_run *run = survey_run(survey, survey->rank->users[block->first_user + i - 1]);

		if (run && run->phase == PHASE_BACKWARD)
			return true;
	}
	return false;
}

/* What would be different without recomputation, as bytes that are not there now: they count the other way round. */
struct without {
	struct gap *gaps; /* stb_ds: of blocks that would not have been made */
	struct gap *more; /* stb_ds: of twins that would have stayed */
	uint64_t bytes, blocks;
	struct tally lines;
};

static void block_recomputed(
	struct scene *scene, const struct block *block, struct twin **twins, struct without *without)
{
	struct twin_key key = key_of(scene->rank, block);
	ptrdiff_t at = hmgeti(*twins, key);
	struct gap gap = {block->first_order, block->last_order, block_held_bytes(block)};
	const struct block *twin;

	if (at < 0 || !arrlenu((*twins)[at].value))
		return;
	twin = &scene->rank->blocks[arrpop((*twins)[at].value)];
	arrput(without->gaps, gap);
	without->bytes += gap.bytes;
	without->blocks++;
	tally_add(&without->lines, survey_line(scene->survey, block), block, gap.bytes, 0);
	/* From where the twin went, until the recomputed one went. One that stayed until then was not given up. */
	if (twin->last_order < block->last_order && backward_uses(scene->survey, block)) {
		gap.from = twin->last_order;
		arrput(without->more, gap);
	}
}

static void without_find(struct scene *scene, struct without *without)
{
	const struct rank *rank = scene->rank;
	struct twin *twins = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];

		if (block->device != scene->index)
			continue;
		if (block->phase == PHASE_RECOMPUTE) {
			block_recomputed(scene, block, &twins, without);
		} else if (block->phase == PHASE_FORWARD) {
			struct twin_key key = key_of(rank, block);
			ptrdiff_t at = hmgeti(twins, key);
			size_t *rows = at < 0 ? NULL : twins[at].value;

			arrput(rows, i);
			hmput(twins, key, rows);
		}
	}
	for (size_t i = 0; i < hmlenu(twins); i++)
		arrfree(twins[i].value);
	hmfree(twins);
}

/* The peak as it would have been. */
static uint64_t peak_without(const struct scene *scene, const struct without *without)
{
	size_t count = arrlenu(scene->totals);
	uint64_t *change = NULL, more = 0, peak = 0;

	arrzero(change, count + 1);
	for (size_t i = 0; i < arrlenu(without->gaps); i++) {
		change[without->gaps[i].from] -= without->gaps[i].bytes;
		change[without->gaps[i].until < count ? without->gaps[i].until : count] += without->gaps[i].bytes;
	}
	for (size_t i = 0; i < arrlenu(without->more); i++) {
		change[without->more[i].from] += without->more[i].bytes;
		change[without->more[i].until < count ? without->more[i].until : count] -= without->more[i].bytes;
	}
	/* Unsigned numbers wrap around; the sum is right. */
	for (size_t order = 0; order < count; order++) {
		more += change[order];
		if (scene->totals[order] + more > peak && (int64_t)(scene->totals[order] + more) > 0)
			peak = scene->totals[order] + more;
	}
	arrfree(change);
	return peak;
}

struct cost {
	uint64_t recompute_ns, steps_ns, steps;
};

static struct cost cost_of(const struct rank *rank)
{
	struct cost cost = {0};

	for (size_t i = 0; i < arrlenu(rank->steps); i++) {
		if (!rank->steps[i].complete)
			continue;
		cost.recompute_ns += rank->steps[i].phase_ns[PHASE_RECOMPUTE];
		cost.steps_ns += step_duration(&rank->steps[i]);
		cost.steps++;
	}
	return cost;
}

static void recompute_tell(
	struct scene *scene, struct without *without, uint64_t peak, struct cost cost, struct finding *finding)
{
	uint64_t lower = peak > scene->peak_bytes ? peak - scene->peak_bytes : 0;
	char size[SIZE_TEXT_BYTES], now[SIZE_TEXT_BYTES], then[SIZE_TEXT_BYTES];

	finding->bytes = lower;
	finding->severity = SEVERITY_WARNING;
	finding->confidence = finding->confidence == CONFIDENCE_HIGH ? CONFIDENCE_MEDIUM : finding->confidence;
	finding->text =
		sentence("Recomputation takes %.0f %% of the steps' time and hardly lowers the peak: it would be %s "
			 "without it, and is %s.",
			percent_of(cost.recompute_ns, cost.steps_ns), size_format(then, peak),
			size_format(now, scene->peak_bytes));
	finding->advice = sentence(
		"Checkpoint smaller pieces (each layer, not the whole model), or nothing; %s were made a second "
		"time.",
		size_format(size, without->bytes));
	tally_tell_lines(&without->lines, scene->survey, finding);
	finding_number(finding, "peak_without_bytes", peak);
	finding_number(finding, "recompute_ns", cost.recompute_ns);
	finding_number(finding, "recomputed_blocks", without->blocks);
	finding_number(finding, "recomputed_bytes", without->bytes);
	finding_number(finding, "steps_ns", cost.steps_ns);
}

void find_recompute(struct scene *scene, struct finding **findings)
{
	struct cost cost = cost_of(scene->rank);
	struct without without = {0};
	uint64_t peak;

	if (!cost.steps || (double)cost.recompute_ns < TIME_SHARE * (double)cost.steps_ns)
		return;
	without_find(scene, &without);
	peak = peak_without(scene, &without);
	if (without.blocks && (double)peak < (double)scene->peak_bytes / (1 - HELP_SHARE))
		recompute_tell(scene, &without, peak, cost, finding_add(findings, FINDING_RECOMPUTE, scene));
	tally_free(&without.lines);
	arrfree(without.gaps);
	arrfree(without.more);
}
