/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory report as JSON, schema 3 of HyperDryRun plus `live`: what a trace
 * of a running job knows beyond a dry run, and how complete it is. Keys are in
 * sorted order everywhere. docs/report.schema.json describes it.
 *
 * metadata takes the dry run's fields from the target's own JSON text, by the
 * same names; live.target repeats that text whole. What is not there is null.
 */
#include "report.h"

#include <inttypes.h>

#include "batch.h"
#include "facts.h"
#include "findings_json.h"
#include "json_writer.h"
#include "containers/containers.h"
#include "limitations.h"
#include "modules.h"
#include "output.h"
#include "parallel.h"
#include "segments.h"
#include "text.h"
#include "tree.h"

#define SCHEMA_VERSION 3
#define SMALL_BYTES (1ull << 20)
#define GIB ((double)(1ull << 30))
#define ADDRESS_BYTES 24

/* Fields of metadata, sorted; rank stands beside them. */
static const char *const METADATA_BEFORE_RANK[] = {"comm_fusion", "initialization_device", "local_rank"};
static const char *const METADATA_BEHIND_MODEL[] = {"num_micro_batches"};
static const char *const METADATA_BEFORE_DEVICE[] = {"reshard_after_forward", "simulation_device"};
static const char *const METADATA_AFTER_DEVICE[] = {
	"token_counts", "torch_version", "value_dependencies", "weights_loaded"};

/* Sorted by name. */
static const struct {
	const char *name;
	enum loss_reason reason;
} LOSSES_SORTED[LOSS_REASONS] = {{"arguments", LOSS_ARGUMENTS}, {"capture", LOSS_CAPTURE}, {"code", LOSS_CODE},
	{"depth", LOSS_DEPTH}, {"ring_full", LOSS_RING_FULL}, {"stack", LOSS_STACK},
	{"thread_state", LOSS_THREAD_STATE}};

struct report {
	struct json json;
	const struct rank *rank;
	yajl_val target, end; /* parsed texts, NULL: none or no JSON */
	const char *pool_name;
	const struct finding *findings;
	char **stack_texts; /* for every stack, its text as JSON, made when first needed */
};

/* --- blocks ---------------------------------------------------------------------- */

static void put_address(struct json *json, const char *key, uint64_t address)
{
	char text[ADDRESS_BYTES];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	json_put_text(json, key, text);
}

static void put_plot(struct json *json, const char *key, int64_t task, uint64_t fraction)
{
	char text[PLOT_TEXT_BYTES];

	json_put_text(json, key, plot_format(text, task, fraction));
}

static void put_stack(struct report *report, const char *key, uint32_t index)
{
	if (!report->stack_texts[index]) {
		char *text = text_of_stack(&report->rank->stacks[index]);

		report->stack_texts[index] = text_append_json(NULL, text);
		arrfree(text);
	}
	json_key(&report->json, key);
	json_raw(&report->json, report->stack_texts[index], arrlenu(report->stack_texts[index]));
}

static void put_users(struct json *json, const struct rank *rank, const struct block *block)
{
	if (!json_list(json, "user_tasks", block->user_count))
		return;
	for (uint32_t i = 0; i < block->user_count; i++)
		json_signed(json, rank->users[block->first_user + i]);
	json_array_end(json);
}

static void put_block_times(struct json *json, const struct block *block)
{
	if (block->end_plot != PLOT_NONE)
		put_plot(json, "end_plot_time_stamp", block_end_task(block), block->end_plot);
	json_put_unsigned_if(json, "end_time_ns", !block->persistent, block->end_time_ns);
	json_put_signed(json, "end_time_stamp", block->end);
}

/* The operator of the forward pass that a backward one belongs to. */
static void put_forward(struct report *report, const struct operator_run *forward)
{
	put_stack(report, "forward_stack", forward->stack);
	json_put_unsigned_if(&report->json, "forward_task", forward->task != TASK_NONE, (uint64_t)forward->task);
}

