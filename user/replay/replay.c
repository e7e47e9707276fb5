/* SPDX-License-Identifier: BSD-2-Clause */
/* The way from records to the model; see replay.h. */
#include "replay/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "containers/containers.h"
#include "python/utf8.h"
#include "replay/code_table.h"
#include "replay/target_json.h"
#include "stream/record.h"

#define EMPTY_OBJECT "{}"

/* Keys are compared as bytes: no padding. */
struct stack_key {
	uint64_t identity;
	uint64_t target;
};

/* What a stack was made from when the model last got it. */
struct stack_state {
	uint64_t content;    /* hash of its frames */
	uint64_t code_epoch; /* replay.code_epoch of that moment */
};

struct target_state {
	bool ended;
};

struct replay {
	struct model *model;
	struct code_table *codes;
	uint64_t code_epoch; /* grows whenever an address changes its code object */
	struct {
		struct stack_key key;
		struct stack_state value;
	} * stacks; /* stb_ds map */
	struct {
		uint16_t key;
		struct target_state value;
	} * targets; /* stb_ds map */
	struct replay_counts counts;
	uint16_t first_target; /* of the capture */
	char *session;
};

_Static_assert(sizeof(struct stack_key) == 16, "stack_key has padding");

struct replay *replay_new(struct model *model)
{
	struct replay *replay = calloc(1, sizeof(*replay));

	if (!replay)
		return NULL;
	replay->model = model;
	replay->codes = code_table_new(CODE_TABLE_BYTES_MAX);
	if (!replay->codes) {
		free(replay);
		return NULL;
	}
	return replay;
}

void replay_free(struct replay *replay)
{
	if (!replay)
		return;
	code_table_free(replay->codes);
	hmfree(replay->stacks);
	hmfree(replay->targets);
	free(replay->session);
	free(replay);
}

/* --- stacks -------------------------------------------------------------------- */

/*
 * A thread sends its stack again whenever it differs from the one before, so
 * that a loop defines the same few stacks over and over. The model needs one
 * only when its frames, or what they mean, are new.
 */
static int stack_define(struct replay *replay, const struct event *event, const struct event_stack *definition)
{
	struct stack_key key = {definition->identity, event->target};
	bool cut = event->flags & (EVENT_STACK_CUT | EVENT_STACK_LOST);
	struct stack_state state = {.code_epoch = replay->code_epoch};
	uint64_t unknown = replay->counts.frames_unknown;
	struct frame frames[EVENT_FRAMES_MAX];
	ptrdiff_t known = hmgeti(replay->stacks, key);
	size_t count;

	replay->counts.stacks++;
	state.content =
		XXH3_64bits_withSeed(definition->frames, definition->frame_count * sizeof(*definition->frames), cut);
	if (known >= 0 && replay->stacks[known].value.content == state.content &&
		replay->stacks[known].value.code_epoch == state.code_epoch)
		return 0;
	count = code_table_frames(replay->codes, event->target, definition, frames, &replay->counts.frames_unknown);
	/* An unknown code object may become known: look again when the stack comes again. */
	if (replay->counts.frames_unknown != unknown)
		state.code_epoch = UINT64_MAX;
	hmput(replay->stacks, key, state);
	return model_stack(replay->model, event->target, definition->identity, frames, count, cut);
}

static int stack_take(struct replay *replay, const struct event *record)
{
	struct event_stack definition;

	return event_stack_find(record, &definition) && definition.identity ? stack_define(replay, record, &definition)
	                                                                    : 0;
}

/* --- kinds of records ------------------------------------------------------------ */

static int event_take(struct replay *replay, const struct event *event)
{
	int error = 0;

	replay->counts.events++;
	if (event->kind == EVENT_EXEC) {
		code_table_forget(replay->codes, event->target);
		replay->code_epoch++;
	}
	/* An event without EVENT_STACK, or of a thread without Python, defines none. */
	if (event->flags & EVENT_STACK)
		error = stack_take(replay, event);
	return error ? error : model_event(replay->model, event);
}

/*
 * The text of a record as a string to be freed, EMPTY_OBJECT when it is not the
 * JSON object that it should be, so that reports may quote it. NULL: no memory.
 */
