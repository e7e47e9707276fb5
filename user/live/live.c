// SPDX-License-Identifier: BSD-2-Clause
/* Live accounting: targets as they come and go; see live.h. */
#include "live/live.h"

#include <stdio.h>
#include <stdlib.h>

#include "live/state.h"
#include "model/family.h"
#include "python/utf8.h"
#include "replay/target_json.h"
#include "stream/record.h"

/* Code objects of one target: a job has a few MB. */
#define CODES_BYTES_MAX (8u << 20)
/* Names of modules: a job has thousands. */
#define MODULES_MAX 65536

/* So long after its description, or after its blocks were not followed, a target may show what is older. */
#define OLDER_NANOSECONDS 60000000000ull

static const struct live_limits limits_usual = {.blocks = 1 << 20, .places = 4096, .threads = 64, .ended = 64};

struct live *live_new(const struct live_limits *limits)
{
	struct live *live = calloc(1, sizeof(*live));

	if (live)
		live->limits = limits ? *limits : limits_usual;
	return live;
}

/* --- states ---------------------------------------------------------------------------- */

/* Of one that has ended only the figures stay. */
static void state_empty(struct state *state)
{
	hmfree(state->blocks);
	hmfree(state->segments);
	for (ptrdiff_t i = 0; i < hmlen(state->strands); i++)
		strand_free(state->strands[i].value);
	hmfree(state->strands);
	hmfree(state->ranges);
	for (ptrdiff_t i = 0; i < hmlen(state->modules); i++)
		free(state->modules[i].value);
	hmfree(state->modules);
	for (int table = 0; table < LIVE_TABLES; table++)
		places_free(&state->places[table]);
	code_table_free(state->codes);
	state->codes = NULL;
	for (size_t i = 0; i < LIVE_GROUPS_MAX; i++) {
		free(state->rings[i]);
		state->rings[i] = NULL;
	}
}

static void state_free(struct state *state)
{
	if (!state)
		return;
	state_empty(state);
	free(state);
}

void live_free(struct live *live)
{
	if (!live)
		return;
	for (size_t i = 0; i < arrlenu(live->states); i++)
		state_free(live->states[i]);
	arrfree(live->states);
	free(live);
}

static struct state *state_find(const struct live *live, uint16_t target)
{
	/* The latest first: the place of one that ended is another's in time. */
	for (size_t i = arrlenu(live->states); i-- > 0;)
		if (live->states[i]->rank.target == target)
			return live->states[i];
	return NULL;
}

static struct state *state_new(uint16_t target)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->rank.target = target;
	state->rank.rank = RANK_UNKNOWN;
	state->rank.pid = -1;
	state->parent = -1;
	state->codes = code_table_new(CODES_BYTES_MAX);
	for (int table = 0; table < LIVE_TABLES; table++)
		places_begin(&state->places[table]);
	if (!state->codes) {
		state_free(state);
		return NULL;
	}
	return state;
}

static void state_end(struct state *state)
{
	if (state->rank.ended)
		return;
	blocks_refresh(state);
	state->rank.ended = true;
	state->rank.wait = (struct live_wait){0};
	state_empty(state);
}

/* The oldest that have ended make room. */
static void ended_drop(struct live *live)
{
	size_t ended = 0;

	for (size_t i = 0; i < arrlenu(live->states); i++)
		ended += live->states[i]->rank.ended;
	for (size_t i = 0; ended > live->limits.ended && i < arrlenu(live->states);) {
		if (!live->states[i]->rank.ended) {
			i++;
			continue;
		}
		state_free(live->states[i]);
		arrdel(live->states, i);
		ended--;
	}
}

/* --- records of user space ------------------------------------------------------------------ */

