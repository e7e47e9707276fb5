/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that uses a device without PyTorch, by CUDA's runtime or (argument
 * "driver") by its driver, or goes on doing so (argument "loop": "step N" when it
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
	else if (argc > 1 && !strcmp(argv[1], "loop"))
		run_loop();
	else
		run_runtime();
	fflush(stdout);
	usleep(300000); /* so that its symbols can still be read */
	return 0;
}
