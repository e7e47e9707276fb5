/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The columns of a rank. A table says which there are: a name, how it is coded,
 * and the number of the i-th element. Times are counted from the rank's first
 * event; where a number may be missing, 0 says so and others are one more.
 * Texts are indices into one table, stacks into another, whose frames are
 * indices into a third. docs/report-format.md lists them.
 */
#include "page_rank.h"

#include <errno.h>

#include "containers/containers.h"
#include "layout.h"
#include "page_data.h"
#include "text.h"

#define PLOT_STEPS (1ull << 20) /* a plot coordinate's fraction in so many parts */

enum { BLOCK_PERSISTENT = 1, BLOCK_PREEXISTING = 2 };

/* Texts of the model are there once: an address is as good as the text. */
struct texts {
	const char **list; /* stb_ds */
	struct {
		const char *key;
		uint32_t value;
	} * index; /* stb_ds map */
};

struct frame_key {
	const char *file, *function;
	uint64_t line;
};

struct frames {
	struct frame_key *list; /* stb_ds */
	struct {
		struct frame_key key;
		uint32_t value;
	} * index; /* stb_ds map */
};

/* A rank with what its columns refer to. */
struct source {
	const struct rank *rank;
	struct texts texts;
	struct frames frames;
	uint64_t *places;                  /* of blocks: layout.h */
	const struct operator_run **tasks; /* stb_ds: the runs that are tasks */
	uint32_t *stack_frames;            /* stb_ds: of all stacks, indices into frames */
	uint64_t *users;                   /* stb_ds: of all blocks, their tasks */
};

typedef uint64_t (*column_value)(struct source *source, size_t index);

struct column {
	const char *name;
	enum page_coding coding;
	column_value value;
};

static uint64_t text_index(struct texts *texts, const char *text)
{
	ptrdiff_t at = hmgeti(texts->index, text);
	uint32_t index = (uint32_t)arrlenu(texts->list);

	if (at >= 0)
		return texts->index[at].value;
	hmput(texts->index, text, index);
	arrput(texts->list, text);
	return index;
}

static uint32_t frame_index(struct frames *frames, const struct frame *frame)
{
	struct frame_key key = {frame->file, frame->function, frame->line};
	ptrdiff_t at = hmgeti(frames->index, key);
	uint32_t index = (uint32_t)arrlenu(frames->list);

	if (at >= 0)
		return frames->index[at].value;
	hmput(frames->index, key, index);
	arrput(frames->list, key);
	return index;
}

static uint64_t time_since(const struct rank *rank, uint64_t time_ns)
{
	return time_ns > rank->first_time_ns ? time_ns - rank->first_time_ns : 0;
}

/* One more than an index or a task, 0: none. */
static uint64_t known(int64_t value)
{
	return value < 0 ? 0 : (uint64_t)value + 1;
}

/* --- blocks ------------------------------------------------------------------------------ */

static const struct block *block_of(const struct source *source, size_t index)
{
	return &source->rank->blocks[index];
}

static const struct operator_run *producer_of(const struct source *source, size_t index)
{
	return &source->rank->runs[block_of(source, index)->producer];
}

static const struct operator_run *forward_of(const struct source *source, const struct operator_run *run)
{
	return run->forward == RUN_NONE ? NULL : &source->rank->runs[run->forward];
}

static uint64_t block_start(struct source *source, size_t index)
{
	return (uint64_t)block_of(source, index)->start;
}

static uint64_t block_life(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	return block->persistent ? 0 : (uint64_t)(block->end - block->start) + 1;
}

static uint64_t block_start_plot(struct source *source, size_t index)
{
	return block_of(source, index)->start_plot * PLOT_STEPS / PLOT_UNIT;
}

static uint64_t block_end_plot(struct source *source, size_t index)
{
	uint64_t fraction = block_of(source, index)->end_plot;

	return fraction == PLOT_NONE ? 0 : fraction * PLOT_STEPS / PLOT_UNIT;
}