static char *json_copy(const struct text_record *record, struct target_facts *facts, bool *valid)
{
	int error = target_json_read(record->text, record->length, facts);

	*valid = error == 0;
	if (error == -ENOMEM)
		return NULL;
	return error ? strdup(EMPTY_OBJECT) : strndup(record->text, record->length);
}

static int session_take(struct replay *replay, const struct text_record *record)
{
	struct target_facts facts;
	bool valid;
	char *session = json_copy(record, &facts, &valid);

	if (!session)
		return -ENOMEM;
	free(replay->session);
	replay->session = session;
	return 0;
}

static int target_take(struct replay *replay, const struct text_record *record)
{
	uint16_t target = record->event.target;
	struct target_facts facts;
	bool valid;
	char *json = json_copy(record, &facts, &valid);
	int error;

	if (!json)
		return -ENOMEM;
	if (hmgeti(replay->targets, target) < 0) {
		hmput(replay->targets, target, (struct target_state){0});
		replay->counts.targets++;
		replay->counts.targets_unnamed += !valid;
	}
	error = model_target(replay->model, target, facts.rank, facts.from_start, json);
	free(json);
	if (facts.parent >= 0)
		facts.parent += replay->first_target;
	return error ? error : model_family(replay->model, target, facts.parent, facts.forked, facts.job);
}

static int operator_take(struct replay *replay, const struct operator_record *record)
{
	char *name = utf8_sanitize(record->name, record->length);
	int error = -ENOMEM;

	if (name)
		error = model_operator_name(
			replay->model, record->event.target, record->event.operator_, name, record->flags);
	free(name);
	return error;
}

/* The two texts of a symbol, one behind the other. */
static int symbol_take(struct replay *replay, const struct symbol_record *record)
{
	char *library = utf8_sanitize(record->bytes, record->library_length);
	char *name = utf8_sanitize(record->bytes + record->library_length, record->name_length);
	int error = -ENOMEM;

	if (library && name)
		error = model_symbol(
			replay->model, record->event.target, record->address, library, name, record->offset);
	free(library);
	free(name);
	return error;
}

/* A stack that came before may mean another module from now on. */
static int module_take(struct replay *replay, const struct module_record *record)
{
	char *name = utf8_sanitize(record->name, record->length);
	int error = name ? model_module(replay->model, record->event.target, record->object, name) : -ENOMEM;

	replay->code_epoch++;
	free(name);
	return error;
}

static int owner_take(struct replay *replay, const struct owner_record *record)
{
	char *name = utf8_sanitize(record->name, record->length);
	int error = name ? model_owner(replay->model, record->event.target, record->event.time_ns, record->kind,
				   &record->storage, name)
	                 : -ENOMEM;

	if (!error && record->element_type)
		model_element_type(replay->model, record->event.target, &record->storage, record->element_type);
	free(name);
	return error;
}

static int code_take(struct replay *replay, const struct code_record *record)
{
	bool changed;
	int error = code_table_put(replay->codes, record, &changed);

	replay->counts.codes++;
	replay->code_epoch += changed;
	if (error != -ENOSPC)
		return error;
	replay->counts.codes_refused++;
	return 0;
}

static int end_take(struct replay *replay, const struct text_record *record)
{
	struct target_state *state = &hmgetp(replay->targets, record->event.target)->value;
	struct target_facts facts;
	bool valid;
	char *json = json_copy(record, &facts, &valid);
	int error;

	if (!json)
		return -ENOMEM;
	replay->counts.targets_ended += !state->ended;
	state->ended = true;
	error = model_end(replay->model, record->event.target, json);
	free(json);
	return error;
}

static bool target_known(struct replay *replay, uint16_t target)
{
	return hmgeti(replay->targets, target) >= 0;
}

