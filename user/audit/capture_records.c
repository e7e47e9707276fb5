/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a capture says of a run, in records: the whole capture is one period of
 * each device. Sizes and times are those of the reports.
 */
#include "audit/capture_records.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "containers/containers.h"
#include "findings/findings.h"
#include "findings/words.h"
#include "report/facts.h"
#include "report/holders.h"
#include "report/tree.h"
#include "stream/capture_reader.h"

#define RUN_BYTES 17 /* 16 digits and NUL */
#define USER_BYTES 32
#define SECOND_NS 1000000000ull
#define MICROSECOND_NS 1000
#define SOURCE_CAPTURE "capture"

struct records {
	struct spool *spool;
	const struct run_choice *choice;
	const struct capture_origin *origins;
	const char *run;
	/* Of the rank at hand. */
	const struct rank *rank;
	const struct capture_origin *origin;
	yajl_val target;
	int error; /* the first */
};

/* What somebody who watches the run cannot see. */
static bool is_of_part(enum table_id table)
{
	return table == TABLE_STEP || table == TABLE_FINDING || table == TABLE_BLOCK;
}

static void put(struct records *records, enum table_id table, const void *record)
{
	if (records->error || (records->choice->part && !is_of_part(table)))
		return;
	records->error = spool_put(records->spool, table, record);
	if (records->error != -ENOBUFS)
		return;
	records->error = spool_commit(records->spool);
	if (!records->error)
		records->error = spool_put(records->spool, table, record);
}

static uint64_t real_ns(const struct records *records, uint64_t time_ns)
{
	return time_ns + (uint64_t)records->origin->real_offset_ns;
}

static int64_t seconds(const struct records *records, uint64_t time_ns)
{
	return (int64_t)(real_ns(records, time_ns) / SECOND_NS);
}

static int64_t microsecond(const struct records *records, uint64_t time_ns)
{
	return (int64_t)(real_ns(records, time_ns) % SECOND_NS / MICROSECOND_NS);
}

/* --- captures ----------------------------------------------------------------------- */

/* The first record of a capture describes the session. */
static char *node_read(struct capture_reader *reader)
{
	const struct event *record;
	const struct text_record *session;
	char *text, *node = NULL;
	yajl_val tree;

	if (capture_reader_next(reader, &record) != 1 || record->kind != CAPTURE_SESSION)
		return NULL;
	session = (const struct text_record *)record;
	text = strndup(session->text, session->length);
	tree = tree_of(text);
	if (tree_text(tree, "host"))
		node = strdup(tree_text(tree, "host"));
	yajl_tree_free(tree);
	free(text);
	return node;
}

struct capture_origin *origins_read(const char *const *captures, size_t count)
{
	struct capture_origin *origins = NULL;

	for (size_t index = 0; index < count; index++) {
		struct capture_origin origin = {0};
		struct capture_reader *reader;

		if (!capture_reader_open(captures[index], &reader, NULL)) {
			const struct capture_header *header = capture_reader_header(reader);

			origin.start_real_ns = header->start_real_time_ns;
			origin.real_offset_ns = (int64_t)(header->start_real_time_ns - header->start_time_ns);
			origin.node = node_read(reader);
			capture_reader_close(reader);
		}
		arrput(origins, origin);
	}
	return origins;
}

void origins_free(struct capture_origin *origins)
{
	for (size_t index = 0; index < arrlenu(origins); index++)
		free(origins[index].node);
	arrfree(origins);
}

/* --- texts ------------------------------------------------------------------------ */

static const char *base_name(const char *path, size_t length)
{
	const char *slash = memrchr(path, '/', length);

	return slash ? slash + 1 : path;
}

char *program_name(const char *command)
{
	static const char suffix[] = ".py", module[] = "-m ";
	const char *first = command + strspn(command, " ");

	for (const char *at = first; *at;) {
		size_t length = strcspn(at, " ");
		const char *base = base_name(at, length);

		if (length > strlen(suffix) && !strncmp(at + length - strlen(suffix), suffix, strlen(suffix)))
			return strndup(base, (size_t)(at + length - base));
		if (!strncmp(at, module, strlen(module))) {
			at += strlen(module);
			return strndup(at, strcspn(at, " "));
		}
		at += length + strspn(at + length, " ");
	}
	return strndup(base_name(first, strcspn(first, " ")),
		(size_t)(first + strcspn(first, " ") - base_name(first, strcspn(first, " "))));
}

