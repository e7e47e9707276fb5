/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of MPI without PyTorch that calls every kind of collective, and logs
 * what it calls. For tests of which calls are seen.
 *
 *     mpi_program FOLDER [loop | alone]
 *
 * Each rank writes FOLDER/RANK.log: a line for each call before it is made,
 *
 *     function kind operation type count bytes output_bytes peer in_place size splits output_splits
 *
 * with - for what there is none of, or what nobody can know (derived types).
 * With `loop` it repeats an all-reduce until it is killed, and prints steps. With
 * `alone` it is the only rank, and calls a few right away.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTS 64
#define RANKS_MAX 16
#define STEP_MICROSECONDS 20000
#define FIRST_MICROSECONDS 500000 /* so that a tracer finds what the launcher started */

static FILE *log_file;
static int rank, size;
static double given[ELEMENTS * RANKS_MAX], got[ELEMENTS * RANKS_MAX];

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(log_file, format, arguments);
	va_end(arguments);
	fputc('\n', log_file);
	fflush(log_file);
}

/* --- reductions ------------------------------------------------------------------------ */

static void reduce(const char *operation, MPI_Op op, const char *type, MPI_Datatype datatype, int count)
{
	int bytes;

	MPI_Type_size(datatype, &bytes);
	say("MPI_Allreduce all_reduce %s %s %d %d %d - 0 %d - -", operation, type, count, count * bytes, count * bytes,
		size);
	MPI_Allreduce(given, got, count, datatype, op, MPI_COMM_WORLD);
}

static void own_sum(void *input, void *output, int *count, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *count; i++)
		((int *)output)[i] += ((int *)input)[i];
}

