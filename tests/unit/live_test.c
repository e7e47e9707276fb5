/* SPDX-License-Identifier: BSD-2-Clause */
/* Live accounting on hand-made records, which come by a writer without a file, as in a recording. */
#include <criterion/criterion.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "live/live.h"
#include "model/model.h"
#include "replay/replay.h"
#include "stream/capture_writer.h"

#define CUDA(number) DEVICE_CUDA, number
#define NO_STACK 0
#define SECOND 1000000000ull

static struct live *live;
static struct capture_writer *writer;
static uint64_t now;
static uint32_t thread;

static void observe(void *context, const struct event *record)
{
	(void)context;
	live_take(live, record);
}

static void begin_with(const struct live_limits *limits)
{
	live_free(live);
	capture_writer_close(writer);
	live = live_new(limits);
	cr_assert_eq(capture_writer_fileless(&writer), 0);
	cr_assert_eq(capture_writer_observe(writer, observe, NULL), 0);
	now = SECOND;
	thread = 1;
}

static void begin(void)
{
	begin_with(NULL);
}

static void end(void)
{
	live_free(live);
	capture_writer_close(writer);
	live = NULL;
	writer = NULL;
}

TestSuite(live, .init = begin, .fini = end);

static void target(uint16_t index, const char *json)
{
	cr_assert_eq(capture_writer_text(writer, CAPTURE_TARGET, index, json), 0);
}

static const struct live_rank *rank_at(size_t index)
{
	live_refresh(live);
	return live_rank_at(live, index);
}

static const struct live_device *device_at(size_t rank, const char *name)
{
	const struct live_rank *found = rank_at(rank);

	for (size_t i = 0; found && i < found->device_count; i++)
		if (!strcmp(found->devices[i].name, name))
			return &found->devices[i];
	return NULL;
}

/* --- records ------------------------------------------------------------------------ */

static struct event event_of(uint16_t index, uint16_t kind, size_t size, uint8_t depth)
{
	return (struct event){
		.time_ns = now += 10,
		.size = (uint32_t)size,
		.thread_id = thread,
		.kind = kind,
		.target = index,
		.depth = depth,
		.flags = EVENT_UNGUARDED,
	};
}

static void keep(const struct event *record)
{
	cr_assert_eq(capture_writer_append(writer, record), 0);
}

static void allocate(uint16_t index, uint8_t depth, uint64_t address, uint64_t bytes)
{
	struct allocate_event event = {.address = address, .bytes = bytes};

	event.event = event_of(index, EVENT_ALLOCATE, sizeof(event), depth);
	keep(&event.event);
}

static void release(uint16_t index, uint8_t depth, uint64_t address)
{
	struct free_event event = {.address = address};

	event.event = event_of(index, EVENT_FREE, sizeof(event), depth);
	keep(&event.event);
}

/* What the allocator of a device says: the block, then its totals. */
static void device_event(
	uint16_t kind, uint8_t depth, uint64_t address, uint64_t bytes, uint64_t allocated, uint64_t reserved)
{
	struct device_allocate_event made = {.address = address,
		.bytes = bytes,
		.allocated = allocated,
		.reserved = reserved,
		.device_type = DEVICE_CUDA};
	struct device_free_event freed = {.address = address,
		.bytes = bytes,
		.allocated = allocated,
		.reserved = reserved,
		.device_type = DEVICE_CUDA};

	made.event = freed.event = event_of(0, kind, kind == EVENT_DEVICE_FREE ? sizeof(freed) : sizeof(made), depth);
	keep(kind == EVENT_DEVICE_FREE ? &freed.event : &made.event);
}

/* An operator with up to four arguments, as {type, index, address, bytes}; `codes` are its frames, innermost first. */
static void operator_on(uint16_t index, uint8_t depth, uint16_t name, uint64_t stack, const uint64_t *codes,
	const struct tensor_argument *tensors, uint16_t count)
{
	struct {
		struct operator_event head;
		char rest[4 * sizeof(struct tensor_argument) + 8 * sizeof(struct python_frame)];
	} record = {0};
	struct python_frame *frames = (void *)(record.rest + count * sizeof(*tensors));

	if (count)
		memcpy(record.rest, tensors, count * sizeof(*tensors));
	for (; codes && codes[record.head.frame_count]; record.head.frame_count++)
		frames[record.head.frame_count] = (struct python_frame){
			.code = codes[record.head.frame_count], .instruction = codes[record.head.frame_count] + 2};
	record.head.tensor_count = count;
	record.head.stack = stack;
	record.head.hook = HOOK_REDISPATCH;
	record.head.event = event_of(index, EVENT_OPERATOR,
		sizeof(record.head) + count * sizeof(*tensors) + record.head.frame_count * sizeof(*frames), depth);
	record.head.event.operator_ = name;
	record.head.event.flags |= codes ? EVENT_STACK : 0;
	keep(&record.head.event);
}

