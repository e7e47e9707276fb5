/* The insides of the collectives' stand-in. */
#ifndef STANDIN_NCCL_H
#define STANDIN_NCCL_H

#include "../standin.h"

/* ncclResult_t */
enum {
	SUCCESS = 0,
	ERROR_SYSTEM = 2,
};

/* ncclDataType_t */
enum type {
	TYPE_INT32 = 2,
	TYPE_UINT32 = 3,
	TYPE_INT64 = 4,
	TYPE_UINT64 = 5,
	TYPE_FLOAT32 = 7,
};

enum collective {
	ALL_REDUCE,
	ALL_GATHER,
	BROADCAST,
	TIME_ONLY,
};

struct operation {
	struct operation *next;
	enum collective collective;
	enum type type;
	const void *input;
	void *output;
	size_t bytes; /* of one rank's part */
	int root;
	uint64_t number; /* the same on all ranks */
	struct arrival *done;
};

struct communicator;

/* Have the communicator's thread do an operation; it begins when all ranks came to it. */
void communicator_enqueue(struct communicator *communicator, struct operation operation, void *stream);
int communicator_rank(const struct communicator *communicator);

/* How long a message of so many bytes takes, in nanoseconds. */
uint64_t message_duration(size_t bytes);

#endif
