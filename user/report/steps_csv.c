/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps of a rank, or of all ranks of a job, one row each. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>

#include "containers/containers.h"
#include "output.h"

#define HEADER                                                                                                         \
	"rank,step,complete,start_time_ns,duration_ns,forward_ns,recompute_ns,backward_ns,optimizer_ns,micro_steps,"   \
	"operators,launches,allocated_bytes,peak_bytes,end_bytes,collectives,collective_bytes,wait_ns,small_"          \
	"collectives,"                                                                                                 \
	"communication_bytes,communication_peak_bytes,host_wait_ns,communication_ns\r\n"

static void write_row(FILE *file, const struct rank *rank, size_t index)
{
	static const enum phase PHASES_SHOWN[] = {PHASE_FORWARD, PHASE_RECOMPUTE, PHASE_BACKWARD, PHASE_OPTIMIZER};
	const struct step *step = &rank->steps[index];

	fprintf(file, "%d,%zu,%d,%" PRIu64 ",%" PRIu64 ",", rank->rank, index, step->complete, step->start_time_ns,
		step_duration(step));
	for (size_t i = 0; i < sizeof(PHASES_SHOWN) / sizeof(*PHASES_SHOWN); i++)
		fprintf(file, "%" PRIu64 ",", step->phase_ns[PHASES_SHOWN[i]]);
	fprintf(file, "%u,%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%u,%" PRIu64 ",%" PRIu64 ",", step->micro_steps,
		step->operators, step->launches, step->allocated_bytes, step->peak_bytes, step->end_bytes,
		step->collectives, step->collective_bytes, step->wait_ns);
	fprintf(file, "%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\r\n", step->small_collectives,
		step->communication_bytes, step->communication_peak_bytes, step->host_wait_ns, step->communication_ns);
}

static void write_rows(FILE *file, const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->steps); i++)
		write_row(file, rank, i);
}

int report_job_steps_csv(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path)
{
	struct output output;
	int error = output_open(&output, path);

	(void)options;
	if (error)
		return error;
	fputs(HEADER, output.file);
	for (size_t i = 0; i < count; i++)
		write_rows(output.file, ranks[i]);
	return output_commit(&output);
}

int report_steps_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	return rank->step_count ? report_job_steps_csv(&rank, 1, options, path) : -ENODATA;
}
