// SPDX-License-Identifier: BSD-2-Clause
/*
 * A recording that stays for months meets more processes and libraries than the
 * programs have places for: what nobody has any more is given away.
 */
#include <stdlib.h>

#include "containers/containers.h"
#include "record/session.h"

/* Until then its probes have gone, and so has what they sent. */
#define REST_NANOSECONDS 2000000000ull

static bool is_gone(const struct target *target, uint64_t now)
{
	return target->ended && now - target->end_time_ns > REST_NANOSECONDS && !arrlen(target->links) &&
	       !arrlen(target->host_links) && !process_is_alive(&target->process);
}

static bool is_parent(const struct session *session, const struct target *target)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		if (session->targets[index]->parent == target->index && !session->targets[index]->ended)
			return true;
	for (ptrdiff_t index = 0; index < arrlen(session->candidates); index++)
		if (session->candidates[index]->parent == target->index)
			return true;
	return false;
}

/* Children have a higher index than their parents, where that can be: then who belongs to whom is clear. */
struct target *target_place_find(struct session *session, int32_t parent)
{
	struct target *best = NULL;
	uint64_t now = monotonic_ns();

	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++) {
		struct target *target = session->targets[index];

		if (!is_gone(target, now) || is_parent(session, target))
			continue;
		if (target->index > parent)
			return target;
		best = target;
	}
	return best;
}

static bool is_used(const struct session *session, const struct library_plan *plan)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		for (int role = 0; role < LIBRARY_ROLES; role++)
			if (session->targets[index]->libraries[role] == plan)
				return true;
	return false;
}

void libraries_reclaim(struct session *session)
{
	for (ptrdiff_t index = arrlen(session->libraries) - 1; index >= 0; index--) {
		struct planned_library *library = &session->libraries[index];

		if (is_used(session, library->plan))
			continue;
		for (int set = 0; set < HOOK_SETS; set++)
			tracer_hooks_remove(
				session->tracer, library->first_hook[set], arrlenu(library->plan->sets[set].hooks));
		library_plan_free(library->plan);
		free(library->plan);
		arrdelswap(session->libraries, index);
	}
}
