/* SPDX-License-Identifier: BSD-2-Clause */
/* Reader of _Py_DebugOffsets; see debug_offsets.h. */
#include "python/debug_offsets.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <hdtrace/event.h>
#include <hdtrace/program.h>

static const char cookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};

/* Words of the structure, all 64 bits wide: the same in every version. */
enum { WORD_COOKIE, WORD_VERSION, WORD_FREE_THREADED };

/* Upper bounds: what the programs and readers have room for, where the structure is read at once. */
#define STRUCTURE_MAX (UINT16_MAX - sizeof(uint64_t))
#define FRAME_MAX (FRAME_SPAN_MAX - sizeof(uint64_t))
#define CODE_MAX (CODE_OBJECT_BYTES - sizeof(uint64_t))
#define OBJECT_MAX 64

enum known_version { VERSION_313, VERSION_314, KNOWN_VERSIONS };

#define FIELD(name) offsetof(struct python_layout, name)

/*
 * Each field of a layout: which word of _Py_DebugOffsets says where it is, by version
 * (Include/internal/pycore_runtime.h of 3.13, pycore_debug_offsets.h of 3.14).
 */
static const struct {
	size_t field;
	uint16_t words[KNOWN_VERSIONS];
	uint16_t alignment;
	uint32_t maximum;
} fields[] = {
	{FIELD(runtime.interpreters_head), {5, 5}, 8, STRUCTURE_MAX},
	{FIELD(interpreter.next), {8, 8}, 8, STRUCTURE_MAX},
	{FIELD(interpreter.threads_head), {9, 9}, 8, STRUCTURE_MAX},
	{FIELD(thread.next), {21, 24}, 8, STRUCTURE_MAX},
	{FIELD(thread.frame_steps), {23, 26}, 8, STRUCTURE_MAX},
	{FIELD(thread.thread_id), {24, 27}, 8, STRUCTURE_MAX},
	{FIELD(frame.previous), {29, 32}, 8, FRAME_MAX},
	{FIELD(frame.code), {30, 33}, 8, FRAME_MAX},
	{FIELD(frame.instruction), {31, 34}, 8, FRAME_MAX},
	{FIELD(frame.localsplus), {32, 35}, 8, FRAME_MAX},
	{FIELD(frame.owner), {33, 36}, 1, FRAME_MAX},
	{FIELD(code.file), {35, 40}, 8, CODE_MAX},
	{FIELD(code.name), {36, 41}, 8, CODE_MAX},
	{FIELD(code.qualified_name), {37, 42}, 8, CODE_MAX},
	{FIELD(code.table), {38, 43}, 8, CODE_MAX},
	{FIELD(code.first_line), {39, 44}, 4, CODE_MAX},
	{FIELD(code.instructions), {43, 48}, 2, STRUCTURE_MAX},
	{FIELD(object_type), {45, 51}, 8, OBJECT_MAX},
	{FIELD(type.name), {47, 53}, 8, STRUCTURE_MAX},
	{FIELD(type.flags), {49, 55}, 8, STRUCTURE_MAX},
	{FIELD(bytes.length), {65, 75}, 8, OBJECT_MAX},
	{FIELD(bytes.data), {66, 76}, 1, OBJECT_MAX},
	{FIELD(text.state), {68, 78}, 4, OBJECT_MAX},
	{FIELD(text.length), {69, 79}, 8, OBJECT_MAX},
	{FIELD(text.ascii_data), {70, 80}, 8, OBJECT_MAX},
};

static uint64_t word_at(const uint8_t *bytes, size_t word)
{
	uint64_t value;

	memcpy(&value, bytes + word * sizeof(value), sizeof(value));
	return value;
}

/* Py_Version: 0xMMmmpprs. */
static bool version_is(uint64_t version, const struct python_layout *layout)
{
	return version >> 24 == layout->major && (version >> 16 & 0xff) == layout->minor;
}

static int fields_lay(
	const uint8_t *bytes, enum known_version version, struct python_layout *layout, struct debug_offsets *found)
{
	uint32_t ascii_data = layout->text.ascii_data;

	for (size_t index = 0; index < sizeof(fields) / sizeof(*fields); index++) {
		uint64_t value = word_at(bytes, fields[index].words[version]);
		uint32_t *field = (uint32_t *)((char *)layout + fields[index].field);

		if (value > fields[index].maximum || value % fields[index].alignment)
			return -EBADMSG;
		found->different += *field != value;
		*field = (uint32_t)value;
	}
	/* Not among the offsets; the structure goes on by as much as the other one ends. */
	layout->text.compact_data += layout->text.ascii_data - ascii_data;
	return 0;
}

int debug_offsets_read(const void *runtime, size_t size, struct python_layout *layout, struct debug_offsets *found)
{
	enum known_version version = layout->minor == 13 ? VERSION_313 : VERSION_314;
	struct python_layout own = *layout;
	int error;

	*found = (struct debug_offsets){0};
	if (layout->minor < DEBUG_OFFSETS_SINCE || size < DEBUG_OFFSETS_SIZE ||
		memcmp(runtime, cookie, sizeof(cookie)) != 0)
		return -ENOENT;
	if (!version_is(word_at(runtime, WORD_VERSION), layout))
		return -EBADMSG;
	found->free_threaded = word_at(runtime, WORD_FREE_THREADED);
	if (found->free_threaded)
		return 0; /* nothing here follows such a build's structures */
	error = fields_lay(runtime, version, &own, found);
	if (!error)
		*layout = own;
	return error;
}
