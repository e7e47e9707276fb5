/*
 * The runtime's memory calls: device memory with and without pools, managed and pinned
 * memory, copies. Copies are real; one to the host waits for all before it on its stream.
 */
#include <string.h>

#include "runtime.h"

#define DEVICE_KINDS (1u << STANDIN_DEVICE | 1u << STANDIN_MANAGED)
#define HOST_KINDS (1u << STANDIN_HOST)

enum {
	COPY_TO_HOST = 2,
	COPY_START_NS = 2000,
	COPY_BYTES_PER_NS = 25,
	FILL_START_NS = 1000,
	FILL_BYTES_PER_NS = 1000,
};

/* cudaMemPoolAttr */
enum pool_attribute {
	POOL_RELEASE_THRESHOLD = 4,
	POOL_RESERVED = 5,
	POOL_RESERVED_HIGH = 6,
	POOL_USED = 7,
	POOL_USED_HIGH = 8,
};

static int allocate(void **address, size_t bytes, enum standin_memory_kind kind, struct standin_pool *pool)
{
	if (!address)
		return fail(ERROR_INVALID_VALUE);
	void *allocated = bytes ? standin_allocate(bytes, kind, pool) : NULL;
	if (bytes && !allocated)
		return fail(ERROR_MEMORY_ALLOCATION);
	*address = allocated;
	return SUCCESS;
}

static int release(void *address, unsigned kinds)
{
	return address && standin_release(address, kinds) ? fail(ERROR_INVALID_VALUE) : SUCCESS;
}

EXPORT int cudaMalloc(void **address, size_t bytes)
{
	return allocate(address, bytes, STANDIN_DEVICE, NULL);
}

EXPORT int cudaMallocManaged(void **address, size_t bytes, unsigned flags)
{
	return allocate(address, bytes, STANDIN_MANAGED, NULL);
}

EXPORT int cudaFree(void *address)
{
	return release(address, DEVICE_KINDS);
}

EXPORT int cudaHostAlloc(void **address, size_t bytes, unsigned flags)
{
	return allocate(address, bytes, STANDIN_HOST, NULL);
}

EXPORT int cudaMallocHost(void **address, size_t bytes)
{
	return allocate(address, bytes, STANDIN_HOST, NULL);
}

EXPORT int cudaFreeHost(void *address)
{
	return release(address, HOST_KINDS);
}

EXPORT int cudaHostRegister(void *address, size_t bytes, unsigned flags)
{
	return standin_register(address, bytes) ? fail(ERROR_INVALID_VALUE) : SUCCESS;
}

EXPORT int cudaHostUnregister(void *address)
{
	return release(address, HOST_KINDS);
}

EXPORT int cudaHostGetDevicePointer(void **device_address, void *address, unsigned flags)
{
	*device_address = address;
	return SUCCESS;
}

EXPORT int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	*total_bytes = standin_device_bytes();
	*free_bytes = *total_bytes - standin_device_bytes_used(standin_current_device());
	return SUCCESS;
}

struct pointer_attributes {
	int kind, device;
	const void *device_address, *host_address;
};

/* What is not CUDA's is the program's own memory: kind 0, which is no error. */
EXPORT int cudaPointerGetAttributes(struct pointer_attributes *attributes, const void *address)
{
	struct standin_memory memory;
	*attributes = (struct pointer_attributes){.device = -2, .host_address = address};
	if (standin_find(address, &memory))
		return SUCCESS;
	*attributes = (struct pointer_attributes){
		(int)memory.kind, memory.device, address, memory.kind == STANDIN_DEVICE ? NULL : address};
	return SUCCESS;
}

/* --- pools ------------------------------------------------------------------------ */

EXPORT int cudaMallocAsync(void **address, size_t bytes, void *stream)
{
	return allocate(address, bytes, STANDIN_DEVICE, standin_default_pool(standin_current_device()));
}

EXPORT int cudaMallocFromPoolAsync(void **address, size_t bytes, struct standin_pool *pool, void *stream)
{
	return allocate(address, bytes, STANDIN_DEVICE, pool);
}

EXPORT int cudaFreeAsync(void *address, void *stream)
{
	return release(address, DEVICE_KINDS);
}