static void operator_plain(uint16_t index, uint64_t stack)
{
	operator_on(index, 0, 1, stack, NULL, NULL, 0);
}

enum { CODE_MAIN = 0x1000, CODE_MODEL = 0x2000, CODE_STEP = 0x3000, CODE_WRAPPER = 0x4000, CODE_BACKWARD = 0x5000 };

static void code(uint16_t index, uint64_t address, const char *file, const char *name, uint32_t line)
{
	/* One entry for ten instructions, without a change of the line (CPython's Objects/locations.md, code 13). */
	static const uint8_t table[] = {0x80 | 13 << 3 | 7, 0};
	struct capture_code kept = {
		.code = address,
		.first_instruction = address,
		.first_line = line,
		.table_format = 311,
		.file = file,
		.name = name,
		.qualified_name = name,
		.table = table,
		.table_length = sizeof(table),
	};

	cr_assert_eq(capture_writer_code(writer, index, &kept), 0);
}

/* Stacks of a program: forward in a model, an optimizer's step, a backward pass. */
#define STACK_FORWARD (1ull << 32) /* the upper half says where a thread remembers it */
#define STACK_STEP (2ull << 32)
#define STACK_BACKWARD (3ull << 32)
#define STACK_HOOK (4ull << 32)

static const uint64_t FORWARD[] = {CODE_MODEL, CODE_MAIN, 0}, STEP[] = {CODE_STEP, CODE_WRAPPER, CODE_MAIN, 0},
		      BACKWARD[] = {CODE_BACKWARD, CODE_MAIN, 0};

static void program(uint16_t index)
{
	code(index, CODE_MAIN, "/job.py", "<module>", 5);
	code(index, CODE_MODEL, "/model.py", "forward", 12);
	code(index, CODE_STEP, "/lib/torch/optim/sgd.py", "step", 70);
	code(index, CODE_WRAPPER, "/lib/torch/optim/optimizer.py", "wrapper", 300);
	code(index, CODE_BACKWARD, "/lib/torch/autograd/__init__.py", "backward", 200);
}

static void owner(uint16_t index, enum owner_kind kind, uint64_t address, uint64_t bytes, const char *name)
{
	struct tensor_argument storage = {.data = address, .bytes = bytes};

	cr_assert_eq(capture_writer_owner(writer, index, now, kind, &storage, 0, name), 0);
}

static void collective(uint16_t index, int32_t rank, int32_t size, uint64_t time_ns)
{
	struct collective_event event = {.group = 0x77,
		.rank = rank,
		.size = size,
		.kind = COLLECTIVE_ALL_REDUCE,
		.element_type = 6, /* float32 */
		.input_elements = 100,
		.output_elements = 100};

	event.event = event_of(index, EVENT_COLLECTIVE, sizeof(event), 0);
	event.event.time_ns = time_ns;
	keep(&event.event);
}

/* --- devices -------------------------------------------------------------------------- */

Test(live, totals_of_a_device_are_those_that_its_allocator_tells)
{
	const struct live_device *device;

	target(0, "{\"rank\": 3, \"pid\": 77, \"command\": \"python job.py\", \"from_start\": false}");
	device_event(EVENT_DEVICE_ALLOCATE, 0, 0x1000, 512, 1512, 4096);
	device_event(EVENT_DEVICE_ALLOCATE, 0, 0x2000, 1024, 2536, 8192);
	device_event(EVENT_DEVICE_FREE, 0, 0x1000, 512, 2024, 4096);
	live_device_size(live, 0, CUDA(0), 10000);
	device = device_at(0, "cuda:0");
	cr_assert_not_null(device);
	cr_expect(device->has_totals);
	cr_expect_eq(device->bytes, 2024);
	cr_expect_eq(device->peak_bytes, 2536);
	cr_expect_eq(device->reserved_bytes, 4096);
	cr_expect_eq(device->reserved_peak_bytes, 8192);
	cr_expect_eq(live_headroom(device), 10000 - 4096);
	cr_expect_eq(device->blocks, 1);
	cr_expect_eq(device->allocations, 2);
	cr_expect_eq(device->freed_bytes, 512);
	/* What is older than the trace is of no known category. */
	cr_expect_eq(device->category_bytes[CATEGORIES], 1000);
	cr_expect_eq(live_rank_at(live, 0)->rank, 3);
	cr_expect_eq(live_rank_at(live, 0)->pid, 77);
	cr_expect_str_eq(live_rank_at(live, 0)->command, "python job.py");
}

