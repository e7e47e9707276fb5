/* SPDX-License-Identifier: BSD-2-Clause */
/* A compacted capture is smaller, and its reports say of its window what those of the whole one do. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "containers/containers.h"
#include "model/model.h"
#include "replay/replay.h"
#include "stream/capture_reader.h"
#include "stream/capture_writer.h"
#include "window/window.h"

#define CUDA_BYTES(n) ((n)*512ull)
#define HEADER_BYTES sizeof(struct capture_header)
#define NUMBER_OF_NAMES 4

enum { EMPTY, MM, LIFT, RELU };

static char directory[] = "/tmp/window_test.XXXXXX";
static char path[64];
static struct capture_writer *writer;
static uint64_t now, allocated;

static void setup(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/capture.hdt", directory);
}

static void teardown(void)
{
	unlink(path);
	cr_expect_eq(rmdir(directory), 0, "something was left in the folder");
}

TestSuite(window, .init = setup, .fini = teardown, .timeout = 60);

/* --- making captures ------------------------------------------------------------- */

static void capture_begin(bool from_start)
{
	static const char *const names[NUMBER_OF_NAMES] = {
		"aten.empty.memory_format", "aten.mm.default", "aten.lift_fresh.default", "aten.relu.default"};

	now = 1000;
	allocated = 0;
	cr_assert_eq(capture_writer_open(path, &writer), 0);
	capture_writer_text(writer, CAPTURE_SESSION, 0, "{\"host\":\"here\"}");
	capture_writer_text(writer, CAPTURE_TARGET, 0,
		from_start ? "{\"rank\":0,\"from_start\":true}" : "{\"rank\":0,\"from_start\":false}");
	for (uint16_t i = 0; i < NUMBER_OF_NAMES; i++)
		capture_writer_operator(writer, 0, i, names[i], i == LIFT ? OPERATOR_LIFT : 0);
}

static void capture_end(void)
{
	capture_writer_text(writer, CAPTURE_END, 0, "{\"reason\":\"exit\"}");
	cr_assert_eq(capture_writer_close(writer), 0);
	writer = NULL;
}

/* What comes now is in the window. */
static uint64_t window_begin(void)
{
	capture_writer_flush(writer);
	return capture_writer_bytes(writer);
}

static struct event event_make(uint16_t kind, size_t size, uint8_t depth)
{
	return (struct event){.time_ns = now += 10,
		.size = (uint32_t)size,
		.thread_id = 1,
		.kind = kind,
		.depth = depth,
		.flags = EVENT_UNGUARDED};
}

struct operator_parts {
	struct operator_event head;
	uint64_t rest[2 * 4 + 3 * 2];
};

/* An operator that runs, with a stack of one frame (`code`, 0: sent before), and arguments of 64 bytes each. */
static void operator_on(uint8_t type, uint8_t depth, uint16_t name, uint64_t stack, uint64_t code, const uint64_t *data)
{
	struct operator_parts parts = {.head.hook = HOOK_REDISPATCH, .head.stack = stack};
	struct tensor_argument *tensors = (struct tensor_argument *)parts.rest;
	uint16_t count = 0;

	for (; data[count]; count++)
		tensors[count] = (struct tensor_argument){.data = data[count], .bytes = 64, .device_type = type};
	parts.head.tensor_count = count;
	parts.head.frame_count = code != 0;
	*(struct python_frame *)(tensors + count) = (struct python_frame){.code = code, .instruction = code};
	parts.head.event = event_make(EVENT_OPERATOR,
		sizeof(parts.head) + count * sizeof(*tensors) + (code != 0) * sizeof(struct python_frame), depth);
	parts.head.event.operator_ = name;
	parts.head.event.flags |= code ? EVENT_STACK : 0;
	cr_assert_eq(capture_writer_append(writer, &parts.head.event), 0);
}

#define DATA(...) ((const uint64_t[]){__VA_ARGS__, 0})
#define NO_DATA ((const uint64_t[]){0})

static void operator_make(uint8_t depth, uint16_t name, uint64_t stack, uint64_t code, const uint64_t *data)
{
	operator_on(DEVICE_CPU, depth, name, stack, code, data);
}

