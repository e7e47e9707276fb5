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
#include "report/findings_text.h"
#include "report/report.h"

#define TENSORS_MAX 4
#define COMMAND_BYTES 8
#define ADDRESS_UNIT 0x1000u
#define DEVICE_TYPES_MAX 4 /* device_type_of */

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
	struct device_allocate_event device_allocate;
	struct device_free_event device_free;
	struct device_request_event device_request;
	struct segment_event segment;
	struct out_of_memory_event exhausted;
	struct launch_event launch;
	struct collective_event collective;
	struct library_collective_event library;
	struct work_event work;
	char bytes[sizeof(struct library_collective_event) + TENSORS_MAX * sizeof(struct tensor_argument)];
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

/* One of four devices, the CPU among them. */
static uint8_t device_type_of(const uint8_t *command)
{
	static const uint8_t types[] = {DEVICE_CPU, DEVICE_CUDA, DEVICE_CUDA, DEVICE_PINNED};

	return types[command[4] >> 6];
}

static struct tensor_argument tensor_of(uint8_t address, const uint8_t *command)
{
	return (struct tensor_argument){
		.data = address_of(address),
		.bytes = bytes_of(command[6]),
		.device_type = device_type_of(command),
		.device_index = command[4] >> 6 == 2,
	};
}

static uint32_t put_tensors(void *at, const uint8_t *command)
{
	struct tensor_argument *tensors = at;
	uint32_t count = command[4] % (TENSORS_MAX + 1);

	for (uint32_t i = 0; i < count; i++)
		tensors[i] = tensor_of((uint8_t)(command[5] >> i), command);
	return count;
}

static void put_library_collective(struct library_collective_event *record, const uint8_t *command)
{
	static const uint64_t counts[] = {0, 1, 5, 1ull << 40, COUNT_UNKNOWN - 1, COUNT_UNKNOWN};
	uint64_t *splits = (uint64_t *)(record + 1);

	record->communicator = command[5] & 1;
	record->input = command[5] & 2 ? 1 : address_of(command[4]);
	record->output = command[5] & 4 ? ~0ull : address_of(command[4] >> 3);
	record->input_count = counts[command[6] % 6];
	record->output_count = counts[command[6] / 6 % 6];
	record->rank = (command[7] & 3) - 1;
	record->size = (command[7] >> 2 & 7) - 1;
	record->peer = (command[7] >> 5) - 1;
	record->group = command[3] & 3;
	record->layer = command[4] >> 6;
	record->kind = command[4] % (COLLECTIVE_KINDS + 1);
	record->counting = command[5] >> 2;
	record->flags = command[2] & (LIBRARY_INSIDE | LIBRARY_BY_TORCH);
	record->operation_ = command[6] >> 3;
	record->input_element = command[6];
	record->input_element_bytes = record->output_element_bytes = command[6] & 15;
	record->input_splits = command[3] >> 4 & 3;
	record->output_splits = command[3] >> 6;
	for (int i = 0; i < record->input_splits + record->output_splits; i++)
		splits[i] = counts[(command[6] + i) % 6];
	record->event.size = (uint32_t)(sizeof(*record) +
					(uint64_t)(record->input_splits + record->output_splits) * sizeof(*splits));
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
		record->resize.before = tensor_of(command[5], command);
		record->resize.bytes_after = bytes_of(command[6]);
		record->event.size = sizeof(record->resize);
		break;
	case EVENT_GRADIENT:
		record->gradient.variable = tensor_of(command[5], command);
		record->gradient.gradient = tensor_of(command[7], command);
		record->event.size = sizeof(record->gradient);
		break;
	case EVENT_DEVICE_ALLOCATE:
		record->device_allocate.address = address_of(command[5]);
		record->device_allocate.bytes = bytes_of(command[6]);
		record->device_allocate.stack = command[7] & 7;
		record->device_allocate.allocated = bytes_of(command[7]);
		record->device_allocate.device_type = device_type_of(command);
		record->device_allocate.device_index = command[4] >> 6 == 2;
		record->event.size = sizeof(record->device_allocate);
		break;
	case EVENT_DEVICE_FREE:
		record->device_free.address = address_of(command[5]);
		record->device_free.bytes = bytes_of(command[6]);
		record->device_free.allocated = bytes_of(command[7]);
		record->device_free.device_type = device_type_of(command);
		record->device_free.device_index = command[4] >> 6 == 2;
		record->event.size = sizeof(record->device_free);
		break;
	case EVENT_DEVICE_REQUEST:
		record->device_request.address = address_of(command[5]);
		record->device_request.bytes = bytes_of(command[6]);
		record->device_request.stream = command[7];
		record->device_request.maker = command[4] & 3;
		record->event.size = sizeof(record->device_request);
		break;
	case EVENT_SEGMENT:
		record->segment.address = address_of(command[5]);
		record->segment.bytes = bytes_of(command[6]);
		record->segment.caller = command[7] & 3;
		record->segment.action = command[7] >> 4;
		record->segment.memory = command[7] % 5;
		record->segment.result = command[4] & 7;
		record->segment.pooled = command[4] >> 3 & 1;
		record->segment.device_type = device_type_of(command);
		record->segment.device_index = command[4] & 16 ? SEGMENT_DEVICE_UNKNOWN : command[4] >> 6 == 2;
		record->event.size = sizeof(record->segment);
		break;
	case EVENT_OUT_OF_MEMORY:
		record->exhausted.bytes = bytes_of(command[6]);
		record->exhausted.stack = command[7] & 7;
		record->exhausted.device_type = device_type_of(command);
		record->event.size = sizeof(record->exhausted);
		break;
	case EVENT_LAUNCH:
		record->launch.function = command[5];
		record->event.size = sizeof(record->launch);
		break;
	case EVENT_COLLECTIVE:
		count = put_tensors(record->bytes + sizeof(record->collective), command);
		record->collective.group = command[5] & 3;
		record->collective.rank = command[5] >> 7;
		record->collective.size = command[5] >> 4 & 3;
		record->collective.kind = command[6];
		record->collective.element_type = command[7];
		record->collective.tensor_count = (uint16_t)count;
		record->collective.input_shown = (uint16_t)(count / 2);
		record->event.size = (uint32_t)(sizeof(record->collective) + count * sizeof(struct tensor_argument));
		break;
	case EVENT_WORK:
		record->work.work = command[5] & 7;
		record->work.action = command[6] & 7;
		record->work.is_functional = command[7] & 1;
		record->event.size = sizeof(record->work);
		break;
	case EVENT_LIBRARY_COLLECTIVE:
		put_library_collective(&record->library, command);
		break;
	default:
		record->event.size = sizeof(record->event);
		break;
	}
}

