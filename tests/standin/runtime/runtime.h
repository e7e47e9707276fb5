/* The insides of the runtime's stand-in: error codes, streams. */
#ifndef STANDIN_RUNTIME_H
#define STANDIN_RUNTIME_H

#include "../standin.h"

/* cudaError_t */
enum {
	SUCCESS = 0,
	ERROR_INVALID_VALUE = 1,
	ERROR_MEMORY_ALLOCATION = 2,
	ERROR_NO_DEVICE = 100,
	ERROR_INVALID_DEVICE = 101,
	ERROR_NOT_READY = 600,
};

struct dim3 {
	unsigned x, y, z;
};

/* A piece of work on a stream, in time; see timeline.c. */
struct work;

/* What a stream captured: kernels and copies, and how long they take together. */
struct graph {
	uint64_t id, nodes, duration;
};

struct stream {
	struct stream *next;
	int device, priority;
	struct graph *captured; /* while it is captured, else NULL */
	struct work *last;
};

/* Remember an error for cudaGetLastError; returns it. */
int fail(int error);

/* The stream of a handle: one that was made, or the current device's own for 0, 1, 2. */
struct stream *stream_of(void *handle);

/* Work of a duration begins when all before it on the stream is done. */
void stream_append(struct stream *stream, uint64_t duration);
void stream_wait_all_done(struct stream *stream);

/* Wait until it is known when the stream's work ends: until other ranks came to its collectives. */
void stream_wait_known(struct stream *stream);

/* Streams, events and captures are looked at and changed under one lock. */
void timeline_lock(void);
void timeline_unlock(void);
extern struct stream *made_streams;

/* Under the lock: whether a graph is still being captured. */
int capture_is_open(const struct graph *graph);

/* How long a kernel runs, in nanoseconds. */
uint64_t kernel_duration(void);

#endif