static void allocate(uint8_t depth, uint64_t address)
{
	struct allocate_event event = {.address = address, .bytes = 64};

	event.event = event_make(EVENT_ALLOCATE, sizeof(event), depth);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static void release(uint8_t depth, uint64_t address)
{
	struct free_event event = {.address = address};

	event.event = event_make(EVENT_FREE, sizeof(event), depth);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

/* A block of 64 bytes from an operator of its own, at a line of its own. */
static void block_make(uint64_t address, uint64_t stack, uint64_t code)
{
	operator_make(0, EMPTY, stack, code, NO_DATA);
	allocate(1, address);
}

static void gradient_make(uint64_t variable, uint64_t gradient)
{
	struct gradient_event event = {
		.variable = {.data = variable, .bytes = 64}, .gradient = {.data = gradient, .bytes = 64}};

	event.event = event_make(EVENT_GRADIENT, sizeof(event), 0);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static void device_allocate(uint64_t address, uint64_t bytes, uint64_t reserved)
{
	struct device_allocate_event event = {.address = address,
		.bytes = bytes,
		.allocated = allocated += bytes,
		.reserved = reserved,
		.device_type = DEVICE_CUDA};

	event.event = event_make(EVENT_DEVICE_ALLOCATE, sizeof(event), 1);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static void device_release(uint64_t address, uint64_t bytes, uint64_t reserved)
{
	struct device_free_event event = {.address = address,
		.bytes = bytes,
		.allocated = allocated -= bytes,
		.reserved = reserved,
		.device_type = DEVICE_CUDA};

	event.event = event_make(EVENT_DEVICE_FREE, sizeof(event), 0);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static void segment_call(uint8_t action, uint8_t result, uint64_t address, uint64_t bytes)
{
	struct segment_event event = {.address = address,
		.bytes = bytes,
		.caller = 0x7000,
		.action = action,
		.result = result,
		.device_type = DEVICE_CUDA};

	event.event = event_make(EVENT_SEGMENT, sizeof(event), 1);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

/* A code object whose file has this name; its only line is 7. */
static void code_make(uint64_t address, const char *file)
{
	struct capture_code code = {.code = address,
		.first_instruction = address,
		.first_line = 7,
		.table_format = 311,
		.file = file,
		.name = "f",
		.qualified_name = "f",
		.table = "\xf0\x00",
		.table_length = 2};

	cr_assert_eq(capture_writer_code(writer, 0, &code), 0);
}

/* Records that nothing is left of. */
static void noise_make(int count)
{
	for (int i = 0; i < count; i++) {
		operator_make(0, EMPTY, 0, 0, NO_DATA);
		allocate(1, 0x900000 + (uint64_t)i * 64);
		operator_make(0, MM, 0, 0, DATA(0x900000 + (uint64_t)i * 64));
		release(0, 0x900000 + (uint64_t)i * 64);
	}
}

/* --- compacting and reading --------------------------------------------------------- */

static uint64_t file_size(void)
{
	struct stat status;

	cr_assert_eq(stat(path, &status), 0);
	return (uint64_t)status.st_size;
}

/* The capture with the window from the offset `start` on takes its own place. */
static int compact_from(uint64_t start)
{
	struct capture_reader *reader;
	struct capture_writer *draft, *old;
	uint64_t size = file_size(), end;
	int error;

	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_writer_draft(path, capture_reader_header(reader), &draft), 0);
	capture_reader_close(reader);
	error = window_compact(path, size, size - start, draft, &end);
	if (error) {
		capture_writer_close(draft);
		return error;
	}
	/* A writer whose own chunks, of which there are none, end the draft. */
	cr_assert_eq(capture_writer_open(path, &old), 0);
	cr_assert_eq(capture_writer_replace(old, draft, HEADER_BYTES), 0);
	cr_assert_eq(capture_writer_close(old), 0);
	return 0;
}

static uint64_t records_count(uint16_t kind)
{
	struct capture_reader *reader;
	const struct event *record;
	uint64_t count = 0;

	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	while (capture_reader_next(reader, &record) == 1)
		count += record->kind == kind;
	capture_reader_close(reader);
	return count;
}

static struct model *model;

static const struct rank *rank_read(void)
{
	struct replay_result result;

	model_free(model);
	model = model_new(NULL);
	cr_assert_eq(replay_file(path, model, &result), 0);
	replay_result_clear(&result);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(model_rank_count(model), 1);
	return model_rank(model, 0);
}

static const struct block *block_at(const struct rank *rank, uint64_t address)
{
	const struct block *found = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		if (rank->blocks[i].address == address) {
			cr_assert_null(found, "two blocks at %#lx", (unsigned long)address);
			found = &rank->blocks[i];
		}
	cr_assert_not_null(found, "no block at %#lx", (unsigned long)address);
	return found;
}

static const char *file_of(const struct rank *rank, const struct block *block)
{
	const struct stack *stack = &rank->stacks[block->stack];

	return stack->frame_count ? stack->frames[stack->frame_count - 1].file : "";
}

/* --- blocks --------------------------------------------------------------------------- */

Test(window, block_that_is_alive_keeps_its_operator_and_line)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "weights.py");
	block_make(0x1000, 11, 0x100);
	noise_make(100);
	start = window_begin();
	operator_make(0, MM, 11, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(arrlenu(rank->blocks), 1);
	cr_expect_str_eq(rank->operator_names[block_at(rank, 0x1000)->name], "aten.empty.memory_format");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "weights.py");
	cr_expect_eq(block_at(rank, 0x1000)->user_count, 1);
	cr_expect_str_eq(rank->end_json, "{\"reason\":\"exit\"}");
}

Test(window, what_died_before_the_window_is_dropped_and_counted)
{
	const struct rank *rank;
	uint64_t start, before;

	capture_begin(true);
	noise_make(100);
	start = window_begin();
	block_make(0x1000, 0, 0);
	capture_end();
	before = file_size();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_lt(file_size(), before);
	cr_expect_eq(records_count(EVENT_ALLOCATE), 1);
	cr_expect_eq(records_count(EVENT_FREE), 0);
	/* The thread's last operator stays, since it may be alive. */
	cr_expect_eq(rank->window.dropped_records, 399);
	cr_expect_gt(rank->window.dropped_bytes, 399 * sizeof(struct event));
	cr_expect_gt(rank->window.since_ns, 1000);
}

Test(window, arguments_that_are_gone_make_no_blocks)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(false);
	block_make(0x2000, 0, 0);
	operator_make(0, MM, 0, 0, DATA(0x2000, 0x3000));
	allocate(1, 0x1000);
	release(0, 0x2000);
	start = window_begin();
	operator_make(0, RELU, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(arrlenu(rank->blocks), 2);
	cr_expect_str_eq(rank->operator_names[block_at(rank, 0x1000)->name], "aten.mm.default");
	cr_expect(block_at(rank, 0x3000)->preexisting);
}

Test(window, block_older_than_the_trace_that_is_used_before_and_freed_in_the_window_is_known)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(false);
	operator_make(0, MM, 0, 0, DATA(0x3000));
	noise_make(10);
	start = window_begin();
	release(0, 0x3000);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(rank->unknown_frees, 0);
	cr_expect_not(block_at(rank, 0x3000)->persistent);
}

Test(window, block_of_an_address_that_is_used_again_is_the_last_one)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "first.py");
	code_make(0x200, "second.py");
	block_make(0x1000, 11, 0x100);
	release(0, 0x1000);
	block_make(0x1000, 12, 0x200);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "second.py");
	cr_expect_eq(rank->reused_addresses, 0);
}

