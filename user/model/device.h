/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: their names, and which of them a report is about. A device is a
 * c10::DeviceType and an index; host memory is "cpu", or "pinned" where the
 * allocator of an accelerator made it, without an index.
 */
#ifndef HDTRACE_MODEL_DEVICE_H
#define HDTRACE_MODEL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <hdtrace/event.h>

#define DEVICE_NAME_BYTES 16
#define DEVICE_CHOICES_MAX 16
#define DEVICE_INDEX_ANY (-1)

/* Without any: the accelerators whose memory was seen, else the CPU. */
struct device_choice {
	uint32_t count;
	bool all;
	struct {
		uint8_t type;
		int16_t index; /* DEVICE_INDEX_ANY */
	} devices[DEVICE_CHOICES_MAX];
};

/* "cuda:0" */
const char *device_name_format(char name[DEVICE_NAME_BYTES], uint8_t type, uint8_t index);

bool device_is_host(uint8_t type);

/* Parse "auto", "all" or a list as "cpu,cuda:1". Returns false when it is none. */
bool device_choice_parse(const char *text, struct device_choice *choice);

/* Is the device one of them? `accelerators`: there is one whose memory was seen. */
bool device_choice_has(const struct device_choice *choice, uint8_t type, uint8_t index, bool accelerators);

/* May one of these be among them? */
bool device_choice_has_cpu(const struct device_choice *choice);
bool device_choice_has_accelerator(const struct device_choice *choice);

#endif