static void target_take(struct live *live, const struct text_record *record)
{
	struct state *state = state_find(live, record->event.target);
	struct target_facts facts;

	if (target_json_read(record->text, record->length, &facts))
		return;
	if (!state || state->rank.ended) {
		state = state_new(record->event.target);
		if (!state)
			return;
		state->rank.start_time_ns = record->event.time_ns;
		arrput(live->states, state);
		ended_drop(live);
	}
	state->rank.pid = facts.pid;
	state->rank.rank = state->told_rank = facts.rank;
	state->rank.from_start = facts.from_start;
	state->rank.lite = facts.lite;
	if (!state->back_ns)
		state->older_until_ns = facts.from_start ? 0 : state->rank.start_time_ns + OLDER_NANOSECONDS;
	/* Only from older to newer: there is no way round in circles. */
	state->parent = facts.parent < record->event.target ? facts.parent : -1;
	state->forked = facts.forked;
	snprintf(state->rank.job, sizeof(state->rank.job), "%s", facts.job);
	snprintf(state->rank.command, sizeof(state->rank.command), "%s", facts.command);
}

static void operator_name_take(struct state *state, const struct operator_record *record)
{
	uint8_t flags = record->flags & (OPERATOR_RANGE_BEGIN | OPERATOR_RANGE_END);

	if (flags)
		hmput(state->ranges, record->event.operator_, flags);
}

static void module_take(struct state *state, const struct module_record *record)
{
	ptrdiff_t at = hmgeti(state->modules, record->object);
	char *name = utf8_sanitize(record->name, record->length);

	if (!name)
		return;
	if (at < 0 && hmlen(state->modules) >= MODULES_MAX) {
		free(name);
		return;
	}
	if (at >= 0)
		free(state->modules[at].value);
	hmput(state->modules, record->object, name);
}

static void loss_take(struct state *state, const struct loss_record *record)
{
	state->rank.loss = record->counters;
	state->rank.lost = 0;
	for (int reason = 0; reason < LOSS_REASONS; reason++)
		state->rank.lost += record->counters.lost[reason];
}

static void told_take(struct live *live, struct state *state, const struct event *record)
{
	bool changed;

	switch (record->kind) {
	case CAPTURE_OPERATOR:
		operator_name_take(state, (const void *)record);
		break;
	case CAPTURE_CODE:
		code_table_put(state->codes, (const void *)record, &changed);
		break;
	case CAPTURE_MODULE:
		module_take(state, (const void *)record);
		break;
	case CAPTURE_OWNER:
		blocks_owner(live, state, (const void *)record);
		break;
	case CAPTURE_LOSS:
		loss_take(state, (const void *)record);
		break;
	case CAPTURE_END:
		state_end(state);
		break;
	default:
		break;
	}
}

/* --- records of the kernel side --------------------------------------------------------------- */

static void event_take(struct live *live, struct state *state, const struct event *event)
{
	struct strand *strand = strand_find(live, state, event);

	if (!strand)
		return;
	state->rank.events++;
	state->rank.last_time_ns = event->time_ns;
	if (event->kind != EVENT_TENSORS && event->kind != EVENT_DEVICE_REQUEST)
		strand_trim(strand, event->depth);
	switch (event->kind) {
	case EVENT_OPERATOR:
		operator_take(live, state, strand, (const void *)event);
		break;
	case EVENT_TENSORS:
		tensors_take(live, state, (const void *)event);
		break;
	case EVENT_GRADIENT:
		state->trained = true;
		blocks_gradient(live, state, strand, (const void *)event);
		break;
	case EVENT_COLLECTIVE:
		state->trained = true;
		collective_take(state, (const void *)event);
		break;
	case EVENT_LIBRARY_COLLECTIVE:
		state->trained = true;
		library_collective_take(state, (const void *)event);
		break;
	case EVENT_FINALIZE:
	case EVENT_EXEC:
	case EVENT_EXIT:
		state_end(state);
		break;
	default:
		blocks_take(live, state, strand, event);
	}
}

