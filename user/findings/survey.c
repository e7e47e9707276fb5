// SPDX-License-Identifier: BSD-2-Clause
/*
 * Facts of a rank and of its devices that several findings rest on. Everything
 * is counted in the order of the allocator's events, so that what is said of
 * the peak is said of exactly that moment.
 */
#include "survey.h"

#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_tree.h>

#include "containers/containers.h"
#include "words.h"

/* --- lines ---------------------------------------------------------------------------------- */

struct line_names {
	struct {
		char *key;
		uint32_t value;
	} * index; /* stb_ds map of strings */
};

/* `name` is taken. */
static uint32_t line_add(struct survey *survey, struct line_names *names, char *name)
{
	ptrdiff_t at = shgeti(names->index, name);
	uint32_t line = (uint32_t)arrlenu(survey->lines);

	if (at >= 0) {
		arrfree(name);
		return names->index[at].value;
	}
	arrput(survey->lines, name);
	shput(names->index, name, line);
	return line;
}

static void lines_name(struct survey *survey)
{
	const struct rank *rank = survey->rank;
	struct line_names names = {0};

	for (size_t i = 0; i < arrlenu(rank->stacks); i++) {
		const struct frame *frame = stack_line(&rank->stacks[i]);
		uint32_t line =
			frame ? line_add(survey, &names, sentence("%s:%u", frame->file, frame->line)) : LINE_NONE;

		arrput(survey->line_of_stack, line);
	}
	for (int category = 0; category < CATEGORIES; category++)
		survey->line_of_older[category] = line_add(
			survey, &names, sentence("older than the trace: %s", category_name((enum category)category)));
	survey->line_of_remainder =
		line_add(survey, &names, sentence("older than the trace: in no block that is known"));
	survey->line_none = line_add(survey, &names, sentence("no Python frame"));
	shfree(names.index);
}

uint32_t survey_line(const struct survey *survey, const struct block *block)
{
	const struct operator_run *run = &survey->rank->runs[block->producer];
	uint32_t stack = run->forward == RUN_NONE ? block->stack : survey->rank->runs[run->forward].stack;
	uint32_t line = survey->line_of_stack[stack];

	if (line != LINE_NONE)
		return line;
	if (block->remainder)
		return survey->line_of_remainder;
	return block->preexisting ? survey->line_of_older[block->category] : survey->line_none;
}

/* --- the rank ------------------------------------------------------------------------------- */

/* At level lite nobody looks at what operators use. */
static bool users_are_known(const struct rank *rank)
{
	const char *path[] = {"level", NULL};
	yajl_val target = rank->target_json ? yajl_tree_parse(rank->target_json, NULL, 0) : NULL;
	yajl_val level = target ? yajl_tree_get(target, path, yajl_t_string) : NULL;
	const char *text = level ? YAJL_GET_STRING(level) : NULL;
	bool known = !text || strcmp(text, "lite") != 0;

	yajl_tree_free(target);
	return known;
}

/* A step that has no end yet ends behind everything. */
static void step_ends_find(struct survey *survey)
{
	const struct rank *rank = survey->rank;

	for (size_t i = 0; i <= rank->step_count; i++)
		arrput(survey->step_ends, (uint32_t)arrlenu(rank->changes) + 1);
	for (size_t i = arrlenu(rank->runs); i > 0; i--)
		if (rank->runs[i - 1].step && rank->runs[i - 1].step <= rank->step_count)
			survey->step_ends[rank->runs[i - 1].step - 1] = rank->runs[i - 1].first_order;
}

void survey_open(struct survey *survey, const struct rank *rank)
{
	*survey = (struct survey){
		.rank = rank, .users_known = users_are_known(rank), .surely = rank_complete(rank) && rank->end_json};
	lines_name(survey);
	step_ends_find(survey);
	for (int64_t task = 0; task < rank->task_count; task++)
		arrput(survey->run_of_task, RUN_NONE);
	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE && rank->runs[i].task < rank->task_count)
			survey->run_of_task[rank->runs[i].task] = (uint32_t)i;
	arrzero(survey->claimed, arrlenu(rank->blocks));
}

void survey_close(struct survey *survey)
{
	for (size_t i = 0; i < arrlenu(survey->lines); i++)
		arrfree(survey->lines[i]);
	arrfree(survey->lines);
	arrfree(survey->line_of_stack);
	arrfree(survey->run_of_task);
	arrfree(survey->claimed);
	arrfree(survey->step_ends);
}

const struct operator_run *survey_run(const struct survey *survey, int64_t task)
{
	if (task < 0 || task >= (int64_t)arrlenu(survey->run_of_task) || survey->run_of_task[task] == RUN_NONE)
		return NULL;
	return &survey->rank->runs[survey->run_of_task[task]];
}

static int64_t last_use(const struct survey *survey, const struct block *block)
{
	return block->user_count ? survey->rank->users[block->first_user + block->user_count - 1] : block->start;
}

/* Its last user has done its last event then, and the next one is not its own. */
uint32_t survey_unused_from(const struct survey *survey, const struct block *block)
{
	const struct operator_run *run = survey_run(survey, last_use(survey, block));

	if (!run)
		run = &survey->rank->runs[block->producer];
	if (run->phase == PHASE_OPTIMIZER && run->step < arrlenu(survey->step_ends) &&
		survey->step_ends[run->step] > block->first_order)
		return survey->step_ends[run->step];
	return run->last_order >= block->first_order ? run->last_order + 1 : block->first_order + 1;
}

uint64_t survey_held_tasks(const struct survey *survey, const struct block *block)
{
	int64_t last = last_use(survey, block);

	return block->persistent || block->end <= last ? 0 : (uint64_t)(block->end - last);
}

