/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model's door: targets and their names come in here, every record is sent
 * to the file that knows its kind, and the finished ranks go out. Texts are
 * kept once each, so that stacks can be compared by pointer.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const PHASE_NAMES[PHASES] = {
	[PHASE_INITIALIZATION] = "initialization",
	[PHASE_FORWARD] = "forward",
	[PHASE_RECOMPUTE] = "recompute",
	[PHASE_BACKWARD] = "backward",
	[PHASE_OPTIMIZER] = "optimizer",
};

static const char *const CATEGORY_NAMES[CATEGORIES] = {
	[CATEGORY_PARAMETER] = "Parameter",
	[CATEGORY_BUFFER] = "Buffer",
	[CATEGORY_GRADIENT] = "Gradient",
	[CATEGORY_ACTIVATION] = "Activation",
	[CATEGORY_TEMP] = "Temp",
	[CATEGORY_OPTSTATE] = "Optstate",
	[CATEGORY_OTHER] = "Other",
	[CATEGORY_WORKSPACE] = "Workspace",
};

const char *phase_name(enum phase phase)
{
	return (unsigned)phase < PHASES ? PHASE_NAMES[phase] : "";
}

const char *owner_source_name(enum owner_source source)
{
	static const char *const names[] = {[OWNER_SEEN] = "memory", [OWNER_CONCLUDED] = "operators"};

	return names[source];
}

const char *category_name(enum category category)
{
	return (unsigned)category < CATEGORIES ? CATEGORY_NAMES[category] : "";
}

struct model *model_new(const struct model_options *options)
{
	struct model *model = calloc(1, sizeof(*model));

	if (!model)
		return NULL;
	if (options)
		model->options = *options;
	arrput(model->sources, (struct source){0});
	sh_new_arena(model->texts);
	return model;
}

const char *model_text(struct model *model, const char *text)
{
	ptrdiff_t at = shgeti(model->texts, text);

	if (at < 0) {
		shput(model->texts, text, 0);
		at = shgeti(model->texts, text);
	}
	return model->texts[at].key;
}

static void rank_free(struct rank *rank)
{
	arrfree(rank->operator_names);
	arrfree(rank->runs);
	arrfree(rank->blocks);
	arrfree(rank->users);
	arrfree(rank->externals);
	arrfree(rank->changes);
	arrfree(rank->devices);
	arrfree(rank->segments);
	arrfree(rank->failures);
	arrfree(rank->releases);
	arrfree(rank->out_of_memories);
	arrfree(rank->kernels);
	arrfree(rank->groups);
	arrfree(rank->collectives);
	arrfree(rank->steps);
	arrfree(rank->splits);
	arrfree(rank->collective_blocks);
	arrfree(rank->symbols);
}

static void target_free(struct target_state *target)
{
	if (!target)
		return;
	for (size_t i = 0; i < arrlenu(target->stacks); i++)
		stack_clear(&target->stacks[i]);
	for (ptrdiff_t i = 0; i < hmlen(target->threads); i++)
		thread_free(target->threads[i].value);
	for (size_t i = 0; i < arrlenu(target->devices); i++) {
		arrfree(target->devices[i].device.streams);
		arrfree(target->devices[i].device.balances);
	}
	arrfree(target->devices);
	arrfree(target->stacks);
	arrfree(target->stack_known);
	hmfree(target->stack_index);
	hmfree(target->threads);
	hmfree(target->modules);
	hmfree(target->addresses);
	arrfree(target->operator_names);
	arrfree(target->operator_flags);
	arrfree(target->runs);
	arrfree(target->allocations);
	arrfree(target->moments);
	arrfree(target->corrections);
	arrfree(target->uses);
	arrfree(target->accumulations);
	hmfree(target->works);
	arrfree(target->collective_allocations);
	arrfree(target->live_segments);
	arrfree(target->unplaced);
	arrfree(target->segment_moments);
	hmfree(target->kernel_index);
	hmfree(target->allocators);
	free(target->target_json);
	free(target->end_json);
	rank_free(&target->result);
	free(target);
}

void model_free(struct model *model)
{
	if (!model)
		return;
	for (size_t i = 0; i < arrlenu(model->targets); i++)
		target_free(model->targets[i]);
	arrfree(model->targets);
	arrfree(model->order);
	shfree(model->texts);
	arrfree(model->sources);
	free(model);
}

