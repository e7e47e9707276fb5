/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings of ranks that are made by hand: each kind where it holds, with its
 * numbers, and that it is silent where it does not.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "findings/findings.h"

#define MIB (1ull << 20)

/* A rank that runs operators on one device, one after the other. */
struct job {
	struct rank rank;
	int64_t **users; /* stb_ds of stb_ds: for each block */
	enum phase phase;
	uint32_t step, stack;
	uint64_t time;
};

enum { OP_MAKE, OP_USE, OP_ZERO, OP_SOFTMAX, OP_FOREACH, OP_COPY, OPS };

static const char *const NAMES[OPS] = {"aten.mm.default", "aten.relu.default", "aten._foreach_zero_.default",
	"aten._log_softmax.default", "aten._foreach_sqrt.default", "aten._to_copy.default"};

/* Stacks are 1: train.py:10, 2: train.py:20 and so on; 0 is the empty one. */
static void job_open(struct job *job)
{
	memset(job, 0, sizeof(*job));
	job->rank.job = "";
	job->rank.end_json = "{}";
	job->phase = PHASE_FORWARD;
	for (int i = 0; i < OPS; i++)
		arrput(job->rank.operator_names, NAMES[i]);
	for (uint32_t i = 0; i < 5; i++) {
		struct stack stack = {.module = ""};
		struct frame frame = {.file = "train.py", .function = "f", .line = 10 * i};

		if (i) {
			arrput(stack.frames, frame);
			stack.frame_count = 1;
		}
		arrput(job->rank.stacks, stack);
	}
	arrzero(job->rank.devices, 1);
	strcpy(job->rank.devices[0].name, "cuda:0");
	job->rank.devices[0].reported = job->rank.devices[0].has_totals = true;
	job->stack = 1;
}

/* An operator that uses a block, or -1: none. */
static void run(struct job *job, uint32_t name, int block)
{
	uint32_t order = (uint32_t)arrlenu(job->rank.changes);
	struct operator_run one = {.time_ns = job->time += 10,
		.task = job->rank.task_count++,
		.name = name,
		.step = job->step,
		.stack = job->stack,
		.forward = RUN_NONE,
		.module = "",
		.first_order = order,
		.last_order = order,
		.phase = (uint8_t)job->phase};

	arrput(job->rank.runs, one);
	if (block >= 0)
		arrput(job->users[block], one.task);
}

static void change(struct job *job, uint64_t bytes, uint8_t category, bool is_free)
{
	struct change one = {.bytes = bytes, .category = category, .is_free = is_free};

	arrput(job->rank.changes, one);
	job->time++;
}

/* The last operator makes a block. Returns its row. */
static int allocate(struct job *job, uint64_t bytes, enum category category)
{
	struct operator_run *producer = &arrlast(job->rank.runs);
	struct block block = {.bytes = bytes,
		.start = producer->task,
		.end = TASK_PERSISTENT,
		.start_time_ns = job->time,
		.end_time_ns = UINT64_MAX,
		.last_order = UINT32_MAX,
		.producer = (uint32_t)arrlenu(job->rank.runs) - 1,
		.stack = producer->stack,
		.name = producer->name,
		.owner = "",
		.phase = producer->phase,
		.category = (uint8_t)category,
		.persistent = true};

	change(job, bytes, (uint8_t)category, false);
	block.first_order = (uint32_t)arrlenu(job->rank.changes);
	producer->last_order = block.first_order;
	arrput(job->rank.blocks, block);
	arrput(job->users, NULL);
	return (int)arrlenu(job->rank.blocks) - 1;
}

static int made(struct job *job, uint32_t name, int input, uint64_t bytes, enum category category)
{
	run(job, name, input);
	return allocate(job, bytes, category);
}

static void release(struct job *job, int row)
{
	struct block *block = &job->rank.blocks[row];

	change(job, block->bytes, block->category, true);
	block->last_order = (uint32_t)arrlenu(job->rank.changes);
	block->end = job->rank.task_count;
	block->end_time_ns = job->time;
	block->persistent = false;
}

/* The optimizer's step is over: what comes next is in another one. */
static void step_end(struct job *job)
{
	job->step++;
	job->phase = PHASE_FORWARD;
}

