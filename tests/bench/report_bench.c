/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a long trace takes to become reports, and how much memory that needs:
 * a capture of a training job is written, then `hdtrace report` is run on it.
 *
 *     report_bench HDTRACE FOLDER [RECORDS [irregular]]
 *
 * `irregular`: times, sizes and addresses that no compression can guess.
 * Exit code 1: it failed, or took more than the project promises.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stream/capture_writer.h"

#define RECORDS_DEFAULT 1000000
/* What is promised for that many records. */
#define SECONDS_MAX 10.0
#define MEGABYTES_MAX 1024

#define STACKS 400
#define STACK_FRAMES 12
#define LAYERS 64
#define BLOCK_BYTES 4096
#define FIRST_ADDRESS 0x7f0000000000
#define PARAMETER 0x1000
/* Of irregular traces: places far enough apart for the largest block at any offset. */
#define PLACE_BYTES (1ull << 32)
#define BLOCK_UNITS 4096
#define UNIT_BYTES 512
#define PAUSE_NS 20000
#define CODE_ADDRESS 0x5600000000
#define INSTRUCTIONS_AT 0x100 /* from a code object to its instructions */

enum { OPERATOR_EMPTY, OPERATOR_MM, OPERATOR_ADD_, OPERATORS };
static const char *const operator_names[OPERATORS] = {
	"aten.empty.memory_format", "aten.mm.default", "aten.add_.Tensor"};

