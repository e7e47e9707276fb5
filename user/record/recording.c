// SPDX-License-Identifier: BSD-2-Clause
/* What a sink may ask of a recording that goes on. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "containers/containers.h"
#include "record/session.h"

static uint64_t nanoseconds_of(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_usec * 1000u;
}

static uint64_t probe_hits(const struct session *session)
{
	struct program_statistics statistics[PROGRAMS];
	uint64_t hits = 0;

	if (!session->options->statistics || tracer_statistics(session->tracer, statistics))
		return UINT64_MAX;
	for (int program = 0; program < PROGRAMS; program++)
		hits += statistics[program].runs;
	return hits;
}

void recording_cost(const struct recording *recording, struct recording_cost *cost)
{
	const struct session *session = recording->session;
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	*cost = (struct recording_cost){
		.read_ns = recording->read_ns,
		.records = session->records,
		.bytes = session->bytes,
		.processor_ns = nanoseconds_of(&usage.ru_utime) + nanoseconds_of(&usage.ru_stime),
		.memory_bytes = process_resident_bytes(getpid()),
		.refused = session->refused,
		.probe_hits = probe_hits(session),
	};
}

struct frame *recording_stand(struct recording *recording, uint16_t target)
{
	struct session *session = recording->session;

	if (target >= arrlenu(session->targets) || session->targets[target]->ended)
		return NULL;
	return python_stand(session->targets[target]);
}

void recording_stand_free(struct frame *frames)
{
	for (size_t index = 0; index < arrlenu(frames); index++) {
		free((char *)frames[index].file);
		free((char *)frames[index].function);
	}
	arrfree(frames);
}
