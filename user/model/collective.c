// SPDX-License-Identifier: BSD-2-Clause
/*
 * Collectives of one target as they come: groups by the address of their object.
 * Sends and receives are no common act of a group. What libraries below c10d were
 * asked for is in library_collective.c.
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
	/* Not c10::ScalarType: enum collective_element. Pairs lie close. */
	[ELEMENT_LONG_DOUBLE] = {"long_double", 16},
	[ELEMENT_LONG_DOUBLE_COMPLEX] = {"long_double_complex", 32},
	[ELEMENT_FLOAT_INT] = {"float_int", 8},
	[ELEMENT_DOUBLE_INT] = {"double_int", 12},
	[ELEMENT_LONG_INT] = {"long_int", 12},
	[ELEMENT_SHORT_INT] = {"short_int", 6},
	[ELEMENT_LONG_DOUBLE_INT] = {"long_double_int", 20},
	[ELEMENT_INT_INT] = {"int_int", 8},
	[ELEMENT_FLOAT_FLOAT] = {"float_float", 8},
	[ELEMENT_DOUBLE_DOUBLE] = {"double_double", 16},
	[ELEMENT_INT128] = {"int128", 16},
};

static const char *const operation_names[] = {
	[OPERATION_SUM] = "sum",
	[OPERATION_AVERAGE] = "avg",
	[OPERATION_PRODUCT] = "product",
	[OPERATION_MIN] = "min",
	[OPERATION_MAX] = "max",
	[OPERATION_BAND] = "band",
	[OPERATION_BOR] = "bor",
	[OPERATION_BXOR] = "bxor",
	[OPERATION_PREMUL_SUM] = "premul_sum",
	[OPERATION_LAND] = "land",
	[OPERATION_LOR] = "lor",
	[OPERATION_LXOR] = "lxor",
	[OPERATION_MAXLOC] = "maxloc",
	[OPERATION_MINLOC] = "minloc",
	[OPERATION_REPLACE] = "replace",
	[OPERATION_NO_OP] = "no_op",
	[OPERATION_USER] = "user",
};

static const char *const layer_names[LAYERS] = {
	[LAYER_C10D] = "c10d",
	[LAYER_NCCL] = "nccl",
	[LAYER_RCCL] = "rccl",
	[LAYER_HCCL] = "hccl",
	[LAYER_MPI] = "mpi",
};

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
	[COLLECTIVE_SEND_RECEIVE] = "send_receive",
	[COLLECTIVE_SCAN] = "scan",
	[COLLECTIVE_EXCLUSIVE_SCAN] = "exclusive_scan",
	[COLLECTIVE_NEIGHBOR_ALL_GATHER] = "neighbor_all_gather",
	[COLLECTIVE_NEIGHBOR_ALL_TO_ALL] = "neighbor_all_to_all",
	[COLLECTIVE_PUT] = "put",
	[COLLECTIVE_GET] = "get",
	[COLLECTIVE_ACCUMULATE] = "accumulate",
	[COLLECTIVE_GET_ACCUMULATE] = "get_accumulate",
};

static const char *const division_names[] = {
	[DIVISION_NONE] = "", [DIVISION_BEFORE] = "before", [DIVISION_AFTER] = "after"};

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
	const char *name =
		collective->operation < COUNT(operation_names) ? operation_names[collective->operation] : NULL;

	return name ? name : "";
}

const char *collective_kind_name(const struct collective *collective)
{
	return collective->kind < COLLECTIVE_KINDS ? kind_names[collective->kind] : "";
}

const char *collective_mode_name(const struct collective *collective)
{
	return collective->mode < COUNT(mode_names) ? mode_names[collective->mode] : "";
}

/* A program without Python has no phases of training. */
const char *collective_phase_name(const struct collective *collective)
{
	bool has_phase = collective->layer == LAYER_C10D || collective->stack;

	return has_phase ? phase_name((enum phase)collective->phase) : "";
}

const char *collective_layer_name(uint8_t layer)
{
	return layer < LAYERS ? layer_names[layer] : "";
}

bool collective_kind_is_common(uint8_t kind)
{
	switch (kind) {
	case COLLECTIVE_SEND:
	case COLLECTIVE_RECEIVE:
	case COLLECTIVE_SEND_RECEIVE:
	case COLLECTIVE_PUT:
	case COLLECTIVE_GET:
	case COLLECTIVE_ACCUMULATE:
	case COLLECTIVE_GET_ACCUMULATE:
		return false;
	default:
		return true;
	}
}

bool collective_is_common(const struct collective *collective)
{
	return collective_kind_is_common(collective->kind);
}

bool collective_only_gets(const struct collective *collective)
{
	return collective->kind == COLLECTIVE_RECEIVE || collective->kind == COLLECTIVE_GET;
}

