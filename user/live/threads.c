// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads: which operators are alive on them, what their Python stacks mean, and
 * where they are in a step. An operator is forgotten when its frame has ended.
 */
#include <stdio.h>
#include <stdlib.h>

#include "live/state.h"
#include "stream/record.h"

/* --- strands ------------------------------------------------------------------------ */

void strand_free(struct strand *strand)
{
	if (!strand)
		return;
	arrfree(strand->frames);
	free(strand->slots);
	free(strand);
}

/* The end of a thread is not seen: where there are too many, the one that was quiet for longest is taken for ended. */
static void strands_make_room(const struct live *live, struct state *state)
{
	ptrdiff_t oldest = 0;

	if ((size_t)hmlen(state->strands) < live->limits.threads)
		return;
	for (ptrdiff_t i = 1; i < hmlen(state->strands); i++)
		if (state->strands[i].value->last_ns < state->strands[oldest].value->last_ns)
			oldest = i;
	strand_free(state->strands[oldest].value);
	(void)hmdel(state->strands, state->strands[oldest].key);
}

struct strand *strand_find(struct live *live, struct state *state, const struct event *event)
{
	ptrdiff_t at = hmgeti(state->strands, event->thread_id);
	struct strand *strand = at >= 0 ? state->strands[at].value : NULL;

	if (!strand) {
		strands_make_room(live, state);
		strand = calloc(1, sizeof(*strand));
		if (!strand)
			return NULL;
		strand->thread_id = event->thread_id;
		hmput(state->strands, event->thread_id, strand);
	}
	strand->last_ns = event->time_ns;
	return strand;
}

void strand_trim(struct strand *strand, size_t depth)
{
	if (arrlenu(strand->frames) > depth)
		arrsetlen(strand->frames, depth);
}

/* --- stacks ---------------------------------------------------------------------------- */

static const char *module_name(const void *context, uint64_t object)
{
	const struct state *state = context;
	ptrdiff_t at = hmgeti(((struct state *)state)->modules, object);

	return at >= 0 ? state->modules[at].value : NULL;
}

static void meaning_set(struct live *live, struct state *state, const struct event *event,
	const struct event_stack *definition, struct meaning *meaning)
{
	struct frame frames[EVENT_FRAMES_MAX];
	struct stack stack = {.frames = frames, .cut = event->flags & (EVENT_STACK_CUT | EVENT_STACK_LOST)};
	char line[LIVE_TEXT_BYTES] = "";
	const struct frame *leaf;
	uint64_t unknown = 0;

	stack.frame_count = (uint32_t)code_table_frames(state->codes, event->target, definition, frames, &unknown);
	*meaning = (struct meaning){.identity = definition->identity};
	if (stack_name(&stack, module_name, state))
		return;
	stack_classify(&stack);
	meaning->place[LIVE_MODULES] = place_find(&state->places[LIVE_MODULES], stack.module, live->limits.places);
	leaf = stack.frame_count ? &frames[stack.frame_count - 1] : NULL;
	if (leaf && strcmp(leaf->file, CODE_UNKNOWN_FILE))
		snprintf(line, sizeof(line), "%s:%u", leaf->file, leaf->line);
	meaning->place[LIVE_LINES] = place_find(&state->places[LIVE_LINES], line, live->limits.places);
	free(stack.modules);
	stack.frames = NULL;
	stack.modules = NULL;
	stack.module = "";
	meaning->stack = stack;
}

/* What the stack of a record means; NULL: it has none, or nothing is known of it. */
static const struct meaning *meaning_find(
	struct live *live, struct state *state, struct strand *strand, const struct event *event)
{
	struct event_stack definition;
	struct meaning *slot;

	if (!event_stack_find(event, &definition) || !definition.identity)
		return NULL;
	if (!strand->slots)
		strand->slots = calloc(STACK_SLOTS, sizeof(*strand->slots));
	if (!strand->slots)
		return NULL;
	slot = &strand->slots[(definition.identity >> 32) % STACK_SLOTS];
	if (event->flags & EVENT_STACK)
		meaning_set(live, state, event, &definition, slot);
	return slot->identity == definition.identity ? slot : NULL;
}

/* --- makers ------------------------------------------------------------------------------ */

static uint8_t phase_of(
	struct state *state, struct strand *strand, const struct event *event, const struct stack *stack)
{
	static const struct stack empty;
	uint8_t flags = stack_flags(stack ? stack : &empty, event, &strand->kind, &state->runs_python);

