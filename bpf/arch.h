/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * What differs between machines: registers of the function call ABI, the thread
 * pointer, and the word by which a live frame is recognised: on x86_64 the
 * return address, which the call left at the stack pointer.
 */
#ifndef HDTRACE_BPF_ARCH_H
#define HDTRACE_BPF_ARCH_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* In assembly, since the compiler would merge such loads into one at a computed context offset. */
#define REGISTER(context, field)                                                                                       \
	({                                                                                                             \
		__u64 value_;                                                                                          \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                                                  \
			     : "=r"(value_)                                                                            \
			     : "r"(context), "i"(__builtin_offsetof(struct pt_regs, field)));                          \
		value_;                                                                                                \
	})

#define ARGUMENT_REGISTERS 6

#if defined(__TARGET_ARCH_x86)

#define ARCH_STACK_POINTER(context) REGISTER(context, sp)
#define ARCH_INSTRUCTION(context) REGISTER(context, ip)
#define ARCH_RETURN_VALUE(context) REGISTER(context, ax)
#define ARCH_CALL_LENGTH 5 /* call rel32 */
#define ARCH_WORD 8        /* what a call pushes */
#define ARCH_DTV 8         /* thread pointer -> dtv (glibc, tcbhead_t) */

static __always_inline __u64 arch_register(struct pt_regs *context, __u32 index)
{
	switch (index) {
	case 0:
		return REGISTER(context, di);
	case 1:
		return REGISTER(context, si);
	case 2:
		return REGISTER(context, dx);
	case 3:
		return REGISTER(context, cx);
	case 4:
		return REGISTER(context, r8);
	case 5:
		return REGISTER(context, r9);
	}
	return 0;
}

/* `index`: enum usdt_register. */
static __always_inline __u64 arch_usdt_register(struct pt_regs *context, __u32 index)
{
	switch (index) {
	case USDT_RAX:
		return REGISTER(context, ax);
	case USDT_RDX:
		return REGISTER(context, dx);
	case USDT_RCX:
		return REGISTER(context, cx);
	case USDT_RBX:
		return REGISTER(context, bx);
	case USDT_RSI:
		return REGISTER(context, si);
	case USDT_RDI:
		return REGISTER(context, di);
	case USDT_RBP:
		return REGISTER(context, bp);
	case USDT_RSP:
		return REGISTER(context, sp);
	case USDT_R8:
		return REGISTER(context, r8);
	case USDT_R9:
		return REGISTER(context, r9);
	case USDT_R10:
		return REGISTER(context, r10);
	case USDT_R11:
		return REGISTER(context, r11);
	case USDT_R12:
		return REGISTER(context, r12);
	case USDT_R13:
		return REGISTER(context, r13);
	case USDT_R14:
		return REGISTER(context, r14);
	case USDT_R15:
		return REGISTER(context, r15);
	}
	return 0;
}

static __always_inline __u64 arch_thread_pointer(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();

	return task->thread.fsbase;
}

#elif defined(__TARGET_ARCH_arm64)

/* The programs load here, but operator frames are not followed yet: the loader refuses arm64 targets. */
#define ARCH_STACK_POINTER(context) REGISTER(context, sp)
#define ARCH_INSTRUCTION(context) REGISTER(context, pc)
#define ARCH_RETURN_VALUE(context) REGISTER(context, regs[0])
#define ARCH_CALL_LENGTH 4
#define ARCH_WORD 0
#define ARCH_DTV 0

static __always_inline __u64 arch_register(struct pt_regs *context, __u32 index)
{
	switch (index) {
	case 0:
		return REGISTER(context, regs[0]);
	case 1:
		return REGISTER(context, regs[1]);
	case 2:
		return REGISTER(context, regs[2]);
	case 3:
		return REGISTER(context, regs[3]);
	case 4:
		return REGISTER(context, regs[4]);
	case 5:
		return REGISTER(context, regs[5]);
	}
	return 0;
}

/* USDT points are read on x86_64 only. */
static __always_inline __u64 arch_usdt_register(struct pt_regs *context, __u32 index)
{
	(void)context;
	(void)index;
	return 0;
}

static __always_inline __u64 arch_thread_pointer(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();

	return task->thread.uw.tp_value;
}

#endif

#endif
