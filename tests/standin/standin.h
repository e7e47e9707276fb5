/*
 * What the stand-ins share. They take the place of NVIDIA's libraries, so that the real
 * PyTorch CUDA build runs on a machine without a GPU. Device memory is host memory,
 * kernels compute nothing, and time passes on streams as if they did: what a job
 * allocates, launches and waits for is right, the values that it computes are not.
 *
 *	STANDIN_CUDA_DEVICES=N		devices (1); 0: no GPU
 *	STANDIN_CUDA_MEMORY_MB=N	memory of each device in MiB (81920)
 *	STANDIN_KERNEL_US=X		how long every kernel runs, in microseconds (5)
 *	STANDIN_CLOCK=waits		work is done when something waited for it, not with time (one process only)
 *	STANDIN_TRACE=1			name on stderr the functions that do nothing, as they are called
 *
 * FAKE_CUDA_DEVICES, FAKE_CUDA_MEM_MB, FAKE_KERNEL_US and FAKE_TRACE mean the same.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	STANDIN_DEVICES_MAX = 16,
	STANDIN_CUDA_VERSION = 12040, /* 12.4 */
};

/* A handle that callers only pass on. */
#define STANDIN_HANDLE ((void *)0x5741)

static inline const char *standin_setting(const char *name, const char *other_name)
{
	const char *value = getenv(name);
	return value ? value : getenv(other_name);
}

static inline int standin_device_count(void)
{
	const char *value = standin_setting("STANDIN_CUDA_DEVICES", "FAKE_CUDA_DEVICES");
	int count = value ? atoi(value) : 1;
	return count < 0 ? 0 : count > STANDIN_DEVICES_MAX ? STANDIN_DEVICES_MAX : count;
}

/* Nanoseconds of a clock that all processes share. */
static inline uint64_t standin_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void standin_sleep(uint64_t nanoseconds)
{
	struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
	nanosleep(&time, NULL);
}

/*
 * Device and pinned memory, kept by the driver (cuda/memory.c) for the runtime too, so
 * that a device's cap holds for both together. These are not functions of CUDA: a
 * tracer sees one call for each one that a program makes.
 */
enum standin_memory_kind {
	STANDIN_HOST = 1, /* the numbers of cudaMemoryType */
	STANDIN_DEVICE = 2,
	STANDIN_MANAGED = 3,
};

struct standin_memory {
	struct standin_memory *next;
	char *address;
	size_t bytes;
	int device;
	enum standin_memory_kind kind;
	struct standin_pool *pool; /* that it is of, or NULL */
	int registered;            /* the program's own memory, page-locked: not to be unmapped */
};

/* What cudaMallocAsync takes memory from. Nothing is kept back when it is freed. */
struct standin_pool {
	int device;
	uint64_t used_bytes, used_bytes_high, release_threshold;
};

int standin_current_device(void);
void standin_set_current_device(int device);
uint64_t standin_device_bytes(void);
uint64_t standin_device_bytes_used(int device);

/* Take bytes of a device's memory: 0, or -1 when that would go over the cap. */
int standin_take(int device, uint64_t bytes);
void standin_give_back(int device, uint64_t bytes);

/* NULL when there is not enough. Managed memory lies on the host and is not under the cap. */
void *standin_allocate(size_t bytes, enum standin_memory_kind kind, struct standin_pool *pool);

/* -1 when no memory of these kinds begins there. `kinds` is a set of 1 << kind. */
int standin_release(void *address, unsigned kinds);
int standin_register(void *address, size_t bytes);

/* The memory that an address lies in: 0, or -1 if it is none of these. */
int standin_find(const void *address, struct standin_memory *found);
struct standin_pool *standin_default_pool(int device);

#endif
