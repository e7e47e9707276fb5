/* SPDX-License-Identifier: BSD-2-Clause */
/* What the model is told of a capture: a model stands in here that writes down its calls, one a line. */
#include <criterion/criterion.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/code_table.h"
#include "replay/replay.h"
#include "replay/target_json.h"
#include "stream/capture_writer.h"

/* --- the model that only listens -------------------------------------------------- */

struct model {
	FILE *calls;
	char *text;
	size_t size;
	int fail; /* what model_event returns */
};

static struct model heard;

int model_target(struct model *model, uint16_t target, int32_t rank, bool from_start, const char *json)
{
	fprintf(model->calls, "target %u rank %d start %d %s\n", target, rank, from_start, json);
	return 0;
}

int model_family(struct model *model, uint16_t target, int32_t parent, bool forked, const char *job)
{
	if (parent >= 0 || forked || *job)
		fprintf(model->calls, "family %u parent %d forked %d job %s\n", target, parent, forked, job);
	return 0;
}

int model_operator_name(struct model *model, uint16_t target, uint16_t index, const char *name, uint32_t flags)
{
	fprintf(model->calls, "name %u %u %s %u\n", target, index, name, flags);
	return 0;
}

int model_symbol(
	struct model *model, uint16_t target, uint64_t address, const char *library, const char *name, uint32_t offset)
{
	fprintf(model->calls, "symbol %u %" PRIu64 " %s %s %u\n", target, address, library, name, offset);
	return 0;
}

int model_module(struct model *model, uint16_t target, uint64_t object, const char *name)
{
	fprintf(model->calls, "module %u %" PRIu64 " %s\n", target, object, name);
	return 0;
}

int model_owner(struct model *model, uint16_t target, uint64_t time_ns, unsigned int kind,
	const struct tensor_argument *storage, const char *name)
{
	fprintf(model->calls, "owner %u %" PRIu64 " %u %" PRIu64 " %u %s\n", target, time_ns, kind,
		(uint64_t)storage->data, (unsigned int)storage->bytes, name);
	return 0;
}

void model_element_type(
	struct model *model, uint16_t target, const struct tensor_argument *storage, uint8_t element_type)
{
	fprintf(model->calls, "type %u %" PRIu64 " %u\n", target, (uint64_t)storage->data, element_type);
}

int model_stack(struct model *model, uint16_t target, uint64_t identity, const struct frame *frames, size_t frame_count,
	bool cut)
{
	fprintf(model->calls, "stack %u %" PRIu64 "%s:", target, identity, cut ? " cut" : "");
	for (size_t i = 0; i < frame_count; i++)
		fprintf(model->calls, " %s:%u %s self %" PRIu64, frames[i].file, frames[i].line, frames[i].function,
			frames[i].self);
	fprintf(model->calls, "\n");
	return 0;
}

int model_event(struct model *model, const struct event *event)
{
	fprintf(model->calls, "event %u %" PRIu64 "\n", event->kind, (uint64_t)event->time_ns);
	return model->fail;
}

int model_capture(struct model *model, int64_t real_offset_ns)
{
	(void)model;
	(void)real_offset_ns;
	return 0;
}

int model_window(struct model *model, uint64_t since_ns, uint64_t dropped_records, uint64_t dropped_bytes)
{
	fprintf(model->calls, "window %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", since_ns, dropped_records, dropped_bytes);
	return 0;
}

int model_loss(struct model *model, uint16_t target, const struct event_counters *counters)
{
	fprintf(model->calls, "loss %u %" PRIu64 "\n", target, (uint64_t)counters->lost[LOSS_STACK]);
	return 0;
}

int model_end(struct model *model, uint16_t target, const char *json)
{
	fprintf(model->calls, "end %u %s\n", target, json);
	return 0;
}

static const char *told(void)
{
	fflush(heard.calls);
	return heard.text;
}

/* --- records ------------------------------------------------------------------------ */

static struct replay *replay;
static char path[] = "/tmp/replay_test.XXXXXX";

