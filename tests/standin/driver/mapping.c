/*
 * Physical memory that is mapped into reserved addresses: what PyTorch's expandable
 * segments are made of, and what processes share. It is a file that has no name.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

#define GRANULARITY ((size_t)2 << 20)

typedef uintptr_t address_t; /* CUdeviceptr */

/* Physical memory lives as long as its handle or a mapping of it does. */
struct physical {
	int file, device, references;
	size_t bytes;
};

struct mapping {
	struct mapping *next;
	address_t address;
	size_t bytes;
	struct physical *physical;
};

/* The beginning of CUmemAllocationProp. */
struct physical_properties {
	int type, handle_types;
	struct {
		int type, id;
	} location;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;

static void physical_drop(struct physical *physical)
{
	if (__atomic_sub_fetch(&physical->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	standin_give_back(physical->device, physical->bytes);
	close(physical->file);
	free(physical);
}

static struct physical *physical_new(int file, int device, size_t bytes)
{
	struct physical *physical = malloc(sizeof(*physical));
	if (!physical)
		abort();
	*physical = (struct physical){.file = file, .device = device, .references = 1, .bytes = bytes};
	return physical;
}

EXPORT int cuMemGetAllocationGranularity(size_t *granularity, const void *properties, int option)
{
	*granularity = GRANULARITY;
	return SUCCESS;
}

EXPORT int cuMemAddressReserve(
	address_t *address, size_t bytes, size_t alignment, address_t wanted, unsigned long long flags)
{
	char *mapped = mmap(NULL, bytes + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapped == MAP_FAILED)
		return ERROR_OUT_OF_MEMORY;
	*address = ((address_t)mapped + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	return SUCCESS;
}

EXPORT int cuMemAddressFree(address_t address, size_t bytes)
{
	return munmap((void *)address, bytes) ? ERROR_INVALID_VALUE : SUCCESS;
}

EXPORT int cuMemCreate(struct physical **physical, size_t bytes, const struct physical_properties *properties,
	unsigned long long flags)
{
	int device = properties->location.id;
	if (!bytes || bytes % GRANULARITY || device < 0 || device >= standin_device_count())
		return ERROR_INVALID_VALUE;
	if (standin_take(device, bytes))
		return ERROR_OUT_OF_MEMORY;
	int file = memfd_create("standin-device-memory", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, (off_t)bytes)) {
		if (file >= 0)
			close(file);
		standin_give_back(device, bytes);
		return ERROR_OUT_OF_MEMORY;
	}
	*physical = physical_new(file, device, bytes);
	return SUCCESS;
}

EXPORT int cuMemRelease(struct physical *physical)
{
	physical_drop(physical);
	return SUCCESS;
}

EXPORT int cuMemMap(address_t address, size_t bytes, size_t offset, struct physical *physical, unsigned long long flags)
{
	struct mapping *mapping = malloc(sizeof(*mapping));
	if (!mapping)
		abort();
	if (mmap((void *)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, (off_t)offset) ==
		MAP_FAILED) {
		free(mapping);
		return ERROR_INVALID_VALUE;
	}
	__atomic_add_fetch(&physical->references, 1, __ATOMIC_ACQ_REL);
	pthread_mutex_lock(&lock);
	*mapping = (struct mapping){mappings, address, bytes, physical};
	mappings = mapping;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

EXPORT int cuMemSetAccess(address_t address, size_t bytes, const void *access, size_t count)
{
	return mprotect((void *)address, bytes, PROT_READ | PROT_WRITE) ? ERROR_INVALID_VALUE : SUCCESS;
}

static void forget_mappings(address_t address, size_t bytes)
{
	struct mapping **place = &mappings;
	while (*place) {
		struct mapping *mapping = *place;
		if (mapping->address < address || mapping->address >= address + bytes) {
			place = &mapping->next;
			continue;
		}
		*place = mapping->next;
		physical_drop(mapping->physical);
		free(mapping);
	}
}

EXPORT int cuMemUnmap(address_t address, size_t bytes)
{
	if (mmap((void *)address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
		MAP_FAILED)
		return ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	forget_mappings(address, bytes);
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

EXPORT int cuMemExportToShareableHandle(int *file, struct physical *physical, int kind, unsigned long long flags)
{
	*file = dup(physical->file);
	return *file < 0 ? ERROR_INVALID_VALUE : SUCCESS;
}

/* The memory is accounted for by the process that made it. */
EXPORT int cuMemImportFromShareableHandle(struct physical **physical, void *file, int kind)
{
	int own = dup((int)(intptr_t)file);
	if (own < 0)
		return ERROR_INVALID_VALUE;
	*physical = physical_new(own, 0, 0);
	return SUCCESS;
}

EXPORT int cuMulticastCreate(void **handle, const void *properties)
{
	return ERROR_NOT_SUPPORTED;
}