Test(live, memory_of_the_host_is_the_sum_of_its_blocks)
{
	const struct live_device *cpu;

	target(0, "{\"from_start\": true}");
	allocate(0, 0, 0x1000, 100);
	allocate(0, 0, 0x2000, 50);
	allocate(0, 0, 0x1000, 70); /* its free was lost */
	release(0, 0, 0x2000);
	release(0, 0, 0x9000); /* never seen */
	cpu = device_at(0, "cpu");
	cr_expect_eq(cpu->bytes, 70);
	cr_expect_eq(cpu->peak_bytes, 150);
	cr_expect_eq(cpu->blocks, 1);
	cr_expect_not(cpu->has_totals);
	cr_expect_eq(live_headroom(cpu), LIVE_UNKNOWN);
}

Test(live, exhausted_memory_is_counted)
{
	struct out_of_memory_event event = {.bytes = 1 << 20, .device_type = DEVICE_CUDA, .device_index = 1};

	target(0, "{}");
	event.event = event_of(0, EVENT_OUT_OF_MEMORY, sizeof(event), 0);
	keep(&event.event);
	keep(&event.event);
	cr_expect_eq(device_at(0, "cuda:1")->out_of_memories, 2);
	cr_expect_eq(device_at(0, "cuda:1")->out_of_memory_bytes, 1 << 20);
}

Test(live, segments_of_drivers_are_counted_while_they_are_held)
{
	struct segment_event event = {
		.address = 0x100000, .bytes = 2 << 20, .device_type = DEVICE_CUDA, .result = SEGMENT_RETURNED};

	target(0, "{}");
	event.action = SEGMENT_ALLOCATE;
	event.event = event_of(0, EVENT_SEGMENT, sizeof(event), 0);
	keep(&event.event);
	event.address = 0x900000;
	event.result = SEGMENT_REFUSED;
	keep(&event.event);
	cr_expect_eq(device_at(0, "cuda:0")->segments, 1);
	cr_expect_eq(device_at(0, "cuda:0")->segment_bytes, 2 << 20);
	event.address = 0x100000;
	event.action = SEGMENT_FREE;
	keep(&event.event);
	cr_expect_eq(device_at(0, "cuda:0")->segments, 1, "a refused free gave something back");
	event.result = SEGMENT_TAKEN;
	keep(&event.event);
	cr_expect_eq(device_at(0, "cuda:0")->segments, 0);
	cr_expect_eq(device_at(0, "cuda:0")->segment_bytes, 0);
}

/* --- a host that is not always followed ------------------------------------------------------ */

/* A step of an optimizer: what ends a step of the job. */
static void step(uint16_t index)
{
	operator_on(index, 0, 1, STACK_STEP, STEP, NULL, 0);
	operator_on(index, 0, 1, STACK_FORWARD, FORWARD, NULL, 0);
}

Test(live, what_a_host_holds_is_right_again_after_it_was_not_followed)
{
	const struct live_device *cpu;

	target(0, "{\"from_start\": true}");
	program(0);
	operator_on(0, 0, 1, STACK_FORWARD, FORWARD, NULL, 0);
	allocate(0, 0, 0x1000, 100); /* a parameter */
	owner(0, OWNER_PARAMETER, 0x1000, 100, "Model.weight");
	allocate(0, 0, 0x2000, 40); /* of the native side: older than a step */
	allocate(0, 0, 0x3000, 70); /* a batch that a variable holds */
	owner(0, OWNER_VARIABLE, 0x3000, 70, "job.py:batch");
	for (int i = 0; i < 3; i++)
		step(0);
	allocate(0, 0, 0x4000, 1000); /* of the step that goes on */
	cr_assert_geq(rank_at(0)->steps, 2);
	cpu = device_at(0, "cpu");
	cr_assert_eq(cpu->bytes, 1210);
	live_host_away(live, 0, now += 10);
	cr_expect(rank_at(0)->host_away);
	/* Meanwhile the step's block and the batch end, a new one comes, and a tensor is kept. */
	owner(0, OWNER_VARIABLE, 0x6000, 5000, "job.py:seen_while_away");
	allocate(0, 0, 0xa000, 300);
	release(0, 0, 0x1000);
	live_host_back(live, 0, now += 1000);
	allocate(0, 0, 0x7000, 9);
	owner(0, OWNER_PARAMETER, 0x1000, 100, "Model.weight");
	owner(0, OWNER_VARIABLE, 0x5000, 80, "job.py:batch");
	owner(0, OWNER_VARIABLE, 0x8000, 600, "job.py:kept");
	release(0, 0, 0x7000);
	now += 10;
	live_host_settled(live, 0, now, true);
	cpu = device_at(0, "cpu");
	cr_expect_eq(cpu->bytes, 100 + 40 + 80 + 600, "%llu", (unsigned long long)cpu->bytes);
	cr_expect_eq(cpu->blocks, 4);
	cr_expect_eq(cpu->peak_bytes, 1210, "a sum of what was not there at one time is no peak");
	cr_expect_not(rank_at(0)->host_away);
	cr_expect_eq(rank_at(0)->host_away_ns, 1050);
	allocate(0, 0, 0x9000, 2000);
	cr_expect_eq(device_at(0, "cpu")->peak_bytes, 2820);
}