static struct target_state *target_find(const struct model *model, uint16_t target)
{
	return target < arrlenu(model->targets) ? model->targets[target] : NULL;
}

/* The empty stack and the run for what is older than the trace are always there. */
static struct target_state *target_new(const struct model *model, uint16_t index)
{
	struct target_state *target = calloc(1, sizeof(*target));
	struct stack empty = {.module = ""};
	struct run preexisting = {.into = NONE, .state = RUN_RAN, .source = SOURCE_PREEXISTING, .thread_id = 0};

	if (!target)
		return NULL;
	target->target = index;
	target->all_blocks = model->options.all_blocks;
	target->choice = &model->options.devices;
	target->result.target = index;
	target->parent = -1;
	target->job = target->result.job = "";
	arrput(target->devices, (struct device_state){.device.type = DEVICE_CPU});
	arrput(target->stacks, empty);
	arrput(target->stack_known, true);
	arrput(target->runs, preexisting);
	return target;
}

static int text_replace(char **text, const char *with)
{
	char *copy = with ? strdup(with) : NULL;

	if (with && !copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

int model_capture(struct model *model, int64_t real_offset_ns)
{
	size_t first = arrlenu(model->targets);
	struct source source = {.real_offset_ns = real_offset_ns};

	if (first > UINT16_MAX || arrlenu(model->sources) > UINT16_MAX)
		return -E2BIG;
	/* The one that is there from the beginning is the first capture's, as long as nothing is of it. */
	if (!first)
		arrsetlen(model->sources, 0);
	arrput(model->sources, source);
	return (int)first;
}

int model_target(struct model *model, uint16_t target, int32_t rank, bool from_start, const char *json)
{
	struct target_state *state = target_find(model, target);

	if (model->finished)
		return -EINVAL;
	if (!state) {
		state = target_new(model, target);
		if (!state)
			return -ENOMEM;
		while (arrlenu(model->targets) <= target)
			arrput(model->targets, NULL);
		model->targets[target] = state;
	}
	state->result.rank = rank;
	state->result.capture = (uint16_t)(arrlenu(model->sources) - 1);
	state->result.real_offset_ns = arrlast(model->sources).real_offset_ns;
	state->result.from_start = from_start;
	return text_replace(&state->target_json, json);
}

int model_operator_name(struct model *model, uint16_t target, uint16_t index, const char *name, uint32_t flags)
{
	struct target_state *state = target_find(model, target);

	if (!state || model->finished)
		return 0;
	while (arrlenu(state->operator_names) <= index) {
		arrput(state->operator_names, NULL);
		arrput(state->operator_flags, 0);
	}
	state->operator_names[index] = model_text(model, name);
	state->operator_flags[index] = (uint8_t)flags;
	return 0;
}

int model_symbol(
	struct model *model, uint16_t target, uint64_t address, const char *library, const char *name, uint32_t offset)
{
	struct target_state *state = target_find(model, target);
	struct symbol symbol = {.address = address, .offset = offset};

	if (!state || model->finished)
		return 0;
	symbol.library = model_text(model, library);
	symbol.name = model_text(model, name);
	arrput(state->result.symbols, symbol);
	return 0;
}

int model_stack(struct model *model, uint16_t target, uint64_t identity, const struct frame *frames, size_t frame_count,
	bool cut)
{
	struct target_state *state = target_find(model, target);

	if (!state || model->finished)
		return 0;
	return stack_put(model, state, identity, frames, frame_count, cut);
}

bool target_was_active(const struct target_state *target)
{
	return arrlenu(target->runs) > 1 || arrlenu(target->allocations) || arrlenu(target->result.collectives) ||
	       arrlenu(target->result.segments);
}

/* An exec before anything happened is how jobs are started; later it ends what was there. */
static void target_exec(struct target_state *target)
{
	if (target_was_active(target))
		target->ended = true;
}

static bool event_has(const struct event *event, size_t bytes)
{
	return event->size >= bytes;
}

static int event_send(struct target_state *target, const struct event *event)
{
	switch (event->kind) {
	case EVENT_OPERATOR:
		return event_has(event, sizeof(struct operator_event)) ? operator_enter(target, (const void *)event)
		                                                       : -EINVAL;
	case EVENT_THROW:
		return operator_throw(target, event);
	case EVENT_TENSORS:
		return event_has(event, sizeof(struct tensors_event)) ? operator_tensors(target, (const void *)event)
		                                                      : -EINVAL;
	case EVENT_ALLOCATE:
		return event_has(event, sizeof(struct allocate_event)) ? memory_allocate(target, (const void *)event)
		                                                       : -EINVAL;
	case EVENT_FREE:
		return event_has(event, sizeof(struct free_event)) ? memory_free(target, (const void *)event) : -EINVAL;
	case EVENT_DEVICE_ALLOCATE:
		return event_has(event, sizeof(struct device_allocate_event))
		               ? memory_device_allocate(target, (const void *)event)
		               : -EINVAL;
	case EVENT_DEVICE_FREE:
		return event_has(event, sizeof(struct device_free_event))
		               ? memory_device_free(target, (const void *)event)
		               : -EINVAL;
	case EVENT_DEVICE_REQUEST:
		return event_has(event, sizeof(struct device_request_event))
		               ? memory_device_request(target, (const void *)event)
		               : -EINVAL;
	case EVENT_SEGMENT:
		return event_has(event, sizeof(struct segment_event)) ? segment_event(target, (const void *)event)
		                                                      : -EINVAL;
	case EVENT_OUT_OF_MEMORY:
		return event_has(event, sizeof(struct out_of_memory_event))
		               ? memory_exhausted(target, (const void *)event)
		               : -EINVAL;
	case EVENT_LAUNCH:
		return event_has(event, sizeof(struct launch_event)) ? kernel_launch(target, (const void *)event)
		                                                     : -EINVAL;
	case EVENT_RESIZE:
		return event_has(event, sizeof(struct resize_event)) ? memory_resize(target, (const void *)event)
		                                                     : -EINVAL;
	case EVENT_GRADIENT:
		return event_has(event, sizeof(struct gradient_event)) ? memory_gradient(target, (const void *)event)
		                                                       : -EINVAL;
	case EVENT_COLLECTIVE:
		return event_has(event, sizeof(struct collective_event)) ? collective_begin(target, (const void *)event)
		                                                         : -EINVAL;
	case EVENT_LIBRARY_COLLECTIVE:
		return event_has(event, sizeof(struct library_collective_event))
		               ? library_collective_begin(target, (const void *)event)
		               : -EINVAL;
	case EVENT_WORK:
		return event_has(event, sizeof(struct work_event)) ? work_note(target, (const void *)event) : -EINVAL;
	case EVENT_EXEC:
		target_exec(target);
		return 0;
	case EVENT_FINALIZE:
		steps_end(target);
		target->ended = true;
		return 0;
	case EVENT_EXIT:
		target->ended = true;
		return 0;
	default:
		return 0;
	}
}

/* Launchers and loaders of data run operators too, but neither of these. */
static bool event_trains(const struct event *event)
{
	return event->kind == EVENT_GRADIENT || event->kind == EVENT_COLLECTIVE ||
	       event->kind == EVENT_LIBRARY_COLLECTIVE ||
	       (event->kind == EVENT_OPERATOR && event->flags & EVENT_BACKWARD);
}

/* Operators, and blocks of an allocator. */
static bool event_is_pytorchs(const struct event *event)
{
	return event->kind == EVENT_OPERATOR || event->kind == EVENT_ALLOCATE || event->kind == EVENT_DEVICE_ALLOCATE;
}

int model_event(struct model *model, const struct event *event)
{
	struct target_state *target = target_find(model, event->target);
	int error;

	if (!target || target->ended || model->finished)
		return 0;
	if (event->kind == EVENT_NONE || event->kind >= EVENT_KERNEL_KINDS)
		return 0;
	if (!target->result.event_count++)
		target->result.first_time_ns = event->time_ns;
	target->result.last_time_ns = event->time_ns;
	target->trained |= event_trains(event);
	error = event_is_pytorchs(event) ? segments_meet_pytorch(target) : 0;
	return error ? error : event_send(target, event);
}

int model_window(struct model *model, uint64_t since_ns, uint64_t dropped_records, uint64_t dropped_bytes)
{
	arrlast(model->sources).window = (struct window){since_ns, dropped_records, dropped_bytes};
	return 0;
}

int model_module(struct model *model, uint16_t target, uint64_t object, const char *name)
{
	struct target_state *state = target_find(model, target);

	if (state)
		hmput(state->modules, object, model_text(model, name));
	return 0;
}

int model_owner(struct model *model, uint16_t target, uint64_t time_ns, unsigned int kind,
	const struct tensor_argument *storage, const char *name)
{
	struct target_state *state = target_find(model, target);

	if (state && !state->ended && !model->finished)
		memory_owner(state, time_ns, kind, storage, model_text(model, name));
	return 0;
}

void model_element_type(
	struct model *model, uint16_t target, const struct tensor_argument *storage, uint8_t element_type)
{
	struct target_state *state = target_find(model, target);

	if (state && !state->ended && !model->finished)
		memory_element_type(state, storage, element_type);
}

int model_loss(struct model *model, uint16_t target, const struct event_counters *counters)
{
	struct target_state *state = target_find(model, target);

	if (state)
		state->result.loss = *counters;
	return 0;
}

int model_end(struct model *model, uint16_t target, const char *json)
{
	struct target_state *state = target_find(model, target);

	if (!state)
		return 0;
	state->ended = true;
	return text_replace(&state->end_json, json);
}

uint32_t model_steps(const struct model *model)
{
	uint32_t slowest_live = UINT32_MAX, slowest = UINT32_MAX;

	for (size_t i = 0; i < arrlenu(model->targets); i++) {
		const struct target_state *target = model->targets[i];

		if (!target || !target_is_rank(model, target))
			continue;
		if (target->steps < slowest)
			slowest = target->steps;
		if (!target->ended && target->steps < slowest_live)
			slowest_live = target->steps;
	}
	if (slowest_live != UINT32_MAX)
		return slowest_live;
	return slowest != UINT32_MAX ? slowest : 0;
}

int model_family(struct model *model, uint16_t target, int32_t parent, bool forked, const char *job)
{
	struct target_state *state = target_find(model, target);

	if (!state || model->finished)
		return 0;
	/* Only from older to newer: there is no way round in circles. */
	state->parent = parent >= 0 && parent < target ? parent : -1;
	state->forked = forked;
	state->job = model_text(model, job);
	return 0;
}

static int target_compare(const void *left, const void *right)
{
	const struct target_state *a = *(struct target_state *const *)left, *b = *(struct target_state *const *)right;

	int jobs = strcmp(a->result.job, b->result.job);

	if (jobs)
		return jobs;
	if (a->result.rank != b->result.rank)
		return a->result.rank < b->result.rank ? -1 : 1;
	return (a->target > b->target) - (a->target < b->target);
}

int model_finish(struct model *model)
{
	int error;

	if (model->finished)
		return -EINVAL;
	model->finished = true;
	for (size_t i = 0; i < arrlenu(model->targets); i++) {
		if (!model->targets[i] || !target_is_rank(model, model->targets[i]))
			continue;
		model->targets[i]->result.window = model->sources[model->targets[i]->result.capture].window;
		error = target_finish(model, model->targets[i]);
		if (error)
			return error;
		arrput(model->order, model->targets[i]);
	}
	ranks_number(model);
	if (model->order)
		qsort(model->order, arrlenu(model->order), sizeof(*model->order), target_compare);
	collectives_match(model);
	for (size_t i = 0; i < arrlenu(model->order); i++)
		rank_add_collectives_to_steps(&model->order[i]->result);
	return 0;
}

size_t model_rank_count(const struct model *model)
{
	return arrlenu(model->order);
}

const struct rank *model_rank(const struct model *model, size_t index)
{
	return index < arrlenu(model->order) ? &model->order[index]->result : NULL;
}

bool rank_complete(const struct rank *rank)
{
	for (int reason = 0; reason < LOSS_REASONS; reason++)
		if (rank->loss.lost[reason])
			return false;
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (rank->devices[i].unexplained_totals)
			return false;
	return rank->reused_addresses == 0;
}