static void setup(void)
{
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	heard.calls = open_memstream(&heard.text, &heard.size);
	replay = replay_new(&heard);
	cr_assert_not_null(replay);
}

static void teardown(void)
{
	replay_free(replay);
	fclose(heard.calls);
	free(heard.text);
	unlink(path);
}

TestSuite(replay, .init = setup, .fini = teardown, .timeout = 60);

static void take(const void *record)
{
	cr_assert_eq(replay_record(replay, record), 0);
}

static void take_text(uint16_t kind, uint16_t target, const char *text)
{
	size_t length = strlen(text), size = (sizeof(struct text_record) + length + 7) / 8 * 8;
	struct text_record *record = calloc(1, size);

	record->event = (struct event){.kind = kind, .target = target, .size = (uint32_t)size};
	record->length = (uint32_t)length;
	memcpy(record->text, text, length);
	take(record);
	free(record);
}

static void take_name(uint16_t target, uint16_t index, const char *name, uint32_t flags)
{
	size_t length = strlen(name), size = (sizeof(struct operator_record) + length + 7) / 8 * 8;
	struct operator_record *record = calloc(1, size);

	record->event =
		(struct event){.kind = CAPTURE_OPERATOR, .target = target, .operator_ = index, .size = (uint32_t)size};
	record->length = (uint32_t)length;
	record->flags = flags;
	memcpy(record->name, name, length);
	take(record);
	free(record);
}

/* A code object whose n-th instruction stands on line first + n; instructions begin 0x100 behind it. */
static void take_code_from(uint16_t target, uint64_t address, uint32_t first_line, const char *file, const char *name)
{
	static const uint8_t table[] = {0x80, 0, 0xd8, 0, 0, 0xd8, 0, 0, 0xf8};
	size_t strings = strlen(file) + 2 * strlen(name);
	size_t size = (sizeof(struct code_record) + strings + sizeof(table) + 7) / 8 * 8;
	struct code_record *record = calloc(1, size);

	*record = (struct code_record){
		.event = {.kind = CAPTURE_CODE, .target = target, .size = (uint32_t)size},
		.code = address,
		.first_instruction = address + 0x100,
		.first_line = first_line,
		.table_format = 311,
		.file_length = (uint32_t)strlen(file),
		.name_length = (uint32_t)strlen(name),
		.qualified_length = (uint32_t)strlen(name),
		.table_length = sizeof(table),
	};
	memcpy(record->bytes, file, strlen(file));
	memcpy(record->bytes + strlen(file), name, strlen(name));
	memset(record->bytes + strlen(file) + strlen(name), 'q', strlen(name));
	memcpy(record->bytes + strings, table, sizeof(table));
	take(record);
	free(record);
}

static void take_code(uint16_t target, uint64_t address, const char *file, const char *name)
{
	take_code_from(target, address, 10, file, name);
}

struct stack_frame {
	uint64_t code;
	unsigned int unit;
	uint64_t self;
};

/* An operator with one argument, and with the frames of its stack, innermost first. */
static void take_operator(
	uint64_t time, uint64_t stack, const struct stack_frame *frames, unsigned int count, uint8_t flags)
{
	struct {
		struct operator_event operator_;
		struct tensor_argument tensor;
		struct python_frame frames[EVENT_FRAMES_MAX];
	} record = {0};

	record.operator_ = (struct operator_event){
		.event = {.time_ns = time,
			.kind = EVENT_OPERATOR,
			.flags = flags,
			.size = (uint32_t)(offsetof(__typeof__(record), frames) + count * sizeof(struct python_frame))},
		.stack = stack,
		.tensor_count = 1,
		.frame_count = (uint16_t)count,
	};
	for (unsigned int i = 0; i < count; i++)
		record.frames[i] = (struct python_frame){
			frames[i].code, frames[i].code + 0x100 + 2 * frames[i].unit, frames[i].self};
	take(&record);
}

static void take_plain(uint16_t kind, uint64_t time)
{
	struct event event = {.kind = kind, .size = sizeof(event), .time_ns = time};

	take(&event);
}

/* --- stacks ------------------------------------------------------------------------- */

