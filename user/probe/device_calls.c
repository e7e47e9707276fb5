// SPDX-License-Identifier: BSD-2-Clause
/*
 * The table. Sources: the CUDA runtime and driver API references (12), the HIP
 * API reference (6), the AscendCL headers (CANN 8), the oneAPI Level Zero
 * specification (1.9). What is only by these documents, and was never run on
 * its hardware, is said so in docs/architecture.md.
 *
 * Memory with a pitch, arrays and imported memory are CUDA's only. Functions with
 * _ptsz are those of programs whose threads have default streams of their own.
 */
#include "probe/device_calls.h"

/* An argument by its number. */
#define ARGUMENT(number) ((number) + 1)
/* The number of one that is on the stack: the first there is the seventh. */
#define ON_STACK(number) (PLACE_STACK + (number)-ARGUMENT_REGISTERS + 1)
#define ARGUMENT_REGISTERS 6

#define CALL(library_, type_, symbol_, action_, memory_, ...)                                                          \
	{                                                                                                              \
		.library = (library_), .program = PROGRAM_CALLED, .symbol = (symbol_), .call = {                       \
			.action = (action_),                                                                           \
			.memory = (memory_),                                                                           \
			.device_type = (type_),                                                                        \
			.runtime = (library_) == LIBRARY_CUDA_RUNTIME,                                                 \
			__VA_ARGS__                                                                                    \
		}                                                                                                      \
	}
#define SELECT(library_, type_, symbol_, ...)                                                                          \
	CALL(library_, type_, symbol_, 0, SEGMENT_DEVICE, .selection = SELECT_DEVICE, __VA_ARGS__)
#define LAUNCH(library_, symbol_, function_)                                                                           \
	{                                                                                                              \
		.library = (library_), .program = PROGRAM_LAUNCHED, .symbol = (symbol_), .kernel = {                   \
			.function = (function_),                                                                       \
			.runtime = (library_) == LIBRARY_CUDA_RUNTIME,                                                 \
		}                                                                                                      \
	}
/* (result, module, name) */
#define SEEK(library_, symbol_)                                                                                        \
	{                                                                                                              \
		.library = (library_), .program = PROGRAM_SOUGHT, .symbol = (symbol_), .kernel = {                     \
			.result = ARGUMENT(0),                                                                         \
			.name = ARGUMENT(2),                                                                           \
		}                                                                                                      \
	}

#define RESULT_BYTES .result = ARGUMENT(0), .bytes = ARGUMENT(1)
#define ADDRESS .address = ARGUMENT(0)
#define ADDRESS_BYTES .address = ARGUMENT(0), .bytes = ARGUMENT(1)
/* (address, bytes, offset, handle) */
#define MAPPING ADDRESS_BYTES, .handle = ARGUMENT(3), .handle_kind = HANDLE_PHYSICAL

/* A structure of three sizes is passed on the stack. */
#define EXTENT .bytes = ON_STACK(6), .rows = ON_STACK(7), .layers = ON_STACK(8)
#define CONTEXT .handle_kind = HANDLE_CONTEXT
#define POOL .handle_kind = HANDLE_POOL
#define PHYSICAL .handle_kind = HANDLE_PHYSICAL
/* Of cudaExternalMemoryHandleDesc and of CUDA_EXTERNAL_MEMORY_HANDLE_DESC: a kind, a handle of 16 bytes, the size. */
#define EXTERNAL .bytes = ARGUMENT(1), .bytes_offset = 24

#define POOLED .pooled = 1
#define RUNTIME LIBRARY_CUDA_RUNTIME, DEVICE_CUDA
#define DRIVER LIBRARY_CUDA, DEVICE_CUDA
#define HIP LIBRARY_HIP, DEVICE_CUDA /* PyTorch on ROCm names its devices cuda */
#define ASCEND LIBRARY_ASCEND, DEVICE_PRIVATE
#define ZERO LIBRARY_LEVEL_ZERO, DEVICE_XPU

/* The arguments of a macro are what RUNTIME and its likes stand for. */
#define ROW(macro, ...) macro(__VA_ARGS__)

