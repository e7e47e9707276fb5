// SPDX-License-Identifier: BSD-2-Clause
/*
 * Gradients that lie there between the optimizer's step, which used them last,
 * and the backward pass that makes new ones. That an operator sets them to zero
 * meanwhile is no use of them.
 */
#include "survey.h"

#include <string.h>

#include "containers/containers.h"
#include "words.h"

struct idle_gradients {
	uint64_t bytes, blocks; /* at the peak */
	uint64_t zeroed, freed; /* at any time: set to zero meanwhile; freed before the next backward pass */
	uint32_t zeroing_stack; /* of an operator that does it, 0: none */
	struct tally lines;
	struct gap *gaps; /* stb_ds */
	size_t *rows;     /* stb_ds: of the blocks */
};

static bool is_zeroing(const struct rank *rank, const struct operator_run *run)
{
	const char *name = rank->operator_names[run->name];

	return !strncmp(name, "aten.zero_.", strlen("aten.zero_.")) ||
	       !strncmp(name, "aten._foreach_zero_.", strlen("aten._foreach_zero_."));
}

/* What happens to one gradient between an optimizer's step and its next use, or its end. */
struct idle {
	uint32_t from; /* 0: it is in use */
	bool zeroed;
	uint32_t zeroing_stack;
};

static void idle_end(const struct scene *scene, const struct block *block, const struct idle *idle, uint32_t until,
	bool freed, struct idle_gradients *all)
{
	struct gap gap = {idle->from, until, block_held_bytes(block)};
	uint32_t peak = scene->device->peak_order;

	if (!idle->from || idle->from >= until)
		return;
	arrput(all->gaps, gap);
	all->zeroed += idle->zeroed;
	all->freed += freed && !idle->zeroed;
	all->zeroing_stack = idle->zeroed ? idle->zeroing_stack : all->zeroing_stack;
	if (peak < idle->from || peak >= until)
		return;
	all->bytes += gap.bytes;
	all->blocks++;
	tally_add(&all->lines, survey_line(scene->survey, block), block, gap.bytes, 0);
	arrput(all->rows, (size_t)(block - scene->rank->blocks));
}

static void gradient_follow(const struct scene *scene, const struct block *block, struct idle_gradients *all)
{
	struct idle idle = {0};

	for (uint32_t i = 0; i < block->user_count; i++) {
		const struct operator_run *run = survey_run(scene->survey, scene->rank->users[block->first_user + i]);

		if (!run)
			continue;
		if (is_zeroing(scene->rank, run)) {
			idle.zeroed = true;
			idle.zeroing_stack = run->stack;
			continue;
		}
		if (run->phase != PHASE_OPTIMIZER) {
			idle_end(scene, block, &idle, run->first_order, false, all);
			idle = (struct idle){0};
			continue;
		}
		/* Before the step is over nobody can let go of it. */
		idle = (struct idle){.from = scene->survey->step_ends[run->step]};
	}
	idle_end(scene, block, &idle, block->last_order, !block->persistent, all);
}

static void gradients_tell(const struct scene *scene, struct idle_gradients *all, struct finding *finding)
{
	const struct frame *zeroing = all->zeroing_stack ? stack_line(&scene->rank->stacks[all->zeroing_stack]) : NULL;
	char bytes[SIZE_TEXT_BYTES], saved[SIZE_TEXT_BYTES];

	size_format(saved, finding->saves_bytes);
	finding->text =
		sentence("%s of gradients (%llu block%s) lay there at the peak, between the optimizer's step that used "
			 "them last and the next backward pass.",
			size_format(bytes, all->bytes), (unsigned long long)all->blocks, all->blocks > 1 ? "s" : "");
	if (all->zeroed && zeroing)
		finding->advice =
			sentence("They are set to zero at %s:%u; zero_grad(set_to_none=True) there lets go of them "
				 "instead: the peak would be %s lower.",
				zeroing->file, zeroing->line, saved);
	else if (all->freed)
		finding->advice =
			sentence("Call zero_grad(set_to_none=True) right behind the optimizer's step, not behind the "
				 "next forward pass: the peak would be %s lower.",
				saved);
	else
		finding->advice =
			sentence("Nothing lets go of them: zero_grad(set_to_none=True) behind the optimizer's step "
				 "would make the peak %s lower.",
				saved);
	tally_tell_lines(&all->lines, scene->survey, finding);
	finding_number(finding, "blocks", all->blocks);
	finding_number(finding, "freed", all->freed);
	finding_number(finding, "zeroed", all->zeroed);
}

/* Gradients of DistributedDataParallel lie in its buckets, which stay. */
static bool has_buckets(const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->collectives); i++)
		if (rank->collectives[i].in_bucket)
			return true;
	return false;
}

void find_gradients(struct scene *scene, struct finding **findings)
{
	struct idle_gradients all = {0};
	struct finding *finding;
	uint64_t saves;

	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];

		if (block->device == scene->index && block->category == CATEGORY_GRADIENT && !scene->survey->claimed[i])
			gradient_follow(scene, block, &all);
	}
	saves = scene_saves(scene, all.gaps);
	arrfree(all.gaps);
	if (!scene_is_told(scene, all.bytes) || !scene_is_told(scene, saves)) {
		tally_free(&all.lines);
		arrfree(all.rows);
		return;
	}
	finding = finding_add(findings, FINDING_GRADIENTS, scene);
	finding->bytes = all.bytes;
	finding->saves_bytes = saves;
	finding->severity = scene_severity(scene, saves);
	if (has_buckets(scene->rank))
		finding->confidence = CONFIDENCE_LOW;
	gradients_tell(scene, &all, finding);
	survey_claim(scene->survey, all.rows);
	arrfree(all.rows);
}
