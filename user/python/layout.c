/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of layout.h. Rows are offsetof() over CPython's own headers of that
 * version (3.9.2, 3.10.15, 3.11.2, 3.12.6, 3.13.0 and .18, 3.14.10).
 */
#include "python/layout.h"

#include <stddef.h>

#include "python/location.h"

/* What the versions have in common. Before 3.11 a function has no qualified name of its own. */
#define CODE_BEFORE_311(format)                                                                                        \
	{                                                                                                              \
		.size = 48, .flags = 36, .first_line = 40, .file = 104, .name = 112, .qualified_name = 112,            \
		.table = 120, .local_names = 72, .instructions = 0, .table_format = (format)                           \
	}
#define CODE_SINCE_311(first_line_at, instructions_at)                                                                 \
	{                                                                                                              \
		.size = 16, .flags = 48, .first_line = (first_line_at), .file = 112, .name = 120,                      \
		.qualified_name = 128, .table = 136, .local_names = 96, .instructions = (instructions_at),             \
		.table_format = LOCATION_FORMAT_311                                                                    \
	}
#define TEXT_BEFORE_312                                                                                                \
	{                                                                                                              \
		.length = 16, .state = 32, .ascii_data = 48, .compact_data = 72                                        \
	}
#define TEXT_SINCE_312                                                                                                 \
	{                                                                                                              \
		.length = 16, .state = 32, .ascii_data = 40, .compact_data = 56                                        \
	} /* PEP 623: no wstr */
#define OBJECT_PARTS(cached_keys_at, first_value_at, format, place, tuple_objects_at)                                  \
	.bytes = {.length = 16, .data = 32},                                                                           \
	.type = {.name = 24,                                                                                           \
		.basic_size = 32,                                                                                      \
		.flags = 168,                                                                                          \
		.order = 344,                                                                                          \
		.dict_offset = 288,                                                                                    \
		.cached_keys = (cached_keys_at)},                                                                      \
	.dict = {.keys = 32,                                                                                           \
		.values = 40,                                                                                          \
		.first_value = (first_value_at),                                                                       \
		.keys_format = (format),                                                                               \
		.attributes = (place)},                                                                                \
	.object_type = 8, .tuple_objects = (tuple_objects_at)

static const struct python_layout layouts[] = {
	{
		.major = 3,
		.minor = 9,
		.runtime = {.interpreters_head = 32},
		.interpreter = {.next = 0, .threads_head = 8},
		.thread = {.frame_steps = {24}, .frame_step_count = 1, .next = 8, .thread_id = 176},
		.frame = {.code = 32,
			.previous = 24,
			.instruction = 104,
			.index_unit = 1,
			.localsplus = 360,
			.globals = 48},
		.code = CODE_BEFORE_311(LOCATION_FORMAT_309),
		.text = TEXT_BEFORE_312,
		OBJECT_PARTS(0, 0, KEYS_FORMAT_309, ATTRIBUTES_AT_OFFSET, 24),
	},
	{
		.major = 3,
		.minor = 10,
		.runtime = {.interpreters_head = 32},
		.interpreter = {.next = 0, .threads_head = 8},
		.thread = {.frame_steps = {24}, .frame_step_count = 1, .next = 8, .thread_id = 176},
		.frame = {.code = 32,
			.previous = 24,
			.instruction = 96,
			.index_unit = 2,
			.localsplus = 352,
			.globals = 48},
		.code = CODE_BEFORE_311(LOCATION_FORMAT_310),
		.text = TEXT_BEFORE_312,
		OBJECT_PARTS(0, 0, KEYS_FORMAT_309, ATTRIBUTES_AT_OFFSET, 24),
	},
	{
		.major = 3,
		.minor = 11,
		.runtime = {.interpreters_head = 40},
		.interpreter = {.next = 0, .threads_head = 16},
		/* cframe, then its current_frame; so in 3.12 */
		.thread = {.frame_steps = {56, 8}, .frame_step_count = 2, .next = 8, .thread_id = 152},
		.frame = {.code = 32,
			.previous = 48,
			.instruction = 56,
			.owner = 69,
			.localsplus = 72,
			.globals = 8,
			.of_object = 24},
		.code = CODE_SINCE_311(72, 184),
		.text = TEXT_BEFORE_312,
		OBJECT_PARTS(872, 0, KEYS_FORMAT_311, ATTRIBUTES_BEFORE, 24),
	},
	{
		.major = 3,
		.minor = 12,
		.runtime = {.interpreters_head = 40},
		.interpreter = {.next = 0, .threads_head = 72},
		.thread = {.frame_steps = {56, 0}, .frame_step_count = 2, .next = 8, .thread_id = 136},
		.frame = {.code = 0,
			.previous = 8,
			.instruction = 56,
			.owner = 70,
			.localsplus = 72,
			.globals = 24,
			.of_object = 24,
			.owner_skip = 3},
		.code = CODE_SINCE_311(68, 192),
		.text = TEXT_SINCE_312,
		OBJECT_PARTS(880, 0, KEYS_FORMAT_311, ATTRIBUTES_EITHER, 24),
	},
	{
		.major = 3,
		.minor = 13,
		.runtime = {.interpreters_head = 632},
		.interpreter = {.next = 7264, .threads_head = 7344},
		.thread = {.frame_steps = {72}, .frame_step_count = 1, .next = 8, .thread_id = 152},
		.frame = {.code = 0,
			.previous = 8,
			.instruction = 56,
			.owner = 70,
			.localsplus = 72,
			.globals = 24,
			.of_object = 24,
			.owner_skip = 3},
		.code = CODE_SINCE_311(68, 200),
		.text = TEXT_SINCE_312,
		OBJECT_PARTS(880, 8, KEYS_FORMAT_311, ATTRIBUTES_INLINE, 24),
	},
	{
		.major = 3,
		.minor = 14,
		.runtime = {.interpreters_head = 808},
		.interpreter = {.next = 7272, .threads_head = 7344},
		.thread = {.frame_steps = {72}, .frame_step_count = 1, .next = 8, .thread_id = 152},
		.frame = {.code = 0,
			.previous = 8,
			.instruction = 56,
			.owner = 74,
			.localsplus = 80,
			.globals = 24,
			.of_object = 24,
			.owner_skip = 3,
			.tag_mask = 7},
		.code = CODE_SINCE_311(68, 208),
		.text = TEXT_SINCE_312,
		OBJECT_PARTS(880, 8, KEYS_FORMAT_311, ATTRIBUTES_INLINE, 32),
		.collects_in_pieces = true,
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