static void phase_times(struct job *job)
{
	arrzero(job->rank.steps, (size_t)job->step + 1);
	for (size_t i = 0; i < arrlenu(job->rank.runs); i++) {
		const struct operator_run *one = &job->rank.runs[i];
		struct step *step = &job->rank.steps[one->step];
		uint64_t next = i + 1 < arrlenu(job->rank.runs) ? one[1].time_ns : job->time + 1;

		step->start_time_ns = step->start_time_ns ? step->start_time_ns : one->time_ns;
		step->end_time_ns = next;
		step->phase_ns[one->phase] += next - one->time_ns;
		step->complete = one->step < job->step;
	}
	job->rank.step_count = job->step;
}

static struct finding *findings_of(struct job *job, uint64_t device_bytes)
{
	const struct rank *rank = &job->rank;
	struct device *device = &job->rank.devices[0];
	struct snapshot now = {0};

	phase_times(job);
	for (size_t i = 0; i < arrlenu(job->users); i++) {
		job->rank.blocks[i].first_user = (uint32_t)arrlenu(job->rank.users);
		job->rank.blocks[i].user_count = (uint32_t)arrlenu(job->users[i]);
		for (size_t j = 0; j < arrlenu(job->users[i]); j++)
			arrput(job->rank.users, job->users[i][j]);
	}
	device->peak_run = RUN_NONE;
	for (size_t i = 0; i < arrlenu(job->rank.changes); i++) {
		snapshot_change(&now, &job->rank.changes[i]);
		if (now.total <= device->peak_bytes)
			continue;
		device->peak_bytes = now.total;
		device->peak_order = (uint32_t)i + 1;
		device->peak = now;
	}
	for (size_t i = 0; i < arrlenu(job->rank.runs); i++)
		if (job->rank.runs[i].first_order < device->peak_order)
			device->peak_run = (uint32_t)i;
	job->rank.peak_bytes = device->peak_bytes;
	return findings_find(&rank, 1, &(struct finding_options){.device_bytes = device_bytes});
}

static void job_close(struct job *job, struct finding *findings)
{
	findings_free(findings);
	for (size_t i = 0; i < arrlenu(job->users); i++)
		arrfree(job->users[i]);
	for (size_t i = 0; i < arrlenu(job->rank.stacks); i++)
		arrfree(job->rank.stacks[i].frames);
	arrfree(job->users);
	arrfree(job->rank.stacks);
	arrfree(job->rank.operator_names);
	arrfree(job->rank.runs);
	arrfree(job->rank.blocks);
	arrfree(job->rank.users);
	arrfree(job->rank.changes);
	arrfree(job->rank.devices);
	arrfree(job->rank.steps);
	arrfree(job->rank.out_of_memories);
	arrfree(job->rank.collectives);
}

static const struct finding *found(const struct finding *findings, enum finding_kind kind)
{
	for (size_t i = 0; i < arrlenu(findings); i++)
		if (findings[i].kind == kind)
			return &findings[i];
	return NULL;
}

/* The one of a kind, which must be there. */
static const struct finding *expect(const struct finding *findings, enum finding_kind kind)
{
	const struct finding *finding = found(findings, kind);

	cr_assert(ne(ptr, (void *)finding, NULL), "no finding %s", finding_kind_name(kind));
	cr_assert(finding->text[0] && finding->advice[0] && finding->id[0], "%s says nothing", finding->id);
	return finding;
}

static uint64_t number_of(const struct finding *finding, const char *name)
{
	for (size_t i = 0; i < arrlenu(finding->numbers); i++)
		if (!strcmp(finding->numbers[i].name, name))
			return finding->numbers[i].value;
	cr_assert(false, "%s has no number %s", finding->id, name);
	return 0;
}

static void expect_only_peak(const struct finding *findings)
{
	for (size_t i = 0; i < arrlenu(findings); i++)
		cr_expect(eq(int, findings[i].kind, FINDING_PEAK), "%s: %s", findings[i].id, findings[i].text);
	cr_expect(eq(sz, arrlenu(findings), 1));
}

/* --- a healthy job, and one that is out of order in one way --------------------------------------- */

enum fault {
	FAULT_NONE,
	FAULT_LATE_ZERO,
	FAULT_ZEROED,
	FAULT_LOGITS,
	FAULT_DEAD,
	FAULT_LEAK,
	FAULT_FOREACH,
	FAULT_IDLE
};

