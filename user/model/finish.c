/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a trace: runs the passes over what was recorded, in order, and
 * puts together what is public of a rank. Whatever is alive now is persistent.
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_PREEXISTING "hdtrace.preexisting"
#define NAME_REMAINDER "hdtrace.remainder"
#define NAME_RESIZE "torch.UntypedStorage.resize_"
#define NAME_OUTSIDE "native.allocation"
#define NAME_OUTSIDE_PREFIX "python."
#define NAME_COMPILED_PREFIX "compiled."
#define NAME_NATIVE_PREFIX "native."
#define NAME_UNKNOWN "hdtrace.unknown"

/* Names that no operator has, after those of the operators, once each. */
struct names {
	struct {
		const char *key; /* of model_text: compared as pointer */
		uint32_t value;
	} * index;
	struct model *model;
	struct target_state *target;
};

static uint32_t name_add(struct names *names, const char *name)
{
	const char *text = model_text(names->model, name);
	ptrdiff_t at = hmgeti(names->index, text);
	uint32_t index = (uint32_t)arrlenu(names->target->operator_names);

	if (at >= 0)
		return names->index[at].value;
	arrput(names->target->operator_names, text);
	hmput(names->index, text, index);
	return index;
}

/* An allocation outside operators is called by the function that made it: "python.load", "compiled.call". */
static int name_of_outside(struct names *names, const struct stack *stack, uint32_t *index)
{
	char *text;

	if (!stack->frame_count) {
		*index = name_add(names, NAME_OUTSIDE);
		return 0;
	}
	if (asprintf(&text, "%s%s", stack->in_compiled ? NAME_COMPILED_PREFIX : NAME_OUTSIDE_PREFIX,
		    stack->frames[stack->frame_count - 1].function) < 0)
		return -ENOMEM;
	*index = name_add(names, text);
	free(text);
	return 0;
}

/* By the function, or else the library, that called the driver. */
static int name_of_caller(struct names *names, const struct segment *segment, uint32_t *index)
{
	const struct symbol *symbol = rank_symbol(&names->target->result, segment->caller);
	char *text;

	if (!symbol) {
		*index = name_add(names, NAME_OUTSIDE);
		return 0;
	}
	if (asprintf(&text, NAME_NATIVE_PREFIX "%s", symbol->name[0] ? symbol->name : symbol->library) < 0)
		return -ENOMEM;
	*index = name_add(names, text);
	free(text);
	return 0;
}

static int name_of_run(struct names *names, size_t operator_count, const struct run *run, uint32_t *index)
{
	const struct target_state *target = names->target;

	switch (run->source) {
	case SOURCE_PREEXISTING:
		*index = name_add(names, NAME_PREEXISTING);
		return 0;
	case SOURCE_RESIZE:
		*index = name_add(names, NAME_RESIZE);
		return 0;
	case SOURCE_OUTSIDE:
		return name_of_outside(names, &target->stacks[run->stack], index);
	case SOURCE_SEGMENT:
		return name_of_caller(names, &target->result.segments[run->operator_], index);
	default:
		*index = run->operator_;
		if (run->operator_ >= operator_count || !target->operator_names[run->operator_])
			*index = name_add(names, NAME_UNKNOWN);
		return 0;
	}
}

/* Dropped runs are not shown, nor what was no operator and got no index. */
static bool run_is_public(const struct passes *passes, uint32_t run)
{
	const struct run *it = &passes->target->runs[run];

	if (it->state != RUN_RAN)
		return false;
	return it->source == SOURCE_OPERATOR || passes->task[run] != TASK_NONE;
}

