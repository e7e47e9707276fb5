/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the page shows first of a rank: for each device the peak and where it
 * was, totals, how complete the trace is. Times are counted from the rank's
 * first event, as in the columns.
 */
#include "page_rank.h"

#include "containers/containers.h"
#include "limitations.h"
#include "report.h"
#include "segments.h"
#include "tree.h"

static const char *const LOSS_NAMES[LOSS_REASONS] = {
	[LOSS_ARGUMENTS] = "arguments",
	[LOSS_CAPTURE] = "capture",
	[LOSS_CODE] = "code",
	[LOSS_DEPTH] = "depth",
	[LOSS_RING_FULL] = "ring_full",
	[LOSS_STACK] = "stack",
	[LOSS_THREAD_STATE] = "thread_state",
};

static void put_flag(struct json *json, const char *key, bool value)
{
	json_key(json, key);
	json_boolean(json, value);
}

static void put_categories(struct json *json, const char *key, const struct snapshot *snapshot)
{
	json_key(json, key);
	json_array(json);
	for (int category = 0; category < CATEGORIES; category++)
		json_unsigned(json, snapshot->category[category]);
	json_array_end(json);
}

static void put_since(struct json *json, const char *key, const struct rank *rank, uint64_t time_ns)
{
	json_put_unsigned(json, key, time_ns > rank->first_time_ns ? time_ns - rank->first_time_ns : 0);
}

/* The operator whose allocation made the peak; null outside operators. */
static void put_peak_maker(struct json *json, const struct rank *rank, const struct device *device)
{
	const struct operator_run *run = device->peak_run == RUN_NONE ? NULL : &rank->runs[device->peak_run];

	json_key(json, "maker");
	if (!run) {
		json_null(json);
		return;
	}
	json_object(json);
	json_key(json, "forward_stack");
	if (run->forward == RUN_NONE)
		json_null(json);
	else
		json_unsigned(json, rank->runs[run->forward].stack);
	json_put_text(json, "module", run->module);
	json_put_text(json, "operator", rank->operator_names[run->name]);
	json_put_unsigned(json, "phase", run->phase);
	json_put_unsigned(json, "stack", run->stack);
	json_put_unsigned(json, "step", run->step);
	json_put_unsigned_if(json, "task", run->task != TASK_NONE, (uint64_t)run->task);
	json_object_end(json);
}

static void put_device(struct json *json, const struct rank *rank, size_t index)
{
	const struct device *device = &rank->devices[index];

	json_object(json);
	put_categories(json, "current", &device->current);
	json_put_unsigned(json, "current_bytes", device->current.total);
	put_flag(json, "has_totals", device->has_totals);
	json_put_unsigned(json, "index", index);
	put_peak_maker(json, rank, device);
	json_put_text(json, "name", device->name);
	json_put_unsigned(json, "older_bytes", device->older_bytes);
	json_put_unsigned(json, "older_known_bytes", device->older_known_bytes);
	json_put_unsigned(json, "outside_bytes", device->outside_bytes);
	json_put_unsigned(json, "outside_peak_bytes", device->outside_peak_bytes);
	put_categories(json, "peak", &device->peak);
	json_put_unsigned(json, "peak_bytes", device->peak_bytes);
	json_put_unsigned(json, "peak_order", device->peak_order);
	put_since(json, "peak_time", rank, device->peak_time_ns);
	json_put_unsigned(json, "reserved_bytes", device->reserved_bytes);
	json_put_unsigned(json, "reserved_peak_bytes", device->reserved_peak_bytes);
	json_object_end(json);
}

static void put_devices(struct json *json, const struct rank *rank)
{
	json_key(json, "devices");
	json_array(json);
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (rank->devices[i].reported && rank->devices[i].peak_bytes)
			put_device(json, rank, i);
	json_array_end(json);
}

static void put_losses(struct json *json, const struct rank *rank)
{
	json_key(json, "losses");
	json_object(json);
	for (int reason = 0; reason < LOSS_REASONS; reason++)
		json_put_unsigned(json, LOSS_NAMES[reason], rank->loss.lost[reason]);
	json_object_end(json);
}

static void put_counts(struct json *json, const struct rank *rank)
{
	json_key(json, "counts");
	json_object(json);
	json_put_unsigned(json, "blocks", arrlenu(rank->blocks));
	json_put_unsigned(json, "events", rank->event_count);
	json_put_unsigned(json, "reused_addresses", rank->reused_addresses);
	json_put_unsigned(json, "steps", rank->step_count);
	json_put_signed(json, "tasks", rank->task_count);
	json_object_end(json);
}

void put_page_rank(struct json *json, const struct rank *rank)
{
	yajl_val target = tree_of(rank->target_json), end = tree_of(rank->end_json);

	json_object(json);
	json_put_text(json, "command", tree_text(target, "command"));
	put_flag(json, "complete", rank_complete(rank) && rank->end_json);
	put_counts(json, rank);
	put_devices(json, rank);
	json_put_text(json, "end_reason", tree_text(end, "reason"));
	json_put_unsigned(json, "first_time_ns", rank->first_time_ns);
	put_flag(json, "from_start", rank->from_start);
	put_flag(json, "has_data", report_has_data(rank));
	put_since(json, "last_time", rank, rank->last_time_ns);
	json_put_text(json, "level", tree_text(target, "level"));
	put_limitations(json, rank, target, end);
	put_losses(json, rank);
	put_out_of_memories(json, rank);
	json_put_tree(json, "pid", tree_get(target, "pid"));
	json_put_tree(json, "python_version", tree_get(target, "python_version"));
	json_put_signed(json, "rank", rank->rank);
	json_put_tree(json, "torch_version", tree_get(target, "torch_version"));
	put_flag(json, "windowed", rank->window.since_ns > 0);
	json_object_end(json);
	yajl_tree_free(target);
	yajl_tree_free(end);
}