static uint64_t block_start_time(struct source *source, size_t index)
{
	return time_since(source->rank, block_of(source, index)->start_time_ns);
}

static uint64_t block_life_time(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	if (block->persistent || block->end_time_ns == UINT64_MAX)
		return 0;
	return time_since(source->rank, block->end_time_ns) - block_start_time(source, index) + 1;
}

static uint64_t block_order(struct source *source, size_t index)
{
	return block_of(source, index)->first_order;
}

static uint64_t block_order_life(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	return block->persistent || block->last_order < block->first_order
	               ? 0
	               : (uint64_t)block->last_order - block->first_order + 1;
}

static uint64_t block_bytes(struct source *source, size_t index)
{
	return block_of(source, index)->bytes;
}

static uint64_t block_allocated(struct source *source, size_t index)
{
	return block_of(source, index)->allocated_bytes;
}

static uint64_t block_address(struct source *source, size_t index)
{
	return block_of(source, index)->address;
}

static uint64_t block_generation(struct source *source, size_t index)
{
	return block_of(source, index)->generation;
}

static uint64_t block_stream(struct source *source, size_t index)
{
	return block_of(source, index)->stream;
}

static uint64_t block_device(struct source *source, size_t index)
{
	return block_of(source, index)->device;
}

static uint64_t block_category(struct source *source, size_t index)
{
	return block_of(source, index)->category;
}

static uint64_t block_phase(struct source *source, size_t index)
{
	return block_of(source, index)->phase;
}

static uint64_t block_flags(struct source *source, size_t index)
{
	const struct block *block = block_of(source, index);

	return (block->persistent ? BLOCK_PERSISTENT : 0) | (block->preexisting ? BLOCK_PREEXISTING : 0);
}

static uint64_t block_used(struct source *source, size_t index)
{
	return block_of(source, index)->used_bytes;
}

static uint64_t block_peak(struct source *source, size_t index)
{
	return block_of(source, index)->peak_bytes;
}

static uint64_t block_stack(struct source *source, size_t index)
{
	return block_of(source, index)->stack;
}

static uint64_t block_name(struct source *source, size_t index)
{
	return text_index(&source->texts, source->rank->operator_names[block_of(source, index)->name]);
}

static uint64_t block_module(struct source *source, size_t index)
{
	return text_index(&source->texts, producer_of(source, index)->module);
}

static uint64_t block_owner(struct source *source, size_t index)
{
	return text_index(&source->texts, block_of(source, index)->owner);
}

static uint64_t block_forward_task(struct source *source, size_t index)
{
	const struct operator_run *forward = forward_of(source, producer_of(source, index));

	return forward ? known(forward->task) : 0;
}

static uint64_t block_forward_stack(struct source *source, size_t index)
{
	const struct operator_run *forward = forward_of(source, producer_of(source, index));

	return forward ? known(forward->stack) : 0;
}

static uint64_t block_users(struct source *source, size_t index)
{
	return block_of(source, index)->user_count;
}

static uint64_t block_place(struct source *source, size_t index)
{
	return source->places[index];
}

static const struct column BLOCK_COLUMNS[] = {
	{"block.start", PAGE_DELTA, block_start},
	{"block.life", PAGE_PLAIN, block_life},
	{"block.start_plot", PAGE_PLAIN, block_start_plot},
	{"block.end_plot", PAGE_PLAIN, block_end_plot},
	{"block.start_time", PAGE_DELTA, block_start_time},
	{"block.life_time", PAGE_PLAIN, block_life_time},
	{"block.order", PAGE_DELTA, block_order},
	{"block.order_life", PAGE_PLAIN, block_order_life},
	{"block.bytes", PAGE_PLAIN, block_bytes},
	{"block.allocated", PAGE_PLAIN, block_allocated},
	{"block.address", PAGE_PLAIN, block_address},
	{"block.generation", PAGE_PLAIN, block_generation},
	{"block.stream", PAGE_PLAIN, block_stream},
	{"block.device", PAGE_PLAIN, block_device},
	{"block.category", PAGE_PLAIN, block_category},
	{"block.phase", PAGE_PLAIN, block_phase},
	{"block.flags", PAGE_PLAIN, block_flags},
	{"block.used", PAGE_DELTA, block_used},
	{"block.peak", PAGE_DELTA, block_peak},
	{"block.stack", PAGE_PLAIN, block_stack},
	{"block.name", PAGE_PLAIN, block_name},
	{"block.module", PAGE_PLAIN, block_module},
	{"block.owner", PAGE_PLAIN, block_owner},
	{"block.forward_task", PAGE_PLAIN, block_forward_task},
	{"block.forward_stack", PAGE_PLAIN, block_forward_stack},
	{"block.users", PAGE_PLAIN, block_users},
	{"block.place", PAGE_PLAIN, block_place},
};

