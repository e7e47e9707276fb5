/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows: from allocations to blocks with start, end, users, category, event
 * numbers and plot coordinates.
 *
 * Rules. A block starts at its producer's index. One freed inside a task ends
 * at that task's index, otherwise at the next index that an operator from then
 * on is given (what died before a storage resize outside operators is found
 * dead by the operator after it); either way after its start and not before its
 * last user. Users are the tasks that had it as an argument, without its
 * producer. An argument that its task freed ends there only when the task made
 * a block in its place (a resize), else after it. The block that a storage
 * resize outside operators replaces ends where the new one starts.
 *
 * Scratch of a task lasts from its index to the next; a workspace that a library
 * keeps, as long as a block. Neither takes event numbers: the coordinates span the
 * tasks of their life, outside those of all others.
 *
 * Events are numbered task by task: first what ends there, in order of arrival,
 * then what starts there, in order of allocation.
 *
 * Categories. What Python was found to hold a block by counts for its whole life:
 * parameter, buffer, gradient, optimizer state. Else by phase of creation: optimizer Optstate, backward Temp, else
 * Activation. Older than the trace: Optstate if only optimizer tasks used it,
 * else Other. What a node of autograd's graph saved is an Activation in any phase. What autograd stored as a gradient,
 * and the leaf it is for, are known whenever it shows, and count for the whole life of the block.
 */
#include <hdtrace/capture.h>

#include "category.h"
#include "state.h"

#define SCRATCH_START_PLOT 1
#define SCRATCH_END_PLOT (PLOT_UNIT - 1)

/* Per task: how many blocks end and start there, and the first of its event numbers. */
struct task_events {
	uint32_t ends, starts;
	uint32_t ends_seen, starts_seen;
	uint64_t first_event;
};

/* --- gradients ----------------------------------------------------------------- */

static void gradient_mark(struct allocation *allocation, uint32_t leaf)
{
	allocation->flags |= ALLOCATION_GRADIENT;
	allocation->leaf = leaf;
}

static bool accumulation_uses(const struct passes *passes, size_t index, uint32_t allocation)
{
	const struct accumulation *accumulation = &passes->target->accumulations[index];
	uint32_t run = passes->resolved[accumulation->run];

	return accumulation->allocation == allocation && run != NONE && run_uses(passes, run, allocation);
}

/*
 * What a hook made of an incoming gradient is its own, unless something else than that was kept: then the last that it
 * made of it came in its place.
 */
static bool accumulation_counts(const struct passes *passes, size_t index)
{
	const struct target_state *target = passes->target;
	uint32_t allocation = target->accumulations[index].allocation;
	bool last = index + 1 == arrlenu(target->accumulations);

	if (!accumulation_uses(passes, index, allocation))
		return false;
	if (!target->accumulations[index].by_hook)
		return true;
	return !(target->allocations[allocation].flags & ALLOCATION_GRADIENT) &&
	       (last || !accumulation_uses(passes, index + 1, allocation));
}

/* What an incoming gradient was copied or added to. */
static void gradients_follow(struct passes *passes)
{
	struct target_state *target = passes->target;
	uint32_t *leaves = NULL;
	bool *stores = NULL;

	arrzero(stores, arrlenu(target->runs));
	arrzero(leaves, arrlenu(target->runs));
	for (size_t i = 0; i < arrlenu(target->accumulations); i++) {
		const struct accumulation *accumulation = &target->accumulations[i];
		uint32_t run = passes->resolved[accumulation->run];

		if (!accumulation_counts(passes, i))
			continue;
		stores[run] = true;
		leaves[run] = accumulation->leaf;
		for (uint32_t at = passes->use_start[run]; !accumulation->by_hook && at < passes->use_start[run + 1];
			at++)
			if (passes->used[at] != accumulation->allocation)
				gradient_mark(&target->allocations[passes->used[at]], accumulation->leaf);
	}
	for (size_t i = 0; i < arrlenu(target->allocations); i++) {
		struct allocation *made = &target->allocations[i];
		uint32_t producer = made->run == NONE ? NONE : passes->resolved[made->run];

		if (producer != NONE && stores[producer] && !(made->flags & ALLOCATION_SCRATCH))
			gradient_mark(made, leaves[producer]);
	}
	arrfree(stores);
	arrfree(leaves);
}

/*
 * Autograd has gradients for any leaf; where it is known what Python holds, only those of parameters count. One that is
 * older than the trace may be what could not be read, unless something else was seen to hold it.
 */
