/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job.sqlite: what is known of the ranks of a job, in tables for those who ask
 * questions of their own. The schema is database.sql, docs/database.md explains
 * it. Columns are written in the order of the schema.
 */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "database.h"
#include "output.h"
#include "segments.h"
#include "text.h"
#include "tree.h"

#define SCHEMA_VERSION 1
#define INDICES_MARK "-- indices"

/* report/database_sql.S */
extern const char report_database_schema[];

enum table_number {
	TABLE_META,
	TABLE_RANKS,
	TABLE_DEVICES,
	TABLE_FRAMES,
	TABLE_STACKS,
	TABLE_STACK_FRAMES,
	TABLE_TASKS,
	TABLE_BLOCKS,
	TABLE_USERS,
	TABLE_STEPS,
	TABLE_SEGMENTS,
	TABLE_COLLECTIVES,
	TABLE_COLLECTIVE_BLOCKS,
	TABLE_OUT_OF_MEMORIES,
	TABLES
};

static const struct {
	const char *name;
	int columns;
} TABLE_NAMES[TABLES] = {
	[TABLE_META] = {"meta", 2},
	[TABLE_RANKS] = {"ranks", 11},
	[TABLE_DEVICES] = {"devices", 8},
	[TABLE_FRAMES] = {"frames", 4},
	[TABLE_STACKS] = {"stacks", 4},
	[TABLE_STACK_FRAMES] = {"stack_frames", 3},
	[TABLE_TASKS] = {"tasks", 12},
	[TABLE_BLOCKS] = {"blocks", 28},
	[TABLE_USERS] = {"users", 2},
	[TABLE_STEPS] = {"steps", 23},
	[TABLE_SEGMENTS] = {"segments", 12},
	[TABLE_COLLECTIVES] = {"collectives", 33},
	[TABLE_COLLECTIVE_BLOCKS] = {"collective_blocks", 3},
	[TABLE_OUT_OF_MEMORIES] = {"out_of_memories", 9},
};

struct frame_key {
	const char *file, *function;
	uint64_t line;
};

struct job {
	struct database database;
	struct table tables[TABLES];
	struct text_table operators, modules, owners;
	struct {
		struct frame_key key;
		int64_t value;
	} * frames; /* stb_ds map */
	/* Of the rank at hand. */
	const struct rank *rank;
	int64_t first_stack, first_device, first_block; /* the numbers of its first ones */
};

static int64_t stack_number(const struct job *job, uint32_t stack)
{
	return job->first_stack + stack;
}

/* --- ranks, devices, stacks -------------------------------------------------------------------- */

static void add_rank(struct job *job)
{
	struct table *table = &job->tables[TABLE_RANKS];
	const struct rank *rank = job->rank;
	yajl_val target = tree_of(rank->target_json);
	long long pid = tree_number(target, "pid");

	row_integer(table, rank->rank);
	row_text(table, rank->job);
	row_integer_if(table, pid > 0, pid);
	row_integer(table, rank_complete(rank));
	row_integer(table, rank->task_count);
	row_integer(table, rank->step_count);
	row_unsigned(table, rank->peak_bytes);
	row_unsigned(table, rank->first_time_ns);
	row_unsigned(table, rank->last_time_ns);
	row_integer(table, rank->clock_offset_ns);
	row_integer(table, rank->real_offset_ns);
	row_end(table);
	yajl_tree_free(target);
}

static void add_devices(struct job *job)
{
	struct table *table = &job->tables[TABLE_DEVICES];

	job->first_device = table->rows;
	for (size_t i = 0; i < arrlenu(job->rank->devices); i++) {
		const struct device *device = &job->rank->devices[i];

		row_integer(table, table->rows);
		row_integer(table, job->rank->rank);
		row_text(table, device->name);
		row_integer(table, device->reported);
		row_unsigned(table, device->peak_bytes);
		row_unsigned(table, device->peak_time_ns);
		row_unsigned(table, device->reserved_bytes);
		row_unsigned(table, device->reserved_peak_bytes);
		row_end(table);
	}
}

static int64_t frame_number(struct job *job, const struct frame *frame)
{
	struct table *table = &job->tables[TABLE_FRAMES];
	struct frame_key key = {frame->file, frame->function, frame->line};
	ptrdiff_t at = hmgeti(job->frames, key);
	int64_t number = table->rows;

	if (at >= 0)
		return job->frames[at].value;
	hmput(job->frames, key, number);
	row_integer(table, number);
	row_text(table, frame->file);
	row_integer(table, frame->line);
	row_text(table, frame->function);
	row_end(table);
	return number;
}

