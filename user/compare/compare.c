// SPDX-License-Identifier: BSD-2-Clause
/* Two usages side by side: both have their amounts by name, so that they are merged. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"

int64_t bytes_change(uint64_t a, uint64_t b)
{
	uint64_t size = a < b ? b - a : a - b;

	if (size > INT64_MAX)
		size = INT64_MAX;
	return a < b ? (int64_t)size : -(int64_t)size;
}

static int64_t change_size(const struct difference *difference)
{
	int64_t change = bytes_change(difference->first_bytes, difference->second_bytes);

	return change < 0 ? -change : change;
}

static int difference_compare(const void *left, const void *right)
{
	const struct difference *a = left, *b = right;

	if (change_size(a) != change_size(b))
		return change_size(a) < change_size(b) ? 1 : -1;
	if (a->first_bytes != b->first_bytes)
		return a->first_bytes < b->first_bytes ? 1 : -1;
	return strcmp(a->name, b->name);
}

static struct difference *amounts_compare(const struct amount *first, const struct amount *second)
{
	struct difference *differences = NULL;
	size_t i = 0, j = 0;

	while (i < arrlenu(first) || j < arrlenu(second)) {
		int order = i == arrlenu(first) ? 1 : j == arrlenu(second) ? -1 : strcmp(first[i].name, second[j].name);
		struct difference difference = {.name = order <= 0 ? first[i].name : second[j].name};

		if (order <= 0) {
			difference.first_bytes = first[i].bytes;
			difference.first_blocks = first[i++].blocks;
		}
		if (order >= 0) {
			difference.second_bytes = second[j].bytes;
			difference.second_blocks = second[j++].blocks;
		}
		arrput(differences, difference);
	}
	if (differences)
		qsort(differences, arrlenu(differences), sizeof(*differences), difference_compare);
	return differences;
}

static void ranks_compare(struct comparison *comparison, const struct usage *first, const struct usage *second)
{
	struct rank_comparison ranks = {.first = first, .second = second};
	int64_t change = bytes_change(first->peak_bytes, second->peak_bytes);

	for (int group = 0; group < USAGE_GROUPS; group++)
		ranks.groups[group] = amounts_compare(first->groups[group], second->groups[group]);
	ranks.error_percent =
		100.0 * (double)(change < 0 ? -change : change) / (double)(second->peak_bytes ? second->peak_bytes : 1);
	arrput(comparison->ranks, ranks);
}

static int usage_order(const struct usage *first, const struct usage *second)
{
	if (first->job != second->job)
		return first->job < second->job ? -1 : 1;
	return (first->rank > second->rank) - (first->rank < second->rank);
}

void comparison_make(struct comparison *comparison, const struct usage *first, const struct usage *second)
{
	size_t i = 0, j = 0;

	*comparison = (struct comparison){0};
	while (i < arrlenu(first) || j < arrlenu(second)) {
		int order = i == arrlenu(first) ? 1 : j == arrlenu(second) ? -1 : usage_order(&first[i], &second[j]);

		if (!order)
			ranks_compare(comparison, &first[i++], &second[j++]);
		else if (order < 0)
			arrput(comparison->only_first, &first[i++]);
		else
			arrput(comparison->only_second, &second[j++]);
	}
}

void comparison_clear(struct comparison *comparison)
{
	for (size_t i = 0; i < arrlenu(comparison->ranks); i++)
		for (int group = 0; group < USAGE_GROUPS; group++)
			arrfree(comparison->ranks[i].groups[group]);
	arrfree(comparison->ranks);
	arrfree(comparison->only_first);
	arrfree(comparison->only_second);
}

bool comparison_accepts(const struct comparison *comparison, double percent)
{
	for (size_t i = 0; i < arrlenu(comparison->ranks); i++)
		if (comparison->ranks[i].error_percent > percent)
			return false;
	return arrlenu(comparison->ranks) && !arrlenu(comparison->only_first);
}