Test(replay, a_stack_is_told_outermost_first_and_before_its_event)
{
	struct stack_frame frames[] = {{0x2000, 1, 7}, {0x1000, 2, 0}};

	take_text(CAPTURE_TARGET, 0, "{}");
	take_code(0, 0x1000, "/job/train.py", "main");
	take_code(0, 0x2000, "/job/model.py", "forward");
	take_operator(5, 77, frames, 2, EVENT_STACK);
	cr_assert_str_eq(told(), "target 0 rank -1 start 0 {}\n"
				 "stack 0 77: /job/train.py:12 main self 0 /job/model.py:11 forward self 7\n"
				 "event 1 5\n");
}

Test(replay, an_allocation_defines_a_stack_too)
{
	struct {
		struct allocate_event allocate;
		struct python_frame frame;
	} record = {.allocate = {.event = {.kind = EVENT_ALLOCATE,
					 .size = sizeof(record),
					 .flags = EVENT_STACK | EVENT_STACK_CUT},
			    .stack = 3,
			    .frame_count = 1},
		.frame = {0x1000, 0x1100, 0}};

	take_text(CAPTURE_TARGET, 0, "{}");
	take_code(0, 0x1000, "a.py", "f");
	take(&record);
	cr_assert_str_eq(strchr(told(), '\n') + 1, "stack 0 3 cut: a.py:10 f self 0\nevent 3 0\n");
}

Test(replay, a_reference_to_a_stack_is_no_definition)
{
	take_text(CAPTURE_TARGET, 0, "{}");
	take_operator(1, 77, NULL, 0, 0);
	cr_assert_str_eq(strchr(told(), '\n') + 1, "event 1 1\n");
}

Test(replay, a_stack_that_is_defined_again_is_told_again_only_if_it_changed)
{
	struct stack_frame frame = {0x1000, 0, 7};

	take_text(CAPTURE_TARGET, 0, "{}");
	take_code(0, 0x1000, "a.py", "f");
	take_operator(1, 77, &frame, 1, EVENT_STACK);
	take_operator(2, 77, &frame, 1, EVENT_STACK);
	frame.self = 8;
	take_operator(3, 77, &frame, 1, EVENT_STACK);
	take_operator(4, 77, &frame, 1, EVENT_STACK | EVENT_STACK_LOST);
	take_code(0, 0x1000, "a.py", "f"); /* the same again */
	take_operator(5, 77, &frame, 1, EVENT_STACK | EVENT_STACK_LOST);
	take_code(0, 0x1000, "b.py", "g"); /* the address was used again */
	take_operator(6, 77, &frame, 1, EVENT_STACK | EVENT_STACK_LOST);
	cr_assert_str_eq(strchr(told(), '\n') + 1, "stack 0 77: a.py:10 f self 7\nevent 1 1\n"
						   "event 1 2\n"
						   "stack 0 77: a.py:10 f self 8\nevent 1 3\n"
						   "stack 0 77 cut: a.py:10 f self 8\nevent 1 4\n"
						   "event 1 5\n"
						   "stack 0 77 cut: b.py:10 g self 8\nevent 1 6\n");
	cr_assert_eq(replay_counts(replay)->stacks, 6);
}

Test(replay, a_frame_without_code_object_is_shown_as_unknown_and_counted)
{
	struct stack_frame frames[] = {{0x9000, 0, 4}, {0x1000, 0, 0}};

	take_text(CAPTURE_TARGET, 0, "{}");
	take_code(0, 0x1000, "a.py", "f");
	take_operator(1, 77, frames, 2, EVENT_STACK);
	cr_assert_eq(replay_counts(replay)->frames_unknown, 1);
	take_code(0, 0x9000, "late.py", "g"); /* becomes known: looked for again */
	take_operator(2, 77, frames, 2, EVENT_STACK);
	cr_assert_str_eq(strchr(told(), '\n') + 1, "stack 0 77: a.py:10 f self 0 <unknown>:0 ? self 4\nevent 1 1\n"
						   "stack 0 77: a.py:10 f self 0 late.py:10 g self 4\nevent 1 2\n");
}