static void add_stacks(struct job *job)
{
	struct table *table = &job->tables[TABLE_STACKS], *positions = &job->tables[TABLE_STACK_FRAMES];

	job->first_stack = table->rows;
	for (size_t i = 0; i < arrlenu(job->rank->stacks); i++) {
		const struct stack *stack = &job->rank->stacks[i];
		const struct frame *leaf = stack_leaf(stack);
		int64_t number = table->rows;
		char *text = text_of_stack(stack);

		row_integer(table, number);
		row_integer(table, job->rank->rank);
		row_integer_if(table, leaf, leaf ? frame_number(job, leaf) : 0);
		row_text(table, text);
		row_end(table);
		arrfree(text);
		for (uint32_t j = 0; j < stack->frame_count; j++) {
			row_integer(positions, number);
			row_integer(positions, j);
			row_integer(positions, frame_number(job, &stack->frames[j]));
			row_end(positions);
		}
	}
}

/* --- tasks, blocks ---------------------------------------------------------------------------- */

/* The task of a run, TASK_NONE: it is none. */
static int64_t task_of(const struct rank *rank, uint32_t run)
{
	return run == RUN_NONE ? TASK_NONE : rank->runs[run].task;
}

static void add_task(struct job *job, const struct operator_run *run)
{
	struct table *table = &job->tables[TABLE_TASKS];
	int64_t forward = task_of(job->rank, run->forward);

	row_integer(table, job->rank->rank);
	row_integer(table, run->task);
	row_unsigned(table, run->time_ns);
	row_integer(table, run->thread_id);
	row_integer(table, run->step);
	row_text(table, phase_name((enum phase)run->phase));
	row_integer(table, text_number(&job->operators, job->rank->operator_names[run->name]));
	row_integer(table, text_number(&job->modules, run->module));
	row_integer(table, stack_number(job, run->stack));
	row_unsigned(table, run->live_bytes);
	row_integer(table, run->launches);
	row_integer_if(table, forward != TASK_NONE, forward);
	row_end(table);
}

static void add_life(struct table *table, const struct block *block)
{
	bool ended = !block->persistent && block->end_time_ns != UINT64_MAX;

	row_integer(table, block->start);
	row_integer(table, block->end);
	row_unsigned(table, block->start_plot);
	row_integer_if(table, block->end_plot != PLOT_NONE, (int64_t)block->end_plot);
	row_unsigned(table, block->start_time_ns);
	row_integer_if(table, ended, (int64_t)block->end_time_ns);
}

static void add_users(struct job *job, const struct block *block, int64_t number)
{
	struct table *table = &job->tables[TABLE_USERS];

	for (uint32_t i = 0; i < block->user_count; i++) {
		row_integer(table, number);
		row_integer(table, job->rank->users[block->first_user + i]);
		row_end(table);
	}
}

static void add_block(struct job *job, const struct block *block)
{
	struct table *table = &job->tables[TABLE_BLOCKS];
	const struct rank *rank = job->rank;
	const struct operator_run *run = &rank->runs[block->producer];
	const int64_t *users = rank->users + block->first_user;
	int64_t number = table->rows;

	row_integer(table, number);
	row_integer(table, rank->rank);
	row_integer(table, job->first_device + block->device);
	add_life(table, block);
	row_unsigned(table, block->address);
	row_integer(table, block->generation);
	row_integer(table, block->stream);
	row_unsigned(table, block->bytes);
	row_integer_if(table, block->allocated_bytes, (int64_t)block->allocated_bytes);
	row_unsigned(table, block->used_bytes);
	row_unsigned(table, block->peak_bytes);
	row_text(table, category_name((enum category)block->category));
	row_text(table, phase_name((enum phase)block->phase));
	row_integer(table, text_number(&job->operators, rank->operator_names[block->name]));
	row_integer(table, text_number(&job->modules, run->module));
	row_integer(table, stack_number(job, block->stack));
	if (run->forward == RUN_NONE)
		row_integer_if(table, false, 0);
	else
		row_integer(table, stack_number(job, rank->runs[run->forward].stack));
	row_integer_if(table, *block->owner, *block->owner ? text_number(&job->owners, block->owner) : 0);
	row_integer_if(table, block->user_count, block->user_count ? users[block->user_count - 1] : 0);
	row_integer(table, block->persistent);
	row_integer(table, block->preexisting);
	row_integer(table, block_alive_at(block, rank->devices[block->device].peak_order));
	row_text(table, communication_name((enum communication)block->communication));
	row_end(table);
	add_users(job, block, number);
}

/* --- steps, segments, collectives ------------------------------------------------------------- */

