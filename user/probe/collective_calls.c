// SPDX-License-Identifier: BSD-2-Clause
/*
 * The table. Source: torch/csrc/distributed/c10d/Backend.hpp (ProcessGroup.hpp in
 * 1.13) and Types.hpp of PyTorch 1.13, 2.6 and 2.14. All methods but one return an
 * object, so that the hidden result comes first and `this` second.
 */
#include "probe/collective_calls.h"

#include <stdio.h>
#include <string.h>

/* Places of arguments as in segment_call: 0 for none, else register + 1. The first one of a method is rdx. */
enum argument { FIRST = 3, SECOND, THIRD, FOURTH, FIFTH };

#define IN(argument, form_) .inputs = (argument), .input_form = (form_)
#define OUT(argument, form_) .outputs = (argument), .output_form = (form_)
#define IN_PLACE IN(FIRST, COLLECTIVE_LIST), OUT(FIRST, COLLECTIVE_LIST)

/* The operator of the dispatcher by which c10d calls its methods (c10d/Ops.cpp). */
#define C10D(operator) "c10d." operator".default"

static const struct collective_method methods[] = {
	{"allreduce", C10D("allreduce_"), {.kind = COLLECTIVE_ALL_REDUCE, IN_PLACE, .options = SECOND, .reduces = 1}},
	{"allreduce_sparse", C10D("allreduce_"),
		{.kind = COLLECTIVE_ALL_REDUCE, IN_PLACE, .options = SECOND, .reduces = 1}},
	{"allreduce_coalesced", C10D("allreduce_coalesced_"),
		{.kind = COLLECTIVE_ALL_REDUCE, IN_PLACE, .options = SECOND, .reduces = 1}},
	{"broadcast", C10D("broadcast_"), {.kind = COLLECTIVE_BROADCAST, IN_PLACE, .options = SECOND, .rooted = 1}},
	{"reduce", C10D("reduce_"),
		{.kind = COLLECTIVE_REDUCE, IN_PLACE, .options = SECOND, .reduces = 1, .rooted = 1}},
	{"allgather", C10D("allgather_"),
		{.kind = COLLECTIVE_ALL_GATHER, IN(SECOND, COLLECTIVE_LIST), OUT(FIRST, COLLECTIVE_LISTS)}},
	{"allgather_coalesced", C10D("allgather_coalesced_"),
		{.kind = COLLECTIVE_ALL_GATHER, IN(SECOND, COLLECTIVE_LIST), OUT(FIRST, COLLECTIVE_LISTS)}},
	{"_allgather_base", C10D("_allgather_base_"),
		{.kind = COLLECTIVE_ALL_GATHER, IN(SECOND, COLLECTIVE_TENSOR), OUT(FIRST, COLLECTIVE_TENSOR)}},
	{"all_gather_single", C10D("_allgather_base_"),
		{.kind = COLLECTIVE_ALL_GATHER, IN(SECOND, COLLECTIVE_TENSOR), OUT(FIRST, COLLECTIVE_TENSOR)}},
	{"allgather_into_tensor_coalesced", C10D("allgather_into_tensor_coalesced_"),
		{.kind = COLLECTIVE_ALL_GATHER, IN(SECOND, COLLECTIVE_LIST), OUT(FIRST, COLLECTIVE_LIST)}},
	{"all_gather_single_coalesced", C10D("allgather_into_tensor_coalesced_"),
		{.kind = COLLECTIVE_ALL_GATHER, IN(SECOND, COLLECTIVE_LIST), OUT(FIRST, COLLECTIVE_LIST)}},
	{"reduce_scatter", C10D("reduce_scatter_"),
		{.kind = COLLECTIVE_REDUCE_SCATTER,
			IN(SECOND, COLLECTIVE_LISTS),
			OUT(FIRST, COLLECTIVE_LIST),
			.options = THIRD,
			.reduces = 1}},
	{"_reduce_scatter_base", C10D("_reduce_scatter_base_"),
		{.kind = COLLECTIVE_REDUCE_SCATTER,
			IN(SECOND, COLLECTIVE_TENSOR),
			OUT(FIRST, COLLECTIVE_TENSOR),
			.options = THIRD,
			.reduces = 1}},
	{"reduce_scatter_single", C10D("_reduce_scatter_base_"),
		{.kind = COLLECTIVE_REDUCE_SCATTER,
			IN(SECOND, COLLECTIVE_TENSOR),
			OUT(FIRST, COLLECTIVE_TENSOR),
			.options = THIRD,
			.reduces = 1}},
	{"reduce_scatter_tensor_coalesced", C10D("reduce_scatter_tensor_coalesced_"),
		{.kind = COLLECTIVE_REDUCE_SCATTER,
			IN(SECOND, COLLECTIVE_LIST),
			OUT(FIRST, COLLECTIVE_LIST),
			.options = THIRD,
			.reduces = 1}},
	{"reduce_scatter_single_coalesced", C10D("reduce_scatter_tensor_coalesced_"),
		{.kind = COLLECTIVE_REDUCE_SCATTER,
			IN(SECOND, COLLECTIVE_LIST),
			OUT(FIRST, COLLECTIVE_LIST),
			.options = THIRD,
			.reduces = 1}},
	{"alltoall_base", C10D("alltoall_base_"),
		{.kind = COLLECTIVE_ALL_TO_ALL,
			IN(SECOND, COLLECTIVE_TENSOR),
			OUT(FIRST, COLLECTIVE_TENSOR),
			.output_splits = THIRD,
			.input_splits = FOURTH}},
	{"all_to_all_single", C10D("alltoall_base_"),
		{.kind = COLLECTIVE_ALL_TO_ALL,
			IN(SECOND, COLLECTIVE_TENSOR),
			OUT(FIRST, COLLECTIVE_TENSOR),
			.output_splits = THIRD,
			.input_splits = FOURTH}},
	{"alltoall", C10D("alltoall_"),
		{.kind = COLLECTIVE_ALL_TO_ALL, IN(SECOND, COLLECTIVE_LIST), OUT(FIRST, COLLECTIVE_LIST)}},
	{"gather", C10D("gather_"),
		{.kind = COLLECTIVE_GATHER,
			IN(SECOND, COLLECTIVE_LIST),
			OUT(FIRST, COLLECTIVE_LISTS),
			.options = THIRD,
			.rooted = 1}},
	{"scatter", C10D("scatter_"),
		{.kind = COLLECTIVE_SCATTER,
			IN(SECOND, COLLECTIVE_LISTS),
			OUT(FIRST, COLLECTIVE_LIST),
			.options = THIRD,
			.rooted = 1}},
	{"send", C10D("send"), {.kind = COLLECTIVE_SEND, IN(FIRST, COLLECTIVE_LIST), .peer = SECOND}},
	{"recv", C10D("recv_"), {.kind = COLLECTIVE_RECEIVE, OUT(FIRST, COLLECTIVE_LIST), .peer = SECOND}},
	{"recvAnysource", C10D("recv_any_source_"), {.kind = COLLECTIVE_RECEIVE, OUT(FIRST, COLLECTIVE_LIST)}},
	{"barrier", C10D("barrier"), {.kind = COLLECTIVE_BARRIER}},
	{"monitoredBarrier", C10D("monitored_barrier_"), {.kind = COLLECTIVE_BARRIER, .returns_nothing = 1}},
};

