/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives of libraries: what a rank gives and gets, what is below c10d, which calls are one. */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include "containers/containers.h"
#include "model/model.h"

#define COMMUNICATOR 0x9000
#define GROUP 0x1000
#define STREAM 0x77
#define GIVES 0x10000
#define GETS 0x20000
#define IN_PLACE 1ull /* MPI_IN_PLACE of Open MPI */
#define FLOAT32 6
#define SPLITS 8

static struct model *model;

static void begin(void)
{
	model = model_new(NULL);
	cr_assert_not_null(model);
	cr_assert_eq(model_target(model, 0, RANK_UNKNOWN, true, NULL), 0);
}

static void end(void)
{
	model_free(model);
}

TestSuite(library, .init = begin, .fini = end);

struct record {
	struct library_collective_event head;
	uint64_t splits[SPLITS];
};

/* Rank 1 of 4 in a communicator, 10 float32 each way. */
static struct record record_of(enum collective_layer layer, enum collective_kind kind)
{
	struct record record = {
		.head = {.event = {.kind = EVENT_LIBRARY_COLLECTIVE, .size = sizeof(record.head), .time_ns = 1},
			.communicator = COMMUNICATOR,
			.input = GIVES,
			.output = GETS,
			.input_count = 10,
			.output_count = 10,
			.stream = STREAM,
			.rank = 1,
			.size = 4,
			.peer = -1,
			.source = -1,
			.layer = (uint8_t)layer,
			.kind = (uint8_t)kind,
			.operation_ = COLLECTIVE_NO_OPERATION,
			.input_element = FLOAT32,
			.output_element = FLOAT32,
			.input_element_bytes = 4,
			.output_element_bytes = 4},
	};

	return record;
}

static void take(const struct record *record)
{
	cr_assert_eq(model_event(model, &record->head.event), 0);
}

/* The only row, or the row `index`, of the finished rank. */
static const struct collective *row(size_t index)
{
	cr_assert_lt(index, arrlenu(model_rank(model, 0)->collectives));
	return &model_rank(model, 0)->collectives[index];
}

static size_t rows(void)
{
	return arrlenu(model_rank(model, 0)->collectives);
}

static const struct collective *row_of(const struct record *record)
{
	take(record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 1);
	return row(0);
}

/* --- counts ------------------------------------------------------------------------------ */

struct counting {
	enum collective_kind kind;
	unsigned int counting;
	int32_t rank, size, peer;
	uint64_t input, output; /* elements that are expected */
};

Test(library, counts_are_read_as_the_function_means_them)
{
	static const struct counting cases[] = {
		{COLLECTIVE_ALL_REDUCE, 0, 1, 4, -1, 10, 10},
		{COLLECTIVE_REDUCE, COUNT_OUTPUT_ROOT, 1, 4, 1, 10, 10},
		{COLLECTIVE_REDUCE, COUNT_OUTPUT_ROOT, 1, 4, 2, 10, 0},
		{COLLECTIVE_REDUCE, COUNT_OUTPUT_ROOT, -1, 4, 2, 10, COUNT_UNKNOWN},
		{COLLECTIVE_ALL_GATHER, COUNT_OUTPUT_EACH, 1, 4, -1, 10, 40},
		{COLLECTIVE_ALL_GATHER, COUNT_OUTPUT_EACH, -1, -1, -1, 10, COUNT_UNKNOWN},
		{COLLECTIVE_REDUCE_SCATTER, COUNT_INPUT_EACH, 1, 4, -1, 40, 10},
		{COLLECTIVE_ALL_TO_ALL, COUNT_INPUT_EACH | COUNT_OUTPUT_EACH, 1, 4, -1, 40, 40},
		{COLLECTIVE_GATHER, COUNT_OUTPUT_EACH | COUNT_OUTPUT_ROOT, 1, 4, 1, 10, 40},
		{COLLECTIVE_GATHER, COUNT_OUTPUT_EACH | COUNT_OUTPUT_ROOT, 1, 4, 0, 10, 0},
		{COLLECTIVE_SCATTER, COUNT_INPUT_EACH | COUNT_INPUT_ROOT, 1, 4, 1, 40, 10},
		{COLLECTIVE_SCATTER, COUNT_INPUT_EACH | COUNT_INPUT_ROOT, 1, 4, 0, 0, 10},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct record record = record_of(LAYER_NCCL, cases[i].kind);

		record.head.counting = (uint8_t)cases[i].counting;
		record.head.rank = cases[i].rank;
		record.head.size = cases[i].size;
		record.head.peer = cases[i].peer;
		take(&record);
	}
	cr_assert_eq(model_finish(model), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(row(i)->input_elements, cases[i].input, "input of case %zu", i);
		cr_expect_eq(row(i)->output_elements, cases[i].output, "output of case %zu", i);
		cr_expect_eq(row(i)->input_bytes, cases[i].input == COUNT_UNKNOWN ? COUNT_UNKNOWN : 4 * cases[i].input,
			"bytes of case %zu", i);
	}
}

