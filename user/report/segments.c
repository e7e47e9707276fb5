/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments, exhaustion and kernels in the JSON. Segments are told by who called
 * for them; each one is a row of the CSV.
 */
#include "segments.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "holders.h"
#include "text.h"

const char *segment_device_name(const struct rank *rank, uint8_t device)
{
	return device < arrlenu(rank->devices) ? rank->devices[device].name : "";
}

const char *segment_memory_name(const struct segment *segment)
{
	if (segment->registered)
		return "registered";
	switch (segment->memory) {
	case SEGMENT_DEVICE:
		return "device";
	case SEGMENT_MANAGED:
		return "managed";
	case SEGMENT_ARRAY:
		return "array";
	case SEGMENT_IMPORTED:
		return "imported";
	default:
		return "pinned";
	}
}

const char *segment_caller(const struct rank *rank, uint64_t address, char text[SEGMENT_CALLER_BYTES])
{
	const struct symbol *symbol = rank_symbol(rank, address);

	if (!symbol)
		snprintf(text, SEGMENT_CALLER_BYTES, "0x%" PRIx64, address);
	else if (!symbol->name[0])
		snprintf(text, SEGMENT_CALLER_BYTES, "%s", symbol->library);
	else
		snprintf(text, SEGMENT_CALLER_BYTES, "%s!%s+0x%x", symbol->library, symbol->name, symbol->offset);
	return text;
}

const char *exhausted_name(const struct rank *rank, const struct out_of_memory *exhausted)
{
	return exhausted->name < arrlenu(rank->operator_names) ? rank->operator_names[exhausted->name] : NULL;
}

static void put_caller(struct json *json, const struct rank *rank, uint64_t address)
{
	char text[SEGMENT_CALLER_BYTES];

	json_put_text(json, "caller", segment_caller(rank, address, text));
}

static void put_device(struct json *json, const struct rank *rank, uint8_t device)
{
	json_put_text(json, "device", device < arrlenu(rank->devices) ? rank->devices[device].name : NULL);
}

static void put_flag(struct json *json, const char *key, bool value)
{
	json_key(json, key);
	json_boolean(json, value);
}

/* --- segments by caller ------------------------------------------------------------- */

struct caller {
	const struct segment *example;
	uint64_t segments, bytes, held_bytes; /* held: not given back until the end */
};

static int caller_compare(const void *left, const void *right)
{
	const struct caller *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->example->caller > b->example->caller) - (a->example->caller < b->example->caller);
}

static bool is_same_caller(const struct segment *a, const struct segment *b)
{
	return a->caller == b->caller && a->device == b->device && a->memory == b->memory &&
	       a->function == b->function && a->has_blocks == b->has_blocks;
}

static struct caller *callers_find(const struct rank *rank)
{
	struct caller *callers = NULL;

	for (size_t i = 0; i < arrlenu(rank->segments); i++) {
		const struct segment *segment = &rank->segments[i];
		struct caller fresh = {.example = segment};
		size_t at = 0;

		if (!segment->bytes)
			continue;
		while (at < arrlenu(callers) && !is_same_caller(callers[at].example, segment))
			at++;
		if (at == arrlenu(callers))
			arrput(callers, fresh);
		callers[at].segments++;
		callers[at].bytes += segment->bytes;
		callers[at].held_bytes += segment->end_time_ns == UINT64_MAX ? segment->bytes : 0;
	}
	if (callers)
		qsort(callers, arrlenu(callers), sizeof(*callers), caller_compare);
	return callers;
}

static void put_callers(struct json *json, const struct rank *rank)
{
	struct caller *callers = callers_find(rank);

	if (!json_list(json, "callers", arrlenu(callers)))
		return;
	for (size_t i = 0; i < arrlenu(callers); i++) {
		json_object(json);
		put_flag(json, "allocator", callers[i].example->has_blocks);
		json_put_unsigned(json, "bytes", callers[i].bytes);
		put_caller(json, rank, callers[i].example->caller);
		put_device(json, rank, callers[i].example->device);
		json_put_text(json, "function", rank->operator_names[callers[i].example->function]);
		json_put_unsigned(json, "held_bytes", callers[i].held_bytes);
		json_put_text(json, "memory", segment_memory_name(callers[i].example));
		json_put_unsigned(json, "segments", callers[i].segments);
		json_object_end(json);
	}
	json_array_end(json);
	arrfree(callers);
}

