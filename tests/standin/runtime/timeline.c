/*
 * Virtual time. A stream is a chain of pieces of work; a piece begins when it was issued,
 * the one before it has ended, and what it waits for (an event, the other ranks of a
 * collective) has come. Its end is worked out when somebody asks, from these alone: no
 * thread runs along. Events keep a piece of work; the clock tells whether it is done.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "../arrival.h"
#include "runtime.h"

#define UNKNOWN UINT64_MAX
#define POLL_UNKNOWN_NS 50000
#define DEFAULT_KERNEL_NS 5000
/* The legacy and the per-thread default stream; both are the device's own here. */
#define SPECIAL_STREAM_MAX 2

struct work {
	int references;
	struct work *before, *awaited; /* until the end is known */
	struct arrival *arrival;
	uint32_t arrivals;
	uint64_t issued, duration, end; /* end: 0 while it is unknown */
};

struct event {
	struct work *work;
	struct graph *captured; /* the capture that it was recorded in */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream device_streams[STANDIN_DEVICES_MAX];
struct stream *made_streams;
static uint64_t kernel_ns = DEFAULT_KERNEL_NS;
/* With STANDIN_CLOCK=waits time stands still but for waits, so that two runs see the same, however slow the machine. */
static bool clock_is_waits;
static uint64_t waited_until = 1;

__attribute__((constructor)) static void read_settings(void)
{
	const char *microseconds = standin_setting("STANDIN_KERNEL_US", "FAKE_KERNEL_US");
	if (microseconds)
		kernel_ns = (uint64_t)(strtod(microseconds, NULL) * 1000);
	const char *clock = getenv("STANDIN_CLOCK");
	clock_is_waits = clock && strcmp(clock, "waits") == 0;
	for (int device = 0; device < STANDIN_DEVICES_MAX; device++)
		device_streams[device].device = device;
}

void timeline_lock(void)
{
	pthread_mutex_lock(&lock);
}

void timeline_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static uint64_t device_now(void)
{
	return clock_is_waits ? __atomic_load_n(&waited_until, __ATOMIC_SEQ_CST) : standin_now();
}

static void pass_until(uint64_t end)
{
	uint64_t now = device_now();
	while (now < end &&
		!__atomic_compare_exchange_n(&waited_until, &now, end, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

uint64_t kernel_duration(void)
{
	return kernel_ns;
}

/* --- work; the lock is held ------------------------------------------------------- */

static void work_drop(struct work *work)
{
	while (work && --work->references == 0) {
		struct work *before = work->before;
		work_drop(work->awaited);
		free(work);
		work = before;
	}
}

static struct work *work_keep(struct work *work)
{
	if (work)
		work->references++;
	return work;
}

static uint64_t later(uint64_t left, uint64_t right)
{
	return left > right ? left : right;
}

/* When a piece of work ends, or UNKNOWN. Once known, what came before it is forgotten. */
static uint64_t work_end(struct work *work)
{
	if (!work)
		return 0;
	if (work->end)
		return work->end;
	uint64_t before = work_end(work->before), awaited = work_end(work->awaited);
	if (before == UNKNOWN || awaited == UNKNOWN || (work->arrival && work->arrival->count < work->arrivals))
		return UNKNOWN;
	uint64_t begin = later(work->issued, later(before, awaited));
	if (work->arrival)
		begin = later(begin, work->arrival->latest);
	work->end = begin + work->duration;
	work_drop(work->before);
	work_drop(work->awaited);
	work->before = work->awaited = NULL;
	return work->end;
}

static void append(struct stream *stream, struct work piece)
{
	struct work *work = malloc(sizeof(*work));
	if (!work)
		abort();
	*work = piece;
	work->references = 1;
	work->issued = device_now();
	work->before = stream->last;
	stream->last = work;
	work_end(work);
}

/* --- streams ------------------------------------------------------------------------ */

struct stream *stream_of(void *handle)
{
	if ((uintptr_t)handle <= SPECIAL_STREAM_MAX)
		return &device_streams[standin_current_device()];
	return handle;
}

EXPORT void standin_stream_append(void *handle, uint64_t duration, struct arrival *arrival, uint32_t wanted)
{
	struct stream *stream = stream_of(handle);
	timeline_lock();
	if (stream->captured) {
		stream->captured->nodes++;
		stream->captured->duration += duration;
	} else {
		append(stream, (struct work){.duration = duration, .arrival = arrival, .arrivals = wanted});
	}
	timeline_unlock();
}

void stream_append(struct stream *stream, uint64_t duration)
{
	standin_stream_append(stream, duration, NULL, 0);
}

static uint64_t end_of(struct work *work)
{
	timeline_lock();
	uint64_t end = work_end(work);
	timeline_unlock();
	return end;
}

static uint64_t stream_end(struct stream *stream)
{
	timeline_lock();
	uint64_t end = work_end(stream->last);
	timeline_unlock();
	return end;
}

/* Sleep towards an end; 0 when it has passed. */
static int wait_a_bit(uint64_t end)
{
	uint64_t now = device_now();
	if (end <= now)
		return 0;
	if (end == UNKNOWN)
		standin_sleep(POLL_UNKNOWN_NS);
	else if (clock_is_waits)
		pass_until(end);
	else
		standin_sleep(end - now);
	return 1;
}

void stream_wait_all_done(struct stream *stream)
{
	while (wait_a_bit(stream_end(stream)))
		;
}

void stream_wait_known(struct stream *stream)
{
	while (stream_end(stream) == UNKNOWN)
		standin_sleep(POLL_UNKNOWN_NS);
}

static uint64_t device_end(int device)
{
	timeline_lock();
	uint64_t end = work_end(device_streams[device].last);
	for (struct stream *stream = made_streams; stream; stream = stream->next)
		if (stream->device == device)
			end = later(end, work_end(stream->last));
	timeline_unlock();
	return end;
}

EXPORT int cudaDeviceSynchronize(void)
{
	while (wait_a_bit(device_end(standin_current_device())))
		;
	return SUCCESS;
}

EXPORT int cudaStreamCreateWithPriority(struct stream **made, unsigned flags, int priority)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		abort();
	stream->device = standin_current_device();
	stream->priority = priority;
	timeline_lock();
	stream->next = made_streams;
	made_streams = stream;
	timeline_unlock();
	*made = stream;
	return SUCCESS;
}

EXPORT int cudaStreamCreateWithFlags(struct stream **made, unsigned flags)
{
	return cudaStreamCreateWithPriority(made, flags, 0);
}

EXPORT int cudaStreamCreate(struct stream **made)
{
	return cudaStreamCreateWithPriority(made, 0, 0);
}

EXPORT int cudaStreamDestroy(struct stream *stream)
{
	timeline_lock();
	for (struct stream **place = &made_streams; *place; place = &(*place)->next)
		if (*place == stream) {
			*place = stream->next;
			work_drop(stream->last);
			free(stream);
			break;
		}
	timeline_unlock();
	return SUCCESS;
}

EXPORT int cudaStreamGetPriority(void *handle, int *priority)
{
	*priority = stream_of(handle)->priority;
	return SUCCESS;
}

EXPORT int cudaStreamQuery(void *handle)
{
	return stream_end(stream_of(handle)) <= device_now() ? SUCCESS : ERROR_NOT_READY;
}

EXPORT int cudaStreamSynchronize(void *handle)
{
	stream_wait_all_done(stream_of(handle));
	return SUCCESS;
}

EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return SUCCESS;
}

/* The host's function runs at once: nothing here depends on when it does. */
EXPORT int cudaLaunchHostFunc(void *handle, void (*function)(void *), void *argument)
{
	function(argument);
	return SUCCESS;
}

/* --- events ------------------------------------------------------------------------- */

EXPORT int cudaEventCreateWithFlags(struct event **event, unsigned flags)
{
	*event = calloc(1, sizeof(**event));
	return *event ? SUCCESS : fail(ERROR_MEMORY_ALLOCATION);
}

EXPORT int cudaEventCreate(struct event **event)
{
	return cudaEventCreateWithFlags(event, 0);
}

EXPORT int cudaEventDestroy(struct event *event)
{
	timeline_lock();
	work_drop(event->work);
	timeline_unlock();
	free(event);
	return SUCCESS;
}

EXPORT int cudaEventRecord(struct event *event, void *handle)
{
	struct stream *stream = stream_of(handle);
	timeline_lock();
	event->captured = stream->captured;
	if (!stream->captured) {
		append(stream, (struct work){0});
		work_drop(event->work);
		event->work = work_keep(stream->last);
	}
	timeline_unlock();
	return SUCCESS;
}

EXPORT int cudaEventRecordWithFlags(struct event *event, void *handle, unsigned flags)
{
	return cudaEventRecord(event, handle);
}

EXPORT int cudaEventQuery(struct event *event)
{
	return end_of(event->work) <= device_now() ? SUCCESS : ERROR_NOT_READY;
}

EXPORT int cudaEventSynchronize(struct event *event)
{
	while (wait_a_bit(end_of(event->work)))
		;
	return SUCCESS;
}

EXPORT int cudaEventElapsedTime(float *milliseconds, struct event *from, struct event *to)
{
	*milliseconds = (float)((double)(int64_t)(end_of(to->work) - end_of(from->work)) / 1e6);
	return SUCCESS;
}

/* A stream that waits for an event of a capture becomes part of the capture. */
EXPORT int cudaStreamWaitEvent(void *handle, struct event *event, unsigned flags)
{
	struct stream *stream = stream_of(handle);
	timeline_lock();
	if (event->captured && capture_is_open(event->captured))
		stream->captured = event->captured;
	else if (!stream->captured && event->work)
		append(stream, (struct work){.awaited = work_keep(event->work)});
	timeline_unlock();
	return SUCCESS;
}