Test(library, of_an_unknown_type_has_unknown_bytes)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_BROADCAST);
	const struct collective *found;

	record.head.input_element = record.head.output_element = ELEMENT_UNKNOWN;
	record.head.input_element_bytes = record.head.output_element_bytes = 0;
	found = row_of(&record);
	cr_assert_eq(found->input_elements, 10);
	cr_assert_eq(found->input_bytes, COUNT_UNKNOWN);
	cr_assert_str_eq(collective_type_name(found), "");
}

Test(library, with_counts_beyond_all_numbers_has_unknown_bytes)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_ALL_GATHER);
	const struct collective *found;

	record.head.input_count = record.head.output_count = 1ull << 62;
	record.head.counting = COUNT_OUTPUT_EACH;
	found = row_of(&record);
	cr_assert_eq(found->input_bytes, COUNT_UNKNOWN);
	cr_assert_eq(found->output_elements, COUNT_UNKNOWN);
}

Test(library, has_words_for_what_only_libraries_have)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_ALL_REDUCE);
	const struct collective *found;

	record.head.operation_ = OPERATION_MAXLOC;
	record.head.input_element = record.head.output_element = ELEMENT_INT_INT;
	record.head.input_element_bytes = record.head.output_element_bytes = 8;
	found = row_of(&record);
	cr_assert_str_eq(collective_operation_name(found), "maxloc");
	cr_assert_str_eq(collective_type_name(found), "int_int");
	cr_assert_str_eq(collective_layer_name(found->layer), "mpi");
	cr_assert_eq(found->input_bytes, 80);
}

Test(library, operations_and_types_without_a_word_are_nothing)
{
	struct collective collective = {.operation = 20, .element_type = 12, .kind = COLLECTIVE_KINDS};

	cr_assert_str_eq(collective_operation_name(&collective), "");
	cr_assert_str_eq(collective_type_name(&collective), "");
	cr_assert_str_eq(collective_kind_name(&collective), "");
	cr_assert_str_eq(collective_layer_name(LAYERS), "");
}

Test(library, parts_of_ranks_are_kept_and_the_own_one_is_what_it_gets)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_REDUCE_SCATTER);
	const struct collective *found;

	record.head.counting = COUNT_OUTPUT_OWN | COUNT_UNEVEN;
	record.head.input_splits = 4;
	record.head.event.size = sizeof(record);
	for (uint64_t i = 0; i < 4; i++)
		record.splits[i] = i + 1;
	found = row_of(&record);
	cr_assert_eq(found->output_elements, 2);
	cr_assert_eq(found->input_splits, 4);
	cr_assert_eq(model_rank(model, 0)->splits[found->splits + 3], 4);
	cr_assert(found->uneven);
}

Test(library, that_is_shorter_than_its_lists_is_refused)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_ALL_TO_ALL);

	record.head.input_splits = 1;
	cr_assert_eq(model_event(model, &record.head.event), -EINVAL);
}

/* --- in place ---------------------------------------------------------------------------------- */

