/*
 * The driver's memory with a pitch, arrays, and memory of others. An array takes what
 * its elements need; a row with a pitch is a multiple of 512 bytes.
 */
#include "driver.h"

#define PITCH_BYTES ((size_t)512)
#define DEVICE_KINDS (1u << STANDIN_DEVICE)

EXPORT int cuMemAllocPitch_v2(void **address, size_t *pitch, size_t width, size_t height, unsigned element)
{
	size_t bytes = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
	void *allocated = standin_allocate(bytes * height, STANDIN_DEVICE, NULL);
	if (!allocated)
		return ERROR_OUT_OF_MEMORY;
	*address = allocated;
	*pitch = bytes;
	return SUCCESS;
}

/* CUDA_ARRAY_DESCRIPTOR */
struct array_description {
	size_t width, height;
	int format;
	unsigned channels;
};

/* CUDA_ARRAY3D_DESCRIPTOR */
struct array_description_3d {
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
};

struct array {
	void *memory;
};

static size_t format_bytes(int format)
{
	return format == 0x20 || format == 0x03 || format == 0x0a   ? 4
	       : format == 0x10 || format == 0x02 || format == 0x09 ? 2
	                                                            : 1;
}

static int array_new(struct array **array, size_t bytes)
{
	void *memory = standin_allocate(bytes, STANDIN_DEVICE, NULL);
	if (!memory)
		return ERROR_OUT_OF_MEMORY;
	*array = malloc(sizeof(**array));
	if (!*array)
		abort();
	(*array)->memory = memory;
	return SUCCESS;
}

static size_t at_least_one(size_t count)
{
	return count ? count : 1;
}

EXPORT int cuArrayCreate_v2(struct array **array, const struct array_description *wanted)
{
	return array_new(
		array, wanted->width * at_least_one(wanted->height) * format_bytes(wanted->format) * wanted->channels);
}

EXPORT int cuArray3DCreate_v2(struct array **array, const struct array_description_3d *wanted)
{
	return array_new(array, wanted->width * at_least_one(wanted->height) * at_least_one(wanted->depth) *
					format_bytes(wanted->format) * wanted->channels);
}

EXPORT int cuArrayDestroy(struct array *array)
{
	standin_release(array->memory, DEVICE_KINDS);
	free(array);
	return SUCCESS;
}

EXPORT int cuImportExternalMemory(void **handle, const void *description)
{
	*handle = malloc(1);
	return *handle ? SUCCESS : ERROR_OUT_OF_MEMORY;
}

EXPORT int cuDestroyExternalMemory(void *handle)
{
	free(handle);
	return SUCCESS;
}
