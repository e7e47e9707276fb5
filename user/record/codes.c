// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of Python frames. A record carries addresses of code objects; they are
 * read out of the target when a stack is seen for the first time, which is
 * before the code can be gone unless its function was dropped at once.
 */
#include "record/session.h"

#include <inttypes.h>
#include <string.h>

#include "model/containers.h"
#include "target/memory.h"

static int code_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct target *target = context;

	return memory_read(target->process.pid, address, buffer, length);
}

static void code_keep(struct session *session, struct target *target, uint64_t address)
{
	const struct library_plan *plan = target->libraries[LIBRARY_PYTHON];
	const struct python_layout *layout = plan ? plan->python : NULL;
	ptrdiff_t at = hmgeti(target->codes, address);
	struct python_code code;
	int error;

	if (!layout || !address)
		return;
	if (at >= 0) {
		if (python_code_same(layout, code_read, target, &target->codes[at].value) == 1)
			return;
		python_code_clear(&target->codes[at].value);
		(void)hmdel(target->codes, address);
	}
	error = python_code_read(layout, code_read, target, address, &code);
	if (error) {
		target->lost_code++;
		if (session->options->verbose)
			session_tell(session, "pid %d: the code object at %#" PRIx64 " cannot be read: %s", target->process.pid,
				address, strerror(-error));
		return;
	}
	session_keep_code(session, target, &code);
	hmput(target->codes, address, code);
}

void codes_keep(struct session *session, struct target *target, const struct event *record)
{
	const struct python_frame *frames;
	size_t count;

	if (record->kind == EVENT_OPERATOR) {
		const struct operator_event *run = (const void *)record;

		count = run->frame_count;
		frames = (const void *)((const char *)(run + 1) + run->tensor_count * sizeof(struct tensor_argument));
	} else if (record->kind == EVENT_ALLOCATE) {
		const struct allocate_event *allocate = (const void *)record;

		count = allocate->frame_count;
		frames = (const void *)(allocate + 1);
	} else {
		return;
	}
	for (size_t index = 0; index < count; index++)
		code_keep(session, target, frames[index].code);
}

void codes_forget(struct target *target)
{
	for (ptrdiff_t index = 0; index < hmlen(target->codes); index++)
		python_code_clear(&target->codes[index].value);
	hmfree(target->codes);
}
