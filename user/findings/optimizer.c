// SPDX-License-Identifier: BSD-2-Clause
/*
 * A peak that the optimizer's step makes with what it computes for itself: its
 * multi-tensor form (foreach) makes an intermediate of every parameter at once.
 */
#include "survey.h"

#include <string.h>

#include "containers/containers.h"
#include "words.h"

#define FOREACH "aten._foreach_"

/* Made in an optimizer's step by an operator over all parameters, and gone after it. */
static bool is_intermediate(const struct scene *scene, const struct block *block)
{
	return block->device == scene->index && block->phase == PHASE_OPTIMIZER && !block->persistent &&
	       !*block->owner && !strncmp(scene->rank->operator_names[block->name], FOREACH, strlen(FOREACH));
}

void find_optimizer(struct scene *scene, struct finding **findings)
{
	const struct rank *rank = scene->rank;
	struct tally lines = {0};
	struct gap *gaps = NULL;
	char size[SIZE_TEXT_BYTES], saved[SIZE_TEXT_BYTES];
	uint64_t bytes = 0, blocks = 0, saves;
	size_t *rows = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		struct gap gap = {block->first_order, block->last_order, block_held_bytes(block)};

		if (!is_intermediate(scene, block))
			continue;
		arrput(gaps, gap);
		arrput(rows, i);
		if (!block_alive_at(block, scene->device->peak_order))
			continue;
		bytes += gap.bytes;
		blocks++;
		tally_add(&lines, survey_line(scene->survey, block), block, gap.bytes, 0);
	}
	saves = scene_saves(scene, gaps);
	if (scene_is_told(scene, bytes) && scene_is_told(scene, saves)) {
		struct finding *finding = finding_add(findings, FINDING_OPTIMIZER, scene);

		finding->bytes = bytes;
		finding->saves_bytes = saves;
		finding->severity = scene_severity(scene, saves);
		finding->text = sentence(
			"The optimizer's step makes the peak: %s of its intermediates (%llu block%s) lie beside "
			"parameters, gradients and state.",
			size_format(size, bytes), (unsigned long long)blocks, blocks > 1 ? "s" : "");
		finding->advice =
			sentence("foreach=False, or fused=True, goes without most of them: the peak would be up to %s "
				 "lower.",
				size_format(saved, saves));
		tally_tell_lines(&lines, scene->survey, finding);
		finding_number(finding, "blocks", blocks);
		survey_claim(scene->survey, rows);
	}
	tally_free(&lines);
	arrfree(gaps);
	arrfree(rows);
}
