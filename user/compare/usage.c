// SPDX-License-Identifier: BSD-2-Clause
/* Usage of a finished rank: over its devices, each at its own peak. */
#include "usage.h"

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "findings/words.h"

const char *usage_group_name(enum usage_group group)
{
	static const char *const NAMES[USAGE_GROUPS] = {[USAGE_CATEGORY] = "category",
		[USAGE_MODULE] = "module",
		[USAGE_OPERATOR] = "operator",
		[USAGE_LINE] = "line"};

	return NAMES[group];
}

void amounts_add(struct amounts *amounts, const char *name, uint64_t bytes, uint64_t blocks)
{
	ptrdiff_t at = shgeti(amounts->index, name);
	size_t place = at < 0 ? arrlenu(amounts->list) : amounts->index[at].value;

	if (at < 0) {
		struct amount fresh = {.name = sentence("%s", name)};

		arrput(amounts->list, fresh);
		shput(amounts->index, fresh.name, place);
	}
	if (place >= arrlenu(amounts->list))
		return;
	if (__builtin_add_overflow(amounts->list[place].bytes, bytes, &amounts->list[place].bytes))
		amounts->list[place].bytes = UINT64_MAX;
	amounts->list[place].blocks += blocks;
}

static int amount_compare(const void *left, const void *right)
{
	return strcmp(((const struct amount *)left)->name, ((const struct amount *)right)->name);
}

struct amount *amounts_end(struct amounts *amounts)
{
	shfree(amounts->index);
	if (amounts->list)
		qsort(amounts->list, arrlenu(amounts->list), sizeof(*amounts->list), amount_compare);
	return amounts->list;
}

static int number_compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

uint64_t usage_median(uint64_t *values)
{
	if (!values)
		return 0;
	qsort(values, arrlenu(values), sizeof(*values), number_compare);
	return values[arrlenu(values) / 2];
}

static void block_add(const struct rank *rank, const struct block *block, struct amounts amounts[USAGE_GROUPS])
{
	/* As in the CSV: the innermost frame, and the operator's own module. */
	const struct frame *leaf = stack_leaf(&rank->stacks[block->stack]);
	char *line = leaf ? sentence("%s:%u", leaf->file, leaf->line) : sentence("%s", "");
	uint64_t bytes = block_held_bytes(block);

	amounts_add(&amounts[USAGE_MODULE], rank->runs[block->producer].module, bytes, 1);
	amounts_add(&amounts[USAGE_OPERATOR], rank->operator_names[block->name], bytes, 1);
	amounts_add(&amounts[USAGE_LINE], line, bytes, 1);
	arrfree(line);
}

static void steps_add(const struct rank *rank, struct usage *usage)
{
	uint64_t *times = NULL, *peaks = NULL;

	for (size_t i = 0; i < arrlenu(rank->steps); i++) {
		if (!rank->steps[i].complete)
			continue;
		arrput(times, step_duration(&rank->steps[i]));
		arrput(peaks, rank->steps[i].peak_bytes);
	}
	usage->has_steps = true;
	usage->steps = (uint32_t)arrlenu(times);
	usage->step_ns = usage_median(times);
	usage->step_peak_bytes = usage_median(peaks);
	arrfree(times);
	arrfree(peaks);
}

void usage_of_rank(const struct rank *rank, struct usage *usage)
{
	struct amounts amounts[USAGE_GROUPS] = {0};

	*usage = (struct usage){.rank = rank->rank, .peak_bytes = rank->peak_bytes};
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		for (int category = 0; category < CATEGORIES; category++)
			if (rank->devices[i].reported && rank->devices[i].peak.category[category])
				amounts_add(&amounts[USAGE_CATEGORY], category_name((enum category)category),
					rank->devices[i].peak.category[category], 0);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];

		if (!block_alive_at(block, rank->devices[block->device].peak_order))
			continue;
		block_add(rank, block, amounts);
		usage->block_bytes += block_held_bytes(block);
	}
	for (int group = 0; group < USAGE_GROUPS; group++)
		usage->groups[group] = amounts_end(&amounts[group]);
	steps_add(rank, usage);
}

void usage_clear(struct usage *usage)
{
	for (int group = 0; group < USAGE_GROUPS; group++) {
		for (size_t i = 0; i < arrlenu(usage->groups[group]); i++)
			arrfree(usage->groups[group][i].name);
		arrfree(usage->groups[group]);
	}
}

void usage_error_clear(struct usage_error *error)
{
	arrfree(error->text);
}
