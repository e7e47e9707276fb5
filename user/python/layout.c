/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of layout.h. Rows are offsetof() over CPython's own headers of that
 * version (3.11.2, 3.12.1, 3.13.0, 3.13.5); the 3.14 row is what the debug
 * offsets of a 3.14.10 interpreter say, with the TSS key found in its code.
 */
#include "python/layout.h"

#include <stddef.h>

/* Location tables have had one format since 3.11. */
#define TABLE_FORMAT 311

/* What the versions have in common. */
#define CODE_PARTS(first_line_at, instructions_at)                                                                     \
	{                                                                                                              \
		.size = 16, .flags = 48, .first_line = (first_line_at), .file = 112, .name = 120,                      \
		.qualified_name = 128, .table = 136, .instructions = (instructions_at), .table_format = TABLE_FORMAT   \
	}
#define TEXT_SINCE_312                                                                                                 \
	{                                                                                                              \
		.length = 16, .state = 32, .ascii_data = 40, .compact_data = 56                                        \
	} /* PEP 623: no wstr */
#define OBJECT_PARTS .bytes = {.length = 16, .data = 32}, .type = {.name = 24, .flags = 168}, .object_type = 8

static const struct python_layout layouts[] = {
	{
		.major = 3,
		.minor = 11,
		.runtime = {.tss = 592, .tss_key = 596, .interpreters_head = 40},
		.interpreter = {.threads_head = 16},
		/* cframe, then its current_frame */
		.thread = {.frame_steps = {56, 8}, .frame_step_count = 2, .next = 8, .thread_id = 152},
		.frame = {.code = 32,
			.previous = 48,
			.instruction = 56,
			.owner = 69,
			.localsplus = 72,
			.owner_skip = PYTHON_OWNER_NONE},
		.code = CODE_PARTS(72, 184),
		.text = {.length = 16, .state = 32, .ascii_data = 48, .compact_data = 72},
		OBJECT_PARTS,
	},
	{
		.major = 3,
		.minor = 12,
		.runtime = {.tss = 1544, .tss_key = 1548, .interpreters_head = 40},
		.interpreter = {.threads_head = 72},
		.thread = {.frame_steps = {56, 0}, .frame_step_count = 2, .next = 8, .thread_id = 136},
		.frame = {.code = 0, .previous = 8, .instruction = 56, .owner = 70, .localsplus = 72, .owner_skip = 3},
		.code = CODE_PARTS(68, 192),
		.text = TEXT_SINCE_312,
		OBJECT_PARTS,
	},
	{
		.major = 3,
		.minor = 13,
		.runtime = {.tss = 2160, .tss_key = 2164, .interpreters_head = 632},
		.interpreter = {.threads_head = 7344},
		.thread = {.frame_steps = {72}, .frame_step_count = 1, .next = 8, .thread_id = 152},
		.frame = {.code = 0, .previous = 8, .instruction = 56, .owner = 70, .localsplus = 72, .owner_skip = 3},
		.code = CODE_PARTS(68, 200),
		.text = TEXT_SINCE_312,
		OBJECT_PARTS,
	},
	{
		.major = 3,
		.minor = 14,
		.runtime = {.tss = 2336, .tss_key = 2340, .interpreters_head = 808},
		.interpreter = {.threads_head = 7344},
		.thread = {.frame_steps = {72}, .frame_step_count = 1, .next = 8, .thread_id = 152},
		.frame = {.code = 0,
			.previous = 8,
			.instruction = 56,
			.owner = 74,
			.localsplus = 80,
			.owner_skip = 3,
			.tag_mask = 7},
		.code = CODE_PARTS(68, 208),
		.text = TEXT_SINCE_312,
		OBJECT_PARTS,
	},
};

#define LAYOUT_COUNT (sizeof(layouts) / sizeof(*layouts))

const struct python_layout *python_layout_at(unsigned int index)
{
	return index < LAYOUT_COUNT ? &layouts[index] : NULL;
}

const struct python_layout *python_layout_find(unsigned int major, unsigned int minor)
{
	for (size_t i = 0; i < LAYOUT_COUNT; i++)
		if (layouts[i].major == major && layouts[i].minor == minor)
			return &layouts[i];
	return NULL;
}