static bool leaf_counts(const struct target_state *target, const struct allocation *leaf)
{
	if (!target->result.owners_told || leaf->holder == OWNER_PARAMETER)
		return true;
	return (leaf->flags & ALLOCATION_PREEXISTING) && !leaf->holder;
}

static bool allocation_is_gradient(const struct target_state *target, const struct allocation *allocation)
{
	if (!(allocation->flags & ALLOCATION_GRADIENT))
		return false;
	return allocation->leaf == NONE || leaf_counts(target, &target->allocations[allocation->leaf]);
}

static enum category row_category(
	const struct target_state *target, const struct allocation *allocation, const struct block *block)
{
	struct category_facts facts = {
		.workspace = allocation->flags & (ALLOCATION_SCRATCH | ALLOCATION_LIBRARY),
		.holder = allocation->holder,
		.parameter = (allocation->flags & ALLOCATION_PARAMETER) && leaf_counts(target, allocation),
		.gradient = allocation_is_gradient(target, allocation),
		.preexisting = target->result.runs[block->producer].phase == PHASE_INITIALIZATION,
		.phase = block->phase,
	};

	return category_of(&facts);
}

/* --- which allocations are rows, in which order ---------------------------------- */

static uint32_t producer_of(const struct passes *passes, uint32_t allocation)
{
	uint32_t run = passes->target->allocations[allocation].run;

	return run == NONE ? NONE : passes->resolved[run];
}

static bool allocation_is_row(const struct passes *passes, uint32_t index)
{
	uint16_t flags = passes->target->allocations[index].flags;
	uint32_t producer = producer_of(passes, index);

	if (producer == NONE || passes->task[producer] == TASK_NONE ||
		!allocation_is_reported(passes->target, &passes->target->allocations[index]))
		return false;
	return flags & (ALLOCATION_TRACKED | ALLOCATION_SCRATCH | ALLOCATION_LIBRARY);
}

/* Allocations that are rows, by start, then in order of creation: a counting sort. */
static uint32_t *rows_order(const struct passes *passes)
{
	size_t allocation_count = arrlenu(passes->target->allocations);
	uint32_t *position = NULL, *order = NULL;

	arrzero(position, (size_t)passes->target->result.task_count + 1);
	for (uint32_t i = 0; i < allocation_count; i++)
		if (allocation_is_row(passes, i))
			position[passes->task[producer_of(passes, i)] + 1]++;
	for (size_t task = 1; task < arrlenu(position); task++)
		position[task] += position[task - 1];
	arrzero(order, position[arrlenu(position) - 1]);
	for (uint32_t i = 0; i < allocation_count; i++)
		if (allocation_is_row(passes, i))
			order[position[passes->task[producer_of(passes, i)]]++] = i;
	arrfree(position);
	return order;
}

static void row_fill(const struct passes *passes, uint32_t index, struct block *block)
{
	const struct allocation *allocation = &passes->target->allocations[index];
	const struct rank *rank = &passes->target->result;
	uint32_t producer = passes->public_run[producer_of(passes, index)];
	const struct run_totals *totals = &passes->totals[allocation->device][producer];
	const struct operator_run *run = &rank->runs[producer];
	bool unseen = allocation->flags & (ALLOCATION_PREEXISTING | ALLOCATION_EXTERNAL);
	bool remainder = allocation->flags & ALLOCATION_REMAINDER;

	*block = (struct block){
		.address = allocation->address,
		.bytes = allocation_shown_bytes(allocation),
		.allocated_bytes = allocation->allocated_bytes,
		.start = run->task,
		.end = TASK_PERSISTENT,
		.start_event = UINT64_MAX,
		.end_event = UINT64_MAX,
		.start_time_ns = unseen ? rank->first_time_ns : allocation->start_time_ns,
		.end_time_ns = allocation->end_time_ns,
		.start_plot = PLOT_NONE,
		.end_plot = PLOT_NONE,
		.used_bytes = totals->live_bytes,
		.peak_bytes = totals->peak_bytes,
		.first_order = allocation->first_order,
		.last_order = allocation->last_order,
		.generation = allocation->generation,
		.producer = producer,
		.stack = run->stack,
		.name = remainder ? passes->remainder_name : run->name,
		.owner = allocation->owner ? allocation->owner : "",
		.owner_source = allocation->owner && *allocation->owner ? allocation->owner_source : OWNER_UNKNOWN,
		.phase = run->phase,
		.element_type = allocation->element_type,
		.device = allocation->device,
		.stream = allocation->stream,
		.persistent = allocation->last_order == NONE,
		.preexisting = unseen,
		.remainder = remainder,
	};
}

