/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of devices: which device is what, its blocks, its totals, and which devices a report is about. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model_events.h"

#define KIB 1024ull
#define MIB (1ull << 20)
#define NOT_HOST UINT64_C(0x7f0000000000)

static struct device_choice choice_of(const char *text)
{
	struct device_choice choice;

	cr_assert(device_choice_parse(text, &choice), "%s", text);
	return choice;
}

/* A trace of blocks of cuda:0, whose report is about the devices of `choice`. */
static struct trace device_trace(bool from_start, const char *choice)
{
	struct model_options options = {.devices = choice_of(choice)};
	struct trace trace = trace_new_with(from_start, &options);

	trace.device_type = DEVICE_CUDA;
	return trace;
}

static const struct device *device_of(const struct rank *rank, const char *name)
{
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (!strcmp(rank->devices[i].name, name))
			return &rank->devices[i];
	cr_assert(false, "there is no %s", name);
	return NULL;
}

static const char *block_device(const struct rank *rank, size_t row)
{
	cr_assert(lt(sz, row, arrlenu(rank->blocks)));
	return rank->devices[rank->blocks[row].device].name;
}

/* --- names and choices ------------------------------------------------------------ */

Test(names, are_pytorchs)
{
	static const struct {
		uint8_t type, index;
		const char *name;
	} devices[] = {{DEVICE_CPU, 0, "cpu"}, {DEVICE_CUDA, 0, "cuda:0"}, {DEVICE_CUDA, 15, "cuda:15"},
		{DEVICE_HIP, 1, "hip:1"}, {DEVICE_XPU, 2, "xpu:2"}, {DEVICE_PRIVATE, 3, "npu:3"},
		{DEVICE_PINNED, 0, "pinned"}, {254, 255, "device254:255"}};
	char name[DEVICE_NAME_BYTES];

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		cr_expect_str_eq(device_name_format(name, devices[i].type, devices[i].index), devices[i].name);
}

Test(choices, are_one_word_or_a_list_of_names)
{
	static const char *const wrong[] = {"", "gpu", "cuda:", "cuda:x", "cuda:256", "cuda:-1", "cuda:1x", "cpu:0",
		"pinned:0", ",", "cuda,", ",cuda", "cuda,,cpu", "auto,cpu", "cuda :0",
		"cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
	struct device_choice choice = choice_of("cuda:1,privateuseone,pinned");

	cr_expect(device_choice_has(&choice, DEVICE_CUDA, 1, false));
	cr_expect_not(device_choice_has(&choice, DEVICE_CUDA, 0, true));
	cr_expect(device_choice_has(&choice, DEVICE_PRIVATE, 7, false));
	cr_expect(device_choice_has(&choice, DEVICE_PINNED, 0, false));
	cr_expect_not(device_choice_has(&choice, DEVICE_CPU, 0, false));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_not(device_choice_parse(wrong[i], &choice), "%s", wrong[i]);
}

Test(choices, tell_what_is_worth_recording)
{
	static const struct {
		const char *text;
		bool cpu, accelerator;
	} choices[] = {{"auto", true, true}, {"all", true, true}, {"cpu", true, false}, {"cuda:1", false, true},
		{"pinned", false, false}, {"cpu,npu", true, true}};

	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		struct device_choice choice = choice_of(choices[i].text);

		cr_expect_eq(device_choice_has_cpu(&choice), choices[i].cpu, "%s", choices[i].text);
		cr_expect_eq(device_choice_has_accelerator(&choice), choices[i].accelerator, "%s", choices[i].text);
	}
}

/* --- blocks ----------------------------------------------------------------------- */

Test(blocks, have_the_size_that_was_asked_for_and_count_as_what_was_given)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 1024);
	device_request(&trace, 0x1000, 1000, 0);
	redispatch(&trace, 0, OP_MM, ARGUMENTS(0x1000, 900));
	device_allocate(&trace, 1, 0x2000, 512);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x2000, 400));
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	cr_expect(eq(u64, rank->blocks[0].bytes, 1000));
	cr_expect(eq(u64, rank->blocks[0].allocated_bytes, 1024));
	cr_expect(eq(str, (char *)user_text(rank, &rank->blocks[0]), (char *)"1"));
	cr_expect(eq(u64, rank->blocks[1].bytes, 400), "what an argument shows, where nothing was asked for");
	cr_expect(eq(u64, rank->blocks[1].used_bytes, 1536));
	cr_expect(eq(str, (char *)block_device(rank, 0), (char *)"cuda:0"));
	model_free(trace.model);
}

