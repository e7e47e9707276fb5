// SPDX-License-Identifier: BSD-2-Clause
/* perf_event_open(2) with mmap2, comm_exec and task records, one ring for each CPU. */
#include "target/watch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "containers/containers.h"

/* A record of another CPU may be so much older than the clock and not be in its ring yet. */
#define SETTLE_NANOSECONDS 1000000u
#define RING_PAGES 16 /* a power of two; a busy machine maps a few thousand files a second */

struct cpu_ring {
	int fd;
	struct perf_event_mmap_page *control;
};

/* An event that waits until nothing earlier can come from another CPU. */
struct waiting_event {
	struct watch_event event;
	uint64_t number; /* in order of reading */
};

struct watch {
	struct waiting_event *waiting; /* stb_ds */
	uint64_t number;
	int epoll;
	size_t page_size;
	int cpu_count;
	struct cpu_ring rings[];
};

/* Body of PERF_RECORD_FORK; the other kinds start with pid and tid as well. */
struct fork_record {
	struct perf_event_header header;
	uint32_t pid, parent;
	uint32_t tid, parent_tid;
};

/* Offset of the file's path in PERF_RECORD_MMAP2: header, ids, addresses, inode or build-id, protection. */
#define MMAP_RECORD_NAME 72

static int ring_open(struct watch *watch, int cpu)
{
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attributes),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1, /* the time is the last word of every record */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1, /* side-band records do not count as wake-up events */
		.wakeup_watermark = 1,
	};
	struct cpu_ring *ring = &watch->rings[watch->cpu_count];
	struct epoll_event interest = {.events = EPOLLIN};
	void *pages;

	ring->fd = (int)syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return errno == ENODEV ? 0 : -errno; /* an offline CPU maps nothing */
	watch->cpu_count++;
	pages = mmap(NULL, (RING_PAGES + 1) * watch->page_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (pages == MAP_FAILED)
		return -errno;
	ring->control = pages;
	return epoll_ctl(watch->epoll, EPOLL_CTL_ADD, ring->fd, &interest) ? -errno : 0;
}

int watch_open(struct watch **out)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct watch *watch = calloc(1, sizeof(*watch) + (size_t)cpus * sizeof(watch->rings[0]));
	int error;

	*out = NULL;
	if (!watch)
		return -ENOMEM;
	watch->page_size = (size_t)sysconf(_SC_PAGESIZE);
	watch->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll < 0) {
		error = -errno;
		goto cleanup;
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		error = ring_open(watch, cpu);
		if (error)
			goto cleanup;
	}
	*out = watch;
	return 0;
cleanup:
	watch_close(watch);
	return error;
}

void watch_close(struct watch *watch)
{
	if (!watch)
		return;
	for (int index = 0; index < watch->cpu_count; index++) {
		if (watch->rings[index].control)
			munmap(watch->rings[index].control, (RING_PAGES + 1) * watch->page_size);
		close(watch->rings[index].fd);
	}
	if (watch->epoll >= 0)
		close(watch->epoll);
	arrfree(watch->waiting);
	free(watch);
}

int watch_descriptor(const struct watch *watch)
{
	return watch->epoll;
}

static bool record_understand(const struct fork_record *record, struct watch_event *event)
{
	event->pid = (pid_t)record->pid;
	event->parent = 0;
	switch (record->header.type) {
	case PERF_RECORD_MMAP2:
		event->kind = WATCH_MAPPED;
		return true;
	case PERF_RECORD_COMM:
		event->kind = WATCH_EXEC;
		return record->header.misc & PERF_RECORD_MISC_COMM_EXEC;
	case PERF_RECORD_FORK:
		event->kind = WATCH_FORKED;
		event->parent = (pid_t)record->parent;
		return record->pid != record->parent; /* else a new thread */
	case PERF_RECORD_LOST:
		event->kind = WATCH_LOST;
		event->pid = 0;
		return true;
	}
	return false;
}

static uint64_t ring_word(const char *data, uint64_t place, uint64_t size)
{
	uint64_t word;

	memcpy(&word, data + place % size, sizeof(word));
	return word;
}

/* The last part of a mapped file's path: all between its last slash and its NUL, by place in the ring. */
static void name_read(const char *data, uint64_t tail, uint64_t record_size, uint64_t size, char name[WATCH_NAME_BYTES])
{
	uint64_t end = tail + record_size - sizeof(uint64_t);
	size_t length = 0;

	for (uint64_t place = tail + MMAP_RECORD_NAME; place < end && data[place % size]; place++) {
		if (data[place % size] == '/')
			length = 0;
		else if (length < WATCH_NAME_BYTES - 1)
			name[length++] = data[place % size];
	}
	name[length] = '\0';
}

static void ring_read(struct watch *watch, struct cpu_ring *ring,
	void (*handle)(void *context, const struct watch_event *event), void *context)
{
	const char *data = (const char *)ring->control + watch->page_size;
	uint64_t size = RING_PAGES * watch->page_size;
	uint64_t head = __atomic_load_n(&ring->control->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->control->data_tail;

	while (tail < head) {
		uint64_t words[sizeof(struct fork_record) / sizeof(uint64_t)];
		struct waiting_event waiting = {.number = watch->number++};
		struct fork_record record;

		/* Records are 8-byte aligned and may wrap; only their beginning and the last word matter here. */
		for (size_t word = 0; word < sizeof(words) / sizeof(words[0]); word++)
			words[word] = ring_word(data, tail + word * sizeof(words[0]), size);
		memcpy(&record, words, sizeof(record));
		if (record.header.size < sizeof(record.header) + sizeof(uint64_t))
			break;
		waiting.event.time_ns = ring_word(data, tail + record.header.size - sizeof(uint64_t), size);
		if (record.header.type == PERF_RECORD_MMAP2)
			name_read(data, tail, record.header.size, size, waiting.event.name);
		if (record_understand(&record, &waiting.event)) {
			/* A mapping is looked at now; and again in its turn, should its process be unknown now. */
			if (waiting.event.kind == WATCH_MAPPED)
				handle(context, &waiting.event);
			arrput(watch->waiting, waiting);
		}
		tail += record.header.size;
	}
	__atomic_store_n(&ring->control->data_tail, tail, __ATOMIC_RELEASE);
}

static int waiting_compare(const void *left, const void *right)
{
	const struct waiting_event *a = left, *b = right;

	if (a->event.time_ns != b->event.time_ns)
		return a->event.time_ns < b->event.time_ns ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

void watch_read(struct watch *watch, void (*handle)(void *context, const struct watch_event *event), void *context)
{
	uint64_t settled = monotonic_ns() - SETTLE_NANOSECONDS;
	ptrdiff_t due = 0;

	for (int index = 0; index < watch->cpu_count; index++)
		if (watch->rings[index].control)
			ring_read(watch, &watch->rings[index], handle, context);
	if (!arrlen(watch->waiting))
		return;
	qsort(watch->waiting, arrlenu(watch->waiting), sizeof(watch->waiting[0]), waiting_compare);
	while (due < arrlen(watch->waiting) && watch->waiting[due].event.time_ns < settled)
		handle(context, &watch->waiting[due++].event);
	arrdeln(watch->waiting, 0, due);
}
