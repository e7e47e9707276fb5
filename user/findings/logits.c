// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a model puts out, kept though the loss is computed: a block of a forward
 * pass that went into the loss, is not wanted by the backward pass, and is there
 * when that begins. With a large vocabulary it is the largest block of all.
 */
#include "survey.h"

#include <string.h>

#include "containers/containers.h"
#include "words.h"

/* Operators that a loss begins with (torch/nn/functional.py, as they reach a backend). */
static const char *const LOSS_OPERATORS[] = {"aten._log_softmax.", "aten.log_softmax.", "aten.logsumexp.",
	"aten.nll_loss_forward.", "aten.nll_loss2d_forward.", "aten.mse_loss.", "aten.smooth_l1_loss.",
	"aten.huber_loss.", "aten.binary_cross_entropy.", "aten.binary_cross_entropy_with_logits.", "aten.kl_div.",
	"aten._ctc_loss.", "aten.soft_margin_loss.", "aten.multi_margin_loss.", "aten.multilabel_margin_loss_forward."};

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool is_loss(const struct rank *rank, const struct operator_run *run)
{
	const char *name = rank->operator_names[run->name];

	for (size_t i = 0; i < sizeof(LOSS_OPERATORS) / sizeof(*LOSS_OPERATORS); i++)
		if (starts_with(name, LOSS_OPERATORS[i]))
			return true;
	return false;
}

static bool is_conversion(const struct rank *rank, const struct operator_run *run)
{
	return starts_with(rank->operator_names[run->name], "aten._to_copy.");
}

/* The first row that a task made; rows come by start. */
static size_t rows_from(const struct rank *rank, int64_t task)
{
	size_t low = 0, high = arrlenu(rank->blocks);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->blocks[middle].start < task)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Does a loss use it, or its copy in another type? */
static bool goes_into_loss(const struct survey *survey, const struct block *block, bool through_copy)
{
	const struct rank *rank = survey->rank;

	for (uint32_t i = 0; i < block->user_count; i++) {
		int64_t task = rank->users[block->first_user + i];
		const struct operator_run *run = survey_run(survey, task);

		if (!run)
			continue;
		if (is_loss(rank, run))
			return true;
		if (!through_copy || !is_conversion(rank, run))
			continue;
		for (size_t row = rows_from(rank, task); row < arrlenu(rank->blocks) && rank->blocks[row].start == task;
			row++)
			if (goes_into_loss(survey, &rank->blocks[row], false))
				return true;
	}
	return false;
}

/* Where backward passes begin, in orders: stb_ds. The engine runs them on a thread of its own, or the program's. */
static uint32_t *passes_find(const struct rank *rank)
{
	uint32_t *begins = NULL;
	bool before = false;

	for (size_t i = 0; i < arrlenu(rank->runs); i++) {
		const struct operator_run *run = &rank->runs[i];
		bool backward = run->phase == PHASE_BACKWARD || run->phase == PHASE_RECOMPUTE;

		if (backward && !before)
			arrput(begins, run->first_order);
		before = backward;
	}
	return begins;
}

/* The first backward pass that begins behind `order`, as an index; the number of them: none. */
static size_t pass_after(const uint32_t *begins, uint32_t order)
{
	size_t low = 0, high = arrlenu(begins);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (begins[middle] < order)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_used_last_in_forward(const struct survey *survey, const struct block *block)
{
	const struct operator_run *run =
		block->user_count ? survey_run(survey, survey->rank->users[block->first_user + block->user_count - 1])
				  : NULL;

	return run && run->phase == PHASE_FORWARD;
}

struct logits {
	uint64_t *bytes;  /* stb_ds: at the begin of each backward pass */
	struct gap *gaps; /* stb_ds */
	struct tally lines;
	size_t *rows; /* stb_ds: of the blocks */
};

static void logits_add(const struct scene *scene, size_t index, const uint32_t *begins, struct logits *all)
{
	const struct survey *survey = scene->survey;
	const struct block *block = &scene->rank->blocks[index];
	uint32_t unused = survey_unused_from(survey, block);
	struct gap gap = {unused, block->last_order, block_held_bytes(block)};
	/* Its last user has made what it made then; the pass may begin right behind that. */
	size_t pass = pass_after(begins, unused - 1);

	if (block->device != scene->index || block->persistent || block->phase != PHASE_FORWARD ||
		block->category != CATEGORY_ACTIVATION || survey->claimed[index] || pass == arrlenu(begins) ||
		begins[pass] >= block->last_order || !is_used_last_in_forward(survey, block) ||
		!goes_into_loss(survey, block, true))
		return;
	arrput(all->gaps, gap);
	all->bytes[pass] += gap.bytes;
	arrput(all->rows, index);
	tally_add(&all->lines, survey_line(survey, block), block, gap.bytes,
		gap.bytes * survey_held_tasks(survey, block));
}

void find_logits(struct scene *scene, struct finding **findings)
{
	uint32_t *begins = passes_find(scene->rank);
	struct logits all = {0};
	char size[SIZE_TEXT_BYTES], saved[SIZE_TEXT_BYTES];
	uint64_t bytes = 0, saves;
	struct finding *finding;

	arrzero(all.bytes, arrlenu(begins));
	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++)
		logits_add(scene, i, begins, &all);
	for (size_t i = 0; i < arrlenu(begins); i++)
		bytes = all.bytes[i] > bytes ? all.bytes[i] : bytes;
	saves = scene_saves(scene, all.gaps);
	if (scene_is_told(scene, bytes) && scene_is_told(scene, saves)) {
		finding = finding_add(findings, FINDING_LOGITS, scene);
		finding->bytes = bytes;
		finding->saves_bytes = saves;
		finding->severity = scene_severity(scene, saves);
		finding->text = sentence(
			"%s that went into the loss were kept when the backward pass began, which does not use them "
			"(logits).",
			size_format(size, bytes));
		finding->advice = sentence(
			"Let go of them before backward() (del, or compute the loss in the function that makes "
			"them): the peak would be %s lower.",
			size_format(saved, saves));
		tally_tell_lines(&all.lines, scene->survey, finding);
		finding_number(finding, "blocks", arrlenu(all.rows));
		survey_claim(scene->survey, all.rows);
	}
	tally_free(&all.lines);
	arrfree(all.rows);
	arrfree(all.gaps);
	arrfree(all.bytes);
	arrfree(begins);
}
