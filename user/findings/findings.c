// SPDX-License-Identifier: BSD-2-Clause
/* All findings of all ranks, in the order of their weight. */
#include "findings.h"

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "survey.h"

static const char *const KIND_NAMES[FINDING_KINDS] = {
	[FINDING_OUT_OF_MEMORY] = "out_of_memory",
	[FINDING_UNFINISHED] = "unfinished",
	[FINDING_FIT] = "fit",
	[FINDING_GROWTH] = "growth",
	[FINDING_DEAD] = "dead",
	[FINDING_LOGITS] = "logits",
	[FINDING_GRADIENTS] = "gradients",
	[FINDING_OPTIMIZER] = "optimizer",
	[FINDING_RECOMPUTE] = "recompute",
	[FINDING_IDLE] = "idle",
	[FINDING_FRAGMENTATION] = "fragmentation",
	[FINDING_IMBALANCE] = "imbalance",
	[FINDING_PEAK] = "peak",
};

const char *finding_kind_name(enum finding_kind kind)
{
	return KIND_NAMES[kind];
}

const char *finding_severity_name(enum finding_severity severity)
{
	static const char *const NAMES[] = {
		[SEVERITY_NOTE] = "note", [SEVERITY_WARNING] = "warning", [SEVERITY_CRITICAL] = "critical"};

	return NAMES[severity];
}

const char *finding_confidence_name(enum finding_confidence confidence)
{
	static const char *const NAMES[] = {
		[CONFIDENCE_LOW] = "low", [CONFIDENCE_MEDIUM] = "medium", [CONFIDENCE_HIGH] = "high"};

	return NAMES[confidence];
}

const char *evidence_kind_name(enum evidence_kind kind)
{
	static const char *const NAMES[] = {[EVIDENCE_BLOCK] = "block",
		[EVIDENCE_CATEGORY] = "category",
		[EVIDENCE_COLLECTIVE] = "collective",
		[EVIDENCE_LINE] = "line",
		[EVIDENCE_MODULE] = "module",
		[EVIDENCE_RANK] = "rank"};

	return NAMES[kind];
}

bool finding_concerns(const struct finding *finding, const struct rank *rank)
{
	return finding->rank ? finding->rank == rank : !strcmp(finding->job, rank->job);
}

static void device_find(
	struct survey *survey, uint8_t index, const struct finding_options *options, struct finding **findings)
{
	struct scene scene;

	scene_open(&scene, survey, index);
	find_out_of_memory(&scene, findings);
	find_fit(&scene, options ? options->device_bytes : 0, findings);
	/* What these speak of, find_dead and find_idle leave out. */
	find_growth(&scene, findings);
	find_gradients(&scene, findings);
	find_logits(&scene, findings);
	find_optimizer(&scene, findings);
	find_dead(&scene, findings);
	find_idle(&scene, findings);
	find_recompute(&scene, findings);
	find_fragmentation(&scene, findings);
	find_peak(&scene, findings);
	scene_close(&scene);
}

static void rank_find(const struct rank *rank, const struct finding_options *options, struct finding **findings)
{
	struct survey survey;

	survey_open(&survey, rank);
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (rank->devices[i].reported && rank->devices[i].peak_bytes)
			device_find(&survey, (uint8_t)i, options, findings);
	survey_close(&survey);
}

/* Bytes that are to be gained, or else that it is about. */
static uint64_t stake(const struct finding *finding)
{
	return finding->saves_bytes == SAVES_UNKNOWN ? finding->bytes : finding->saves_bytes;
}

/* By job, the most severe first, then what is at stake, then by kind and rank. */
static int finding_compare(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;
	int order = strcmp(a->job, b->job);

	if (order)
		return order;
	if (a->severity != b->severity)
		return a->severity < b->severity ? 1 : -1;
	/* The peak itself comes behind what explains it. */
	if ((a->kind == FINDING_PEAK) != (b->kind == FINDING_PEAK))
		return a->kind == FINDING_PEAK ? 1 : -1;
	if (stake(a) != stake(b))
		return stake(a) < stake(b) ? 1 : -1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return strcmp(a->id, b->id);
}

static int number_compare(const void *left, const void *right)
{
	return strcmp(((const struct finding_number *)left)->name, ((const struct finding_number *)right)->name);
}

struct finding *findings_find(const struct rank *const *ranks, size_t count, const struct finding_options *options)
{
	struct finding *findings = NULL;

	for (size_t i = 0; i < count; i++)
		rank_find(ranks[i], options, &findings);
	for (size_t first = 0, next; first < count; first = next) {
		for (next = first + 1; next < count && !strcmp(ranks[next]->job, ranks[first]->job);)
			next++;
		find_imbalance(ranks + first, next - first, &findings);
		find_unfinished(ranks + first, next - first, &findings);
	}
	for (size_t i = 0; i < arrlenu(findings); i++)
		if (findings[i].numbers)
			qsort(findings[i].numbers, arrlenu(findings[i].numbers), sizeof(*findings[i].numbers),
				number_compare);
	if (findings)
		qsort(findings, arrlenu(findings), sizeof(*findings), finding_compare);
	return findings;
}

void findings_free(struct finding *findings)
{
	for (size_t i = 0; i < arrlenu(findings); i++) {
		for (size_t j = 0; j < arrlenu(findings[i].evidence); j++)
			arrfree(findings[i].evidence[j].name);
		arrfree(findings[i].evidence);
		arrfree(findings[i].numbers);
		arrfree(findings[i].id);
		arrfree(findings[i].text);
		arrfree(findings[i].advice);
	}
	arrfree(findings);
}
