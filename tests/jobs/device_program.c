/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that uses a device without PyTorch, by CUDA's runtime or (argument
 * "driver") by its driver, takes memory of other shapes ("shapes"), of several devices by
 * contexts, pools and properties ("contexts"), or goes on doing so (argument "loop": "step N" when it
 * did it again). Starts with an allocation, without a pause, and prints what it got: a line "NAME ADDRESS BYTES" for
 * each call that gave memory, "freed ADDRESS" for what it gave back, "refused NAME BYTES" for what it did not get.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define TOO_MUCH (1ull << 50)

int cudaMalloc(void **result, size_t bytes);
int cudaMallocManaged(void **result, size_t bytes, unsigned int flags);
int cudaMallocAsync(void **result, size_t bytes, void *stream);
int cudaHostAlloc(void **result, size_t bytes, unsigned int flags);
int cudaFree(void *address);
int cudaFreeAsync(void *address, void *stream);
int cudaFreeHost(void *address);
int cudaSetDevice(int device);
int cuMemAlloc_v2(uint64_t *result, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuMemAddressReserve(uint64_t *result, size_t bytes, size_t alignment, uint64_t wanted, unsigned long long flags);
int cuMemCreate(uint64_t *handle, size_t bytes, const void *properties, unsigned long long flags);
int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(uint64_t address, size_t bytes);
int cuMemRelease(uint64_t handle);

struct extent {
	size_t width, height, depth;
};

struct channels {
	int bits[4], kind;
};

struct pitched {
	void *address;
	size_t pitch, width, height;
};

struct array_description {
	size_t width, height;
	int format;
	unsigned int channels;
};

struct array_description_3d {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};

/* Kind, handle, bytes, flags. */
struct external_description {
	int kind;
	uint64_t handle[2];
	unsigned long long bytes;
	unsigned int flags, reserved[16];
};

struct ipc_handle {
	char bytes[64];
};

int cudaMallocPitch(void **result, size_t *pitch, size_t width, size_t height);
int cudaMalloc3D(struct pitched *result, struct extent extent);
int cudaMallocArray(void **result, const struct channels *channels, size_t width, size_t height, unsigned int flags);
int cudaMalloc3DArray(void **result, const struct channels *channels, struct extent extent, unsigned int flags);
int cudaMallocMipmappedArray(
	void **result, const struct channels *channels, struct extent extent, unsigned int levels, unsigned int flags);
int cudaFreeArray(void *array);
int cudaImportExternalMemory(void **result, const struct external_description *description);
int cudaIpcGetMemHandle(struct ipc_handle *handle, void *address);
int cudaIpcOpenMemHandle(void **result, struct ipc_handle handle, unsigned int flags);
int cudaMallocAsync_ptsz(void **result, size_t bytes, void *stream);
int cudaFreeAsync_ptsz(void *address, void *stream);
int cuMemAllocPitch_v2(uint64_t *result, size_t *pitch, size_t width, size_t height, unsigned int element);
int cuArrayCreate_v2(void **result, const struct array_description *description);
int cuArray3DCreate_v2(void **result, const struct array_description_3d *description);
int cuArrayDestroy(void *array);
int cuImportExternalMemory(void **result, const struct external_description *description);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuMemPoolCreate(void **pool, const void *properties);
int cuMemAllocFromPoolAsync(uint64_t *result, size_t bytes, void *pool, void *stream);
int cuMemExportToShareableHandle(int *file, uint64_t handle, int kind, unsigned long long flags);
int cuMemImportFromShareableHandle(uint64_t *handle, void *file, int kind);

static void tell(const char *name, int status, uint64_t address, uint64_t bytes)
{
	if (status)
		printf("refused %s %llu\n", name, (unsigned long long)bytes);
	else
		printf("%s 0x%llx %llu\n", name, (unsigned long long)address, (unsigned long long)bytes);
}

static void tell_freed(uint64_t address)
{
	printf("freed 0x%llx\n", (unsigned long long)address);
}

__attribute__((noinline)) void *weights_allocate(size_t bytes)
{
	void *address = NULL;
	int status = cudaMalloc(&address, bytes);

	tell("cudaMalloc", status, (uint64_t)address, bytes);
	return status ? NULL : address;
}

static void run_runtime(void)
{
	void *weights = weights_allocate(4 * MIB), *address = NULL;
	int status;

	/* The same address again and again, in the same variable. */
	for (int i = 0; i < 3; i++) {
		address = weights_allocate(2 * MIB);
		cudaFree(address);
		tell_freed((uint64_t)address);
	}
	weights_allocate(TOO_MUCH);
	status = cudaMallocManaged(&address, 3 * MIB, 1);
	tell("cudaMallocManaged", status, (uint64_t)address, 3 * MIB);
	status = cudaHostAlloc(&address, 5 * MIB, 0);
	tell("cudaHostAlloc", status, (uint64_t)address, 5 * MIB);
	cudaFreeHost(address);
	tell_freed((uint64_t)address);
	status = cudaMallocAsync(&address, 6 * MIB, NULL);
	tell("cudaMallocAsync", status, (uint64_t)address, 6 * MIB);
	cudaFreeAsync(address, NULL);
	tell_freed((uint64_t)address);
	cudaSetDevice(1);
	weights_allocate(7 * MIB);
	cudaFree(weights);
	tell_freed((uint64_t)weights);
}

static void run_driver(void)
{
	uint64_t address = 0, range = 0, handle = 0, properties[8] = {1, 1};
	int status;

	status = cuMemAlloc_v2(&address, 4 * MIB);
	tell("cuMemAlloc_v2", status, address, 4 * MIB);
	status = cuMemAlloc_v2(&range, TOO_MUCH);
	tell("cuMemAlloc_v2", status, range, TOO_MUCH);
	cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0);
	for (uint64_t i = 0; i < 3; i++) {
		cuMemCreate(&handle, 2 * MIB, properties, 0);
		tell("cuMemMap", cuMemMap(range + 2 * i * MIB, 2 * MIB, 0, handle, 0), range + 2 * i * MIB, 2 * MIB);
		cuMemRelease(handle);
	}
	cuMemUnmap(range, 2 * MIB);
	tell_freed(range);
	cuMemFree_v2(address);
	tell_freed(address);
}