Test(live, a_host_of_which_not_all_was_told_keeps_what_it_had)
{
	target(0, "{\"from_start\": false}");
	allocate(0, 0, 0x1000, 100);
	owner(0, OWNER_VARIABLE, 0x1000, 100, "job.py:held");
	live_host_away(live, 0, now += 10);
	live_host_back(live, 0, now += 10);
	live_host_settled(live, 0, now += 10, false);
	cr_expect_eq(device_at(0, "cpu")->bytes, 100);
	/* Out of turn: nothing happens. */
	live_host_settled(live, 0, now += 10, true);
	live_host_back(live, 0, now += 10);
	live_host_away(live, 9, now);
	cr_expect_eq(device_at(0, "cpu")->bytes, 100);
}

Test(live, an_address_that_another_block_has_after_a_pause_is_that_one)
{
	target(0, "{}");
	allocate(0, 0, 0x1000, 100);
	owner(0, OWNER_VARIABLE, 0x1000, 100, "job.py:old");
	live_host_away(live, 0, now += 10);
	live_host_back(live, 0, now += 10);
	owner(0, OWNER_PARAMETER, 0x1000, 64, "Model.weight");
	live_host_settled(live, 0, now += 10, true);
	cr_expect_eq(device_at(0, "cpu")->bytes, 64);
	cr_expect_eq(device_at(0, "cpu")->category_bytes[CATEGORY_PARAMETER], 64);
}

Test(live, memory_of_devices_is_followed_while_that_of_the_host_is_not)
{
	target(0, "{}");
	live_host_away(live, 0, now += 10);
	device_event(EVENT_DEVICE_ALLOCATE, 0, 0x1000, 512, 512, 4096);
	device_event(EVENT_DEVICE_ALLOCATE, 0, 0x2000, 512, 1024, 4096);
	device_event(EVENT_DEVICE_FREE, 0, 0x2000, 512, 512, 4096);
	live_host_back(live, 0, now += 10);
	live_host_settled(live, 0, now += 10, true);
	cr_expect_eq(device_at(0, "cuda:0")->peak_bytes, 1024);
	cr_expect_eq(device_at(0, "cuda:0")->bytes, 512);
}

/* --- what blocks are ---------------------------------------------------------------------- */

Test(live, blocks_have_phase_category_and_line_of_the_operator_that_made_them)
{
	const struct live_device *cpu;
	struct live_place places[4];

	target(0, "{\"from_start\": true}");
	program(0);
	operator_on(0, 0, 1, STACK_FORWARD, FORWARD, NULL, 0);
	allocate(0, 1, 0x1000, 100);
	operator_on(0, 0, 1, STACK_BACKWARD, BACKWARD, NULL, 0);
	allocate(0, 1, 0x2000, 30);
	operator_on(0, 0, 1, STACK_STEP, STEP, NULL, 0);
	allocate(0, 1, 0x3000, 7);
	/* Known from before: without its frames. */
	operator_plain(0, STACK_FORWARD);
	operator_on(0, 1, 2, NO_STACK, NULL, NULL, 0);
	allocate(0, 2, 0x4000, 1000);
	cpu = device_at(0, "cpu");
	cr_expect_eq(cpu->category_bytes[CATEGORY_ACTIVATION], 1100);
	cr_expect_eq(cpu->category_bytes[CATEGORY_TEMP], 30);
	cr_expect_eq(cpu->category_bytes[CATEGORY_OPTSTATE], 7);
	cr_expect_eq(cpu->category_bytes[CATEGORIES], 0);
	cr_expect_eq(cpu->phase_bytes[PHASE_FORWARD], 1100);
	cr_expect_eq(cpu->phase_bytes[PHASE_OPTIMIZER], 7);
	cr_assert_eq(live_top(live, 0, LIVE_LINES, places, 4), 3);
	cr_expect_str_eq(places[0].name, "/model.py:12");
	cr_expect_eq(places[0].bytes, 1100);
	cr_expect_eq(places[0].blocks, 2);
	cr_expect_str_eq(places[2].name, "/lib/torch/optim/sgd.py:70");
	cr_assert_eq(live_top(live, 0, LIVE_LINES, places, 1), 1);
	cr_expect_str_eq(places[0].name, "/model.py:12");
	cr_expect_str_eq(live_rank_at(live, 0)->line, "/model.py:12");
	cr_expect_eq(live_rank_at(live, 0)->phase, PHASE_FORWARD);
}