static void put_block(struct report *report, const struct block *block)
{
	struct json *json = &report->json;
	const struct frame *leaf = stack_leaf(&report->rank->stacks[block->stack]);
	const struct operator_run *run = &report->rank->runs[block->producer];

	json_object(json);
	json_put_unsigned(json, "actual_peak_memory", block->peak_bytes);
	json_put_unsigned(json, "actual_used_memory", block->used_bytes);
	json_put_unsigned_if(json, "allocated_bytes", block->allocated_bytes, block->allocated_bytes);
	if (block->communication)
		json_put_text(json, "communication", communication_name((enum communication)block->communication));
	json_put_text(json, "device", report->rank->devices[block->device].name);
	put_address(json, "device_addr", block->address);
	put_block_times(json, block);
	json_put_text(json, "file_name", leaf ? leaf->file : "");
	if (run->forward != RUN_NONE)
		put_forward(report, &report->rank->runs[run->forward]);
	json_put_unsigned(json, "generation", block->generation);
	json_put_text(json, "graph_name", run->module);
	json_put_signed(json, "is_persistent", block->persistent);
	json_put_signed(json, "is_small", block->bytes < SMALL_BYTES);
	json_put_unsigned(json, "line_num", leaf ? leaf->line : 0);
	json_put_text(json, "node_name", report->rank->operator_names[block->name]);
	json_put_text(json, "owner", *block->owner ? block->owner : NULL);
	json_put_text(json, "owner_source", owner_source_name(block->owner_source));
	json_put_text(json, "pool_type", report->pool_name);
	json_key(json, "preexisting");
	json_boolean(json, block->preexisting);
	json_put_signed(json, "producer_task", block->start);
	put_stack(report, "python_stack", block->stack);
	if (block->remainder) {
		json_key(json, "remainder");
		json_boolean(json, true);
	}
	json_put_unsigned(json, "size", block->bytes);
	put_plot(json, "start_plot_time_stamp", block->start, block->start_plot);
	json_put_unsigned(json, "start_time_ns", block->start_time_ns);
	json_put_signed(json, "start_time_stamp", block->start);
	json_put_unsigned(json, "stream_id", block->stream);
	json_put_text(json, "task_name", phase_name(block->phase));
	json_put_text(json, "type", category_name(block->category));
	put_users(json, report->rank, block);
	json_object_end(json);
}

static void put_blocks(struct report *report)
{
	const struct rank *rank = report->rank;

	json_key(&report->json, "memory_blocks");
	if (!arrlenu(rank->blocks)) {
		json_raw(&report->json, "[]", 2);
		return;
	}
	json_array(&report->json);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		put_block(report, &rank->blocks[i]);
	json_array_end(&report->json);
}

/* --- totals ---------------------------------------------------------------------- */

static void put_breakdown(struct json *json, const char *key, const struct snapshot *snapshot, bool with_total)
{
	json_key(json, key);
	json_object(json);
	for (int i = 0; i < CATEGORIES; i++) {
		enum category category = categories_sorted[i];

		/* Between Temp and Workspace in the order of keys. */
		if (with_total && category == CATEGORY_WORKSPACE)
			json_put_unsigned(json, "Total", snapshot->total);
		json_put_unsigned(json, category_name(category), snapshot->category[category]);
	}
	json_object_end(json);
}

static void snapshot_add(struct snapshot *sum, const struct snapshot *snapshot)
{
	sum->total += snapshot->total;
	for (int category = 0; category < CATEGORIES; category++)
		sum->category[category] += snapshot->category[category];
}

/* Over all devices, each at its own peak. */
static void put_summary(struct report *report)
{
	struct json *json = &report->json;
	const struct rank *rank = report->rank;
	struct snapshot current = {0}, peak = {0};

	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		snapshot_add(&current, &rank->devices[i].current);
		snapshot_add(&peak, &rank->devices[i].peak);
	}

	json_key(json, "summary");
	json_object(json);
	put_breakdown(json, "current_breakdown_bytes", &current, false);
	json_put_unsigned(json, "current_bytes", current.total);
	put_breakdown(json, "peak_breakdown_bytes", &peak, false);
	json_put_unsigned(json, "peak_bytes", rank->peak_bytes);
	json_key(json, "peak_gib");
	json_double(json, (double)rank->peak_bytes / GIB);
	json_object_end(json);
}

static void put_devices(struct report *report)
{
	const struct rank *rank = report->rank;
	struct json *json = &report->json;

	json_key(json, "devices");
	json_object(json);
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		if (!rank->devices[i].reported)
			continue;
		json_key(json, rank->devices[i].name);
		json_object(json);
		put_breakdown(json, "current", &rank->devices[i].current, true);
		put_breakdown(json, "peak", &rank->devices[i].peak, true);
		json_object_end(json);
	}
	json_object_end(json);
}