static void send(struct model *model, const uint8_t *command, uint64_t time)
{
	static const uint16_t kinds[] = {EVENT_NONE, EVENT_OPERATOR, EVENT_TENSORS, EVENT_ALLOCATE, EVENT_FREE,
		EVENT_RESIZE, EVENT_GRADIENT, EVENT_THROW, EVENT_DEVICE_ALLOCATE, EVENT_DEVICE_FREE,
		EVENT_DEVICE_REQUEST, EVENT_SEGMENT, EVENT_OUT_OF_MEMORY, EVENT_LAUNCH, EVENT_COLLECTIVE,
		EVENT_LIBRARY_COLLECTIVE, EVENT_WORK};
	union record record;

	memset(&record, 0, sizeof(record));
	record.event.time_ns = time;
	record.event.kind = kinds[command[0] % (sizeof(kinds) / sizeof(kinds[0]))];
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

static void check_devices(const struct rank *rank)
{
	uint64_t peak = 0;

	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		const struct device *device = &rank->devices[i];

		require(i == 0 || strcmp(rank->devices[i - 1].name, device->name) < 0);
		require(device->reported || !device->peak_bytes);
		require(device->has_totals || device->peak.total == device->peak_bytes);
		require(device->has_totals || device->current.total <= device->peak_bytes);
		require(device->peak.total >= device->peak_bytes);
		peak += device->peak_bytes;
	}
	require(peak == rank->peak_bytes);
}

/* Those that are held do not overlap, and the devices' totals are their sums. */
/* Bytes of addresses that it takes: a handle is no address, but no other's either. */
static uint64_t segment_extent(const struct segment *segment)
{
	bool handle = segment->memory == SEGMENT_ARRAY || (segment->memory == SEGMENT_IMPORTED && !segment->mapped);

	return handle ? 1 : segment->bytes;
}

