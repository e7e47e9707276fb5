// SPDX-License-Identifier: BSD-2-Clause
/*
 * Operators that are known by the address of their definition only. They get the
 * next free index, and the record becomes that of an ordinary operator.
 */
#include "record/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdtrace/capture.h>

#include "containers/containers.h"

#define NO_OVERLOAD "default"

/* "profiler::_record_function_enter" and "" -> "profiler._record_function_enter.default", to be freed. */
static char *name_of(const struct invoked_event *record)
{
	char *name = strndup(record->name, sizeof(record->name)), *separator = name ? strstr(name, "::") : NULL;
	int overload = (int)strnlen(record->overload, sizeof(record->overload));
	char *text = NULL;

	if (separator) {
		*separator = '\0';
		if (asprintf(&text, "%s.%s.%.*s", name, separator + 2, overload ? overload : (int)strlen(NO_OVERLOAD),
			    overload ? record->overload : NO_OVERLOAD) < 0)
			text = NULL;
	}
	free(name);
	return text;
}

static uint32_t name_flags(const char *name)
{
	if (!strcmp(name, "profiler._record_function_enter.default"))
		return OPERATOR_RANGE_BEGIN;
	if (!strcmp(name, "profiler._record_function_exit.default"))
		return OPERATOR_RANGE_END;
	return 0;
}

/* The index of a definition's name, a negative errno when it has none. */
static int definition_index(struct session *session, struct target *target, const struct invoked_event *record)
{
	ptrdiff_t at = hmgeti(target->invoked, record->definition);
	int index = -ENOENT;
	char *name;

	if (at >= 0)
		return target->invoked[at].value;
	name = name_of(record);
	if (name)
		index = target_name_add(session, target, name, name_flags(name));
	free(name);
	if (index >= 0)
		hmput(target->invoked, record->definition, (uint16_t)index);
	return index;
}

const struct event *invoked_translate(struct session *session, struct target *target,
	const struct invoked_event *record, struct operator_buffer *buffer)
{
	size_t frames = record->head.frame_count * sizeof(struct python_frame);
	int index = definition_index(session, target, record);

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
