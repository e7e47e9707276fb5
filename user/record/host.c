// SPDX-License-Identifier: BSD-2-Clause
/*
 * Probes for blocks of the host, which come and go while a target is traced: they
 * are hit most. Those of devices stay, and so does all the rest.
 */
#include "record/session.h"

#include <errno.h>

#include "containers/containers.h"

static const enum program_kind host_programs[] = {PROGRAM_ALLOCATED, PROGRAM_FREED};
#define HOST_PROGRAMS (sizeof(host_programs) / sizeof(host_programs[0]))

bool program_is_of_host(enum program_kind program)
{
	for (size_t index = 0; index < HOST_PROGRAMS; index++)
		if (host_programs[index] == program)
			return true;
	return false;
}

static int host_probe(struct session *session, struct target *target, const struct mapped_file *files)
{
	int error = 0;

	for (int role = 0; !error && role < LIBRARY_ROLES; role++) {
		const struct mapped_file *file =
			target->probed[role] ? library_file_of(files, target, (enum library_role)role) : NULL;

		for (size_t index = 0; file && !error && index < HOST_PROGRAMS; index++)
			error = points_probe_program(
				session, target, file, target->libraries[role], host_programs[index]);
	}
	return error;
}

static struct target *recorded(const struct recording *recording, uint16_t index)
{
	struct target **targets = recording->session->targets;
	struct target *target = index < arrlenu(targets) ? targets[index] : NULL;

	return target && target->announced && !target->ended ? target : NULL;
}

int recording_follow_host(struct recording *recording, uint16_t index, bool follow)
{
	struct session *session = recording->session;
	struct target *target = recorded(recording, index);
	struct mapped_file *files;
	int error;

	if (!target)
		return -ESRCH;
	/* A probe that is there for all processes, until one that is guessed shows up, is nobody's own. */
	if (!follow && !arrlen(target->host_links))
		return -ENOENT;
	if (!follow) {
		links_drop(session, &target->host_links);
		return 0;
	}
	error = maps_read(target->process.pid, &files);
	if (error)
		return error;
	error = host_probe(session, target, files);
	maps_free(files);
	if (error)
		links_drop(session, &target->host_links);
	objects_want(target);
	return error;
}

uint64_t recording_owners_ns(const struct recording *recording, uint16_t index)
{
	const struct target *target = recorded(recording, index);

	return target ? objects_told_ns(target) : 0;
}