/* Parameters 10, activations 20 (used by the backward pass), logits 8 and their softmax 8, gradients 10, all in MiB. */
static void train(struct job *job, uint32_t steps, enum fault fault)
{
	int parameter = made(job, OP_MAKE, -1, 10 * MIB, CATEGORY_PARAMETER), gradient = -1, idle = -1, kept;

	if (fault == FAULT_IDLE) {
		job->stack = 4;
		idle = made(job, OP_MAKE, -1, 6 * MIB, CATEGORY_OTHER);
	}
	for (uint32_t step = 0; step < steps; step++) {
		int activation, logits, dead = -1, softmax, intermediate;

		job->stack = 2;
		if (fault == FAULT_DEAD)
			dead = made(job, OP_MAKE, -1, 5 * MIB, CATEGORY_ACTIVATION);
		if (dead >= 0)
			run(job, OP_USE, dead);
		activation = made(job, OP_MAKE, parameter, 20 * MIB, CATEGORY_ACTIVATION);
		logits = made(job, OP_MAKE, activation, 8 * MIB, CATEGORY_ACTIVATION);
		softmax = made(job, OP_SOFTMAX, logits, 8 * MIB, CATEGORY_ACTIVATION);
		if (fault != FAULT_LOGITS)
			release(job, logits);
		if (fault == FAULT_ZEROED && gradient >= 0) {
			job->stack = 4;
			run(job, OP_ZERO, gradient);
			job->stack = 2;
		}
		if (fault == FAULT_LATE_ZERO && gradient >= 0) {
			release(job, gradient);
			gradient = -1;
		}
		job->phase = PHASE_BACKWARD;
		run(job, OP_USE, softmax);
		release(job, softmax);
		if (gradient < 0)
			gradient = made(job, OP_MAKE, activation, 10 * MIB, CATEGORY_GRADIENT);
		else
			run(job, OP_USE, gradient);
		run(job, OP_USE, activation);
		release(job, activation);
		if (fault == FAULT_LOGITS)
			release(job, logits);
		job->phase = PHASE_OPTIMIZER;
		job->stack = 3;
		run(job, OP_USE, gradient);
		if (fault == FAULT_FOREACH) {
			intermediate = made(job, OP_FOREACH, parameter, 30 * MIB, CATEGORY_OPTSTATE);
			run(job, OP_USE, intermediate);
			release(job, intermediate);
		}
		if (dead >= 0)
			release(job, dead);
		step_end(job);
		if (fault == FAULT_LEAK) {
			job->stack = 4;
			kept = made(job, OP_MAKE, -1, MIB, CATEGORY_ACTIVATION);
			job->rank.blocks[kept].owner = "global kept[0] in __main__";
		}
		if (fault != FAULT_ZEROED && fault != FAULT_LATE_ZERO) {
			release(job, gradient);
			gradient = -1;
		}
	}
	(void)idle;
	/* The next step begins. */
	job->stack = 2;
	run(job, OP_USE, parameter);
}

Test(findings, of_a_healthy_job_are_its_peak_only)
{
	struct job job;
	struct finding *findings;
	const struct finding *peak;

	job_open(&job);
	train(&job, 5, FAULT_NONE);
	findings = findings_of(&job, 0);
	expect_only_peak(findings);
	peak = expect(findings, FINDING_PEAK);
	/* Parameters, activations, logits and their softmax. */
	cr_expect(eq(u64, peak->bytes, 46 * MIB));
	cr_expect(eq(str, (char *)peak->evidence[0].name, "train.py:20"));
	cr_expect(eq(u64, peak->evidence[0].bytes, 36 * MIB));
	cr_expect(eq(u64, peak->evidence[0].saves_bytes, 36 * MIB));
	cr_expect(eq(str, peak->id, "peak-0-cuda:0"));
	cr_expect(eq(int, peak->confidence, CONFIDENCE_HIGH));
	job_close(&job, findings);
}

Test(findings, of_gradients_that_are_zeroed_or_freed_too_late)
{
	static const struct {
		enum fault fault;
		const char *advice;
	} CASES[] = {
		{FAULT_ZEROED, "set to zero at train.py:40"}, {FAULT_LATE_ZERO, "not behind the next forward pass"}};

	for (size_t i = 0; i < 2; i++) {
		struct job job;
		struct finding *findings;
		const struct finding *finding;

		job_open(&job);
		train(&job, 4, CASES[i].fault);
		findings = findings_of(&job, 0);
		finding = expect(findings, FINDING_GRADIENTS);
		cr_expect(eq(u64, finding->bytes, 10 * MIB));
		cr_expect(eq(u64, finding->saves_bytes, 10 * MIB));
		cr_expect(eq(int, finding->severity, SEVERITY_WARNING));
		cr_expect(ne(ptr, strstr(finding->advice, CASES[i].advice), NULL), "%s", finding->advice);
		cr_expect(eq(ptr, (void *)found(findings, FINDING_DEAD), NULL));
		job_close(&job, findings);
	}
}

