// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lines that hold more at the end of each step than at that of the one before.
 * What the first step makes is no growth: optimizers and caches begin there.
 */
#include "survey.h"

#include <stdlib.h>

#include "containers/containers.h"
#include "words.h"

#define GROWTH_STEPS 3    /* as many steps must have grown at least */
#define GROWTH_SHARE 0.8  /* and so much of them */
#define GROWTH_BYTES 1024 /* a step: Python keeps smaller things that are none of a tensor's */
#define SURE_STEPS 6

/* Bytes at the ends of complete steps: of a line. */
struct growing {
	uint32_t line;
	uint64_t growth;
	uint32_t grew; /* steps */
};

/* The first end of a complete step that is not before a time; `count`: none. */
static size_t end_after(const uint64_t *ends, size_t count, uint64_t time_ns)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ends[middle] < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t *ends_find(const struct rank *rank)
{
	uint64_t *ends = NULL;

	for (size_t i = 0; i < arrlenu(rank->steps); i++)
		if (rank->steps[i].complete)
			arrput(ends, rank->steps[i].end_time_ns);
	return ends;
}

/* Where a block is counted: from the first end of a step that it saw to the first that it did not. */
static bool block_ends(const struct block *block, const uint64_t *ends, size_t *from, size_t *until)
{
	size_t count = arrlenu(ends);

	*from = end_after(ends, count, block->start_time_ns);
	*until = block->end_time_ns == UINT64_MAX ? count : end_after(ends, count, block->end_time_ns);
	return *from < *until;
}

/* For each line, one after another, how many bytes it has at each end: stb_ds. */
static int64_t *bytes_find(const struct scene *scene, const uint64_t *ends)
{
	size_t count = arrlenu(ends), lines = arrlenu(scene->survey->lines), from, until;
	int64_t *bytes = NULL;

	arrzero(bytes, lines * (count + 1));
	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];
		int64_t *row = bytes + survey_line(scene->survey, block) * (count + 1);

		if (block->device != scene->index || !block_ends(block, ends, &from, &until))
			continue;
		row[from] += (int64_t)block_held_bytes(block);
		row[until] -= (int64_t)block_held_bytes(block);
	}
	for (size_t line = 0; line < lines; line++)
		for (size_t end = 1; end < count; end++)
			bytes[line * (count + 1) + end] += bytes[line * (count + 1) + end - 1];
	return bytes;
}

/* Does it grow, to the last step? */
static bool row_grows(const int64_t *row, size_t count, struct growing *growing)
{
	int64_t growth = row[count - 1] - row[1];

	for (size_t end = 2; end < count; end++)
		growing->grew += row[end] > row[end - 1];
	growing->growth = growth > 0 ? (uint64_t)growth : 0;
	return growing->grew >= GROWTH_STEPS - 1 && growing->grew >= GROWTH_SHARE * (double)(count - 2) &&
	       growing->growth >= GROWTH_BYTES * (count - 2) && row[count - 1] > row[count - 2];
}

static int growing_compare(const void *left, const void *right)
{
	const struct growing *a = left, *b = right;

	if (a->growth != b->growth)
		return a->growth < b->growth ? 1 : -1;
	return (a->line > b->line) - (a->line < b->line);
}

static struct growing *lines_find(const struct scene *scene, const uint64_t *ends)
{
	size_t count = arrlenu(ends);
	int64_t *bytes = bytes_find(scene, ends);
	struct growing *found = NULL;

	for (size_t line = 0; line < arrlenu(scene->survey->lines); line++) {
		struct growing growing = {.line = (uint32_t)line};

		if (row_grows(bytes + line * (count + 1), count, &growing))
			arrput(found, growing);
	}
	arrfree(bytes);
	if (found)
		qsort(found, arrlenu(found), sizeof(*found), growing_compare);
	return found;
}

