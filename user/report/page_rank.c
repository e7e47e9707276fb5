/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The columns of a rank. A table says which there are: a name, how it is coded,
 * and the number of the i-th element. Times are counted from the rank's first
 * event; where a number may be missing, 0 says so and others are one more.
 * Texts are indices into one table, stacks into another, whose frames are
 * indices into a third. docs/report-format.md lists them.
 */
#include "page_rank.h"

#include "layout.h"
#include "page_source.h"
#include "text.h"

uint64_t page_text_index(struct texts *texts, const char *text)
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

uint64_t page_time(const struct rank *rank, uint64_t time_ns)
{
	return time_ns > rank->first_time_ns ? time_ns - rank->first_time_ns : 0;
}

uint64_t page_known(int64_t value)
{
	return value < 0 ? 0 : (uint64_t)value + 1;
}

/* --- users: of all blocks, one after another ------------------------------------------------ */

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
	return page_time(source->rank, source->tasks[index]->time_ns);
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
	return page_text_index(&source->texts, source->rank->operator_names[source->tasks[index]->name]);
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
	return page_time(source->rank, step_of(source, index)->start_time_ns);
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
	return page_time(source->rank, segment_of(source, index)->start_time_ns);
}

static uint64_t segment_end_time(struct source *source, size_t index)
{
	uint64_t end = segment_of(source, index)->end_time_ns;

	return end == UINT64_MAX ? 0 : page_time(source->rank, end) + 1;
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
	return page_time(source->rank, collective_of(source, index)->time_ns);
}

static uint64_t collective_wait(struct source *source, size_t index)
{
	return collective_of(source, index)->wait_ns;
}

/* Of those that several ranks began. */
static uint64_t collective_last_rank(struct source *source, size_t index)
{
	const struct collective *collective = collective_of(source, index);

	return collective->matched_ranks > 1 ? page_known(collective->last_rank) : 0;
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
	return page_text_index(&source->texts, source->frames.list[index].file);
}

static uint64_t frame_function(struct source *source, size_t index)
{
	return page_text_index(&source->texts, source->frames.list[index].function);
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
		{page_block_columns, page_block_column_count, arrlenu(rank->blocks)},
#define TABLE(columns, count) {columns, sizeof(columns) / sizeof(*(columns)), count}
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
