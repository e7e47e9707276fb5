/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A job for Perfetto's viewer: ranks are processes. Their threads have phases,
 * in these the calls of modules, in these operators; beside them are steps,
 * memory by category, and collectives, which flow from rank to rank in the order
 * in which they began them.
 *
 * When an operator ends is not seen: its slice ends where the rank's next one
 * begins, as the time of a step is counted. Calls and phases end with the last
 * operator in them. Times are those of the first capture's clock.
 */
#include "report.h"

#include <errno.h>
#include <string.h>

#include "containers/containers.h"
#include "history.h"
#include "holders.h"
#include "module_calls.h"
#include "output.h"
#include "perfetto_trace.h"
#include "segments.h"
#include "text.h"
#include "tree.h"

#define NAME_BYTES 160
#define CHAIN_MAX 64 /* of module_calls.c */

/* What is open on a thread. */
struct thread_slices {
	uint64_t track;
	uint64_t end_ns; /* of its last operator */
	int phase;       /* -1: none */
	uint32_t calls[CHAIN_MAX];
	size_t call_count;
};

struct perfetto_rank {
	struct perfetto_trace *trace;
	const struct rank *rank;
	int32_t pid;
	uint64_t process; /* its track */
	struct module_calls calls;
	struct {
		uint32_t key;
		struct thread_slices value;
	} * threads; /* stb_ds map */
};

static uint64_t time_of(const struct perfetto_rank *rank, uint64_t time_ns)
{
	return time_ns + (uint64_t)rank->rank->clock_offset_ns;
}

/* --- threads ----------------------------------------------------------------------------------- */

static struct thread_slices *thread_find(struct perfetto_rank *rank, uint32_t thread)
{
	struct thread_slices fresh = {.phase = -1};
	ptrdiff_t at = hmgeti(rank->threads, thread);
	char name[NAME_BYTES];

	if (at < 0) {
		snprintf(name, sizeof(name), "thread %u", thread);
		fresh.track = perfetto_thread(rank->trace, rank->pid, thread, name);
		hmput(rank->threads, thread, fresh);
		at = hmgeti(rank->threads, thread);
	}
	return &rank->threads[at].value;
}

/* The calls that a run is in, outermost first; returns how many. */
static size_t calls_of(const struct perfetto_rank *rank, size_t run, uint32_t calls[CHAIN_MAX])
{
	size_t count = 0;

	for (uint32_t call = rank->calls.of_run[run]; call != CALL_NONE && count < CHAIN_MAX;
		call = rank->calls.calls[call].parent)
		calls[count++] = call;
	for (size_t i = 0; i < count / 2; i++) {
		uint32_t other = calls[i];

		calls[i] = calls[count - 1 - i];
		calls[count - 1 - i] = other;
	}
	return count;
}

static void slices_end(struct perfetto_rank *rank, struct thread_slices *thread, size_t calls_kept, bool phase_kept)
{
	for (; thread->call_count > calls_kept; thread->call_count--)
		perfetto_slice_end(rank->trace, thread->track, thread->end_ns);
	if (!phase_kept && thread->phase >= 0) {
		perfetto_slice_end(rank->trace, thread->track, thread->end_ns);
		thread->phase = -1;
	}
}

/* Open the phase and the calls of a run, and end those that it is not in. */
static void slices_follow(struct perfetto_rank *rank, struct thread_slices *thread, size_t index, uint64_t time_ns)
{
	const struct operator_run *run = &rank->rank->runs[index];
	bool same_phase = thread->phase == run->phase;
	uint32_t calls[CHAIN_MAX];
	size_t count = calls_of(rank, index, calls), common = 0;

	while (same_phase && common < count && common < thread->call_count && calls[common] == thread->calls[common])
		common++;
	slices_end(rank, thread, common, same_phase);
	if (!same_phase) {
		thread->phase = run->phase;
		perfetto_event(rank->trace, KIND_PHASE, phase_name((enum phase)run->phase));
		perfetto_slice(rank->trace, thread->track, time_ns);
	}
	for (; thread->call_count < count; thread->call_count++) {
		thread->calls[thread->call_count] = calls[thread->call_count];
		perfetto_event(rank->trace, KIND_MODULE, rank->calls.calls[calls[thread->call_count]].module);
		perfetto_slice(rank->trace, thread->track, time_ns);
	}
}