static void put_failures(struct json *json, const struct rank *rank)
{
	if (!json_list(json, "failures", arrlenu(rank->failures)))
		return;
	for (size_t i = 0; i < arrlenu(rank->failures); i++) {
		const struct segment_failure *failure = &rank->failures[i];

		json_object(json);
		json_put_unsigned(json, "bytes", failure->bytes);
		put_caller(json, rank, failure->caller);
		json_key(json, "code");
		if (failure->code)
			json_signed(json, failure->code);
		else
			json_null(json);
		put_device(json, rank, failure->device);
		json_put_text(json, "function", rank->operator_names[failure->function]);
		json_put_unsigned(json, "time_ns", failure->time_ns);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_releases(struct json *json, const struct rank *rank)
{
	if (!json_list(json, "releases", arrlenu(rank->releases)))
		return;
	for (size_t i = 0; i < arrlenu(rank->releases); i++) {
		const struct segment_release *release = &rank->releases[i];

		json_object(json);
		json_put_unsigned(json, "bytes", release->bytes);
		put_device(json, rank, release->device);
		put_flag(json, "in_operator", release->in_operator);
		json_put_unsigned(json, "segments", release->segments);
		json_put_unsigned(json, "time_ns", release->time_ns);
		json_object_end(json);
	}
	json_array_end(json);
}

void put_segments(struct json *json, const struct rank *rank)
{
	json_key(json, "segments");
	json_object(json);
	put_callers(json, rank);
	json_put_unsigned(json, "failure_count", rank->segment_failures);
	put_failures(json, rank);
	put_releases(json, rank);
	json_put_unsigned(json, "unknown_frees", rank->unknown_segment_frees);
	json_put_unsigned(json, "unsized", rank->unsized_segments);
	json_object_end(json);
}

/* --- out of memory --------------------------------------------------------------------- */

static void put_place(struct json *json, const struct frame *frame)
{
	json_put_text(json, "file_name", frame ? frame->file : "");
	json_put_unsigned(json, "line_num", frame ? frame->line : 0);
}

static void put_holding_blocks(struct json *json, const struct rank *rank, const struct holders *holders)
{
	if (!json_list(json, "blocks", holders->largest_count))
		return;
	for (size_t i = 0; i < holders->largest_count; i++) {
		const struct block *block = holders->largest[i];
		const struct frame *leaf = stack_leaf(&rank->stacks[block->stack]);

		json_object(json);
		json_put_unsigned(json, "bytes", block_held_bytes(block));
		json_put_text(json, "file_name", leaf ? leaf->file : "");
		json_put_unsigned(json, "line_num", leaf ? leaf->line : 0);
		json_put_text(json, "node_name", rank->operator_names[block->name]);
		json_put_signed(json, "start_time_stamp", block->start);
		json_put_text(json, "type", category_name(block->category));
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_holding_categories(struct json *json, const struct holders *holders)
{
	json_key(json, "categories");
	json_object(json);
	for (size_t i = 0; i < CATEGORIES; i++)
		json_put_unsigned(
			json, category_name(categories_sorted[i]), holders->snapshot.category[categories_sorted[i]]);
	json_object_end(json);
}

static void put_holding_lines(struct json *json, const struct holders *holders)
{
	if (!json_list(json, "lines", arrlenu(holders->lines)))
		return;
	for (size_t i = 0; i < arrlenu(holders->lines) && i < HOLDERS_SHOWN; i++) {
		json_object(json);
		json_put_unsigned(json, "blocks", holders->lines[i].blocks);
		json_put_unsigned(json, "bytes", holders->lines[i].bytes);
		put_place(json, holders->lines[i].frame);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_holding_modules(struct json *json, const struct holders *holders)
{
	if (!json_list(json, "modules", arrlenu(holders->modules)))
		return;
	for (size_t i = 0; i < arrlenu(holders->modules) && i < HOLDERS_SHOWN; i++) {
		json_object(json);
		json_put_unsigned(json, "blocks", holders->modules[i].blocks);
		json_put_unsigned(json, "bytes", holders->modules[i].bytes);
		json_put_text(json, "graph_name", holders->modules[i].module ? holders->modules[i].module : "");
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_out_of_memory(struct json *json, const struct rank *rank, const struct out_of_memory *exhausted)
{
	bool known = exhausted->largest_gap != UINT64_MAX;
	uint64_t missing = known ? exhausted->bytes - exhausted->largest_gap : exhausted->bytes;
	struct holders holders;
	size_t enough;

	holders_find(rank, exhausted->device, exhausted->order, &holders);
	enough = holders_enough(&holders, missing);
	json_object(json);
	json_put_unsigned(json, "allocated_bytes", exhausted->allocated_bytes);
	put_holding_blocks(json, rank, &holders);
	json_put_unsigned_if(json, "blocks_enough", enough, enough);
	put_holding_categories(json, &holders);
	put_device(json, rank, exhausted->device);
	put_place(json, stack_leaf(&rank->stacks[exhausted->stack]));
	json_put_unsigned_if(json, "largest_gap_bytes", known, exhausted->largest_gap);
	put_holding_lines(json, &holders);
	json_put_unsigned_if(json, "missing_bytes", known, missing);
	put_holding_modules(json, &holders);
	json_put_text(json, "node_name", exhausted_name(rank, exhausted));
	json_put_unsigned(json, "requested_bytes", exhausted->bytes);
	json_put_unsigned(json, "reserved_bytes", exhausted->reserved_bytes);
	json_put_text(json, "task_name", phase_name(exhausted->phase));
	json_put_unsigned(json, "time_ns", exhausted->time_ns);
	json_object_end(json);
	holders_free(&holders);
}

void put_out_of_memories(struct json *json, const struct rank *rank)
{
	if (!json_list(json, "out_of_memory", arrlenu(rank->out_of_memories)))
		return;
	for (size_t i = 0; i < arrlenu(rank->out_of_memories); i++)
		put_out_of_memory(json, rank, &rank->out_of_memories[i]);
	json_array_end(json);
}

/* --- kernels ------------------------------------------------------------------------------ */

static const char *kernel_name(const struct rank *rank, const struct kernel *kernel)
{
	const struct symbol *symbol = rank_symbol(rank, kernel->function);

	return symbol && symbol->name[0] ? symbol->name : NULL;
}

static bool is_same_kernel(const struct rank *rank, const struct kernel *one, const struct kernel *other)
{
	const char *name = kernel_name(rank, one), *other_name = kernel_name(rank, other);

	return one->launcher == other->launcher &&
	       (name == other_name || (name && other_name && !strcmp(name, other_name)));
}

/* One may have several handles; those without a name are one, by the function that launches them. */
static struct kernel *kernels_told(const struct rank *rank)
{
	struct kernel *told = NULL;

	for (size_t i = 0; i < arrlenu(rank->kernels); i++) {
		size_t at = 0;

		while (at < arrlenu(told) && !is_same_kernel(rank, &told[at], &rank->kernels[i]))
			at++;
		if (at < arrlenu(told))
			told[at].launches += rank->kernels[i].launches;
		else
			arrput(told, rank->kernels[i]);
	}
	return told;
}

void put_kernels(struct json *json, const struct rank *rank)
{
	struct kernel *told = kernels_told(rank);

	if (!json_list(json, "kernels", arrlenu(told)))
		return;
	for (size_t i = 0; i < arrlenu(told); i++) {
		json_object(json);
		json_put_unsigned(json, "launches", told[i].launches);
		json_put_text(json, "launched_by", rank->operator_names[told[i].launcher]);
		json_put_text(json, "name", kernel_name(rank, &told[i]));
		json_object_end(json);
	}
	json_array_end(json);
	arrfree(told);
}