int replay_record(struct replay *replay, const struct event *record)
{
	if (record_check(record, CAPTURE_RECORD_MAX))
		return -EBADMSG;
	replay->counts.records++;
	if (record->kind == CAPTURE_SESSION)
		return session_take(replay, (const struct text_record *)record);
	if (record->kind == CAPTURE_TARGET)
		return target_take(replay, (const struct text_record *)record);
	if (record->kind == CAPTURE_WINDOW) {
		const struct window_record *window = (const struct window_record *)record;

		return model_window(replay->model, window->since_ns, window->dropped_records, window->dropped_bytes);
	}
	if (!target_known(replay, record->target)) {
		replay->counts.without_target++;
		return 0;
	}
	switch (record->kind) {
	case CAPTURE_OPERATOR:
		return operator_take(replay, (const struct operator_record *)record);
	case CAPTURE_CODE:
		return code_take(replay, (const struct code_record *)record);
	case CAPTURE_SYMBOL:
		return symbol_take(replay, (const struct symbol_record *)record);
	case CAPTURE_STACK:
		return stack_take(replay, record);
	case CAPTURE_MODULE:
		return module_take(replay, (const struct module_record *)record);
	case CAPTURE_OWNER:
		return owner_take(replay, (const struct owner_record *)record);
	case CAPTURE_LOSS:
		return model_loss(replay->model, record->target, &((const struct loss_record *)record)->counters);
	case CAPTURE_END:
		return end_take(replay, (const struct text_record *)record);
	default:
		return record_known(record) ? event_take(replay, record) : 0;
	}
}

const struct replay_counts *replay_counts(const struct replay *replay)
{
	return &replay->counts;
}

/* --- files ------------------------------------------------------------------------ */

static uint64_t file_bytes(const char *path)
{
	struct stat status;

	return stat(path, &status) ? 0 : (uint64_t)status.st_size;
}

/* What is known at the end of a file, good or bad. */
static int result_fill(struct replay_result *result, const struct replay *replay, const struct capture_reader *reader)
{
	result->damage = *capture_reader_damage(reader);
	result->skipped = capture_reader_skipped(reader);
	result->counts = replay->counts;
	result->complete = result->damage.complete && replay->counts.targets_ended == replay->counts.targets;
	if (!replay->session)
		return 0;
	result->session = strdup(replay->session);
	return result->session ? 0 : -ENOMEM;
}

/* Who wants to know how far a file was read. */
struct listener {
	void (*tell)(void *context, uint64_t done, uint64_t all);
	void *context;
	uint64_t file_bytes;
};

/* So many records are read in some milliseconds. */
#define TELLING_RECORDS 8192

static int records_feed(struct capture_reader *reader, struct replay *replay, const struct listener *listener)
{
	const struct event *record;
	int state;

	while ((state = capture_reader_next(reader, &record)) == 1) {
		int error = replay_record(replay, record);

		if (error)
			return error;
		if (listener->tell && replay->counts.records % TELLING_RECORDS == 0)
			listener->tell(listener->context, capture_reader_chunk(reader), listener->file_bytes);
	}
	/* Damage is told by the result; what came before it is good. */
	return state == -EBADMSG ? 0 : state;
}

/* Its targets come after those of captures that the model had before. */
static int capture_begin(struct capture_reader *reader, struct replay *replay)
{
	const struct capture_header *header = capture_reader_header(reader);
	int first = model_capture(replay->model, (int64_t)(header->start_real_time_ns - header->start_time_ns));

	if (first < 0)
		return first;
	replay->first_target = (uint16_t)first;
	capture_reader_number_targets(reader, replay->first_target);
	return 0;
}

int replay_file(const char *path, struct model *model, struct replay_result *result)
{
	return replay_file_telling(path, model, result, NULL, NULL);
}

int replay_file_telling(const char *path, struct model *model, struct replay_result *result,
	void (*tell)(void *context, uint64_t done, uint64_t all), void *context)
{
	struct listener listener = {.tell = tell, .context = context};
	struct capture_reader *reader = NULL;
	struct replay *replay = NULL;
	int error, filled;

	*result = (struct replay_result){0};
	error = capture_reader_open(path, &reader, &result->damage);
	if (error)
		goto cleanup;
	listener.file_bytes = file_bytes(path);
	result->header = *capture_reader_header(reader);
	replay = replay_new(model);
	if (!replay) {
		error = -ENOMEM;
		goto cleanup;
	}
	error = capture_begin(reader, replay);
	if (!error)
		error = records_feed(reader, replay, &listener);
	filled = result_fill(result, replay, reader);
	error = error ? error : filled;
	result->complete = result->complete && !error;
cleanup:
	replay_free(replay);
	capture_reader_close(reader);
	return error;
}

void replay_result_clear(struct replay_result *result)
{
	free(result->session);
	*result = (struct replay_result){0};
}