/* Of all blocks, one after another. */
static uint64_t user_task(struct source *source, size_t index)
{
	return source->users[index];
}

static const struct column USER_COLUMNS[] = {{"user.task", PAGE_DELTA, user_task}};

/* --- tasks ------------------------------------------------------------------------------- */

static uint64_t task_index(struct source *source, size_t index)
{
	return (uint64_t)source->tasks[index]->task;
}

static uint64_t task_time(struct source *source, size_t index)
{
	return time_since(source->rank, source->tasks[index]->time_ns);
}

static uint64_t task_step(struct source *source, size_t index)
{
	return source->tasks[index]->step;
}

static uint64_t task_phase(struct source *source, size_t index)
{
	return source->tasks[index]->phase;
}

static uint64_t task_thread(struct source *source, size_t index)
{
	return source->tasks[index]->thread_id;
}

static uint64_t task_name(struct source *source, size_t index)
{
	return text_index(&source->texts, source->rank->operator_names[source->tasks[index]->name]);
}

static uint64_t task_stack(struct source *source, size_t index)
{
	return source->tasks[index]->stack;
}

static const struct column TASK_COLUMNS[] = {
	{"task.index", PAGE_DELTA, task_index},
	{"task.time", PAGE_DELTA, task_time},
	{"task.step", PAGE_DELTA, task_step},
	{"task.phase", PAGE_PLAIN, task_phase},
	{"task.thread", PAGE_DELTA, task_thread},
	{"task.name", PAGE_PLAIN, task_name},
	{"task.stack", PAGE_PLAIN, task_stack},
};

/* --- steps ------------------------------------------------------------------------------- */

static const struct step *step_of(const struct source *source, size_t index)
{
	return &source->rank->steps[index];
}

static uint64_t step_complete(struct source *source, size_t index)
{
	return step_of(source, index)->complete;
}

static uint64_t step_start_time(struct source *source, size_t index)
{
	return time_since(source->rank, step_of(source, index)->start_time_ns);
}

static uint64_t step_time(struct source *source, size_t index)
{
	return step_duration(step_of(source, index));
}

static uint64_t step_forward(struct source *source, size_t index)
{
	return step_of(source, index)->phase_ns[PHASE_FORWARD];
}

static uint64_t step_recompute(struct source *source, size_t index)
{
	return step_of(source, index)->phase_ns[PHASE_RECOMPUTE];
}

static uint64_t step_backward(struct source *source, size_t index)
{
	return step_of(source, index)->phase_ns[PHASE_BACKWARD];
}

static uint64_t step_optimizer(struct source *source, size_t index)
{
	return step_of(source, index)->phase_ns[PHASE_OPTIMIZER];
}

static uint64_t step_allocated(struct source *source, size_t index)
{
	return step_of(source, index)->allocated_bytes;
}

static uint64_t step_peak(struct source *source, size_t index)
{
	return step_of(source, index)->peak_bytes;
}

static uint64_t step_end(struct source *source, size_t index)
{
	return step_of(source, index)->end_bytes;
}

static uint64_t step_operators(struct source *source, size_t index)
{
	return step_of(source, index)->operators;
}

