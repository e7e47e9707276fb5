// SPDX-License-Identifier: BSD-2-Clause
/*
 * Collectives of one target as they come: groups by the address of their object,
 * and on each the collectives numbered from 0. Sends and receives are no common
 * act of a group and have no number.
 */
#include <errno.h>
#include <string.h>

#include "state.h"

/* c10::ScalarType (c10/core/ScalarType.h): name and bytes of an element. */
static const struct {
	const char *name;
	uint8_t bytes;
} element_types[] = {
	[0] = {"uint8", 1},
	[1] = {"int8", 1},
	[2] = {"int16", 2},
	[3] = {"int32", 4},
	[4] = {"int64", 8},
	[5] = {"float16", 2},
	[6] = {"float32", 4},
	[7] = {"float64", 8},
	[8] = {"complex32", 4},
	[9] = {"complex64", 8},
	[10] = {"complex128", 16},
	[11] = {"bool", 1},
	[15] = {"bfloat16", 2},
	[23] = {"float8_e5m2", 1},
	[24] = {"float8_e4m3fn", 1},
	[25] = {"float8_e5m2fnuz", 1},
	[26] = {"float8_e4m3fnuz", 1},
	[27] = {"uint16", 2},
	[28] = {"uint32", 4},
	[29] = {"uint64", 8},
};

/* c10d::ReduceOp::RedOpType (c10d/Types.hpp), the same in every version. */
static const char *const operation_names[] = {
	"sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"};

static const char *const kind_names[COLLECTIVE_KINDS] = {
	[COLLECTIVE_ALL_REDUCE] = "all_reduce",
	[COLLECTIVE_BROADCAST] = "broadcast",
	[COLLECTIVE_REDUCE] = "reduce",
	[COLLECTIVE_ALL_GATHER] = "all_gather",
	[COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
	[COLLECTIVE_ALL_TO_ALL] = "all_to_all",
	[COLLECTIVE_GATHER] = "gather",
	[COLLECTIVE_SCATTER] = "scatter",
	[COLLECTIVE_SEND] = "send",
	[COLLECTIVE_RECEIVE] = "receive",
	[COLLECTIVE_BARRIER] = "barrier",
};

static const char *const mode_names[] = {
	[MODE_EAGER] = "eager", [MODE_FUNCTIONAL] = "functional", [MODE_COMPILED] = "compiled"};

/* Of one process; more are counted with the last one. */
#define GROUPS_MAX 1024

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static uint8_t element_bytes(uint8_t type)
{
	return type < COUNT(element_types) ? element_types[type].bytes : 0;
}

const char *element_type_name(uint8_t type)
{
	return element_bytes(type) ? element_types[type].name : "";
}

const char *collective_type_name(const struct collective *collective)
{
	return element_type_name(collective->element_type);
}

const char *collective_operation_name(const struct collective *collective)
{
	return collective->operation < COUNT(operation_names) ? operation_names[collective->operation] : "";
}

const char *collective_kind_name(const struct collective *collective)
{
	return collective->kind < COLLECTIVE_KINDS ? kind_names[collective->kind] : "";
}

const char *collective_mode_name(const struct collective *collective)
{
	return collective->mode < COUNT(mode_names) ? mode_names[collective->mode] : "";
}

bool collective_is_common(const struct collective *collective)
{
	return collective->kind != COLLECTIVE_SEND && collective->kind != COLLECTIVE_RECEIVE;
}

static uint32_t group_find(struct target_state *target, const struct collective_event *event)
{
	struct group group = {.address = event->group, .rank = event->rank, .size = event->size};
	struct group *groups = target->result.groups;

	/* A new one may get the address of one that is gone: then it is another in size or rank. */
	for (size_t i = arrlenu(groups); i > 0; i--)
		if (groups[i - 1].address == group.address && groups[i - 1].rank == group.rank &&
			groups[i - 1].size == group.size)
			return (uint32_t)(i - 1);
	if (arrlenu(groups) == GROUPS_MAX)
		return GROUPS_MAX - 1;
	arrput(target->result.groups, group);
	return (uint32_t)arrlenu(target->result.groups) - 1;
}

/* Without the type of the elements, at least what their storages have. */
static uint64_t bytes_of(uint64_t elements, uint8_t type, const struct tensor_argument *tensors, uint32_t count)
{
	uint64_t bytes = 0;

	if (element_bytes(type))
		return elements * element_bytes(type);
	for (uint32_t i = 0; i < count; i++)
		bytes += tensors[i].bytes;
	return bytes;
}

static enum collective_mode stack_mode(const struct stack *stack)
{
	enum collective_mode mode = MODE_EAGER;

	for (uint32_t i = 0; i < stack->frame_count; i++) {
		if (strstr(stack->frames[i].file, "/torchinductor_"))
			return MODE_COMPILED;
		if (strstr(stack->frames[i].file, "/torch/distributed/_functional_collectives.py"))
			mode = MODE_FUNCTIONAL;
	}
	return mode;
}

int collective_begin(struct target_state *target, const struct collective_event *event)
{
	const struct tensor_argument *tensors = (const void *)(event + 1);
	uint32_t outputs = event->tensor_count - event->input_shown;
	struct collective collective = {
		.time_ns = event->event.time_ns,
		.thread_id = event->event.thread_id,
		.kind = event->kind,
		.operation = event->operation,
		.element_type = event->element_type,
		.peer = event->peer,
		.in_bucket = event->flags & COLLECTIVE_BUCKET,
		.step = target->steps,
		.last_rank = RANK_UNKNOWN,
		.absent_rank = RANK_UNKNOWN,
	};

	if (event->input_shown > event->tensor_count ||
		event->event.size < sizeof(*event) + event->tensor_count * sizeof(*tensors) +
					    event->frame_count * sizeof(struct python_frame))
		return -EINVAL;
	if (arrlenu(target->result.collectives) >= INDEX_MAX)
		return -E2BIG;
	collective.stack = stack_find(target, event->stack);
	collective.phase = (uint8_t)stack_phase(&target->stacks[collective.stack], event->event.flags);
	collective.mode = (uint8_t)stack_mode(&target->stacks[collective.stack]);
	collective.group = group_find(target, event);
	collective.sequence = collective_is_common(&collective) ? target->result.groups[collective.group].collectives++
	                                                        : SEQUENCE_NONE;
	collective.input_elements = event->input_elements;
	collective.output_elements = event->output_elements;
	collective.input_bytes = bytes_of(event->input_elements, event->element_type, tensors, event->input_shown);
	collective.output_bytes =
		bytes_of(event->output_elements, event->element_type, tensors + event->input_shown, outputs);
	collective.input_address = event->input_shown ? tensors[0].data : 0;
	collective.output_address = outputs ? tensors[event->input_shown].data : 0;
	arrput(target->result.collectives, collective);
	return 0;
}