Test(blocks, take_requests_only_for_their_own_address_and_not_for_more)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	device_request(&trace, 0x1000, 100, 0);
	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	device_request(&trace, 0x2000, 100, 0);
	device_request(&trace, 0x1000, 513, 0);
	trace.thread = 2;
	device_request(&trace, 0x1000, 100, 0);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(u64, rank->blocks[0].bytes, 512));
	model_free(trace.model);
}

Test(blocks, number_their_streams_in_order_of_appearance)
{
	struct trace trace = device_trace(true, "auto");
	static const uint64_t STREAMS[] = {35, 0, 3, 35};
	const struct rank *rank;

	for (uint64_t i = 0; i < 4; i++) {
		redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
		device_allocate(&trace, 1, 0x1000 * (i + 1), 512);
		device_request(&trace, 0x1000 * (i + 1), 512, STREAMS[i]);
	}
	rank = trace_finish(&trace);
	for (size_t i = 0; i < 4; i++)
		cr_expect(eq(u64, device_of(rank, "cuda:0")->streams[rank->blocks[i].stream], STREAMS[i]));
	cr_expect(eq(u16, rank->blocks[1].stream, 0), "the default stream is 0");
	cr_expect(eq(u16, rank->blocks[0].stream, rank->blocks[3].stream));
	model_free(trace.model);
}

Test(blocks, of_two_devices_may_have_the_same_address)
{
	struct trace trace = device_trace(true, "all");
	const struct rank *rank;

	make(&trace, OP_EMPTY, 0x1000, 100);
	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	trace.device_index = 1;
	trace.allocated = 0;
	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 1024);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 1024));
	device_release(&trace, 0, 0x1000, 1024);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 3));
	cr_expect(rank->blocks[0].persistent && rank->blocks[1].persistent && !rank->blocks[2].persistent);
	cr_expect(eq(str, (char *)user_text(rank, &rank->blocks[2]), (char *)"3"));
	cr_expect(eq(u64, rank->reused_addresses, 0));
	cr_expect(rank_complete(rank));
	model_free(trace.model);
}

Test(blocks, may_be_freed_on_another_thread)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	trace.thread = 2;
	device_release(&trace, 0, 0x1000, 512);
	redispatch(&trace, 0, OP_RELU, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	cr_expect(eq(i64, rank->blocks[0].end, 1));
	cr_expect(eq(u32, rank->blocks[1].generation, 1));
	cr_expect(
		eq(int, rank->blocks[0].category, CATEGORY_ACTIVATION), "no workspace: its frame is another thread's");
	model_free(trace.model);
}

Test(blocks, made_outside_operators_are_rows_however_small)
{
	struct trace trace = device_trace(true, "all");
	const struct rank *rank;

	device_allocate(&trace, 0, 0x1000, 512);
	allocate(&trace, 0, 0x2000, 512);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(str, (char *)block_device(rank, 0), (char *)"cuda:0"));
	model_free(trace.model);
}

Test(blocks, of_resized_storages_replace_each_other)
{
	struct trace trace = device_trace(true, "auto");
	struct resize_event grown = {.bytes_after = 5000};
	const struct rank *rank;

	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	grown.before =
		(struct tensor_argument){.data = 0x1000, .bytes = 500, .device_type = DEVICE_CUDA, .device_index = 0};
	grown.event = trace_event(&trace, EVENT_RESIZE, sizeof(grown), 0);
	trace.error = model_event(trace.model, &grown.event);
	device_allocate(&trace, 0, 0x4000, 5120);
	device_release(&trace, 0, 0x1000, 512);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 2));
	cr_expect(eq(str, (char *)rank->operator_names[rank->blocks[1].name], (char *)"torch.UntypedStorage.resize_"));
	cr_expect(eq(u64, rank->blocks[1].bytes, 5000));
	cr_expect(eq(i64, rank->blocks[0].end, rank->blocks[1].start));
	model_free(trace.model);
}