static uint64_t step_collectives(struct source *source, size_t index)
{
	return step_of(source, index)->collectives;
}

static uint64_t step_wait(struct source *source, size_t index)
{
	return step_of(source, index)->wait_ns;
}

static const struct column STEP_COLUMNS[] = {
	{"step.complete", PAGE_PLAIN, step_complete},
	{"step.start_time", PAGE_DELTA, step_start_time},
	{"step.time", PAGE_PLAIN, step_time},
	{"step.forward", PAGE_PLAIN, step_forward},
	{"step.recompute", PAGE_PLAIN, step_recompute},
	{"step.backward", PAGE_PLAIN, step_backward},
	{"step.optimizer", PAGE_PLAIN, step_optimizer},
	{"step.allocated", PAGE_PLAIN, step_allocated},
	{"step.peak", PAGE_DELTA, step_peak},
	{"step.end", PAGE_DELTA, step_end},
	{"step.operators", PAGE_PLAIN, step_operators},
	{"step.collectives", PAGE_PLAIN, step_collectives},
	{"step.wait", PAGE_PLAIN, step_wait},
};

/* --- segments and collectives ---------------------------------------------------------------- */

static const struct segment *segment_of(const struct source *source, size_t index)
{
	return &source->rank->segments[index];
}

static uint64_t segment_start_time(struct source *source, size_t index)
{
	return time_since(source->rank, segment_of(source, index)->start_time_ns);
}

static uint64_t segment_end_time(struct source *source, size_t index)
{
	uint64_t end = segment_of(source, index)->end_time_ns;

	return end == UINT64_MAX ? 0 : time_since(source->rank, end) + 1;
}

static uint64_t segment_bytes(struct source *source, size_t index)
{
	return segment_of(source, index)->bytes;
}

static uint64_t segment_device(struct source *source, size_t index)
{
	uint8_t device = segment_of(source, index)->device;

	return device == UINT8_MAX ? 0 : (uint64_t)device + 1;
}

static uint64_t segment_allocator(struct source *source, size_t index)
{
	return segment_of(source, index)->has_blocks;
}

static const struct column SEGMENT_COLUMNS[] = {
	{"segment.start_time", PAGE_DELTA, segment_start_time},
	{"segment.end_time", PAGE_PLAIN, segment_end_time},
	{"segment.bytes", PAGE_PLAIN, segment_bytes},
	{"segment.device", PAGE_PLAIN, segment_device},
	{"segment.allocator", PAGE_PLAIN, segment_allocator},
};

static const struct collective *collective_of(const struct source *source, size_t index)
{
	return &source->rank->collectives[index];
}

static uint64_t collective_time(struct source *source, size_t index)
{
	return time_since(source->rank, collective_of(source, index)->time_ns);
}

static uint64_t collective_wait(struct source *source, size_t index)
{
	return collective_of(source, index)->wait_ns;
}

/* Of those that several ranks began. */
static uint64_t collective_last_rank(struct source *source, size_t index)
{
	const struct collective *collective = collective_of(source, index);

	return collective->matched_ranks > 1 ? known(collective->last_rank) : 0;
}

static const struct column COLLECTIVE_COLUMNS[] = {
	{"collective.time", PAGE_DELTA, collective_time},
	{"collective.wait", PAGE_PLAIN, collective_wait},
	{"collective.last_rank", PAGE_PLAIN, collective_last_rank},
};

/* --- stacks -------------------------------------------------------------------------------- */

static uint64_t stack_count(struct source *source, size_t index)
{
	return source->rank->stacks[index].frame_count;
}

static uint64_t stack_frame(struct source *source, size_t index)
{
	return source->stack_frames[index];
}

static uint64_t frame_file(struct source *source, size_t index)
{
	return text_index(&source->texts, source->frames.list[index].file);
}

static uint64_t frame_function(struct source *source, size_t index)
{
	return text_index(&source->texts, source->frames.list[index].function);
}

