// SPDX-License-Identifier: BSD-2-Clause
/* One look as JSON (docs/top.schema.json); what is not known is null. */
#include <errno.h>
#include <stdlib.h>

#include "containers/containers.h"
#include "report/json_writer.h"
#include "report/text.h"
#include "top/view.h"

#define PLACES_SHOWN 10
#define GROUPS_SHOWN 8

/* In the order of enum loss_reason. */
static const char *const loss_names[LOSS_REASONS] = {
	"ring_full", "thread_state", "arguments", "stack", "depth", "code", "capture"};

static void put_known(struct json *json, const char *key, uint64_t value)
{
	json_put_unsigned_if(json, key, value != LIVE_UNKNOWN, value);
}

static void put_rate(struct json *json, const char *key, double rate)
{
	json_key(json, key);
	if (rate == RATE_UNKNOWN)
		json_null(json);
	else
		json_double(json, rate);
}

static void put_seconds(struct json *json, const char *key, bool known, uint64_t nanoseconds)
{
	put_rate(json, key, known ? (double)nanoseconds / 1e9 : RATE_UNKNOWN);
}

/* At LEVEL_LITE only what Python holds, and workspaces of libraries, are told apart. */
static bool category_is_told(const struct live_rank *rank, size_t category)
{
	switch (category) {
	case CATEGORY_ACTIVATION:
	case CATEGORY_TEMP:
	case CATEGORY_OTHER:
		return !rank->lite;
	case CATEGORY_PARAMETER:
	case CATEGORY_BUFFER:
	case CATEGORY_GRADIENT:
	case CATEGORY_OPTSTATE:
		return !rank->lite || rank->owners_told;
	default:
		return true;
	}
}

static void device_write(struct json *json, const struct live_rank *rank, const struct live_device *device)
{
	json_object(json);
	json_put_text(json, "name", device->name);
	json_put_unsigned(json, "bytes", device->bytes);
	json_put_unsigned(json, "peak_bytes", device->peak_bytes);
	json_put_unsigned_if(json, "reserved_bytes", device->has_totals, device->reserved_bytes);
	json_put_unsigned_if(json, "reserved_peak_bytes", device->has_totals, device->reserved_peak_bytes);
	put_known(json, "size_bytes", device->size_bytes);
	put_known(json, "headroom_bytes", live_headroom(device));
	json_put_unsigned(json, "segments", device->segments);
	json_put_unsigned(json, "segment_bytes", device->segment_bytes);
	json_put_unsigned(json, "blocks", device->blocks);
	json_key(json, "categories");
	json_object(json);
	for (size_t i = 0; i < LIVE_CATEGORIES; i++)
		json_put_unsigned_if(json, live_category_name(i), category_is_told(rank, i), device->category_bytes[i]);
	json_object_end(json);
	json_key(json, "phases");
	if (rank->lite) {
		json_null(json);
	} else {
		json_object(json);
		for (size_t i = 0; i < LIVE_PHASES; i++)
			json_put_unsigned(json, live_phase_name(i), device->phase_bytes[i]);
		json_object_end(json);
	}
	put_known(json, "idle_bytes", device->idle_bytes);
	json_put_unsigned(json, "allocations", device->allocations);
	json_put_unsigned(json, "allocated_bytes", device->allocated_bytes);
	json_put_unsigned(json, "frees", device->frees);
	json_put_unsigned(json, "freed_bytes", device->freed_bytes);
	json_put_unsigned(json, "out_of_memories", device->out_of_memories);
	json_put_unsigned_if(json, "out_of_memory_bytes", device->out_of_memories > 0, device->out_of_memory_bytes);
	json_object_end(json);
}

static void places_write(
	struct json *json, const char *key, const struct view *view, size_t index, enum live_table table)
{
	struct live_place places[PLACES_SHOWN];
	size_t count = live_top(view->live, index, table, places, PLACES_SHOWN);

	if (table == LIVE_LINES && live_rank_at(view->live, index)->lite) {
		json_put_text(json, key, NULL);
		return;
	}
	if (!json_list(json, key, count))
		return;
	for (size_t i = 0; i < count; i++) {
		json_object(json);
		json_put_text(json, "name", places[i].name);
		json_put_unsigned(json, "bytes", places[i].bytes);
		json_put_unsigned(json, "blocks", places[i].blocks);
		json_object_end(json);
	}
	json_array_end(json);
}

static const char *kind_name(uint8_t kind)
{
	struct collective collective = {.kind = kind};

	return collective_kind_name(&collective);
}

static void wait_write(struct json *json, const struct view *view, const struct live_wait *wait)
{
	size_t shown = wait->absent < LIVE_ABSENT_MAX ? wait->absent : LIVE_ABSENT_MAX;

	if (!wait->waits) {
		json_put_text(json, "waits", NULL);
		return;
	}
	json_key(json, "waits");
	json_object(json);
	json_put_text(json, "kind", kind_name(wait->kind));
	put_seconds(json, "seconds", true, view->now_ns > wait->since_ns ? view->now_ns - wait->since_ns : 0);
	json_put_unsigned(json, "absent", wait->absent);
	if (json_list(json, "absent_ranks", shown)) {
		for (size_t i = 0; i < shown; i++)
			json_signed(json, wait->absent_ranks[i]);
		json_array_end(json);
	}
	json_object_end(json);
}