void live_take(struct live *live, const struct event *record)
{
	struct state *state;

	if (record->kind == CAPTURE_TARGET) {
		target_take(live, (const void *)record);
		return;
	}
	state = record->kind == CAPTURE_SESSION ? NULL : state_find(live, record->target);
	if (!state)
		return;
	/* The counters of losses come after the end too. */
	if (record->kind == CAPTURE_LOSS)
		loss_take(state, (const void *)record);
	else if (state->rank.ended)
		return;
	else if (record->kind >= CAPTURE_SESSION)
		told_take(live, state, record);
	else if (record->kind != EVENT_NONE && record->kind < EVENT_KERNEL_KINDS)
		event_take(live, state, record);
}

/* --- what is told otherwise ---------------------------------------------------------------------- */

void live_device_size(struct live *live, uint16_t target, uint8_t type, uint8_t index, uint64_t bytes)
{
	struct state *state = state_find(live, target);
	uint8_t at = state ? live_device_find(state, type, index) : LIVE_DEVICES_MAX;

	if (at != LIVE_DEVICES_MAX)
		state->rank.devices[at].size_bytes = bytes;
}

void live_host_away(struct live *live, uint16_t target, uint64_t now_ns)
{
	struct state *state = state_find(live, target);

	if (!state || state->rank.ended || state->rank.host_away)
		return;
	state->rank.host_away = true;
	state->rank.host_away_since_ns = now_ns;
	state->away_step = state->rank.steps;
	state->back_ns = 0;
}

void live_host_back(struct live *live, uint16_t target, uint64_t now_ns)
{
	struct state *state = state_find(live, target);

	if (!state || state->rank.ended || !state->rank.host_away || state->back_ns)
		return;
	state->back_ns = now_ns;
	state->older_until_ns = now_ns + OLDER_NANOSECONDS;
	blocks_host_back(state);
}

void live_host_settled(struct live *live, uint16_t target, uint64_t now_ns, bool whole)
{
	struct state *state = state_find(live, target);

	if (!state || state->rank.ended || !state->rank.host_away || !state->back_ns)
		return;
	state->rank.host_away = false;
	state->rank.host_away_ns += now_ns - state->rank.host_away_since_ns;
	blocks_host_settled(state, now_ns, whole);
}

void live_stand(struct live *live, uint16_t target, const struct frame *frames, size_t frame_count)
{
	struct state *state = state_find(live, target);
	struct frame outermost[EVENT_FRAMES_MAX];
	struct stack stack = {.frames = outermost, .module = ""};

	if (!state || state->rank.ended || !state->rank.lite || !frame_count || frame_count > EVENT_FRAMES_MAX)
		return;
	for (size_t i = 0; i < frame_count; i++)
		outermost[i] = frames[frame_count - 1 - i];
	stack.frame_count = (uint32_t)frame_count;
	stack_classify(&stack);
	state->rank.phase = stack_phase(&stack, 0);
	state->rank.phase_known = true;
	snprintf(state->rank.line, sizeof(state->rank.line), "%s:%u", frames[0].file, frames[0].line);
}

/* --- when somebody looks -------------------------------------------------------------------------- */

static int32_t largest_group_rank(const struct live_rank *rank)
{
	const struct live_group *largest = NULL;

	for (size_t i = 0; i < rank->group_count; i++)
		if (!largest || rank->groups[i].size > largest->size)
			largest = &rank->groups[i];
	return largest ? largest->rank : RANK_UNKNOWN;
}

/* Targets are numbered as they come; of those with the same number only the last is still there. */
static void relatives_fill(const struct live *live, struct relative *relatives, size_t count)
{
	for (size_t i = 0; i < arrlenu(live->states); i++) {
		const struct state *state = live->states[i];

		if (state->rank.target < count)
			relatives[state->rank.target] = (struct relative){
				.parent = state->parent,
				.there = true,
				.trained = state->trained,
				.forked = state->forked,
				.launched = state->told_rank != RANK_UNKNOWN,
			};
	}
}

