// SPDX-License-Identifier: BSD-2-Clause
/* The collectives that a rank began, one row each, in order of time. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>

#include "containers/containers.h"
#include "output.h"
#include "segments.h"
#include "text.h"

#define HEADER                                                                                                         \
	"time_ns,communicator,group_rank,group_size,sequence,kind,reduce_op,dtype,count,bytes,output_bytes,peer,"      \
	"in_place,bucket,mode,step,task_name,thread_id,input_addr,output_addr,matched_ranks,last_rank,absent_rank,"    \
	"skew_ns,wait_ns,differs,file_name,line_num,layer,library,calls,function,stream,handle,group_call,source,"     \
	"splits,output_splits,average_by_sum,caller,task_index,small,divided,"                                         \
	"input_blocks,output_blocks,copy_blocks,communication_bytes,released_by,released_task,duration_ns,host_wait_"  \
	"ns\r\n"

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

static void write_count(FILE *file, uint64_t count)
{
	if (count != COUNT_UNKNOWN)
		fprintf(file, "%" PRIu64, count);
	putc(',', file);
}

static void write_what(FILE *file, const struct rank *rank, const struct collective *collective)
{
	const struct group *group = &rank->groups[collective->group];
	bool receives = collective_only_gets(collective);

	fprintf(file, "%" PRIu64 ",%u,", collective->time_ns, collective->group);
	write_number(file, group->rank);
	write_number(file, group->size);
	if (collective->sequence != SEQUENCE_NONE)
		fprintf(file, "%u", collective->sequence);
	fprintf(file, ",%s,%s,%s,", collective_kind_name(collective), collective_operation_name(collective),
		collective_type_name(collective));
	write_count(file, receives ? collective->output_elements : collective->input_elements);
	write_count(file, receives ? collective->output_bytes : collective->input_bytes);
	write_count(file, collective->output_bytes);
	write_number(file, collective->peer);
	fprintf(file, "%d,%d,%s,%u,%s,%u,", collective->in_place, collective->in_bucket,
		collective->layer == LAYER_C10D ? collective_mode_name(collective) : "", collective->step,
		collective_phase_name(collective), collective->thread_id);
	write_address(file, collective->input_address);
	write_address(file, collective->output_address);
}

/* "{3-4-9}"; nothing where there are none. */
static void write_splits(FILE *file, const struct rank *rank, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		putc(i ? '-' : '{', file);
		if (rank->splits[first + i] != COUNT_UNKNOWN)
			fprintf(file, "%" PRIu64, rank->splits[first + i]);
	}
	fputs(count ? "}," : ",", file);
}

/* Who was asked, and what the library below was. */
static void write_layers(FILE *file, const struct rank *rank, const struct collective *collective)
{
	char caller[SEGMENT_CALLER_BYTES];

	fprintf(file, ",%s,", collective_layer_name(collective->layer));
	if (collective->calls) {
		fprintf(file, "%s,%u,", collective_layer_name(collective->library), collective->calls);
		if (collective->function < arrlenu(rank->operator_names))
			text_write_csv(file, rank->operator_names[collective->function]);
		putc(',', file);
		if (collective->library != LAYER_MPI)
			fprintf(file, "%" PRIu64, collective->stream);
		fprintf(file, ",0x%" PRIx64 ",", collective->handle);
	} else {
		fputs(",0,,,,", file);
	}
	if (collective->group_call)
		fprintf(file, "%u", collective->group_call);
	putc(',', file);
	write_number(file, collective->source);
	write_splits(file, rank, collective->splits, collective->input_splits);
	write_splits(file, rank, collective->splits + collective->input_splits, collective->output_splits);
	fprintf(file, "%d,", collective->average_by_sum);
	if (collective->caller)
		text_write_csv(file, segment_caller(rank, collective->caller, caller));
	putc(',', file);
	if (collective->run != RUN_NONE && rank->runs[collective->run].task != TASK_NONE)
		fprintf(file, "%" PRId64, rank->runs[collective->run].task);
	putc(',', file);
}

/* Rows of the memory CSV, as "{3-4-9}"; those that are none are left out. */
static void write_blocks(FILE *file, const struct rank *rank, uint32_t first, uint32_t count)
{
	uint32_t written = 0;

	for (uint32_t i = first; i < first + count; i++)
		if (rank->collective_blocks[i] != UINT32_MAX)
			fprintf(file, "%c%u", written++ ? '-' : '{', rank->collective_blocks[i]);
	fputs(written ? "}," : ",", file);
}

/* How the first block that it wrote ended, and when. */
static void write_release(FILE *file, const struct rank *rank, const struct collective *collective)
{
	uint32_t first = collective->blocks + collective->input_blocks;
	uint32_t row = collective->output_blocks ? rank->collective_blocks[first] : UINT32_MAX;
	const struct block *block = row != UINT32_MAX ? &rank->blocks[row] : NULL;

	if (!block || block->persistent)
		fputs(",,", file);
	else
		fprintf(file, "%s,%" PRId64 ",", block->resized ? "resize" : "free", block->end);
}

/* From its begin until its work was done, and how long a thread waited for that. */
static void write_times(FILE *file, const struct rank *rank, const struct collective *collective)
{
	uint64_t waited = collective_host_wait(rank, collective);

	if (collective->finished_ns > collective->time_ns)
		fprintf(file, "%" PRIu64, collective->finished_ns - collective->time_ns);
	putc(',', file);
	if (waited != UINT64_MAX)
		fprintf(file, "%" PRIu64, waited);
	fputs("\r\n", file);
}

static void write_memory(FILE *file, const struct rank *rank, const struct collective *collective)
{
	uint32_t inputs = collective->blocks, outputs = inputs + collective->input_blocks;

	fprintf(file, "%d,%s,", collective_is_small(collective), collective_division_name(collective));
	write_blocks(file, rank, inputs, collective->input_blocks);
	write_blocks(file, rank, outputs, collective->output_blocks);
	write_blocks(file, rank, outputs + collective->output_blocks, collective->copy_blocks);
	fprintf(file, "%" PRIu64 ",", collective->communication_bytes);
	write_release(file, rank, collective);
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
	fprintf(file, ",%u", leaf ? leaf->line : 0);
	write_layers(file, rank, collective);
	write_memory(file, rank, collective);
	write_times(file, rank, collective);
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