void survey_claim(struct survey *survey, const size_t *rows)
{
	for (size_t i = 0; i < arrlenu(rows); i++)
		survey->claimed[rows[i]] = true;
}

/* --- a device ------------------------------------------------------------------------------- */

void scene_open(struct scene *scene, struct survey *survey, uint8_t device)
{
	const struct rank *rank = survey->rank;
	struct snapshot now = rank->devices[device].older;

	*scene = (struct scene){.survey = survey,
		.rank = rank,
		.device = &rank->devices[device],
		.index = device,
		.peak_bytes = now.total};
	arrsetcap(scene->totals, arrlenu(rank->changes) + 1);
	arrput(scene->totals, now.total);
	for (size_t i = 0; i < arrlenu(rank->changes); i++) {
		if (rank->changes[i].device == device)
			snapshot_change(&now, &rank->changes[i]);
		arrput(scene->totals, now.total);
		if (now.total > scene->peak_bytes) {
			scene->peak_bytes = now.total;
			scene->peak_order = (uint32_t)i + 1;
		}
	}
}

void scene_close(struct scene *scene)
{
	arrfree(scene->totals);
}

uint64_t scene_saves(const struct scene *scene, const struct gap *gaps)
{
	size_t count = arrlenu(scene->totals);
	uint64_t *less = NULL, gone = 0, peak = 0;

	/* What a gap takes away at its begin it gives back at its end: unsigned numbers wrap around. */
	arrzero(less, count + 1);
	for (size_t i = 0; i < arrlenu(gaps); i++) {
		if (gaps[i].from >= gaps[i].until || gaps[i].from >= count)
			continue;
		less[gaps[i].from] += gaps[i].bytes;
		less[gaps[i].until < count ? gaps[i].until : count] -= gaps[i].bytes;
	}
	for (size_t order = 0; order < count; order++) {
		gone += less[order];
		if (scene->totals[order] > gone && scene->totals[order] - gone > peak)
			peak = scene->totals[order] - gone;
	}
	arrfree(less);
	return scene->peak_bytes - peak;
}

bool scene_is_told(const struct scene *scene, uint64_t bytes)
{
	return bytes && (double)bytes >= SHARE_TOLD * (double)scene->peak_bytes;
}

enum finding_severity scene_severity(const struct scene *scene, uint64_t saves)
{
	return (double)saves >= SHARE_WARNING * (double)scene->peak_bytes ? SEVERITY_WARNING : SEVERITY_NOTE;
}

/* --- sums and findings ------------------------------------------------------------------------- */

void tally_add(struct tally *tally, uint32_t key, const struct block *block, uint64_t bytes, uint64_t byte_tasks)
{
	ptrdiff_t at = hmgeti(tally->index, key);
	size_t place = at < 0 ? arrlenu(tally->shares) : tally->index[at].value;
	struct share *share;

	if (at < 0) {
		struct share fresh = {.key = key, .holder = ""};

		hmput(tally->index, key, place);
		arrput(tally->shares, fresh);
	}
	share = &tally->shares[place];
	share->bytes += bytes;
	share->blocks++;
	share->byte_tasks += byte_tasks;
	if (*block->owner && bytes >= share->largest_bytes) {
		share->holder = block->owner;
		share->largest_bytes = bytes;
	}
}

void tally_free(struct tally *tally)
{
	arrfree(tally->shares);
	hmfree(tally->index);
}

static int share_compare(const void *left, const void *right)
{
	const struct share *a = left, *b = right;

	if (a->byte_tasks != b->byte_tasks)
		return a->byte_tasks < b->byte_tasks ? 1 : -1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->key > b->key) - (a->key < b->key);
}

size_t tally_sort(struct tally *tally)
{
	size_t count = arrlenu(tally->shares);

	if (count)
		qsort(tally->shares, count, sizeof(*tally->shares), share_compare);
	return count < EVIDENCE_SHOWN ? count : EVIDENCE_SHOWN;
}

struct evidence *share_tell(const struct share *share, const struct survey *survey, struct finding *finding)
{
	struct evidence *evidence =
		finding_evidence(finding, EVIDENCE_LINE, sentence("%s", survey->lines[share->key]), share->bytes);

	evidence->blocks = share->blocks;
	evidence->byte_tasks = share->byte_tasks;
	evidence->holder = share->holder;
	return evidence;
}

void tally_tell_lines(struct tally *tally, const struct survey *survey, struct finding *finding)
{
	size_t told = tally_sort(tally);

	for (size_t i = 0; i < told; i++)
		share_tell(&tally->shares[i], survey, finding);
	tally_free(tally);
}

struct finding *finding_add(struct finding **findings, enum finding_kind kind, const struct scene *scene)
{
	struct finding finding = {
		.kind = kind,
		.rank = scene->rank,
		.job = scene->rank->job,
		.device = scene->device,
		.saves_bytes = SAVES_UNKNOWN,
		.confidence = scene->survey->surely ? CONFIDENCE_HIGH : CONFIDENCE_LOW,
		.id = sentence("%s-%d-%s", finding_kind_name(kind), scene->rank->rank, scene->device->name),
	};

	arrput(*findings, finding);
	return &arrlast(*findings);
}

void finding_number(struct finding *finding, const char *name, uint64_t value)
{
	struct finding_number number = {name, value};

	arrput(finding->numbers, number);
}

struct evidence *finding_evidence(struct finding *finding, enum evidence_kind kind, char *name, uint64_t bytes)
{
	struct evidence evidence = {
		.kind = kind, .holder = "", .block = BLOCK_NONE, .bytes = bytes, .saves_bytes = SAVES_UNKNOWN};

	evidence.name = name;
	arrput(finding->evidence, evidence);
	return &arrlast(finding->evidence);
}