/* The one with the highest peak, NULL when none is reported. */
static const struct device *device_first(const struct rank *rank)
{
	const struct device *first = NULL;

	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (rank->devices[i].reported && (!first || rank->devices[i].peak_bytes > first->peak_bytes))
			first = &rank->devices[i];
	return first;
}

/* --- metadata and live -------------------------------------------------------------- */

/* Members of the target's text, by the same names. */
static void put_members(struct report *report, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		json_put_tree(&report->json, names[i], tree_get(report->target, names[i]));
}

/* The kind of the device that the report is about, "cuda"; NULL: none has memory. */
static void put_target_device(struct json *json, const struct rank *rank)
{
	const struct device *device = device_first(rank);
	char kind[DEVICE_NAME_BYTES] = "";

	if (device)
		snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(device->name, ":"), device->name);
	json_put_text(json, "target_device", device && device->peak_bytes ? kind : NULL);
}

#define PUT_MEMBERS(report, names) put_members(report, names, sizeof(names) / sizeof(*(names)))

/* What its launcher says, else what the largest communicator does. */
static void put_world_size(struct report *report)
{
	yajl_val told = tree_get(report->target, "world_size");
	int32_t largest = 0;

	for (size_t i = 0; i < arrlenu(report->rank->groups); i++)
		if (report->rank->groups[i].size > largest)
			largest = report->rank->groups[i].size;
	if (YAJL_IS_INTEGER(told) || !largest)
		json_put_tree(&report->json, "world_size", told);
	else
		json_put_signed(&report->json, "world_size", largest);
}

static void put_metadata(struct report *report)
{
	struct json *json = &report->json;
	char class[MODEL_CLASS_BYTES];
	const char *model = model_class(report->rank, class);

	json_key(json, "metadata");
	json_object(json);
	batch_put(json, report->end, model);
	PUT_MEMBERS(report, METADATA_BEFORE_RANK);
	json_put_text(json, "model", model);
	json_put_text(json, "model_dtype", model_element_name(report->rank));
	PUT_MEMBERS(report, METADATA_BEHIND_MODEL);
	parallel_put(json, report->rank);
	json_put_signed(json, "rank", report->rank->rank);
	PUT_MEMBERS(report, METADATA_BEFORE_DEVICE);
	put_target_device(json, report->rank);
	PUT_MEMBERS(report, METADATA_AFTER_DEVICE);
	put_world_size(report);
	json_object_end(json);
}

static void put_counts(struct json *json, const struct rank *rank)
{
	json_key(json, "counts");
	json_object(json);
	json_put_unsigned(json, "allocated_bytes", rank->allocated_bytes);
	json_put_unsigned(json, "allocations", rank->allocations);
	json_put_unsigned(json, "arguments_cut", rank->arguments_cut);
	json_put_unsigned(json, "blocks", arrlenu(rank->blocks));
	json_put_unsigned(json, "events", rank->event_count);
	json_put_unsigned(json, "freed_bytes", rank->freed_bytes);
	json_put_unsigned(json, "frees", rank->frees);
	json_put_unsigned(json, "operators", arrlenu(rank->runs));
	json_put_unsigned(json, "reused_addresses", rank->reused_addresses);
	json_put_unsigned(json, "stacks_cut", rank->stacks_cut);
	json_put_unsigned(json, "steps", rank->step_count);
	json_put_signed(json, "tasks", rank->task_count);
	json_put_unsigned(json, "unknown_frees", rank->unknown_frees);
	json_put_unsigned(json, "untracked_blocks", rank->untracked_blocks);
	json_put_unsigned(json, "untracked_bytes", rank->untracked_bytes);
	json_object_end(json);
}

static void put_external(struct json *json, const struct rank *rank, const struct external *external)
{
	const struct frame *leaf = stack_leaf(&rank->stacks[external->stack]);

	json_object(json);
	put_address(json, "address", external->address);
	json_put_unsigned(json, "bytes", external->bytes);
	json_put_text(json, "device", rank->devices[external->device].name);
	json_put_text(json, "file_name", leaf ? leaf->file : "");
	json_put_unsigned(json, "first_time_ns", external->first_time_ns);
	json_put_unsigned(json, "line_num", leaf ? leaf->line : 0);
	json_put_text(json, "node_name", rank->operator_names[rank->runs[external->first_run].name]);
	json_put_unsigned(json, "uses", external->uses);
	json_object_end(json);
}

