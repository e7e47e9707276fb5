// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sizes of accelerators: NVIDIA's by NVML, which comes with the driver and is only
 * loaded when it is there; AMD's by what the kernel's driver shows in sysfs.
 */
#include "target/accelerator.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/auxv.h>

#include <hdtrace/event.h>

#define NVML_LIBRARY "libnvidia-ml.so.1"
#define AMD_FILES "/sys/class/drm/card*/device/mem_info_vram_total"
#define DEVICES_MAX 64u

/* nvmlMemory_t: total, free, used, in bytes (NVML API reference, "Device Queries"). */
struct nvml_memory {
	unsigned long long total, available, used;
};

struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *count);
	int (*device)(unsigned int index, void **device);
	int (*memory)(void *device, struct nvml_memory *memory);
};

/* One size for all, 0 as soon as two differ. */
struct sizes {
	uint64_t bytes;
	unsigned int count;
};

static void size_add(struct sizes *sizes, uint64_t bytes)
{
	sizes->bytes = !sizes->count || sizes->bytes == bytes ? bytes : 0;
	sizes->count++;
}

static bool nvml_find(void *library, struct nvml *nvml)
{
	*(void **)&nvml->init = dlsym(library, "nvmlInit_v2");
	*(void **)&nvml->shutdown = dlsym(library, "nvmlShutdown");
	*(void **)&nvml->count = dlsym(library, "nvmlDeviceGetCount_v2");
	*(void **)&nvml->device = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&nvml->memory = dlsym(library, "nvmlDeviceGetMemoryInfo");
	return nvml->init && nvml->shutdown && nvml->count && nvml->device && nvml->memory;
}

/* A static program was started without a loader; a library would bring a C library of its own. */
static bool libraries_load(void)
{
	return getauxval(AT_BASE);
}

static uint64_t nvidia_bytes(void)
{
	void *library = libraries_load() ? dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL) : NULL, *device;
	struct sizes sizes = {0};
	struct nvml_memory memory;
	unsigned int count = 0;
	struct nvml nvml;

	if (!library)
		return 0;
	if (nvml_find(library, &nvml) && !nvml.init()) {
		if (nvml.count(&count))
			count = 0;
		for (unsigned int index = 0; index < count && index < DEVICES_MAX; index++)
			size_add(
				&sizes, nvml.device(index, &device) || nvml.memory(device, &memory) ? 0 : memory.total);
		nvml.shutdown();
	}
	dlclose(library);
	return sizes.bytes;
}

static uint64_t amd_bytes(void)
{
	struct sizes sizes = {0};
	glob_t files;

	if (glob(AMD_FILES, 0, NULL, &files))
		return 0;
	for (size_t index = 0; index < files.gl_pathc; index++) {
		FILE *file = fopen(files.gl_pathv[index], "re");
		unsigned long long bytes = 0;

		if (!file)
			continue;
		if (fscanf(file, "%llu", &bytes) == 1)
			size_add(&sizes, bytes);
		fclose(file);
	}
	globfree(&files);
	return sizes.bytes;
}

uint64_t accelerator_bytes(uint8_t device_type)
{
	static bool asked[2];
	static uint64_t bytes[2];
	bool amd = device_type == DEVICE_HIP;

	if (device_type != DEVICE_CUDA && !amd)
		return 0;
	if (!asked[amd]) {
		asked[amd] = true;
		bytes[amd] = amd ? amd_bytes() : nvidia_bytes();
	}
	return bytes[amd];
}