static void library_request(struct trace *trace, uint64_t address, uint64_t bytes)
{
	struct device_request_event event = {.address = address, .bytes = bytes, .maker = MAKER_LIBRARY};

	event.event = trace_event(trace, EVENT_DEVICE_REQUEST, sizeof(event), 0);
	trace->error = model_event(trace->model, &event.event);
}

Test(workspaces, of_a_library_live_on_without_being_results)
{
	struct trace trace = device_trace(true, "auto");
	char text[PLOT_TEXT_BYTES];
	const struct rank *rank;

	redispatch(&trace, 0, OP_MM, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	device_allocate(&trace, 1, 0x2000, 8 * MIB);
	library_request(&trace, 0x2000, 8 * MIB);
	device_allocate(&trace, 1, 0x1000000, 4 * MIB);
	library_request(&trace, 0x1000000, 4 * MIB);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 512));
	redispatch(&trace, 0, OP_SUM, ARGUMENTS(0x1000, 512));
	device_release(&trace, 0, 0x1000000, 4 * MIB);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 3));
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_ACTIVATION));
	cr_expect(eq(u64, rank->blocks[0].start_event, 0));
	cr_expect(eq(int, rank->blocks[1].category, CATEGORY_WORKSPACE));
	cr_expect(rank->blocks[1].persistent);
	cr_expect(eq(u64, rank->blocks[1].end_plot, PLOT_NONE));
	cr_expect(eq(int, rank->blocks[2].category, CATEGORY_WORKSPACE));
	cr_expect(eq(i64, rank->blocks[2].end, 3));
	cr_expect_str_eq(
		plot_format(text, block_end_task(&rank->blocks[2]), rank->blocks[2].end_plot), "2.999999999999");
	cr_expect(eq(u64, device_of(rank, "cuda:0")->peak.category[CATEGORY_WORKSPACE], 12 * MIB));
	model_free(trace.model);
}

Test(workspaces, are_not_what_a_storage_was_resized_to)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	redispatch(&trace, 0, OP_RESIZE_, NO_ARGUMENTS);
	resize(&trace, 1, 0, 0, 500);
	device_allocate(&trace, 1, 0x1000, 512);
	library_request(&trace, 0x1000, 500);
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(int, rank->blocks[0].category, CATEGORY_ACTIVATION));
	model_free(trace.model);
}

/* --- totals ----------------------------------------------------------------------- */

Test(totals, are_each_devices_own)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	for (uint8_t device = 0; device < 2; device++) {
		trace.device_index = device;
		trace.allocated = 0;
		redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
		device_allocate(&trace, 1, 0x1000, 4 * KIB << device);
		device_allocate(&trace, 1, 0x9000, KIB);
		device_release(&trace, 0, 0x9000, KIB);
	}
	rank = trace_finish(&trace);
	cr_expect(eq(u64, device_of(rank, "cuda:0")->peak_bytes, 5 * KIB));
	cr_expect(eq(u64, device_of(rank, "cuda:1")->peak_bytes, 9 * KIB));
	cr_expect(eq(u64, device_of(rank, "cuda:1")->current.total, 8 * KIB));
	cr_expect(eq(u64, device_of(rank, "cuda:1")->reserved_peak_bytes, 9 * KIB));
	cr_expect(eq(u64, rank->peak_bytes, 14 * KIB), "the sum of the peaks");
	cr_expect(eq(u64, rank->blocks[2].used_bytes, 9 * KIB));
	cr_expect(eq(u64, rank->blocks[2].peak_bytes, 9 * KIB));
	cr_expect(eq(u64, rank->runs[1].live_bytes, 13 * KIB), "a task has the sum over devices");
	cr_expect(block_alive_at(&rank->blocks[3], device_of(rank, "cuda:1")->peak_order));
	model_free(trace.model);
}