bool collective_is_small(const struct collective *collective)
{
	return (collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE) &&
	       collective->input_elements == 1;
}

const char *collective_division_name(const struct collective *collective)
{
	return division_names[collective->division];
}

/* Of a library, what was not known at first may be learnt; c10d's objects know from the start. */
static bool group_fits(const struct group *group, int32_t rank, int32_t size)
{
	if (group->rank == rank && group->size == size)
		return true;
	return group->layer != LAYER_C10D && (group->rank < 0 || rank < 0 || group->rank == rank) &&
	       (group->size < 0 || size < 0 || group->size == size);
}

uint32_t group_find(struct target_state *target, uint8_t layer, uint64_t address, int32_t rank, int32_t size)
{
	struct group group = {.address = address, .layer = layer, .rank = rank, .size = size};
	struct group *groups = target->result.groups;

	/* A new one may get the address of one that is gone: then it is another in size or rank. */
	for (size_t i = arrlenu(groups); i > 0; i--) {
		struct group *known = &groups[i - 1];

		if (known->address != address || known->layer != layer || !group_fits(known, rank, size))
			continue;
		known->rank = rank < 0 ? known->rank : rank;
		known->size = size < 0 ? known->size : size;
		return (uint32_t)(i - 1);
	}
	if (arrlenu(groups) == GROUPS_MAX)
		return GROUPS_MAX - 1;
	arrput(target->result.groups, group);
	return (uint32_t)arrlenu(target->result.groups) - 1;
}

uint64_t collective_bytes(uint64_t elements, uint8_t type, const struct tensor_argument *tensors, uint32_t count)
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
		/* Files of inductor, and what Python makes of other compilers' graphs (torch.fx). */
		if (strstr(stack->frames[i].file, "/torchinductor_") ||
			!strncmp(stack->frames[i].file, "<eval_with_key>", strlen("<eval_with_key>")))
			return MODE_COMPILED;
		if (strstr(stack->frames[i].file, "/torch/distributed/_functional_collectives.py"))
			mode = MODE_FUNCTIONAL;
	}
	return mode;
}

struct collective collective_of(
	struct target_state *target, const struct event *event, uint64_t stack, enum collective_kind kind)
{
	struct collective collective = {
		.time_ns = event->time_ns,
		.thread_id = event->thread_id,
		.kind = (uint8_t)kind,
		.operation = COLLECTIVE_NO_OPERATION,
		.element_type = ELEMENT_UNKNOWN,
		.peer = -1,
		.source = -1,
		.function = FUNCTION_NONE,
		.run = RUN_NONE,
		.step = target->steps,
		.sequence = SEQUENCE_NONE,
		.last_rank = RANK_UNKNOWN,
		.absent_rank = RANK_UNKNOWN,
	};

	collective.stack = stack_find(target, stack);
	collective.phase = (uint8_t)stack_phase(
		&target->stacks[collective.stack], flags_in_thread(target, event, collective.stack));
	collective.mode = (uint8_t)stack_mode(&target->stacks[collective.stack]);
	return collective;
}

int collective_add(struct target_state *target, const struct collective *collective)
{
	if (arrlenu(target->result.collectives) >= INDEX_MAX)
		return -E2BIG;
	arrput(target->result.collectives, *collective);
	return 0;
}

/* The blocks that a collective reads and writes; communication.c goes on with them. */
static void blocks_note(struct target_state *target, const struct collective_event *event,
	const struct tensor_argument *tensors, struct collective *collective)
{
	if (arrlenu(target->collective_allocations) >= INDEX_MAX - UINT16_MAX)
		return;
	collective->blocks = (uint32_t)arrlenu(target->collective_allocations);
	collective->input_blocks = event->input_shown;
	collective->output_blocks = event->tensor_count - event->input_shown;
	for (uint32_t i = 0; i < event->tensor_count; i++)
		arrput(target->collective_allocations, memory_argument(target, &event->event, &tensors[i]));
}

/* Rows for each rank as elements; returns how many are kept: none where they do not add up to the tensor. */
static uint32_t splits_take(struct target_state *target, const uint64_t *rows, uint32_t count, uint64_t elements)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		if (__builtin_add_overflow(sum, rows[i], &sum))
			return 0;
	if (!sum || elements % sum || arrlenu(target->result.splits) >= INDEX_MAX - count)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		arrput(target->result.splits, rows[i] * (elements / sum));
	return count;
}