Test(replay, code_objects_belong_to_one_target_and_one_process_image)
{
	struct stack_frame frame = {0x1000, 0, 0};

	take_text(CAPTURE_TARGET, 0, "{}");
	take_text(CAPTURE_TARGET, 1, "{}");
	take_code(1, 0x1000, "other.py", "f");
	take_operator(1, 77, &frame, 1, EVENT_STACK);
	take_code(0, 0x1000, "a.py", "f");
	take_operator(2, 77, &frame, 1, EVENT_STACK);
	take_plain(EVENT_EXEC, 3);
	take_operator(4, 77, &frame, 1, EVENT_STACK);
	cr_assert_str_eq(strstr(told(), "stack"), "stack 0 77: <unknown>:0 ? self 0\nevent 1 1\n"
						  "stack 0 77: a.py:10 f self 0\nevent 1 2\n"
						  "event 8 3\n"
						  "stack 0 77: <unknown>:0 ? self 0\nevent 1 4\n");
}

Test(replay, frames_of_the_interpreter_and_of_compile_are_left_out)
{
	static const char *const hidden[] = {
		"<frozen importlib._bootstrap>", "/x/torch/_compile.py", "C:\\x\\torch\\_dynamo\\eval_frame.py"};
	static const char *const shown[] = {"/x/mytorch/_compile.py", "torch/_compile.py", "/x/torch/_compile.pyc",
		"/x/__init__.py", "__init__", "x<frozen", ""};
	struct stack_frame frame = {0x1000, 0, 0};
	uint64_t stack = 1;
	char expected[128];

	take_text(CAPTURE_TARGET, 0, "{}");
	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++) {
		take_code(0, 0x1000, hidden[i], "f");
		take_operator(1, ++stack, &frame, 1, EVENT_STACK);
		snprintf(expected, sizeof(expected), "stack 0 %" PRIu64 ":\n", stack);
		cr_assert_not_null(strstr(told(), expected), "%s is shown", hidden[i]);
	}
	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++) {
		take_code(0, 0x1000, shown[i], "f");
		take_operator(1, ++stack, &frame, 1, EVENT_STACK);
		snprintf(expected, sizeof(expected), "stack 0 %" PRIu64 ": %s:10 f self 0\n", stack, shown[i]);
		cr_assert_not_null(strstr(told(), expected), "%s is not shown", shown[i]);
	}
	/* Code that the interpreter made has no first line. */
	take_code_from(0, 0x1000, 0, "__init__", "__init__");
	take_operator(1, ++stack, &frame, 1, EVENT_STACK);
	snprintf(expected, sizeof(expected), "stack 0 %" PRIu64 ":\n", stack);
	cr_assert_not_null(strstr(told(), expected), "the interpreter's __init__ is shown");
}

Test(replay, instructions_without_a_line_have_line_0_and_frames_not_begun_the_first)
{
	struct stack_frame none = {0x1000, 3, 0}, beyond = {0x1000, 500, 0};

	take_text(CAPTURE_TARGET, 0, "{}");
	take_code(0, 0x1000, "a.py", "f");
	take_operator(1, 1, &none, 1, EVENT_STACK);
	take_operator(2, 2, &beyond, 1, EVENT_STACK);
	cr_assert_not_null(strstr(told(), "stack 0 1: a.py:0 f"));
	cr_assert_not_null(strstr(told(), "stack 0 2: a.py:0 f"));
	{
		struct {
			struct operator_event operator_;
			struct python_frame frame;
		} record = {
			.operator_ = {.event = {.kind = EVENT_OPERATOR, .size = sizeof(record), .flags = EVENT_STACK},
				.stack = 3,
				.frame_count = 1},
			.frame = {0x1000, 0x10fe, 0}};

		take(&record);
	}
	cr_assert_not_null(strstr(told(), "stack 0 3: a.py:10 f"));
}

