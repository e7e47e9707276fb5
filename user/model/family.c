// SPDX-License-Identifier: BSD-2-Clause
/*
 * A launcher, and a process that a rank started to load data, have PyTorch too and
 * may run operators. What tells a rank is a backward pass or a collective. Where
 * nobody of a family has run one, all are taken but those that only forked, and
 * those without a number that started one with a number, and those that only
 * started others (a shell).
 */
#include "family.h"

static bool descends(const struct relative *relatives, size_t index, size_t from)
{
	int32_t parent = relatives[index].parent;

	/* From newer to older ones: there is an end. */
	while (parent >= 0 && relatives[parent].there) {
		if ((size_t)parent == from)
			return true;
		if (relatives[parent].parent >= parent)
			return false;
		parent = relatives[parent].parent;
	}
	return false;
}

bool relative_is_rank(const struct relative *relatives, size_t count, size_t index)
{
	const struct relative *relative = &relatives[index];

	if (relative->trained)
		return true;
	if (relative->forked)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct relative *other = &relatives[i];

		if (!other->there || i == index)
			continue;
		if (other->trained && (descends(relatives, i, index) || descends(relatives, index, i)))
			return false;
		if (relative->idle && !other->idle && descends(relatives, i, index))
			return false;
		if (other->launched && !relative->launched && descends(relatives, i, index))
			return false;
	}
	return true;
}
