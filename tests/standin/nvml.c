/* Stand-in for libnvidia-ml.so.1, the management library: how many devices there are, and that they share nothing. */
#include <stdio.h>

#include "standin.h"

enum {
	ERROR_NOT_SUPPORTED = 3,
	LINK_TO_UNKNOWN = 255,
};

EXPORT int nvmlInit(void)
{
	return 0;
}

EXPORT int nvmlInit_v2(void)
{
	return 0;
}

EXPORT int nvmlShutdown(void)
{
	return 0;
}

EXPORT const char *nvmlErrorString(int error)
{
	return "error of the stand-in NVML";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)standin_device_count();
	return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = (void *)((uintptr_t)index + 1);
	return 0;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
	*device = (void *)1;
	return 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3])
{
	const char *megabytes = standin_setting("STANDIN_CUDA_MEMORY_MB", "FAKE_CUDA_MEM_MB");

	memory[0] = (megabytes ? strtoull(megabytes, NULL, 10) : 81920ull) << 20;
	memory[1] = memory[0];
	memory[2] = 0;
	return 0;
}

EXPORT int nvmlDeviceGetUUID(void *device, char *text, unsigned bytes)
{
	snprintf(text, bytes, "GPU-68647472-6163-652d-7374-616e64696e%02x", (unsigned)(uintptr_t)device);
	return 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes)
{
	*count = 0;
	return 0;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type)
{
	*type = LINK_TO_UNKNOWN;
	return 0;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *information)
{
	return ERROR_NOT_SUPPORTED;
}