/* Sizes are worked out here as CUDA's documents have them. */
static void run_shapes(void)
{
	struct array_description_3d volume = {64, 32, 16, 0x20, 4, 0}; /* floats, four channels */
	struct array_description plane = {1000, 0, 0x10, 2};           /* half floats, two channels, one row */
	struct channels float_channels = {{32, 0, 0, 0}, 2}, byte_channels = {{8, 8, 8, 8}, 1};
	struct external_description external = {1, {7, 0}, 12 * MIB, 0, {0}};
	struct pitched pitched = {0};
	struct ipc_handle handle;
	void *address = NULL, *array = NULL;
	uint64_t device_address = 0;
	size_t pitch = 0;
	int status;

	status = cudaMallocPitch(&address, &pitch, 1000, 300);
	tell("cudaMallocPitch", status, (uint64_t)address, pitch * 300);
	cudaFree(address);
	tell_freed((uint64_t)address);
	status = cudaMalloc3D(&pitched, (struct extent){100, 20, 30});
	tell("cudaMalloc3D", status, (uint64_t)pitched.address, pitched.pitch * 20 * 30);
	status = cudaMallocPitch(&address, &pitch, 1ull << 40, 1000);
	tell("cudaMallocPitch", status, 0, (1ull << 40) * 1000);
	status = cudaMallocArray(&array, &byte_channels, 640, 480, 0);
	tell("cudaMallocArray", status, (uint64_t)array, 640 * 480 * 4);
	cudaFreeArray(array);
	tell_freed((uint64_t)array);
	status = cudaMallocArray(&array, &float_channels, 5000, 0, 0);
	tell("cudaMallocArray", status, (uint64_t)array, 5000 * 4);
	status = cudaMalloc3DArray(&array, &float_channels, (struct extent){40, 30, 20}, 0);
	tell("cudaMalloc3DArray", status, (uint64_t)array, 40 * 30 * 20 * 4);
	status = cudaMallocMipmappedArray(&array, &byte_channels, (struct extent){64, 16, 0}, 4, 0);
	tell("cudaMallocMipmappedArray", status, (uint64_t)array, 4 * (64 * 16 + 32 * 8 + 16 * 4 + 8 * 2));
	status = cudaImportExternalMemory(&array, &external);
	tell("cudaImportExternalMemory", status, (uint64_t)array, external.bytes);
	cudaIpcGetMemHandle(&handle, pitched.address);
	cudaIpcOpenMemHandle(&address, handle, 1); /* of no known size */
	status = cudaMallocAsync_ptsz(&address, 6 * MIB, NULL);
	tell("cudaMallocAsync_ptsz", status, (uint64_t)address, 6 * MIB);
	cudaFreeAsync_ptsz(address, NULL);
	tell_freed((uint64_t)address);
	status = cuMemAllocPitch_v2(&device_address, &pitch, 513, 7, 4);
	tell("cuMemAllocPitch_v2", status, device_address, pitch * 7);
	status = cuArrayCreate_v2(&array, &plane);
	tell("cuArrayCreate_v2", status, (uint64_t)array, 1000 * 2 * 2);
	status = cuArray3DCreate_v2(&array, &volume);
	tell("cuArray3DCreate_v2", status, (uint64_t)array, 64 * 32 * 16 * 16);
	cuArrayDestroy(array);
	tell_freed((uint64_t)array);
	status = cuImportExternalMemory(&array, &external);
	tell("cuImportExternalMemory", status, (uint64_t)array, external.bytes);
}

