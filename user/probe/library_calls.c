// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tables. Sources: the NCCL API reference (2.28), the RCCL API reference (2.22),
 * the HCCL interfaces of CANN (8), the MPI standard (4.0) with mpi.h of Open MPI 4.1
 * and MPICH 4.0. RCCL and HCCL were never run on their hardware.
 *
 * Left out: ncclCommSplit's ranks, batches of HcclBatchSendRecv, partitioned communication of MPI. A window of MPI is a
 * communicator here: it has the ranks of the one that it was made of, and fences are its barriers.
 */
#include "probe/library_calls.h"

/* An argument by its number. */
#define ARGUMENT(number) ((number) + 1)
/* The number of one that is on the stack: the first there is the seventh. */
#define ON_STACK(number) (PLACE_STACK + (number)-ARGUMENT_REGISTERS + 1)
#define ARGUMENT_REGISTERS 6

#define COLLECTIVE(symbol_, kind_, ...)                                                                                \
	{                                                                                                              \
		symbol_,                                                                                               \
		{                                                                                                      \
			.action = LIBRARY_COLLECTIVE, .kind = COLLECTIVE_##kind_, __VA_ARGS__                          \
		}                                                                                                      \
	}
#define NOTE(symbol_, action_, ...)                                                                                    \
	{                                                                                                              \
		symbol_,                                                                                               \
		{                                                                                                      \
			.action = LIBRARY_##action_, __VA_ARGS__                                                       \
		}                                                                                                      \
	}

/* --- NCCL and RCCL: (what it gives, what it gets, elements, type, …, communicator, stream) --------------- */

#define NUMBERS .width = (LIBRARY_WIDE | LIBRARY_INT_TYPES)
#define BUFFERS .input = ARGUMENT(0), .output = ARGUMENT(1)
#define COUNT_BOTH(place) .input_count = (place), .output_count = (place)
#define TYPE_BOTH(place) .input_type = (place), .output_type = (place)