Test(replay, text_that_is_not_utf8_is_made_so)
{
	struct stack_frame frame = {0x1000, 0, 0};

	take_text(CAPTURE_TARGET, 0, "{}");
	take_code(0, 0x1000, "\xff.py", "f\xc3");
	take_operator(1, 1, &frame, 1, EVENT_STACK);
	cr_assert_not_null(strstr(told(), "stack 0 1: \ufffd.py:10 f\ufffd self"));
}

static struct code_record *code_make(uint64_t address, char fill, uint32_t file_length)
{
	size_t size = (sizeof(struct code_record) + file_length + 7) / 8 * 8;
	struct code_record *record = calloc(1, size);

	*record = (struct code_record){.event = {.kind = CAPTURE_CODE, .size = (uint32_t)size},
		.code = address,
		.table_format = 311,
		.file_length = file_length};
	memset(record->bytes, fill, file_length);
	return record;
}

Test(code_table, that_is_full_forgets_rather_than_keeps_a_wrong_name)
{
	struct code_table *table = code_table_new(4096);
	struct code_record *small = code_make(1, 'a', 8), *changed = code_make(1, 'b', 8192),
			   *other = code_make(2, 'c', 8);
	uint32_t line;
	bool change;

	cr_assert_eq(code_table_put(table, small, &change), 0);
	cr_assert_not(change);
	cr_assert_str_eq(code_table_find(table, 0, 1, 0, &line)->file, "aaaaaaaa");
	cr_assert_eq(code_table_put(table, changed, &change), -ENOSPC);
	cr_assert(change);
	cr_assert_null(code_table_find(table, 0, 1, 0, &line));
	cr_assert_eq(code_table_put(table, other, &change), 0, "what it forgot makes room");
	code_table_free(table);
	free(small);
	free(changed);
	free(other);
}

/* --- objects ----------------------------------------------------------------------------- */

/* A record with a text behind its fixed part. */
#define TEXT_BYTES 16

Test(replay, hands_on_names_of_modules_and_owners)
{
	union {
		struct module_record record;
		char bytes[sizeof(struct module_record) + TEXT_BYTES];
	} module = {.record = {.event = {.kind = CAPTURE_MODULE, .size = sizeof(module)}, .object = 9, .length = 7}};
	union {
		struct owner_record record;
		char bytes[sizeof(struct owner_record) + TEXT_BYTES];
	} owner = {.record = {.event = {.kind = CAPTURE_OWNER, .size = sizeof(owner), .time_ns = 5},
			   .storage = {.data = 64, .bytes = 32},
			   .kind = OWNER_BUFFER,
			   .length = 6}};

	take_text(CAPTURE_TARGET, 0, "{}");
	memcpy(module.record.name, "Model.0", 7);
	memcpy(owner.record.name, "M.mean", 6);
	cr_assert_eq(replay_record(replay, &module.record.event), 0);
	cr_assert_eq(replay_record(replay, &owner.record.event), 0);
	cr_assert_not_null(strstr(told(), "module 0 9 Model.0\nowner 0 5 2 64 32 M.mean\n"), "%s", told());
	cr_assert(!strstr(told(), "type"), "of a type that is not known nothing is told");
	owner.record.element_type = 7;
	cr_assert_eq(replay_record(replay, &owner.record.event), 0);
	cr_assert_not_null(strstr(told(), "owner 0 5 2 64 32 M.mean\ntype 0 64 7\n"), "%s", told());
	owner.record.kind = OWNER_KINDS;
	cr_assert_eq(replay_record(replay, &owner.record.event), -EBADMSG, "an unknown kind");
	owner.record.kind = OWNER_BUFFER;
	owner.record.length = TEXT_BYTES + 1;
	cr_assert_eq(replay_record(replay, &owner.record.event), -EBADMSG, "a name beyond its record");
	module.record.length = TEXT_BYTES + 1;
	cr_assert_eq(replay_record(replay, &module.record.event), -EBADMSG, "a name beyond its record");
}

/* --- other records --------------------------------------------------------------------- */