Test(window, operator_that_is_alive_at_the_cut_makes_what_comes_behind_it)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "step.py");
	operator_make(0, MM, 11, 0x100, NO_DATA);
	start = window_begin();
	allocate(1, 0x1000);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_str_eq(rank->operator_names[block_at(rank, 0x1000)->name], "aten.mm.default");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "step.py");
}

Test(window, data_of_a_literal_stays_no_block)
{
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	operator_make(0, LIFT, 0, 0, DATA(0x1000));
	noise_make(10);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_expect_eq(arrlenu(rank_read()->blocks), 10, "of the whole capture");
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(arrlenu(rank_read()->blocks), 0);
}

Test(window, gradients_and_their_parameters_stay_what_they_are)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	block_make(0x2000, 0, 0);
	gradient_make(0x1000, 0x2000);
	block_make(0x3000, 0, 0);
	noise_make(10);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000, 0x3000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(block_at(rank, 0x1000)->category, CATEGORY_PARAMETER);
	cr_expect_eq(block_at(rank, 0x2000)->category, CATEGORY_GRADIENT);
	cr_expect_eq(block_at(rank, 0x3000)->category, CATEGORY_ACTIVATION);
}

/* The first operator after a gradient may be its copy; another one that is kept must not be taken for it. */
Test(window, gradient_is_not_seen_in_a_later_operator)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	block_make(0x2000, 0, 0);
	gradient_make(0x1000, 0x2000);
	operator_make(0, RELU, 0, 0, NO_DATA);
	operator_make(0, MM, 0, 0, DATA(0x2000));
	allocate(1, 0x3000);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x3000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(block_at(rank, 0x3000)->category, CATEGORY_ACTIVATION);
}

