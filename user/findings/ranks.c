// SPDX-License-Identifier: BSD-2-Clause
/* What the ranks of one job tell beside each other: peaks that differ, and a collective that one never began. */
#include "survey.h"

#include <yajl/yajl_tree.h>

#include "containers/containers.h"
#include "words.h"

#define IMBALANCE 0.05 /* of the highest peak: less is no finding */

static struct finding *job_finding_add(struct finding **findings, enum finding_kind kind, const struct rank *rank)
{
	struct finding finding = {
		.kind = kind,
		.job = rank->job,
		.saves_bytes = SAVES_UNKNOWN,
		.confidence = CONFIDENCE_HIGH,
		.id = sentence("%s-job", finding_kind_name(kind)),
	};

	arrput(*findings, finding);
	return &arrlast(*findings);
}

/* Peaks by category, over the devices of a rank. */
static void peaks_add(const struct rank *rank, uint64_t categories[CATEGORIES])
{
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		for (int category = 0; category < CATEGORIES; category++)
			categories[category] += rank->devices[i].peak.category[category];
}

/* The category in which the first has most more than the second. */
static enum category difference_most(const struct rank *first, const struct rank *second, int64_t *bytes)
{
	uint64_t a[CATEGORIES] = {0}, b[CATEGORIES] = {0};
	enum category most = CATEGORY_PARAMETER;

	peaks_add(first, a);
	peaks_add(second, b);
	for (int i = 1; i < CATEGORIES; i++)
		if ((int64_t)(a[i] - b[i]) > (int64_t)(a[most] - b[most]))
			most = (enum category)i;
	*bytes = (int64_t)(a[most] - b[most]);
	return most;
}

void find_imbalance(const struct rank *const *ranks, size_t count, struct finding **findings)
{
	const struct rank *highest = ranks[0], *lowest = ranks[0];
	char high[SIZE_TEXT_BYTES], low[SIZE_TEXT_BYTES], part[SIZE_TEXT_BYTES];
	struct finding *finding;
	enum category category;
	int64_t bytes;

	for (size_t i = 1; i < count; i++) {
		highest = ranks[i]->peak_bytes > highest->peak_bytes ? ranks[i] : highest;
		lowest = ranks[i]->peak_bytes < lowest->peak_bytes ? ranks[i] : lowest;
	}
	if (count < 2 || !highest->peak_bytes ||
		(double)(highest->peak_bytes - lowest->peak_bytes) < IMBALANCE * (double)highest->peak_bytes)
		return;
	category = difference_most(highest, lowest, &bytes);
	finding = job_finding_add(findings, FINDING_IMBALANCE, highest);
	finding->severity = SEVERITY_WARNING;
	finding->bytes = highest->peak_bytes - lowest->peak_bytes;
	for (size_t i = 0; i < count; i++)
		if (!rank_complete(ranks[i]))
			finding->confidence = CONFIDENCE_LOW;
	finding->text = sentence("Rank %d needs %s, rank %d only %s; most of the difference is %s (%s).", highest->rank,
		size_format(high, highest->peak_bytes), lowest->rank, size_format(low, lowest->peak_bytes),
		category_name(category), size_format(part, bytes > 0 ? (uint64_t)bytes : 0));
	finding->advice =
		sentence("The fullest rank decides how large a batch can be: split layers, or inputs, so that ranks "
			 "hold as much as each other.");
	finding_evidence(finding, EVIDENCE_RANK, sentence("rank %d", highest->rank), highest->peak_bytes);
	finding_evidence(finding, EVIDENCE_RANK, sentence("rank %d", lowest->rank), lowest->peak_bytes);
	finding_number(finding, "highest_rank", (uint64_t)highest->rank);
	finding_number(finding, "lowest_rank", (uint64_t)lowest->rank);
}

/* --- collectives ------------------------------------------------------------------------------------ */

/* The last one that a rank began, where another of its group never did. */
static const struct collective *unfinished_of(const struct rank *rank)
{
	const struct collective *last =
		arrlenu(rank->collectives) ? &rank->collectives[arrlenu(rank->collectives) - 1] : NULL;

	return last && last->absent_rank != RANK_UNKNOWN ? last : NULL;
}

/* Where the main thread of a rank stood at the end, with the words around it; "" when it is not known. */
static char *stood_at(const struct rank *const *ranks, size_t count, int32_t number)
{
	const char *path[] = {"python_stack", NULL};
	char *text = NULL;

	for (size_t i = 0; i < count && !text; i++) {
		yajl_val end = ranks[i]->rank == number && ranks[i]->end_json
		                       ? yajl_tree_parse(ranks[i]->end_json, NULL, 0)
		                       : NULL;
		yajl_val frames = end ? yajl_tree_get(end, path, yajl_t_array) : NULL;

		if (YAJL_IS_ARRAY(frames) && YAJL_GET_ARRAY(frames)->len &&
			YAJL_IS_STRING(YAJL_GET_ARRAY(frames)->values[0]))
			text = sentence(
				"; rank %d stood at %s", number, YAJL_GET_STRING(YAJL_GET_ARRAY(frames)->values[0]));
		yajl_tree_free(end);
	}
	return text ? text : sentence("%s", "");
}

static void unfinished_tell(const struct rank *const *ranks, size_t count, const struct rank *rank,
	const struct collective *collective, struct finding *finding)
{
	const struct frame *frame = stack_line(&rank->stacks[collective->stack]);
	char *place = frame ? sentence(", at %s:%u", frame->file, frame->line) : sentence("%s", "");
	char *stood = stood_at(ranks, count, collective->absent_rank);

	finding_evidence(finding, EVIDENCE_COLLECTIVE,
		sentence("rank %d began %s %u, rank %d never did%s%s", rank->rank, collective_kind_name(collective),
			collective->sequence, collective->absent_rank, place, stood),
		collective->input_bytes == COUNT_UNKNOWN ? 0 : collective->input_bytes);
	arrfree(place);
	arrfree(stood);
}

void find_unfinished(const struct rank *const *ranks, size_t count, struct finding **findings)
{
	struct finding *finding = NULL;
	uint64_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct collective *collective = unfinished_of(ranks[i]);

		if (!collective)
			continue;
		if (!found++)
			finding = job_finding_add(findings, FINDING_UNFINISHED, ranks[i]);
		unfinished_tell(ranks, count, ranks[i], collective, finding);
	}
	if (!found)
		return;
	finding->severity = SEVERITY_CRITICAL;
	finding->text = sentence("A collective was never finished: %llu rank%s began one that another rank never did.",
		(unsigned long long)found, found > 1 ? "s" : "");
	finding->advice = sentence(
		"Look where the missing rank stood at the end (python_stack in job.json): it waits for something "
		"else, or has ended.");
	finding_number(finding, "ranks", found);
}
