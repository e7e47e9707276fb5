// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls of processes that a command started, seen by probes that were set before
 * they were there (struct guess).
 */
#include "record/session.h"

#include <sys/stat.h>

#include "containers/containers.h"

/* Of the pid namespace of the machine (PROC_PID_INIT_INO of the kernel). */
#define FIRST_NAMESPACE_INODE 0xeffffffc

bool guess_is_possible(void)
{
	struct stat status;

	return !stat("/proc/self/ns/pid", &status) && status.st_ino == FIRST_NAMESPACE_INODE;
}

/* Calls for memory are rare. Launches of kernels are not: they would cost other processes something. */
static bool is_rare(enum program_kind program)
{
	return program == PROGRAM_CALLED || program == PROGRAM_RETURNED || program == PROGRAM_ENDED;
}

bool guess_is_for_all(const struct session *session, enum program_kind program)
{
	return session->guess.laying && is_rare(program);
}

bool guess_has(const struct session *session, const struct library_plan *plan, enum program_kind program)
{
	if (session->guess.laying || !is_rare(program))
		return false;
	for (size_t index = 0; index < arrlenu(session->guess.plans); index++)
		if (session->guess.plans[index] == plan)
			return true;
	return false;
}

static struct target *process_target(struct session *session, pid_t pid)
{
	struct target *target = target_find(session, pid);

	if (!target && !candidate_add(session, pid, session->guess.root->index))
		target = arrlast(session->candidates);
	if (target && target->candidate) {
		/* It has executed the program already, which may not have been told yet. */
		target->image_time_ns = monotonic_ns();
		if (!candidate_take(session, target))
			return NULL;
	}
	return target && target->announced ? target : NULL;
}

/* What the guessed target calls by an index has one of its own in each target. */
static uint16_t name_translate(struct session *session, struct target *target, uint16_t index)
{
	const struct guessed_name *names = session->guess.names;

	for (size_t at = 0; at < arrlenu(names); at++) {
		int own;

		if (names[at].index != index)
			continue;
		while (arrlenu(target->guessed_names) <= at)
			arrput(target->guessed_names, 0);
		own = target->guessed_names[at] ? target->guessed_names[at]
		                                : target_name_add(session, target, names[at].name, 0);
		if (own > 0)
			target->guessed_names[at] = (uint16_t)own;
		return target->guessed_names[at];
	}
	return 0;
}

const struct event *guess_translate(
	struct session *session, const struct segment_event *record, struct segment_event *buffer)
{
	struct target *target;

	if ((pid_t)record->process == session->guess.root->process.pid)
		return &record->event;
	target = process_target(session, (pid_t)record->process);
	if (!target) {
		if (!session->guess.dropped++)
			session_tell(session,
				"pid %u: had ended before it could be looked at; its calls for memory are missing",
				record->process);
		return NULL;
	}
	*buffer = *record;
	buffer->event.size = sizeof(*buffer);
	buffer->event.target = target->index;
	buffer->event.operator_ = name_translate(session, target, record->event.operator_);
	return &buffer->event;
}