Test(window, owners_and_modules_are_kept_while_what_they_name_is_there)
{
	const struct tensor_argument none = {0}, weight = {.data = 0x1000, .bytes = 64},
				     gone = {.data = 0x900000, .bytes = 64};
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "/usr/lib/torch/nn/modules/module.py");
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_NONE, &none, 0, ""), 0);
	cr_assert_eq(capture_writer_module(writer, 0, now, 0x5000, "Model.layer"), 0);
	block_make(0x1000, 11, 0x100);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_VARIABLE, &weight, 0, "x"), 0);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_PARAMETER, &weight, 0, "Model.layer.weight"), 0);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_VARIABLE, &weight, 0, "y"), 0);
	noise_make(5);
	cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_PARAMETER, &gone, 0, "nothing"), 0);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(arrlenu(rank->blocks), 1);
	cr_expect_eq(block_at(rank, 0x1000)->category, CATEGORY_PARAMETER);
	cr_expect_str_eq(block_at(rank, 0x1000)->owner, "Model.layer.weight");
	cr_expect_eq(records_count(CAPTURE_OWNER), 2, "that owners are told, and the closest one");
	cr_expect_eq(records_count(CAPTURE_MODULE), 1);
}

/* Later versions may append to a record. */
Test(window, records_longer_than_their_kind_lose_what_is_not_known)
{
	struct {
		struct gradient_event event;
		uint64_t more[64];
	} longer = {.event = {.variable = {.data = 0x1000, .bytes = 64}}};
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	longer.event.event = event_make(EVENT_GRADIENT, sizeof(longer), 0);
	memset(longer.more, 0xff, sizeof(longer.more));
	cr_assert_eq(capture_writer_append(writer, &longer.event.event), 0);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(block_at(rank_read(), 0x1000)->category, CATEGORY_PARAMETER);
}

Test(window, gradient_for_a_leaf_that_is_gone_counts_only_where_owners_are_not_told)
{
	const struct tensor_argument none = {0};
	uint64_t start;

	for (int told = 0; told < 2; told++) {
		capture_begin(true);
		if (told)
			cr_assert_eq(capture_writer_owner(writer, 0, now, OWNER_NONE, &none, 0, ""), 0);
		block_make(0x1000, 0, 0);
		block_make(0x2000, 0, 0);
		gradient_make(0x1000, 0x2000);
		operator_make(0, RELU, 0, 0, NO_DATA);
		release(0, 0x1000);
		start = window_begin();
		operator_make(0, MM, 0, 0, DATA(0x2000));
		capture_end();
		cr_assert_eq(compact_from(start), 0);
		cr_expect_eq(block_at(rank_read(), 0x2000)->category, told ? CATEGORY_ACTIVATION : CATEGORY_GRADIENT);
	}
}

/* --- stacks ------------------------------------------------------------------------------- */

Test(window, stack_that_is_only_referred_to_in_the_window_keeps_its_frames)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "loop.py");
	operator_make(0, MM, 11, 0x100, NO_DATA);
	noise_make(10);
	start = window_begin();
	block_make(0x1000, 11, 0);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_eq(records_count(CAPTURE_STACK), 1);
	cr_expect_eq(records_count(CAPTURE_CODE), 1);
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "loop.py");
}

Test(window, stacks_that_a_thread_would_send_again_are_dropped)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "loop.py");
	for (uint64_t i = 0; i < 20; i++)
		operator_make(0, MM, i + 1, 0x100, NO_DATA); /* all of one place in the cache of the thread */
	operator_make(0, MM, 0, 0, NO_DATA);
	start = window_begin();
	block_make(0x1000, 20, 0);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(records_count(CAPTURE_STACK), 1);
	rank = rank_read();
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "loop.py");
}

