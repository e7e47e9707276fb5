/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Registers as a uprobe program sees them: the layout of struct user_pt_regs is
 * part of the program context's ABI. task_struct is relocated at load time (CO-RE).
 */
struct pt_regs {
	unsigned long regs[31];
	unsigned long sp, pc, pstate;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
};

struct task_struct {
	struct thread_struct thread;
	int tgid;
	struct task_struct *real_parent;
};

#pragma clang attribute pop