static void operator_write(
	struct perfetto_rank *rank, struct thread_slices *thread, const struct operator_run *run, uint64_t time_ns)
{
	struct perfetto_trace *trace = rank->trace;

	perfetto_event(trace, KIND_OPERATOR, rank->rank->operator_names[run->name]);
	if (run->task != TASK_NONE)
		perfetto_annotate(trace, ANNOTATION_TASK, run->task);
	perfetto_annotate(trace, ANNOTATION_STEP, run->step);
	perfetto_annotate(trace, ANNOTATION_LIVE_BYTES, (int64_t)run->live_bytes);
	if (run->launches)
		perfetto_annotate(trace, ANNOTATION_LAUNCHES, run->launches);
	perfetto_place(trace, stack_leaf(&rank->rank->stacks[run->stack]));
	perfetto_slice(trace, thread->track, time_ns);
	perfetto_slice_end(trace, thread->track, thread->end_ns);
}

/* What is older than the trace has an operator that never ran. */
static bool is_run(const struct operator_run *run)
{
	return run->phase != PHASE_INITIALIZATION;
}

static void operators_write(struct perfetto_rank *rank)
{
	const struct operator_run *runs = rank->rank->runs;
	uint64_t time_ns = 0;

	module_calls_find(rank->rank, &rank->calls);
	for (size_t i = 0; i < arrlenu(runs); i++) {
		uint64_t next_ns = i + 1 < arrlenu(runs) ? runs[i + 1].time_ns : rank->rank->last_time_ns;
		struct thread_slices *thread;

		if (!is_run(&runs[i]))
			continue;
		/* Records of several threads may come a little out of order. */
		time_ns = runs[i].time_ns > time_ns ? runs[i].time_ns : time_ns;
		next_ns = next_ns > time_ns ? next_ns : time_ns;
		thread = thread_find(rank, runs[i].thread_id);
		slices_follow(rank, thread, i, time_of(rank, time_ns));
		thread->end_ns = time_of(rank, next_ns);
		operator_write(rank, thread, &runs[i], time_of(rank, time_ns));
	}
	for (size_t i = 0; i < hmlenu(rank->threads); i++)
		slices_end(rank, &rank->threads[i].value, 0, false);
	hmfree(rank->threads);
	module_calls_free(&rank->calls);
}

static void steps_write(struct perfetto_rank *rank)
{
	uint64_t track = arrlenu(rank->rank->steps) ? perfetto_track(rank->trace, rank->process, "steps") : 0;

	for (size_t i = 0; i < arrlenu(rank->rank->steps); i++) {
		const struct step *step = &rank->rank->steps[i];
		char name[NAME_BYTES];

		snprintf(name, sizeof(name), "step %zu%s", i, step->complete ? "" : " (not complete)");
		perfetto_event(rank->trace, KIND_STEP, name);
		perfetto_annotate(rank->trace, ANNOTATION_STEP, (int64_t)i);
		perfetto_annotate(rank->trace, ANNOTATION_BYTES, (int64_t)step->peak_bytes);
		perfetto_slice(rank->trace, track, time_of(rank, step->start_time_ns));
		perfetto_slice_end(rank->trace, track, time_of(rank, step->start_time_ns + step_duration(step)));
	}
}

/* --- memory -------------------------------------------------------------------------------------- */

/* Counters of one device: of each category, and of all. */
struct counters {
	uint64_t tracks[CATEGORIES + 1], bytes[CATEGORIES + 1];
};

static void counters_show(
	struct perfetto_rank *rank, const char *device, struct counters *counters, int which, uint64_t time_ns)
{
	char name[NAME_BYTES];

	if (!counters->tracks[which]) {
		snprintf(name, sizeof(name), "%s %s", device,
			which == CATEGORIES ? "blocks" : category_name((enum category)which));
		counters->tracks[which] = perfetto_bytes_track(rank->trace, rank->process, name);
	}
	perfetto_count(rank->trace, counters->tracks[which], time_ns, counters->bytes[which]);
}

