/*
 * Stand-in for libnccl.so.2 (2.22). The ranks of a communicator meet in a file in /dev/shm
 * that is named by the unique id, and a collective is done when the last of them came to
 * it, plus the time that its bytes take: a late rank delays all, one that never comes
 * hangs them, as on GPUs. Messages up to PART_BYTES of a rank bring their data along
 * (DistributedDataParallel compares parameters); larger ones only take time.
 *
 * A thread for each communicator does its collectives in order.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../arrival.h"
#include "nccl.h"

enum {
	VERSION = 22203,
	UNIQUE_ID_BYTES = 128,
	UNIQUE_ID_RANDOM = 16,
	NAME_BYTES = 64,
	MEETINGS = 65535, /* used in turns */
	PLACES = 64,      /* for data, used in turns */
	PART_BYTES = 128 << 10,
	START_NS = 10000,
	BYTES_PER_NS = 100,
	POLL_NS = 20000,
	JOIN_POLL_NS = 200000,
};

struct unique_id {
	uint8_t bytes[UNIQUE_ID_BYTES];
};

/* What the ranks share, zeroed at first. The data follows: PLACES of a part for each rank. */
struct shared {
	uint32_t joined;
	struct arrival meetings[MEETINGS];
	struct {
		uint32_t left;  /* ranks that are done with this use of the place */
		uint32_t turns; /* uses that all ranks are done with */
	} places[PLACES];
};

struct communicator {
	int rank, ranks;
	uint64_t operations;
	struct shared *shared;
	char name[NAME_BYTES];
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct operation *queue;
};

/* --- the worker --------------------------------------------------------------------- */

static char *part_of(struct communicator *communicator, uint64_t number, int rank)
{
	size_t place = (size_t)(number % PLACES) * (size_t)communicator->ranks + (size_t)rank;
	return (char *)(communicator->shared + 1) + place * PART_BYTES;
}

#define ADD_AS(element)                                                                                                \
	for (size_t place = 0; place < bytes / sizeof(element); place++)                                               \
	((element *)sum)[place] += ((const element *)part)[place]

/* Types that nothing here reduces keep the first rank's values. */
static void add(void *sum, const void *part, size_t bytes, enum type type)
{
	switch (type) {
	case TYPE_FLOAT32:
		ADD_AS(float);
		break;
	case TYPE_INT64:
	case TYPE_UINT64:
		ADD_AS(uint64_t);
		break;
	case TYPE_INT32:
	case TYPE_UINT32:
		ADD_AS(uint32_t);
		break;
	}
}

/* Wait until all ranks are done with what this place was used for before. */
static void wait_for_place(struct communicator *communicator, uint64_t number)
{
	const uint32_t *turns = &communicator->shared->places[number % PLACES].turns;
	while (__atomic_load_n(turns, __ATOMIC_ACQUIRE) != (uint32_t)(number / PLACES))
		standin_sleep(POLL_NS);
}

static void leave_place(struct communicator *communicator, uint64_t number)
{
	uint32_t *left = &communicator->shared->places[number % PLACES].left;
	if (__atomic_add_fetch(left, 1, __ATOMIC_SEQ_CST) != (uint32_t)communicator->ranks)
		return;
	*left = 0;
	__atomic_add_fetch(&communicator->shared->places[number % PLACES].turns, 1, __ATOMIC_RELEASE);
}

