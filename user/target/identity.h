/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The place of a process in its job, as its launcher wrote it into the
 * environment: rank, number of ranks, rank on this machine, name of the job.
 */
#ifndef HDTRACE_TARGET_IDENTITY_H
#define HDTRACE_TARGET_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "target/process.h"

#define IDENTITY_UNKNOWN (-1)
#define IDENTITY_JOB_BYTES 80
#define IDENTITY_FAULT_BYTES 256

/* Numbers from 0 on, or IDENTITY_UNKNOWN. Sources are names of variables, NULL where the value is unknown. */
struct identity {
	int32_t rank, world_size, local_rank;
	const char *rank_source, *world_size_source, *local_rank_source;
	char job[IDENTITY_JOB_BYTES]; /* fit for the name of a folder; "": not known */
	const char *job_source;
	char fault[IDENTITY_FAULT_BYTES]; /* what of it is out of range and was not used, by name; "": nothing */
};

void identity_read(const struct process *process, struct identity *identity);

#endif