static void add_step(struct job *job, size_t index)
{
	static const enum phase PHASES_SHOWN[] = {PHASE_FORWARD, PHASE_RECOMPUTE, PHASE_BACKWARD, PHASE_OPTIMIZER};
	struct table *table = &job->tables[TABLE_STEPS];
	const struct step *step = &job->rank->steps[index];

	row_integer(table, job->rank->rank);
	row_unsigned(table, index);
	row_integer(table, step->complete);
	row_unsigned(table, step->start_time_ns);
	row_unsigned(table, step_duration(step));
	for (size_t i = 0; i < sizeof(PHASES_SHOWN) / sizeof(*PHASES_SHOWN); i++)
		row_unsigned(table, step->phase_ns[PHASES_SHOWN[i]]);
	row_integer(table, step->micro_steps);
	row_integer(table, step->operators);
	row_integer(table, step->launches);
	row_unsigned(table, step->allocated_bytes);
	row_unsigned(table, step->peak_bytes);
	row_unsigned(table, step->end_bytes);
	row_integer(table, step->collectives);
	row_unsigned(table, step->collective_bytes);
	row_unsigned(table, step->wait_ns);
	row_integer(table, step->small_collectives);
	row_unsigned(table, step->communication_bytes);
	row_unsigned(table, step->communication_peak_bytes);
	row_unsigned(table, step->host_wait_ns);
	row_unsigned(table, step->communication_ns);
	row_end(table);
}

static void add_segment(struct job *job, const struct segment *segment)
{
	struct table *table = &job->tables[TABLE_SEGMENTS];
	char caller[SEGMENT_CALLER_BYTES];

	if (!segment->bytes)
		return;
	row_integer(table, table->rows);
	row_integer(table, job->rank->rank);
	row_integer_if(table, segment->device != UINT8_MAX, job->first_device + segment->device);
	row_unsigned(table, segment->start_time_ns);
	row_integer_if(table, segment->end_time_ns != UINT64_MAX, (int64_t)segment->end_time_ns);
	row_integer_if(table, segment->address, (int64_t)segment->address);
	row_unsigned(table, segment->bytes);
	row_text(table, segment_memory_name(segment));
	row_text(table, job->rank->operator_names[segment->function]);
	row_text(table, segment_caller(job->rank, segment->caller, caller));
	row_integer(table, segment->has_blocks);
	row_integer(table, segment->certain);
	row_end(table);
}

static void row_known(struct table *table, int32_t number)
{
	row_integer_if(table, number >= 0, number);
}

static void row_count(struct table *table, uint64_t count)
{
	row_integer_if(table, count != COUNT_UNKNOWN, (int64_t)count);
}

/* What it is; who else is in it is add_others. */
static void add_what(struct table *table, const struct group *group, const struct collective *collective)
{
	bool receives = collective->kind == COLLECTIVE_RECEIVE;

	row_unsigned(table, collective->time_ns);
	row_integer(table, collective->group);
	row_known(table, group->rank);
	row_known(table, group->size);
	row_integer_if(table, collective->sequence != SEQUENCE_NONE, collective->sequence);
	row_text(table, collective_kind_name(collective));
	row_text(table, collective_operation_name(collective));
	row_text(table, collective_type_name(collective));
	row_count(table, receives ? collective->output_bytes : collective->input_bytes);
	row_count(table, collective->output_bytes);
	row_known(table, collective->peer);
	row_integer(table, collective->in_place);
	row_integer(table, collective->in_bucket);
	row_integer(table, collective->step);
	row_text(table, collective_phase_name(collective));
	row_integer(table, collective->thread_id);
}

static void add_others(struct table *table, const struct collective *collective)
{
	bool matched = collective->matched_ranks;

	row_integer_if(table, matched, collective->matched_ranks);
	row_integer_if(table, matched && collective->last_rank >= 0, collective->last_rank);
	row_integer_if(table, matched && collective->absent_rank >= 0, collective->absent_rank);
	row_integer_if(table, matched, (int64_t)collective->skew_ns);
	row_integer_if(table, matched, (int64_t)collective->wait_ns);
	row_integer_if(table, matched, collective->differs);
}

/* What it costs, in memory and time. */
static void add_cost(struct table *table, const struct rank *rank, const struct collective *collective)
{
	uint64_t waited = collective_host_wait(rank, collective);

	row_integer(table, collective_is_small(collective));
	row_text(table, collective_division_name(collective));
	row_unsigned(table, collective->communication_bytes);
	row_integer_if(table, collective->finished_ns > collective->time_ns,
		(int64_t)(collective->finished_ns - collective->time_ns));
	row_integer_if(table, waited != UINT64_MAX, (int64_t)waited);
}

