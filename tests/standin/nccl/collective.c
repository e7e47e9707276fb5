/* The collectives that programs call: each becomes an operation of its communicator. */
#include <string.h>

#include "../arrival.h"
#include "nccl.h"

static const uint8_t type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static int enqueue(struct communicator *communicator, struct operation operation, void *stream)
{
	communicator_enqueue(communicator, operation, stream);
	return SUCCESS;
}

EXPORT int ncclAllReduce(const void *input, void *output, size_t count, enum type type, int operator,
	struct communicator * communicator, void *stream)
{
	return enqueue(communicator,
		(struct operation){.collective = ALL_REDUCE,
			.type = type,
			.input = input,
			.output = output,
			.bytes = count * type_bytes[type]},
		stream);
}

EXPORT int ncclAllGather(
	const void *input, void *output, size_t count, enum type type, struct communicator *communicator, void *stream)
{
	return enqueue(communicator,
		(struct operation){.collective = ALL_GATHER,
			.type = type,
			.input = input,
			.output = output,
			.bytes = count * type_bytes[type]},
		stream);
}

EXPORT int ncclReduceScatter(const void *input, void *output, size_t count, enum type type, int operator,
	struct communicator * communicator, void *stream)
{
	size_t bytes = count * type_bytes[type];
	memmove(output, (const char *)input + (size_t)communicator_rank(communicator) * bytes, bytes);
	return enqueue(communicator,
		(struct operation){.collective = TIME_ONLY, .input = input, .output = output, .bytes = bytes}, stream);
}

EXPORT int ncclBroadcast(const void *input, void *output, size_t count, enum type type, int root,
	struct communicator *communicator, void *stream)
{
	return enqueue(communicator,
		(struct operation){.collective = BROADCAST,
			.input = input,
			.output = output,
			.bytes = count * type_bytes[type],
			.root = root},
		stream);
}

EXPORT int ncclBcast(
	void *buffer, size_t count, enum type type, int root, struct communicator *communicator, void *stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}

EXPORT int ncclReduce(const void *input, void *output, size_t count, enum type type, int operator, int root,
	struct communicator *communicator, void *stream)
{
	return enqueue(communicator,
		(struct operation){
			.collective = TIME_ONLY, .input = input, .output = output, .bytes = count * type_bytes[type]},
		stream);
}

/* Messages between two ranks take time, and wait for nobody. */
EXPORT int ncclSend(
	const void *buffer, size_t count, enum type type, int peer, struct communicator *communicator, void *stream)
{
	standin_stream_append(stream, message_duration(count * type_bytes[type]), NULL, 0);
	return SUCCESS;
}

EXPORT int ncclRecv(
	void *buffer, size_t count, enum type type, int peer, struct communicator *communicator, void *stream)
{
	standin_stream_append(stream, message_duration(count * type_bytes[type]), NULL, 0);
	return SUCCESS;
}
