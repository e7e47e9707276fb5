/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with a CUDA runtime of its own inside, as one that is linked with NVIDIA's static runtime: that
 * loads the driver by name when it is called first. Prints what it was given, "cudaMalloc ADDRESS BYTES", what
 * was refused, "refused BYTES", and "freed ADDRESS". Each pointer has a place of its own.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation */

/* The driver's functions: CUDA driver API. */
static struct {
	int (*init)(unsigned int flags);
	int (*retain)(void **context, int device);
	int (*set_current)(void *context);
	int (*allocate)(uint64_t *address, size_t bytes);
	int (*release)(uint64_t address);
} driver;

static void *driver_function(void *library, const char *name)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return function;
}

static void driver_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	driver.init = driver_function(library, "cuInit");
	driver.retain = driver_function(library, "cuDevicePrimaryCtxRetain");
	driver.set_current = driver_function(library, "cuCtxSetCurrent");
	driver.allocate = driver_function(library, "cuMemAlloc_v2");
	driver.release = driver_function(library, "cuMemFree_v2");
	if (driver.init(0) || driver.retain(&context, 0) || driver.set_current(context))
		exit(1);
}

__attribute__((noinline)) int cudaMalloc(void **pointer, size_t bytes)
{
	if (!driver.init)
		driver_load();
	return driver.allocate((uint64_t *)pointer, bytes) ? OUT_OF_MEMORY : 0;
}

__attribute__((noinline)) int cudaFree(void *pointer)
{
	return driver.release((uint64_t)(uintptr_t)pointer);
}

static void allocate(void **pointer, size_t bytes)
{
	if (cudaMalloc(pointer, bytes))
		printf("refused %zu\n", bytes);
	else
		printf("cudaMalloc %p %zu\n", *pointer, bytes);
}

static int release(void *pointer)
{
	printf("freed %p\n", pointer);
	return cudaFree(pointer);
}

int main(void)
{
	void *weights = NULL, *scratch = NULL, *much = NULL, *more = NULL;

	allocate(&weights, 3 << 20);
	allocate(&scratch, 1 << 20);
	allocate(&much, (size_t)1 << 50);
	if (release(scratch))
		return 1;
	allocate(&more, 2 << 20);
	usleep(300000); /* who wants to know what lies where has the time to look */
	return release(more) || !weights;
}