/* Blocks that make it grow: of these lines, alive at the end, and made after the second step. They are spoken for. */
struct grown {
	const char *holder; /* of the youngest that has one */
	uint64_t *blocks;   /* stb_ds: for each of the lines */
	struct gap *gaps;   /* stb_ds */
	bool graph;         /* what autograd keeps of forward passes is among it */
};

static void grown_find(
	const struct scene *scene, const struct growing *found, const uint64_t *ends, struct grown *grown)
{
	uint32_t *place = NULL;
	size_t count = arrlenu(ends), from, until;

	arrzero(place, arrlenu(scene->survey->lines));
	arrzero(grown->blocks, arrlenu(found));
	for (size_t i = 0; i < arrlenu(found); i++)
		place[found[i].line] = (uint32_t)i + 1;
	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];
		uint32_t at = place[survey_line(scene->survey, block)];
		struct gap gap = {block->first_order, block->last_order, block_held_bytes(block)};

		if (!at || block->device != scene->index || !block_ends(block, ends, &from, &until) || from < 2 ||
			until < count)
			continue;
		scene->survey->claimed[i] = true;
		grown->blocks[at - 1]++;
		grown->holder = *block->owner ? block->owner : grown->holder;
		grown->graph |= arrlenu(found) > 1 && block->phase == PHASE_FORWARD &&
		                block->category == CATEGORY_ACTIVATION && !*block->owner;
		arrput(grown->gaps, gap);
	}
	arrfree(place);
}

static void growth_tell(struct scene *scene, const struct growing *found, const uint64_t *ends, struct finding *finding)
{
	struct grown grown = {.holder = ""};
	size_t steps = arrlenu(ends) - 2;
	char sum[SIZE_TEXT_BYTES], each[SIZE_TEXT_BYTES];

	for (size_t i = 0; i < arrlenu(found); i++)
		finding->bytes += found[i].growth;
	grown_find(scene, found, ends, &grown);
	finding->saves_bytes = scene_saves(scene, grown.gaps);
	finding->severity = SEVERITY_WARNING;
	if (found[0].grew < SURE_STEPS && finding->confidence == CONFIDENCE_HIGH)
		finding->confidence = CONFIDENCE_MEDIUM;
	finding->text = sentence("Memory grows from step to step: %s over %zu steps, %s a step, at %zu line%s.",
		size_format(sum, finding->bytes), steps, size_format(each, finding->bytes / steps),
		(size_t)arrlenu(found), arrlenu(found) > 1 ? "s" : "");
	finding->advice = sentence("%s%s%s",
		*grown.holder ? "Do not keep in each step what " : "Look for what keeps them",
		*grown.holder ? grown.holder : "",
		*grown.holder ? " holds."
		: grown.graph ? ": a loss or an output that is kept with its graph of autograd (keep .item() or "
				".detach() of it)."
			      : ": a list, a cache, or a closure that gets longer.");
	for (size_t i = 0; i < arrlenu(found) && i < EVIDENCE_SHOWN; i++) {
		struct evidence *evidence = finding_evidence(
			finding, EVIDENCE_LINE, sentence("%s", scene->survey->lines[found[i].line]), found[i].growth);

		evidence->blocks = grown.blocks[i];
		evidence->holder = i ? "" : grown.holder;
	}
	finding_number(finding, "bytes_per_step", finding->bytes / steps);
	finding_number(finding, "lines", arrlenu(found));
	finding_number(finding, "steps", steps);
	arrfree(grown.blocks);
	arrfree(grown.gaps);
}

void find_growth(struct scene *scene, struct finding **findings)
{
	uint64_t *ends = ends_find(scene->rank);
	struct growing *found = arrlenu(ends) > GROWTH_STEPS ? lines_find(scene, ends) : NULL;

	if (found)
		growth_tell(scene, found, ends, finding_add(findings, FINDING_GROWTH, scene));
	arrfree(found);
	arrfree(ends);
}