/* "file:line" of a frame, to be freed; "" without one. */
static char *line_text(const struct frame *frame)
{
	char *text;

	if (!frame)
		return strdup("");
	return asprintf(&text, "%s:%u", frame->file, frame->line) < 0 ? NULL : text;
}

/* Where the program asked for what an operator does. */
static char *run_line(const struct rank *rank, const struct operator_run *run)
{
	return line_text(stack_line(run_origin(rank, run)));
}

/* --- run and rank ----------------------------------------------------------------- */

/* The first of the captures that ranks are of, which names the run. */
static const struct capture_origin *first_origin(
	const struct rank *const *ranks, size_t count, const struct capture_origin *origins)
{
	const struct capture_origin *first = &origins[ranks[0]->capture];

	for (size_t index = 1; index < count; index++) {
		const struct capture_origin *origin = &origins[ranks[index]->capture];
		int order = strcmp(origin->node ? origin->node : "", first->node ? first->node : "");

		if (origin->start_real_ns < first->start_real_ns ||
			(origin->start_real_ns == first->start_real_ns && order < 0))
			first = origin;
	}
	return first;
}

static void run_identity(const struct rank *const *ranks, const struct capture_origin *origin, char text[RUN_BYTES])
{
	char *seed;

	if (asprintf(&seed, "%s|%" PRIu64 "|%s", origin->node ? origin->node : "", origin->start_real_ns,
		    ranks[0]->job) < 0)
		seed = NULL;
	snprintf(text, RUN_BYTES, "%016llx", (unsigned long long)(seed ? XXH3_64bits(seed, strlen(seed)) : 0));
	free(seed);
}

/* The name of an account where it has one, else its number. */
static const char *user_name(yajl_val target, char text[USER_BYTES])
{
	struct passwd account, *found = NULL;
	char room[1024];
	yajl_val uid = tree_get(target, "uid");

	if (!YAJL_IS_INTEGER(uid))
		return "";
	snprintf(text, USER_BYTES, "%lld", YAJL_GET_INTEGER(uid));
	if (!getpwuid_r((uid_t)YAJL_GET_INTEGER(uid), &account, room, sizeof(room), &found) && found)
		snprintf(text, USER_BYTES, "%s", found->pw_name);
	return text;
}

static int64_t world_size(const struct rank *const *ranks, size_t count, yajl_val target)
{
	int64_t size = tree_number(target, "world_size");

	for (size_t index = 0; index < count; index++)
		for (size_t group = 0; group < arrlenu(ranks[index]->groups); group++)
			if (ranks[index]->groups[group].size > size)
				size = ranks[index]->groups[group].size;
	return size > (int64_t)count ? size : (int64_t)count;
}

static const char *or_else(const char *text, const char *other)
{
	return text ? text : other ? other : "";
}

static void put_run(struct records *records, const struct rank *const *ranks, size_t count, uint64_t start_real_ns)
{
	const struct run_choice *choice = records->choice;
	yajl_val target = tree_of(ranks[0]->target_json);
	const char *command = or_else(tree_text(target, "command"), "");
	char class[MODEL_CLASS_BYTES], user[USER_BYTES], *program = program_name(command);
	struct run_record record = {
		.run = records->run,
		.job = or_else(choice->job, program),
		.user = or_else(choice->user, user_name(target, user)),
		.model = or_else(choice->model, model_class(ranks[0], class)),
		.version = choice->version,
		.instance = tree_text(target, "job"),
		.command = command,
		.source = SOURCE_CAPTURE,
		.torch_version = tree_text(target, "torch_version"),
		.hdtrace_version = HDTRACE_VERSION,
		.world_size = world_size(ranks, count, target),
		.start_time = (int64_t)(start_real_ns / SECOND_NS),
	};

	put(records, TABLE_RUN, &record);
	free(program);
	yajl_tree_free(target);
}

static void put_rank(struct records *records)
{
	const struct rank *rank = records->rank;
	uint64_t lost = 0;
	struct rank_record record = {
		.run = records->run,
		.rank = rank->rank,
		.node = records->origin->node,
		.pid = tree_number(records->target, "pid"),
		.start_time = seconds(records, rank->first_time_ns),
		.end_time = seconds(records, rank->last_time_ns),
		.steps = rank->step_count,
		.complete = rank_complete(rank),
	};

	for (int reason = 0; reason < LOSS_REASONS; reason++)
		lost += rank->loss.lost[reason];
	record.lost_events = (int64_t)lost;
	put(records, TABLE_RANK, &record);
}

