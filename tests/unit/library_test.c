/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of libraries of collectives: functions, handles, and the plan for libraries that are here. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "containers/containers.h"
#include "probe/library_calls.h"
#include "probe/library_handles.h"
#include "probe/plan.h"
#include "stream/record.h"
#include "symbol/elf.h"

static const enum library_role roles[] = {LIBRARY_NCCL, LIBRARY_RCCL, LIBRARY_HCCL, LIBRARY_MPI};

#define ROLES (sizeof(roles) / sizeof(roles[0]))
#define PLACES_ON_STACK 6 /* so many words of the stack are read */

static bool place_is_read(uint8_t place)
{
	return place <= 6 || (place > PLACE_STACK && place <= PLACE_STACK + PLACES_ON_STACK);
}

Test(library_calls, every_argument_is_one_that_the_programs_read)
{
	for (size_t role = 0; role < ROLES; role++) {
		size_t count;
		const struct library_function *functions = library_functions(roles[role], &count);

		cr_assert_gt(count, 0);
		for (size_t i = 0; i < count; i++) {
			const struct library_call *call = &functions[i].call;
			const uint8_t places[] = {call->input, call->output, call->input_count, call->output_count,
				call->input_counts, call->output_counts, call->input_type, call->output_type,
				call->operation, call->peer, call->source, call->communicator, call->stream,
				call->result, call->size, call->rank};

			for (size_t j = 0; j < sizeof(places); j++)
				cr_expect(place_is_read(places[j]), "%s, argument %zu", functions[i].symbol, j);
		}
	}
}

static bool is_of_message(const char *symbol)
{
	return !strcmp(symbol, "MPI_Mrecv") || !strcmp(symbol, "MPI_Imrecv");
}

Test(library_calls, every_collective_has_a_communicator_and_no_argument_twice)
{
	for (size_t role = 0; role < ROLES; role++) {
		size_t count;
		const struct library_function *functions = library_functions(roles[role], &count);

		for (size_t i = 0; i < count; i++) {
			const struct library_call *call = &functions[i].call;
			const uint8_t places[] = {call->operation, call->peer, call->source, call->communicator,
				call->stream, call->input_counts, call->output_counts};

			if (call->action != LIBRARY_COLLECTIVE)
				continue;
			/* Only a message that was found before knows its own. */
			cr_expect(call->communicator || is_of_message(functions[i].symbol), "%s", functions[i].symbol);
			cr_expect_lt(call->kind, COLLECTIVE_KINDS, "%s", functions[i].symbol);
			for (size_t j = 0; j < sizeof(places); j++)
				for (size_t k = 0; k < j; k++)
					cr_expect(!places[j] || places[j] != places[k], "%s", functions[i].symbol);
		}
	}
}

Test(library_calls, other_roles_have_none)
{
	size_t count = 1;

	cr_assert_null(library_functions(LIBRARY_CUDA, &count));
	cr_assert_eq(count, 0);
	cr_assert_null(library_variant(LIBRARY_C10, 0));
	cr_assert_not(library_is_of_collectives(LIBRARY_TORCH_CPU));
	cr_assert(library_is_of_collectives(LIBRARY_MPI));
}

Test(library_calls, roles_follow_from_file_names)
{
	cr_assert_eq(library_role_of("/usr/lib/libnccl.so.2"), LIBRARY_NCCL);
	cr_assert_eq(library_role_of("/opt/rocm/lib/librccl.so.1"), LIBRARY_RCCL);
	cr_assert_eq(library_role_of("/x/libhccl.so"), LIBRARY_HCCL);
	cr_assert_eq(library_role_of("/x/libmpi.so.40.30.4"), LIBRARY_MPI);
	cr_assert_eq(library_role_of("/x/libmpich.so.12"), LIBRARY_MPI);
	cr_assert_eq(library_role_of("/x/libmpi_cxx.so.40"), LIBRARY_NONE);
	cr_assert_eq(library_role_of("/x/libmpi_mpifh.so.40"), LIBRARY_NONE);
}

/* --- handles ------------------------------------------------------------------------------- */

