/*
 * The runtime's memory with a pitch, arrays, and memory of others. An array takes what
 * its elements need; a row with a pitch is a multiple of 512 bytes.
 */
#include "runtime.h"

#define PITCH_BYTES ((size_t)512)
#define DEVICE_KINDS (1u << STANDIN_DEVICE)

/* cudaPitchedPtr and cudaExtent, cudaChannelFormatDesc */
struct pitched {
	void *address;
	size_t pitch, width, height;
};

struct extent {
	size_t width, height, depth;
};

struct channels {
	int bits[4], kind;
};

struct array {
	void *memory;
};

static size_t pitch_of(size_t width)
{
	return (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
}

static size_t at_least_one(size_t count)
{
	return count ? count : 1;
}

static int allocate_rows(void **address, size_t *pitch, size_t width, size_t height)
{
	void *allocated = standin_allocate(pitch_of(width) * height, STANDIN_DEVICE, NULL);
	if (!allocated)
		return fail(ERROR_MEMORY_ALLOCATION);
	*address = allocated;
	*pitch = pitch_of(width);
	return SUCCESS;
}

EXPORT int cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
	return allocate_rows(address, pitch, width, height);
}

EXPORT int cudaMalloc3D(struct pitched *result, struct extent extent)
{
	*result = (struct pitched){NULL, 0, extent.width, extent.height};
	return allocate_rows(&result->address, &result->pitch, extent.width, extent.height * extent.depth);
}

static int array_new(struct array **array, const struct channels *channels, size_t elements)
{
	size_t bits = (size_t)(channels->bits[0] + channels->bits[1] + channels->bits[2] + channels->bits[3]);
	void *memory = standin_allocate(elements * bits / 8, STANDIN_DEVICE, NULL);
	if (!memory)
		return fail(ERROR_MEMORY_ALLOCATION);
	*array = malloc(sizeof(**array));
	if (!*array)
		abort();
	(*array)->memory = memory;
	return SUCCESS;
}

EXPORT int cudaMallocArray(
	struct array **array, const struct channels *channels, size_t width, size_t height, unsigned flags)
{
	return array_new(array, channels, width * at_least_one(height));
}

static size_t elements_of(struct extent extent)
{
	return extent.width * at_least_one(extent.height) * at_least_one(extent.depth);
}

EXPORT int cudaMalloc3DArray(
	struct array **array, const struct channels *channels, struct extent extent, unsigned flags)
{
	return array_new(array, channels, elements_of(extent));
}

static size_t half(size_t side)
{
	return side > 1 ? side / 2 : 1;
}

EXPORT int cudaMallocMipmappedArray(
	struct array **array, const struct channels *channels, struct extent extent, unsigned levels, unsigned flags)
{
	size_t elements = 0;
	for (unsigned level = 0; level < levels; level++) {
		elements += elements_of(extent);
		extent = (struct extent){half(extent.width), half(extent.height), half(extent.depth)};
	}
	return array_new(array, channels, elements);
}

static int array_free(struct array *array)
{
	standin_release(array->memory, DEVICE_KINDS);
	free(array);
	return SUCCESS;
}

EXPORT int cudaFreeArray(struct array *array)
{
	return array_free(array);
}

EXPORT int cudaFreeMipmappedArray(struct array *array)
{
	return array_free(array);
}

EXPORT int cudaImportExternalMemory(void **handle, const void *description)
{
	*handle = malloc(1);
	return *handle ? SUCCESS : fail(ERROR_MEMORY_ALLOCATION);
}

EXPORT int cudaDestroyExternalMemory(void *handle)
{
	free(handle);
	return SUCCESS;
}
