// SPDX-License-Identifier: BSD-2-Clause
/* The table. Symbols are those of PyTorch 1.13 to 2.14 (libstdc++ ABI) and of CPython. */
#include "probe/catalogue.h"

#include <string.h>

static const struct catalogue_row rows[] = {
	{
		.library = LIBRARY_C10,
		.program = PROGRAM_ALLOCATED,
		.symbol = "_ZN3c1025ProfiledCPUMemoryReporter3NewE",
		.readable = "c10::ProfiledCPUMemoryReporter::New",
		.without = "no memory blocks",
		.needed = true,
	},
	{
		.library = LIBRARY_C10,
		.program = PROGRAM_FREED,
		.symbol = "_ZN3c1025ProfiledCPUMemoryReporter6DeleteE",
		.readable = "c10::ProfiledCPUMemoryReporter::Delete",
		.without = "no ends of memory blocks",
		.needed = true,
	},
	{
		.library = LIBRARY_C10,
		.program = PROGRAM_DEVICE,
		.symbol = "_ZN3c1027reportMemoryUsageToProfilerE",
		.readable = "c10::reportMemoryUsageToProfiler",
		.without = "no memory of devices",
	},
	{
		.library = LIBRARY_C10,
		.program = PROGRAM_EXHAUSTED,
		.symbol = "_ZN3c1027reportOutOfMemoryToProfilerE",
		.readable = "c10::reportOutOfMemoryToProfiler",
		.without = "no snapshot when the memory of a device is exhausted",
	},
	{
		.library = LIBRARY_TORCH_CPU,
		.program = PROGRAM_RESIZED,
		.symbol = "_ZN2at6native16resize_bytes_cpuE",
		.readable = "at::native::resize_bytes_cpu",
		.without = "resized storages look like other allocations outside operators",
		.full_only = true,
	},
	{
		.library = LIBRARY_TORCH_CUDA,
		.program = PROGRAM_RESIZED,
		.symbol = "_ZN2at6native17resize_bytes_cudaE",
		.readable = "at::native::resize_bytes_cuda",
		.without = "resized storages look like other allocations outside operators",
		.full_only = true,
	},
	{
		.library = LIBRARY_TORCH_CPU,
		.program = PROGRAM_NODE,
		.symbol = "_ZN5torch8autograd6Engine17evaluate_functionE",
		.readable = "torch::autograd::Engine::evaluate_function",
		.without = "the backward phase is known from Python frames only",
		.full_only = true,
	},
	{
		.library = LIBRARY_TORCH_CPU,
		.program = PROGRAM_GRADIENT,
		.symbol = "_ZN5torch8autograd14AccumulateGrad5applyE",
		.readable = "torch::autograd::AccumulateGrad::apply",
		.without = "no categories Gradient and Parameter",
		.full_only = true,
	},
	{
		.library = LIBRARY_TORCH_PYTHON,
		.program = PROGRAM_INVOKED,
		.symbol = "_ZN5torch3jit24invokeOperatorFromPythonE",
		.readable = "torch::jit::invokeOperatorFromPython",
		.without = "profiler ranges show up as aten.empty",
		.full_only = true,
	},
	{
		.library = LIBRARY_STDCXX,
		.program = PROGRAM_THROWN,
		.symbol = "__cxa_throw",
		.readable = "__cxa_throw",
		.without = "operators that raise are counted as if they ran",
		.full_only = true,
	},
	{
		.library = LIBRARY_PYTHON,
		.program = PROGRAM_FINALIZED,
		.symbol = "Py_FinalizeEx",
		.readable = "Py_FinalizeEx",
		.without = "blocks freed while the interpreter shuts down are not persistent",
	},
};

const struct catalogue_row *catalogue_rows(size_t *count)
{
	*count = sizeof(rows) / sizeof(rows[0]);
	return rows;
}

static const struct catalogue_usdt usdt_rows[] = {
	{
		.library = LIBRARY_C10_CUDA,
		.program = PROGRAM_REQUESTED,
		.provider = "pytorch",
		.name = "malloc", /* (pointer, device, bytes, stream) */
		.arguments = {[USDT_MALLOC_POINTER] = 0, [USDT_MALLOC_BYTES] = 2, [USDT_MALLOC_STREAM] = 3},
		.without = "streams are not known, and the size of a block that no operator used is rounded up",
	},
};

const struct catalogue_usdt *catalogue_usdt(size_t *count)
{
	*count = sizeof(usdt_rows) / sizeof(usdt_rows[0]);
	return usdt_rows;
}

/* File names that start so, with the role they may have. */
static const struct {
	const char *prefix;
	enum library_role role;
} names[] = {
	{"libtorch_cpu.so", LIBRARY_TORCH_CPU},
	{"libc10.so", LIBRARY_C10},
	{"libc10_cuda.so", LIBRARY_C10_CUDA},
	{"libtorch_cuda.so", LIBRARY_TORCH_CUDA},
	{"libtorch_python.so", LIBRARY_TORCH_PYTHON},
	{"libstdc++.so", LIBRARY_STDCXX},
	{"libcudart.so", LIBRARY_CUDA_RUNTIME},
	{"libcuda.so", LIBRARY_CUDA},
	{"libamdhip64.so", LIBRARY_HIP},
	{"libascendcl.so", LIBRARY_ASCEND},
	{"libze_loader.so", LIBRARY_LEVEL_ZERO},
	{"libnccl.so", LIBRARY_NCCL},
	{"librccl.so", LIBRARY_RCCL},
	{"libhccl.so", LIBRARY_HCCL},
	{"libmpi.so", LIBRARY_MPI}, /* Open MPI, and MPICH by its own name */
	{"libmpich.so", LIBRARY_MPI},
	{"libpython3", LIBRARY_PYTHON},
	{"python", LIBRARY_PYTHON},
};

enum library_role library_role_of(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	for (size_t index = 0; index < sizeof(names) / sizeof(names[0]); index++)
		if (!strncmp(name, names[index].prefix, strlen(names[index].prefix)))
			return names[index].role;
	return LIBRARY_NONE;
}

const char *library_role_name(enum library_role role)
{
	static const char *const role_names[LIBRARY_ROLES] = {"none", "libc10", "libtorch_cpu", "libtorch_python",
		"libstdc++", "libc10_cuda", "libtorch_cuda", "libcudart", "libcuda", "libamdhip64", "libascendcl",
		"libze_loader", "libnccl", "librccl", "libhccl", "MPI", "program", "Python"};

	return role < LIBRARY_ROLES ? role_names[role] : "?";
}