Test(totals, begin_with_what_the_allocator_had_given_out_before)
{
	struct trace trace = device_trace(false, "auto");
	const struct device *device;
	const struct rank *rank;

	trace.allocated = 100 * KIB;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x9000, 1000));
	device_allocate(&trace, 1, 0x1000, KIB);
	device_release(&trace, 0, 0x9000, KIB);
	device_release(&trace, 0, 0xa000, 9 * KIB);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, KIB));
	rank = trace_finish(&trace);
	device = device_of(rank, "cuda:0");
	cr_expect(eq(u64, device->peak_bytes, 101 * KIB));
	cr_expect(eq(u64, device->current.total, 91 * KIB));
	cr_expect(eq(u64, device->peak.total, 101 * KIB));
	cr_expect(eq(u64, device->peak.category[CATEGORY_ACTIVATION], KIB));
	cr_expect(eq(u64, device->peak.category[CATEGORY_OTHER], 100 * KIB), "what nothing is known of, too");
	cr_assert(eq(sz, arrlenu(rank->blocks), 4), "one known by its use, one by its free, the rest, one made");
	cr_expect(rank->blocks[0].preexisting && rank->blocks[1].preexisting && !rank->blocks[3].preexisting);
	cr_expect(eq(u64, rank->blocks[0].allocated_bytes, KIB), "the free tells what was given out");
	cr_expect(eq(u64, rank->blocks[0].bytes, 1000));
	cr_expect(eq(u64, rank->blocks[1].bytes, 9 * KIB));
	cr_expect(eq(u64, rank->blocks[3].used_bytes, 101 * KIB));
	cr_expect(eq(u64, rank->unknown_frees, 0));
	model_free(trace.model);
}

Test(totals, count_what_is_older_as_its_rows_say)
{
	struct trace trace = device_trace(false, "auto");
	const struct rank *rank;
	uint64_t bytes = 0;

	/* One that an argument showed, and one that only its free did. */
	trace.allocated = 4096;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 100));
	device_release(&trace, 0, 0x9000, 512);
	rank = trace_finish(&trace);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		bytes += rank->blocks[i].preexisting && !rank->blocks[i].remainder ? rank->blocks[i].bytes : 0;
	cr_expect(eq(u64, bytes, 612));
	cr_expect(eq(u64, device_of(rank, "cuda:0")->older_known_bytes, bytes));
	model_free(trace.model);
}

/* --- what is older than the trace and in no block ----------------------------------- */

static const struct block *remainder_of(const struct rank *rank)
{
	const struct block *found = NULL;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		if (!rank->blocks[i].remainder)
			continue;
		cr_assert_null(found, "two remainders of one device");
		found = &rank->blocks[i];
	}
	return found;
}

static void expect_balance(const struct rank *rank, size_t step, uint64_t told, uint64_t older, uint64_t traced)
{
	const struct device *device = device_of(rank, "cuda:0");
	const struct balance *balance;

	cr_assert(lt(sz, step, arrlenu(device->balances)));
	balance = &device->balances[step];
	cr_expect(eq(u64, balance->allocator_bytes, told));
	cr_expect(eq(u64, balance->older_bytes, older));
	cr_expect(eq(u64, balance->traced_bytes, traced));
	cr_expect(eq(i64, balance_difference(balance), (int64_t)(told - older - traced)));
}

Test(remainder, is_a_row_of_what_no_block_stands_for)
{
	struct trace trace = device_trace(false, "auto");
	const struct block *remainder;
	const struct rank *rank;

	trace.allocated = 64 * KIB;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 1000));
	device_allocate(&trace, 1, 0x2000, KIB);
	device_release(&trace, 0, 0x9000, 8 * KIB);
	rank = trace_finish(&trace);
	remainder = remainder_of(rank);
	cr_assert_not_null(remainder);
	cr_expect(eq(u64, remainder->bytes, 56 * KIB - 1000), "without what its use, and what its free tells");
	cr_expect(eq(u64, device_of(rank, "cuda:0")->remainder_bytes, remainder->bytes));
	cr_expect(eq(u64, remainder->address, 0));
	cr_expect(eq(int, remainder->category, CATEGORY_OTHER));
	cr_expect(eq(int, remainder->phase, PHASE_INITIALIZATION));
	cr_expect(eq(i64, remainder->start, 0));
	cr_expect(remainder->persistent && remainder->preexisting && !*remainder->owner);
	cr_expect(eq(u32, remainder->user_count, 0));
	cr_expect(eq(str, (char *)rank->operator_names[remainder->name], (char *)"hdtrace.remainder"));
	expect_balance(rank, 0, 57 * KIB, 56 * KIB, KIB);
	model_free(trace.model);
}