Test(live, what_python_holds_counts_more_and_has_a_module)
{
	const struct live_device *cpu;
	struct live_place places[4];

	target(0, "{\"from_start\": false, \"level\": \"lite\"}");
	allocate(0, 0, 0x1000, 100);
	allocate(0, 0, 0x2000, 60);
	owner(0, OWNER_NONE, 0, 0, "");
	owner(0, OWNER_PARAMETER, 0x1000, 100, "Model.layers.1.weight");
	owner(0, OWNER_OPTIMIZER, 0x3000, 200, "Adam.exp_avg(Model.layers.1.weight)"); /* older than the trace */
	owner(0, OWNER_VARIABLE, 0x1000, 100, "w");                                    /* a parameter stays one */
	owner(0, OWNER_BUFFER, 0x2000, 61, "Model.mask"); /* more than there is: another block was meant */
	cpu = device_at(0, "cpu");
	cr_expect_eq(cpu->bytes, 360);
	cr_expect_eq(cpu->category_bytes[CATEGORY_PARAMETER], 100);
	cr_expect_eq(cpu->category_bytes[CATEGORY_OPTSTATE], 200);
	cr_expect_eq(cpu->category_bytes[CATEGORIES], 60, "lite does not know of what Python does not hold");
	cr_assert_eq(live_top(live, 0, LIVE_MODULES, places, 4), 1);
	cr_expect_str_eq(places[0].name, "Model.layers.1");
	cr_expect_eq(places[0].bytes, 300);
	cr_expect_eq(cpu->idle_bytes, LIVE_UNKNOWN);
	cr_expect(live_rank_at(live, 0)->owners_told);
	release(0, 0, 0x1000);
	cr_expect_eq(device_at(0, "cpu")->category_bytes[CATEGORY_PARAMETER], 0);
}

Test(live, what_shows_up_late_is_not_taken_for_older_than_the_trace)
{
	struct tensor_argument shared = {.data = 0x7000, .bytes = 4096};

	target(0, "{\"from_start\": false}");
	now = live_rank_at(live, 0)->start_time_ns;
	operator_on(0, 0, 1, NO_STACK, NULL, &shared, 1);
	cr_expect_eq(device_at(0, "cpu")->bytes, 4096);
	now += 120 * SECOND;
	for (int batch = 1; batch < 100; batch++) {
		shared.data = 0x7000 + (uint64_t)batch * 0x1000;
		operator_on(0, 0, 1, NO_STACK, NULL, &shared, 1);
	}
	cr_expect_eq(device_at(0, "cpu")->bytes, 4096);
}

Test(live, gradients_and_the_leaves_they_are_for_are_known)
{
	struct gradient_event event = {
		.variable = {.data = 0x1000, .bytes = 100}, .gradient = {.data = 0x2000, .bytes = 100}};
	struct tensor_argument incoming = {.data = 0x2000, .bytes = 100};

	target(0, "{\"from_start\": true}");
	allocate(0, 0, 0x1000, 100);
	allocate(0, 0, 0x2000, 100);
	event.event = event_of(0, EVENT_GRADIENT, sizeof(event), 0);
	keep(&event.event);
	operator_on(0, 0, 1, NO_STACK, NULL, &incoming, 1); /* a copy of it is what is stored */
	allocate(0, 1, 0x3000, 100);
	release(0, 1, 0x2000);
	cr_expect_eq(device_at(0, "cpu")->category_bytes[CATEGORY_PARAMETER], 100);
	cr_expect_eq(device_at(0, "cpu")->category_bytes[CATEGORY_GRADIENT], 100);
	cr_expect(live_rank_at(live, 0)->is_rank);
}

Test(live, what_a_hook_makes_of_a_gradient_is_none)
{
	static const uint64_t hook[] = {CODE_MODEL, CODE_BACKWARD, CODE_MAIN, 0};
	struct gradient_event event = {
		.variable = {.data = 0x1000, .bytes = 100}, .gradient = {.data = 0x2000, .bytes = 100}};
	struct tensor_argument incoming = {.data = 0x2000, .bytes = 100};

	target(0, "{\"from_start\": true}");
	program(0);
	allocate(0, 0, 0x1000, 100);
	allocate(0, 0, 0x2000, 100);
	event.event = event_of(0, EVENT_GRADIENT, sizeof(event), 0);
	keep(&event.event);
	operator_on(0, 0, 1, STACK_HOOK, hook, &incoming, 1);
	allocate(0, 1, 0x3000, 40);
	cr_expect_eq(device_at(0, "cpu")->category_bytes[CATEGORY_GRADIENT], 100);
	cr_expect_eq(device_at(0, "cpu")->category_bytes[CATEGORY_TEMP], 40);
}