static void allocate_on(int device)
{
	uint64_t address = 0;
	int status = cuMemAlloc_v2(&address, 2 * MIB);

	tell("cuMemAlloc_v2", status, address, 2 * MIB);
	printf("device %d\n", device);
}

/* The device is said by a context, by its stack, by a pool, by properties and by what is mapped; never by
 * cudaSetDevice. */
static void run_contexts(void)
{
	uint64_t address = 0, range = 0, handle = 0, imported = 0;
	int properties[16] = {1, 1, 1, 1}, host[16] = {1, 1, 3, 0}, file = -1,
	    status; /* kind, handles, location: kind, number */
	void *contexts[2], *pool = NULL, *popped;

	cuDevicePrimaryCtxRetain(&contexts[0], 0);
	cuDevicePrimaryCtxRetain(&contexts[1], 1);
	cuCtxSetCurrent(contexts[1]);
	allocate_on(1);
	cuCtxPushCurrent_v2(contexts[0]);
	allocate_on(0);
	cuCtxCreate_v2(&popped, 0, 1);
	allocate_on(1);
	cuCtxPopCurrent_v2(&popped);
	allocate_on(0);
	cuCtxPopCurrent_v2(&popped);
	allocate_on(1);
	cuCtxSetCurrent(contexts[0]);
	cuMemPoolCreate(&pool, properties);
	status = cuMemAllocFromPoolAsync(&address, 4 * MIB, pool, NULL);
	tell("cuMemAllocFromPoolAsync", status, address, 4 * MIB);
	printf("device 1\n");
	cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0);
	cuMemCreate(&handle, 2 * MIB, properties, 0);
	tell("cuMemMap", cuMemMap(range, 2 * MIB, 0, handle, 0), range, 2 * MIB);
	printf("device 1\n");
	cuMemExportToShareableHandle(&file, handle, 1, 0);
	cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file, 1);
	tell("cuMemMap", cuMemMap(range + 2 * MIB, 2 * MIB, 0, imported, 0), range + 2 * MIB, 2 * MIB);
	printf("imported\n");
	cuMemCreate(&handle, 4 * MIB, host, 0);
	tell("cuMemMap", cuMemMap(range + 4 * MIB, 4 * MIB, 0, handle, 0), range + 4 * MIB, 4 * MIB);
	printf("pinned\n");
}

static void run_loop(void)
{
	void *held = weights_allocate(4 * MIB);

	for (int step = 0; held; step++) {
		void *address = weights_allocate(2 * MIB);

		usleep(10000);
		cudaFree(address);
		printf("step %d\n", step);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "driver"))
		run_driver();
	else if (argc > 1 && !strcmp(argv[1], "shapes"))
		run_shapes();
	else if (argc > 1 && !strcmp(argv[1], "contexts"))
		run_contexts();
	else if (argc > 1 && !strcmp(argv[1], "loop"))
		run_loop();
	else
		run_runtime();
	fflush(stdout);
	usleep(300000); /* so that its symbols can still be read */
	return 0;
}