static void reductions(void)
{
	MPI_Op own;

	memset(given, 0, sizeof(given));
	reduce("sum", MPI_SUM, "float32", MPI_FLOAT, 5);
	reduce("product", MPI_PROD, "float64", MPI_DOUBLE, 6);
	reduce("min", MPI_MIN, "int64", MPI_LONG, 7);
	reduce("max", MPI_MAX, "int32", MPI_INT, 8);
	reduce("band", MPI_BAND, "uint8", MPI_UNSIGNED_CHAR, 9);
	reduce("bor", MPI_BOR, "uint32", MPI_UNSIGNED, 9);
	reduce("bxor", MPI_BXOR, "uint8", MPI_BYTE, 10);
	reduce("land", MPI_LAND, "int16", MPI_SHORT, 11);
	reduce("lor", MPI_LOR, "uint64", MPI_UINT64_T, 12);
	reduce("lxor", MPI_LXOR, "bool", MPI_C_BOOL, 13);
	reduce("maxloc", MPI_MAXLOC, "int_int", MPI_2INT, 2);
	reduce("minloc", MPI_MINLOC, "double_int", MPI_DOUBLE_INT, 3);
	reduce("sum", MPI_SUM, "long_double", MPI_LONG_DOUBLE, 3);
	reduce("sum", MPI_SUM, "complex128", MPI_C_DOUBLE_COMPLEX, 3);
	MPI_Op_create(own_sum, 1, &own);
	reduce("user", own, "int32", MPI_INT, 4);
	MPI_Op_free(&own);
	say("MPI_Allreduce all_reduce sum float64 3 24 24 - 1 %d - -", size);
	MPI_Allreduce(MPI_IN_PLACE, given, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	say("MPI_Reduce reduce max float32 20 80 %d 1 0 %d - -", rank == 1 ? 80 : 0, size);
	MPI_Reduce(given, got, 20, MPI_FLOAT, MPI_MAX, 1, MPI_COMM_WORLD);
	say("MPI_Reduce_scatter_block reduce_scatter sum int32 %d %d 20 - 0 %d - -", 5 * size, 20 * size, size);
	MPI_Reduce_scatter_block(given, got, 5, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* --- with parts of different sizes --------------------------------------------------------- */

/* "{1-2-3-4}", in a place of its own until the call after the next. */
static const char *parts(const int *counts)
{
	static char texts[2][RANKS_MAX * 12];
	static int turn;
	char *text = texts[turn ^= 1];
	int length = 0;

	for (int i = 0; i < size; i++)
		length += sprintf(text + length, "%c%d", i ? '-' : '{', counts[i]);
	strcpy(text + length, "}");
	return text;
}

static int places(const int *counts, int *displacements)
{
	int sum = 0;

	for (int i = 0; i < size; i++) {
		displacements[i] = sum;
		sum += counts[i];
	}
	return sum;
}

static void uneven(void)
{
	int counts[RANKS_MAX], others[RANKS_MAX], at[RANKS_MAX], others_at[RANKS_MAX], sum, others_sum;

	for (int i = 0; i < size; i++)
		counts[i] = i + 1;
	sum = places(counts, at);
	say("MPI_Allgatherv all_gather - float64 %d %d %d - 0 %d - %s", rank + 1, 8 * (rank + 1), 8 * sum, size,
		parts(counts));
	MPI_Allgatherv(given, rank + 1, MPI_DOUBLE, got, counts, at, MPI_DOUBLE, MPI_COMM_WORLD);
	say("MPI_Reduce_scatter reduce_scatter sum float64 %d %d %d - 0 %d %s -", sum, 8 * sum, 8 * (rank + 1), size,
		parts(counts));
	MPI_Reduce_scatter(given, got, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	say("MPI_Gatherv gather - float32 %d %d %d 2 0 %d - %s", rank + 1, 4 * (rank + 1), rank == 2 ? 4 * sum : 0,
		size, rank == 2 ? parts(counts) : "-");
	MPI_Gatherv(given, rank + 1, MPI_FLOAT, got, counts, at, MPI_FLOAT, 2, MPI_COMM_WORLD);
	say("MPI_Scatterv scatter - int32 %d %d %d 0 0 %d %s -", rank ? 0 : sum, rank ? 0 : 4 * sum, 4 * (rank + 1),
		size, rank ? "-" : parts(counts));
	MPI_Scatterv(given, counts, at, MPI_INT, got, rank + 1, MPI_INT, 0, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++) {
		counts[i] = rank + i;
		others[i] = i + rank;
	}
	sum = places(counts, at);
	others_sum = places(others, others_at);
	say("MPI_Alltoallv all_to_all - int64 %d %d %d - 0 %d %s %s", sum, 8 * sum, 8 * others_sum, size, parts(counts),
		parts(others));
	MPI_Alltoallv(given, counts, at, MPI_LONG, got, others, others_at, MPI_LONG, MPI_COMM_WORLD);
}

/* --- movements ------------------------------------------------------------------------------- */

static void movements(void)
{
	MPI_Datatype pairs;

	say("MPI_Bcast broadcast - uint8 30 30 30 1 1 %d - -", size);
	MPI_Bcast(given, 30, MPI_BYTE, 1, MPI_COMM_WORLD);
	say("MPI_Allgather all_gather - float32 4 16 %d - 0 %d - -", 16 * size, size);
	MPI_Allgather(given, 4, MPI_FLOAT, got, 4, MPI_FLOAT, MPI_COMM_WORLD);
	say("MPI_Allgather all_gather - float64 4 32 %d - 1 %d - -", 32 * size, size);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, 4, MPI_DOUBLE, MPI_COMM_WORLD);
	say("MPI_Alltoall all_to_all - int32 %d %d %d - 0 %d - -", 3 * size, 12 * size, 12 * size, size);
	MPI_Alltoall(given, 3, MPI_INT, got, 3, MPI_INT, MPI_COMM_WORLD);
	say("MPI_Gather gather - int8 7 7 %d 0 0 %d - -", rank ? 0 : 7 * size, size);
	MPI_Gather(given, 7, MPI_CHAR, got, 7, MPI_CHAR, 0, MPI_COMM_WORLD);
	say("MPI_Scatter scatter - float64 %d %d 16 1 0 %d - -", rank == 1 ? 2 * size : 0, rank == 1 ? 16 * size : 0,
		size);
	MPI_Scatter(given, 2, MPI_DOUBLE, got, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	MPI_Type_contiguous(2, MPI_INT, &pairs);
	MPI_Type_commit(&pairs);
	say("MPI_Bcast broadcast - - 6 - - 0 1 %d - -", size);
	MPI_Bcast(given, 6, pairs, 0, MPI_COMM_WORLD);
	MPI_Type_free(&pairs);
	say("MPI_Barrier barrier - - 0 0 0 - 0 %d - -", size);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Large counts came with version 4 of the standard. */
static void large(void)
{
#if MPI_VERSION >= 4
	MPI_Count counts[RANKS_MAX];
	MPI_Aint at[RANKS_MAX];
	int small[RANKS_MAX];

	say("MPI_Allreduce all_reduce sum int64 2 16 16 - 0 %d - -", size);
	MPI_Allreduce_c(given, got, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++) {
		counts[i] = small[i] = 2;
		at[i] = 2 * i;
	}
	say("MPI_Allgatherv all_gather - int32 2 8 %d - 0 %d - %s", 8 * size, size, parts(small));
	MPI_Allgatherv_c(given, 2, MPI_INT, got, counts, at, MPI_INT, MPI_COMM_WORLD);
#endif
}

static void later(void)
{
	MPI_Request requests[3];

	say("MPI_Iallreduce all_reduce min float32 3 12 12 - 0 %d - -", size);
	MPI_Iallreduce(given, got, 3, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD, &requests[0]);
	say("MPI_Ibcast broadcast - int32 2 8 8 0 1 %d - -", size);
	MPI_Ibcast(given + ELEMENTS, 2, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
	say("MPI_Ialltoall all_to_all - int32 %d %d %d - 0 %d - -", size, 4 * size, 4 * size, size);
	MPI_Ialltoall(given + 2 * ELEMENTS, 1, MPI_INT, got + 2 * ELEMENTS, 1, MPI_INT, MPI_COMM_WORLD, &requests[2]);
	MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
	say("MPI_Ibarrier barrier - - 0 0 0 - 0 %d - -", size);
	MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
	MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void pairs(void)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	MPI_Request requests[2];
	MPI_Message message;

	if (rank == 0) {
		say("MPI_Send send - float64 4 32 0 1 0 %d - -", size);
		MPI_Send(given, 4, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
		say("MPI_Ssend send - int32 4 16 0 1 0 %d - -", size);
		MPI_Ssend(given, 4, MPI_INT, 1, 6, MPI_COMM_WORLD);
		say("MPI_Send send - int32 3 12 0 1 0 %d - -", size);
		MPI_Send(given, 3, MPI_INT, 1, 9, MPI_COMM_WORLD);
		say("MPI_Send send - float64 2 16 0 1 0 %d - -", size);
		MPI_Send(given, 2, MPI_DOUBLE, 1, 10, MPI_COMM_WORLD);
	} else if (rank == 1) {
		say("MPI_Recv receive - float64 4 32 32 - 0 %d - -", size);
		MPI_Recv(got, 4, MPI_DOUBLE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		say("MPI_Recv receive - int32 4 16 16 0 0 %d - -", size);
		MPI_Recv(got, 4, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Mprobe(0, 9, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
		say("MPI_Mrecv receive - int32 3 12 12 - 0 - - -");
		MPI_Mrecv(got, 3, MPI_INT, &message, MPI_STATUS_IGNORE);
		MPI_Mprobe(0, 10, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
		say("MPI_Imrecv receive - float64 2 16 16 - 0 - - -");
		MPI_Imrecv(got, 2, MPI_DOUBLE, &message, &requests[0]);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
	}
	say("MPI_Irecv receive - float32 2 8 8 %d 0 %d - -", previous, size);
	MPI_Irecv(got, 2, MPI_FLOAT, previous, 7, MPI_COMM_WORLD, &requests[0]);
	say("MPI_Isend send - float32 2 8 0 %d 0 %d - -", next, size);
	MPI_Isend(given, 2, MPI_FLOAT, next, 7, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	say("MPI_Sendrecv send_receive - int16 5 10 12 %d 0 %d - -", next, size);
	MPI_Sendrecv(given, 5, MPI_SHORT, next, 8, got, 6, MPI_SHORT, previous, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* --- communicators ------------------------------------------------------------------------------ */

/* The result's place on the stack is given up when this returns. */
__attribute__((noinline)) static int size_of(MPI_Comm communicator)
{
	int result;

	MPI_Comm_size(communicator, &result);
	return result;
}

static void communicators(void)
{
	MPI_Comm same, half;

	MPI_Comm_dup(MPI_COMM_WORLD, &same);
	say("MPI_Allreduce all_reduce sum float32 1 4 4 - 0 %d - -", size);
	MPI_Allreduce(given, got, 1, MPI_FLOAT, MPI_SUM, same);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	/* Its size is learnt later, and is that of the same communicator. */
	say("MPI_Barrier barrier - - 0 0 0 - 0 %d - -", (size + 1 - rank % 2) / 2);
	MPI_Barrier(half);
	say("MPI_Allgather all_gather - int32 1 4 %d - 0 %d - -", 4 * size_of(half), size_of(half));
	MPI_Allgather(given, 1, MPI_INT, got, 1, MPI_INT, half);
	MPI_Comm_free(&half);
	MPI_Comm_free(&same);
	say("MPI_Bcast broadcast - uint8 1 1 1 0 1 1 - -");
	MPI_Bcast(given, 1, MPI_UNSIGNED_CHAR, 0, MPI_COMM_SELF);
}

/* --- scans, neighbours, windows ------------------------------------------------------------------- */

static void scans(void)
{
	MPI_Request request;

	say("MPI_Scan scan sum float64 5 40 40 - 0 %d - -", size);
	MPI_Scan(given, got, 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	say("MPI_Exscan exclusive_scan max int32 4 16 16 - 1 %d - -", size);
	MPI_Exscan(MPI_IN_PLACE, got, 4, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	say("MPI_Iscan scan min float32 3 12 12 - 0 %d - -", size);
	MPI_Iscan(given, got, 3, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* On a ring: how many neighbours there are only the topology knows. */
static void neighbors(void)
{
	int around = 1;
	MPI_Comm ring;

	MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &around, 0, &ring);
	say("MPI_Neighbor_allgather neighbor_all_gather - int32 3 12 - - 0 %d - -", size_of(ring));
	MPI_Neighbor_allgather(given, 3, MPI_INT, got, 3, MPI_INT, ring);
	say("MPI_Neighbor_alltoall neighbor_all_to_all - float64 - - - - 0 %d - -", size);
	MPI_Neighbor_alltoall(given, 2, MPI_DOUBLE, got, 2, MPI_DOUBLE, ring);
	MPI_Comm_free(&ring);
}

static void windows(void)
{
	int next = (rank + 1) % size;
	double here[4] = {0};
	MPI_Win window;

	MPI_Win_create(got, sizeof(got), sizeof(*got), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	say("MPI_Win_fence barrier - - 0 0 0 - 0 %d - -", size);
	MPI_Win_fence(0, window);
	say("MPI_Put put - float64 2 16 0 %d 0 %d - -", next, size);
	MPI_Put(given, 2, MPI_DOUBLE, next, 0, 2, MPI_DOUBLE, window);
	say("MPI_Accumulate accumulate sum int32 3 12 0 %d 0 %d - -", next, size);
	MPI_Accumulate(given, 3, MPI_INT, next, 8, 3, MPI_INT, MPI_SUM, window);
	say("MPI_Get get - float64 4 32 32 %d 0 %d - -", next, size);
	MPI_Get(here, 4, MPI_DOUBLE, next, 16, 4, MPI_DOUBLE, window);
	say("MPI_Win_fence barrier - - 0 0 0 - 0 %d - -", size);
	MPI_Win_fence(0, window);
	say("MPI_Fetch_and_op get_accumulate sum int64 1 8 8 %d 0 %d - -", next, size);
	MPI_Fetch_and_op(given, got, MPI_LONG, next, 24, MPI_SUM, window);
	say("MPI_Compare_and_swap get_accumulate - int32 1 4 4 %d 0 %d - -", next, size);
	MPI_Compare_and_swap(given, given, here, MPI_INT, next, 32, window);
	say("MPI_Win_fence barrier - - 0 0 0 - 0 %d - -", size);
	MPI_Win_fence(0, window);
	MPI_Win_free(&window);
}

#if MPI_VERSION >= 4
#define PREPARE(name) MPI_##name
#define PREPARED_BY "MPI_"
#else /* Open MPI has them as an extension */
#include <mpi-ext.h>
#define PREPARE(name) MPIX_##name
#define PREPARED_BY "MPIX_"
#endif

/* A request that another function prepared, in a variable that is gone. */
__attribute__((noinline)) static MPI_Request sum_prepared(int count)
{
	MPI_Request request;

	PREPARE(Allreduce_init)(given, got, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	return request;
}

/* Nothing is sent when a request is prepared, only whenever it is started. */
static void persistent(void)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	MPI_Request pair[2], sum = sum_prepared(7), barrier;

	MPI_Recv_init(got, 9, MPI_FLOAT, previous, 11, MPI_COMM_WORLD, &pair[0]);
	MPI_Send_init(given, 9, MPI_FLOAT, next, 11, MPI_COMM_WORLD, &pair[1]);
	PREPARE(Barrier_init)(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier);
	for (int turn = 0; turn < 3; turn++) {
		say("MPI_Recv_init receive - float32 9 36 36 %d 0 %d - -", previous, size);
		say("MPI_Send_init send - float32 9 36 0 %d 0 %d - -", next, size);
		MPI_Startall(2, pair);
		MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
		say(PREPARED_BY "Allreduce_init all_reduce sum float64 7 56 56 - 0 %d - -", size);
		MPI_Start(&sum);
		MPI_Wait(&sum, MPI_STATUS_IGNORE);
		say(PREPARED_BY "Barrier_init barrier - - 0 0 0 - 0 %d - -", size);
		MPI_Start(&barrier);
		MPI_Wait(&barrier, MPI_STATUS_IGNORE);
	}
	MPI_Request_free(&pair[0]);
	MPI_Request_free(&pair[1]);
	MPI_Request_free(&sum);
	MPI_Request_free(&barrier);
}

static void *other_thread(void *argument)
{
	MPI_Comm communicator = *(MPI_Comm *)argument;

	MPI_Allreduce(given, got, 33, MPI_INT, MPI_SUM, communicator);
	return NULL;
}

/* Two threads at once, each on a communicator of its own: both are logged first. */
static void threads(int provided)
{
	MPI_Comm communicators[2];
	pthread_t thread;

	if (provided != MPI_THREAD_MULTIPLE)
		return;
	for (int i = 0; i < 2; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &communicators[i]);
		say("MPI_Allreduce all_reduce sum int32 33 132 132 - 0 %d - -", size);
	}
	pthread_create(&thread, NULL, other_thread, &communicators[0]);
	MPI_Allreduce(given + 2 * ELEMENTS, got + 2 * ELEMENTS, 33, MPI_INT, MPI_SUM, communicators[1]);
	pthread_join(thread, NULL);
}

static void alone(void)
{
	reduce("max", MPI_MAX, "float32", MPI_FLOAT, 5);
	say("MPI_Allgather all_gather - float64 4 32 32 - 1 1 - -");
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, 4, MPI_DOUBLE, MPI_COMM_WORLD);
	say("MPI_Bcast broadcast - int32 3 12 12 0 1 1 - -");
	MPI_Bcast(given, 3, MPI_INT, 0, MPI_COMM_SELF);
}

static void loop(void)
{
	for (int step = 0;; step++) {
		MPI_Allreduce(given, got, 12, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		printf("step %d\n", step);
		fflush(stdout);
		usleep(STEP_MICROSECONDS);
	}
}

static void all(int provided)
{
	reductions();
	uneven();
	movements();
	large();
	later();
	pairs();
	communicators();
	scans();
	neighbors();
	windows();
	persistent();
	threads(provided);
}

int main(int count, char **arguments)
{
	const char *mode = count > 2 ? arguments[2] : "";
	char path[4096];
	int provided;

	if (count < 2)
		return 2;
	MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size > RANKS_MAX)
		MPI_Abort(MPI_COMM_WORLD, 2);
	if (strcmp(mode, "alone"))
		usleep(FIRST_MICROSECONDS);
	if (!strcmp(mode, "loop"))
		loop();
	snprintf(path, sizeof(path), "%s/%d.log", arguments[1], rank);
	log_file = fopen(path, "w");
	if (!log_file)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (!strcmp(mode, "alone"))
		alone();
	else
		all(provided);
	fclose(log_file);
	MPI_Finalize();
	return 0;
}
