/*
 * Stand-in for libcudart.so.12, the CUDA runtime: versions, errors, devices. The devices
 * look like an A100, since PyTorch chooses kernels by that.
 */
#include <stdio.h>
#include <string.h>

#include "runtime.h"

static __thread int last_error;

int fail(int error)
{
	last_error = error;
	return error;
}

EXPORT int cudaGetLastError(void)
{
	int error = last_error;
	last_error = SUCCESS;
	return error;
}

EXPORT int cudaPeekAtLastError(void)
{
	return last_error;
}

EXPORT const char *cudaGetErrorString(int error)
{
	switch (error) {
	case SUCCESS:
		return "no error";
	case ERROR_MEMORY_ALLOCATION:
		return "out of memory";
	case ERROR_NO_DEVICE:
		return "no CUDA-capable device is detected";
	case ERROR_INVALID_DEVICE:
		return "invalid device ordinal";
	case ERROR_NOT_READY:
		return "device not ready";
	default:
		return "error of the stand-in runtime";
	}
}

EXPORT const char *cudaGetErrorName(int error)
{
	return error == SUCCESS                   ? "cudaSuccess"
	       : error == ERROR_MEMORY_ALLOCATION ? "cudaErrorMemoryAllocation"
	                                          : "cudaErrorOfStandin";
}

EXPORT int cudaDriverGetVersion(int *version)
{
	*version = STANDIN_CUDA_VERSION;
	return SUCCESS;
}

EXPORT int cudaRuntimeGetVersion(int *version)
{
	*version = STANDIN_CUDA_VERSION;
	return SUCCESS;
}

EXPORT int cudaGetDeviceCount(int *count)
{
	*count = standin_device_count();
	return *count ? SUCCESS : fail(ERROR_NO_DEVICE);
}

EXPORT int cudaGetDevice(int *device)
{
	*device = standin_current_device();
	return SUCCESS;
}

EXPORT int cudaSetDevice(int device)
{
	if (device < 0 || device >= standin_device_count())
		return fail(ERROR_INVALID_DEVICE);
	standin_set_current_device(device);
	return SUCCESS;
}

EXPORT int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer;
	return SUCCESS;
}

EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	return SUCCESS;
}

EXPORT int cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
	snprintf(text, (size_t)bytes, "0000:%02x:00.0", device + 1);
	return SUCCESS;
}

/*
 * What a device can do. Where it stands in cudaDeviceProp of CUDA 12 (1032 bytes) and,
 * if cudaDeviceGetAttribute tells it too, its number in cudaDeviceAttr; 0: neither.
 */
#define PROPERTIES_BYTES 1032
#define UUID_OFFSET 256
#define UUID_BYTES 16
#define NAME_BYTES 256
#define TOTAL_MEMORY_OFFSET 288
#define PCI_BUS_OFFSET 584

static const struct {
	int offset, bytes, attribute;
	long value;
} capabilities[] = {
	{296, 8, 8, 49152},      /* sharedMemPerBlock */
	{304, 4, 0, 65536},      /* regsPerBlock */
	{308, 4, 10, 32},        /* warpSize */
	{312, 8, 0, 0x7fffffff}, /* memPitch */
	{320, 4, 1, 1024},       /* maxThreadsPerBlock */
	{324, 4, 2, 1024},       /* maxThreadsDim[0] */
	{328, 4, 3, 1024},       /* maxThreadsDim[1] */
	{332, 4, 4, 64},         /* maxThreadsDim[2] */
	{336, 4, 5, 0x7fffffff}, /* maxGridSize[0] */
	{340, 4, 6, 65535},      /* maxGridSize[1] */
	{344, 4, 7, 65535},      /* maxGridSize[2] */
	{348, 4, 0, 1410000},    /* clockRate */
	{352, 8, 12, 65536},     /* totalConstMem; the attribute: registers of a block */
	{360, 4, 75, 8},         /* major */
	{364, 4, 76, 0},         /* minor */
	{368, 8, 0, 512},        /* textureAlignment */
	{388, 4, 16, 108},       /* multiProcessorCount */
	{400, 4, 0, 1},          /* canMapHostMemory */
	{576, 4, 0, 1},          /* concurrentKernels */
	{600, 4, 0, 3},          /* asyncEngineCount */
	{604, 4, 0, 1},          /* unifiedAddressing */
	{608, 4, 0, 1593000},    /* memoryClockRate */
	{612, 4, 0, 5120},       /* memoryBusWidth */
	{616, 4, 38, 40 << 20},  /* l2CacheSize */
	{624, 4, 39, 2048},      /* maxThreadsPerMultiProcessor */
	{640, 8, 81, 167936},    /* sharedMemPerMultiprocessor */
	{648, 4, 82, 65536},     /* regsPerMultiprocessor */
	{652, 4, 0, 1},          /* managedMemory */
	{688, 4, 0, 1},          /* concurrentManagedAccess */
	{696, 8, 97, 166912},    /* sharedMemPerBlockOptin */
	{712, 4, 106, 32},       /* maxBlocksPerMultiProcessor */
	{720, 8, 0, 1024},       /* reservedSharedMemPerBlock */
	{744, 4, 0, 1},          /* memoryPoolsSupported */
};

#define CAPABILITIES (sizeof(capabilities) / sizeof(capabilities[0]))

static void put(char *properties, int offset, long value, int bytes)
{
	memcpy(properties + offset, &value, (size_t)bytes); /* little-endian */
}

EXPORT int cudaGetDeviceProperties_v2(char *properties, int device)
{
	if (device < 0 || device >= standin_device_count())
		return fail(ERROR_INVALID_DEVICE);
	memset(properties, 0, PROPERTIES_BYTES);
	snprintf(properties, NAME_BYTES, "Stand-in A100-SXM4-80GB");
	memcpy(properties + UUID_OFFSET, "hdtrace-standin", UUID_BYTES - 1);
	properties[UUID_OFFSET + UUID_BYTES - 1] = (char)device;
	put(properties, TOTAL_MEMORY_OFFSET, (long)standin_device_bytes(), 8);
	put(properties, PCI_BUS_OFFSET, device + 1, 4);
	for (size_t place = 0; place < CAPABILITIES; place++)
		put(properties, capabilities[place].offset, capabilities[place].value, capabilities[place].bytes);
	return SUCCESS;
}

EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = 1; /* a switch that is on */
	for (size_t place = 0; place < CAPABILITIES; place++)
		if (attribute && capabilities[place].attribute == attribute)
			*value = (int)capabilities[place].value;
	return SUCCESS;
}