Test(window, stack_keeps_the_code_object_that_was_at_the_address_then)
{
	const struct rank *rank;
	uint64_t start;

	capture_begin(true);
	code_make(0x100, "old.py");
	block_make(0x1000, 11, 0x100);
	code_make(0x100, "new.py");
	block_make(0x2000, 1ull << 32 | 12, 0x100);
	start = window_begin();
	operator_make(0, MM, 0, 0, DATA(0x1000, 0x2000));
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "old.py");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x2000)), "new.py");
}

/* --- devices ---------------------------------------------------------------------------------- */

static const struct device *device_of(const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (!strcmp(rank->devices[i].name, "cuda:0"))
			return &rank->devices[i];
	cr_assert_fail("no device");
	return NULL;
}

Test(window, totals_of_a_device_follow_from_the_blocks_that_are_kept)
{
	const struct device *device;
	uint64_t start;

	capture_begin(false);
	allocated = CUDA_BYTES(100); /* older than the trace */
	for (uint64_t i = 0; i < 10; i++) {
		operator_on(DEVICE_CUDA, 0, EMPTY, 0, 0, NO_DATA);
		device_allocate(0x10000 + i * 0x1000, CUDA_BYTES(i + 1), 1 << 20);
	}
	for (uint64_t i = 0; i < 10; i += 2)
		device_release(0x10000 + i * 0x1000, CUDA_BYTES(i + 1), 1 << 20);
	start = window_begin();
	operator_on(DEVICE_CUDA, 0, EMPTY, 0, 0, NO_DATA);
	device_allocate(0x50000, CUDA_BYTES(7), 1 << 20);
	device_release(0x11000, CUDA_BYTES(2), 1 << 20);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	device = device_of(rank_read());
	cr_expect_eq(device->unexplained_totals, 0);
	cr_expect_eq(device->current.total, allocated);
	cr_expect_eq(device->peak_bytes, allocated + CUDA_BYTES(2));
	cr_expect_eq(device->reserved_bytes, 1 << 20);
}

Test(window, segments_that_are_held_stay_where_the_allocator_found_them)
{
	const struct rank *rank;
	uint64_t start, bytes = 2 << 20;

	capture_begin(true);
	operator_on(DEVICE_CUDA, 0, EMPTY, 0, 0, NO_DATA);
	segment_call(SEGMENT_ALLOCATE, SEGMENT_RETURNED, 0x100000, bytes);
	segment_call(SEGMENT_FREE, SEGMENT_TAKEN, 0x100000, 0);
	segment_call(SEGMENT_ALLOCATE, SEGMENT_FOUND, 0x900100, bytes);
	device_allocate(0x400000, CUDA_BYTES(1), bytes);
	noise_make(10);
	start = window_begin();
	segment_call(SEGMENT_ALLOCATE, SEGMENT_RETURNED, 0x800000, bytes);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	rank = rank_read();
	cr_assert_eq(arrlenu(rank->segments), 2);
	cr_expect_eq(rank->segments[0].address, 0x400000);
	cr_expect(rank->segments[0].certain && rank->segments[0].has_blocks);
	cr_expect_eq(rank->segments[1].address, 0x800000);
	cr_expect_eq(device_of(rank)->segment_bytes, 2 * bytes);
}

Test(window, unmapped_segments_are_gone)
{
	uint64_t start;

	capture_begin(true);
	for (uint64_t i = 0; i < 4; i++)
		segment_call(SEGMENT_MAP, SEGMENT_RETURNED, 0x1000000 + i * 0x200000, 0x200000);
	segment_call(SEGMENT_UNMAP, SEGMENT_TAKEN, 0x1200000, 0x400000);
	start = window_begin();
	noise_make(1);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	cr_expect_eq(records_count(EVENT_SEGMENT), 2);
	cr_expect_eq(arrlenu(rank_read()->segments), 2);
}

/* --- the capture ------------------------------------------------------------------------------ */