Test(findings, of_logits_that_stay_through_the_backward_pass)
{
	struct job job;
	struct finding *findings;
	const struct finding *finding;

	job_open(&job);
	train(&job, 4, FAULT_LOGITS);
	findings = findings_of(&job, 0);
	finding = expect(findings, FINDING_LOGITS);
	cr_expect(eq(u64, finding->bytes, 8 * MIB));
	cr_expect(eq(u64, finding->saves_bytes, 2 * MIB), "48 beside the gradients, 46 in the forward pass");
	cr_expect(eq(u64, number_of(finding, "blocks"), 4));
	cr_expect(eq(ptr, (void *)found(findings, FINDING_DEAD), NULL), "told twice");
	job_close(&job, findings);
}

Test(findings, of_dead_blocks_have_bytes_times_tasks)
{
	struct job job;
	struct finding *findings;
	const struct finding *finding;
	uint64_t cost = 0;

	job_open(&job);
	train(&job, 3, FAULT_DEAD);
	findings = findings_of(&job, 0);
	for (size_t i = 0; i < arrlenu(job.rank.blocks); i++)
		if (job.rank.blocks[i].bytes == 5 * MIB)
			cost += 5 * MIB * (uint64_t)(job.rank.blocks[i].end - job.users[i][0]);
	finding = expect(findings, FINDING_DEAD);
	cr_expect(eq(u64, finding->bytes, 5 * MIB));
	cr_expect(eq(u64, finding->saves_bytes, 5 * MIB));
	cr_expect(eq(u64, finding->evidence[0].byte_tasks, cost));
	cr_expect(eq(str, (char *)finding->evidence[0].name, "train.py:20"));
	job_close(&job, findings);
}

Test(findings, of_uses_are_silent_at_level_lite)
{
	struct job job;
	struct finding *findings;

	job_open(&job);
	job.rank.target_json = "{\"level\": \"lite\"}";
	train(&job, 3, FAULT_DEAD);
	findings = findings_of(&job, 0);
	cr_expect(eq(ptr, (void *)found(findings, FINDING_DEAD), NULL));
	job_close(&job, findings);
}

Test(findings, of_growth_name_line_bytes_and_holder)
{
	struct job job;
	struct finding *findings;
	const struct finding *finding;

	job_open(&job);
	train(&job, 9, FAULT_LEAK);
	findings = findings_of(&job, 0);
	finding = expect(findings, FINDING_GROWTH);
	cr_expect(eq(str, (char *)finding->evidence[0].name, "train.py:40"));
	cr_expect(eq(str, (char *)finding->evidence[0].holder, "global kept[0] in __main__"));
	cr_expect(eq(u64, number_of(finding, "bytes_per_step"), MIB));
	cr_expect(eq(u64, number_of(finding, "steps"), 7));
	cr_expect(eq(u64, finding->bytes, 7 * MIB));
	cr_expect(eq(int, finding->confidence, CONFIDENCE_HIGH));
	cr_expect(eq(ptr, (void *)found(findings, FINDING_IDLE), NULL), "told twice");
	job_close(&job, findings);

	job_open(&job);
	train(&job, 3, FAULT_LEAK);
	findings = findings_of(&job, 0);
	cr_expect(eq(ptr, (void *)found(findings, FINDING_GROWTH), NULL), "three steps are too few");
	job_close(&job, findings);
}

Test(findings, of_an_optimizers_intermediates)
{
	struct job job;
	struct finding *findings;
	const struct finding *finding;

	job_open(&job);
	train(&job, 3, FAULT_FOREACH);
	findings = findings_of(&job, 0);
	finding = expect(findings, FINDING_OPTIMIZER);
	cr_expect(eq(u64, finding->bytes, 30 * MIB));
	cr_expect(eq(u64, finding->saves_bytes, 4 * MIB), "50 with them, 46 in the forward pass");
	cr_expect(eq(int, finding->severity, SEVERITY_WARNING));
	job_close(&job, findings);
}