Test(replay, everything_else_is_handed_on_in_order)
{
	struct loss_record loss = {.event = {.kind = CAPTURE_LOSS, .size = sizeof(loss), .target = 2},
		.counters = {.lost = {[LOSS_STACK] = 4}}};
	struct event unknown = {.kind = 4000, .size = sizeof(unknown), .target = 2};
	struct event gone = {.kind = EVENT_EXIT, .size = sizeof(gone), .target = 2, .time_ns = 8};

	take_text(CAPTURE_SESSION, 0, "{\"host\":\"a\"}");
	take_text(CAPTURE_TARGET, 2, "{\"rank\":5,\"from_start\":true}");
	take_name(2, 9, "aten.add.Tensor", OPERATOR_LIFT);
	take(&loss);
	take(&unknown);
	take(&gone);
	take_text(CAPTURE_END, 2, "{\"reason\":\"exit\"}");
	cr_assert_str_eq(told(), "target 2 rank 5 start 1 {\"rank\":5,\"from_start\":true}\n"
				 "name 2 9 aten.add.Tensor 1\n"
				 "loss 2 4\n"
				 "event 9 8\n"
				 "end 2 {\"reason\":\"exit\"}\n");
	cr_assert_eq(replay_counts(replay)->records, 7);
	cr_assert_eq(replay_counts(replay)->events, 1);
	cr_assert_eq(replay_counts(replay)->targets_ended, 1);
}

Test(replay, records_of_a_target_that_was_not_announced_are_dropped_and_counted)
{
	take_plain(EVENT_EXIT, 1);
	take_text(CAPTURE_END, 0, "{}");
	take_code(0, 0x1000, "a.py", "f");
	cr_assert_str_eq(told(), "");
	cr_assert_eq(replay_counts(replay)->without_target, 3);
}

Test(replay, a_description_that_is_no_json_object_counts_as_an_empty_one)
{
	take_text(CAPTURE_TARGET, 4, "{\"rank\":5");
	cr_assert_str_eq(told(), "target 4 rank -1 start 0 {}\n");
	cr_assert_eq(replay_counts(replay)->targets_unnamed, 1);
}

Test(replay, what_breaks_its_bounds_is_not_used)
{
	struct event event = {.kind = EVENT_FREE, .size = sizeof(event)};

	cr_assert_eq(replay_record(replay, &event), -EBADMSG);
	cr_assert_eq(replay_counts(replay)->records, 0);
}

Test(replay, an_error_of_the_model_comes_back)
{
	take_text(CAPTURE_TARGET, 0, "{}");
	heard.fail = -ENOMEM;
	cr_assert_eq(replay_record(replay, &(struct event){.kind = EVENT_EXIT, .size = sizeof(struct event)}), -ENOMEM);
}

/* --- target descriptions ------------------------------------------------------------------ */

static struct target_facts facts_of(const char *json, int expected)
{
	struct target_facts facts;

	cr_assert_eq(target_json_read(json, strlen(json), &facts), expected, "%s", json);
	return facts;
}

Test(target_json, only_the_outermost_object_counts)
{
	cr_assert_eq(facts_of("{\"rank\": 3}", 0).rank, 3);
	cr_assert_eq(facts_of("{\"rank\": null}", 0).rank, TARGET_RANK_UNKNOWN);
	cr_assert_eq(facts_of("{\"rank\": -4}", 0).rank, TARGET_RANK_UNKNOWN);
	cr_assert_eq(facts_of("{\"rank\": 4294967296}", 0).rank, TARGET_RANK_UNKNOWN);
	cr_assert_eq(facts_of("{\"rank\": \"3\", \"world\": 9}", 0).rank, TARGET_RANK_UNKNOWN);
	cr_assert_eq(facts_of("{\"rank\": [3, 4], \"b\": 5}", 0).rank, TARGET_RANK_UNKNOWN);
	cr_assert_eq(facts_of("{\"a\": {\"rank\": 3}, \"b\": [{\"rank\": 4}]}", 0).rank, TARGET_RANK_UNKNOWN);
	cr_assert_eq(facts_of("{\"a\": 1.5, \"rank\": 7, \"b\": \"x\"}", 0).rank, 7);
	cr_assert(facts_of("{\"from_start\": true}", 0).from_start);
	cr_assert_not(facts_of("{\"from_start\": 1}", 0).from_start);
	cr_assert_not(facts_of("{\"rank\": true}", 0).from_start);
}