static void rows_fill(struct passes *passes)
{
	struct rank *rank = &passes->target->result;
	uint32_t *order = rows_order(passes);
	uint64_t peaks[DEVICES_MAX] = {0};

	arrzero(passes->row, arrlenu(passes->target->allocations));
	for (size_t i = 0; i < arrlenu(passes->row); i++)
		passes->row[i] = NONE;
	arrzero(rank->blocks, arrlenu(order));
	for (uint32_t i = 0; i < arrlenu(order); i++) {
		uint64_t *peak;

		row_fill(passes, order[i], &rank->blocks[i]);
		/* Runs of several threads overlap; down the file the peak of a device only grows. */
		peak = &peaks[rank->blocks[i].device];
		if (rank->blocks[i].peak_bytes < *peak)
			rank->blocks[i].peak_bytes = *peak;
		*peak = rank->blocks[i].peak_bytes;
		passes->row[order[i]] = i;
	}
	arrfree(order);
}

/* --- users ----------------------------------------------------------------------- */

/* The row that a use of an allocation by a task counts for, or NULL. */
static struct block *row_used(struct passes *passes, uint32_t allocation, int64_t task)
{
	uint32_t row = passes->row[allocation];
	struct block *block = row == NONE ? NULL : &passes->target->result.blocks[row];

	if (!block || !(passes->target->allocations[allocation].flags & ALLOCATION_TRACKED))
		return NULL;
	return task > block->start ? block : NULL;
}

static void users_fill(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;
	uint32_t total = 0;

	for (int counting = 1; counting >= 0; counting--) {
		for (uint32_t run = 0; run < arrlenu(target->runs); run++) {
			for (uint32_t i = passes->use_start[run]; i < passes->use_start[run + 1]; i++) {
				struct block *block = row_used(passes, passes->used[i], passes->task[run]);

				if (block && !counting)
					rank->users[block->first_user + block->user_count] = passes->task[run];
				if (block)
					block->user_count++;
			}
		}
		if (!counting)
			break;
		for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
			rank->blocks[i].first_user = total;
			total += rank->blocks[i].user_count;
			rank->blocks[i].user_count = 0;
		}
		arrzero(rank->users, total);
	}
}

/* --- ends ------------------------------------------------------------------------ */

static int64_t last_user(const struct rank *rank, const struct block *block)
{
	return block->user_count ? rank->users[block->first_user + block->user_count - 1] : block->start;
}

/* The first run from here on that is not a storage resize. */
static uint32_t next_operator(const struct passes *passes, uint32_t run)
{
	while (run < arrlenu(passes->target->runs) && passes->target->runs[run].source == SOURCE_RESIZE)
		run++;
	return run;
}

static void row_end(struct passes *passes, const struct moment *moment, struct block *block)
{
	const struct rank *rank = &passes->target->result;
	uint32_t from = moment->by_resize ? moment->runs_started : next_operator(passes, moment->runs_started);
	int64_t next = passes->tasks_before[from];
	uint32_t run = moment->run == NONE ? NONE : passes->resolved[moment->run];
	int64_t task = run == NONE ? TASK_NONE : passes->task[run];

	block->end = next > block->start ? next : block->start + 1;
	/* Another thread's task may be older than the block, or than its last user. */
	if (task == TASK_NONE || task <= block->start || task < last_user(rank, block))
		return;
	block->end = task;
	/* An argument lives as long as its operator runs, unless that put another block in its place (a resize). */
	if (task == last_user(rank, block) && !passes->made[run])
		block->end = task + 1;
}

static void rows_end(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;

	for (size_t i = 0; i < arrlenu(target->moments); i++) {
		const struct moment *moment = &target->moments[i];
		uint32_t row = passes->row[moment->allocation];

		if (!moment->is_free || row == NONE)
			continue;
		if (target->allocations[moment->allocation].flags & ALLOCATION_SCRATCH)
			rank->blocks[row].end = rank->blocks[row].start + 1;
		else
			row_end(passes, moment, &rank->blocks[row]);
	}
	for (size_t i = 0; i < arrlenu(target->allocations); i++) {
		uint32_t old = target->allocations[i].resized_from, row = passes->row[i];
		struct block *ended = old == NONE || passes->row[old] == NONE ? NULL : &rank->blocks[passes->row[old]];

		if (ended && row != NONE && rank->blocks[row].start > last_user(rank, ended))
			ended->end = rank->blocks[row].start;
	}
}