/* --- steps -------------------------------------------------------------------------- */

static int64_t microseconds(uint64_t time_ns)
{
	return (int64_t)(time_ns / MICROSECOND_NS);
}

static void put_steps(struct records *records)
{
	const struct rank *rank = records->rank;

	for (size_t index = 0; rank->step_count && index < arrlenu(rank->steps); index++) {
		const struct step *step = &rank->steps[index];
		struct step_record record = {
			.run = records->run,
			.rank = rank->rank,
			.start_time = seconds(records, step->start_time_ns),
			.step = (int64_t)index,
			.complete = step->complete,
			.duration_us = microseconds(step_duration(step)),
			.forward_us = microseconds(step->phase_ns[PHASE_FORWARD]),
			.recompute_us = microseconds(step->phase_ns[PHASE_RECOMPUTE]),
			.backward_us = microseconds(step->phase_ns[PHASE_BACKWARD]),
			.optimizer_us = microseconds(step->phase_ns[PHASE_OPTIMIZER]),
			.wait_us = microseconds(step->wait_ns),
			.peak_bytes = (int64_t)step->peak_bytes,
			.end_bytes = (int64_t)step->end_bytes,
			.allocated_bytes = (int64_t)step->allocated_bytes,
			.operators = step->operators,
			.collectives = step->collectives,
			.collective_bytes = (int64_t)step->collective_bytes,
		};

		put(records, TABLE_STEP, &record);
	}
}

static int number_compare(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

/* Median of the complete ones, in microseconds. */
static int64_t step_time(const struct rank *rank)
{
	int64_t *times = NULL, median = RECORD_UNKNOWN;

	for (size_t index = 0; index < arrlenu(rank->steps); index++)
		if (rank->steps[index].complete)
			arrput(times, microseconds(step_duration(&rank->steps[index])));
	if (times) {
		qsort(times, arrlenu(times), sizeof(*times), number_compare);
		median = times[(arrlenu(times) - 1) / 2];
	}
	arrfree(times);
	return median;
}

/* --- memory --------------------------------------------------------------------------- */

/* A moment at which somebody held memory. */
struct moment {
	const char *name;
	uint64_t time_ns;
	int64_t time, microsecond;
	uint32_t order;
	uint8_t device;
};

static void put_holder(struct records *records, const struct moment *moment, const char *kind, size_t place,
	const char *name, uint64_t bytes, uint64_t blocks)
{
	struct holder_record record = {
		.run = records->run,
		.device = records->rank->devices[moment->device].name,
		.moment = moment->name,
		.kind = kind,
		.name = name,
		.rank = records->rank->rank,
		.time = moment->time,
		.microsecond = moment->microsecond,
		.place = (int64_t)place,
		.bytes = (int64_t)bytes,
		.blocks = (int64_t)blocks,
	};

	put(records, TABLE_HOLDER, &record);
}

static void put_block(struct records *records, const struct moment *moment, size_t place, const struct block *block)
{
	const struct rank *rank = records->rank;
	const struct operator_run *run = &rank->runs[block->producer];
	char *line = run_line(rank, run);
	struct block_record record = {
		.run = records->run,
		.device = rank->devices[block->device].name,
		.moment = moment->name,
		.category = category_name(block->category),
		.phase = phase_name(block->phase),
		.operator_ = rank->operator_names[block->name],
		.line = line,
		.module = run->module,
		.owner = block->owner,
		.rank = rank->rank,
		.time = moment->time,
		.microsecond = moment->microsecond,
		.place = (int64_t)place,
		.bytes = (int64_t)block_held_bytes(block),
		.age_us = microseconds(
			moment->time_ns > block->start_time_ns ? moment->time_ns - block->start_time_ns : 0),
	};

	put(records, TABLE_BLOCK, &record);
	free(line);
}

static void put_moment(struct records *records, const struct moment *moment)
{
	struct holders holders;

	holders_find(records->rank, moment->device, moment->order, &holders);
	for (int category = 0; category < CATEGORIES; category++)
		if (holders.snapshot.category[category])
			put_holder(records, moment, "category", (size_t)category,
				category_name((enum category)category), holders.snapshot.category[category], 0);
	for (size_t place = 0; place < arrlenu(holders.lines) && place < HOLDERS_SHOWN; place++) {
		char *line = line_text(holders.lines[place].frame);

		put_holder(
			records, moment, "line", place, line, holders.lines[place].bytes, holders.lines[place].blocks);
		free(line);
	}
	for (size_t place = 0; place < arrlenu(holders.modules) && place < HOLDERS_SHOWN; place++)
		put_holder(records, moment, "module", place, holders.modules[place].module,
			holders.modules[place].bytes, holders.modules[place].blocks);
	for (size_t place = 0; place < holders.largest_count; place++)
		put_block(records, moment, place, holders.largest[place]);
	holders_free(&holders);
}

/* The last task that had begun at some time. */
static int64_t task_at(const struct rank *rank, uint64_t time_ns)
{
	int64_t task = 0;

	for (size_t index = 0; index < arrlenu(rank->runs) && rank->runs[index].time_ns <= time_ns; index++)
		if (rank->runs[index].task != TASK_NONE)
			task = rank->runs[index].task;
	return task;
}

/* Of blocks that are freed later though nothing used them from the peak on; unknown where users are not recorded. */
static int64_t dead_bytes(const struct records *records, const struct device *device, uint8_t index)
{
	const struct rank *rank = records->rank;
	int64_t task = task_at(rank, device->peak_time_ns), bytes = 0;

	if (strcmp(or_else(tree_text(records->target, "level"), "full"), "full") != 0)
		return RECORD_UNKNOWN;
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		int64_t used =
			block->user_count ? rank->users[block->first_user + block->user_count - 1] : block->start;

		if (block->device == index && !block->persistent && used < task &&
			block_alive_at(block, device->peak_order))
			bytes += (int64_t)block_held_bytes(block);
	}
	return bytes;
}

