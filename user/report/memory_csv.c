/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory CSV: 22 columns, one row a block, as HyperDryRun writes it and its
 * viewers read it. Lines end with CR LF, fields are quoted only when they must.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "containers/containers.h"
#include "output.h"
#include "text.h"

#define HEADER                                                                                                         \
	"start_time_stamp,end_time_stamp,start_plot_time_stamp,end_plot_time_stamp,device_addr,stream_id,pool_type,"   \
	"size,actual_used_memory,actual_peak_memory,file_name,line_num,type,producer_task,task_name,node_name,"        \
	"graph_name,user_tasks,last_user_task,python_stack,is_persistent,is_small\r\n"

#define SMALL_BYTES (1ull << 20)

bool report_has_data(const struct rank *rank)
{
	return rank->peak_bytes > 0;
}

static void write_users(FILE *file, const struct rank *rank, const struct block *block)
{
	putc_unlocked('{', file);
	for (uint32_t i = 0; i < block->user_count; i++)
		fprintf(file, i ? "-%" PRId64 : "%" PRId64, rank->users[block->first_user + i]);
	fputs_unlocked("},", file);
	if (block->user_count)
		fprintf(file, "%" PRId64, rank->users[block->first_user + block->user_count - 1]);
	putc_unlocked(',', file);
}

static void write_numbers(FILE *file, const struct block *block, const char *pool_name)
{
	char start[PLOT_TEXT_BYTES], end[PLOT_TEXT_BYTES];

	fprintf(file, "%" PRId64 ",%" PRId64 ",%s,%s,0x%" PRIx64 ",%u,", block->start, block->end,
		plot_format(start, block->start, block->start_plot),
		plot_format(end, block_end_task(block), block->end_plot), block->address, block->stream);
	text_write_csv(file, pool_name);
	fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", block->bytes, block->used_bytes, block->peak_bytes);
}

/* The python_stack field, made when first needed: most stacks have many rows. */
static void write_stack(FILE *file, const struct stack *stack, char **field)
{
	if (!stack->frame_count)
		return;
	if (!*field) {
		char *text = text_of_stack(stack);

		*field = text_append_csv(NULL, text);
		arrfree(text);
	}
	fwrite_unlocked(*field, 1, arrlenu(*field), file);
}

static void write_row(FILE *file, const struct rank *rank, const struct block *block,
	const struct report_options *options, char **stack_fields)
{
	const struct stack *stack = &rank->stacks[block->stack];
	const struct frame *leaf = stack_leaf(stack);

	write_numbers(file, block, options->pool_name ? options->pool_name : REPORT_POOL_NAME);
	text_write_csv(file, leaf ? leaf->file : "");
	fprintf(file, ",%u,%s,%" PRId64 ",%s,", leaf ? leaf->line : 0, category_name(block->category), block->start,
		phase_name(block->phase));
	text_write_csv(file, rank->operator_names[block->name]);
	putc_unlocked(',', file);
	text_write_csv(file, rank->runs[block->producer].module);
	putc_unlocked(',', file);
	if (options->empty_users)
		fputs_unlocked("{},,", file);
	else
		write_users(file, rank, block);
	write_stack(file, stack, &stack_fields[block->stack]);
	fprintf(file, ",%d,%d\r\n", block->persistent, block->bytes < SMALL_BYTES);
}

int report_memory_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	static const struct report_options DEFAULTS = {0};
	struct output output;
	char **stack_fields = NULL;
	int error;

	if (!report_has_data(rank))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	arrzero(stack_fields, arrlenu(rank->stacks));
	fputs(HEADER, output.file);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		write_row(output.file, rank, &rank->blocks[i], options ? options : &DEFAULTS, stack_fields);
	for (size_t i = 0; i < arrlenu(stack_fields); i++)
		arrfree(stack_fields[i]);
	arrfree(stack_fields);
	return output_commit(&output);
}