/* --- event numbers and plot coordinates -------------------------------------------- */

/* Does the row take event numbers? */
static bool row_has_events(const struct block *block)
{
	return block->category != CATEGORY_WORKSPACE;
}

static void events_count(const struct rank *rank, struct task_events *tasks)
{
	uint64_t event = 0;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		if (!row_has_events(&rank->blocks[i]))
			continue;
		tasks[rank->blocks[i].start].starts++;
		if (!rank->blocks[i].persistent)
			tasks[rank->blocks[i].end].ends++;
	}
	for (int64_t task = 0; task <= rank->task_count; task++) {
		tasks[task].first_event = event;
		event += (uint64_t)tasks[task].ends + tasks[task].starts;
	}
}

static void event_end(struct task_events *task, struct block *block)
{
	uint64_t k = task->ends_seen++;

	block->end_event = task->first_event + k;
	block->end_plot = plot_fraction(k + 1, (uint64_t)task->ends + task->starts);
}

static void event_start(struct task_events *task, struct block *block)
{
	uint64_t k = (uint64_t)task->ends + task->starts_seen++;

	block->start_event = task->first_event + k;
	block->start_plot = plot_fraction(k + 1, (uint64_t)task->ends + task->starts);
}

static void rows_number(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;
	struct task_events *tasks = NULL;

	arrzero(tasks, (size_t)rank->task_count + 1);
	events_count(rank, tasks);
	for (size_t i = 0; i < arrlenu(target->moments); i++) {
		uint32_t row = passes->row[target->moments[i].allocation];

		if (target->moments[i].is_free && row != NONE && row_has_events(&rank->blocks[row]))
			event_end(&tasks[rank->blocks[row].end], &rank->blocks[row]);
	}
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		struct block *block = &rank->blocks[i];

		if (row_has_events(block)) {
			event_start(&tasks[block->start], block);
			continue;
		}
		block->start_plot = SCRATCH_START_PLOT;
		block->end_plot = block->persistent ? PLOT_NONE : SCRATCH_END_PLOT;
	}
	arrfree(tasks);
}

/* --- categories -------------------------------------------------------------------- */

/* The phase of a task, by index: which of them were optimizer's. */
static bool *tasks_of_optimizer(const struct rank *rank)
{
	bool *optimizer = NULL;

	arrzero(optimizer, (size_t)rank->task_count + 1);
	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			optimizer[rank->runs[i].task] = rank->runs[i].phase == PHASE_OPTIMIZER;
	return optimizer;
}

static bool block_is_optimizers(const struct rank *rank, const struct block *block, const bool *optimizer)
{
	for (uint32_t i = 0; i < block->user_count; i++)
		if (!optimizer[rank->users[block->first_user + i]])
			return false;
	return block->user_count > 0;
}

/* A gradient that was gone before anybody saw Python hold it as one has its parameter's name all the same. */
static void block_name_by_leaf(
	const struct target_state *target, const struct allocation *gradient, struct block *block)
{
	const struct allocation *leaf = gradient->leaf == NONE ? NULL : &target->allocations[gradient->leaf];

	if (!leaf || !leaf->owner || leaf->holder != OWNER_PARAMETER)
		return;
	block->owner = leaf->owner;
	block->owner_source = OWNER_CONCLUDED;
}

static void rows_categorize(struct passes *passes)
{
	struct target_state *target = passes->target;
	struct rank *rank = &target->result;
	bool *optimizer = tasks_of_optimizer(rank);

	for (size_t i = 0; i < arrlenu(target->allocations); i++) {
		uint32_t row = passes->row[i];
		struct block *block = row == NONE ? NULL : &rank->blocks[row];

		if (!block)
			continue;
		block->category = (uint8_t)row_category(target, &target->allocations[i], block);
		/* A closure runs inside the step of its optimizer: what variables hold is not the optimizer's. */
		if (block->category == CATEGORY_OTHER && !target->allocations[i].holder &&
			block_is_optimizers(rank, block, optimizer))
			block->category = CATEGORY_OPTSTATE;
		if (block->category == CATEGORY_GRADIENT && target->allocations[i].holder != OWNER_GRADIENT)
			block_name_by_leaf(target, &target->allocations[i], block);
	}
	arrfree(optimizer);
}

void passes_make_rows(struct passes *passes)
{
	gradients_follow(passes);
	rows_fill(passes);
	users_fill(passes);
	rows_end(passes);
	rows_categorize(passes);
	rows_number(passes);
}