static const struct library_function nccl[] = {
	COLLECTIVE("ncclAllReduce", ALL_REDUCE, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.operation = ARGUMENT(4), .communicator = ARGUMENT(5), .stream = ON_STACK(6)),
	COLLECTIVE("ncclBroadcast", BROADCAST, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.peer = ARGUMENT(4), .communicator = ARGUMENT(5), .stream = ON_STACK(6)),
	COLLECTIVE("ncclBcast", BROADCAST, NUMBERS, .input = ARGUMENT(0), .output = ARGUMENT(0),
		COUNT_BOTH(ARGUMENT(1)), TYPE_BOTH(ARGUMENT(2)), .peer = ARGUMENT(3), .communicator = ARGUMENT(4),
		.stream = ARGUMENT(5)),
	COLLECTIVE("ncclReduce", REDUCE, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_ROOT, .operation = ARGUMENT(4), .peer = ARGUMENT(5),
		.communicator = ON_STACK(6), .stream = ON_STACK(7)),
	COLLECTIVE("ncclAllGather", ALL_GATHER, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_EACH, .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	COLLECTIVE("ncclReduceScatter", REDUCE_SCATTER, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)),
		TYPE_BOTH(ARGUMENT(3)), .counting = COUNT_INPUT_EACH, .operation = ARGUMENT(4),
		.communicator = ARGUMENT(5), .stream = ON_STACK(6)),
	COLLECTIVE("ncclSend", SEND, NUMBERS, .input = ARGUMENT(0), .input_count = ARGUMENT(1), TYPE_BOTH(ARGUMENT(2)),
		.peer = ARGUMENT(3), .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	COLLECTIVE("ncclRecv", RECEIVE, NUMBERS, .output = ARGUMENT(0), .output_count = ARGUMENT(1),
		TYPE_BOTH(ARGUMENT(2)), .peer = ARGUMENT(3), .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	/* NCCL 2.28 has the first spelling, RCCL the second one. */
	COLLECTIVE("ncclAlltoAll", ALL_TO_ALL, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_INPUT_EACH | COUNT_OUTPUT_EACH, .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	COLLECTIVE("ncclAllToAll", ALL_TO_ALL, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_INPUT_EACH | COUNT_OUTPUT_EACH, .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	COLLECTIVE("ncclAllToAllv", ALL_TO_ALL, NUMBERS, .input = ARGUMENT(0), .input_counts = ARGUMENT(1),
		.output = ARGUMENT(3), .output_counts = ARGUMENT(4), TYPE_BOTH(ON_STACK(6)),
		.communicator = ON_STACK(7), .stream = ON_STACK(8)),
	COLLECTIVE("ncclGather", GATHER, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_EACH | COUNT_OUTPUT_ROOT, .peer = ARGUMENT(4), .communicator = ARGUMENT(5),
		.stream = ON_STACK(6)),
	COLLECTIVE("ncclScatter", SCATTER, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_INPUT_EACH | COUNT_INPUT_ROOT, .peer = ARGUMENT(4), .communicator = ARGUMENT(5),
		.stream = ON_STACK(6)),
	NOTE("ncclGroupStart", GROUP_BEGIN),
	NOTE("ncclGroupEnd", GROUP_END),
	/* The unique id of 128 bytes is passed on the stack and takes no register. */
	NOTE("ncclCommInitRank", MAKE, .result = ARGUMENT(0), .size = ARGUMENT(1), .rank = ARGUMENT(2)),
	NOTE("ncclCommInitRankConfig", MAKE, .result = ARGUMENT(0), .size = ARGUMENT(1), .rank = ARGUMENT(2)),
	NOTE("ncclCommInitRankScalable", MAKE, .result = ARGUMENT(0), .size = ARGUMENT(1), .rank = ARGUMENT(2)),
	NOTE("ncclCommInitAll", MAKE_ALL, .result = ARGUMENT(0), .size = ARGUMENT(1)),
	NOTE("ncclCommSplit", MAKE, .result = ARGUMENT(3)), /* of whom there are how many, the arguments do not say */
	NOTE("ncclCommCount", SIZE, .communicator = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("ncclCommUserRank", RANK, .communicator = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("ncclCommDestroy", FORGET, .communicator = ARGUMENT(0)),
	NOTE("ncclCommAbort", FORGET, .communicator = ARGUMENT(0)),
};

/* --- HCCL --------------------------------------------------------------------------------------------------- */

static const struct library_function hccl[] = {
	COLLECTIVE("HcclAllReduce", ALL_REDUCE, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.operation = ARGUMENT(4), .communicator = ARGUMENT(5), .stream = ON_STACK(6)),
	COLLECTIVE("HcclBroadcast", BROADCAST, NUMBERS, .input = ARGUMENT(0), .output = ARGUMENT(0),
		COUNT_BOTH(ARGUMENT(1)), TYPE_BOTH(ARGUMENT(2)), .peer = ARGUMENT(3), .communicator = ARGUMENT(4),
		.stream = ARGUMENT(5)),
	COLLECTIVE("HcclReduce", REDUCE, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_ROOT, .operation = ARGUMENT(4), .peer = ARGUMENT(5),
		.communicator = ON_STACK(6), .stream = ON_STACK(7)),
	COLLECTIVE("HcclAllGather", ALL_GATHER, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_EACH, .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	COLLECTIVE("HcclReduceScatter", REDUCE_SCATTER, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)),
		TYPE_BOTH(ARGUMENT(3)), .counting = COUNT_INPUT_EACH, .operation = ARGUMENT(4),
		.communicator = ARGUMENT(5), .stream = ON_STACK(6)),
	COLLECTIVE("HcclScatter", SCATTER, NUMBERS, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_INPUT_EACH | COUNT_INPUT_ROOT, .peer = ARGUMENT(4), .communicator = ARGUMENT(5),
		.stream = ON_STACK(6)),
	COLLECTIVE("HcclSend", SEND, NUMBERS, .input = ARGUMENT(0), .input_count = ARGUMENT(1), TYPE_BOTH(ARGUMENT(2)),
		.peer = ARGUMENT(3), .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	COLLECTIVE("HcclRecv", RECEIVE, NUMBERS, .output = ARGUMENT(0), .output_count = ARGUMENT(1),
		TYPE_BOTH(ARGUMENT(2)), .peer = ARGUMENT(3), .communicator = ARGUMENT(4), .stream = ARGUMENT(5)),
	/* (gives, how many each, type, gets, how many each, type, communicator, stream) */
	COLLECTIVE("HcclAlltoAll", ALL_TO_ALL, NUMBERS, .input = ARGUMENT(0), .input_count = ARGUMENT(1),
		.input_type = ARGUMENT(2), .output = ARGUMENT(3), .output_count = ARGUMENT(4),
		.output_type = ARGUMENT(5), .counting = COUNT_INPUT_EACH | COUNT_OUTPUT_EACH,
		.communicator = ON_STACK(6), .stream = ON_STACK(7)),
	/* (gives, counts, places, type, gets, counts, places, type, communicator, stream) */
	COLLECTIVE("HcclAlltoAllV", ALL_TO_ALL, NUMBERS, .input = ARGUMENT(0), .input_counts = ARGUMENT(1),
		.input_type = ARGUMENT(3), .output = ARGUMENT(4), .output_counts = ARGUMENT(5),
		.output_type = ON_STACK(7), .communicator = ON_STACK(8), .stream = ON_STACK(9)),
	COLLECTIVE("HcclBarrier", BARRIER, NUMBERS, .communicator = ARGUMENT(0), .stream = ARGUMENT(1)),
	NOTE("HcclCommInitRootInfo", MAKE, .size = ARGUMENT(0), .rank = ARGUMENT(2), .result = ARGUMENT(3)),
	NOTE("HcclCommInitRootInfoConfig", MAKE, .size = ARGUMENT(0), .rank = ARGUMENT(2), .result = ARGUMENT(4)),
	NOTE("HcclCommInitClusterInfo", MAKE, .result = ARGUMENT(2)),
	NOTE("HcclGetRankSize", SIZE, .communicator = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("HcclGetRankId", RANK, .communicator = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("HcclCommDestroy", FORGET, .communicator = ARGUMENT(0)),
};

/* --- MPI ---------------------------------------------------------------------------------------------------- */

/* Each of these with its non-blocking twin, which has a request behind the same arguments. */
#define TWINS(name, twin, ...) COLLECTIVE("MPI_" name, __VA_ARGS__), COLLECTIVE("MPI_" twin, __VA_ARGS__)
/* (gives, count, type, gets, count, type) and (gives, count, type, gets, counts, places, type) */
#define GIVES_GETS                                                                                                     \
	.input = ARGUMENT(0), .input_count = ARGUMENT(1), .input_type = ARGUMENT(2), .output = ARGUMENT(3),            \
	.output_count = ARGUMENT(4), .output_type = ARGUMENT(5)
#define GIVES_GETS_PARTS                                                                                               \
	.input = ARGUMENT(0), .input_count = ARGUMENT(1), .input_type = ARGUMENT(2), .output = ARGUMENT(3),            \
	.output_counts = ARGUMENT(4), .output_type = ON_STACK(6)
/* (buffer, count, type, rank, tag, communicator) */
#define SENDS                                                                                                          \
	SEND, .input = ARGUMENT(0), .input_count = ARGUMENT(1), .input_type = ARGUMENT(2), .peer = ARGUMENT(3),        \
	      .communicator = ARGUMENT(5)
#define RECEIVES                                                                                                       \
	RECEIVE, .output = ARGUMENT(0), .output_count = ARGUMENT(1), .output_type = ARGUMENT(2), .peer = ARGUMENT(3),  \
		 .communicator = ARGUMENT(5)

/* As the function of that name, with a request to begin it by; Open MPI 4.1 has those of collectives as an extension.
 */
#define PREPARED(name, ...) PREPARED_AS(name, __VA_ARGS__)
#define PREPARED_AS(name, kind_, ...)                                                                                  \
	{                                                                                                              \
		name,                                                                                                  \
		{                                                                                                      \
			.action = LIBRARY_PREPARE, .kind = COLLECTIVE_##kind_, __VA_ARGS__                             \
		}                                                                                                      \
	}
#define PREPARED_TWINS(name, ...)                                                                                      \
	PREPARED("MPI_" name "_init", __VA_ARGS__), PREPARED("MPIX_" name "_init", __VA_ARGS__)

static const struct library_function mpi[] = {
	TWINS("Allreduce", "Iallreduce", ALL_REDUCE, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.operation = ARGUMENT(4), .communicator = ARGUMENT(5)),
	TWINS("Bcast", "Ibcast", BROADCAST, .input = ARGUMENT(0), .output = ARGUMENT(0), COUNT_BOTH(ARGUMENT(1)),
		TYPE_BOTH(ARGUMENT(2)), .peer = ARGUMENT(3), .communicator = ARGUMENT(4)),
	TWINS("Reduce", "Ireduce", REDUCE, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_ROOT, .operation = ARGUMENT(4), .peer = ARGUMENT(5),
		.communicator = ON_STACK(6)),
	TWINS("Allgather", "Iallgather", ALL_GATHER, GIVES_GETS, .counting = COUNT_OUTPUT_EACH,
		.communicator = ON_STACK(6)),
	TWINS("Allgatherv", "Iallgatherv", ALL_GATHER, GIVES_GETS_PARTS, .communicator = ON_STACK(7)),
	TWINS("Reduce_scatter", "Ireduce_scatter", REDUCE_SCATTER, BUFFERS, .input_counts = ARGUMENT(2),
		TYPE_BOTH(ARGUMENT(3)), .counting = COUNT_OUTPUT_OWN, .operation = ARGUMENT(4),
		.communicator = ARGUMENT(5)),
	TWINS("Reduce_scatter_block", "Ireduce_scatter_block", REDUCE_SCATTER, BUFFERS, COUNT_BOTH(ARGUMENT(2)),
		TYPE_BOTH(ARGUMENT(3)), .counting = COUNT_INPUT_EACH, .operation = ARGUMENT(4),
		.communicator = ARGUMENT(5)),
	TWINS("Alltoall", "Ialltoall", ALL_TO_ALL, GIVES_GETS, .counting = COUNT_INPUT_EACH | COUNT_OUTPUT_EACH,
		.communicator = ON_STACK(6)),
	/* (gives, counts, places, type, gets, counts, places, type, communicator) */
	TWINS("Alltoallv", "Ialltoallv", ALL_TO_ALL, .input = ARGUMENT(0), .input_counts = ARGUMENT(1),
		.input_type = ARGUMENT(3), .output = ARGUMENT(4), .output_counts = ARGUMENT(5),
		.output_type = ON_STACK(7), .communicator = ON_STACK(8)),
	TWINS("Gather", "Igather", GATHER, GIVES_GETS, .counting = COUNT_OUTPUT_EACH | COUNT_OUTPUT_ROOT,
		.peer = ON_STACK(6), .communicator = ON_STACK(7)),
	TWINS("Gatherv", "Igatherv", GATHER, GIVES_GETS_PARTS, .counting = COUNT_OUTPUT_ROOT, .peer = ON_STACK(7),
		.communicator = ON_STACK(8)),
	TWINS("Scatter", "Iscatter", SCATTER, GIVES_GETS, .counting = COUNT_INPUT_EACH | COUNT_INPUT_ROOT,
		.peer = ON_STACK(6), .communicator = ON_STACK(7)),
	/* (gives, counts, places, type, gets, count, type, root, communicator) */
	TWINS("Scatterv", "Iscatterv", SCATTER, .input = ARGUMENT(0), .input_counts = ARGUMENT(1),
		.input_type = ARGUMENT(3), .output = ARGUMENT(4), .output_count = ARGUMENT(5),
		.output_type = ON_STACK(6), .counting = COUNT_INPUT_ROOT, .peer = ON_STACK(7),
		.communicator = ON_STACK(8)),
	/* As Alltoallv, with a type for each rank in place of one: bytes are not known. */
	TWINS("Alltoallw", "Ialltoallw", ALL_TO_ALL, .input = ARGUMENT(0), .input_counts = ARGUMENT(1),
		.output = ARGUMENT(4), .output_counts = ARGUMENT(5), .communicator = ON_STACK(8)),
	TWINS("Scan", "Iscan", SCAN, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)), .operation = ARGUMENT(4),
		.communicator = ARGUMENT(5)),
	TWINS("Exscan", "Iexscan", EXCLUSIVE_SCAN, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.operation = ARGUMENT(4), .communicator = ARGUMENT(5)),
	TWINS("Neighbor_allgather", "Ineighbor_allgather", NEIGHBOR_ALL_GATHER, GIVES_GETS,
		.counting = COUNT_OUTPUT_EACH, .communicator = ON_STACK(6)),
	/* How many counts there are is not known, so none is read. */
	TWINS("Neighbor_allgatherv", "Ineighbor_allgatherv", NEIGHBOR_ALL_GATHER, .input = ARGUMENT(0),
		.input_count = ARGUMENT(1), .input_type = ARGUMENT(2), .output = ARGUMENT(3),
		.output_type = ON_STACK(6), .counting = COUNT_OUTPUT_EACH, .communicator = ON_STACK(7)),
	TWINS("Neighbor_alltoall", "Ineighbor_alltoall", NEIGHBOR_ALL_TO_ALL, GIVES_GETS,
		.counting = COUNT_INPUT_EACH | COUNT_OUTPUT_EACH, .communicator = ON_STACK(6)),
	TWINS("Neighbor_alltoallv", "Ineighbor_alltoallv", NEIGHBOR_ALL_TO_ALL, .input = ARGUMENT(0),
		.input_type = ARGUMENT(3), .output = ARGUMENT(4), .output_type = ON_STACK(7),
		.counting = COUNT_INPUT_EACH | COUNT_OUTPUT_EACH, .communicator = ON_STACK(8)),
	TWINS("Barrier", "Ibarrier", BARRIER, .communicator = ARGUMENT(0)),
	TWINS("Send", "Isend", SENDS),
	TWINS("Ssend", "Issend", SENDS),
	TWINS("Bsend", "Ibsend", SENDS),
	TWINS("Rsend", "Irsend", SENDS),
	TWINS("Recv", "Irecv", RECEIVES),
	/* (gets, count, type, message): whose, and on which communicator, only the message knows. */
	TWINS("Mrecv", "Imrecv", RECEIVE, .output = ARGUMENT(0), .output_count = ARGUMENT(1), TYPE_BOTH(ARGUMENT(2))),
	/* (gives, count, type, to, tag, gets, count, type, from, tag, communicator) */
	TWINS("Sendrecv", "Isendrecv", SEND_RECEIVE, .input = ARGUMENT(0), .input_count = ARGUMENT(1),
		.input_type = ARGUMENT(2), .peer = ARGUMENT(3), .output = ARGUMENT(5), .output_count = ON_STACK(6),
		.output_type = ON_STACK(7), .source = ON_STACK(8), .communicator = ON_STACK(10)),
	/* (buffer, count, type, to, tag, from, tag, communicator) */
	TWINS("Sendrecv_replace", "Isendrecv_replace", SEND_RECEIVE, .input = ARGUMENT(0), .output = ARGUMENT(0),
		COUNT_BOTH(ARGUMENT(1)), TYPE_BOTH(ARGUMENT(2)), .peer = ARGUMENT(3), .source = ARGUMENT(5),
		.communicator = ON_STACK(7)),
	/* (here, count, type, rank, place there, count there, type there, …, window) */
	TWINS("Put", "Rput", PUT, .input = ARGUMENT(0), .input_count = ARGUMENT(1), .input_type = ARGUMENT(2),
		.peer = ARGUMENT(3), .communicator = ON_STACK(7)),
	TWINS("Get", "Rget", GET, .output = ARGUMENT(0), .output_count = ARGUMENT(1), .output_type = ARGUMENT(2),
		.peer = ARGUMENT(3), .communicator = ON_STACK(7)),
	TWINS("Accumulate", "Raccumulate", ACCUMULATE, .input = ARGUMENT(0), .input_count = ARGUMENT(1),
		.input_type = ARGUMENT(2), .peer = ARGUMENT(3), .operation = ON_STACK(7), .communicator = ON_STACK(8)),
	TWINS("Get_accumulate", "Rget_accumulate", GET_ACCUMULATE, GIVES_GETS, .peer = ON_STACK(6),
		.operation = ON_STACK(10), .communicator = ON_STACK(11)),
	/* (here, gets, type, rank, place there, operation, window), and with what is compared between the first two */
	COLLECTIVE("MPI_Fetch_and_op", GET_ACCUMULATE, BUFFERS, TYPE_BOTH(ARGUMENT(2)), .counting = COUNT_SINGLE,
		.peer = ARGUMENT(3), .operation = ARGUMENT(5), .communicator = ON_STACK(6)),
	COLLECTIVE("MPI_Compare_and_swap", GET_ACCUMULATE, .input = ARGUMENT(0), .output = ARGUMENT(2),
		TYPE_BOTH(ARGUMENT(3)), .counting = COUNT_SINGLE, .peer = ARGUMENT(4), .communicator = ON_STACK(6)),
	COLLECTIVE("MPI_Win_fence", BARRIER, .communicator = ARGUMENT(1)),
	PREPARED("MPI_Send_init", SENDS, .result = ON_STACK(6)),
	PREPARED("MPI_Ssend_init", SENDS, .result = ON_STACK(6)),
	PREPARED("MPI_Bsend_init", SENDS, .result = ON_STACK(6)),
	PREPARED("MPI_Rsend_init", SENDS, .result = ON_STACK(6)),
	PREPARED("MPI_Recv_init", RECEIVES, .result = ON_STACK(6)),
	/* Behind the communicator they have hints, and then the request. */
	PREPARED_TWINS("Allreduce", ALL_REDUCE, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.operation = ARGUMENT(4), .communicator = ARGUMENT(5), .result = ON_STACK(7)),
	PREPARED_TWINS("Bcast", BROADCAST, .input = ARGUMENT(0), .output = ARGUMENT(0), COUNT_BOTH(ARGUMENT(1)),
		TYPE_BOTH(ARGUMENT(2)), .peer = ARGUMENT(3), .communicator = ARGUMENT(4), .result = ON_STACK(6)),
	PREPARED_TWINS("Reduce", REDUCE, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_ROOT, .operation = ARGUMENT(4), .peer = ARGUMENT(5),
		.communicator = ON_STACK(6), .result = ON_STACK(8)),
	PREPARED_TWINS("Allgather", ALL_GATHER, GIVES_GETS, .counting = COUNT_OUTPUT_EACH, .communicator = ON_STACK(6),
		.result = ON_STACK(8)),
	PREPARED_TWINS("Allgatherv", ALL_GATHER, GIVES_GETS_PARTS, .communicator = ON_STACK(7), .result = ON_STACK(9)),
	PREPARED_TWINS("Reduce_scatter", REDUCE_SCATTER, BUFFERS, .input_counts = ARGUMENT(2), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_OUTPUT_OWN, .operation = ARGUMENT(4), .communicator = ARGUMENT(5),
		.result = ON_STACK(7)),
	PREPARED_TWINS("Reduce_scatter_block", REDUCE_SCATTER, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.counting = COUNT_INPUT_EACH, .operation = ARGUMENT(4), .communicator = ARGUMENT(5),
		.result = ON_STACK(7)),
	PREPARED_TWINS("Alltoall", ALL_TO_ALL, GIVES_GETS, .counting = COUNT_INPUT_EACH | COUNT_OUTPUT_EACH,
		.communicator = ON_STACK(6), .result = ON_STACK(8)),
	PREPARED_TWINS("Alltoallv", ALL_TO_ALL, .input = ARGUMENT(0), .input_counts = ARGUMENT(1),
		.input_type = ARGUMENT(3), .output = ARGUMENT(4), .output_counts = ARGUMENT(5),
		.output_type = ON_STACK(7), .communicator = ON_STACK(8), .result = ON_STACK(10)),
	PREPARED_TWINS("Gather", GATHER, GIVES_GETS, .counting = COUNT_OUTPUT_EACH | COUNT_OUTPUT_ROOT,
		.peer = ON_STACK(6), .communicator = ON_STACK(7), .result = ON_STACK(9)),
	PREPARED_TWINS("Scatter", SCATTER, GIVES_GETS, .counting = COUNT_INPUT_EACH | COUNT_INPUT_ROOT,
		.peer = ON_STACK(6), .communicator = ON_STACK(7), .result = ON_STACK(9)),
	PREPARED_TWINS("Scan", SCAN, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)), .operation = ARGUMENT(4),
		.communicator = ARGUMENT(5), .result = ON_STACK(7)),
	PREPARED_TWINS("Exscan", EXCLUSIVE_SCAN, BUFFERS, COUNT_BOTH(ARGUMENT(2)), TYPE_BOTH(ARGUMENT(3)),
		.operation = ARGUMENT(4), .communicator = ARGUMENT(5), .result = ON_STACK(7)),
	PREPARED_TWINS("Barrier", BARRIER, .communicator = ARGUMENT(0), .result = ARGUMENT(2)),
	NOTE("MPI_Start", START, .result = ARGUMENT(0)),
	NOTE("MPI_Startall", START, .input_count = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("MPI_Request_free", RELEASE, .result = ARGUMENT(0)),
	NOTE("MPI_Win_create", COPY, .communicator = ARGUMENT(4), .result = ARGUMENT(5)),
	NOTE("MPI_Win_allocate", COPY, .communicator = ARGUMENT(3), .result = ARGUMENT(5)),
	NOTE("MPI_Win_allocate_shared", COPY, .communicator = ARGUMENT(3), .result = ARGUMENT(5)),
	NOTE("MPI_Win_create_dynamic", COPY, .communicator = ARGUMENT(1), .result = ARGUMENT(2)),
	NOTE("MPI_Win_free", FORGET_AT, .result = ARGUMENT(0)),
	/* Ranks may be ordered anew. */
	NOTE("MPI_Cart_create", MAKE, .result = ARGUMENT(5)),
	NOTE("MPI_Graph_create", MAKE, .result = ARGUMENT(5)),
	NOTE("MPI_Dist_graph_create", MAKE, .result = ON_STACK(8)),
	NOTE("MPI_Dist_graph_create_adjacent", MAKE, .result = ON_STACK(9)),
	NOTE("MPI_Comm_size", SIZE, .communicator = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("MPI_Comm_rank", RANK, .communicator = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("MPI_Comm_dup", COPY, .communicator = ARGUMENT(0), .result = ARGUMENT(1)),
	NOTE("MPI_Comm_split", MAKE, .result = ARGUMENT(3)), /* as ncclCommSplit */
	NOTE("MPI_Comm_split_type", MAKE, .result = ARGUMENT(4)),
	NOTE("MPI_Comm_create", MAKE, .result = ARGUMENT(2)),
	NOTE("MPI_Comm_free", FORGET_AT, .result = ARGUMENT(0)),
};

/* --- libraries ------------------------------------------------------------------------------------------------ */

static const struct library_variant plain[] = {{"", "", 0, false}};
/* Names for tools that stand in between, usually of the same functions. */
static const struct library_variant nccl_variants[] = {{"", "", 0, false}, {"p", "", 0, false}};
static const struct library_variant mpi_variants[] = {
	{"", "", 0, false}, {"P", "", 0, false}, {"", "_c", LIBRARY_WIDE, true}, {"P", "_c", LIBRARY_WIDE, true}};

#define TABLE(name) .functions = (name), .count = sizeof(name) / sizeof((name)[0])
#define VARIANTS(name) .variants = (name), .variant_count = sizeof(name) / sizeof((name)[0])

static const struct {
	enum library_role role;
	enum collective_layer layer;
	const struct library_function *functions;
	size_t count;
	const struct library_variant *variants;
	size_t variant_count;
} libraries[] = {
	{.role = LIBRARY_NCCL, .layer = LAYER_NCCL, TABLE(nccl), VARIANTS(nccl_variants)},
	{.role = LIBRARY_RCCL, .layer = LAYER_RCCL, TABLE(nccl), VARIANTS(nccl_variants)},
	{.role = LIBRARY_HCCL, .layer = LAYER_HCCL, TABLE(hccl), VARIANTS(plain)},
	{.role = LIBRARY_MPI, .layer = LAYER_MPI, TABLE(mpi), VARIANTS(mpi_variants)},
};

#define LIBRARIES (sizeof(libraries) / sizeof(libraries[0]))

/* LIBRARIES: none of these. */
static size_t library_find(enum library_role role)
{
	size_t index = 0;

	while (index < LIBRARIES && libraries[index].role != role)
		index++;
	return index;
}

const struct library_function *library_functions(enum library_role role, size_t *count)
{
	size_t index = library_find(role);

	*count = index < LIBRARIES ? libraries[index].count : 0;
	return index < LIBRARIES ? libraries[index].functions : NULL;
}

const struct library_variant *library_variant(enum library_role role, size_t index)
{
	size_t library = library_find(role);

	return library < LIBRARIES && index < libraries[library].variant_count ? &libraries[library].variants[index]
	                                                                       : NULL;
}

enum collective_layer library_layer(enum library_role role)
{
	size_t index = library_find(role);

	return index < LIBRARIES ? libraries[index].layer : LAYER_C10D;
}

enum program_kind library_program(const struct library_call *call)
{
	return call->action == LIBRARY_COLLECTIVE ? PROGRAM_LIBRARY : PROGRAM_LIBRARY_NOTED;
}

bool library_call_has_result(const struct library_call *call)
{
	return call->result && call->action != LIBRARY_FORGET_AT && call->action != LIBRARY_START &&
	       call->action != LIBRARY_RELEASE;
}

bool library_is_of_collectives(enum library_role role)
{
	return library_find(role) < LIBRARIES;
}
