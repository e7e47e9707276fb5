/* SPDX-License-Identifier: BSD-2-Clause */
/* How much memory the accelerators of this machine have, by their drivers' own tools. */
#ifndef HDTRACE_TARGET_ACCELERATOR_H
#define HDTRACE_TARGET_ACCELERATOR_H

#include <stdint.h>

/*
 * Bytes of a device of that type (enum device_type). A process numbers its devices as it likes, so it is only given
 * where all devices of the type have the same. 0: not known. Asked once, then remembered.
 */
uint64_t accelerator_bytes(uint8_t device_type);

#endif