static int runs_publish(struct model *model, struct passes *passes)
{
	struct target_state *target = passes->target;
	size_t operator_count = arrlenu(target->operator_names);
	struct names names = {.model = model, .target = target};
	struct operator_run *runs = NULL;
	int error = 0;

	arrzero(passes->public_run, arrlenu(target->runs));
	for (uint32_t i = 0; i < arrlenu(target->runs) && !error; i++) {
		const struct run *run = &target->runs[i];
		struct operator_run public = {
			.time_ns = run->source == SOURCE_PREEXISTING ? target->result.first_time_ns : run->time_ns,
			.task = passes->task[i],
			.thread_id = run->thread_id,
			.step = run->step,
			.stack = run->stack,
			.forward = RUN_NONE,
			.module = target->stacks[run->stack].module,
			.phase = run->source == SOURCE_PREEXISTING
		                         ? PHASE_INITIALIZATION
		                         : (uint8_t)stack_phase(&target->stacks[run->stack], run->flags),
		};

		passes->public_run[i] = NONE;
		if (!run_is_public(passes, i))
			continue;
		error = name_of_run(&names, operator_count, run, &public.name);
		passes->public_run[i] = (uint32_t)arrlenu(runs);
		arrput(runs, public);
	}
	for (uint32_t i = 0; i < arrlenu(target->runs) && !error; i++) {
		uint32_t resolved = passes->resolved[i];

		if (resolved != NONE && passes->public_run[resolved] != NONE)
			runs[passes->public_run[resolved]].launches += target->runs[i].launches;
	}
	for (size_t i = 0; i < arrlenu(target->devices); i++)
		if (target->devices[i].device.remainder_bytes)
			passes->remainder_name = name_add(&names, NAME_REMAINDER);
	passes_find_regions(passes);
	passes_link_nodes(passes, runs);
	if (!error)
		error = passes_conclude_saved(model, passes, runs);
	for (size_t i = 0; i < arrlenu(target->result.collectives); i++) {
		struct collective *collective = &target->result.collectives[i];

		if (collective->run != RUN_NONE)
			collective->run = passes->public_run[collective->run];
	}
	target->result.runs = runs;
	hmfree(names.index);
	return error;
}

/* Pinned memory is of interest to whoever looks at an accelerator. */
static bool external_is_reported(const struct target_state *target, const struct allocation *allocation)
{
	return target->devices[allocation->device].device.type == DEVICE_PINNED ||
	       allocation_is_reported(target, allocation);
}

/* One entry an address, with its uses by runs that ran; those that none used are left out. */
static void externals_publish(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;
	uint32_t *entry = NULL;

	arrzero(entry, arrlenu(target->allocations));
	for (uint32_t run = 0; run < arrlenu(target->runs); run++) {
		for (uint32_t i = passes->use_start[run]; i < passes->use_start[run + 1]; i++) {
			const struct allocation *allocation = &target->allocations[passes->used[i]];
			struct external external = {
				.address = allocation->address,
				.bytes = allocation->bytes,
				.first_time_ns = target->runs[run].time_ns,
				.first_run = passes->public_run[run],
				.stack = target->runs[run].stack,
				.device = allocation->device,
			};

			if (!(allocation->flags & ALLOCATION_EXTERNAL) || !external_is_reported(target, allocation))
				continue;
			if (!entry[passes->used[i]]) {
				arrput(rank->externals, external);
				entry[passes->used[i]] = (uint32_t)arrlenu(rank->externals);
			}
			rank->externals[entry[passes->used[i]] - 1].uses++;
		}
	}
	arrfree(entry);
}

static void names_publish(struct target_state *target)
{
	struct rank *rank = &target->result;

	for (size_t i = 0; i < arrlenu(target->operator_names); i++)
		if (!target->operator_names[i])
			target->operator_names[i] = NAME_UNKNOWN;
	rank->operator_names = target->operator_names;
	target->operator_names = NULL;
}

static void passes_free(struct passes *passes)
{
	arrfree(passes->resolved);
	arrfree(passes->use_start);
	arrfree(passes->used);
	arrfree(passes->made);
	arrfree(passes->task);
	arrfree(passes->tasks_before);
	arrfree(passes->maker);
	arrfree(passes->region);
	arrfree(passes->region_runs);
	arrfree(passes->public_run);
	arrfree(passes->row);
	for (size_t i = 0; i < arrlenu(passes->totals); i++)
		arrfree(passes->totals[i]);
	arrfree(passes->totals);
}

