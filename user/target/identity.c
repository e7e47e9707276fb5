// SPDX-License-Identifier: BSD-2-Clause
/*
 * Variables of launchers: torchrun (PyTorch's docs, "torchrun"), Open MPI
 * (mpirun(1)), MPICH and others with PMI, PMIx, Slurm (srun(1)), MindSpore.
 */
#include "target/identity.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first row of which `rank` is set says all. */
static const struct {
	const char *rank, *world_size, *local_rank;
} launchers[] = {
	{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
	{"PMIX_RANK", NULL, NULL},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
	{"RANK_ID", "RANK_SIZE", NULL},
};

/* Names of jobs, best first. */
static const struct {
	const char *name;
	const char *nothing; /* a value that says nothing */
} jobs[] = {
	{"TORCHELASTIC_RUN_ID", "none"},
	{"SLURM_JOB_ID", NULL},
	{"PMIX_NAMESPACE", NULL},
	{"MASTER_PORT", NULL},
};

/* What the pod of a process is called among the sources of a job. */
#define POD_SOURCE "pod"

static void fault_tell(struct identity *identity, const char *name, const char *value, const char *range)
{
	/* The first one; a value may be as long as it likes. */
	if (!*identity->fault)
		snprintf(identity->fault, sizeof(identity->fault), "%s is %.40s, which is not %s; it is not used", name,
			value, range);
}

/* A variable as a number from `least` on; false when it is not there, or is none, which is told. */
static bool number_read(
	const struct process *process, const char *name, int32_t least, int32_t *number, struct identity *identity)
{
	const char *text = name ? process_environment(process, name) : NULL;
	long value;
	char *end;

	*number = IDENTITY_UNKNOWN;
	if (!text)
		return false;
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > INT32_MAX) {
		fault_tell(identity, name, text, least ? "a number from 1 on" : "a number from 0 on");
		return false;
	}
	*number = (int32_t)value;
	return true;
}

static void ranks_read(const struct process *process, size_t launcher, struct identity *identity)
{
	const char *size = launchers[launcher].world_size, *local = launchers[launcher].local_rank;
	char range[64];

	if (number_read(process, launchers[launcher].rank, 0, &identity->rank, identity))
		identity->rank_source = launchers[launcher].rank;
	if (number_read(process, size, 1, &identity->world_size, identity))
		identity->world_size_source = size;
	if (number_read(process, local, 0, &identity->local_rank, identity))
		identity->local_rank_source = local;
	if (!identity->rank_source || !identity->world_size_source || identity->rank < identity->world_size)
		return;
	snprintf(range, sizeof(range), "below %s, %d", size, identity->world_size);
	fault_tell(identity, identity->rank_source, process_environment(process, identity->rank_source), range);
	identity->rank = IDENTITY_UNKNOWN;
	identity->rank_source = NULL;
}

static void job_take(struct identity *identity, const char *source, const char *value)
{
	/* It becomes a folder: a prefix keeps it from being "..", or the name of a rank's. */
	size_t length = (size_t)snprintf(identity->job, sizeof(identity->job), "job_%s", value);

	identity->job_source = source;
	if (length >= sizeof(identity->job))
		length = sizeof(identity->job) - 1;
	for (size_t at = 0; at < length; at++)
		if (!isalnum((unsigned char)identity->job[at]) && !strchr("._-", identity->job[at]))
			identity->job[at] = '_';
}

/* Jobs that meet inside a pod have one of their own, and the same port as others. */
static bool meets_in_pod(const struct process *process, const char *variable)
{
	const char *address = process_environment(process, "MASTER_ADDR");

	return *process->pod && !strcmp(variable, "MASTER_PORT") &&
	       (!address || !strcmp(address, "localhost") || !strncmp(address, "127.", strlen("127.")));
}

static void job_read(const struct process *process, struct identity *identity)
{
	for (size_t index = 0; index < sizeof(jobs) / sizeof(jobs[0]); index++) {
		const char *value = process_environment(process, jobs[index].name);

		if (!value || !*value || (jobs[index].nothing && !strcmp(value, jobs[index].nothing)) ||
			meets_in_pod(process, jobs[index].name))
			continue;
		job_take(identity, jobs[index].name, value);
		return;
	}
	if (*process->pod)
		job_take(identity, POD_SOURCE, process->pod);
}

void identity_read(const struct process *process, struct identity *identity)
{
	*identity = (struct identity){
		.rank = IDENTITY_UNKNOWN, .world_size = IDENTITY_UNKNOWN, .local_rank = IDENTITY_UNKNOWN};
	for (size_t index = 0; index < sizeof(launchers) / sizeof(launchers[0]); index++) {
		if (!process_environment(process, launchers[index].rank))
			continue;
		ranks_read(process, index, identity);
		break;
	}
	job_read(process, identity);
}
