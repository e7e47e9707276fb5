/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of a rank: checked with Python's csv, json and jsonschema, and against whole lines. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model_events.h"
#include "report/report.h"

#define MIB (1ull << 20)
#define PYTHON "/usr/bin/python3"
#define CHECK "tests/unit/report_check.py"

extern char **environ;

static char *folder_new(void)
{
	char *folder = strdup("/tmp/hdtrace-report-XXXXXX");

	cr_assert(ne(ptr, mkdtemp(folder), NULL));
	return folder;
}

static void path_of(char path[256], const char *folder, const char *name)
{
	snprintf(path, 256, "%s/rank_0/rank_0_%s", folder, name);
}

static void folder_remove(char *folder)
{
	static const char *const NAMES[] = {"memory.csv", "tasks.csv", "memory.json"};
	char path[256];

	for (int i = 0; i < 3; i++) {
		path_of(path, folder, NAMES[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/rank_0", folder);
	cr_expect(eq(int, rmdir(path), 0), "something is left in %s", path);
	rmdir(folder);
	free(folder);
}

static char *file_read(const char *folder, const char *name)
{
	char path[256], *text = NULL;
	size_t size = 0;
	FILE *file;

	path_of(path, folder, name);
	file = fopen(path, "r");
	cr_assert(ne(ptr, file, NULL));
	if (getdelim(&text, &size, '\0', file) < 0)
		text[0] = '\0';
	fclose(file);
	return text;
}

/* Nothing that Python's libraries object to. */
static void expect_sound(const char *folder)
{
	char *arguments[] = {PYTHON, CHECK, (char *)folder, "0", NULL};
	int status = -1;
	pid_t pid;

	cr_assert(eq(int, posix_spawn(&pid, PYTHON, NULL, NULL, arguments, environ), 0));
	waitpid(pid, &status, 0);
	cr_expect(eq(int, status, 0));
}

/* A trace with every kind of row, and names that try to break the files. */
static struct trace hostile_trace(void)
{
	static const struct frame FRAMES[] = {
		{"/w/a,b\"c|d\r\ne;Line:7.py", "<module>", 3, 0},
		{"/usr/lib/python3/dist-packages/torch/nn/modules/a_long_name_of_a_module.py;Line:8", "a|b", 4, 0},
		{"/w/\xc3\xa4\xf0\x9f\x98\x80\xff\xed\xa0\x80.py", "f;Function:g\t\x01", 9, 0},
	};
	struct trace trace = trace_new(false, false);

	model_target(trace.model, TEST_TARGET, 0, false,
		"{\"torch_version\": \"1.13.1\", \"target_device\": \"cpu\", \"device\": \"cpu:0\", \"world_size\": 1,"
		" \"parallel\": {\"tp\": 1, \"dp\": 2.5, \"a\": []}, \"attach_time_ns\": 5, \"x\": {}, \"\xc3\xa4\": "
		"null,"
		" \"allocator\": \"CPU\\u00e4\"}");
	model_operator_name(trace.model, TEST_TARGET, OP_MUL, "odd,\"name\"\nof.\xc3\xa4", 0);
	define_stack(&trace, 1, FRAMES, 3);
	define_stack(&trace, 2, FRAMES, 2);
	trace.stack = 2;
	make(&trace, OP_EMPTY, 0x1000, 2 * MIB);
	trace.stack = 1;
	redispatch(&trace, 0, OP_MUL, ARGUMENTS(0x1000, 2 * MIB, 0x9000, 640));
	allocate(&trace, 1, 0x2000, 512);
	allocate(&trace, 1, 0x3000, 64);
	release(&trace, 1, 0x2000);
	release(&trace, 0, 0x1000);
	trace.stack = 0;
	resize(&trace, 0, 0x3000, 64, 128);
	allocate(&trace, 0, 0x4000, 128);
	release(&trace, 0, 0x3000);
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x4000, 100));
	model_end(trace.model, TEST_TARGET, "{\"reason\": \"interrupt\"}");
	return trace;
}

Test(files, are_what_pythons_libraries_write_and_accept)
{
	struct trace trace = hostile_trace();
	const struct rank *rank = trace_finish(&trace);
	char *folder = folder_new();

	cr_expect(eq(int, report_rank(rank, NULL, REPORT_DEFAULT, folder), 0));
	expect_sound(folder);
	folder_remove(folder);
	model_free(trace.model);
}

Test(files, are_the_same_bytes_for_the_same_records)
{
	static const char *const NAMES[] = {"memory.csv", "tasks.csv", "memory.json"};
	struct trace first = hostile_trace(), second = hostile_trace();
	char *folders[] = {folder_new(), folder_new()};

	cr_expect(eq(int, report_rank(trace_finish(&first), NULL, REPORT_DEFAULT, folders[0]), 0));
	cr_expect(eq(int, report_rank(trace_finish(&second), NULL, REPORT_DEFAULT, folders[1]), 0));
	for (int i = 0; i < 3; i++) {
		char *a = file_read(folders[0], NAMES[i]), *b = file_read(folders[1], NAMES[i]);

		cr_expect(eq(str, a, b));
		free(a);
		free(b);
	}
	folder_remove(folders[0]);
	folder_remove(folders[1]);
	model_free(first.model);
	model_free(second.model);
}

static struct trace small_trace(void)
{
	static const struct frame FRAMES[] = {{"/w/run.py", "main", 9, 0}, {"/w/net.py", "forward", 21, 0}};
	struct trace trace = trace_new(true, false);

	define_stack(&trace, 1, FRAMES, 2);
	trace.stack = 1;
	make(&trace, OP_RELU, 0xf00000001800, 2048);
	trace.stack = 0;
	redispatch(&trace, 0, OP_ADD_, ARGUMENTS(0xf00000001800, 2048));
	redispatch(&trace, 0, OP_SUM, ARGUMENTS(0xf00000001800, 2048));
	release(&trace, 0, 0xf00000001800);
	make(&trace, OP_MM, 0x1000, MIB);
	return trace;
}

#define HEADER                                                                                                         \
	"start_time_stamp,end_time_stamp,start_plot_time_stamp,end_plot_time_stamp,device_addr,stream_id,pool_type,"   \
	"size,actual_used_memory,actual_peak_memory,file_name,line_num,type,producer_task,task_name,node_name,"        \
	"graph_name,user_tasks,last_user_task,python_stack,is_persistent,is_small\r\n"

Test(memory_csv, has_the_columns_of_a_dry_run)
{
	struct trace trace = small_trace();
	char *folder = folder_new(), *text;

	cr_expect(eq(int, report_rank(trace_finish(&trace), NULL, REPORT_DEFAULT, folder), 0));
	text = file_read(folder, "memory.csv");
	cr_expect(eq(str, text,
		(char *)HEADER
		"0,3,0.500000000000,3.333333333333,0xf00000001800,0,DefaultEnhancedAscendMemoryPool,2048,2048,2048,"
		"/w/net.py,21,Activation,0,forward,aten.relu.default,,{1-2},2,"
		"File:/w/run.py;Line:9;Function:main|File:/w/net.py;Line:21;Function:forward,0,1\r\n"
		"3,9223372036854775807,3.666666666667,,0x1000,0,DefaultEnhancedAscendMemoryPool,1048576,1048576,"
		"1048576,"
		",0,Activation,3,forward,aten.mm.default,,{},,,1,0\r\n"));
	free(text);
	folder_remove(folder);
	model_free(trace.model);
}

Test(memory_csv, can_leave_users_out_and_name_another_pool)
{
	struct report_options options = {.pool_name = "CUDALogicalMemoryPool", .empty_users = true};
	struct trace trace = small_trace();
	char *folder = folder_new(), *text;

	cr_expect(eq(int, report_rank(trace_finish(&trace), &options, REPORT_DEFAULT, folder), 0));
	text = file_read(folder, "memory.csv");
	cr_expect(ne(ptr, strstr(text, ",CUDALogicalMemoryPool,2048,"), NULL));
	cr_expect(ne(ptr, strstr(text, ",aten.relu.default,,{},,File:"), NULL));
	free(text);
	text = file_read(folder, "memory.json");
	cr_expect(ne(ptr, strstr(text, "\"user_tasks\": [\n        1,\n        2\n      ]"), NULL));
	free(text);
	folder_remove(folder);
	model_free(trace.model);
}

Test(tasks_csv, lists_the_tasks)
{
	struct trace trace = small_trace();
	char *folder = folder_new(), *text;

	cr_expect(eq(int, report_rank(trace_finish(&trace), NULL, REPORT_DEFAULT, folder), 0));
	text = file_read(folder, "tasks.csv");
	cr_expect(eq(str, text,
		(char *)"task_index,time_ns,thread_id,step,task_name,node_name,graph_name,file_name,line_num,live_"
			"bytes,launches,forward_task,forward_file_name,forward_line_num\r\n"
			"0,1010,1,0,forward,aten.relu.default,,/w/net.py,21,2048,0,,,\r\n"
			"1,1030,1,0,forward,aten.add_.Tensor,,,0,2048,0,,,\r\n"
			"2,1040,1,0,forward,aten.sum.default,,,0,2048,0,,,\r\n"
			"3,1060,1,0,forward,aten.mm.default,,,0,1048576,0,,,\r\n"));
	free(text);
	folder_remove(folder);
	model_free(trace.model);
}

Test(nothing, observed_is_an_error_report_and_no_rows)
{
	struct trace trace = trace_new(true, false);
	char *folder = folder_new(), *text;

	cr_expect(eq(int, report_rank(trace_finish(&trace), NULL, REPORT_DEFAULT, folder), -ENODATA));
	expect_sound(folder);
	text = file_read(folder, "memory.json");
	cr_expect(ne(ptr, strstr(text, "\"stage\": \"attach\""), NULL));
	free(text);
	folder_remove(folder);
	model_free(trace.model);
}

Test(losses, make_the_report_incomplete)
{
	struct event_counters counters = {.produced = 10, .lost = {[LOSS_RING_FULL] = 3}};
	struct trace trace = small_trace();
	char *folder = folder_new(), *text;

	model_loss(trace.model, TEST_TARGET, &counters);
	cr_expect(eq(int, report_rank(trace_finish(&trace), NULL, REPORT_DEFAULT, folder), 0));
	expect_sound(folder);
	text = file_read(folder, "memory.json");
	cr_expect(ne(ptr, strstr(text, "\"complete\": false"), NULL));
	cr_expect(ne(ptr, strstr(text, "\"ring_full\": 3"), NULL));
	free(text);
	folder_remove(folder);
	model_free(trace.model);
}

Test(output, that_cannot_be_written_leaves_nothing)
{
	struct trace trace = small_trace();

	cr_expect(eq(int, report_memory_csv(trace_finish(&trace), NULL, "/proc/nowhere/memory.csv"), -ENOENT));
	model_free(trace.model);
}

Test(output, replaces_a_link_and_does_not_follow_it)
{
	struct trace trace = small_trace();
	char *folder = folder_new(), path[256], other[256];

	snprintf(other, sizeof(other), "%s/other", folder);
	snprintf(path, sizeof(path), "%s/memory.csv", folder);
	cr_assert(eq(int, symlink(other, path), 0));
	cr_expect(eq(int, report_memory_csv(trace_finish(&trace), NULL, path), 0));
	cr_expect(ne(int, access(other, F_OK), 0));
	unlink(path);
	rmdir(folder);
	free(folder);
	model_free(trace.model);
}

/* One rank that its launcher calls 0 of 2, with a collective in which it is another one. */
static char *told_of(int32_t place, int32_t size)
{
	struct trace trace = trace_new(true, false);
	struct collective_event event = {.group = 0x1000, .rank = place, .size = size, .peer = -1};
	char *folder = folder_new(), *text, path[256];

	model_target(trace.model, TEST_TARGET, 0, true, "{\"rank\": 0, \"world_size\": 2}");
	make(&trace, OP_EMPTY, 0x1000, 64);
	event.event = trace_event(&trace, EVENT_COLLECTIVE, sizeof(event), 0);
	cr_assert(eq(int, model_event(trace.model, &event.event), 0));
	cr_expect(eq(int, report_rank(trace_finish(&trace), NULL, REPORT_DEFAULT, folder), 0));
	text = file_read(folder, "memory.json");
	path_of(path, folder, "collectives.csv");
	unlink(path);
	folder_remove(folder);
	model_free(trace.model);
	return text;
}

Test(report_file, says_where_launcher_and_communicator_disagree)
{
	char *same = told_of(0, 2), *part = told_of(0, 1), *other = told_of(1, 2), *larger = told_of(0, 4);

	cr_expect(eq(ptr, strstr(same, "its largest communicator"), NULL));
	cr_expect(eq(ptr, strstr(part, "its largest communicator"), NULL));
	cr_expect(
		ne(ptr, strstr(other, "this is rank 0 of 2, its largest communicator that it is rank 1 of 2."), NULL));
	cr_expect(
		ne(ptr, strstr(larger, "this is rank 0 of 2, its largest communicator that it is rank 0 of 4."), NULL));
	free(same);
	free(part);
	free(other);
	free(larger);
}

Test(summary, fits_a_terminal_and_names_the_peak)
{
	struct trace trace = hostile_trace();
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	cr_expect(eq(int, report_summary(trace_finish(&trace), NULL, out), 0));
	fclose(out);
	cr_expect(eq(int, strncmp(text, "rank 0  peak 2.0 MiB at 0.000 s, task 2, forward, step 0\n", 57), 0), "%s",
		text);
	cr_expect(ne(ptr, strstr(text, "\n  Workspace         512 B    0.0 %\n"), NULL), "%s", text);
	cr_expect(ne(ptr, strstr(text, "lost        nothing\n"), NULL));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		size_t columns = 0;

		for (const char *at = line; *at; at++)
			columns += (*at & 0xc0) != 0x80;
		cr_expect(le(sz, columns, 100), "%s", line);
	}
	free(text);
	model_free(trace.model);
}