Test(library_handles, numbers_have_their_meaning)
{
	static const struct {
		enum handle_family family;
		enum handle_kind kind;
		uint64_t number;
		uint8_t meaning, bytes;
	} cases[] = {
		{HANDLES_NCCL, HANDLE_TYPE, 7, 6, 4},
		{HANDLES_NCCL, HANDLE_TYPE, 9, 15, 2},
		{HANDLES_NCCL, HANDLE_OPERATION, 4, OPERATION_AVERAGE, 0},
		{HANDLES_HCCL, HANDLE_TYPE, 4, 6, 4},
		{HANDLES_HCCL, HANDLE_OPERATION, 2, OPERATION_MAX, 0},
		{HANDLES_MPICH, HANDLE_TYPE, 0x4c00040a, 6, 4},
		{HANDLES_MPICH, HANDLE_TYPE, 0x8c000001, ELEMENT_DOUBLE_INT, 12},
		{HANDLES_MPICH, HANDLE_OPERATION, 0x58000003, OPERATION_SUM, 0},
		{HANDLES_MPICH, HANDLE_OPERATION, 0x5800000c, OPERATION_MAXLOC, 0},
		{HANDLES_MPICH, HANDLE_WORLD, 0x44000000, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct library_handle *found =
			library_handle_find(cases[i].family, cases[i].kind, cases[i].number);

		cr_assert_not_null(found, "case %zu", i);
		cr_expect_eq(found->meaning, cases[i].meaning, "case %zu", i);
		cr_expect_eq(found->bytes, cases[i].bytes, "case %zu", i);
	}
	cr_assert_null(library_handle_find(HANDLES_NCCL, HANDLE_OPERATION, 5));
	cr_assert_null(library_handle_find(HANDLES_MPICH, HANDLE_TYPE, 0x8c000099));
	cr_assert_null(library_handle_find(HANDLES_OPEN_MPI, HANDLE_TYPE, 0));
}

Test(library_handles, basic_types_of_mpich_say_their_bytes)
{
	size_t count;
	const struct library_handle *handles = library_handles(HANDLES_MPICH, &count);

	for (size_t i = 0; i < count; i++)
		if (handles[i].kind == HANDLE_TYPE && handles[i].number >> 24 == 0x4c)
			cr_expect_eq(
				library_mpich_bytes(handles[i].number), handles[i].bytes, "%#x", handles[i].number);
	cr_assert_eq(library_mpich_bytes(0x8c000000), 0);
}

/* --- the plan -------------------------------------------------------------------------------- */

static void mpi_plan_open(struct library_plan *plan, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		cr_skip_test("%s is not here; scripts/setup --tests installs it", path);
	cr_assert_eq(library_plan_make(fd, LIBRARY_MPI, plan), 0);
	close(fd);
}

static void plan_check(const struct library_plan *plan)
{
	cr_assert_gt(arrlen(plan->points), 40);
	for (ptrdiff_t i = 0; i < arrlen(plan->points); i++) {
		const struct plan_point *point = &plan->points[i];
		const struct library_call *call = &point->description.library;

		cr_expect(point->described && point->name);
		cr_expect_eq(call->layer, LAYER_MPI);
		cr_expect_gt(call->code_before + call->code_after, 1u << 16, "%s", point->name);
		for (ptrdiff_t j = 0; j < i; j++)
			cr_expect_neq(plan->points[j].offset, point->offset, "%s twice", point->name);
	}
}

Test(library_plan, of_open_mpi_has_handles_that_are_addresses)
{
	struct library_plan plan;
	size_t count, found = 0;
	const struct library_handle *handles = library_handles(HANDLES_OPEN_MPI, &count);

	mpi_plan_open(&plan, "/usr/lib/x86_64-linux-gnu/libmpi.so.40");
	plan_check(&plan);
	cr_assert(plan.open_mpi);
	cr_assert_eq(plan.points[0].description.library.width, 0);
	for (size_t i = 0; i < count; i++)
		found += elf_file_symbol(plan.elf, handles[i].symbol) != NULL;
	cr_expect_eq(found, count, "%zu of %zu handles are objects of the library", found, count);
	library_plan_free(&plan);
}

Test(library_plan, of_mpich_has_handles_that_are_numbers_and_large_counts)
{
	struct library_plan plan;
	bool wide = false;

	mpi_plan_open(&plan, "/usr/lib/x86_64-linux-gnu/libmpich.so.12");
	plan_check(&plan);
	cr_assert_not(plan.open_mpi);
	for (ptrdiff_t i = 0; i < arrlen(plan.points); i++) {
		uint8_t width = plan.points[i].description.library.width;

		cr_expect_eq(
			width & (LIBRARY_INT_TYPES | LIBRARY_INT_HANDLES), LIBRARY_INT_TYPES | LIBRARY_INT_HANDLES);
		wide |= width & LIBRARY_WIDE;
	}
	cr_assert(wide);
	library_plan_free(&plan);
}

/* --- records ------------------------------------------------------------------------------------ */

Test(library_record, is_refused_with_more_parts_than_it_may_have_or_holds)
{
	struct library_collective_event record = {
		.event = {.kind = EVENT_LIBRARY_COLLECTIVE, .size = sizeof(record)},
	};

	cr_assert_null(record_check(&record.event, sizeof(record)));
	record.input_splits = 1;
	cr_assert_not_null(record_check(&record.event, sizeof(record)));
	record.input_splits = EVENT_SPLITS_MAX + 1;
	cr_assert_not_null(record_check(&record.event, sizeof(record)));
	record.input_splits = 0;
	record.frame_count = 1;
	cr_assert_not_null(record_check(&record.event, sizeof(record)));
}

Test(library_record, has_its_stack_behind_the_parts)
{
	struct {
		struct library_collective_event head;
		uint64_t splits[2];
		struct python_frame frame;
	} record = {
		.head = {.event = {.kind = EVENT_LIBRARY_COLLECTIVE, .size = sizeof(record)},
			.stack = 5,
			.input_splits = 1,
			.output_splits = 1,
			.frame_count = 1},
		.frame = {.code = 77},
	};
	struct event_stack stack;

	cr_assert(event_stack_find(&record.head.event, &stack));
	cr_assert_eq(stack.identity, 5);
	cr_assert_eq(stack.frames[0].code, 77);
}