/* Those of threads that have default streams of their own. */
EXPORT int cudaMallocAsync_ptsz(void **address, size_t bytes, void *stream)
{
	return allocate(address, bytes, STANDIN_DEVICE, standin_default_pool(standin_current_device()));
}

EXPORT int cudaFreeAsync_ptsz(void *address, void *stream)
{
	return release(address, DEVICE_KINDS);
}

EXPORT int cudaDeviceGetDefaultMemPool(struct standin_pool **pool, int device)
{
	*pool = standin_default_pool(device);
	return SUCCESS;
}

EXPORT int cudaDeviceGetMemPool(struct standin_pool **pool, int device)
{
	return cudaDeviceGetDefaultMemPool(pool, device);
}

/* The beginning of cudaMemPoolProps. */
struct pool_properties {
	int allocation_type, handle_types;
	struct {
		int type, id;
	} location;
};

EXPORT int cudaMemPoolCreate(struct standin_pool **pool, const struct pool_properties *properties)
{
	*pool = calloc(1, sizeof(**pool));
	if (!*pool)
		return fail(ERROR_MEMORY_ALLOCATION);
	(*pool)->device = properties->location.id;
	return SUCCESS;
}

EXPORT int cudaMemPoolDestroy(struct standin_pool *pool)
{
	if (pool->used_bytes)
		return fail(ERROR_INVALID_VALUE); /* the memory in use still points to it */
	free(pool);
	return SUCCESS;
}

EXPORT int cudaMemPoolTrimTo(struct standin_pool *pool, size_t keep_bytes)
{
	return SUCCESS;
}

EXPORT int cudaMemPoolGetAttribute(struct standin_pool *pool, enum pool_attribute attribute, uint64_t *value)
{
	switch (attribute) {
	case POOL_RELEASE_THRESHOLD:
		*value = pool->release_threshold;
		return SUCCESS;
	case POOL_RESERVED:
	case POOL_USED:
		*value = pool->used_bytes;
		return SUCCESS;
	case POOL_RESERVED_HIGH:
	case POOL_USED_HIGH:
		*value = pool->used_bytes_high;
		return SUCCESS;
	}
	*(int *)value = 1; /* the others are switches */
	return SUCCESS;
}

EXPORT int cudaMemPoolSetAttribute(struct standin_pool *pool, enum pool_attribute attribute, const uint64_t *value)
{
	if (attribute == POOL_RELEASE_THRESHOLD)
		pool->release_threshold = *value;
	else if (attribute == POOL_RESERVED_HIGH || attribute == POOL_USED_HIGH)
		pool->used_bytes_high = pool->used_bytes;
	return SUCCESS;
}

/* --- copies ------------------------------------------------------------------------- */

static void copy(void *to, const void *from, size_t bytes)
{
	if (bytes)
		memmove(to, from, bytes);
}

/* What a collective on the stream brings must have come before it is copied on. */
EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *handle)
{
	struct stream *stream = stream_of(handle);
	if (kind == COPY_TO_HOST)
		stream_wait_all_done(stream);
	else
		stream_wait_known(stream);
	copy(to, from, bytes);
	stream_append(stream, COPY_START_NS + bytes / COPY_BYTES_PER_NS);
	return SUCCESS;
}

EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	stream_wait_all_done(stream_of(NULL));
	copy(to, from, bytes);
	return SUCCESS;
}

EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, void *handle)
{
	copy(to, from, bytes);
	stream_append(stream_of(handle), COPY_START_NS + bytes / COPY_BYTES_PER_NS);
	return SUCCESS;
}

EXPORT int cudaMemset(void *address, int value, size_t bytes)
{
	memset(address, value, bytes);
	return SUCCESS;
}

EXPORT int cudaMemsetAsync(void *address, int value, size_t bytes, void *handle)
{
	memset(address, value, bytes);
	stream_append(stream_of(handle), FILL_START_NS + bytes / FILL_BYTES_PER_NS);
	return SUCCESS;
}

/* Memory is shared with processes that this one forked, at the same address. */
struct ipc_handle {
	char bytes[64];
};

EXPORT int cudaIpcGetMemHandle(struct ipc_handle *handle, void *address)
{
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &address, sizeof(address));
	return SUCCESS;
}

EXPORT int cudaIpcOpenMemHandle(void **address, struct ipc_handle handle, unsigned flags)
{
	memcpy(address, &handle, sizeof(*address));
	return SUCCESS;
}
