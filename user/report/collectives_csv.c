// SPDX-License-Identifier: BSD-2-Clause
/* The collectives that a rank began, one row each, in order of time. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>

#include "containers/containers.h"
#include "output.h"
#include "text.h"

#define HEADER                                                                                                         \
	"time_ns,communicator,group_rank,group_size,sequence,kind,reduce_op,dtype,count,bytes,output_bytes,peer,"      \
	"in_place,bucket,mode,step,task_name,thread_id,input_addr,output_addr,matched_ranks,last_rank,absent_rank,"    \
	"skew_ns,wait_ns,differs,file_name,line_num\r\n"

/* Empty where it is not known. */
static void write_number(FILE *file, int32_t number)
{
	if (number >= 0)
		fprintf(file, "%d", number);
	putc(',', file);
}

static void write_address(FILE *file, uint64_t address)
{
	if (address)
		fprintf(file, "0x%" PRIx64, address);
	putc(',', file);
}

static void write_what(FILE *file, const struct rank *rank, const struct collective *collective)
{
	const struct group *group = &rank->groups[collective->group];
	bool receives = collective->kind == COLLECTIVE_RECEIVE;

	fprintf(file, "%" PRIu64 ",%u,", collective->time_ns, collective->group);
	write_number(file, group->rank);
	write_number(file, group->size);
	if (collective->sequence != SEQUENCE_NONE)
		fprintf(file, "%u", collective->sequence);
	fprintf(file, ",%s,%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", collective_kind_name(collective),
		collective_operation_name(collective), collective_type_name(collective),
		receives ? collective->output_elements : collective->input_elements,
		receives ? collective->output_bytes : collective->input_bytes, collective->output_bytes);
	write_number(file, collective->peer);
	fprintf(file, "%d,%d,%s,%u,%s,%u,",
		collective->input_address && collective->input_address == collective->output_address,
		collective->in_bucket, collective_mode_name(collective), collective->step,
		phase_name((enum phase)collective->phase), collective->thread_id);
	write_address(file, collective->input_address);
	write_address(file, collective->output_address);
}

static void write_row(FILE *file, const struct rank *rank, const struct collective *collective)
{
	const struct frame *leaf = stack_leaf(&rank->stacks[collective->stack]);

	write_what(file, rank, collective);
	if (collective->matched_ranks) {
		fprintf(file, "%u,", collective->matched_ranks);
		write_number(file, collective->last_rank);
		write_number(file, collective->absent_rank);
		fprintf(file, "%" PRIu64 ",%" PRIu64 ",%d,", collective->skew_ns, collective->wait_ns,
			collective->differs);
	} else {
		fputs(",,,,,,", file);
	}
	text_write_csv(file, leaf ? leaf->file : "");
	fprintf(file, ",%u\r\n", leaf ? leaf->line : 0);
}

int report_collectives_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	struct output output;
	int error;

	(void)options;
	if (!arrlenu(rank->collectives))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	fputs(HEADER, output.file);
	for (size_t i = 0; i < arrlenu(rank->collectives); i++)
		write_row(output.file, rank, &rank->collectives[i]);
	return output_commit(&output);
}