Test(live, blocks_that_no_operator_uses_for_a_step_are_idle)
{
	struct tensor_argument used = {.data = 0x1000, .bytes = 100};

	target(0, "{\"from_start\": true}");
	program(0);
	operator_on(0, 0, 1, STACK_FORWARD, FORWARD, NULL, 0);
	allocate(0, 1, 0x1000, 100);
	allocate(0, 1, 0x2000, 40);
	for (int step = 0; step < 4; step++) {
		operator_on(0, 0, 1, STACK_FORWARD, FORWARD, &used, 1);
		operator_on(0, 0, 1, STACK_STEP, STEP, NULL, 0);
	}
	operator_plain(0, STACK_FORWARD);
	cr_expect_eq(rank_at(0)->steps, 4);
	cr_expect_eq(device_at(0, "cpu")->idle_bytes, 40);
	cr_expect_eq(device_at(0, "cpu")->idle_blocks, 1);
}

/* --- steps -------------------------------------------------------------------------------- */

Test(live, steps_have_a_duration)
{
	target(0, "{\"from_start\": true}");
	program(0);
	operator_on(0, 0, 1, STACK_FORWARD, FORWARD, NULL, 0);
	for (int step = 0; step < 5; step++) {
		operator_on(0, 0, 1, STACK_STEP, STEP, NULL, 0);
		now += 1000;
		operator_plain(0, STACK_FORWARD);
	}
	cr_expect_eq(rank_at(0)->steps, 5);
	cr_expect_eq(rank_at(0)->step_ns_count, 4, "of the first the begin was not seen");
	cr_expect_eq(live_step_ns(rank_at(0)), 1020);
}

Test(live, at_lite_a_step_is_the_range_of_an_optimizer)
{
	target(0, "{\"from_start\": false, \"level\": \"lite\"}");
	program(0);
	cr_assert_eq(capture_writer_operator(writer, 0, EXTRA_NAMES_FIRST, "begin", OPERATOR_RANGE_BEGIN), 0);
	cr_assert_eq(capture_writer_operator(writer, 0, EXTRA_NAMES_FIRST + 1, "end", OPERATOR_RANGE_END), 0);
	cr_expect_not(rank_at(0)->steps_known);
	for (int step = 0; step < 3; step++) {
		operator_plain(0, NO_STACK);
		operator_on(0, 0, EXTRA_NAMES_FIRST, STACK_FORWARD, FORWARD, NULL, 0); /* the program's own range */
		operator_on(0, 0, EXTRA_NAMES_FIRST + 1, STACK_FORWARD, NULL, NULL, 0);
		operator_on(0, 0, EXTRA_NAMES_FIRST, STACK_STEP, STEP, NULL, 0);
		operator_on(0, 0, EXTRA_NAMES_FIRST, STACK_STEP, NULL, NULL, 0); /* one inside it */
		operator_on(0, 0, EXTRA_NAMES_FIRST + 1, STACK_STEP, NULL, NULL, 0);
		operator_on(0, 0, EXTRA_NAMES_FIRST + 1, STACK_STEP, NULL, NULL, 0);
	}
	cr_expect(rank_at(0)->steps_known);
	cr_expect_eq(rank_at(0)->steps, 3);
	cr_expect_eq(live_step_ns(rank_at(0)), 70);
}

Test(live, where_a_thread_stands_tells_the_phase_at_lite)
{
	const struct frame frames[] = {
		{"/lib/torch/autograd/__init__.py", "backward", 200, 0}, {"/job.py", "<module>", 5, 0}};

	target(0, "{\"level\": \"lite\"}");
	cr_expect_not(rank_at(0)->phase_known);
	live_stand(live, 0, frames, 2);
	cr_expect_eq(rank_at(0)->phase, PHASE_BACKWARD);
	cr_expect_str_eq(rank_at(0)->line, "/lib/torch/autograd/__init__.py:200");
}

/* --- several ranks ---------------------------------------------------------------------------- */