static void check_segments(const struct rank *rank)
{
	uint64_t held[DEVICE_TYPES_MAX] = {0};

	for (size_t i = 0; i < arrlenu(rank->segments); i++) {
		const struct segment *segment = &rank->segments[i];

		require(segment->device == UINT8_MAX || segment->device < arrlenu(rank->devices));
		if (segment->end_time_ns != UINT64_MAX)
			continue;
		if (segment->device != UINT8_MAX && segment->memory != SEGMENT_IMPORTED)
			held[segment->device] += segment->bytes;
		for (size_t j = 0; segment->address && j < i; j++) {
			const struct segment *other = &rank->segments[j];

			require(other->end_time_ns != UINT64_MAX || !other->address ||
				other->address - segment->address >= segment_extent(segment));
			require(other->end_time_ns != UINT64_MAX || !other->address ||
				segment->address - other->address >= segment_extent(other));
		}
	}
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		require(held[i] == rank->devices[i].segment_bytes);
		require(held[i] <= rank->devices[i].segment_peak_bytes);
		require(rank->devices[i].outside_bytes <= rank->devices[i].segment_bytes);
	}
	require(arrlenu(rank->failures) <= rank->segment_failures);
	for (size_t i = 0; i < arrlenu(rank->out_of_memories); i++)
		require(rank->out_of_memories[i].device < arrlenu(rank->devices) &&
			rank->out_of_memories[i].stack < arrlenu(rank->stacks));
}

static void check_rank(const struct rank *rank)
{
	uint64_t peak[DEVICE_TYPES_MAX] = {0}, live_at_peak[DEVICE_TYPES_MAX] = {0};
	int64_t task = 0, start = 0;

	check_devices(rank);
	check_segments(rank);
	require(arrlenu(rank->devices) <= DEVICE_TYPES_MAX);

	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			require(rank->runs[i].task == task++);
	require(task == rank->task_count);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];

		check_block(rank, block);
		require(block->device < arrlenu(rank->devices) && rank->devices[block->device].reported);
		require(block->start >= start && block->used_bytes <= block->peak_bytes);
		require(block->peak_bytes >= peak[block->device]);
		start = block->start;
		peak[block->device] = block->peak_bytes;
		if (block_alive_at(block, rank->devices[block->device].peak_order))
			live_at_peak[block->device] += block->bytes;
	}
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		require(peak[i] <= rank->devices[i].peak_bytes);
		require(rank->devices[i].has_totals || live_at_peak[i] <= rank->devices[i].peak_bytes);
	}
	for (size_t i = 0; i < arrlenu(rank->collectives); i++) {
		const struct collective *collective = &rank->collectives[i];

		require(collective->group < arrlenu(rank->groups) && collective->stack < arrlenu(rank->stacks));
		require(collective->wait_ns <= collective->skew_ns);
		require(!collective->folded);
		require((uint64_t)collective->splits + collective->input_splits + collective->output_splits <=
			arrlenu(rank->splits));
	}
	for (size_t i = 0; i < arrlenu(rank->externals); i++)
		require(rank->externals[i].uses > 0 && rank->externals[i].first_run < arrlenu(rank->runs));
}

/* Whatever happened: what they save is no more than there is, and the same again. */
static void check_findings(const struct model *model)
{
	const struct finding_options options = {.device_bytes = 1 << 20};
	const struct rank **ranks = NULL;
	struct finding *findings;
	FILE *nowhere = fopen("/dev/null", "w");

	for (size_t i = 0; i < model_rank_count(model); i++)
		arrput(ranks, model_rank(model, i));
	findings = findings_find(ranks, arrlenu(ranks), &options);
	for (size_t i = 0; i < arrlenu(findings); i++)
		require(!findings[i].device || findings[i].saves_bytes == SAVES_UNKNOWN ||
			findings[i].device->has_totals || findings[i].saves_bytes <= findings[i].device->peak_bytes);
	require(nowhere && findings_write(nowhere, findings) == 0);
	findings_free(findings);
	arrfree(ranks);
	fclose(nowhere);
}

/* Of the operators by index; the rest have none. */
static const uint32_t FLAGS_OF[8] = {[3] = OPERATOR_LIFT, [4] = OPERATOR_RANGE_BEGIN, [5] = OPERATOR_RANGE_END};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_options options = {.all_blocks = size && data[0] & 1, .devices.all = size && data[0] & 8};
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
	check_findings(model);
	for (size_t i = 0; i < model_rank_count(model); i++) {
		check_rank(model_rank(model, i));
		require(report_summary(model_rank(model, i), NULL, nowhere) == 0);
	}
	fclose(nowhere);
	model_free(model);
	return 0;
}
