/*
 * Stand-in for libcuda.so.1, the driver: devices, plain and pooled memory. A kernel
 * launched here does nothing and takes no time.
 */
#include "driver.h"

#define DEVICE_KINDS (1u << STANDIN_DEVICE | 1u << STANDIN_MANAGED)
#define HOST_KINDS (1u << STANDIN_HOST)

/* --- devices ------------------------------------------------------------------ */

EXPORT int cuInit(unsigned flags)
{
	return standin_device_count() > 0 ? SUCCESS : ERROR_NO_DEVICE;
}

EXPORT int cuDriverGetVersion(int *version)
{
	*version = STANDIN_CUDA_VERSION;
	return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
	*count = standin_device_count();
	return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
	if (ordinal < 0 || ordinal >= standin_device_count())
		return ERROR_INVALID_DEVICE;
	*device = ordinal;
	return SUCCESS;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = 1;
	return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	*flags = 0;
	*active = 1;
	return SUCCESS;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
	*text = error == ERROR_OUT_OF_MEMORY ? "out of memory" : "error of the stand-in driver";
	return SUCCESS;
}

/* --- plain and pooled memory ---------------------------------------------------- */

static int allocate(void **address, size_t bytes, enum standin_memory_kind kind, struct standin_pool *pool)
{
	if (!bytes)
		return ERROR_INVALID_VALUE;
	void *allocated = standin_allocate(bytes, kind, pool);
	if (!allocated)
		return ERROR_OUT_OF_MEMORY;
	*address = allocated;
	return SUCCESS;
}

EXPORT int cuMemAlloc_v2(void **address, size_t bytes)
{
	return allocate(address, bytes, STANDIN_DEVICE, NULL);
}

EXPORT int cuMemAllocManaged(void **address, size_t bytes, unsigned flags)
{
	return allocate(address, bytes, STANDIN_MANAGED, NULL);
}

EXPORT int cuMemFree_v2(void *address)
{
	return address && standin_release(address, DEVICE_KINDS) ? ERROR_INVALID_VALUE : SUCCESS;
}

EXPORT int cuMemAllocAsync(void **address, size_t bytes, void *stream)
{
	return allocate(address, bytes, STANDIN_DEVICE, standin_default_pool(standin_current_device()));
}

EXPORT int cuMemAllocFromPoolAsync(void **address, size_t bytes, struct standin_pool *pool, void *stream)
{
	return allocate(address, bytes, STANDIN_DEVICE, pool);
}

EXPORT int cuMemFreeAsync(void *address, void *stream)
{
	return cuMemFree_v2(address);
}

EXPORT int cuMemAllocAsync_ptsz(void **address, size_t bytes, void *stream)
{
	return allocate(address, bytes, STANDIN_DEVICE, standin_default_pool(standin_current_device()));
}

EXPORT int cuMemFreeAsync_ptsz(void *address, void *stream)
{
	return address && standin_release(address, DEVICE_KINDS) ? ERROR_INVALID_VALUE : SUCCESS;
}

/* The beginning of CUmemPoolProps. */
struct pool_properties {
	int allocation_type, handle_types;
	struct {
		int type, id;
	} location;
};

EXPORT int cuMemPoolCreate(struct standin_pool **pool, const struct pool_properties *properties)
{
	*pool = calloc(1, sizeof(**pool));
	if (!*pool)
		return ERROR_OUT_OF_MEMORY;
	(*pool)->device = properties->location.id;
	return SUCCESS;
}

EXPORT int cuMemAllocHost_v2(void **address, size_t bytes)
{
	return allocate(address, bytes, STANDIN_HOST, NULL);
}

EXPORT int cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
	return allocate(address, bytes, STANDIN_HOST, NULL);
}

EXPORT int cuMemFreeHost(void *address)
{
	return standin_release(address, HOST_KINDS) ? ERROR_INVALID_VALUE : SUCCESS;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	*total_bytes = standin_device_bytes();
	*free_bytes = *total_bytes - standin_device_bytes_used(standin_current_device());
	return SUCCESS;
}

EXPORT int cuMemsetD32Async(uint32_t *address, uint32_t value, size_t count, void *stream)
{
	for (size_t place = 0; place < count; place++)
		address[place] = value;
	return SUCCESS;
}

/* --- the rest --------------------------------------------------------------------- */

EXPORT int cuStreamWriteValue32(void *stream, uint32_t *address, uint32_t value, unsigned flags)
{
	*address = value;
	return SUCCESS;
}
