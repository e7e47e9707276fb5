// SPDX-License-Identifier: BSD-2-Clause
/* The table. Symbols are those of PyTorch 1.13 to 2.14 (libstdc++ ABI) and of CPython. */
#include "probe/catalogue.h"

#include <string.h>

static const struct catalogue_row rows[] = {
	{LIBRARY_C10, PROGRAM_ALLOCATED, "_ZN3c1025ProfiledCPUMemoryReporter3NewE",
		"c10::ProfiledCPUMemoryReporter::New", "no memory blocks", true, false},
	{LIBRARY_C10, PROGRAM_FREED, "_ZN3c1025ProfiledCPUMemoryReporter6DeleteE",
		"c10::ProfiledCPUMemoryReporter::Delete", "no ends of memory blocks", true, false},
	{LIBRARY_TORCH_CPU, PROGRAM_RESIZED, "_ZN2at6native16resize_bytes_cpuE", "at::native::resize_bytes_cpu",
		"resized storages look like other allocations outside operators", false, true},
	{LIBRARY_TORCH_CPU, PROGRAM_NODE, "_ZN5torch8autograd6Engine17evaluate_functionE",
		"torch::autograd::Engine::evaluate_function", "the backward phase is known from Python frames only",
		false, true},
	{LIBRARY_TORCH_CPU, PROGRAM_GRADIENT, "_ZN5torch8autograd14AccumulateGrad5applyE",
		"torch::autograd::AccumulateGrad::apply", "no categories Gradient and Parameter", false, true},
	{LIBRARY_TORCH_PYTHON, PROGRAM_INVOKED, "_ZN5torch3jit24invokeOperatorFromPythonE",
		"torch::jit::invokeOperatorFromPython", "profiler ranges show up as aten.empty", false, true},
	{LIBRARY_STDCXX, PROGRAM_THROWN, "__cxa_throw", "__cxa_throw",
		"operators that raise are counted as if they ran", false, true},
	{LIBRARY_PYTHON, PROGRAM_FINALIZED, "Py_FinalizeEx", "Py_FinalizeEx",
		"blocks freed while the interpreter shuts down are not persistent", false, false},
};

const struct catalogue_row *catalogue_rows(size_t *count)
{
	*count = sizeof(rows) / sizeof(rows[0]);
	return rows;
}

/* File names that start so, with the role they may have. */
static const struct {
	const char *prefix;
	enum library_role role;
} names[] = {
	{"libtorch_cpu.so", LIBRARY_TORCH_CPU},
	{"libc10.so", LIBRARY_C10},
	{"libtorch_python.so", LIBRARY_TORCH_PYTHON},
	{"libstdc++.so", LIBRARY_STDCXX},
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
	static const char *const role_names[LIBRARY_ROLES] = {
		"none", "libc10", "libtorch_cpu", "libtorch_python", "libstdc++", "Python"};

	return role < LIBRARY_ROLES ? role_names[role] : "?";
}