int collective_begin(struct target_state *target, const struct collective_event *event)
{
	const struct tensor_argument *tensors = (const void *)(event + 1);
	const uint64_t *splits = (const uint64_t *)(tensors + event->tensor_count);
	uint32_t outputs = event->tensor_count - event->input_shown;
	struct thread *thread = thread_find(target, event->event.thread_id);
	struct collective collective;
	int error;

	if (!thread)
		return -ENOMEM;
	if (event->input_shown > event->tensor_count ||
		event->event.size < sizeof(*event) + event->tensor_count * sizeof(*tensors) +
					    ((size_t)event->input_splits + event->output_splits) * sizeof(uint64_t) +
					    event->frame_count * sizeof(struct python_frame))
		return -EINVAL;
	collective = collective_of(target, &event->event, event->stack, event->kind);
	collective.operation = event->operation;
	collective.element_type = event->element_type;
	collective.peer = event->peer;
	collective.in_bucket = event->flags & COLLECTIVE_BUCKET;
	collective.group = group_find(target, LAYER_C10D, event->group, event->rank, event->size);
	collective.input_elements = event->input_elements;
	collective.output_elements = event->output_elements;
	collective.input_bytes =
		collective_bytes(event->input_elements, event->element_type, tensors, event->input_shown);
	collective.output_bytes =
		collective_bytes(event->output_elements, event->element_type, tensors + event->input_shown, outputs);
	collective.input_address = event->input_shown ? tensors[0].data : 0;
	collective.output_address = outputs ? tensors[event->input_shown].data : 0;
	collective.in_place = collective.input_address && collective.input_address == collective.output_address;
	collective.splits = (uint32_t)arrlenu(target->result.splits);
	collective.input_splits = splits_take(target, splits, event->input_splits, event->input_elements);
	collective.output_splits =
		splits_take(target, splits + event->input_splits, event->output_splits, event->output_elements);
	collective.run = operator_note(target, &event->event, event->stack, tensors, event->tensor_count);
	blocks_note(target, event, tensors, &collective);
	error = collective_add(target, &collective);
	thread->collective = error ? NONE : (uint32_t)arrlenu(target->result.collectives) - 1;
	return error;
}

/* Which collective a work is of: that which it was made in. */
static struct collective *work_collective(struct target_state *target, uint64_t work)
{
	ptrdiff_t at = hmgeti(target->works, work);

	return at < 0 ? NULL : &target->result.collectives[target->works[at].value];
}

/* The wait for all buckets of a backward pass begins: for those that were not waited for yet. */
static void buckets_wait(struct target_state *target, uint64_t time_ns)
{
	struct collective *collectives = target->result.collectives;
	size_t index = arrlenu(collectives);

	for (; index > 0 && !(collectives[index - 1].in_bucket && collectives[index - 1].waited_ns); index--)
		if (collectives[index - 1].in_bucket)
			collectives[index - 1].waited_ns = time_ns;
	target->first_bucket = (uint32_t)index;
}

/* They are waited for one after another: where one is done, the wait for the next begins. */
static void buckets_go_on(struct target_state *target, uint64_t time_ns)
{
	struct collective *collectives = target->result.collectives;

	for (size_t i = target->first_bucket; i < arrlenu(collectives); i++)
		if (collectives[i].in_bucket && collectives[i].waited_ns && !collectives[i].finished_ns)
			collectives[i].waited_ns = time_ns;
}

static void work_finish(struct target_state *target, struct collective *collective, uint64_t time_ns)
{
	collective->finished_ns = time_ns;
	target->result.groups[collective->group].tells_end = true;
	if (collective->in_bucket && collective->waited_ns)
		buckets_go_on(target, time_ns);
}

static void work_wait(struct collective *collective, const struct work_event *event)
{
	if (collective->waited_ns)
		return;
	collective->waited_ns = event->event.time_ns;
	if (event->is_functional && collective->mode == MODE_EAGER)
		collective->mode = MODE_FUNCTIONAL;
}

int work_note(struct target_state *target, const struct work_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	struct collective *collective = work_collective(target, event->work);

	if (!thread)
		return -ENOMEM;
	switch (event->action) {
	case WORK_MADE:
		if (thread->collective != NONE)
			hmput(target->works, event->work, thread->collective);
		break;
	case WORK_WAITED:
		if (collective)
			work_wait(collective, event);
		break;
	case WORK_FINISHED:
		if (collective)
			work_finish(target, collective, event->event.time_ns);
		break;
	case WORK_WAIT_BUCKETS:
		buckets_wait(target, event->event.time_ns);
		break;
	default:
		break;
	}
	return 0;
}

uint64_t collective_host_wait(const struct rank *rank, const struct collective *collective)
{
	uint64_t end = collective->finished_ns;

	if (!collective->waited_ns || !rank->groups[collective->group].tells_end)
		return UINT64_MAX;
	if (!end)
		end = rank->last_time_ns;
	return end > collective->waited_ns ? end - collective->waited_ns : 0;
}
