/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the records that a target would send, for the tests of the model and
 * of the reports: one line a record, times counted up by themselves. Thread 1
 * unless `trace->thread` says otherwise.
 */
#ifndef HDTRACE_TEST_MODEL_EVENTS_H
#define HDTRACE_TEST_MODEL_EVENTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdtrace/capture.h>

#include "containers/containers.h"
#include "model/model.h"

#define TEST_TARGET 0
#define TEST_ARGUMENTS_MAX 8

enum test_operator {
	OP_EMPTY,
	OP_MM,
	OP_RELU,
	OP_ADD_,
	OP_LIFT,
	OP_RANGE_BEGIN,
	OP_RANGE_END,
	OP_VIEW,
	OP_SUM,
	OP_MUL,
	OP_RESIZE_,
	OP_DETACH,
	OP_CLONE,
	OPS
};

static const char *const TEST_NAMES[OPS] = {
	"aten.empty.memory_format",
	"aten.mm.default",
	"aten.relu.default",
	"aten.add_.Tensor",
	"aten.lift_fresh.default",
	"profiler._record_function_enter.default",
	"profiler._record_function_exit.default",
	"aten.view.default",
	"aten.sum.default",
	"aten.mul.Tensor",
	"aten.resize_.default",
	"aten.detach.default",
	"aten.clone.default",
};

struct trace {
	struct model *model;
	uint64_t time;
	uint32_t thread;
	uint64_t stack;
	struct autograd_node next, evaluated; /* of operators */
	uint8_t flags;
	uint8_t device_type, device_index; /* of arguments, and of device_allocate and device_release */
	uint64_t allocated;                /* by the allocator of that device */
	int error;                         /* of the last call */
};

/* An argument list: pairs of address and bytes, ended by 0. */
#define ARGUMENTS(...) ((const uint64_t[]){__VA_ARGS__, 0})
#define NO_ARGUMENTS ((const uint64_t[]){0})

static inline uint32_t operator_flags_of(uint16_t operator_)
{
	switch (operator_) {
	case OP_LIFT:
		return OPERATOR_LIFT;
	case OP_RANGE_BEGIN:
		return OPERATOR_RANGE_BEGIN;
	case OP_RANGE_END:
		return OPERATOR_RANGE_END;
	}
	return 0;
}

static inline struct trace trace_new_with(bool from_start, const struct model_options *options)
{
	struct trace trace = {.time = 1000, .thread = 1, .flags = EVENT_UNGUARDED};

	trace.model = model_new(options);
	model_target(trace.model, TEST_TARGET, 0, from_start, "{\"rank\": 0}");
	for (uint16_t i = 0; i < OPS; i++)
		model_operator_name(trace.model, TEST_TARGET, i, TEST_NAMES[i], operator_flags_of(i));
	return trace;
}

static inline struct trace trace_new(bool from_start, bool all_blocks)
{
	return trace_new_with(from_start, &(struct model_options){.all_blocks = all_blocks});
}

static inline const struct rank *trace_finish(struct trace *trace)
{
	trace->error = model_finish(trace->model);
	return trace->error ? NULL : model_rank(trace->model, 0);
}

static inline struct event trace_event(struct trace *trace, uint16_t kind, uint32_t size, uint8_t depth)
{
	return (struct event){
		.time_ns = trace->time += 10,
		.size = size,
		.thread_id = trace->thread,
		.kind = kind,
		.target = TEST_TARGET,
		.depth = depth,
		.flags = trace->flags,
	};
}

static inline void trace_operator(
	struct trace *trace, uint8_t hook, uint8_t depth, uint16_t operator_, const uint64_t *arguments)
{
	union {
		struct operator_event event;
		char bytes[sizeof(struct operator_event) + TEST_ARGUMENTS_MAX * sizeof(struct tensor_argument)];
	} record = {0};
	struct tensor_argument *tensors = (void *)(record.bytes + sizeof(record.event));
	uint16_t count = 0;

	for (; arguments[2 * count]; count++)
		tensors[count] = (struct tensor_argument){
			.data = arguments[2 * count],
			.bytes = arguments[2 * count + 1],
			.device_type = trace->device_type,
			.device_index = trace->device_index,
		};
	record.event.event =
		trace_event(trace, EVENT_OPERATOR, (uint32_t)(sizeof(record.event) + count * sizeof(*tensors)), depth);
	record.event.event.operator_ = operator_;
	record.event.hook = hook;
	record.event.tensor_count = count;
	record.event.stack = trace->stack;
	record.event.next = trace->next;
	record.event.evaluated = trace->evaluated;
	trace->error = model_event(trace->model, &record.event.event);
}

/* An operator that certainly runs. */
static inline void redispatch(struct trace *trace, uint8_t depth, uint16_t operator_, const uint64_t *arguments)
{
	trace_operator(trace, HOOK_REDISPATCH, depth, operator_, arguments);
}

/* The same of a kernel that is called with its arguments on a stack. */
static inline void boxed(struct trace *trace, uint8_t depth, uint16_t operator_, const uint64_t *arguments)
{
	trace_operator(trace, HOOK_BOXED, depth, operator_, arguments);
}