static int symbol_compare(const void *left, const void *right)
{
	const struct symbol *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

const struct symbol *rank_symbol(const struct rank *rank, uint64_t address)
{
	struct symbol key = {.address = address};

	return rank->symbols ? bsearch(&key, rank->symbols, arrlenu(rank->symbols), sizeof(key), symbol_compare) : NULL;
}

/* --- devices ------------------------------------------------------------------- */

static void devices_choose(struct target_state *target)
{
	bool accelerators = false;

	for (size_t i = 0; i < arrlenu(target->devices); i++)
		accelerators |= target->devices[i].device.seen && !device_is_host(target->devices[i].device.type);
	for (size_t i = 0; i < arrlenu(target->devices); i++) {
		struct device *device = &target->devices[i].device;

		device_name_format(device->name, device->type, device->index);
		device->reported = device_choice_has(target->choice, device->type, device->index, accelerators);
	}
}

static int device_compare(const void *left, const void *right)
{
	const struct device *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static uint8_t place_of(const uint8_t place[DEVICES_MAX], uint8_t device)
{
	return device == DEVICES_MAX ? UINT8_MAX : place[device];
}

/* By name; whatever names a device follows. */
static void devices_publish(struct target_state *target)
{
	struct rank *rank = &target->result;
	uint8_t place[DEVICES_MAX] = {0};

	for (size_t i = 0; i < arrlenu(target->devices); i++)
		arrput(rank->devices, target->devices[i].device);
	qsort(rank->devices, arrlenu(rank->devices), sizeof(*rank->devices), device_compare);
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		for (size_t j = 0; j < arrlenu(target->devices); j++)
			if (!strcmp(target->devices[j].device.name, rank->devices[i].name))
				place[j] = (uint8_t)i;
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		rank->blocks[i].device = place[rank->blocks[i].device];
	for (size_t i = 0; i < arrlenu(rank->changes); i++)
		rank->changes[i].device = place[rank->changes[i].device];
	for (size_t i = 0; i < arrlenu(rank->externals); i++)
		rank->externals[i].device = place[rank->externals[i].device];
	for (size_t i = 0; i < arrlenu(rank->segments); i++)
		rank->segments[i].device = place_of(place, rank->segments[i].device);
	for (size_t i = 0; i < arrlenu(rank->failures); i++)
		rank->failures[i].device = place_of(place, rank->failures[i].device);
	for (size_t i = 0; i < arrlenu(rank->releases); i++)
		rank->releases[i].device = place_of(place, rank->releases[i].device);
	for (size_t i = 0; i < arrlenu(rank->out_of_memories); i++)
		rank->out_of_memories[i].device = place_of(place, rank->out_of_memories[i].device);
}

int target_finish(struct model *model, struct target_state *target)
{
	struct passes passes = {.target = target};
	struct rank *rank = &target->result;
	int error;

	rank->target_json = target->target_json;
	rank->end_json = target->end_json;
	rank->step_count = target->steps;
	rank->stacks = target->stacks;
	if (arrlenu(rank->symbols))
		qsort(rank->symbols, arrlenu(rank->symbols), sizeof(*rank->symbols), symbol_compare);
	collectives_finish(target);
	segments_finish(target);
	error = segments_become_blocks(target);
	if (error)
		return error;
	operators_end(target);
	segments_total(target);
	devices_choose(target);
	remainders_add(target);
	passes_number_tasks(&passes);
	error = runs_publish(model, &passes);
	if (error)
		goto cleanup;
	externals_publish(&passes);
	passes_begin_steps(&passes);
	passes_total(&passes);
	passes_fill_steps(&passes);
	passes_make_rows(&passes);
	passes_communicate(&passes);
	passes_snapshot(&passes);
	passes_change(&passes);
	devices_publish(target);
	names_publish(target);
cleanup:
	passes_free(&passes);
	return error;
}