/* What is older than the trace counts from its first moment on. */
static void counters_begin(struct perfetto_rank *rank, uint8_t device, struct counters *counters)
{
	for (size_t i = 0; i < arrlenu(rank->rank->blocks); i++) {
		const struct block *block = &rank->rank->blocks[i];

		if (block->device != device || block->first_order)
			continue;
		counters->bytes[block->category] += block_held_bytes(block);
		counters->bytes[CATEGORIES] += block_held_bytes(block);
	}
	for (int which = 0; which <= CATEGORIES; which++)
		if (counters->bytes[which])
			counters_show(rank, rank->rank->devices[device].name, counters, which,
				time_of(rank, rank->rank->first_time_ns));
}

static void exhausted_write(struct perfetto_rank *rank, const struct out_of_memory *exhausted, uint64_t time_ns)
{
	uint64_t track = perfetto_track(rank->trace, rank->process, "out of memory");
	const char *found = exhausted_name(rank->rank, exhausted);
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "out of memory: %llu bytes for %s", (unsigned long long)exhausted->bytes,
		found ? found : "no operator");
	perfetto_event(rank->trace, KIND_MEMORY, name);
	perfetto_annotate(rank->trace, ANNOTATION_BYTES, (int64_t)exhausted->bytes);
	perfetto_annotate(rank->trace, ANNOTATION_LIVE_BYTES, (int64_t)exhausted->allocated_bytes);
	perfetto_place(rank->trace, stack_leaf(&rank->rank->stacks[exhausted->stack]));
	perfetto_instant(rank->trace, track, time_ns);
}

static void peak_write(struct perfetto_rank *rank, const struct device *device)
{
	uint64_t track = perfetto_track(rank->trace, rank->process, "peak");
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "peak of %s", device->name);
	perfetto_event(rank->trace, KIND_MEMORY, name);
	perfetto_annotate(rank->trace, ANNOTATION_BYTES, (int64_t)device->peak_bytes);
	perfetto_instant(rank->trace, track, time_of(rank, device->peak_time_ns));
}

static void device_write(struct perfetto_rank *rank, uint8_t device)
{
	const char *name = rank->rank->devices[device].name;
	struct counters counters = {{0}, {0}};
	struct history history;
	uint64_t time_ns = 0;

	counters_begin(rank, device, &counters);
	history_find(rank->rank, device, &history);
	for (size_t i = 0; i < arrlenu(history.events); i++) {
		const struct history_event *event = &history.events[i];
		uint64_t bytes;

		time_ns = event->time_ns > time_ns ? event->time_ns : time_ns;
		if (event->action == HISTORY_OOM)
			exhausted_write(rank, event->exhausted, time_of(rank, time_ns));
		if (event->action != HISTORY_ALLOCATE && event->action != HISTORY_FREE)
			continue;
		bytes = event->action == HISTORY_FREE ? 0 - block_held_bytes(event->block)
		                                      : block_held_bytes(event->block);
		counters.bytes[event->block->category] += bytes;
		counters.bytes[CATEGORIES] += bytes;
		counters_show(rank, name, &counters, event->block->category, time_of(rank, time_ns));
		counters_show(rank, name, &counters, CATEGORIES, time_of(rank, time_ns));
	}
	history_free(&history);
	peak_write(rank, &rank->rank->devices[device]);
}

/* --- collectives --------------------------------------------------------------------------------- */

/* Collectives of a communicator may overlap: each goes to the first track on which the one before has ended. */
struct lane {
	uint64_t track, end_ns;
	uint32_t group;
};

static struct lane *lane_find(struct perfetto_rank *rank, struct lane **lanes, const struct collective *collective)
{
	const struct group *group = &rank->rank->groups[collective->group];
	struct lane fresh = {.group = collective->group};
	char name[NAME_BYTES], size[32] = "";