Test(library, is_in_place_where_result_and_argument_are_the_same_memory)
{
	static const struct {
		enum collective_kind kind;
		unsigned int counting;
		uint64_t input, output;
		bool in_place;
	} cases[] = {
		{COLLECTIVE_ALL_REDUCE, 0, GIVES, GETS, false},
		{COLLECTIVE_ALL_REDUCE, 0, GIVES, GIVES, true},
		/* Rank 1 has 40 bytes behind those of rank 0. */
		{COLLECTIVE_ALL_GATHER, COUNT_OUTPUT_EACH, GETS + 40, GETS, true},
		{COLLECTIVE_ALL_GATHER, COUNT_OUTPUT_EACH, GETS, GETS, false},
		{COLLECTIVE_REDUCE_SCATTER, COUNT_INPUT_EACH, GIVES, GIVES + 40, true},
		{COLLECTIVE_SEND, 0, GIVES, 0, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct record record = record_of(LAYER_NCCL, cases[i].kind);

		record.head.counting = (uint8_t)cases[i].counting;
		record.head.input = cases[i].input;
		record.head.output = cases[i].output;
		take(&record);
	}
	cr_assert_eq(model_finish(model), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(row(i)->in_place, cases[i].in_place, "case %zu", i);
}

Test(library, a_side_of_mpi_that_is_in_place_is_told_by_the_other_one)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_ALL_GATHER);
	const struct collective *found;

	record.head.counting = COUNT_OUTPUT_EACH;
	record.head.input = IN_PLACE;
	record.head.input_count = 0;
	record.head.input_element = ELEMENT_UNKNOWN;
	record.head.input_element_bytes = 0;
	found = row_of(&record);
	cr_assert(found->in_place);
	cr_assert_eq(found->input_elements, 10);
	cr_assert_eq(found->input_bytes, 40);
	cr_assert_eq(found->input_address, GETS);
	cr_assert_str_eq(collective_type_name(found), "float32");
}

/* --- communicators -------------------------------------------------------------------------------- */

Test(library, a_communicator_keeps_what_is_learnt_of_it_later)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_BARRIER);

	record.head.rank = record.head.size = -1;
	take(&record);
	record.head.size = 4;
	take(&record);
	record.head.rank = 3;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(arrlenu(model_rank(model, 0)->groups), 1);
	cr_assert_eq(model_rank(model, 0)->groups[0].rank, 3);
	cr_assert_eq(model_rank(model, 0)->groups[0].size, 4);
	cr_assert_eq(row(2)->sequence, 2);
}

Test(library, another_one_at_the_same_handle_counts_anew)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_BARRIER);

	take(&record);
	record.head.size = 2;
	take(&record);
	record.head.layer = LAYER_MPI;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(row(1)->group, 1);
	cr_assert_eq(row(2)->group, 2);
}

Test(library, is_matched_over_the_ranks)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_ALL_REDUCE);

	cr_assert_eq(model_target(model, 1, RANK_UNKNOWN, true, NULL), 0);
	record.head.size = 2;
	for (int32_t rank = 0; rank < 2; rank++) {
		record.head.rank = rank;
		record.head.event.target = (uint16_t)rank;
		record.head.event.time_ns = 100 + 7 * (uint64_t)rank;
		record.head.communicator = COMMUNICATOR + (uint64_t)rank;
		take(&record);
	}
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(model_rank_count(model), 2);
	cr_assert_eq(row(0)->matched_ranks, 2);
	cr_assert_eq(row(0)->skew_ns, 7);
}

Test(library, uneven_parts_do_not_differ)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_ALL_GATHER);

	cr_assert_eq(model_target(model, 1, RANK_UNKNOWN, true, NULL), 0);
	record.head.size = 2;
	record.head.counting = COUNT_UNEVEN;
	for (int32_t rank = 0; rank < 2; rank++) {
		record.head.rank = rank;
		record.head.event.target = (uint16_t)rank;
		record.head.input_count = 5 + (uint64_t)rank;
		take(&record);
	}
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(row(0)->matched_ranks, 2);
	cr_assert_not(row(0)->differs);
}

/* --- below c10d --------------------------------------------------------------------------------------- */

