/* SPDX-License-Identifier: BSD-2-Clause */
/* What drivers gave: one row a segment, in the order in which they became known. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>

#include "containers/containers.h"
#include "output.h"
#include "segments.h"
#include "text.h"

#define HEADER                                                                                                         \
	"start_time_ns,end_time_ns,device_addr,size,device,memory,stream_id,thread_id,function,caller,allocator,"      \
	"certain\r\n"

static void write_row(FILE *file, const struct rank *rank, const struct segment *segment)
{
	char caller[SEGMENT_CALLER_BYTES];

	fprintf(file, "%" PRIu64 ",", segment->start_time_ns);
	if (segment->end_time_ns != UINT64_MAX)
		fprintf(file, "%" PRIu64, segment->end_time_ns);
	putc(',', file);
	if (segment->address)
		fprintf(file, "0x%" PRIx64, segment->address);
	fprintf(file, ",%" PRIu64 ",%s,%s,%" PRIu64 ",%u,", segment->bytes, segment_device_name(rank, segment->device),
		segment_memory_name(segment), segment->stream, segment->thread_id);
	text_write_csv(file, rank->operator_names[segment->function]);
	putc(',', file);
	text_write_csv(file, segment_caller(rank, segment->caller, caller));
	fprintf(file, ",%d,%d\r\n", segment->has_blocks, segment->certain);
}

int report_segments_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	struct output output;
	int error;

	(void)options;
	if (!arrlenu(rank->segments))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	fputs(HEADER, output.file);
	for (size_t i = 0; i < arrlenu(rank->segments); i++)
		if (rank->segments[i].bytes)
			write_row(output.file, rank, &rank->segments[i]);
	return output_commit(&output);
}