	for (size_t i = 0; i < arrlenu(*lanes); i++)
		if ((*lanes)[i].group == collective->group && (*lanes)[i].end_ns <= collective->time_ns)
			return &(*lanes)[i];
	if (group->size >= 0)
		snprintf(size, sizeof(size), " of %d ranks", group->size);
	snprintf(name, sizeof(name), "%s communicator %u%s", collective_layer_name(group->layer), collective->group,
		size);
	fresh.track = perfetto_track(rank->trace, rank->process, name);
	arrput(*lanes, fresh);
	return &arrlast(*lanes);
}

static void collective_write(struct perfetto_rank *rank, const struct collective *collective, struct lane *lane)
{
	struct perfetto_trace *trace = rank->trace;
	uint64_t bytes = collective->kind == COLLECTIVE_RECEIVE ? collective->output_bytes : collective->input_bytes;

	perfetto_event(trace, KIND_COLLECTIVE, collective_kind_name(collective));
	if (bytes != COUNT_UNKNOWN)
		perfetto_annotate(trace, ANNOTATION_BYTES, (int64_t)bytes);
	perfetto_annotate(trace, ANNOTATION_COMMUNICATOR, collective->group);
	if (collective->sequence != SEQUENCE_NONE)
		perfetto_annotate(trace, ANNOTATION_SEQUENCE, collective->sequence);
	perfetto_annotate(trace, ANNOTATION_MATCHED_RANKS, collective->matched_ranks);
	if (collective->matched_ranks > 1) {
		perfetto_annotate(trace, ANNOTATION_LAST_RANK, collective->last_rank);
		perfetto_flow(trace, collective->match, collective->last_rank == rank->rank->rank);
	}
	perfetto_annotate(trace, ANNOTATION_STEP, collective->step);
	perfetto_place(trace, stack_leaf(&rank->rank->stacks[collective->stack]));
	lane->end_ns = collective->finished_ns > collective->time_ns ? collective->finished_ns
	                                                             : collective->time_ns + collective->wait_ns;
	perfetto_slice(trace, lane->track, time_of(rank, collective->time_ns));
	perfetto_slice_end(trace, lane->track, time_of(rank, lane->end_ns));
}

static void collectives_write(struct perfetto_rank *rank)
{
	struct lane *lanes = NULL;

	for (size_t i = 0; i < arrlenu(rank->rank->collectives); i++) {
		const struct collective *collective = &rank->rank->collectives[i];

		collective_write(rank, collective, lane_find(rank, &lanes, collective));
	}
	arrfree(lanes);
}

/* --- the job ------------------------------------------------------------------------------------ */

static int32_t pid_of(const struct rank *rank)
{
	yajl_val target = tree_of(rank->target_json);
	long long pid = tree_number(target, "pid");

	yajl_tree_free(target);
	return pid > 0 && pid <= INT32_MAX ? (int32_t)pid : 0;
}

/* Do processes have ids that tell them apart? Those of several machines may not. */
static bool pids_differ(const struct rank *const *ranks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!pid_of(ranks[i]))
			return false;
		for (size_t j = 0; j < i; j++)
			if (pid_of(ranks[i]) == pid_of(ranks[j]))
				return false;
	}
	return true;
}

static void rank_write(struct perfetto_trace *trace, const struct rank *rank, int32_t pid)
{
	struct perfetto_rank writing = {.trace = trace, .rank = rank, .pid = pid};
	char name[NAME_BYTES];

	perfetto_sequence(trace);
	snprintf(name, sizeof(name), "rank %d", rank->rank);
	writing.process = perfetto_process(trace, pid, name);
	steps_write(&writing);
	for (size_t device = 0; device < arrlenu(rank->devices); device++)
		if (rank->devices[device].reported && rank->devices[device].seen)
			device_write(&writing, (uint8_t)device);
	collectives_write(&writing);
	operators_write(&writing);
}

int report_job_perfetto(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path)
{
	bool distinct = pids_differ(ranks, count);
	struct perfetto_trace trace = {.file = NULL};
	struct output output;
	int error = output_open(&output, path);

	(void)options;
	if (error)
		return error;
	trace.file = output.file;
	for (size_t i = 0; i < count; i++)
		rank_write(&trace, ranks[i], distinct ? pid_of(ranks[i]) : ranks[i]->rank + 1);
	perfetto_free(&trace);
	return output_commit(&output);
}
