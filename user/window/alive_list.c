// SPDX-License-Identifier: BSD-2-Clause
/* Which records explain what is alive. */
#include "window/alive.h"

#include <stdlib.h>

static void record_list(struct kept **list, uint64_t record, enum kept_as as)
{
	struct kept kept = {.record = record, .as = as};

	if (record)
		arrput(*list, kept);
}

static void definition_list(struct kept **list, struct definition *definition)
{
	if (!definition || definition->listed)
		return;
	definition->listed = true;
	record_list(list, definition->record, KEPT_STACK);
	for (size_t i = 0; i < arrlenu(definition->meanings); i++)
		record_list(list, definition->meanings[i], KEPT_WHOLE);
}

/* An operator, those around it, and what says of them whether they ran themselves. */
static void operation_list(struct kept **list, struct operation *operation)
{
	for (; operation && !operation->listed; operation = operation->around) {
		operation->listed = true;
		record_list(list, operation->record, KEPT_WHOLE);
		record_list(list, operation->threw, KEPT_WHOLE);
		for (size_t i = 0; i < sizeof(operation->inside) / sizeof(operation->inside[0]); i++)
			record_list(list, operation->inside[i], KEPT_BARE);
		definition_list(list, operation->stack);
	}
}

static void storage_list(struct kept **list, const struct storage *storage)
{
	if (!storage->birth)
		return;
	record_list(list, storage->birth, KEPT_WHOLE);
	record_list(list, storage->resize, KEPT_WHOLE);
	record_list(list, storage->request, KEPT_WHOLE);
	record_list(list, storage->owner, KEPT_WHOLE);
	record_list(list, storage->variable, KEPT_WHOLE);
	record_list(list, storage->gradient, KEPT_WHOLE);
	operation_list(list, storage->maker);
	operation_list(list, storage->lift);
	operation_list(list, storage->stored[0]);
	operation_list(list, storage->stored[1]);
	definition_list(list, storage->stack);
}

/* What a thread is in the middle of, and the stacks that it may refer to. */
static void strand_list(struct kept **list, const struct strand *strand)
{
	operation_list(list, strand->last);
	for (size_t i = 0; i < arrlenu(strand->frames); i++)
		operation_list(list, strand->frames[i]);
	for (size_t i = 0; i < STACK_SLOTS; i++)
		definition_list(list, strand->slots[i]);
	for (size_t i = 0; i < arrlenu(strand->ranges); i++) {
		storage_list(list, &strand->ranges[i].storage);
		record_list(list, strand->ranges[i].free, KEPT_WHOLE);
	}
	record_list(list, strand->resize, KEPT_WHOLE);
	record_list(list, strand->segment, KEPT_WHOLE);
}

static int kept_compare(const void *left, const void *right)
{
	const struct kept *a = left, *b = right;

	if (a->record != b->record)
		return a->record < b->record ? -1 : 1;
	if (a->as != b->as)
		return a->as > b->as ? -1 : 1;
	return (a->address < b->address) - (a->address > b->address);
}

/* In order, each once: the most that is wanted of it. */
static struct kept *list_sort(struct kept *list)
{
	size_t count = 0;

	if (list)
		qsort(list, arrlenu(list), sizeof(*list), kept_compare);
	for (size_t i = 0; i < arrlenu(list); i++)
		if (!count || list[i].record != list[count - 1].record)
			list[count++] = list[i];
	if (list)
		arrsetlen(list, count);
	return list;
}

static void names_list(struct kept **list, const struct alive *alive)
{
	for (ptrdiff_t i = 0; i < hmlen(alive->names); i++)
		record_list(list, alive->names[i].value, KEPT_WHOLE);
	for (ptrdiff_t i = 0; i < hmlen(alive->codes); i++)
		record_list(list, alive->codes[i].value, KEPT_WHOLE);
	for (ptrdiff_t i = 0; i < hmlen(alive->modules); i++)
		record_list(list, alive->modules[i].value, KEPT_WHOLE);
	for (ptrdiff_t i = 0; i < hmlen(alive->symbols); i++)
		record_list(list, alive->symbols[i].value, KEPT_WHOLE);
	for (ptrdiff_t i = 0; i < hmlen(alive->targets); i++) {
		record_list(list, alive->targets[i].value.first, KEPT_WHOLE);
		record_list(list, alive->targets[i].value.last, KEPT_WHOLE);
		record_list(list, alive->targets[i].value.loss, KEPT_WHOLE);
		record_list(list, alive->targets[i].value.owners, KEPT_WHOLE);
	}
	for (size_t i = 0; i < arrlenu(alive->always); i++)
		record_list(list, alive->always[i], KEPT_WHOLE);
}

struct kept *alive_list(struct alive *alive)
{
	struct kept *list = NULL;

	record_list(&list, alive->session, KEPT_WHOLE);
	names_list(&list, alive);
	for (ptrdiff_t i = 0; i < hmlen(alive->storages); i++)
		storage_list(&list, &alive->storages[i].value);
	for (ptrdiff_t i = 0; i < hmlen(alive->strands); i++)
		strand_list(&list, alive->strands[i].value);
	for (ptrdiff_t i = 0; i < hmlen(alive->segments); i++) {
		const struct segment *segment = &alive->segments[i].value;
		struct kept kept = {.record = segment->record, .as = KEPT_WHOLE};

		kept.address = segment->corrected ? alive->segments[i].key.number : 0;
		arrput(list, kept);
	}
	return list_sort(list);
}