struct trace {
	struct capture_writer *writer;
	uint64_t time_ns, stack;
	size_t records;
	bool irregular;
	uint8_t flags;
	bool stacks_sent[STACKS + 1];
	int error; /* the first */
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* --- records ----------------------------------------------------------------------- */

/* A number that looks like chance and is the same for the same value (the finalizer of splitmix64). */
static uint64_t mixed(uint64_t value)
{
	value += 0x9e3779b97f4a7c15;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

/* The block that a layer of a step makes. */
static uint64_t block_address(const struct trace *trace, size_t step, uint64_t layer)
{
	if (!trace->irregular)
		return FIRST_ADDRESS + (layer + 1) * BLOCK_BYTES * 4;
	return FIRST_ADDRESS + (layer + 1) * PLACE_BYTES + mixed(step << 8 | layer) % BLOCK_UNITS * UNIT_BYTES;
}

static uint64_t block_bytes(const struct trace *trace, uint64_t address)
{
	return trace->irregular ? (1 + mixed(address) % BLOCK_UNITS) * UNIT_BYTES : BLOCK_BYTES;
}

static struct event event_make(struct trace *trace, uint16_t kind, size_t size, uint8_t depth)
{
	return (struct event){
		.time_ns = trace->time_ns += trace->irregular ? 1 + mixed(trace->records) % PAUSE_NS : 1000,
		.size = (uint32_t)size,
		.thread_id = 1,
		.kind = kind,
		.depth = depth,
		.flags = trace->flags,
	};
}

static void keep(struct trace *trace, const void *record)
{
	int error = capture_writer_append(trace->writer, record);

	trace->records++;
	if (!trace->error)
		trace->error = error;
}

/* A stack's frames come with the first operator that has it. */
static uint16_t frames_fill(struct trace *trace, struct python_frame frames[STACK_FRAMES])
{
	if (trace->stacks_sent[trace->stack])
		return 0;
	trace->stacks_sent[trace->stack] = true;
	for (uint64_t i = 0; i < STACK_FRAMES; i++) {
		frames[i].code = CODE_ADDRESS + (trace->stack % LAYERS * STACK_FRAMES + i) * 0x1000;
		frames[i].instruction = frames[i].code + INSTRUCTIONS_AT + 2 * (trace->stack % 8);
	}
	return STACK_FRAMES;
}

static void operator_add(
	struct trace *trace, enum operator_hook hook, uint8_t depth, uint16_t operator_, uint64_t input)
{
	struct {
		struct operator_event head;
		struct tensor_argument tensors[2];
		struct python_frame frames[STACK_FRAMES];
	} record = {.tensors = {{.data = input, .bytes = block_bytes(trace, input)}, {.data = PARAMETER, .bytes = 64}}};
	uint16_t frames = depth ? 0 : frames_fill(trace, record.frames);

	record.head.event = event_make(trace, EVENT_OPERATOR,
		sizeof(record.head) + sizeof(record.tensors) + frames * sizeof(record.frames[0]), depth);
	record.head.event.operator_ = operator_;
	record.head.event.flags |= frames ? EVENT_STACK : 0;
	record.head.hook = (uint8_t)hook;
	record.head.stack = trace->stack;
	record.head.tensor_count = 2;
	record.head.frame_count = frames;
	keep(trace, &record);
}

static void allocate(struct trace *trace, uint8_t depth, uint64_t address, uint64_t bytes)
{
	struct allocate_event record = {event_make(trace, EVENT_ALLOCATE, sizeof(record), depth), address, bytes,
		depth ? 0 : trace->stack, 0, {0}};

	keep(trace, &record);
}

static void release(struct trace *trace, uint8_t depth, uint64_t address)
{
	struct free_event record = {event_make(trace, EVENT_FREE, sizeof(record), depth), address};

	keep(trace, &record);
}

/* Forward keeps a block a layer, backward frees it: two operators, two workspaces and two blocks a layer. */
static void train_step(struct trace *trace, size_t step)
{
	for (uint64_t layer = 0; layer < (uint64_t)2 * LAYERS; layer++) {
		bool forward = layer < LAYERS;
		uint64_t at = forward ? layer : 2 * LAYERS - 1 - layer;
		uint64_t input = block_address(trace, step, at), before = block_address(trace, step, at - 1);
		uint64_t spare =
			trace->irregular ? PLACE_BYTES / 4 : BLOCK_BYTES; /* from one block of a layer to the next */
		uint64_t made = forward ? input : input + spare;

		trace->stack = 1 + (step * 7 + layer) % STACKS;
		trace->flags = EVENT_UNGUARDED | (forward ? 0 : EVENT_BACKWARD);
		operator_add(trace, HOOK_CALL, 0, OPERATOR_MM, before);
		operator_add(trace, HOOK_REDISPATCH, 1, OPERATOR_MM, before);
		allocate(trace, 2, made, block_bytes(trace, made));
		allocate(trace, 2, input + 2 * spare, block_bytes(trace, input + 2 * spare));
		release(trace, 2, input + 2 * spare);
		operator_add(trace, HOOK_REDISPATCH, 0, OPERATOR_ADD_, input);
		if (forward)
			continue;
		release(trace, 0, input);
		release(trace, 0, input + spare);
	}
}

/* --- the capture --------------------------------------------------------------------- */

/* The n-th instruction stands on line 10 + n: entries of one unit each, a line further each (CPython 3.11). */
static void codes_add(struct trace *trace)
{
	static const uint8_t table[] = {
		0x80, 0, 0xd8, 0, 0, 0xd8, 0, 0, 0xd8, 0, 0, 0xd8, 0, 0, 0xd8, 0, 0, 0xd8, 0, 0, 0xd8, 0, 0};

	for (uint64_t index = 0; index < (uint64_t)LAYERS * STACK_FRAMES; index++) {
		uint64_t address = CODE_ADDRESS + index * 0x1000;
		struct capture_code code = {address, address + INSTRUCTIONS_AT, 10, 311,
			"/usr/lib/python3/dist-packages/torch/nn/modules/module.py",
			index % STACK_FRAMES ? "_call_impl" : "<module>", "Module._call_impl", table, sizeof(table)};
		int error = capture_writer_code(trace->writer, 0, &code);

		if (!trace->error)
			trace->error = error;
	}
}

static int capture_write(const char *path, size_t wanted, bool irregular, size_t *records, uint64_t *bytes)
{
	struct trace trace = {.time_ns = 1000, .flags = EVENT_UNGUARDED, .irregular = irregular};
	int error = capture_writer_open(path, &trace.writer);

	if (error)
		return error;
	capture_writer_text(trace.writer, CAPTURE_SESSION, 0, "{}");
	capture_writer_text(trace.writer, CAPTURE_TARGET, 0, "{\"pid\": 1, \"rank\": 0, \"from_start\": true}");
	for (uint16_t i = 0; i < OPERATORS; i++)
		capture_writer_operator(trace.writer, 0, i, operator_names[i], 0);
	codes_add(&trace);
	operator_add(&trace, HOOK_REDISPATCH, 0, OPERATOR_EMPTY, 0x10);
	allocate(&trace, 1, PARAMETER, 64);
	for (size_t step = 0; trace.records < wanted; step++)
		train_step(&trace, step);
	capture_writer_text(trace.writer, CAPTURE_END, 0, "{\"reason\": \"exit\"}");
	*records = trace.records;
	error = capture_writer_close(trace.writer);
	if (!error && !trace.error) {
		struct stat status;

		*bytes = stat(path, &status) ? 0 : (uint64_t)status.st_size;
	}
	return error ? error : trace.error;
}

/* --- the report ------------------------------------------------------------------------ */

/* Run the program; returns its exit status, or -1. */
static int report_run(const char *program, const char *capture, const char *folder, double *seconds, long *megabytes)
{
	double start = now();
	struct rusage usage;
	int status;
	pid_t child = fork();

	if (!child) {
		execl(program, program, "report", "--quiet", "-o", folder, capture, (char *)NULL);
		fprintf(stderr, "cannot run %s: %s\n", program, strerror(errno));
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child)
		return -1;
	*seconds = now() - start;
	*megabytes = usage.ru_maxrss / 1024;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
	bool irregular = argc > 4 && !strcmp(argv[4], "irregular");
	size_t wanted = argc > 3 ? strtoul(argv[3], NULL, 10) : RECORDS_DEFAULT, records = 0;
	char *capture = NULL;
	double seconds = 0;
	uint64_t bytes = 0;
	long megabytes = 0;
	int error, status;

	if (argc < 3 || asprintf(&capture, "%s/capture.hdt", argv[2]) < 0) {
		fprintf(stderr, "usage: report_bench HDTRACE FOLDER [RECORDS [irregular]]\n");
		return 2;
	}
	mkdir(argv[2], 0777);
	error = capture_write(capture, wanted, irregular, &records, &bytes);
	if (error) {
		fprintf(stderr, "%s: %s\n", capture, strerror(-error));
		free(capture);
		return 1;
	}
	status = report_run(argv[1], capture, argv[2], &seconds, &megabytes);
	printf("report: %zu records (%llu MB on disk) in %.2f s, %ld MiB at most; promised for %d: %.0f s, %d MiB\n",
		records, (unsigned long long)(bytes / 1000000), seconds, megabytes, RECORDS_DEFAULT, SECONDS_MAX,
		MEGABYTES_MAX);
	free(capture);
	if (status) {
		fprintf(stderr, "hdtrace report ended with %d\n", status);
		return 1;
	}
	return wanted <= RECORDS_DEFAULT && (seconds > SECONDS_MAX || megabytes > MEGABYTES_MAX);
}