Test(findings, of_what_stays_unused)
{
	struct job job;
	struct finding *findings;
	const struct finding *finding;

	job_open(&job);
	train(&job, 5, FAULT_IDLE);
	findings = findings_of(&job, 0);
	finding = expect(findings, FINDING_IDLE);
	cr_expect(eq(u64, finding->bytes, 6 * MIB));
	cr_expect(eq(int, finding->confidence, CONFIDENCE_LOW));
	job_close(&job, findings);

	job_open(&job);
	train(&job, 3, FAULT_IDLE);
	findings = findings_of(&job, 0);
	cr_expect(eq(ptr, (void *)found(findings, FINDING_IDLE), NULL), "two steps behind the first are too few");
	job_close(&job, findings);
}

/* --- recomputation ---------------------------------------------------------------------------------- */

#define LAYERS 4

static const char *const LAYER_NAMES[LAYERS] = {"M.0", "M.1", "M.2", "M.3"};

/* Each layer makes 10 MiB that its backward pass wants; recomputed layer by layer, or all at once. */
static void checkpoint(struct job *job, bool at_once)
{
	for (int step = 0; step < 2; step++) {
		int blocks[LAYERS];

		for (int layer = 0; layer < LAYERS; layer++) {
			blocks[layer] = made(job, OP_MAKE, -1, 10 * MIB, CATEGORY_ACTIVATION);
			arrlast(job->rank.runs).module = LAYER_NAMES[layer];
			release(job, blocks[layer]);
		}
		for (int layer = LAYERS - 1; layer >= 0; layer--) {
			int first = at_once ? 0 : layer, last = at_once ? LAYERS - 1 : layer;

			for (int i = first; (!at_once || layer == LAYERS - 1) && i <= last; i++) {
				job->phase = PHASE_RECOMPUTE;
				blocks[i] = made(job, OP_MAKE, -1, 10 * MIB, CATEGORY_ACTIVATION);
				arrlast(job->rank.runs).module = LAYER_NAMES[i];
			}
			job->phase = PHASE_BACKWARD;
			run(job, OP_USE, blocks[layer]);
			release(job, blocks[layer]);
		}
		job->phase = PHASE_OPTIMIZER;
		run(job, OP_USE, -1);
		step_end(job);
	}
	run(job, OP_USE, -1);
}

Test(findings, of_recomputation_that_lowers_no_peak)
{
	struct job job;
	struct finding *findings;
	const struct finding *finding;

	job_open(&job);
	checkpoint(&job, true);
	findings = findings_of(&job, 0);
	finding = expect(findings, FINDING_RECOMPUTE);
	cr_expect(eq(u64, number_of(finding, "peak_without_bytes"), 40 * MIB));
	cr_expect(eq(u64, number_of(finding, "recomputed_blocks"), 2 * LAYERS));
	job_close(&job, findings);

	job_open(&job);
	checkpoint(&job, false);
	findings = findings_of(&job, 0);
	cr_expect(eq(u64, job.rank.devices[0].peak_bytes, 10 * MIB));
	cr_expect(eq(ptr, (void *)found(findings, FINDING_RECOMPUTE), NULL), "40 became 10: it helped");
	job_close(&job, findings);
}

/* --- devices ------------------------------------------------------------------------------------------ */

Test(findings, of_fragmentation_are_of_more_than_the_last_segments)
{
	for (uint64_t more = 21; more <= 23; more += 2) {
		struct job job;
		struct finding *findings;
		const struct finding *finding;

		job_open(&job);
		train(&job, 2, FAULT_NONE);
		job.rank.devices[0].reserved_peak_bytes = (46 + more) * MIB;
		findings = findings_of(&job, 0);
		finding = found(findings, FINDING_FRAGMENTATION);
		cr_expect(eq(int, finding != NULL, more == 23));
		if (finding)
			cr_expect(eq(u64, finding->bytes, 23 * MIB));
		job_close(&job, findings);
	}
}