static void period_peak_place(const struct rank *rank, const struct device *device, struct period_record *record)
{
	const struct operator_run *run = device->peak_run == UINT32_MAX ? NULL : &rank->runs[device->peak_run];

	record->peak_line = run ? run_line(rank, run) : NULL;
	record->peak_operator = run ? rank->operator_names[run->name] : NULL;
	record->peak_phase = run ? phase_name(run->phase) : NULL;
}

static int64_t if_known(bool known, uint64_t value)
{
	return known ? (int64_t)value : RECORD_UNKNOWN;
}

static int64_t exhausted_count(const struct rank *rank, uint8_t device)
{
	int64_t count = 0;

	for (size_t index = 0; index < arrlenu(rank->out_of_memories); index++)
		count += rank->out_of_memories[index].device == device;
	return count;
}

static void put_period(struct records *records, uint8_t index)
{
	const struct rank *rank = records->rank;
	const struct device *device = &rank->devices[index];
	const uint64_t *category = device->peak.category;
	struct period_record record = {
		.run = records->run,
		.device = device->name,
		.node = records->origin->node,
		.rank = rank->rank,
		.start_time = seconds(records, rank->first_time_ns),
		.end_time = seconds(records, rank->last_time_ns),
		.capacity_bytes = if_known(records->choice->capacity_bytes, records->choice->capacity_bytes),
		.peak_bytes = (int64_t)device->peak_bytes,
		.end_bytes = (int64_t)device->current.total,
		.reserved_peak_bytes = if_known(device->has_totals, device->reserved_peak_bytes),
		.reserved_bytes = if_known(device->has_totals, device->reserved_bytes),
		.dead_bytes = dead_bytes(records, device, index),
		.parameter_bytes = (int64_t)category[CATEGORY_PARAMETER],
		.buffer_bytes = (int64_t)category[CATEGORY_BUFFER],
		.gradient_bytes = (int64_t)category[CATEGORY_GRADIENT],
		.activation_bytes = (int64_t)category[CATEGORY_ACTIVATION],
		.temp_bytes = (int64_t)category[CATEGORY_TEMP],
		.optstate_bytes = (int64_t)category[CATEGORY_OPTSTATE],
		.other_bytes = (int64_t)category[CATEGORY_OTHER],
		.workspace_bytes = (int64_t)category[CATEGORY_WORKSPACE],
		.steps = rank->step_count,
		.step_time_us = step_time(rank),
		.out_of_memories = exhausted_count(rank, index),
	};

	period_peak_place(rank, device, &record);
	put(records, TABLE_PERIOD, &record);
	free((char *)record.peak_line);
	put_moment(records,
		&(struct moment){MOMENT_PEAK, device->peak_time_ns, record.start_time, 0, device->peak_order, index});
}

