/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory CSV, one row a block: 22 columns as HyperDryRun writes them and its
 * viewers read them, lines end with CR LF, fields are quoted only when they must;
 * or 20 as MindSpore's memory tracker writes them, which quotes nothing and ends
 * each line with a comma and LF.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "containers/containers.h"
#include "output.h"
#include "text.h"

#define COLUMNS_BEHIND_PLOT                                                                                            \
	"device_addr,stream_id,pool_type,size,actual_used_memory,actual_peak_memory,file_name,line_num,type,"          \
	"producer_task,task_name,node_name,graph_name,user_tasks,last_user_task,python_stack,is_persistent,is_small"

struct layout {
	const char *header, *line_end;
	bool has_plot;
	char *(*append)(char *array, const char *text);
};

static const struct layout DRY_RUN = {
	"start_time_stamp,end_time_stamp,start_plot_time_stamp,end_plot_time_stamp," COLUMNS_BEHIND_PLOT, "\r\n", true,
	text_append_csv};
static const struct layout MINDSPORE = {
	"start_time_stamp,end_time_stamp," COLUMNS_BEHIND_PLOT, ",\n", false, text_append_unquoted};

/* One file while it is written. */
struct table {
	FILE *file;
	const struct rank *rank;
	const struct layout *layout;
	const char *pool_name;
	bool empty_users;
	char *field;         /* stb_ds: the last text */
	char **stack_fields; /* stb_ds: python_stack of every stack, made when first needed: most have many rows */
};

#define SMALL_BYTES (1ull << 20)

bool report_has_data(const struct rank *rank)
{
	return rank->peak_bytes > 0;
}

static void write_text(struct table *table, const char *text)
{
	arrsetlen(table->field, 0);
	table->field = table->layout->append(table->field, text);
	fwrite_unlocked(table->field, 1, arrlenu(table->field), table->file);
	putc_unlocked(',', table->file);
}

static void write_users(struct table *table, const struct block *block)
{
	const int64_t *users = table->rank->users + block->first_user;

	if (table->empty_users || !block->user_count) {
		fputs_unlocked("{},,", table->file);
		return;
	}
	for (uint32_t i = 0; i < block->user_count; i++)
		fprintf(table->file, "%c%" PRId64, i ? '-' : '{', users[i]);
	fprintf(table->file, "},%" PRId64 ",", users[block->user_count - 1]);
}

static void write_plot(FILE *file, const struct block *block)
{
	char start[PLOT_TEXT_BYTES], end[PLOT_TEXT_BYTES];

	fprintf(file, "%s,%s,", plot_format(start, block->start, block->start_plot),
		plot_format(end, block_end_task(block), block->end_plot));
}

static void write_stack(struct table *table, uint32_t index)
{
	const struct stack *stack = &table->rank->stacks[index];
	char **field = &table->stack_fields[index];

	if (!stack->frame_count)
		return;
	if (!*field) {
		char *text = text_of_stack(stack);

		*field = table->layout->append(NULL, text);
		arrfree(text);
	}
	fwrite_unlocked(*field, 1, arrlenu(*field), table->file);
}

static void write_row(struct table *table, const struct block *block)
{
	const struct rank *rank = table->rank;
	const struct frame *leaf = stack_leaf(&rank->stacks[block->stack]);
	FILE *file = table->file;

	fprintf(file, "%" PRId64 ",%" PRId64 ",", block->start, block->end);
	if (table->layout->has_plot)
		write_plot(file, block);
	fprintf(file, "0x%" PRIx64 ",%u,", block->address, block->stream);
	write_text(table, table->pool_name);
	fprintf(file, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", block->bytes, block->used_bytes, block->peak_bytes);
	write_text(table, leaf ? leaf->file : "");
	fprintf(file, "%u,%s,%" PRId64 ",%s,", leaf ? leaf->line : 0, category_name(block->category), block->start,
		phase_name(block->phase));
	write_text(table, rank->operator_names[block->name]);
	write_text(table, rank->runs[block->producer].module);
	write_users(table, block);
	write_stack(table, block->stack);
	fprintf(file, ",%d,%d%s", block->persistent, block->bytes < SMALL_BYTES, table->layout->line_end);
}

static int blocks_write(
	const struct rank *rank, const struct report_options *options, const struct layout *layout, const char *path)
{
	struct table table = {
		.rank = rank,
		.layout = layout,
		.pool_name = options && options->pool_name ? options->pool_name : REPORT_POOL_NAME,
		.empty_users = options && options->empty_users,
	};
	struct output output;
	int error;

	if (!report_has_data(rank))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	table.file = output.file;
	arrzero(table.stack_fields, arrlenu(rank->stacks));
	fprintf(output.file, "%s%s", layout->header, layout->line_end);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		write_row(&table, &rank->blocks[i]);
	for (size_t i = 0; i < arrlenu(table.stack_fields); i++)
		arrfree(table.stack_fields[i]);
	arrfree(table.stack_fields);
	arrfree(table.field);
	return output_commit(&output);
}

int report_memory_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	return blocks_write(rank, options, &DRY_RUN, path);
}

int report_mindspore_blocks_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	return blocks_write(rank, options, &MINDSPORE, path);
}
