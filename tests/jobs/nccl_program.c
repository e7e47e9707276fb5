/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of NCCL without PyTorch, for tests of which calls are seen:
 *
 *     nccl_program RANK ID
 *
 * is one of two ranks, which meet by a text. Prints `stream RANK NUMBER`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 2
#define ID_BYTES 128
#define BYTES 4096

/* nccl.h */
enum { INT32 = 2, UINT8 = 1, INT64 = 4, FLOAT16 = 6, FLOAT32 = 7, FLOAT64 = 8, BFLOAT16 = 9 };
enum { SUM = 0, MAX = 2, MIN = 3, AVERAGE = 4, FIRST_OWN = 5 };

struct id {
	char bytes[ID_BYTES];
};

int ncclCommInitRank(void **communicator, int ranks, struct id id, int rank);
int ncclCommDestroy(void *communicator);
int ncclRedOpCreatePreMulSum(int *operation, void *scalar, int type, int residence, void *communicator);
int ncclAllReduce(
	const void *input, void *output, size_t count, int type, int operation, void *communicator, void *stream);
int ncclBcast(void *buffer, size_t count, int type, int root, void *communicator, void *stream);
int ncclAllGather(const void *input, void *output, size_t count, int type, void *communicator, void *stream);
int ncclReduceScatter(
	const void *input, void *output, size_t count, int type, int operation, void *communicator, void *stream);
int ncclSend(const void *buffer, size_t count, int type, int peer, void *communicator, void *stream);
int ncclRecv(void *buffer, size_t count, int type, int peer, void *communicator, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int cudaSetDevice(int device);
int cudaStreamCreateWithPriority(void **stream, unsigned int flags, int priority);
int cudaStreamSynchronize(void *stream);

static char given[BYTES], got[BYTES];

static void work(int rank, struct id id)
{
	void *communicator, *stream;
	int own = FIRST_OWN;
	float half = 0.5f;

	cudaSetDevice(rank);
	cudaStreamCreateWithPriority(&stream, 1, 0);
	printf("stream %d %zu\n", rank, (size_t)stream);
	fflush(stdout);
	ncclCommInitRank(&communicator, RANKS, id, rank);
	ncclAllReduce(given, given, 10, FLOAT32, SUM, communicator, stream);
	ncclRedOpCreatePreMulSum(&own, &half, FLOAT16, 0, communicator);
	ncclAllReduce(given, got, 10, FLOAT16, own, communicator, stream);
	ncclBcast(given, 9, UINT8, 1, communicator, stream);
	ncclAllGather(got + rank * 8, got, 4, BFLOAT16, communicator, stream);
	ncclReduceScatter(given, given + rank * 32, 4, INT64, AVERAGE, communicator, stream);
	ncclGroupStart();
	for (int peer = 0; peer < RANKS; peer++) {
		ncclSend(given + 100 * peer, (size_t)peer + 1, FLOAT64, peer, communicator, stream);
		ncclRecv(got + 100 * peer, (size_t)rank + 1, FLOAT64, peer, communicator, stream);
	}
	ncclGroupEnd();
	ncclGroupStart();
	for (int turn = 0; turn < 2; turn++) {
		if (rank == 0)
			ncclSend(given, 3, INT32, 1, communicator, stream);
		else
			ncclRecv(got, 3, INT32, 0, communicator, stream);
	}
	ncclGroupEnd();
	ncclGroupStart();
	ncclAllReduce(given, given, 2, INT32, MAX, communicator, stream);
	ncclAllReduce(got, got, 2, INT32, MIN, communicator, stream);
	ncclGroupEnd();
	cudaStreamSynchronize(stream);
	ncclCommDestroy(communicator);
}

int main(int count, char **arguments)
{
	struct id id = {{0}};
	int rank;

	if (count != 3)
		return 2;
	rank = (int)strtol(arguments[1], NULL, 10);
	strncpy(id.bytes, arguments[2], ID_BYTES - 1);
	sleep(1); /* so that a tracer finds what was started by another program */
	work(rank, id);
	return 0;
}