static bool is_taken(const struct live *live, const struct live_rank *rank, int32_t number)
{
	for (size_t i = 0; i < arrlenu(live->states); i++) {
		const struct live_rank *other = &live->states[i]->rank;

		if (other != rank && other->is_rank && !other->ended && other->rank == number &&
			!strcmp(other->job, rank->job))
			return true;
	}
	return false;
}

/* As the model does it (model/job.c), again at each look: who is a rank may turn out late. */
static void ranks_number(struct live *live)
{
	for (size_t i = 0; i < arrlenu(live->states); i++) {
		struct live_rank *rank = &live->states[i]->rank;

		if (rank->ended)
			continue;
		rank->rank = live->states[i]->told_rank;
		rank->rank_source = RANK_OF_LAUNCHER;
		if (rank->rank == RANK_UNKNOWN) {
			rank->rank = largest_group_rank(rank);
			rank->rank_source = RANK_OF_COMMUNICATOR;
		}
	}
	for (size_t i = 0; i < arrlenu(live->states); i++) {
		struct live_rank *rank = &live->states[i]->rank;

		if (rank->ended || !rank->is_rank || rank->rank != RANK_UNKNOWN)
			continue;
		for (rank->rank = 0; is_taken(live, rank, rank->rank);)
			rank->rank++;
		rank->rank_source = RANK_OF_ORDER;
	}
}

static void ranks_tell(struct live *live)
{
	struct relative *relatives = NULL;
	size_t count = 0;

	for (size_t i = 0; i < arrlenu(live->states); i++)
		if (live->states[i]->rank.target >= count)
			count = (size_t)live->states[i]->rank.target + 1;
	arrzero(relatives, count);
	relatives_fill(live, relatives, count);
	for (size_t i = 0; i < arrlenu(live->states); i++) {
		struct live_rank *rank = &live->states[i]->rank;

		rank->is_rank = relative_is_rank(relatives, count, rank->target);
	}
	arrfree(relatives);
	ranks_number(live);
}

void live_refresh(struct live *live)
{
	for (size_t i = 0; i < arrlenu(live->states); i++)
		if (!live->states[i]->rank.ended)
			blocks_refresh(live->states[i]);
	ranks_tell(live);
	collectives_refresh(live);
}

size_t live_rank_count(const struct live *live)
{
	return arrlenu(live->states);
}

const struct live_rank *live_rank_at(const struct live *live, size_t index)
{
	return index < arrlenu(live->states) ? &live->states[index]->rank : NULL;
}

static int number_compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

uint64_t live_step_ns(const struct live_rank *rank)
{
	uint64_t sorted[LIVE_STEPS_KEPT];
	size_t count = rank->step_ns_count < LIVE_STEPS_KEPT ? rank->step_ns_count : LIVE_STEPS_KEPT;

	if (!count)
		return LIVE_UNKNOWN;
	memcpy(sorted, rank->step_ns, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), number_compare);
	return sorted[count / 2];
}

const struct live_device *live_device_main(const struct live_rank *rank)
{
	const struct live_device *main_device = NULL;

	for (size_t i = 0; i < rank->device_count; i++) {
		const struct live_device *device = &rank->devices[i];
		bool accelerator = !device_is_host(device->type);

		if (!main_device || (accelerator && device_is_host(main_device->type)) ||
			(accelerator != device_is_host(main_device->type) && device->bytes > main_device->bytes))
			main_device = device;
	}
	return main_device;
}

uint64_t live_headroom(const struct live_device *device)
{
	uint64_t taken =
		device->reserved_bytes > device->segment_bytes ? device->reserved_bytes : device->segment_bytes;

	if (device->size_bytes == LIVE_UNKNOWN)
		return LIVE_UNKNOWN;
	return device->size_bytes > taken ? device->size_bytes - taken : 0;
}

const char *live_category_name(size_t category)
{
	return category < CATEGORIES ? category_name((enum category)category) : "unknown";
}

const char *live_phase_name(size_t phase)
{
	return phase < PHASES ? phase_name((enum phase)phase) : "unknown";
}