static void put_externals(struct json *json, const struct rank *rank)
{
	if (!json_list(json, "externals", arrlenu(rank->externals)))
		return;
	for (size_t i = 0; i < arrlenu(rank->externals); i++)
		put_external(json, rank, &rank->externals[i]);
	json_array_end(json);
}

static void put_losses(struct json *json, const struct rank *rank)
{
	json_key(json, "losses");
	json_object(json);
	for (int i = 0; i < LOSS_REASONS; i++)
		json_put_unsigned(json, LOSSES_SORTED[i].name, rank->loss.lost[LOSSES_SORTED[i].reason]);
	json_object_end(json);
}

/* produced = received + what the ring had no room for. */
static void put_events(struct json *json, const struct rank *rank)
{
	json_key(json, "events");
	json_object(json);
	json_put_unsigned(json, "lost", rank->loss.lost[LOSS_RING_FULL]);
	json_put_unsigned(json, "produced", rank->loss.produced);
	json_put_unsigned(json, "received", rank->loss.received);
	json_object_end(json);
}

/* `device` may be NULL: there is none. */
static void put_peak(struct json *json, const struct rank *rank, const struct device *device)
{
	const struct operator_run *run =
		!device || device->peak_run == UINT32_MAX ? NULL : &rank->runs[device->peak_run];

	json_key(json, "peak");
	json_object(json);
	json_put_text(json, "node_name", run ? rank->operator_names[run->name] : NULL);
	json_put_unsigned_if(json, "task", run && run->task != TASK_NONE, run ? (uint64_t)run->task : 0);
	json_put_text(json, "task_name", run ? phase_name(run->phase) : NULL);
	json_put_unsigned(json, "time_ns", device ? device->peak_time_ns : 0);
	json_object_end(json);
}

static void put_streams(struct json *json, const struct device *device)
{
	if (!json_list(json, "streams", arrlenu(device->streams)))
		return;
	for (size_t i = 0; i < arrlenu(device->streams); i++) {
		char text[ADDRESS_BYTES];

		snprintf(text, sizeof(text), "0x%" PRIx64, device->streams[i]);
		json_text(json, text);
	}
	json_array_end(json);
}

