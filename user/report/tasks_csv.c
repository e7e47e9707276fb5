/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The task list: one row a task in order of index, with what the memory CSV has
 * no column for: wall-clock time, thread, optimizer step, live bytes.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>

#include "containers/containers.h"
#include "output.h"
#include "text.h"

#define HEADER                                                                                                         \
	"task_index,time_ns,thread_id,step,task_name,node_name,graph_name,file_name,line_num,live_bytes,launches,"     \
	"forward_task,forward_file_name,forward_line_num\r\n"

/* Of an operator in a backward pass: where the forward pass was that it belongs to. */
static void write_forward(FILE *file, const struct rank *rank, const struct operator_run *run)
{
	const struct operator_run *forward = run->forward == RUN_NONE ? NULL : &rank->runs[run->forward];
	const struct frame *leaf = forward ? stack_leaf(&rank->stacks[forward->stack]) : NULL;

	if (forward && forward->task != TASK_NONE)
		fprintf(file, "%" PRId64, forward->task);
	putc_unlocked(',', file);
	text_write_csv(file, leaf ? leaf->file : "");
	putc_unlocked(',', file);
	if (leaf)
		fprintf(file, "%u", leaf->line);
}

static void write_row(FILE *file, const struct rank *rank, const struct operator_run *run)
{
	const struct frame *leaf = stack_leaf(&rank->stacks[run->stack]);

	fprintf(file, "%" PRId64 ",%" PRIu64 ",%u,%u,%s,", run->task, run->time_ns, run->thread_id, run->step,
		phase_name(run->phase));
	text_write_csv(file, rank->operator_names[run->name]);
	putc_unlocked(',', file);
	text_write_csv(file, run->module);
	putc_unlocked(',', file);
	text_write_csv(file, leaf ? leaf->file : "");
	fprintf(file, ",%u,%" PRIu64 ",%u,", leaf ? leaf->line : 0, run->live_bytes, run->launches);
	write_forward(file, rank, run);
	fputs("\r\n", file);
}

int report_tasks_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	struct output output;
	int error;

	(void)options;
	if (!report_has_data(rank))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	fputs(HEADER, output.file);
	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			write_row(output.file, rank, &rank->runs[i]);
	return output_commit(&output);
}

/* MindSpore's own task.csv has the stack of every task, no quotes, and a comma at the end of each line. */
#define MINDSPORE_HEADER "time_stamp,task_name,node_name,graph_name,file_name,line_num,python_stack,\n"

static void write_unquoted(FILE *file, char **field, const char *text)
{
	arrsetlen(*field, 0);
	*field = text_append_unquoted(*field, text);
	fwrite_unlocked(*field, 1, arrlenu(*field), file);
	putc_unlocked(',', file);
}

static void write_mindspore_row(FILE *file, const struct rank *rank, const struct operator_run *run, char **field)
{
	const struct stack *stack = &rank->stacks[run->stack];
	const struct frame *leaf = stack_leaf(stack);
	char *text = text_of_stack(stack);
	const char *texts[] = {rank->operator_names[run->name], run->module, leaf ? leaf->file : ""};

	fprintf(file, "%" PRId64 ",%s,", run->task, phase_name(run->phase));
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		write_unquoted(file, field, texts[i]);
	fprintf(file, "%u,", leaf ? leaf->line : 0);
	write_unquoted(file, field, text);
	putc_unlocked('\n', file);
	arrfree(text);
}

int report_mindspore_tasks_csv(const struct rank *rank, const struct report_options *options, const char *path)
{
	struct output output;
	char *field = NULL;
	int error;

	(void)options;
	if (!report_has_data(rank))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	fputs(MINDSPORE_HEADER, output.file);
	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			write_mindspore_row(output.file, rank, &rank->runs[i], &field);
	arrfree(field);
	return output_commit(&output);
}
