/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with a CUDA runtime of its own inside, as one that is linked with NVIDIA's static runtime: that
 * loads the driver by name when it is called first, and hands it variables of its own, in which something else
 * stands soon after. The first call is refused; others are, between ones of the same size that are not. With an
 * argument, that many threads do the same meanwhile; with "loop", it takes and gives back for ever. Prints what it was
 * given, "cudaMalloc ADDRESS BYTES", what was refused, "refused BYTES", "freed ADDRESS", "refused-free ADDRESS", and
 * "launched KERNEL".
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation */
#define INVALID_VALUE 1
#define MIB (1ull << 20)
#define TOO_MUCH (1ull << 50)
#define THREADS_MAX 8

/* The driver's functions: CUDA driver API. */
static struct {
	int (*init)(unsigned int flags);
	int (*retain)(void **context, int device);
	int (*set_current)(void *context);
	int (*allocate)(uint64_t *address, size_t bytes);
	int (*release)(uint64_t address);
	int (*launch)(void *function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		unsigned int, unsigned int, void *stream, void **arguments, void **more);
	int (*find)(void **function, void *module, const char *name);
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

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
	driver.launch = driver_function(library, "cuLaunchKernel");
	driver.find = driver_function(library, "cuModuleGetFunction");
	if (driver.init(0) || driver.retain(&context, 0) || driver.set_current(context))
		exit(1);
}

/* What a thread noted of its last error, below where the driver's result was a moment ago. */
__attribute__((noinline)) static int error_note(int status)
{
	volatile char note[512];

	memset((char *)note, status, sizeof(note));
	return note[(unsigned int)status % sizeof(note)];
}

__attribute__((noinline)) static int memory_take(void **pointer, size_t bytes)
{
	uint64_t address = 0;
	int status = driver.allocate(&address, bytes);

	if (!status)
		*pointer = (void *)(uintptr_t)address;
	return status ? OUT_OF_MEMORY : 0;
}

__attribute__((noinline)) int cudaMalloc(void **pointer, size_t bytes)
{
	pthread_once(&driver_once, driver_load);
	return error_note(memory_take(pointer, bytes));
}

__attribute__((noinline)) int cudaFree(void *pointer)
{
	return error_note(driver.release((uint64_t)(uintptr_t)pointer) ? INVALID_VALUE : 0);
}

/* The structures of three numbers are as CUDA's dim3. */
__attribute__((noinline)) int cudaLaunchKernel(
	const void *stub, uint64_t grid, unsigned int grid_z, uint64_t block, unsigned int block_z, void **arguments)
{
	return error_note(driver.launch((void *)stub, (unsigned int)grid, (unsigned int)(grid >> 32), grid_z,
		(unsigned int)block, (unsigned int)(block >> 32), block_z, 0, NULL, arguments, NULL));
}

/* What stands for the kernel. */
__attribute__((noinline)) void scale_kernel(float *numbers, int count)
{
	for (int i = 0; i < count; i++)
		numbers[i] *= 2;
}

__attribute__((noinline)) static void *weights_allocate(size_t bytes)
{
	void *pointer = NULL;

	if (cudaMalloc(&pointer, bytes))
		printf("refused %zu\n", bytes);
	else
		printf("cudaMalloc %p %zu\n", pointer, bytes);
	return pointer;
}

static void release(void *pointer)
{
	printf("%s %p\n", cudaFree(pointer) ? "refused-free" : "freed", pointer);
}

/* As programs that are compiled when they run do: one of the kernels is launched twice. */
static void launch(void)
{
	void *first = NULL, *second = NULL, *missing = NULL;

	if (!cudaLaunchKernel((const void *)scale_kernel, 1, 1, 32, 1, NULL))
		printf("launched scale_kernel\n");
	if (driver.find(&first, NULL, "_Z3addPfi") || driver.find(&second, NULL, "triton_poi_fused_add_0") ||
		!driver.find(&missing, NULL, ""))
		exit(1);
	driver.launch(first, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	driver.launch(second, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	driver.launch(first, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	printf("launched add(float*, int)\nlaunched triton_poi_fused_add_0\nlaunched add(float*, int)\n");
}

static void *work(void *unused)
{
	void *first, *second;

	weights_allocate(TOO_MUCH);
	first = weights_allocate(3 * MIB);
	second = weights_allocate(3 * MIB);
	weights_allocate(MIB);
	weights_allocate(TOO_MUCH);
	weights_allocate(TOO_MUCH);
	release(first);
	release((char *)second + 4096); /* nobody gave that */
	weights_allocate(2 * MIB);
	launch();
	release(second);
	return unused;
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
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t ids[THREADS_MAX];

	if (argc > 1 && !strcmp(argv[1], "loop"))
		run_loop();

	for (int i = 0; i < threads && i < THREADS_MAX; i++)
		pthread_create(&ids[i], NULL, work, NULL);
	if (!threads)
		work(NULL);
	for (int i = 0; i < threads && i < THREADS_MAX; i++)
		pthread_join(ids[i], NULL);
	fflush(stdout);
	usleep(300000); /* who wants to know what lies where has the time to look */
	return 0;
}