static inline void call(struct trace *trace, uint8_t depth, uint16_t operator_, const uint64_t *arguments)
{
	trace_operator(trace, HOOK_CALL, depth, operator_, arguments);
}

static inline void call_guarded(struct trace *trace, uint8_t depth, uint16_t operator_, const uint64_t *arguments)
{
	trace->flags &= (uint8_t)~EVENT_UNGUARDED;
	call(trace, depth, operator_, arguments);
	trace->flags |= EVENT_UNGUARDED;
}

static inline void allocate(struct trace *trace, uint8_t depth, uint64_t address, uint64_t bytes)
{
	struct allocate_event event = {.address = address, .bytes = bytes, .stack = depth ? 0 : trace->stack};

	event.event = trace_event(trace, EVENT_ALLOCATE, sizeof(event), depth);
	trace->error = model_event(trace->model, &event.event);
}

/* The allocator of the trace's device gives out or takes back a block; its totals follow. */
static inline void device_allocate(struct trace *trace, uint8_t depth, uint64_t address, uint64_t bytes)
{
	struct device_allocate_event event = {
		.address = address,
		.bytes = bytes,
		.stack = depth ? 0 : trace->stack,
		.allocated = trace->allocated += bytes,
		.reserved = trace->allocated,
		.device_type = trace->device_type,
		.device_index = trace->device_index,
	};

	event.event = trace_event(trace, EVENT_DEVICE_ALLOCATE, sizeof(event), depth);
	trace->error = model_event(trace->model, &event.event);
}

static inline void device_release(struct trace *trace, uint8_t depth, uint64_t address, uint64_t bytes)
{
	struct device_free_event event = {
		.address = address,
		.bytes = bytes,
		.allocated = trace->allocated -= bytes,
		.reserved = trace->allocated,
		.device_type = trace->device_type,
		.device_index = trace->device_index,
	};

	event.event = trace_event(trace, EVENT_DEVICE_FREE, sizeof(event), depth);
	trace->error = model_event(trace->model, &event.event);
}

static inline void device_request(struct trace *trace, uint64_t address, uint64_t bytes, uint64_t stream)
{
	struct device_request_event event = {.address = address, .bytes = bytes, .stream = stream};

	event.event = trace_event(trace, EVENT_DEVICE_REQUEST, sizeof(event), 0);
	trace->error = model_event(trace->model, &event.event);
}

static inline void throw(struct trace * trace, uint8_t depth)
{
	struct event event = trace_event(trace, EVENT_THROW, sizeof(event), depth);

	trace->error = model_event(trace->model, &event);
}

static inline void release(struct trace *trace, uint8_t depth, uint64_t address)
{
	struct free_event event = {.address = address};

	event.event = trace_event(trace, EVENT_FREE, sizeof(event), depth);
	trace->error = model_event(trace->model, &event.event);
}

static inline void resize(struct trace *trace, uint8_t depth, uint64_t address, uint64_t before, uint64_t after)
{
	struct resize_event event = {.before = {.data = address, .bytes = before}, .bytes_after = after};

	event.event = trace_event(trace, EVENT_RESIZE, sizeof(event), depth);
	trace->error = model_event(trace->model, &event.event);
}

static inline void gradient(
	struct trace *trace, uint64_t variable, uint64_t variable_bytes, uint64_t incoming, uint64_t incoming_bytes)
{
	struct gradient_event event = {
		.variable = {.data = variable, .bytes = variable_bytes},
		.gradient = {.data = incoming, .bytes = incoming_bytes},
	};

	event.event = trace_event(trace, EVENT_GRADIENT, sizeof(event), 0);
	trace->error = model_event(trace->model, &event.event);
}

static inline void notice(struct trace *trace, uint16_t kind)
{
	struct event event = trace_event(trace, kind, sizeof(event), 0);

	trace->error = model_event(trace->model, &event);
}

/* An operator without arguments that makes one block. */
static inline void make(struct trace *trace, uint16_t operator_, uint64_t address, uint64_t bytes)
{
	redispatch(trace, 0, operator_, NO_ARGUMENTS);
	allocate(trace, 1, address, bytes);
}

static inline void define_stack(struct trace *trace, uint64_t identity, const struct frame *frames, size_t count)
{
	trace->error = model_stack(trace->model, TEST_TARGET, identity, frames, count, false);
}

/* The operators that ran, joined: "aten.mm.default aten.relu.default". Freed by the caller. */
static inline char *run_names(const struct rank *rank, bool tasks_only)
{
	char *text = strdup("");

	for (size_t i = 0; i < arrlenu(rank->runs); i++) {
		const char *name = rank->operator_names[rank->runs[i].name];
		char *longer;

		if (tasks_only && rank->runs[i].task == TASK_NONE)
			continue;
		longer = malloc(strlen(text) + strlen(name) + 2);
		strcpy(longer, text);
		if (*text)
			strcat(longer, " ");
		strcat(longer, name);
		free(text);
		text = longer;
	}
	return text;
}

/* The users of a block, joined: "3-4-5". In a buffer that the next call overwrites. */
static inline const char *user_text(const struct rank *rank, const struct block *block)
{
	static char text[256];
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < block->user_count && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%lld", i ? "-" : "",
			(long long)rank->users[block->first_user + i]);
	return text;
}

#endif