Test(live, who_waits_for_whom_is_told)
{
	const struct live_rank *first;

	target(0, "{\"rank\": 0, \"from_start\": true}");
	target(1, "{\"rank\": 1, \"from_start\": true}");
	for (int number = 0; number < 10; number++) {
		collective(0, 0, 2, now + 100);
		collective(1, 1, 2, now + 350);
		now += 1000;
	}
	first = rank_at(0);
	cr_expect_not(first->wait.waits);
	/* event_of counts the clock by 10 for each record: 250 and 10. */
	cr_expect_eq(first->collective_wait_ns, 10 * 260);
	cr_expect_eq(live_rank_at(live, 1)->collective_wait_ns, 0);
	cr_expect_eq(first->groups[0].bytes, 400);
	collective(0, 0, 2, now + 5);
	first = rank_at(0);
	cr_expect(first->wait.waits);
	cr_expect_eq(first->wait.since_ns, now - 10 + 5);
	cr_expect_eq(first->wait.absent, 1);
	cr_expect_eq(first->wait.absent_ranks[0], 1);
	cr_expect_not(live_rank_at(live, 1)->wait.waits);
	rank_at(0);
	cr_expect_eq(live_rank_at(live, 0)->collective_wait_ns, 10 * 260, "looking twice counts nothing twice");
}

Test(live, numbers_of_ranks_that_were_attached_to_apart_are_brought_together)
{
	target(0, "{\"rank\": 0}");
	target(1, "{\"rank\": 1}");
	for (int number = 0; number < 20; number++) {
		uint64_t base = (uint64_t)(number + 1) * 1000000;

		collective(0, 0, 2, base + 100);
		if (number >= 3)
			collective(1, 1, 2, base + 400);
		now = base + 1000;
	}
	cr_expect_not(rank_at(0)->wait.waits);
	collective(1, 1, 2, 22000000);
	cr_expect(rank_at(1)->wait.waits);
	cr_expect_eq(live_rank_at(live, 1)->wait.absent_ranks[0], 0);
	cr_expect_not(live_rank_at(live, 0)->wait.waits);
}

Test(live, of_too_few_collectives_nothing_is_said)
{
	target(0, "{\"rank\": 0}");
	target(1, "{\"rank\": 1}");
	collective(0, 0, 2, 5000000);
	collective(1, 1, 2, 5000100);
	collective(0, 0, 2, 6000000);
	cr_expect_not(rank_at(0)->wait.waits);
}

Test(live, a_launcher_is_no_rank)
{
	target(0, "{\"parent\": null}");
	target(1, "{\"parent\": 0, \"rank\": 0}");
	target(2, "{\"parent\": 1, \"forked\": true}");
	cr_expect_not(rank_at(0)->is_rank);
	cr_expect(rank_at(1)->is_rank);
	cr_expect_not(rank_at(2)->is_rank);
}

Test(live, ranks_come_and_go)
{
	begin_with(&(struct live_limits){.blocks = 100, .places = 10, .threads = 4, .ended = 2});
	for (uint16_t index = 0; index < 10; index++) {
		target(index, "{\"from_start\": true}");
		allocate(index, 0, 0x1000, 100u + index);
		capture_writer_text(writer, CAPTURE_END, index, "{}");
		allocate(index, 0, 0x2000, 1); /* after its end nothing counts */
	}
	cr_assert_leq(live_rank_count(live), 3);
	cr_expect(rank_at(live_rank_count(live) - 1)->ended);
	cr_expect_eq(device_at(live_rank_count(live) - 1, "cpu")->bytes, 109, "what it held last stays");
	/* The place of one that ended is another's. */
	target(9, "{\"from_start\": true, \"pid\": 5}");
	allocate(9, 0, 0x1000, 1);
	cr_expect_eq(rank_at(live_rank_count(live) - 1)->pid, 5);
	cr_expect_eq(device_at(live_rank_count(live) - 1, "cpu")->bytes, 1);
}

/* --- bounds ---------------------------------------------------------------------------------------- */

Test(live, tables_have_an_entry_for_what_finds_no_room)
{
	struct live_place places[16];
	char name[64];

	begin_with(&(struct live_limits){.blocks = 20, .places = 3, .threads = 2, .ended = 1});
	target(0, "{\"from_start\": true}");
	for (uint64_t i = 0; i < 30; i++) {
		allocate(0, 0, 0x1000 + i * 0x1000, 10);
		snprintf(name, sizeof(name), "Model.%d.weight", (int)i);
		owner(0, OWNER_PARAMETER, 0x1000 + i * 0x1000, 10, name);
	}
	cr_assert_eq(live_top(live, 0, LIVE_MODULES, places, 16), 4);
	cr_expect_null(places[0].name);
	cr_expect_eq(places[0].bytes, 170);
	cr_expect_eq(rank_at(0)->blocks_untold, 10);
	cr_expect_eq(device_at(0, "cpu")->blocks, 20);
}

