/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two functions by which PyTorch's CPU allocator reports, for a job that
 * needs Python frames at known allocations and no PyTorch: tests/jobs/frames.py
 * loads this under the names of libc10 and libtorch_cpu, in any interpreter.
 */
#define FUNCTION(name)                                                                                                 \
	__asm__(".globl " name "\n.type " name ", @function\n" name ": push %rbp\n pop %rbp\n ret\n.size " name        \
		", . - " name "\n")

FUNCTION("_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
FUNCTION("_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv");
