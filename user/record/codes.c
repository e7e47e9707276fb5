// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of Python frames. A record carries addresses of code objects. A copy of
 * each comes from the kernel side before the first stack that refers to it;
 * where it is incomplete (a long name or table), the rest is read out of the
 * target, which is usually still there.
 */
#include "record/session.h"

#include <inttypes.h>
#include <string.h>

#include "containers/containers.h"
#include "stream/record.h"
#include "target/memory.h"

/* Bytes that each piece takes in a record; the table comes last. */
static const size_t code_piece_room[CODE_PIECES] = {
	[CODE_PIECE_OBJECT] = CODE_OBJECT_BYTES,
	[CODE_PIECE_FILE] = CODE_FILE_BYTES,
	[CODE_PIECE_NAME] = CODE_NAME_BYTES,
	[CODE_PIECE_QUALIFIED_NAME] = CODE_QUALIFIED_BYTES,
};

/* The target's memory, as it was when a code object was copied where a piece covers it. */
struct code_memory {
	const struct target *target;
	const struct code_event *copy; /* NULL: none */
};

static int code_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct code_memory *memory = context;
	const char *bytes = memory->copy ? (const char *)(memory->copy + 1) : NULL;

	for (int piece = 0; bytes && piece < CODE_PIECES; piece++) {
		uint64_t start = memory->copy->pieces[piece].address, size = memory->copy->pieces[piece].length;

		if (address >= start && length <= size && address - start <= size - length) {
			memcpy(buffer, bytes + (address - start), length);
			return 0;
		}
		bytes += code_piece_room[piece];
	}
	return memory_read(memory->target->process.pid, address, buffer, length);
}

static const struct python_layout *layout_of(const struct target *target)
{
	const struct library_plan *plan = target->libraries[LIBRARY_PYTHON];

	return plan ? plan->python : NULL;
}

static int code_keep(struct session *session, struct target *target, uint64_t address, const struct code_event *copy)
{
	struct code_memory memory = {target, copy};
	struct python_code code;
	int error = python_code_read(layout_of(target), &target->types, code_read, &memory, address, &code);

	if (error)
		return error;
	session_keep_code(session, target, &code);
	hmput(target->codes, address, code_role_of(&code));
	python_code_clear(&code);
	return 0;
}

void code_take(struct session *session, struct target *target, const struct code_event *copy, size_t size)
{
	size_t room = sizeof(*copy) + copy->pieces[CODE_PIECE_TABLE].length;

	for (int piece = 0; piece < CODE_PIECE_TABLE; piece++)
		room += code_piece_room[piece];
	if (layout_of(target) && size >= room && code_keep(session, target, copy->code, copy))
		(void)hmdel(target->codes, copy->code);
}

/* A code object that no copy came of, or none that could be read: what is there now. */
static void code_find(struct session *session, struct target *target, uint64_t address)
{
	int error;

	if (!address || !layout_of(target) || hmgeti(target->codes, address) >= 0)
		return;
	error = code_keep(session, target, address, NULL);
	if (!error)
		return;
	target->lost_code++;
	if (session->options->verbose)
		session_tell(session, "pid %d: the code object at %#" PRIx64 " cannot be read: %s", target->process.pid,
			address, strerror(-error));
}

void codes_keep(struct session *session, struct target *target, const struct event *record)
{
	struct event_stack stack;

	if (!event_stack_find(record, &stack))
		return;
	for (size_t index = 0; index < stack.frame_count; index++)
		code_find(session, target, stack.frames[index].code);
}

void codes_forget(struct target *target)
{
	hmfree(target->codes);
	target->types = (struct python_types){0};
}
