/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any order of well-formed records: the model must finish, and what it says must
 * hold together. Each input byte string is read as a list of small commands, so
 * that addresses, threads and depths meet often.
 */
#include <stdlib.h>
#include <string.h>

#include <hdtrace/capture.h>

#include "containers/containers.h"
#include "model/model.h"
#include "report/report.h"

#define TENSORS_MAX 4
#define COMMAND_BYTES 8
#define ADDRESS_UNIT 0x1000u

static const struct frame FRAMES[] = {
	{"/w/job.py", "<module>", 1, 1},
	{"/x/torch/autograd/__init__.py", "backward", 2, 2},
	{"/x/torch/utils/checkpoint.py", "backward", 3, 3},
	{"/x/torch/optim/optimizer.py", "wrapper", 4, 4},
	{"/x/torch/optim/adam.py", "step", 5, 5},
};

union record {
	struct event event;
	struct operator_event operator_;
	struct tensors_event tensors;
	struct allocate_event allocate;
	struct free_event free;
	struct resize_event resize;
	struct gradient_event gradient;
	char bytes[sizeof(struct operator_event) + TENSORS_MAX * sizeof(struct tensor_argument)];
};

static void require(bool truth)
{
	if (!truth)
		abort();
}

static uint64_t address_of(uint8_t byte)
{
	return (uint64_t)(byte & 7) * ADDRESS_UNIT;
}

static uint64_t bytes_of(uint8_t byte)
{
	return byte & 0x80 ? (uint64_t)(byte & 0x7f) << 16 : byte;
}

static uint32_t put_tensors(void *at, const uint8_t *command)
{
	struct tensor_argument *tensors = at;
	uint32_t count = command[4] % (TENSORS_MAX + 1);

	for (uint32_t i = 0; i < count; i++)
		tensors[i] = (struct tensor_argument){address_of((uint8_t)(command[5] >> i)), bytes_of(command[6])};
	return count;
}

static void put_payload(union record *record, const uint8_t *command)
{
	uint32_t count = 0;

	switch (record->event.kind) {
	case EVENT_OPERATOR:
		count = put_tensors(record->bytes + sizeof(record->operator_), command);
		record->operator_.stack = command[7] & 7;
		record->operator_.hook = command[7] >> 7;
		record->operator_.tensor_count = (uint16_t)count;
		record->event.size = (uint32_t)(sizeof(record->operator_) + count * sizeof(struct tensor_argument));
		break;
	case EVENT_TENSORS:
		count = put_tensors(record->bytes + sizeof(record->tensors), command);
		record->tensors.tensor_count = (uint16_t)count;
		record->event.size = (uint32_t)(sizeof(record->tensors) + count * sizeof(struct tensor_argument));
		break;
	case EVENT_ALLOCATE:
		record->allocate.address = address_of(command[5]);
		record->allocate.bytes = bytes_of(command[6]);
		record->allocate.stack = command[7] & 7;
		record->event.size = sizeof(record->allocate);
		break;
	case EVENT_FREE:
		record->free.address = address_of(command[5]);
		record->event.size = sizeof(record->free);
		break;
	case EVENT_RESIZE:
		record->resize.address = address_of(command[5]);
		record->resize.before.bytes = bytes_of(command[4]);
		record->resize.bytes_after = bytes_of(command[6]);
		record->event.size = sizeof(record->resize);
		break;
	case EVENT_GRADIENT:
		record->gradient.variable = (struct tensor_argument){address_of(command[5]), bytes_of(command[6])};
		record->gradient.gradient = (struct tensor_argument){address_of(command[7]), bytes_of(command[6])};
		record->event.size = sizeof(record->gradient);
		break;
	default:
		record->event.size = sizeof(record->event);
		break;
	}
}

