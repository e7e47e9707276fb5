/* SPDX-License-Identifier: BSD-2-Clause */
/* The names are PyTorch's (c10/core/DeviceType.cpp); that of PrivateUse1 is the one that its only wide use gives it. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	uint8_t type;
	const char *name;
} NAMES[] = {
	{DEVICE_CPU, "cpu"},
	{DEVICE_CUDA, "cuda"},
	{DEVICE_HIP, "hip"},
	{DEVICE_XPU, "xpu"},
	{DEVICE_PRIVATE, "npu"},
	{DEVICE_PRIVATE, "privateuseone"},
	{DEVICE_PINNED, "pinned"},
};

#define NAME_COUNT (sizeof(NAMES) / sizeof(*NAMES))

bool device_is_host(uint8_t type)
{
	return type == DEVICE_CPU || type == DEVICE_PINNED;
}

const char *device_name_format(char name[DEVICE_NAME_BYTES], uint8_t type, uint8_t index)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (NAMES[i].type != type)
			continue;
		if (device_is_host(type))
			snprintf(name, DEVICE_NAME_BYTES, "%s", NAMES[i].name);
		else
			snprintf(name, DEVICE_NAME_BYTES, "%s:%u", NAMES[i].name, index);
		return name;
	}
	snprintf(name, DEVICE_NAME_BYTES, "device%u:%u", type, index);
	return name;
}

/* One name of a list, of `length` bytes. */
static bool device_parse(const char *text, size_t length, struct device_choice *choice)
{
	size_t name_length = strcspn(text, ":,");
	long index = DEVICE_INDEX_ANY;
	char *end;

	if (choice->count == DEVICE_CHOICES_MAX)
		return false;
	if (name_length < length) {
		index = strtol(text + name_length + 1, &end, 10);
		if (end != text + length || end == text + name_length + 1 || index < 0 || index > UINT8_MAX)
			return false;
	}
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (strlen(NAMES[i].name) != name_length || strncmp(NAMES[i].name, text, name_length))
			continue;
		if (device_is_host(NAMES[i].type) && index != DEVICE_INDEX_ANY)
			return false;
		choice->devices[choice->count].type = NAMES[i].type;
		choice->devices[choice->count++].index = (int16_t)index;
		return true;
	}
	return false;
}

bool device_choice_parse(const char *text, struct device_choice *choice)
{
	memset(choice, 0, sizeof(*choice));
	if (!strcmp(text, "auto"))
		return true;
	choice->all = !strcmp(text, "all");
	if (choice->all)
		return true;
	for (;;) {
		size_t length = strcspn(text, ",");

		if (!device_parse(text, length, choice))
			return false;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

bool device_choice_has(const struct device_choice *choice, uint8_t type, uint8_t index, bool accelerators)
{
	if (choice->all)
		return true;
	if (!choice->count)
		return accelerators ? !device_is_host(type) : type == DEVICE_CPU;
	for (uint32_t i = 0; i < choice->count; i++)
		if (choice->devices[i].type == type &&
			(choice->devices[i].index == DEVICE_INDEX_ANY || choice->devices[i].index == index))
			return true;
	return false;
}

bool device_choice_has_cpu(const struct device_choice *choice)
{
	return !choice->count || device_choice_has(choice, DEVICE_CPU, 0, false);
}

bool device_choice_has_accelerator(const struct device_choice *choice)
{
	for (uint32_t i = 0; i < choice->count; i++)
		if (!device_is_host(choice->devices[i].type))
			return true;
	return choice->all || !choice->count;
}