Test(window, compacting_twice_gives_what_compacting_once_does)
{
	const struct rank *rank;
	uint64_t start, dropped;

	capture_begin(true);
	code_make(0x100, "weights.py");
	code_make(0x200, "loop.py");
	block_make(0x1000, 11, 0x100);
	operator_make(0, MM, 1ull << 32 | 12, 0x200, NO_DATA);
	noise_make(50);
	start = window_begin();
	noise_make(50);
	capture_writer_flush(writer);
	block_make(0x2000, 1ull << 32 | 12, 0);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	dropped = rank_read()->window.dropped_records;
	cr_assert_eq(compact_from(file_size() - 1), 0, "nothing lies behind the cut");
	rank = rank_read();
	cr_expect_eq(records_count(CAPTURE_WINDOW), 1);
	cr_expect_gt(rank->window.dropped_records, dropped + 190);
	cr_expect_leq(rank->window.dropped_records, dropped + 210);
	cr_expect_eq(arrlenu(rank->blocks), 2);
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "weights.py");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x2000)), "loop.py");
	cr_expect_eq(records_count(CAPTURE_SESSION), 1);
	cr_expect_eq(records_count(CAPTURE_TARGET), 1);
	cr_expect_eq(records_count(CAPTURE_OPERATOR), NUMBER_OF_NAMES);
}

Test(window, capture_that_ends_inside_a_chunk_is_compacted_up_to_there)
{
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	noise_make(20);
	start = window_begin();
	block_make(0x2000, 0, 0);
	capture_writer_flush(writer);
	noise_make(20);
	capture_end();
	cr_assert_eq(truncate(path, (off_t)file_size() - 5), 0);
	cr_assert_eq(compact_from(file_size() - 1), 0);
	cr_expect_gt(start, 0);
	cr_expect_eq(arrlenu(rank_read()->blocks), 2);
}

Test(window, damage_before_the_cut_is_told_and_the_capture_left_alone)
{
	uint64_t start, size;
	int fd;

	capture_begin(true);
	noise_make(20);
	start = window_begin();
	noise_make(20);
	capture_end();
	fd = open(path, O_WRONLY);
	cr_assert_eq(pwrite(fd, "?", 1, (off_t)start - 3), 1);
	close(fd);
	size = file_size();
	cr_expect_eq(compact_from(start), -EBADMSG);
	cr_expect_eq(file_size(), size);
}

static void record_see(void *context, const struct event *record)
{
	(void)record;
	++*(uint64_t *)context;
}

Test(window, writer_goes_on_in_the_new_file_and_is_watched_once)
{
	struct capture_reader *reader;
	struct capture_writer *draft;
	uint64_t end, seen = 0, start;

	capture_begin(true);
	capture_writer_observe(writer, record_see, &seen);
	block_make(0x1000, 0, 0);
	noise_make(20);
	start = window_begin();
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_writer_draft(path, capture_reader_header(reader), &draft), 0);
	capture_reader_close(reader);
	cr_assert_eq(window_compact(path, start, 0, draft, &end), 0);
	block_make(0x2000, 0, 0);
	capture_writer_flush(writer); /* while it is compacted */
	block_make(0x3000, 0, 0);     /* not written yet */
	cr_assert_eq(capture_writer_replace(writer, draft, end), 0);
	cr_expect_eq(capture_writer_bytes(writer), file_size());
	block_make(0x4000, 0, 0);
	capture_end();
	cr_expect_eq(seen, 2 + 4 * 20 + 2 + 2 + 2 + 1);
	cr_expect_eq(arrlenu(rank_read()->blocks), 4);
}

Test(window, draft_that_is_given_up_leaves_nothing)
{
	struct capture_reader *reader;
	struct capture_writer *draft;
	uint64_t size;

	capture_begin(true);
	capture_end();
	size = file_size();
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_writer_draft(path, capture_reader_header(reader), &draft), 0);
	capture_reader_close(reader);
	cr_expect_eq(capture_writer_close(draft), 0);
	cr_expect_eq(file_size(), size);
}

Test(window, copy_of_something_that_is_no_chunk_is_refused)
{
	struct capture_reader *reader;
	struct capture_writer *draft;
	int fd;

	capture_begin(true);
	noise_make(5);
	capture_end();
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_writer_draft(path, capture_reader_header(reader), &draft), 0);
	capture_reader_close(reader);
	fd = open(path, O_RDONLY);
	cr_expect_eq(capture_writer_copy(draft, fd, HEADER_BYTES + 8, file_size()), -EBADMSG);
	cr_expect_eq(capture_writer_copy(draft, fd, file_size() - 8, file_size()), -EBADMSG);
	close(fd);
	capture_writer_close(draft);
}