static void collectives_write(struct json *json, const struct view *view, const struct live_rank *rank)
{
	size_t shown = rank->group_count < GROUPS_SHOWN ? rank->group_count : GROUPS_SHOWN;

	json_put_unsigned(json, "collectives", rank->collectives);
	json_put_unsigned(json, "collective_bytes", rank->collective_bytes);
	put_seconds(json, "collective_wait_seconds", true, rank->collective_wait_ns);
	wait_write(json, view, &rank->wait);
	if (!json_list(json, "communicators", shown))
		return;
	for (size_t i = 0; i < shown; i++) {
		const struct live_group *group = &rank->groups[i];

		json_object(json);
		json_put_text(json, "layer", collective_layer_name(group->layer));
		json_put_signed(json, "rank", group->rank);
		json_put_signed(json, "size", group->size);
		json_put_unsigned(json, "collectives", group->collectives);
		json_put_text(json, "last", kind_name(group->kind));
		put_known(json, "last_bytes", group->bytes);
		put_seconds(json, "last_seconds_ago", true,
			view->now_ns > group->time_ns ? view->now_ns - group->time_ns : 0);
		json_object_end(json);
	}
	json_array_end(json);
}

static void loss_write(struct json *json, const struct live_rank *rank)
{
	json_key(json, "lost");
	json_object(json);
	json_put_unsigned(json, "total", rank->lost);
	for (int reason = 0; reason < LOSS_REASONS; reason++)
		json_put_unsigned(json, loss_names[reason], rank->loss.lost[reason]);
	json_object_end(json);
}

static void rank_write(struct json *json, const struct view *view, size_t index)
{
	const struct live_rank *rank = live_rank_at(view->live, index);
	const struct history *history = view_history(view, rank);
	uint64_t step_ns = live_step_ns(rank);

	json_object(json);
	json_key(json, "rank");
	if (rank->rank == RANK_UNKNOWN)
		json_null(json);
	else
		json_signed(json, rank->rank);
	json_put_signed(json, "pid", rank->pid);
	json_put_text(json, "job", *rank->job ? rank->job : NULL);
	json_put_text(json, "command", rank->command);
	json_put_text(json, "level", rank->lite ? "lite" : "full");
	json_key(json, "ended");
	json_boolean(json, rank->ended);
	json_put_text(json, "phase", rank->phase_known ? live_phase_name(rank->phase) : NULL);
	json_put_text(json, "line", *rank->line ? rank->line : NULL);
	json_put_unsigned_if(json, "steps", rank->steps_known, rank->steps);
	put_seconds(json, "step_seconds", step_ns != LIVE_UNKNOWN, step_ns);
	json_put_unsigned(json, "events", rank->events);
	put_rate(json, "allocated_bytes_per_second", history ? history->allocation_rate : RATE_UNKNOWN);
	if (json_list(json, "devices", rank->device_count)) {
		for (size_t i = 0; i < rank->device_count; i++)
			device_write(json, rank, &rank->devices[i]);
		json_array_end(json);
	}
	places_write(json, "modules", view, index, LIVE_MODULES);
	places_write(json, "lines", view, index, LIVE_LINES);
	json_put_unsigned(json, "blocks_untold", rank->blocks_untold);
	collectives_write(json, view, rank);
	loss_write(json, rank);
	json_object_end(json);
}

static void cost_write(struct json *json, const struct view *view)
{
	json_key(json, "hdtrace");
	json_object(json);
	json_put_text(json, "version", HDTRACE_VERSION);
	put_seconds(json, "cpu_seconds", true, view->cost.processor_ns);
	put_rate(json, "cpu_share", view->processor_share);
	json_put_unsigned(json, "memory_bytes", view->cost.memory_bytes);
	json_put_unsigned(json, "records", view->cost.records);
	put_rate(json, "records_per_second", view->record_rate);
	put_known(json, "probe_hits", view->cost.probe_hits);
	json_object_end(json);
}

int view_write_json(const struct view *view, FILE *file)
{
	struct json json;
	size_t ranks = 0;
	int error = json_begin(&json, file);

	if (error)
		return error;
	for (size_t i = 0; i < live_rank_count(view->live); i++)
		ranks += live_rank_at(view->live, i)->is_rank;
	json_object(&json);
	json_key(&json, "time");
	json_double(&json, (double)view->real_ns / 1e9);
	json_put_unsigned(&json, "monotonic_ns", view->cost.read_ns);
	put_seconds(&json, "interval", view->before_ns != 0, view->now_ns - view->before_ns);
	cost_write(&json, view);
	if (json_list(&json, "ranks", ranks)) {
		for (size_t i = 0; i < live_rank_count(view->live); i++)
			if (live_rank_at(view->live, i)->is_rank)
				rank_write(&json, view, i);
		json_array_end(&json);
	}
	json_object_end(&json);
	return json_end(&json);
}
