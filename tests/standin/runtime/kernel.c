/*
 * Kernels: registered and launched as by the code that nvcc generates, they do nothing
 * but take their time on the stream.
 */
#include <string.h>

#include "runtime.h"

enum {
	NESTED_LAUNCHES_MAX = 8,
	ACTIVE_BLOCKS = 2,
	FAT_BINARY_HANDLE_BYTES = 64,
};

/* --- launches ------------------------------------------------------------------------ */

struct launch {
	struct dim3 grid, block;
	size_t shared_bytes;
	void *stream;
};

static __thread struct launch pushed[NESTED_LAUNCHES_MAX];
static __thread int pushed_count;

/* `kernel<<<grid, block>>>(...)` pushes; the stub of the kernel pops, then launches. */
EXPORT unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared_bytes, void *stream)
{
	if (pushed_count == NESTED_LAUNCHES_MAX)
		return 1;
	pushed[pushed_count++] = (struct launch){grid, block, shared_bytes, stream};
	return 0;
}

EXPORT int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared_bytes, void **stream)
{
	if (!pushed_count)
		return fail(ERROR_INVALID_VALUE);
	struct launch launch = pushed[--pushed_count];
	*grid = launch.grid;
	*block = launch.block;
	*shared_bytes = launch.shared_bytes;
	*stream = launch.stream;
	return SUCCESS;
}

EXPORT int cudaLaunchKernel(
	const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared_bytes, void *stream)
{
	stream_append(stream_of(stream), kernel_duration());
	return SUCCESS;
}

/* The beginning of cudaLaunchConfig_t. */
struct launch_configuration {
	struct dim3 grid, block;
	size_t shared_bytes;
	void *stream;
};

EXPORT int cudaLaunchKernelExC(const struct launch_configuration *configuration, const void *function, void **arguments)
{
	stream_append(stream_of(configuration->stream), kernel_duration());
	return SUCCESS;
}

/* What nvcc 12.8 and later launch through. */
EXPORT int __cudaLaunchKernel(
	const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared_bytes, void *stream)
{
	return cudaLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
}

EXPORT int __cudaGetKernel(const void **kernel, const void *function)
{
	*kernel = function;
	return SUCCESS;
}

/* --- registration -------------------------------------------------------------------- */

EXPORT void **__cudaRegisterFatBinary(void *binary)
{
	return calloc(1, FAT_BINARY_HANDLE_BYTES);
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	free(handle);
}

EXPORT void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name)
{
}

EXPORT void __cudaRegisterVar(void **handle, char *variable)
{
}

EXPORT char __cudaInitModule(void **handle)
{
	return 0;
}

/* --- what a kernel needs ---------------------------------------------------------------- */

/* cudaFuncAttributes of CUDA 12 */
struct function_attributes {
	size_t shared_bytes, constant_bytes, local_bytes;
	int max_threads_per_block, registers, ptx_version, binary_version, caches_global;
	int max_dynamic_shared_bytes;
	char others[144 - 48];
};

EXPORT int cudaFuncGetAttributes(struct function_attributes *attributes, const void *function)
{
	_Static_assert(sizeof(*attributes) == 144, "as CUDA 12 has it");
	memset(attributes, 0, sizeof(*attributes));
	attributes->max_threads_per_block = 1024;
	attributes->registers = 32;
	attributes->ptx_version = attributes->binary_version = 80;
	attributes->max_dynamic_shared_bytes = 49152;
	return SUCCESS;
}

EXPORT int cudaFuncSetAttribute(const void *function, int attribute, int value)
{
	return SUCCESS;
}

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, const void *function, int block_size, size_t shared_bytes)
{
	*blocks = ACTIVE_BLOCKS;
	return SUCCESS;
}

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, const void *function, int block_size, size_t shared_bytes, unsigned flags)
{
	*blocks = ACTIVE_BLOCKS;
	return SUCCESS;
}