static const struct {
	const char *name;
	enum library_role library;
} classes[] = {
	{"ProcessGroupGloo", LIBRARY_TORCH_CPU},
	{"ProcessGroupMPI", LIBRARY_TORCH_CPU},
	{"ProcessGroupNCCL", LIBRARY_TORCH_CUDA},
};

/* Work.hpp, ProcessGroupNCCL.hpp, ProcessGroupMPI.hpp, Functional.hpp of 1.13, 2.6 and 2.14. NCCL tells no end on the
 * host. */
static const struct work_function works[] = {
	{"_ZN4c10d4WorkC2E", LIBRARY_TORCH_CPU, {.kind = WORK_MADE}},
	{"_ZN4c10d4Work4waitE", LIBRARY_TORCH_CPU, {.kind = WORK_WAITED}},
	{"_ZN4c10d15ProcessGroupMPI9AsyncWork4waitE", LIBRARY_TORCH_CPU, {.kind = WORK_WAITED}},
	{"_ZN4c10d16ProcessGroupNCCL8WorkNCCL4waitE", LIBRARY_TORCH_CUDA, {.kind = WORK_WAITED}},
	{"_ZN4c10d4Work6finishE", LIBRARY_TORCH_CPU, {.kind = WORK_FINISHED}},
	{"_ZN4c10d7Reducer17finalize_backwardE", LIBRARY_TORCH_CPU, {.kind = WORK_WAIT_BUCKETS}},
	{"_ZN4c10d11wait_tensorE", LIBRARY_TORCH_CPU, {.kind = WORK_WAIT_TENSOR}},
};

const struct work_function *work_functions(size_t *count)
{
	*count = sizeof(works) / sizeof(works[0]);
	return works;
}

const struct collective_method *collective_methods(size_t *count)
{
	*count = sizeof(methods) / sizeof(methods[0]);
	return methods;
}

const char *collective_class(size_t index, enum library_role *library)
{
	if (index >= sizeof(classes) / sizeof(classes[0]))
		return NULL;
	*library = classes[index].library;
	return classes[index].name;
}

void collective_symbol(const char *class_name, const char *method, char symbol[COLLECTIVE_SYMBOL_BYTES])
{
	snprintf(symbol, COLLECTIVE_SYMBOL_BYTES, "_ZN4c10d%zu%s%zu%sE", strlen(class_name), class_name, strlen(method),
		method);
}