static void c10d_begin(enum collective_kind kind, enum collective_operation operation)
{
	struct collective_event event = {
		.event = {.kind = EVENT_COLLECTIVE, .size = sizeof(event), .time_ns = 1},
		.group = GROUP,
		.input_elements = 10,
		.output_elements = 10,
		.rank = 1,
		.size = 4,
		.peer = -1,
		.kind = (uint8_t)kind,
		.operation = (uint8_t)operation,
		.element_type = FLOAT32,
	};

	cr_assert_eq(model_event(model, &event.event), 0);
}

Test(library, call_below_c10d_is_part_of_its_row)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_ALL_REDUCE);

	c10d_begin(COLLECTIVE_ALL_REDUCE, OPERATION_SUM);
	record.head.flags = LIBRARY_INSIDE;
	record.head.output = GIVES;
	record.head.operation_ = OPERATION_SUM;
	record.head.event.operator_ = 3;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 1);
	cr_assert_eq(row(0)->layer, LAYER_C10D);
	cr_assert_eq(row(0)->library, LAYER_NCCL);
	cr_assert_eq(row(0)->stream, STREAM);
	cr_assert_eq(row(0)->handle, COMMUNICATOR);
	cr_assert_eq(row(0)->function, 3);
	cr_assert_eq(row(0)->calls, 1);
	cr_assert(row(0)->in_place);
	cr_assert_not(row(0)->average_by_sum);
}

Test(library, average_that_is_made_of_a_sum_is_told)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_ALL_REDUCE);

	c10d_begin(COLLECTIVE_ALL_REDUCE, OPERATION_AVERAGE);
	record.head.flags = LIBRARY_INSIDE;
	record.head.operation_ = OPERATION_SUM;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert(row(0)->average_by_sum);
	cr_assert_str_eq(collective_operation_name(row(0)), "avg");
}

Test(library, calls_that_a_collective_of_c10d_is_made_of_are_counted)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_SEND);

	c10d_begin(COLLECTIVE_ALL_TO_ALL, COLLECTIVE_NO_OPERATION);
	record.head.flags = LIBRARY_INSIDE;
	record.head.group = 1;
	for (int i = 0; i < 8; i++) {
		record.head.kind = i % 2 ? COLLECTIVE_RECEIVE : COLLECTIVE_SEND;
		take(&record);
	}
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 1);
	cr_assert_eq(row(0)->kind, COLLECTIVE_ALL_TO_ALL);
	cr_assert_eq(row(0)->calls, 8);
	cr_assert_eq(row(0)->group_call, 1);
	cr_assert_not(row(0)->in_place);
}

Test(library, call_inside_a_collective_that_was_never_seen_is_a_row)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_ALL_REDUCE);

	record.head.flags = LIBRARY_INSIDE;
	cr_assert_eq(row_of(&record)->layer, LAYER_NCCL);
}

Test(library, call_of_another_library_than_before_is_not_below)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_ALL_REDUCE);

	c10d_begin(COLLECTIVE_ALL_REDUCE, OPERATION_SUM);
	record.head.flags = LIBRARY_INSIDE;
	take(&record);
	record.head.layer = LAYER_MPI;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 2);
	cr_assert_eq(row(0)->calls, 1);
	cr_assert_eq(row(1)->layer, LAYER_MPI);
}

Test(library, call_of_pytorch_on_another_thread_is_part_of_the_earliest_like_it)
{
	struct record record = record_of(LAYER_MPI, COLLECTIVE_ALL_REDUCE);

	c10d_begin(COLLECTIVE_BROADCAST, COLLECTIVE_NO_OPERATION);
	c10d_begin(COLLECTIVE_ALL_REDUCE, OPERATION_SUM);
	c10d_begin(COLLECTIVE_ALL_REDUCE, OPERATION_SUM);
	record.head.flags = LIBRARY_BY_TORCH;
	record.head.event.thread_id = 5;
	take(&record);
	take(&record);
	record.head.flags = 0;
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 4);
	cr_assert_eq(row(0)->calls, 0);
	cr_assert_eq(row(1)->library, LAYER_MPI);
	cr_assert_eq(row(2)->library, LAYER_MPI);
	cr_assert_eq(row(3)->layer, LAYER_MPI);
}