static size_t memory_used(void)
{
	return mallinfo2().uordblks;
}

static void round_do(uint64_t round)
{
	thread = (uint32_t)(1 + round % 500);                      /* threads come and go */
	operator_on(0, 0, 1, 1 + (round << 32), FORWARD, NULL, 0); /* and each stack is another one */
	allocate(0, 1, 0x100000 + round * 0x1000, 100);            /* at addresses that never come again */
	collective(0, 0, 2, now);
	release(0, 0, 0x100000 + round * 0x1000);
	operator_on(0, 0, 1, STACK_STEP, round ? NULL : STEP, NULL, 0);
}

Test(live, a_million_events_leave_nothing_behind, .timeout = 60)
{
	size_t before;

	target(0, "{\"from_start\": true}");
	program(0);
	allocate(0, 0, 0x1000, 4096);
	for (uint64_t round = 0; round < 20000; round++)
		round_do(round);
	live_refresh(live);
	before = memory_used();
	for (uint64_t round = 20000; round < 200000; round++)
		round_do(round);
	live_refresh(live);
	cr_expect_leq(memory_used(), before + 4096, "%zu bytes more than %zu", memory_used() - before, before);
	cr_expect_eq(device_at(0, "cpu")->bytes, 4096);
	cr_expect_eq(rank_at(0)->events, 1 + 200000 * 5);
}

/* --- the model ---------------------------------------------------------------------------------------- */

/* The same records by the same way into the model: what it says of the end is what the live accounting says then. */
static struct replay *replay;

static void observe_replay(void *context, const struct event *record)
{
	(void)context;
	cr_assert_eq(replay_record(replay, record), 0);
}

static void trace_random(unsigned int seed, uint64_t *held, size_t room)
{
	static const uint64_t *const codes[] = {FORWARD, STEP, BACKWARD};
	static const uint64_t stacks[] = {STACK_FORWARD, STACK_STEP, STACK_BACKWARD};
	bool sent[3] = {false};

	srand(seed);
	for (int i = 0; i < 3000; i++) {
		size_t which = (size_t)rand() % 3, slot = (size_t)rand() % room;

		operator_on(0, 0, 1, stacks[which], sent[which] ? NULL : codes[which], NULL, 0);
		sent[which] = true;
		if (held[slot])
			release(0, (uint8_t)(rand() % 2), held[slot]);
		held[slot] = 0x100000 + (uint64_t)(rand() % 4000) * 0x1000;
		allocate(0, (uint8_t)(rand() % 2), held[slot], 1 + (uint64_t)rand() % 100000);
		if (rand() % 4 == 0)
			owner(0, OWNER_PARAMETER + (unsigned int)rand() % 4, held[slot], 1, "Model.weight");
	}
}

Test(live, the_model_says_the_same_of_the_end)
{
	struct model_options options = {.all_blocks = true, .devices = {.all = true}};
	struct model *model = model_new(&options);
	uint64_t held[64] = {0};
	const struct live_device *cpu;
	const struct rank *rank;

	replay = replay_new(model);
	cr_assert_eq(capture_writer_observe(writer, observe_replay, NULL), 0);
	target(0, "{\"rank\": 0, \"from_start\": true}");
	program(0);
	trace_random(1, held, 64);
	cr_assert_eq(model_finish(model), 0);
	rank = model_rank(model, 0);
	cpu = device_at(0, "cpu");
	cr_expect_eq(cpu->bytes, rank->devices[0].current.total);
	cr_expect_eq(cpu->peak_bytes, rank->devices[0].peak_bytes);
	for (int category = 0; category < CATEGORIES; category++)
		cr_expect_eq(cpu->category_bytes[category], rank->devices[0].current.category[category],
			"%s: %llu, %llu", category_name((enum category)category),
			(unsigned long long)cpu->category_bytes[category],
			(unsigned long long)rank->devices[0].current.category[category]);
	cr_expect_eq(rank_at(0)->steps, rank->step_count);
	replay_free(replay);
	model_free(model);
}

Test(live, losses_are_told)
{
	struct event_counters counters = {
		.produced = 100, .received = 90, .lost = {[LOSS_RING_FULL] = 9, [LOSS_CODE] = 1}};

	target(0, "{}");
	cr_assert_eq(capture_writer_loss(writer, 0, &counters), 0);
	cr_expect_eq(rank_at(0)->lost, 10);
	cr_expect_eq(rank_at(0)->loss.produced, 100);
}

Test(live, records_of_nobody_are_passed_over)
{
	allocate(4, 0, 0x1000, 10);
	target(0, "no JSON");
	cr_expect_eq(live_rank_count(live), 0);
}
