/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes captures for the tests of windows, compacts them, and reads the reports of
 * what came out: one capture in a folder of its own.
 */
#ifndef HDTRACE_TEST_WINDOW_CAPTURE_H
#define HDTRACE_TEST_WINDOW_CAPTURE_H

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

static inline void setup(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/capture.hdt", directory);
}

static inline void teardown(void)
{
	unlink(path);
	cr_expect_eq(rmdir(directory), 0, "something was left in the folder");
}

/* --- making captures ------------------------------------------------------------- */

static inline void capture_begin(bool from_start)
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

static inline void capture_end(void)
{
	capture_writer_text(writer, CAPTURE_END, 0, "{\"reason\":\"exit\"}");
	cr_assert_eq(capture_writer_close(writer), 0);
	writer = NULL;
}

/* What comes now is in the window. */
static inline uint64_t window_begin(void)
{
	capture_writer_flush(writer);
	return capture_writer_bytes(writer);
}

static inline struct event event_make(uint16_t kind, size_t size, uint8_t depth)
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
static inline void operator_on(
	uint8_t type, uint8_t depth, uint16_t name, uint64_t stack, uint64_t code, const uint64_t *data)
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

static inline void operator_make(uint8_t depth, uint16_t name, uint64_t stack, uint64_t code, const uint64_t *data)
{
	operator_on(DEVICE_CPU, depth, name, stack, code, data);
}

static inline void allocate(uint8_t depth, uint64_t address)
{
	struct allocate_event event = {.address = address, .bytes = 64};

	event.event = event_make(EVENT_ALLOCATE, sizeof(event), depth);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static inline void release(uint8_t depth, uint64_t address)
{
	struct free_event event = {.address = address};

	event.event = event_make(EVENT_FREE, sizeof(event), depth);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

/* A block of 64 bytes from an operator of its own, at a line of its own. */
static inline void block_make(uint64_t address, uint64_t stack, uint64_t code)
{
	operator_make(0, EMPTY, stack, code, NO_DATA);
	allocate(1, address);
}

static inline void gradient_make(uint64_t variable, uint64_t gradient)
{
	struct gradient_event event = {
		.variable = {.data = variable, .bytes = 64}, .gradient = {.data = gradient, .bytes = 64}};

	event.event = event_make(EVENT_GRADIENT, sizeof(event), 0);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static inline void device_allocate(uint64_t address, uint64_t bytes, uint64_t reserved)
{
	struct device_allocate_event event = {.address = address,
		.bytes = bytes,
		.allocated = allocated += bytes,
		.reserved = reserved,
		.device_type = DEVICE_CUDA};

	event.event = event_make(EVENT_DEVICE_ALLOCATE, sizeof(event), 1);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static inline void device_release(uint64_t address, uint64_t bytes, uint64_t reserved)
{
	struct device_free_event event = {.address = address,
		.bytes = bytes,
		.allocated = allocated -= bytes,
		.reserved = reserved,
		.device_type = DEVICE_CUDA};

	event.event = event_make(EVENT_DEVICE_FREE, sizeof(event), 0);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static inline void segment_call(uint8_t action, uint8_t result, uint64_t address, uint64_t bytes)
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
static inline void code_make(uint64_t address, const char *file)
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
static inline void noise_make(int count)
{
	for (int i = 0; i < count; i++) {
		operator_make(0, EMPTY, 0, 0, NO_DATA);
		allocate(1, 0x900000 + (uint64_t)i * 64);
		operator_make(0, MM, 0, 0, DATA(0x900000 + (uint64_t)i * 64));
		release(0, 0x900000 + (uint64_t)i * 64);
	}
}

/* --- compacting and reading --------------------------------------------------------- */

static inline uint64_t file_size(void)
{
	struct stat status;

	cr_assert_eq(stat(path, &status), 0);
	return (uint64_t)status.st_size;
}

/* The capture with the window from the offset `start` on takes its own place. */
static inline int compact_from(uint64_t start)
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

static inline uint64_t records_count(uint16_t kind)
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

static inline const struct rank *rank_read(void)
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

static inline const struct block *block_at(const struct rank *rank, uint64_t address)
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

static inline const char *file_of(const struct rank *rank, const struct block *block)
{
	const struct stack *stack = &rank->stacks[block->stack];

	return stack->frame_count ? stack->frames[stack->frame_count - 1].file : "";
}

#endif