/* --- groups of calls ------------------------------------------------------------------------------------ */

static void grouped(enum collective_kind kind, int32_t peer, uint64_t count, uint32_t group)
{
	struct record record = record_of(LAYER_NCCL, kind);

	record.head.size = 3;
	record.head.peer = peer;
	record.head.input_count = kind == COLLECTIVE_SEND ? count : 0;
	record.head.output_count = kind == COLLECTIVE_RECEIVE ? count : 0;
	record.head.input = kind == COLLECTIVE_SEND ? GIVES + 100 * (uint64_t)peer : 0;
	record.head.output = kind == COLLECTIVE_RECEIVE ? GETS + 100 * (uint64_t)peer : 0;
	record.head.group = group;
	take(&record);
}

Test(library, sends_and_receives_of_all_ranks_in_one_group_call_are_an_all_to_all)
{
	struct record barrier = record_of(LAYER_NCCL, COLLECTIVE_BARRIER);
	const uint64_t *splits;

	for (int32_t peer = 0; peer < 3; peer++) {
		grouped(COLLECTIVE_SEND, peer, 10 + (uint64_t)peer, 4);
		grouped(COLLECTIVE_RECEIVE, peer, 20 + (uint64_t)peer, 4);
	}
	barrier.head.size = 3;
	take(&barrier);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 2);
	cr_assert_eq(row(0)->kind, COLLECTIVE_ALL_TO_ALL);
	cr_assert_eq(row(0)->calls, 6);
	cr_assert_eq(row(0)->input_elements, 33);
	cr_assert_eq(row(0)->output_bytes, 4 * 63);
	cr_assert_eq(row(0)->input_address, GIVES);
	cr_assert_eq(row(0)->peer, -1);
	cr_assert_eq(row(0)->sequence, 0);
	cr_assert_eq(row(1)->sequence, 1);
	splits = model_rank(model, 0)->splits + row(0)->splits;
	cr_assert_eq(splits[2], 12);
	cr_assert_eq(splits[3 + 1], 21);
}

Test(library, own_part_of_an_all_to_all_may_be_left_out)
{
	for (int32_t peer = 0; peer < 3; peer += 2) {
		grouped(COLLECTIVE_SEND, peer, 10, 1);
		grouped(COLLECTIVE_RECEIVE, peer, 20, 1);
	}
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 1);
	cr_assert_eq(row(0)->kind, COLLECTIVE_ALL_TO_ALL);
	cr_assert_eq(model_rank(model, 0)->splits[row(0)->splits + 1], 0);
}

Test(library, sends_and_receives_of_some_ranks_stay_what_they_are)
{
	/* A ring: to the next one, from the one before. */
	grouped(COLLECTIVE_SEND, 2, 10, 1);
	grouped(COLLECTIVE_RECEIVE, 0, 10, 1);
	/* All of them, but in two group calls. */
	for (int32_t peer = 0; peer < 3; peer++)
		grouped(COLLECTIVE_SEND, peer, 10, 2);
	for (int32_t peer = 0; peer < 3; peer++)
		grouped(COLLECTIVE_RECEIVE, peer, 10, 3);
	/* Twice to the same one. */
	for (int i = 0; i < 6; i++)
		grouped(i % 2 ? COLLECTIVE_SEND : COLLECTIVE_RECEIVE, i / 4, 10, 5);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 14);
	for (size_t i = 0; i < rows(); i++)
		cr_assert(row(i)->kind == COLLECTIVE_SEND || row(i)->kind == COLLECTIVE_RECEIVE);
	cr_assert_eq(row(2)->group_call, 2);
}

Test(library, other_collectives_of_one_group_call_keep_their_rows_and_its_number)
{
	struct record record = record_of(LAYER_NCCL, COLLECTIVE_ALL_REDUCE);

	record.head.group = 9;
	take(&record);
	take(&record);
	cr_assert_eq(model_finish(model), 0);
	cr_assert_eq(rows(), 2);
	cr_assert_eq(row(0)->group_call, 9);
	cr_assert_eq(row(1)->group_call, 9);
	cr_assert_eq(row(1)->sequence, 1);
}
