/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Registers as a uprobe program sees them: the layout of struct pt_regs is part
 * of the program context's ABI. task_struct is relocated at load time (CO-RE).
 */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long orig_ax;
	unsigned long ip, cs, flags, sp, ss;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	unsigned long fsbase;
};

struct task_struct {
	struct thread_struct thread;
	int tgid;
	struct task_struct *real_parent;
};

#pragma clang attribute pop
