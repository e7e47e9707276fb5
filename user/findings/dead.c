// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory that nothing uses any more and somebody holds: blocks that were dead at
 * the peak and went later, and blocks that stay though no step uses them.
 */
#include "survey.h"

#include "containers/containers.h"
#include "words.h"

/* Of the peak that must be saved. PyTorch itself holds a little longer than needed, in checkpoints and hooks. */
#define DEAD_SHARE 0.02

/* A block that has a release at all, and not right after its last use. */
static bool is_held_after_use(const struct scene *scene, size_t index)
{
	const struct block *block = &scene->rank->blocks[index];

	return block->device == scene->index && survey_held_tasks(scene->survey, block) > 1;
}

static bool is_dead_at_peak(const struct scene *scene, size_t index)
{
	const struct block *block = &scene->rank->blocks[index];

	return block_alive_at(block, scene->device->peak_order) && !scene->survey->claimed[index] &&
	       survey_unused_from(scene->survey, block) <= scene->device->peak_order;
}

struct dead {
	uint64_t bytes, blocks;
	struct tally lines;
	struct gap *gaps; /* stb_ds */
};

static void dead_find(const struct scene *scene, struct dead *dead)
{
	const struct survey *survey = scene->survey;
	bool *of_dead_line = NULL;

	arrzero(of_dead_line, arrlenu(survey->lines));
	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];

		if (!is_held_after_use(scene, i) || !is_dead_at_peak(scene, i))
			continue;
		of_dead_line[survey_line(survey, block)] = true;
		dead->bytes += block_held_bytes(block);
		dead->blocks++;
	}
	/* What these lines hold at other times is told too, and gone without it. */
	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];
		struct gap gap = {survey_unused_from(survey, block), block->last_order, block_held_bytes(block)};

		if (!is_held_after_use(scene, i) || survey->claimed[i] || !of_dead_line[survey_line(survey, block)])
			continue;
		tally_add(&dead->lines, survey_line(survey, block), block, block->bytes,
			block->bytes * survey_held_tasks(survey, block));
		arrput(dead->gaps, gap);
	}
	arrfree(of_dead_line);
}

void find_dead(struct scene *scene, struct finding **findings)
{
	struct dead dead = {0};
	char bytes[SIZE_TEXT_BYTES], saved[SIZE_TEXT_BYTES];
	struct finding *finding;
	uint64_t saves;

	if (!scene->survey->users_known)
		return;
	dead_find(scene, &dead);
	saves = scene_saves(scene, dead.gaps);
	arrfree(dead.gaps);
	if ((double)saves < DEAD_SHARE * (double)scene->peak_bytes || !saves) {
		tally_free(&dead.lines);
		return;
	}
	finding = finding_add(findings, FINDING_DEAD, scene);
	finding->bytes = dead.bytes;
	finding->saves_bytes = saves;
	finding->severity = scene_severity(scene, saves);
	/* Code that takes a tensor's memory without an operator of PyTorch is not seen to use it. */
	finding->confidence = finding->confidence == CONFIDENCE_HIGH ? CONFIDENCE_MEDIUM : finding->confidence;
	finding->text =
		sentence("%s at the peak were dead but held: %llu block%s had been used for the last time before.",
			size_format(bytes, dead.bytes), (unsigned long long)dead.blocks, dead.blocks > 1 ? "s" : "");
	finding->advice =
		sentence("Let go of them after their last use (del, or an end of the function whose variable holds "
			 "them): the peak would be %s lower.",
			size_format(saved, saves));
	tally_tell_lines(&dead.lines, scene->survey, finding);
	finding_number(finding, "blocks", dead.blocks);
}

/* --- what stays ----------------------------------------------------------------------------------- */

#define IDLE_STEPS 3 /* complete ones without a use */

/* Complete steps after the one in which a block was used last, or made. */
static uint32_t steps_unused(const struct scene *scene, const struct block *block)
{
	const struct rank *rank = scene->rank;
	const struct operator_run *run =
		block->user_count ? survey_run(scene->survey, rank->users[block->first_user + block->user_count - 1])
				  : &rank->runs[block->producer];
	uint32_t step = run && !(block->preexisting && !block->user_count) ? run->step + 1 : 0;

	return rank->step_count > step ? rank->step_count - step : 0;
}

void find_idle(struct scene *scene, struct finding **findings)
{
	struct survey *survey = scene->survey;
	struct tally lines = {0};
	struct gap *gaps = NULL;
	char bytes[SIZE_TEXT_BYTES], saved[SIZE_TEXT_BYTES];
	uint64_t sum = 0, blocks = 0, saves;
	struct finding *finding;

	if (!survey->users_known)
		return;
	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];
		struct gap gap = {survey_unused_from(survey, block), block->last_order, block_held_bytes(block)};

		if (block->device != scene->index || !block->persistent || block->remainder || survey->claimed[i] ||
			!block_alive_at(block, scene->device->peak_order) || steps_unused(scene, block) < IDLE_STEPS)
			continue;
		sum += block_held_bytes(block);
		blocks++;
		tally_add(&lines, survey_line(survey, block), block, block_held_bytes(block), 0);
		arrput(gaps, gap);
	}
	saves = scene_saves(scene, gaps);
	arrfree(gaps);
	if ((double)sum < SHARE_WARNING * (double)scene->peak_bytes || !scene_is_told(scene, saves)) {
		tally_free(&lines);
		return;
	}
	finding = finding_add(findings, FINDING_IDLE, scene);
	finding->bytes = sum;
	finding->saves_bytes = saves;
	finding->severity = SEVERITY_NOTE;
	/* It may be wanted later, once an epoch. */
	finding->confidence = CONFIDENCE_LOW;
	finding->text = sentence("%s stay though no step used them for the last %d steps or more: %llu block%s.",
		size_format(bytes, sum), IDLE_STEPS, (unsigned long long)blocks, blocks > 1 ? "s" : "");
	finding->advice =
		sentence("If they are not wanted again (a checkpoint that was loaded, an old optimizer), let go of "
			 "them, or move them to the CPU: the peak would be %s lower.",
			size_format(saved, saves));
	tally_tell_lines(&lines, survey, finding);
	finding_number(finding, "blocks", blocks);
}