static uint64_t frame_line(struct source *source, size_t index)
{
	return source->frames.list[index].line;
}

static const struct column STACK_COLUMNS[] = {{"stack.frames", PAGE_PLAIN, stack_count}};
static const struct column STACK_FRAME_COLUMNS[] = {{"stack.frame", PAGE_PLAIN, stack_frame}};
static const struct column FRAME_COLUMNS[] = {
	{"frame.file", PAGE_PLAIN, frame_file},
	{"frame.function", PAGE_PLAIN, frame_function},
	{"frame.line", PAGE_PLAIN, frame_line},
};

/* --- the whole ------------------------------------------------------------------------------- */

static void source_open(struct source *source, const struct rank *rank)
{
	source->rank = rank;
	source->places = layout_places(rank);
	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			arrput(source->tasks, &rank->runs[i]);
	for (size_t i = 0; i < arrlenu(rank->stacks); i++)
		for (uint32_t j = 0; j < rank->stacks[i].frame_count; j++) {
			uint32_t index = frame_index(&source->frames, &rank->stacks[i].frames[j]);

			arrput(source->stack_frames, index);
		}
	for (size_t i = 0; i < arrlenu(rank->blocks); i++)
		for (uint32_t j = 0; j < rank->blocks[i].user_count; j++)
			arrput(source->users, (uint64_t)rank->users[rank->blocks[i].first_user + j]);
}

static void source_close(struct source *source)
{
	arrfree(source->texts.list);
	hmfree(source->texts.index);
	arrfree(source->frames.list);
	hmfree(source->frames.index);
	arrfree(source->places);
	arrfree(source->tasks);
	arrfree(source->stack_frames);
	arrfree(source->users);
}

static int texts_write(FILE *file, const char *scope, const struct texts *texts)
{
	char *json = NULL;
	int error;

	for (size_t i = 0; i < arrlenu(texts->list); i++) {
		arrput(json, i ? ',' : '[');
		json = text_append_json(json, texts->list[i]);
	}
	if (!json)
		arrput(json, '[');
	arrput(json, ']');
	error = page_text(file, scope, "texts", json, arrlenu(json));
	arrfree(json);
	return error;
}

int page_rank_columns(FILE *file, const char *scope, const struct rank *rank)
{
	struct source source = {0};
	uint64_t *values = NULL;
	int error = 0;

	source_open(&source, rank);
	const struct {
		const struct column *columns;
		size_t column_count, count;
	} TABLES[] = {
#define TABLE(columns, count) {columns, sizeof(columns) / sizeof(*(columns)), count}
		TABLE(BLOCK_COLUMNS, arrlenu(rank->blocks)),
		TABLE(USER_COLUMNS, arrlenu(source.users)),
		TABLE(TASK_COLUMNS, arrlenu(source.tasks)),
		TABLE(STEP_COLUMNS, arrlenu(rank->steps)),
		TABLE(SEGMENT_COLUMNS, arrlenu(rank->segments)),
		TABLE(COLLECTIVE_COLUMNS, arrlenu(rank->collectives)),
		TABLE(STACK_COLUMNS, arrlenu(rank->stacks)),
		TABLE(STACK_FRAME_COLUMNS, arrlenu(source.stack_frames)),
		TABLE(FRAME_COLUMNS, arrlenu(source.frames.list)),
#undef TABLE
	};

	for (size_t table = 0; table < sizeof(TABLES) / sizeof(*TABLES); table++) {
		arrzero(values, TABLES[table].count);
		for (size_t i = 0; !error && i < TABLES[table].column_count; i++) {
			const struct column *column = &TABLES[table].columns[i];

			for (size_t at = 0; at < TABLES[table].count; at++)
				values[at] = column->value(&source, at);
			error = page_column(file, scope, column->name, values, TABLES[table].count, column->coding);
		}
	}
	/* Last: the columns have put what they need into it. */
	if (!error)
		error = texts_write(file, scope, &source.texts);
	arrfree(values);
	source_close(&source);
	return error;
}
