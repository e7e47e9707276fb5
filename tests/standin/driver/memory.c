/*
 * Device memory: pieces of host memory that nobody pays for until they are touched,
 * under a cap for each device. Device memory comes in whole pages of 2 MiB and is
 * aligned to them, as on a GPU; pinned memory in pages of 4 KiB.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "../standin.h"

#define DEVICE_PAGE ((size_t)2 << 20)
#define HOST_PAGE ((size_t)4096)
#define DEFAULT_DEVICE_BYTES ((uint64_t)80 << 30)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct standin_memory *memories;
static uint64_t device_bytes = DEFAULT_DEVICE_BYTES, device_used[STANDIN_DEVICES_MAX];
static struct standin_pool default_pools[STANDIN_DEVICES_MAX];
static __thread int current_device;

__attribute__((constructor)) static void read_settings(void)
{
	const char *megabytes = standin_setting("STANDIN_CUDA_MEMORY_MB", "FAKE_CUDA_MEM_MB");
	if (megabytes)
		device_bytes = strtoull(megabytes, NULL, 0) << 20;
	for (int device = 0; device < STANDIN_DEVICES_MAX; device++)
		default_pools[device].device = device;
}

EXPORT int standin_current_device(void)
{
	return current_device;
}

EXPORT void standin_set_current_device(int device)
{
	current_device = device;
}

EXPORT uint64_t standin_device_bytes(void)
{
	return device_bytes;
}

EXPORT uint64_t standin_device_bytes_used(int device)
{
	return __atomic_load_n(&device_used[device], __ATOMIC_RELAXED);
}

EXPORT struct standin_pool *standin_default_pool(int device)
{
	return &default_pools[device];
}

EXPORT int standin_take(int device, uint64_t bytes)
{
	int status = -1;
	pthread_mutex_lock(&lock);
	if (bytes <= device_bytes - device_used[device]) {
		device_used[device] += bytes;
		status = 0;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

EXPORT void standin_give_back(int device, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	device_used[device] -= bytes;
	pthread_mutex_unlock(&lock);
}

static void pool_add(struct standin_pool *pool, int64_t bytes)
{
	if (!pool)
		return;
	pool->used_bytes += (uint64_t)bytes;
	if (pool->used_bytes > pool->used_bytes_high)
		pool->used_bytes_high = pool->used_bytes;
}

/*
 * Addresses are given out one behind the other, and again in the order in which they
 * came back: two runs of a job get the same, whatever else the process maps meanwhile.
 */
#define RANGE_BYTES ((size_t)4 << 40)

struct span {
	struct span *next;
	char *address;
	size_t bytes;
};

static struct span *free_spans;
static char *range_next, *range_end;

static int range_reserve(void)
{
	char *range = mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range == MAP_FAILED)
		return -1;
	range_next = range;
	range_end = range + RANGE_BYTES;
	return 0;
}

/* A span that came back, else a new one; NULL: there is none left. The lock is held. */
static char *span_take(size_t bytes, size_t alignment)
{
	for (struct span **place = &free_spans; *place; place = &(*place)->next) {
		struct span *span = *place;
		if (span->bytes != bytes || (uintptr_t)span->address % alignment)
			continue;
		char *address = span->address;
		*place = span->next;
		free(span);
		return address;
	}
	if (!range_next && range_reserve())
		return NULL;
	char *address = range_next + (alignment - (uintptr_t)range_next % alignment) % alignment;
	if ((size_t)(range_end - address) < bytes)
		return NULL;
	range_next = address + bytes;
	return address;
}

static void *map_aligned(size_t bytes, size_t alignment)
{
	pthread_mutex_lock(&lock);
	char *address = span_take(bytes, alignment);
	pthread_mutex_unlock(&lock);
	if (!address || mprotect(address, bytes, PROT_READ | PROT_WRITE))
		return NULL;
	return address;
}

static void unmap(char *address, size_t bytes)
{
	struct span *span = malloc(sizeof(*span));
	if (!span)
		abort();
	mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	*span = (struct span){.address = address, .bytes = bytes};
	pthread_mutex_lock(&lock);
	span->next = free_spans;
	free_spans = span;
	pthread_mutex_unlock(&lock);
}

static void remember(struct standin_memory memory)
{
	struct standin_memory *kept = malloc(sizeof(*kept));
	if (!kept)
		abort();
	*kept = memory;
	pthread_mutex_lock(&lock);
	kept->next = memories;
	memories = kept;
	pool_add(kept->pool, (int64_t)kept->bytes);
	pthread_mutex_unlock(&lock);
}

EXPORT void *standin_allocate(size_t bytes, enum standin_memory_kind kind, struct standin_pool *pool)
{
	size_t page = kind == STANDIN_HOST ? HOST_PAGE : DEVICE_PAGE;
	size_t rounded = (bytes + page - 1) / page * page;
	int device = pool ? pool->device : current_device;
	if (rounded < bytes || (kind == STANDIN_DEVICE && standin_take(device, rounded)))
		return NULL;
	char *address = map_aligned(rounded, page);
	if (address)
		remember((struct standin_memory){
			.address = address, .bytes = rounded, .device = device, .kind = kind, .pool = pool});
	else if (kind == STANDIN_DEVICE)
		standin_give_back(device, rounded);
	return address;
}

EXPORT int standin_register(void *address, size_t bytes)
{
	remember((struct standin_memory){
		.address = address, .bytes = bytes, .device = current_device, .kind = STANDIN_HOST, .registered = 1});
	return 0;
}

static struct standin_memory *forget(void *address, unsigned kinds)
{
	struct standin_memory **place, *memory = NULL;
	pthread_mutex_lock(&lock);
	for (place = &memories; *place; place = &(*place)->next)
		if ((*place)->address == address && (kinds & 1u << (*place)->kind)) {
			memory = *place;
			*place = memory->next;
			pool_add(memory->pool, -(int64_t)memory->bytes);
			if (memory->kind == STANDIN_DEVICE)
				device_used[memory->device] -= memory->bytes;
			break;
		}
	pthread_mutex_unlock(&lock);
	return memory;
}

EXPORT int standin_release(void *address, unsigned kinds)
{
	struct standin_memory *memory = forget(address, kinds);
	if (!memory)
		return -1;
	if (!memory->registered)
		unmap(memory->address, memory->bytes);
	free(memory);
	return 0;
}

EXPORT int standin_find(const void *address, struct standin_memory *found)
{
	const struct standin_memory *memory;
	pthread_mutex_lock(&lock);
	for (memory = memories; memory; memory = memory->next)
		if ((const char *)address >= memory->address &&
			(size_t)((const char *)address - memory->address) < memory->bytes) {
			*found = *memory;
			break;
		}
	pthread_mutex_unlock(&lock);
	return memory ? 0 : -1;
}
