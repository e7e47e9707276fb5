// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where the time of a traced job goes: traps, programs, wake-ups of the reader,
 * and the hooks that are hit for nothing. A trap itself costs some 0.5 to 1 us,
 * which no counter shows.
 */
#include "record/session.h"

#include <stdio.h>
#include <stdlib.h>

#include "containers/containers.h"

struct wasted_hook {
	size_t hook;
	uint64_t wasted;
};

#define WASTED_HOOKS_TOLD 8

static int wasted_compare(const void *a, const void *b)
{
	const struct wasted_hook *left = a, *right = b;

	return left->wasted < right->wasted ? 1 : left->wasted > right->wasted ? -1 : 0;
}

/* The hooks whose hits were mostly for nothing. */
static void wasted_tell(const struct session *session, const struct planned_library *library, enum hook_set_kind set)
{
	const struct hook_description *hooks = library->plan->sets[set].hooks;
	size_t count = arrlenu(hooks);
	struct hook_counters *counters = calloc(count + 1, sizeof(*counters));
	struct wasted_hook *wasted = calloc(count + 1, sizeof(*wasted));

	if (counters && wasted &&
		!tracer_hook_counters(session->tracer, (uint32_t)library->first_hook[set], count, counters)) {
		for (size_t index = 0; index < count; index++)
			wasted[index] = (struct wasted_hook){index, counters[index].hits - counters[index].records};
		qsort(wasted, count, sizeof(*wasted), wasted_compare);
		for (size_t index = 0; index < WASTED_HOOKS_TOLD && index < count && wasted[index].wasted; index++)
			fprintf(stderr, "hdtrace: %-40s %12llu hits, %llu for nothing\n",
				library->plan->operator_names[hooks[wasted[index].hook].operator_],
				(unsigned long long)counters[wasted[index].hook].hits,
				(unsigned long long)wasted[index].wasted);
	}
	free(counters);
	free(wasted);
}

void statistics_tell(const struct session *session)
{
	struct program_statistics statistics[PROGRAMS];
	uint64_t hits = 0, nanoseconds = 0;

	if (!session->options->statistics || tracer_statistics(session->tracer, statistics))
		return;
	for (int kind = 0; kind < PROGRAMS; kind++) {
		if (!statistics[kind].runs)
			continue;
		fprintf(stderr, "hdtrace: %-22s %12llu hits %8.0f ns each\n", statistics[kind].name,
			(unsigned long long)statistics[kind].runs,
			(double)statistics[kind].nanoseconds / (double)statistics[kind].runs);
		hits += statistics[kind].runs;
		nanoseconds += statistics[kind].nanoseconds;
	}
	fprintf(stderr, "hdtrace: %llu traps, %.3f s in programs, %llu wake-ups of the reader for %llu records\n",
		(unsigned long long)hits, (double)nanoseconds / 1e9, (unsigned long long)session->wake_ups,
		(unsigned long long)session->records);
	for (ptrdiff_t index = 0; index < arrlen(session->libraries); index++)
		for (int set = 0; set < HOOK_SETS; set++)
			if (session->libraries[index].first_hook[set] >= 0)
				wasted_tell(session, &session->libraries[index], (enum hook_set_kind)set);
}