static void put_exhausted(struct records *records, const struct out_of_memory *exhausted)
{
	const struct rank *rank = records->rank;
	char *line = line_text(stack_line(&rank->stacks[exhausted->stack]));
	struct oom_record record = {
		.run = records->run,
		.device = rank->devices[exhausted->device].name,
		.node = records->origin->node,
		.operator_ =
			exhausted->name < arrlenu(rank->operator_names) ? rank->operator_names[exhausted->name] : NULL,
		.phase = phase_name(exhausted->phase),
		.line = line,
		.rank = rank->rank,
		.time = seconds(records, exhausted->time_ns),
		.microsecond = microsecond(records, exhausted->time_ns),
		.asked_bytes = (int64_t)exhausted->bytes,
		.allocated_bytes = (int64_t)exhausted->allocated_bytes,
		.reserved_bytes = (int64_t)exhausted->reserved_bytes,
		.largest_gap_bytes = if_known(exhausted->largest_gap != UINT64_MAX, exhausted->largest_gap),
		.capacity_bytes = if_known(records->choice->capacity_bytes, records->choice->capacity_bytes),
	};

	put(records, TABLE_OOM, &record);
	put_moment(records, &(struct moment){MOMENT_OUT_OF_MEMORY, exhausted->time_ns, record.time, record.microsecond,
				    exhausted->order, exhausted->device});
	free(line);
}

static void put_rank_all(struct records *records)
{
	const struct rank *rank = records->rank;

	put_rank(records);
	put_steps(records);
	for (size_t index = 0; index < arrlenu(rank->devices); index++)
		if (rank->devices[index].reported && rank->devices[index].peak_bytes)
			put_period(records, (uint8_t)index);
	/* Nor the blocks of such a moment, which the watcher tells at a time of his own. */
	for (size_t index = 0; !records->choice->part && index < arrlenu(rank->out_of_memories); index++)
		put_exhausted(records, &rank->out_of_memories[index]);
}

/* The first line of the evidence, "" without one. */
static const char *finding_line(const struct finding *finding)
{
	for (size_t index = 0; index < arrlenu(finding->evidence); index++)
		if (finding->evidence[index].kind == EVIDENCE_LINE)
			return finding->evidence[index].name;
	return "";
}

static void put_findings(struct records *records, const struct rank *const *ranks, size_t count, int64_t time)
{
	struct finding_options options = {.device_bytes = records->choice->capacity_bytes};
	struct finding *findings = findings_find(ranks, count, &options);

	for (size_t index = 0; index < arrlenu(findings); index++) {
		const struct finding *finding = &findings[index];
		struct finding_record record = {
			.run = records->run,
			.finding = finding->id,
			.device = finding->device ? finding->device->name : NULL,
			.kind = finding_kind_name(finding->kind),
			.severity = finding_severity_name(finding->severity),
			.confidence = finding_confidence_name(finding->confidence),
			.text = finding->text,
			.advice = finding->advice,
			.line = finding_line(finding),
			.rank = finding->rank ? finding->rank->rank : -1,
			.time = time,
			.bytes = (int64_t)finding->bytes,
			.saves_bytes = if_known(finding->saves_bytes != SAVES_UNKNOWN, finding->saves_bytes),
		};

		put(records, TABLE_FINDING, &record);
	}
	findings_free(findings);
}

int capture_records_put(struct spool *spool, const struct rank *const *ranks, size_t count,
	const struct capture_origin *origins, const struct run_choice *choice)
{
	const struct capture_origin *first = first_origin(ranks, count, origins);
	struct records records = {.spool = spool, .choice = choice, .origins = origins};
	char identity[RUN_BYTES];

	run_identity(ranks, first, identity);
	records.run = choice->run ? choice->run : identity;
	put_run(&records, ranks, count, first->start_real_ns);
	put_findings(&records, ranks, count, (int64_t)(first->start_real_ns / SECOND_NS));
	for (size_t index = 0; !records.error && index < count; index++) {
		records.rank = ranks[index];
		records.origin = &origins[ranks[index]->capture];
		records.target = tree_of(ranks[index]->target_json);
		put_rank_all(&records);
		yajl_tree_free(records.target);
	}
	return records.error;
}