Test(findings, of_an_exhausted_device_tell_missing_memory_from_pieces)
{
	struct out_of_memory event = {
		.bytes = 30 * MIB, .allocated_bytes = 46 * MIB, .largest_gap = 8 * MIB, .stack = 3, .name = UINT32_MAX};

	for (int pieces = 0; pieces < 2; pieces++) {
		struct job job;
		struct finding *findings;
		const struct finding *finding;

		job_open(&job);
		train(&job, 2, FAULT_NONE);
		event.reserved_bytes = (pieces ? 80 : 58) * MIB;
		event.order = 4; /* parameters, activations, logits, softmax */
		arrput(job.rank.out_of_memories, event);
		job.rank.out_of_memory_count = 1;
		findings = findings_of(&job, 0);
		finding = &findings[0];
		cr_assert(eq(int, finding->kind, FINDING_OUT_OF_MEMORY));
		cr_expect(eq(int, finding->severity, SEVERITY_CRITICAL));
		cr_expect(eq(u64, number_of(finding, "fragmented"), pieces));
		cr_expect(eq(u64, number_of(finding, "missing_bytes"), pieces ? 0 : 18 * MIB));
		cr_expect(eq(u64, number_of(finding, "needed_bytes"), 76 * MIB));
		/* 20 is not less than 18; without gaps 30 are wanted: 20 and 10. */
		cr_expect(eq(u64, number_of(finding, "blocks_enough"), pieces ? 2 : 1));
		cr_expect(eq(u64, finding->evidence[0].bytes, 36 * MIB));
		job_close(&job, findings);
	}
}

Test(findings, of_a_device_memory_tell_whether_it_fits)
{
	static const struct {
		uint64_t size, missing;
		enum finding_severity severity;
	} CASES[] = {{60 * MIB, 0, SEVERITY_NOTE}, {59 * MIB, 0, SEVERITY_WARNING}, {47 * MIB, MIB, SEVERITY_CRITICAL}};

	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		struct job job;
		struct finding *findings;
		const struct finding *finding;

		job_open(&job);
		train(&job, 2, FAULT_NONE);
		job.rank.devices[0].reserved_peak_bytes = 58 * MIB;
		job.rank.devices[0].outside_peak_bytes = 2 * MIB;
		findings = findings_of(&job, CASES[i].size);
		finding = expect(findings, FINDING_FIT);
		cr_expect(eq(int, finding->severity, CASES[i].severity), "%s", finding->text);
		cr_expect(eq(u64, finding->bytes, CASES[i].missing));
		job_close(&job, findings);
	}
}

/* --- ranks -------------------------------------------------------------------------------------------- */

Test(findings, of_ranks_that_need_different_amounts)
{
	for (uint64_t lower = 96; lower >= 94; lower -= 2) {
		struct job jobs[2];
		const struct rank *ranks[2] = {&jobs[0].rank, &jobs[1].rank};
		struct finding *findings;
		const struct finding *finding;

		for (int i = 0; i < 2; i++) {
			job_open(&jobs[i]);
			jobs[i].rank.rank = i;
			jobs[i].rank.peak_bytes = (i ? lower : 100) * MIB;
			jobs[i].rank.devices[0].peak.category[CATEGORY_OPTSTATE] = jobs[i].rank.peak_bytes;
		}
		findings = findings_find(ranks, 2, NULL);
		finding = found(findings, FINDING_IMBALANCE);
		cr_expect(eq(int, finding != NULL, lower == 94));
		if (finding) {
			cr_expect(eq(u64, finding->bytes, 6 * MIB));
			cr_expect(ne(ptr, strstr(finding->text, "Optstate"), NULL), "%s", finding->text);
			cr_expect(finding_concerns(finding, ranks[1]));
		}
		job_close(&jobs[0], findings);
		job_close(&jobs[1], NULL);
	}
}

Test(findings, of_a_collective_that_a_rank_never_began)
{
	struct job job;
	struct collective collective = {.absent_rank = 1, .sequence = 7, .input_bytes = 64};
	struct finding *findings;
	const struct finding *finding;

	job_open(&job);
	train(&job, 2, FAULT_NONE);
	arrput(job.rank.collectives, collective);
	findings = findings_of(&job, 0);
	finding = expect(findings, FINDING_UNFINISHED);
	cr_expect(eq(int, finding->severity, SEVERITY_CRITICAL));
	cr_expect(
		ne(ptr, strstr(finding->evidence[0].name, "rank 1 never did"), NULL), "%s", finding->evidence[0].name);
	job_close(&job, findings);
}

Test(findings, of_an_incomplete_trace_are_not_sure)
{
	struct job job;
	struct finding *findings;

	job_open(&job);
	job.rank.end_json = NULL;
	train(&job, 4, FAULT_ZEROED);
	findings = findings_of(&job, 0);
	cr_expect(eq(int, expect(findings, FINDING_GRADIENTS)->confidence, CONFIDENCE_LOW));
	job_close(&job, findings);
}
