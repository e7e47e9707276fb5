// SPDX-License-Identifier: BSD-2-Clause
/* Two runs side by side, for people: what changed most, in bytes and percent. */
#include "comparison.h"

#include <errno.h>
#include <string.h>

#include "containers/containers.h"
#include "findings/words.h"
#include "text.h"

#define LINES_SHOWN 10
#define NAME_COLUMNS 44
#define NANOSECONDS_OF_MILLISECOND 1e6

/* "+1.2 MiB"; nothing has no sign. */
static void change_write(FILE *out, uint64_t first, uint64_t second)
{
	int64_t change = bytes_change(first, second);
	char size[SIZE_TEXT_BYTES], text[SIZE_TEXT_BYTES + 1];

	size_format(size, change < 0 ? (uint64_t)-change : (uint64_t)change);
	snprintf(text, sizeof(text), "%s%s", change < 0 ? "-" : change ? "+" : "", size);
	fprintf(out, "%12s", text);
	if (!first && second)
		fputs("        new", out);
	else if (first && !second)
		fputs("       gone", out);
	else
		fprintf(out, " %+8.1f %%", first ? 100.0 * (double)change / (double)first : 0.0);
}

static void bytes_write(FILE *out, uint64_t first, uint64_t second)
{
	char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];

	fprintf(out, "%11s %11s ", size_format(a, first), size_format(b, second));
	change_write(out, first, second);
	putc('\n', out);
}

static void group_write(FILE *out, enum usage_group group, const struct difference *differences)
{
	static const char *const NOTHING[USAGE_GROUPS] = {[USAGE_CATEGORY] = "(none)",
		[USAGE_MODULE] = "(outside modules)",
		[USAGE_OPERATOR] = "(none)",
		[USAGE_LINE] = "(no Python frame)"};
	size_t shown = 0;

	for (size_t i = 0; i < arrlenu(differences); i++) {
		bool same = differences[i].first_bytes == differences[i].second_bytes;

		/* Categories are few: all of them are shown. */
		if (group != USAGE_CATEGORY && (same || shown == LINES_SHOWN))
			break;
		if (!shown++)
			fprintf(out, "  by %s at the peak\n", usage_group_name(group));
		fputs("    ", out);
		text_write_columns(
			out, *differences[i].name ? differences[i].name : NOTHING[group], NAME_COLUMNS, true);
		bytes_write(out, differences[i].first_bytes, differences[i].second_bytes);
	}
	if (shown == LINES_SHOWN && shown < arrlenu(differences))
		fprintf(out, "    and %zu more\n", (size_t)arrlenu(differences) - shown);
}

static void steps_write(FILE *out, const struct usage *first, const struct usage *second)
{
	double before = (double)first->step_ns, after = (double)second->step_ns;

	if (!first->steps || !second->steps)
		return;
	fprintf(out, "  step (median)  %.1f ms, then %.1f ms", before / NANOSECONDS_OF_MILLISECOND,
		after / NANOSECONDS_OF_MILLISECOND);
	if (first->step_ns)
		fprintf(out, " (%+.1f %%)", 100.0 * (after - before) / before);
	fprintf(out, ", %u and %u steps\n  %-46s", first->steps, second->steps, "peak of a step (median)");
	bytes_write(out, first->step_peak_bytes, second->step_peak_bytes);
}

static void rank_write(FILE *out, const struct rank_comparison *rank, const struct comparison_view *view)
{
	fprintf(out, "\nrank %-43d%11s %11s\n", rank->first->rank, view->dry_run ? "dry run" : "first",
		view->dry_run ? "live" : "second");
	fprintf(out, "  %-46s", "peak");
	bytes_write(out, rank->first->peak_bytes, rank->second->peak_bytes);
	if (view->dry_run)
		fprintf(out, "  the dry run is off by %.2f %% of the live peak: %s (%.1f %% are accepted)\n",
			rank->error_percent, rank->error_percent <= view->percent ? "accepted" : "not accepted",
			view->percent);
	steps_write(out, rank->first, rank->second);
	for (int group = 0; group < USAGE_GROUPS; group++)
		group_write(out, (enum usage_group)group, rank->groups[group]);
}

static void missing_write(FILE *out, const struct usage *const *usages, const char *where)
{
	for (size_t i = 0; i < arrlenu(usages); i++)
		fprintf(out, "rank %d is in %s only: it was not compared\n", usages[i]->rank, where);
}

int comparison_write(FILE *out, const struct comparison *comparison, const struct comparison_view *view)
{
	fprintf(out, "first   %s\nsecond  %s\n", view->first, view->second);
	missing_write(out, comparison->only_first, view->dry_run ? "the dry run" : "the first");
	missing_write(out, comparison->only_second, view->dry_run ? "the live run" : "the second");
	for (size_t i = 0; i < arrlenu(comparison->ranks); i++)
		rank_write(out, &comparison->ranks[i], view);
	if (view->dry_run)
		fprintf(out, "\nThe dry run is %s.\n",
			comparison_accepts(comparison, view->percent) ? "accepted" : "not accepted");
	return ferror(out) ? -EIO : 0;
}