Test(remainder, is_not_there_when_blocks_account_for_all)
{
	struct trace trace = device_trace(false, "auto");
	const struct rank *rank;

	trace.allocated = 512;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 512));
	device_allocate(&trace, 1, 0x2000, 512);
	rank = trace_finish(&trace);
	cr_expect_null(remainder_of(rank));
	expect_balance(rank, 0, 1024, 512, 512);
	model_free(trace.model);
}

Test(remainder, is_not_made_up_where_nothing_can_be_older)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	trace.allocated = 512; /* that block was lost */
	make(&trace, OP_MM, 0x100, 8);
	device_allocate(&trace, 0, 0x2000, 512);
	rank = trace_finish(&trace);
	cr_expect_null(remainder_of(rank));
	expect_balance(rank, 0, 1024, 0, 512);
	model_free(trace.model);
}

Test(remainder, shows_memory_of_others_as_a_difference)
{
	struct trace trace = device_trace(false, "auto");
	const struct rank *rank;

	/* Its storage is larger than all that the allocator had given out. */
	trace.allocated = 512;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x1000, 4096));
	device_allocate(&trace, 1, 0x2000, 512);
	rank = trace_finish(&trace);
	cr_expect_null(remainder_of(rank));
	expect_balance(rank, 0, 1024, 4096, 512);
	cr_expect(lt(i64, balance_difference(&device_of(rank, "cuda:0")->balances[0]), 0));
	model_free(trace.model);
}

Test(remainder, loses_nothing_to_a_free_that_was_not_seen)
{
	struct trace trace = device_trace(false, "auto");
	const struct rank *rank;

	trace.allocated = 2 * KIB;
	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, KIB);
	trace.allocated -= KIB; /* its free was lost */
	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, KIB);
	rank = trace_finish(&trace);
	cr_expect(eq(u64, rank->reused_addresses, 1));
	cr_expect(eq(u64, device_of(rank, "cuda:0")->current.total, 3 * KIB), "what the allocator told last");
	expect_balance(rank, 0, 3 * KIB, 2 * KIB, KIB);
	model_free(trace.model);
}

Test(totals, that_do_not_follow_make_the_report_incomplete)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	trace.allocated += 512; /* a block whose event was lost */
	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x3000, 512);
	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x4000, 512);
	rank = trace_finish(&trace);
	cr_expect(eq(u64, device_of(rank, "cuda:0")->unexplained_totals, 1));
	cr_expect_not(rank_complete(rank));
	cr_expect(eq(u64, device_of(rank, "cuda:0")->current.total, 2048), "and are believed");
	cr_expect(eq(u64, device_of(rank, "cuda:0")->peak.total, 2048));
	cr_expect(eq(u64, rank->blocks[0].used_bytes, 512));
	cr_expect(eq(u64, rank->blocks[2].used_bytes, 2048));
	model_free(trace.model);
}

Test(totals, know_a_block_that_was_lost_by_its_free)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	redispatch(&trace, 0, OP_EMPTY, NO_ARGUMENTS);
	device_allocate(&trace, 1, 0x1000, 512);
	trace.allocated += 512; /* a block whose event was lost, and which is freed then */
	device_release(&trace, 0, 0x9000, 512);
	rank = trace_finish(&trace);
	cr_expect(eq(u64, rank->unknown_frees, 1));
	cr_expect(eq(u64, device_of(rank, "cuda:0")->peak_bytes, 1024));
	cr_expect(eq(u64, device_of(rank, "cuda:0")->current.total, 512));
	cr_assert(eq(sz, arrlenu(rank->blocks), 1), "traced from the start: nothing is older");
	model_free(trace.model);
}

