/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a long trace takes to become reports, and how much memory: a training job of 1,000,000 records with stacks
 * of 12 frames. Not a test; prints one line a stage.
 *
 *     report_bench FOLDER [RECORDS]
 */
#include <sys/resource.h>
#include <time.h>

#include "report/report.h"
#include "tests/unit/model_events.h"

#define RECORDS_DEFAULT 1000000
#define STACKS 400
#define STACK_FRAMES 12
#define LAYERS 64
#define BLOCK_BYTES 4096
#define FIRST_ADDRESS 0x7f0000000000

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void report_stage(const char *stage, double *since)
{
	struct rusage usage;
	double time = now();

	getrusage(RUSAGE_SELF, &usage);
	printf("%-12s %6.2f s   %5ld MiB at most\n", stage, time - *since, usage.ru_maxrss / 1024);
	*since = time;
}

static void define_stacks(struct trace *trace)
{
	for (uint64_t stack = 1; stack <= STACKS; stack++) {
		struct frame frames[STACK_FRAMES];

		for (uint32_t i = 0; i < STACK_FRAMES; i++)
			frames[i] = (struct frame){"/usr/lib/python3/dist-packages/torch/nn/modules/module.py",
				i ? "_call_impl" : "<module>", (uint32_t)stack * 10 + i, 0};
		define_stack(trace, stack, frames, STACK_FRAMES);
	}
}

/* Forward keeps a block a layer, backward frees it: two operators, two workspaces and two blocks a layer. */
static size_t train_step(struct trace *trace, size_t step)
{
	size_t records = 0;

	for (uint64_t layer = 0; layer < 2 * LAYERS; layer++) {
		bool forward = layer < LAYERS;
		uint64_t at = forward ? layer : 2 * LAYERS - 1 - layer;
		uint64_t input = FIRST_ADDRESS + (at + 1) * BLOCK_BYTES * 4;

		trace->stack = 1 + (step * 7 + layer) % STACKS;
		trace->flags = EVENT_UNGUARDED | (forward ? 0 : EVENT_BACKWARD);
		call(trace, 0, OP_MM, NO_ARGUMENTS);
		redispatch(trace, 1, OP_MM, ARGUMENTS(input - BLOCK_BYTES * 4, BLOCK_BYTES, 0x1000, 64));
		allocate(trace, 2, forward ? input : input + BLOCK_BYTES, BLOCK_BYTES);
		allocate(trace, 2, input + 2 * BLOCK_BYTES, BLOCK_BYTES);
		release(trace, 2, input + 2 * BLOCK_BYTES);
		redispatch(trace, 0, OP_ADD_, ARGUMENTS(input, BLOCK_BYTES, 0x1000, 64));
		records += 6;
		if (forward)
			continue;
		release(trace, 0, input);
		release(trace, 0, input + BLOCK_BYTES);
		records += 2;
	}
	return records;
}

int main(int argc, char **argv)
{
	size_t wanted = argc > 2 ? strtoul(argv[2], NULL, 10) : RECORDS_DEFAULT, records = 0;
	struct trace trace = trace_new(true, false);
	const struct rank *rank;
	double since = now(), start = since;
	int error;

	if (argc < 2) {
		fprintf(stderr, "usage: report_bench FOLDER [RECORDS]\n");
		return 2;
	}
	define_stacks(&trace);
	make(&trace, OP_EMPTY, 0x1000, 64);
	for (size_t step = 0; records < wanted; step++)
		records += train_step(&trace, step);
	report_stage("records", &since);
	rank = trace_finish(&trace);
	report_stage("finish", &since);
	error = report_rank(rank, NULL, REPORT_ALL, argv[1]);
	report_stage("files", &since);
	printf("%zu records, %zu rows, %lld tasks: %.2f s\n", records, (size_t)arrlenu(rank->blocks),
		(long long)rank->task_count, since - start);
	model_free(trace.model);
	return error ? 1 : 0;
}