static void send(struct model *model, const uint8_t *command, uint64_t time)
{
	union record record;

	memset(&record, 0, sizeof(record));
	record.event.time_ns = time;
	record.event.kind = command[0] % (EVENT_GRADIENT + 2);
	if (record.event.kind == EVENT_GRADIENT + 1)
		record.event.kind = EVENT_THROW;
	/* The ends of a target are rare: everything after them counts for nothing. */
	if (command[0] >= 250)
		record.event.kind = (uint16_t)(EVENT_FINALIZE + command[0] % 3);
	record.event.target = command[1] >> 7;
	record.event.thread_id = command[1] & 3;
	record.event.depth = command[2] & 0x80 ? command[2] : command[2] & 3;
	record.event.operator_ = command[2] >> 4 & 7;
	record.event.flags = command[3];
	put_payload(&record, command);
	if (record.event.kind == EVENT_NONE)
		model_stack(model, record.event.target, command[4] & 7, FRAMES + command[5] % 5,
			command[6] % (6 - command[5] % 5), command[7] & 1);
	require(model_event(model, &record.event) == 0);
}

static void check_block(const struct rank *rank, const struct block *block)
{
	int64_t previous = block->start;

	require(block->start >= 0 && block->end > block->start);
	require(block->persistent == (block->end == TASK_PERSISTENT));
	require(block->persistent || block->end <= rank->task_count);
	require(block->bytes > 0);
	require(block->producer < arrlenu(rank->runs) && rank->runs[block->producer].task == block->start);
	require(block->stack < arrlenu(rank->stacks) && block->name < arrlenu(rank->operator_names));
	require(block->start_plot > 0 && block->start_plot < PLOT_UNIT);
	require((block->end_plot == PLOT_NONE) == block->persistent);
	for (uint32_t i = 0; i < block->user_count; i++) {
		int64_t user = rank->users[block->first_user + i];

		require(user > previous && user <= block->end);
		previous = user;
	}
}

static void check_rank(const struct rank *rank)
{
	uint64_t peak = 0, live_at_peak = 0;
	int64_t task = 0, start = 0;

	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			require(rank->runs[i].task == task++);
	require(task == rank->task_count);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];

		check_block(rank, block);
		require(block->start >= start && block->peak_bytes >= peak && block->used_bytes <= block->peak_bytes);
		start = block->start;
		peak = block->peak_bytes;
		if (block_alive_at(block, rank->devices[0].peak_order))
			live_at_peak += block->bytes;
	}
	require(peak <= rank->peak_bytes && live_at_peak <= rank->peak_bytes);
	require(rank->devices[0].peak.total == rank->peak_bytes && rank->devices[0].current.total <= rank->peak_bytes);
	for (size_t i = 0; i < arrlenu(rank->externals); i++)
		require(rank->externals[i].uses > 0 && rank->externals[i].first_run < arrlenu(rank->runs));
}

/* Of the operators by index; the rest have none. */
static const uint32_t FLAGS_OF[8] = {[3] = OPERATOR_LIFT, [4] = OPERATOR_RANGE_BEGIN, [5] = OPERATOR_RANGE_END};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_options options = {.all_blocks = size && data[0] & 1};
	struct model *model = model_new(&options);
	FILE *nowhere = fopen("/dev/null", "w");

	require(model && nowhere);
	model_target(model, 0, 0, size && data[0] & 2, "{}");
	model_target(model, 1, 1, size && data[0] & 4, NULL);
	for (uint16_t i = 0; i < 7; i++)
		model_operator_name(model, 0, i, "aten.any.default", FLAGS_OF[i]);
	for (size_t at = 1; at + COMMAND_BYTES <= size; at += COMMAND_BYTES)
		send(model, data + at, at);
	require(model_finish(model) == 0);
	for (size_t i = 0; i < model_rank_count(model); i++) {
		check_rank(model_rank(model, i));
		require(report_summary(model_rank(model, i), nowhere) == 0);
	}
	fclose(nowhere);
	model_free(model);
	return 0;
}
