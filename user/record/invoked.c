// SPDX-License-Identifier: BSD-2-Clause
/*
 * Operators that are known by the address of their definition only. Their name
 * is read out of the target once, they get the next free index, and the record
 * becomes that of an ordinary operator.
 */
#include "record/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdtrace/capture.h>

#include "containers/containers.h"
#include "target/memory.h"

#define NAME_BYTES_MAX 256
#define STRING_BYTES 32 /* std::string of libstdc++: pointer, length, 16 bytes in place */

struct remote_string {
	uint64_t data, length;
};

static bool string_read(const struct target *target, uint64_t address, char text[NAME_BYTES_MAX])
{
	struct remote_string string;

	if (memory_read(target->process.pid, address, &string, sizeof(string)) || string.length >= NAME_BYTES_MAX)
		return false;
	text[string.length] = '\0';
	return !string.length || !memory_read(target->process.pid, string.data, text, string.length);
}

/* "profiler::_record_function_enter" and "" -> "profiler._record_function_enter.default", to be freed. */
static char *name_read(const struct target *target, uint64_t definition)
{
	uint64_t address = definition + target->settings.definition_name;
	char name[NAME_BYTES_MAX], overload[NAME_BYTES_MAX], *separator, *text;

	if (!string_read(target, address, name) || !string_read(target, address + STRING_BYTES, overload))
		return NULL;
	separator = strstr(name, "::");
	if (!separator)
		return NULL;
	*separator = '\0';
	return asprintf(&text, "%s.%s.%s", name, separator + 2, *overload ? overload : "default") < 0 ? NULL : text;
}

static uint32_t name_flags(const char *name)
{
	if (!strcmp(name, "profiler._record_function_enter.default"))
		return OPERATOR_RANGE_BEGIN;
	if (!strcmp(name, "profiler._record_function_exit.default"))
		return OPERATOR_RANGE_END;
	return 0;
}

/* The index of a definition's name, a negative errno when it cannot be read. */
static int definition_index(struct session *session, struct target *target, uint64_t definition)
{
	ptrdiff_t at = hmgeti(target->invoked, definition);
	int index = -ENOENT;
	char *name;

	if (at >= 0)
		return target->invoked[at].value;
	name = name_read(target, definition);
	if (name)
		index = target_name_add(session, target, name, name_flags(name));
	free(name);
	if (index >= 0)
		hmput(target->invoked, definition, (uint16_t)index);
	return index;
}

const struct event *invoked_translate(struct session *session, struct target *target,
	const struct invoked_event *record, struct operator_buffer *buffer)
{
	size_t frames = record->head.frame_count * sizeof(struct python_frame);
	int index = definition_index(session, target, record->definition);

	if (index < 0 || record->head.frame_count > EVENT_FRAMES_MAX)
		return NULL;
	buffer->head = record->head;
	memcpy(buffer->frames, record + 1, frames);
	buffer->head.event.kind = EVENT_OPERATOR;
	buffer->head.event.operator_ = (uint16_t)index;
	buffer->head.event.size = (uint32_t)(sizeof(buffer->head) + frames);
	return &buffer->head.event;
}

void invoked_forget(struct target *target)
{
	hmfree(target->invoked);
}
