/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* The kernel types that bpf/ uses, for the architecture being built. See README.md here. */
#ifndef HDTRACE_VMLINUX_H
#define HDTRACE_VMLINUX_H

#include <stdbool.h>
#include <linux/bpf.h>

#if defined(__TARGET_ARCH_x86)
#include "x86_64.h"
#elif defined(__TARGET_ARCH_arm64)
#include "arm64.h"
#else
#error "hdtrace has kernel types for x86_64 and arm64 only"
#endif

#endif