/* Come to the meeting of an operation and wait for the others; gives when the last one came. */
static uint64_t meet(struct communicator *communicator, uint64_t number)
{
	struct arrival *meeting = &communicator->shared->meetings[number % MEETINGS];
	uint64_t now = standin_now(), latest = meeting->latest;
	uint32_t wanted = (uint32_t)((number / MEETINGS + 1) * (uint64_t)communicator->ranks);
	while (latest < now &&
		!__atomic_compare_exchange_n(&meeting->latest, &latest, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	__atomic_add_fetch(&meeting->count, 1, __ATOMIC_SEQ_CST);
	while ((int32_t)(meeting->count - wanted) < 0)
		standin_sleep(POLL_NS);
	return meeting->latest;
}

static void bring_data(struct communicator *communicator, const struct operation *operation)
{
	char *output = operation->output;
	size_t bytes = operation->bytes;
	switch (operation->collective) {
	case ALL_REDUCE:
		memcpy(output, part_of(communicator, operation->number, 0), bytes);
		for (int rank = 1; rank < communicator->ranks; rank++)
			add(output, part_of(communicator, operation->number, rank), bytes, operation->type);
		break;
	case ALL_GATHER:
		for (int rank = 0; rank < communicator->ranks; rank++)
			memcpy(output + (size_t)rank * bytes, part_of(communicator, operation->number, rank), bytes);
		break;
	case BROADCAST:
		memcpy(output, part_of(communicator, operation->number, operation->root), bytes);
		break;
	case TIME_ONLY:
		break;
	}
}

/* A large message: this rank's own part goes to where it belongs. */
static void bring_own_data(struct communicator *communicator, const struct operation *operation)
{
	if (operation->collective == ALL_REDUCE)
		memmove(operation->output, operation->input, operation->bytes);
	else if (operation->collective == ALL_GATHER)
		memmove((char *)operation->output + (size_t)communicator->rank * operation->bytes, operation->input,
			operation->bytes);
}

static void run(struct communicator *communicator, struct operation *operation)
{
	int has_data = operation->bytes <= PART_BYTES;
	wait_for_place(communicator, operation->number);
	if (has_data)
		memcpy(part_of(communicator, operation->number, communicator->rank), operation->input,
			operation->bytes);
	uint64_t latest = meet(communicator, operation->number);
	if (has_data)
		bring_data(communicator, operation);
	else
		bring_own_data(communicator, operation);
	leave_place(communicator, operation->number);
	operation->done->latest = latest;
	__atomic_store_n(&operation->done->count, 1, __ATOMIC_SEQ_CST);
}

static struct operation *take(struct communicator *communicator)
{
	pthread_mutex_lock(&communicator->lock);
	while (!communicator->queue)
		pthread_cond_wait(&communicator->more, &communicator->lock);
	struct operation *operation = communicator->queue;
	communicator->queue = operation->next;
	pthread_mutex_unlock(&communicator->lock);
	return operation;
}

static void *work(void *argument)
{
	for (;;) {
		struct operation *operation = take(argument);
		run(argument, operation);
		free(operation); /* but not its arrival, which the stream may still ask for */
	}
	return NULL;
}

/* --- the queue -------------------------------------------------------------------------- */

int communicator_rank(const struct communicator *communicator)
{
	return communicator->rank;
}

uint64_t message_duration(size_t bytes)
{
	return START_NS + bytes / BYTES_PER_NS;
}

void communicator_enqueue(struct communicator *communicator, struct operation what, void *stream)
{
	struct operation *operation = malloc(sizeof(*operation)), **end;
	struct arrival *done = calloc(1, sizeof(*done));
	if (!operation || !done)
		abort();
	*operation = what;
	operation->done = done;
	pthread_mutex_lock(&communicator->lock);
	operation->number = communicator->operations++;
	for (end = &communicator->queue; *end; end = &(*end)->next)
		;
	*end = operation;
	pthread_cond_signal(&communicator->more);
	pthread_mutex_unlock(&communicator->lock);
	standin_stream_append(stream, message_duration(what.bytes), done, 1);
}

/* --- communicators --------------------------------------------------------------------- */

EXPORT int ncclGetVersion(int *version)
{
	*version = VERSION;
	return SUCCESS;
}

EXPORT int ncclGetUniqueId(struct unique_id *id)
{
	memset(id, 0, sizeof(*id));
	return getentropy(id->bytes, UNIQUE_ID_RANDOM) ? ERROR_SYSTEM : SUCCESS;
}

static struct shared *map_shared(const char *name, int ranks)
{
	size_t bytes = sizeof(struct shared) + (size_t)PLACES * (size_t)ranks * PART_BYTES;
	int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0)
		return NULL;
	void *mapped = MAP_FAILED;
	if (!ftruncate(file, (off_t)bytes))
		mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	return mapped == MAP_FAILED ? NULL : mapped;
}

static void join(struct shared *shared, int ranks)
{
	__atomic_add_fetch(&shared->joined, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->joined, __ATOMIC_SEQ_CST) < (uint32_t)ranks)
		standin_sleep(JOIN_POLL_NS);
}

EXPORT int ncclCommInitRankConfig(
	struct communicator **made, int ranks, struct unique_id id, int rank, void *configuration)
{
	struct communicator *communicator = calloc(1, sizeof(*communicator));
	pthread_t thread;
	if (!communicator)
		abort();
	communicator->rank = rank;
	communicator->ranks = ranks;
	int length = snprintf(communicator->name, NAME_BYTES, "/dev/shm/standin-nccl-");
	for (int place = 0; place < UNIQUE_ID_RANDOM; place++)
		length += snprintf(communicator->name + length, 3, "%02x", id.bytes[place]);
	communicator->shared = map_shared(communicator->name, ranks);
	if (!communicator->shared) {
		free(communicator);
		return ERROR_SYSTEM;
	}
	join(communicator->shared, ranks);
	pthread_mutex_init(&communicator->lock, NULL);
	pthread_cond_init(&communicator->more, NULL);
	pthread_create(&thread, NULL, work, communicator);
	*made = communicator;
	return SUCCESS;
}

EXPORT int ncclCommInitRank(struct communicator **made, int ranks, struct unique_id id, int rank)
{
	return ncclCommInitRankConfig(made, ranks, id, rank, NULL);
}

EXPORT int ncclCommCount(const struct communicator *communicator, int *ranks)
{
	*ranks = communicator->ranks;
	return SUCCESS;
}

EXPORT int ncclCommUserRank(const struct communicator *communicator, int *rank)
{
	*rank = communicator->rank;
	return SUCCESS;
}

EXPORT int ncclCommGetAsyncError(struct communicator *communicator, int *error)
{
	*error = SUCCESS;
	return SUCCESS;
}

/* The worker may still wait for ranks that never come: only the name goes. */
EXPORT int ncclCommDestroy(struct communicator *communicator)
{
	unlink(communicator->name);
	return SUCCESS;
}

EXPORT int ncclCommAbort(struct communicator *communicator)
{
	return ncclCommDestroy(communicator);
}

EXPORT const char *ncclGetErrorString(int error)
{
	return error ? "error of the stand-in NCCL" : "no error";
}

EXPORT const char *ncclGetLastError(void *communicator)
{
	return "";
}