/* --- what is reported --------------------------------------------------------------- */

/* A block of the CPU, one of cuda:0 made from it, and an operator on the CPU alone. */
static const struct rank *mixed_job(struct trace *trace)
{
	trace->device_type = DEVICE_CPU;
	make(trace, OP_EMPTY, 0x100, 64);
	redispatch(trace, 0, OP_CLONE, ARGUMENTS(0x100, 64));
	trace->device_type = DEVICE_CUDA;
	device_allocate(trace, 1, 0x1000, 512);
	trace->device_type = DEVICE_CPU;
	redispatch(trace, 0, OP_SUM, ARGUMENTS(0x100, 64));
	trace->device_type = DEVICE_CUDA;
	redispatch(trace, 0, OP_RELU, ARGUMENTS(0x1000, 64));
	device_allocate(trace, 1, 0x2000, 512);
	return trace_finish(trace);
}

static void expect_tasks(const char *choice, const char *want)
{
	struct trace trace = device_trace(true, choice);
	const struct rank *rank = mixed_job(&trace);
	char *names = run_names(rank, true);

	cr_expect_str_eq(names, want, "%s", choice);
	free(names);
	model_free(trace.model);
}

Test(report, is_about_the_accelerators_where_there_are_any)
{
	expect_tasks("auto", "aten.clone.default aten.relu.default");
	expect_tasks("cuda", "aten.clone.default aten.relu.default");
}

Test(report, is_about_the_devices_that_were_chosen)
{
	expect_tasks("cpu", "aten.empty.memory_format aten.clone.default aten.sum.default");
	expect_tasks("all", "aten.empty.memory_format aten.clone.default aten.sum.default aten.relu.default");
	expect_tasks("cuda:1", "");
}

Test(report, of_the_cpu_is_what_it_is_without_devices)
{
	struct trace trace = device_trace(true, "cpu");
	const struct rank *rank = mixed_job(&trace);

	cr_assert(eq(sz, arrlenu(rank->blocks), 1));
	cr_expect(eq(u64, rank->peak_bytes, 64));
	cr_expect(eq(str, (char *)user_text(rank, &rank->blocks[0]), (char *)"1-2"));
	cr_expect(device_of(rank, "cuda:0")->seen && !device_of(rank, "cuda:0")->reported);
	model_free(trace.model);
}

Test(report, names_pinned_memory_as_external)
{
	struct trace trace = device_trace(true, "auto");
	const struct rank *rank;

	trace.device_type = DEVICE_PINNED;
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x100, 64));
	trace.device_type = DEVICE_CUDA;
	device_allocate(&trace, 1, 0x1000, 512);
	trace.device_type = DEVICE_CPU;
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x200, 64));
	trace.device_type = DEVICE_CUDA;
	redispatch(&trace, 0, OP_CLONE, ARGUMENTS(0x300, 64));
	rank = trace_finish(&trace);
	cr_assert(eq(sz, arrlenu(rank->externals), 2), "of the host only what is pinned; and memory from elsewhere");
	cr_expect_str_eq(rank->devices[rank->externals[0].device].name, "pinned");
	cr_expect_str_eq(rank->devices[rank->externals[1].device].name, "cuda:0");
	model_free(trace.model);
}

Test(report, of_many_devices_ends_somewhere)
{
	struct trace trace = device_trace(true, "all");
	const struct rank *rank;

	for (int device = 0; device < 300; device++) {
		trace.device_type = (uint8_t)(1 + device / 200);
		trace.device_index = (uint8_t)(device % 200);
		trace.allocated = 0;
		redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x5000, 64));
		device_allocate(&trace, 1, 0x1000, 512);
		device_release(&trace, 0, 0x1000, 512);
		cr_assert(eq(int, trace.error, 0));
	}
	rank = trace_finish(&trace);
	cr_assert(eq(int, trace.error, 0));
	cr_expect(eq(sz, arrlenu(rank->devices), 64));
	model_free(trace.model);
}
