// SPDX-License-Identifier: BSD-2-Clause
/* Two runs side by side, for programs: everything that differs, and what does not. */
#include "comparison.h"

#include "containers/containers.h"

#define COMPARISON_VERSION 1

/* Change in percent of the first; null: there was nothing. */
static void put_percent(struct json *json, const char *key, uint64_t first, uint64_t second)
{
	json_key(json, key);
	if (first)
		json_double(json, 100.0 * (double)bytes_change(first, second) / (double)first);
	else
		json_null(json);
}

static void put_change(struct json *json, uint64_t first, uint64_t second)
{
	json_put_signed(json, "change_bytes", bytes_change(first, second));
	put_percent(json, "change_percent", first, second);
}

static void put_differences(struct json *json, enum usage_group group, const struct difference *differences)
{
	static const char *const KEYS[USAGE_GROUPS] = {[USAGE_CATEGORY] = "categories",
		[USAGE_MODULE] = "modules",
		[USAGE_OPERATOR] = "operators",
		[USAGE_LINE] = "lines"};

	if (!json_list(json, KEYS[group], arrlenu(differences)))
		return;
	for (size_t i = 0; i < arrlenu(differences); i++) {
		json_object(json);
		put_change(json, differences[i].first_bytes, differences[i].second_bytes);
		json_put_unsigned(json, "first_blocks", differences[i].first_blocks);
		json_put_unsigned(json, "first_bytes", differences[i].first_bytes);
		json_put_text(json, "name", differences[i].name);
		json_put_unsigned(json, "second_blocks", differences[i].second_blocks);
		json_put_unsigned(json, "second_bytes", differences[i].second_bytes);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_usage(struct json *json, const char *key, const struct usage *usage)
{
	json_key(json, key);
	json_object(json);
	json_put_unsigned(json, "block_bytes", usage->block_bytes);
	json_put_unsigned(json, "peak_bytes", usage->peak_bytes);
	json_put_unsigned_if(json, "step_ns", usage->steps, usage->step_ns);
	json_put_unsigned_if(json, "step_peak_bytes", usage->steps, usage->step_peak_bytes);
	json_put_unsigned_if(json, "steps", usage->has_steps, usage->steps);
	json_object_end(json);
}

static void put_rank(struct json *json, const struct rank_comparison *rank, const struct comparison_view *view)
{
	json_object(json);
	json_key(json, "accepted");
	if (view->dry_run)
		json_boolean(json, rank->error_percent <= view->percent);
	else
		json_null(json);
	put_differences(json, USAGE_CATEGORY, rank->groups[USAGE_CATEGORY]);
	put_change(json, rank->first->peak_bytes, rank->second->peak_bytes);
	json_key(json, "error_percent");
	json_double(json, rank->error_percent);
	put_usage(json, "first", rank->first);
	json_put_unsigned(json, "job", rank->first->job);
	put_differences(json, USAGE_LINE, rank->groups[USAGE_LINE]);
	put_differences(json, USAGE_MODULE, rank->groups[USAGE_MODULE]);
	put_differences(json, USAGE_OPERATOR, rank->groups[USAGE_OPERATOR]);
	json_put_signed(json, "rank", rank->first->rank);
	put_usage(json, "second", rank->second);
	json_object_end(json);
}

static void put_missing(struct json *json, const char *key, const struct usage *const *usages)
{
	if (!json_list(json, key, arrlenu(usages)))
		return;
	for (size_t i = 0; i < arrlenu(usages); i++)
		json_signed(json, usages[i]->rank);
	json_array_end(json);
}

void put_comparison(struct json *json, const struct comparison *comparison, const struct comparison_view *view)
{
	json_object(json);
	json_key(json, "accepted");
	if (view->dry_run)
		json_boolean(json, comparison_accepts(comparison, view->percent));
	else
		json_null(json);
	json_key(json, "accepted_percent");
	json_double(json, view->percent);
	json_put_text(json, "first", view->first);
	put_missing(json, "only_first", comparison->only_first);
	put_missing(json, "only_second", comparison->only_second);
	if (json_list(json, "ranks", arrlenu(comparison->ranks))) {
		for (size_t i = 0; i < arrlenu(comparison->ranks); i++)
			put_rank(json, &comparison->ranks[i], view);
		json_array_end(json);
	}
	json_put_unsigned(json, "schema_version", COMPARISON_VERSION);
	json_put_text(json, "second", view->second);
	json_object_end(json);
}