/* Whether blocks add up to what the allocator says, at the end of each step. */
static void put_balances(struct json *json, const struct device *device)
{
	if (!json_list(json, "steps", arrlenu(device->balances)))
		return;
	for (size_t i = 0; i < arrlenu(device->balances); i++) {
		const struct balance *balance = &device->balances[i];

		json_object(json);
		json_put_unsigned(json, "allocator_bytes", balance->allocator_bytes);
		json_put_signed(json, "difference_bytes", balance_difference(balance));
		json_put_unsigned(json, "older_bytes", balance->older_bytes);
		json_put_unsigned(json, "step", i);
		json_put_unsigned(json, "traced_bytes", balance->traced_bytes);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_live_devices(struct json *json, const struct rank *rank)
{
	json_key(json, "devices");
	json_object(json);
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		const struct device *device = &rank->devices[i];

		json_key(json, device->name);
		json_object(json);
		json_put_unsigned_if(json, "older_bytes", device->has_totals, device->older_bytes);
		json_put_unsigned(json, "older_known_bytes", device->older_known_bytes);
		json_put_unsigned(json, "outside_bytes", device->outside_bytes);
		json_put_unsigned(json, "outside_peak_bytes", device->outside_peak_bytes);
		if (device->reported)
			put_peak(json, rank, device);
		json_put_unsigned(json, "remainder_bytes", device->remainder_bytes);
		json_key(json, "reported");
		json_boolean(json, device->reported);
		json_put_unsigned_if(json, "reserved_bytes", device->has_totals, device->reserved_bytes);
		json_put_unsigned_if(json, "reserved_peak_bytes", device->has_totals, device->reserved_peak_bytes);
		json_put_unsigned(json, "segment_bytes", device->segment_bytes);
		json_put_unsigned(json, "segment_peak_bytes", device->segment_peak_bytes);
		put_balances(json, device);
		put_streams(json, device);
		json_put_unsigned(json, "unexplained_totals", device->unexplained_totals);
		json_object_end(json);
	}
	json_object_end(json);
}

static void put_versions(struct report *report)
{
	struct json *json = &report->json;

	json_key(json, "versions");
	json_object(json);
	json_put_text(json, "hdtrace", HDTRACE_VERSION);
	json_put_tree(json, "kernel", tree_get(report->target, "kernel_version"));
	json_put_tree(json, "python", tree_get(report->target, "python_version"));
	json_put_tree(json, "torch", tree_get(report->target, "torch_version"));
	json_object_end(json);
}

static void put_window(struct json *json, const struct window *window)
{
	json_key(json, "window");
	if (!window->since_ns) {
		json_null(json);
		return;
	}
	json_object(json);
	json_put_unsigned(json, "dropped_bytes", window->dropped_bytes);
	json_put_unsigned(json, "dropped_records", window->dropped_records);
	json_put_unsigned(json, "since_ns", window->since_ns);
	json_object_end(json);
}

static void put_live(struct report *report)
{
	struct json *json = &report->json;
	const struct rank *rank = report->rank;

	json_key(json, "live");
	json_object(json);
	json_put_tree(json, "attach_time_ns", tree_get(report->target, "attach_time_ns"));
	json_key(json, "complete");
	json_boolean(json, rank_complete(rank) && rank->end_json);
	put_counts(json, rank);
	put_live_devices(json, rank);
	json_put_text(json, "end_reason", tree_text(report->end, "reason"));
	put_events(json, rank);
	put_externals(json, rank);
	json_put_unsigned(json, "first_time_ns", rank->first_time_ns);
	json_key(json, "from_start");
	json_boolean(json, rank->from_start);
	put_kernels(json, rank);
	json_put_unsigned(json, "last_time_ns", rank->last_time_ns);
	put_losses(json, rank);
	put_out_of_memories(json, rank);
	put_peak(json, rank, device_first(rank));
	put_segments(json, rank);
	json_put_tree(json, "target", report->target);
	put_versions(report);
	put_window(json, &rank->window);
	json_object_end(json);
}

/* --- the whole ---------------------------------------------------------------------- */

static void put_report(struct report *report)
{
	struct json *json = &report->json;

	json_object(json);
	put_devices(report);
	put_findings_of_rank(json, report->findings, report->rank);
	put_limitations(json, report->rank, report->target, report->end);
	put_live(report);
	put_blocks(report);
	put_metadata(report);
	put_modules(json, report->rank);
	json_put_signed(json, "schema_version", SCHEMA_VERSION);
	json_put_text(json, "status", "ok");
	put_summary(report);
	json_object_end(json);
}

/* Which stage failed: without any event it was the attach, else the job touched no memory while it was traced. */
static void put_error(struct report *report)
{
	struct json *json = &report->json;
	bool silent = report->rank->event_count == 0;
	const char *message = "events came from the target, but no memory among them";

	if (silent)
		message = "no event came from the target";
	else if (arrlenu(report->rank->collectives))
		message = "collectives came from the target, but no memory: they have a CSV of their own";
	json_object(json);
	json_key(json, "error");
	json_object(json);
	json_put_text(json, "message", message);
	json_put_text(json, "type", "NothingObserved");
	json_object_end(json);
	put_limitations(json, report->rank, report->target, report->end);
	put_live(report);
	put_metadata(report);
	json_put_signed(json, "schema_version", SCHEMA_VERSION);
	json_put_text(json, "stage", silent ? "attach" : "capture");
	json_put_text(json, "status", "error");
	json_object_end(json);
}

static void report_clear(struct report *report)
{
	for (size_t i = 0; i < arrlenu(report->stack_texts); i++)
		arrfree(report->stack_texts[i]);
	arrfree(report->stack_texts);
	yajl_tree_free(report->target);
	yajl_tree_free(report->end);
}

int report_memory_json(const struct rank *rank, const struct report_options *options, const char *path)
{
	struct report report = {.rank = rank, .target = tree_of(rank->target_json), .end = tree_of(rank->end_json)};
	const char *allocator = tree_text(report.target, "allocator");
	struct output output = {0};
	int error;

	report.pool_name = options && options->pool_name ? options->pool_name : REPORT_POOL_NAME;
	report.findings = options ? options->findings : NULL;
	if (allocator)
		report.pool_name = allocator;
	arrzero(report.stack_texts, arrlenu(rank->stacks));
	error = output_open(&output, path);
	if (error)
		goto cleanup;
	error = json_begin(&report.json, output.file);
	if (error)
		goto cleanup;
	if (report_has_data(rank))
		put_report(&report);
	else
		put_error(&report);
	error = json_end(&report.json);
	if (!error)
		error = output_commit(&output);
cleanup:
	output_discard(&output);
	report_clear(&report);
	return error;
}