	if (!stack && state->rank.lite)
		return PHASES;
	return (uint8_t)stack_phase(stack ? stack : &empty, flags);
}

static struct maker maker_of(
	struct state *state, struct strand *strand, const struct event *event, const struct meaning *meaning)
{
	struct maker maker = {0};

	if (!meaning && event->depth && arrlenu(strand->frames) >= event->depth)
		return strand->frames[event->depth - 1];
	maker.phase = phase_of(state, strand, event, meaning ? &meaning->stack : NULL);
	if (meaning)
		memcpy(maker.place, meaning->place, sizeof(maker.place));
	return maker;
}

struct maker strand_maker(struct live *live, struct state *state, struct strand *strand, const struct event *event)
{
	return maker_of(state, strand, event, meaning_find(live, state, strand, event));
}

/* --- steps -------------------------------------------------------------------------------- */

static void step_end(struct state *state, uint64_t time_ns)
{
	struct live_rank *rank = &state->rank;

	rank->steps_known = true;
	if (state->step_start_ns && time_ns > state->step_start_ns) {
		rank->step_ns[rank->step_ns_count % LIVE_STEPS_KEPT] = time_ns - state->step_start_ns;
		rank->step_ns_count++;
	}
	rank->steps++;
	rank->step_time_ns = state->step_start_ns = time_ns;
	state->trained = true;
}

/* At LEVEL_LITE only the ranges of the profiler have a stack: a step is over when the optimizer's has ended. */
static void range_follow(
	struct state *state, struct strand *strand, const struct operator_event *event, const struct meaning *meaning)
{
	uint8_t flags = hmget(state->ranges, event->event.operator_);

	if (!meaning || !meaning->stack.in_optimizer || !flags)
		return;
	if (flags & OPERATOR_RANGE_BEGIN)
		strand->ranges++;
	else if (strand->ranges && !--strand->ranges)
		step_end(state, event->event.time_ns);
}

/* --- operators ------------------------------------------------------------------------------ */

static void arguments_take(struct live *live, struct state *state, const struct event *event,
	const struct tensor_argument *tensors, size_t count)
{
	for (size_t i = 0; i < count; i++)
		blocks_argument(live, state, event->time_ns, &tensors[i]);
}

static void line_show(struct state *state, uint16_t place)
{
	const char *name = state->places[LIVE_LINES].places[place].name;

	snprintf(state->rank.line, sizeof(state->rank.line), "%s", name ? name : "");
}

/* An operator that no other one called: what the thread is at. */
static void outermost_take(struct state *state, struct strand *strand, const struct event *event,
	const struct meaning *meaning, const struct maker *maker)
{
	static const struct stack empty = {.module = ""};

	state->rank.phase = maker->phase;
	state->rank.phase_known = true;
	line_show(state, maker->place[LIVE_LINES]);
	state->trained |= event->flags & EVENT_BACKWARD;
	if (step_follow(&strand->step, meaning ? &meaning->stack : &empty, event->flags))
		step_end(state, event->time_ns);
}

void operator_take(struct live *live, struct state *state, struct strand *strand, const struct operator_event *event)
{
	const struct tensor_argument *tensors = (const void *)(event + 1);
	const struct meaning *meaning = meaning_find(live, state, strand, &event->event);
	struct maker maker;

	if (state->rank.lite && meaning) {
		range_follow(state, strand, event, meaning);
		return;
	}
	maker = maker_of(state, strand, &event->event, meaning);
	while (arrlenu(strand->frames) < event->event.depth)
		arrput(strand->frames, maker);
	if (!event->event.depth && !state->rank.lite)
		outermost_take(state, strand, &event->event, meaning, &maker);
	/* Neither hooks nor the optimizer store a gradient that comes in. */
	if (maker.phase == PHASE_OPTIMIZER ||
		(meaning && stack_is_called_by_engine(&meaning->stack, event->event.flags)))
		strand->accumulating = 0;
	maker.stores = blocks_store(state, strand, tensors, event->tensor_count);
	arrput(strand->frames, maker);
	arguments_take(live, state, &event->event, tensors, event->tensor_count);
}

void tensors_take(struct live *live, struct state *state, const struct tensors_event *event)
{
	arguments_take(live, state, &event->event, (const void *)(event + 1), event->tensor_count);
}