Test(target_json, anything_but_one_object_is_refused)
{
	static const char *const wrong[] = {
		"", "[]", "3", "{", "{}{}", "[{\"rank\":3}]", "{\"rank\":3", "nonsense", "{\"a\":\"\xff\"}"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		cr_assert_eq(facts_of(wrong[i], -EBADMSG).rank, TARGET_RANK_UNKNOWN);
}

Test(target_json, depth_does_no_harm)
{
	size_t depth = 1 << 20;
	char *json = malloc(depth + 1);

	memset(json, '[', depth);
	json[depth] = 0;
	facts_of(json, -EBADMSG);
	free(json);
}

/* --- files ----------------------------------------------------------------------------------- */

static void file_make(bool ended)
{
	struct free_event event = {.event = {.kind = EVENT_FREE, .size = sizeof(event), .time_ns = 6}, .address = 1};
	struct capture_writer *writer;

	cr_assert_eq(capture_writer_open(path, &writer), 0);
	cr_assert_eq(capture_writer_text(writer, CAPTURE_SESSION, 0, "{\"v\":1}"), 0);
	cr_assert_eq(capture_writer_text(writer, CAPTURE_TARGET, 0, "{}"), 0);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
	cr_assert_eq(capture_writer_flush(writer), 0);
	if (ended)
		cr_assert_eq(capture_writer_text(writer, CAPTURE_END, 0, "{}"), 0);
	cr_assert_eq(capture_writer_close(writer), 0);
}

Test(replay, a_whole_file_gives_a_complete_result)
{
	struct replay_result result;

	file_make(true);
	cr_assert_eq(replay_file(path, &heard, &result), 0);
	cr_assert(result.complete);
	cr_assert_str_eq(result.session, "{\"v\":1}");
	cr_assert_eq(result.counts.records, 4);
	cr_assert_gt(result.header.start_real_time_ns, 0);
	cr_assert_str_eq(told(), "target 0 rank -1 start 0 {}\nevent 4 6\nend 0 {}\n");
	replay_result_clear(&result);
	replay_result_clear(&result);
}

Test(replay, a_file_without_the_end_of_a_target_is_not_complete)
{
	struct replay_result result;

	file_make(false);
	cr_assert_eq(replay_file(path, &heard, &result), 0);
	cr_assert(!result.complete && result.damage.complete);
	replay_result_clear(&result);
}

Test(replay, a_cut_or_damaged_file_gives_its_beginning_and_says_what_is_wrong)
{
	struct replay_result result;
	FILE *file;

	file_make(true);
	cr_assert_eq(truncate(path, sizeof(struct capture_header) + sizeof(struct capture_chunk) + 8), 0);
	cr_assert_eq(replay_file(path, &heard, &result), 0);
	cr_assert(!result.complete && result.damage.truncated);
	cr_assert_eq(result.counts.records, 0);
	replay_result_clear(&result);

	file_make(true);
	file = fopen(path, "r+b");
	fseek(file, -1, SEEK_END);
	fputc(0x55, file);
	fclose(file);
	cr_assert_eq(replay_file(path, &heard, &result), 0);
	cr_assert(!result.complete && !result.damage.truncated);
	cr_assert_not_null(strstr(result.damage.reason, "checksum"));
	cr_assert_eq(result.counts.records, 3);
	replay_result_clear(&result);
}

Test(replay, what_is_no_capture_is_an_error_with_a_reason)
{
	struct replay_result result;

	cr_assert_eq(replay_file(path, &heard, &result), -EBADMSG);
	cr_assert_neq(result.damage.reason[0], 0);
	cr_assert(!result.complete);
	cr_assert_eq(replay_file("/no/such/file", &heard, &result), -ENOENT);
	cr_assert_not_null(strstr(result.damage.reason, "No such file"));
}