static void add_collective_blocks(struct job *job, const struct collective *collective, int64_t number)
{
	struct table *table = &job->tables[TABLE_COLLECTIVE_BLOCKS];
	const struct {
		const char *role;
		uint32_t count;
	} PARTS[] = {{"input", collective->input_blocks}, {"output", collective->output_blocks},
		{"copy", collective->copy_blocks}};
	uint32_t at = collective->blocks;

	for (size_t i = 0; i < sizeof(PARTS) / sizeof(*PARTS); i++)
		for (uint32_t end = at + PARTS[i].count; at < end; at++) {
			uint32_t row = job->rank->collective_blocks[at];

			if (row == UINT32_MAX)
				continue;
			row_integer(table, number);
			row_integer(table, job->first_block + row);
			row_text(table, PARTS[i].role);
			row_end(table);
		}
}

static void add_collective(struct job *job, const struct collective *collective)
{
	struct table *table = &job->tables[TABLE_COLLECTIVES];
	int64_t number = table->rows;
	int64_t task = task_of(job->rank, collective->run);

	row_integer(table, number);
	row_integer(table, job->rank->rank);
	row_integer_if(table, collective->match, collective->match);
	add_what(table, &job->rank->groups[collective->group], collective);
	add_others(table, collective);
	row_text(table, collective_layer_name(collective->layer));
	row_integer(table, stack_number(job, collective->stack));
	row_integer_if(table, task != TASK_NONE, task);
	add_cost(table, job->rank, collective);
	row_end(table);
	add_collective_blocks(job, collective, number);
}

static void add_out_of_memory(struct job *job, const struct out_of_memory *exhausted)
{
	struct table *table = &job->tables[TABLE_OUT_OF_MEMORIES];
	const char *name = exhausted_name(job->rank, exhausted);

	row_integer(table, job->rank->rank);
	row_integer(table, job->first_device + exhausted->device);
	row_unsigned(table, exhausted->time_ns);
	row_unsigned(table, exhausted->bytes);
	row_unsigned(table, exhausted->allocated_bytes);
	row_unsigned(table, exhausted->reserved_bytes);
	row_text(table, phase_name((enum phase)exhausted->phase));
	row_text(table, name ? name : "");
	row_integer(table, stack_number(job, exhausted->stack));
	row_end(table);
}

/* --- the whole --------------------------------------------------------------------------------- */

static void add_all_of_rank(struct job *job, const struct rank *rank)
{
	job->rank = rank;
	add_rank(job);
	add_devices(job);
	add_stacks(job);
	job->first_block = job->tables[TABLE_BLOCKS].rows;
	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			add_task(job, &rank->runs[i]);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		add_block(job, &rank->blocks[i]);
	for (size_t i = 0; i < arrlenu(rank->steps); i++)
		add_step(job, i);
	for (size_t i = 0; i < arrlenu(rank->segments); i++)
		add_segment(job, &rank->segments[i]);
	for (size_t i = 0; i < arrlenu(rank->collectives); i++)
		add_collective(job, &rank->collectives[i]);
	for (size_t i = 0; i < arrlenu(rank->out_of_memories); i++)
		add_out_of_memory(job, &rank->out_of_memories[i]);
}

static void add_meta(struct job *job)
{
	struct table *table = &job->tables[TABLE_META];

	row_text(table, "hdtrace");
	row_text(table, HDTRACE_VERSION);
	row_end(table);
	row_text(table, "schema_version");
	row_integer(table, SCHEMA_VERSION);
	row_end(table);
}

static int job_write(struct job *job, const struct rank *const *ranks, size_t count, const char *path)
{
	const char *indices = strstr(report_database_schema, INDICES_MARK);
	char *tables = indices ? strndup(report_database_schema, (size_t)(indices - report_database_schema)) : NULL;

	if (!tables)
		return -ENOMEM;
	database_open(&job->database, path);
	database_run(&job->database, tables);
	free(tables);
	for (int i = 0; i < TABLES; i++)
		table_open(&job->tables[i], &job->database, TABLE_NAMES[i].name, TABLE_NAMES[i].columns);
	text_table_open(&job->operators, &job->database, "operators");
	text_table_open(&job->modules, &job->database, "modules");
	text_table_open(&job->owners, &job->database, "owners");
	add_meta(job);
	for (size_t i = 0; i < count; i++)
		add_all_of_rank(job, ranks[i]);
	for (int i = 0; i < TABLES; i++)
		table_close(&job->tables[i]);
	text_table_close(&job->operators);
	text_table_close(&job->modules);
	text_table_close(&job->owners);
	hmfree(job->frames);
	database_run(&job->database, indices);
	return database_close(&job->database);
}

int report_job_sqlite(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path)
{
	struct job job = {.rank = NULL};
	struct output output = {0};
	int error = output_open(&output, path);

	(void)options;
	if (error)
		return error;
	/* The database is written into the file that waits under its other name. */
	error = job_write(&job, ranks, count, output.temporary);
	if (!error)
		error = output_commit(&output);
	output_discard(&output);
	return error;
}