static const struct device_call rows[] = {
	ROW(CALL, RUNTIME, "cudaMalloc", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, RUNTIME, "cudaMallocAsync", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES, .stream = ARGUMENT(2),
		POOLED),
	ROW(CALL, RUNTIME, "cudaMallocAsync_ptsz", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES,
		.stream = ARGUMENT(2), POOLED),
	ROW(CALL, RUNTIME, "cudaMallocFromPoolAsync", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES,
		.handle = ARGUMENT(2), POOL, .stream = ARGUMENT(3), POOLED),
	ROW(CALL, RUNTIME, "cudaMallocFromPoolAsync_ptsz", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES,
		.handle = ARGUMENT(2), POOL, .stream = ARGUMENT(3), POOLED),
	ROW(CALL, RUNTIME, "cudaMallocManaged", SEGMENT_ALLOCATE, SEGMENT_MANAGED, RESULT_BYTES),
	ROW(CALL, RUNTIME, "cudaMallocHost", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, RUNTIME, "cudaHostAlloc", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, RUNTIME, "cudaHostRegister", SEGMENT_REGISTER, SEGMENT_HOST, ADDRESS_BYTES),
	ROW(CALL, RUNTIME, "cudaHostUnregister", SEGMENT_UNREGISTER, SEGMENT_HOST, ADDRESS),
	ROW(CALL, RUNTIME, "cudaFree", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS),
	ROW(CALL, RUNTIME, "cudaFreeAsync", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS, .stream = ARGUMENT(1), POOLED),
	ROW(CALL, RUNTIME, "cudaFreeAsync_ptsz", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS, .stream = ARGUMENT(1), POOLED),
	ROW(CALL, RUNTIME, "cudaFreeHost", SEGMENT_FREE, SEGMENT_HOST, ADDRESS),
	ROW(CALL, RUNTIME, "cudaMallocPitch", SEGMENT_ALLOCATE, SEGMENT_DEVICE, .result = ARGUMENT(0),
		.pitch = ARGUMENT(1), .bytes = ARGUMENT(2), .rows = ARGUMENT(3)),
	/* A cudaPitchedPtr begins with the address and the pitch. */
	ROW(CALL, RUNTIME, "cudaMalloc3D", SEGMENT_ALLOCATE, SEGMENT_DEVICE, .result = ARGUMENT(0),
		.pitch = ARGUMENT(0), .pitch_offset = 8, EXTENT),
	ROW(CALL, RUNTIME, "cudaMallocArray", SEGMENT_ALLOCATE, SEGMENT_ARRAY, .result = ARGUMENT(0),
		.channels = ARGUMENT(1), .bytes = ARGUMENT(2), .rows = ARGUMENT(3)),
	ROW(CALL, RUNTIME, "cudaMalloc3DArray", SEGMENT_ALLOCATE, SEGMENT_ARRAY, .result = ARGUMENT(0),
		.channels = ARGUMENT(1), EXTENT),
	ROW(CALL, RUNTIME, "cudaMallocMipmappedArray", SEGMENT_ALLOCATE, SEGMENT_ARRAY, .result = ARGUMENT(0),
		.channels = ARGUMENT(1), .levels = ARGUMENT(2), EXTENT),
	ROW(CALL, RUNTIME, "cudaFreeArray", SEGMENT_FREE, SEGMENT_ARRAY, ADDRESS),
	ROW(CALL, RUNTIME, "cudaFreeMipmappedArray", SEGMENT_FREE, SEGMENT_ARRAY, ADDRESS),
	ROW(CALL, RUNTIME, "cudaImportExternalMemory", SEGMENT_ALLOCATE, SEGMENT_IMPORTED, .result = ARGUMENT(0),
		EXTERNAL),
	ROW(CALL, RUNTIME, "cudaDestroyExternalMemory", SEGMENT_FREE, SEGMENT_IMPORTED, ADDRESS),
	ROW(CALL, RUNTIME, "cudaIpcOpenMemHandle", SEGMENT_ALLOCATE, SEGMENT_IMPORTED, .result = ARGUMENT(0)),
	ROW(CALL, RUNTIME, "cudaMemPoolCreate", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), POOL,
		.location = ARGUMENT(1)),
	ROW(CALL, RUNTIME, "cudaDeviceGetDefaultMemPool", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), POOL,
		.device = ARGUMENT(1)),
	ROW(CALL, RUNTIME, "cudaDeviceGetMemPool", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), POOL,
		.device = ARGUMENT(1)),
	ROW(SELECT, RUNTIME, "cudaSetDevice", .device = ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaLaunchKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaLaunchKernel_ptsz", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaLaunchKernelExC", ARGUMENT(1)),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaLaunchKernelExC_ptsz", ARGUMENT(1)),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaLaunchCooperativeKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaLaunchCooperativeKernel_ptsz", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaGraphLaunch", 0),
	LAUNCH(LIBRARY_CUDA_RUNTIME, "cudaGraphLaunch_ptsz", 0),

	ROW(CALL, DRIVER, "cuMemAlloc_v2", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, DRIVER, "cuMemAllocAsync", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES, .stream = ARGUMENT(2),
		POOLED),
	ROW(CALL, DRIVER, "cuMemAllocAsync_ptsz", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES, .stream = ARGUMENT(2),
		POOLED),
	ROW(CALL, DRIVER, "cuMemAllocFromPoolAsync", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES,
		.handle = ARGUMENT(2), POOL, .stream = ARGUMENT(3), POOLED),
	ROW(CALL, DRIVER, "cuMemAllocFromPoolAsync_ptsz", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES,
		.handle = ARGUMENT(2), POOL, .stream = ARGUMENT(3), POOLED),
	ROW(CALL, DRIVER, "cuMemAllocManaged", SEGMENT_ALLOCATE, SEGMENT_MANAGED, RESULT_BYTES),
	ROW(CALL, DRIVER, "cuMemAllocHost_v2", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, DRIVER, "cuMemHostAlloc", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, DRIVER, "cuMemHostRegister_v2", SEGMENT_REGISTER, SEGMENT_HOST, ADDRESS_BYTES),
	ROW(CALL, DRIVER, "cuMemHostUnregister", SEGMENT_UNREGISTER, SEGMENT_HOST, ADDRESS),
	ROW(CALL, DRIVER, "cuMemFree_v2", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS),
	ROW(CALL, DRIVER, "cuMemFreeAsync", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS, .stream = ARGUMENT(1), POOLED),
	ROW(CALL, DRIVER, "cuMemFreeAsync_ptsz", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS, .stream = ARGUMENT(1), POOLED),
	ROW(CALL, DRIVER, "cuMemFreeHost", SEGMENT_FREE, SEGMENT_HOST, ADDRESS),
	ROW(CALL, DRIVER, "cuMemCreate", SEGMENT_CREATE, SEGMENT_DEVICE, RESULT_BYTES, PHYSICAL,
		.location = ARGUMENT(2)),
	ROW(CALL, DRIVER, "cuMemImportFromShareableHandle", 0, SEGMENT_IMPORTED, .result = ARGUMENT(0), PHYSICAL),
	ROW(CALL, DRIVER, "cuMemRelease", SEGMENT_RELEASE, SEGMENT_DEVICE, ADDRESS),
	ROW(CALL, DRIVER, "cuMemMap", SEGMENT_MAP, SEGMENT_DEVICE, MAPPING),
	ROW(CALL, DRIVER, "cuMemUnmap", SEGMENT_UNMAP, SEGMENT_DEVICE, ADDRESS_BYTES),
	ROW(CALL, DRIVER, "cuMemAllocPitch_v2", SEGMENT_ALLOCATE, SEGMENT_DEVICE, .result = ARGUMENT(0),
		.pitch = ARGUMENT(1), .bytes = ARGUMENT(2), .rows = ARGUMENT(3)),
	ROW(CALL, DRIVER, "cuArrayCreate_v2", SEGMENT_ALLOCATE, SEGMENT_ARRAY, .result = ARGUMENT(0),
		.description = ARGUMENT(1)),
	ROW(CALL, DRIVER, "cuArray3DCreate_v2", SEGMENT_ALLOCATE, SEGMENT_ARRAY, .result = ARGUMENT(0),
		.description = ARGUMENT(1), .is_description_3d = 1),
	ROW(CALL, DRIVER, "cuMipmappedArrayCreate", SEGMENT_ALLOCATE, SEGMENT_ARRAY, .result = ARGUMENT(0),
		.description = ARGUMENT(1), .is_description_3d = 1, .levels = ARGUMENT(2)),
	ROW(CALL, DRIVER, "cuArrayDestroy", SEGMENT_FREE, SEGMENT_ARRAY, ADDRESS),
	ROW(CALL, DRIVER, "cuMipmappedArrayDestroy", SEGMENT_FREE, SEGMENT_ARRAY, ADDRESS),
	ROW(CALL, DRIVER, "cuImportExternalMemory", SEGMENT_ALLOCATE, SEGMENT_IMPORTED, .result = ARGUMENT(0),
		EXTERNAL),
	ROW(CALL, DRIVER, "cuDestroyExternalMemory", SEGMENT_FREE, SEGMENT_IMPORTED, ADDRESS),
	ROW(CALL, DRIVER, "cuIpcOpenMemHandle_v2", SEGMENT_ALLOCATE, SEGMENT_IMPORTED, .result = ARGUMENT(0)),
	ROW(CALL, DRIVER, "cuMemPoolCreate", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), POOL, .location = ARGUMENT(1)),
	ROW(CALL, DRIVER, "cuDeviceGetDefaultMemPool", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), POOL,
		.device = ARGUMENT(1)),
	ROW(CALL, DRIVER, "cuDeviceGetMemPool", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), POOL, .device = ARGUMENT(1)),
	ROW(CALL, DRIVER, "cuDevicePrimaryCtxRetain", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), CONTEXT,
		.device = ARGUMENT(1)),
	ROW(CALL, DRIVER, "cuCtxCreate_v2", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), CONTEXT, .device = ARGUMENT(2),
		.selection = SELECT_PUSH),
	ROW(CALL, DRIVER, "cuCtxCreate_v3", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), CONTEXT, .device = ARGUMENT(4),
		.selection = SELECT_PUSH),
	ROW(CALL, DRIVER, "cuCtxCreate_v4", 0, SEGMENT_DEVICE, .result = ARGUMENT(0), CONTEXT, .device = ARGUMENT(3),
		.selection = SELECT_PUSH),
	ROW(SELECT, DRIVER, "cuCtxSetCurrent", .handle = ARGUMENT(0), CONTEXT),
	ROW(CALL, DRIVER, "cuCtxPushCurrent_v2", 0, SEGMENT_DEVICE, .handle = ARGUMENT(0), CONTEXT,
		.selection = SELECT_PUSH),
	ROW(CALL, DRIVER, "cuCtxPopCurrent_v2", 0, SEGMENT_DEVICE, .selection = SELECT_POP),
	SEEK(LIBRARY_CUDA, "cuModuleGetFunction"),
	SEEK(LIBRARY_CUDA, "cuLibraryGetKernel"),
	LAUNCH(LIBRARY_CUDA, "cuLaunchKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA, "cuLaunchKernel_ptsz", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA, "cuLaunchKernelEx", ARGUMENT(1)),
	LAUNCH(LIBRARY_CUDA, "cuLaunchKernelEx_ptsz", ARGUMENT(1)),
	LAUNCH(LIBRARY_CUDA, "cuLaunchCooperativeKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA, "cuLaunchCooperativeKernel_ptsz", ARGUMENT(0)),
	LAUNCH(LIBRARY_CUDA, "cuGraphLaunch", 0),
	LAUNCH(LIBRARY_CUDA, "cuGraphLaunch_ptsz", 0),

	ROW(CALL, HIP, "hipMalloc", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, HIP, "hipExtMallocWithFlags", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, HIP, "hipMallocAsync", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES, .stream = ARGUMENT(2), POOLED),
	ROW(CALL, HIP, "hipMallocFromPoolAsync", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES, .stream = ARGUMENT(3),
		POOLED),
	ROW(CALL, HIP, "hipMallocManaged", SEGMENT_ALLOCATE, SEGMENT_MANAGED, RESULT_BYTES),
	ROW(CALL, HIP, "hipHostMalloc", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, HIP, "hipHostAlloc", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, HIP, "hipMallocHost", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, HIP, "hipFreeHost", SEGMENT_FREE, SEGMENT_HOST, ADDRESS),
	ROW(CALL, HIP, "hipHostRegister", SEGMENT_REGISTER, SEGMENT_HOST, ADDRESS_BYTES),
	ROW(CALL, HIP, "hipHostUnregister", SEGMENT_UNREGISTER, SEGMENT_HOST, ADDRESS),
	ROW(CALL, HIP, "hipFree", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS),
	ROW(CALL, HIP, "hipFreeAsync", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS, .stream = ARGUMENT(1), POOLED),
	ROW(CALL, HIP, "hipHostFree", SEGMENT_FREE, SEGMENT_HOST, ADDRESS),
	ROW(CALL, HIP, "hipMemCreate", SEGMENT_CREATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, HIP, "hipMemRelease", SEGMENT_RELEASE, SEGMENT_DEVICE, ADDRESS),
	ROW(CALL, HIP, "hipMemMap", SEGMENT_MAP, SEGMENT_DEVICE, MAPPING),
	ROW(CALL, HIP, "hipMemUnmap", SEGMENT_UNMAP, SEGMENT_DEVICE, ADDRESS_BYTES),
	ROW(SELECT, HIP, "hipSetDevice", .device = ARGUMENT(0)),
	SEEK(LIBRARY_HIP, "hipModuleGetFunction"),
	LAUNCH(LIBRARY_HIP, "hipLaunchKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_HIP, "hipModuleLaunchKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_HIP, "hipLaunchCooperativeKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_HIP, "hipExtModuleLaunchKernel", ARGUMENT(0)),
	LAUNCH(LIBRARY_HIP, "hipGraphLaunch", 0),

	ROW(CALL, ASCEND, "aclrtMalloc", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, ASCEND, "aclrtMallocAlign32", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, ASCEND, "aclrtMallocCached", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, ASCEND, "aclrtMallocWithCfg", SEGMENT_ALLOCATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, ASCEND, "aclrtMallocHost", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, ASCEND, "aclrtMallocHostWithCfg", SEGMENT_ALLOCATE, SEGMENT_HOST, RESULT_BYTES),
	ROW(CALL, ASCEND, "aclrtFree", SEGMENT_FREE, SEGMENT_DEVICE, ADDRESS),
	ROW(CALL, ASCEND, "aclrtFreeHost", SEGMENT_FREE, SEGMENT_HOST, ADDRESS),
	ROW(CALL, ASCEND, "aclrtMallocPhysical", SEGMENT_CREATE, SEGMENT_DEVICE, RESULT_BYTES),
	ROW(CALL, ASCEND, "aclrtFreePhysical", SEGMENT_RELEASE, SEGMENT_DEVICE, ADDRESS),
	ROW(CALL, ASCEND, "aclrtMapMem", SEGMENT_MAP, SEGMENT_DEVICE, MAPPING),
	ROW(CALL, ASCEND, "aclrtUnmapMem", SEGMENT_UNMAP, SEGMENT_DEVICE, ADDRESS),
	ROW(SELECT, ASCEND, "aclrtSetDevice", .device = ARGUMENT(0)),

	/* (context, description, bytes, alignment, device, result), and so on */
	ROW(CALL, ZERO, "zeMemAllocDevice", SEGMENT_ALLOCATE, SEGMENT_DEVICE, .bytes = ARGUMENT(2),
		.result = ARGUMENT(5)),
	ROW(CALL, ZERO, "zeMemAllocShared", SEGMENT_ALLOCATE, SEGMENT_MANAGED, .bytes = ARGUMENT(3),
		.result = ON_STACK(6)),
	ROW(CALL, ZERO, "zeMemAllocHost", SEGMENT_ALLOCATE, SEGMENT_HOST, .bytes = ARGUMENT(2), .result = ARGUMENT(4)),
	ROW(CALL, ZERO, "zeMemFree", SEGMENT_FREE, SEGMENT_DEVICE, .address = ARGUMENT(1)),
	ROW(CALL, ZERO, "zeMemFreeExt", SEGMENT_FREE, SEGMENT_DEVICE, .address = ARGUMENT(2)),
	/* (context, address, bytes, physical memory, offset, access) */
	ROW(CALL, ZERO, "zeVirtualMemMap", SEGMENT_MAP, SEGMENT_DEVICE, .address = ARGUMENT(1), .bytes = ARGUMENT(2),
		.handle = ARGUMENT(3), .handle_kind = HANDLE_PHYSICAL),
	ROW(CALL, ZERO, "zeVirtualMemUnmap", SEGMENT_UNMAP, SEGMENT_DEVICE, .address = ARGUMENT(1),
		.bytes = ARGUMENT(2)),
};

const struct device_call *device_calls(size_t *count)
{
	*count = sizeof(rows) / sizeof(rows[0]);
	return rows;
}

bool device_call_has_result(const struct device_call *call)
{
	return call->call.result || call->call.action == SEGMENT_ALLOCATE || call->call.action == SEGMENT_CREATE ||
	       call->call.action == SEGMENT_MAP || call->call.action == SEGMENT_REGISTER;
}

bool library_is_of_devices(enum library_role role)
{
	return role == LIBRARY_CUDA_RUNTIME || role == LIBRARY_CUDA || role == LIBRARY_HIP || role == LIBRARY_ASCEND ||
	       role == LIBRARY_LEVEL_ZERO;
}
