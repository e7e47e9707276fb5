/* SPDX-License-Identifier: BSD-2-Clause */
/* What is written for other programs: bytes of their formats, histories that they can replay, and whole files. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model_events.h"
#include "report/history.h"
#include "report/pickle.h"
#include "report/protobuf.h"
#include "report/report.h"
#include "report/text.h"

#define MIB (1ull << 20)
#define PYTHON "/usr/bin/python3"
#define CHECK "tests/e2e/viewers_truth.py"

extern char **environ;

/* --- text ------------------------------------------------------------------------------------ */

static void expect_replaced(const char *text, const char *unwanted, const char *want)
{
	char *array = text_append_replaced(NULL, text, unwanted, '_');

	arrput(array, '\0');
	cr_expect(eq(str, array, (char *)want));
	arrfree(array);
}

Test(replaced, text_is_one_line_of_utf8)
{
	expect_replaced("", "", "");
	expect_replaced("a\r\nb", "", "a  b");
	expect_replaced("a,b;c", ",", "a_b;c");
	expect_replaced("\xc3\xa4\xff", ",;", "\xc3\xa4\xef\xbf\xbd");
}

/* --- pickle ----------------------------------------------------------------------------------- */

struct written {
	struct pickle pickle;
	FILE *file;
	char *bytes;
	size_t size;
};

static void written_begin(struct written *written)
{
	written->file = open_memstream(&written->bytes, &written->size);
	cr_assert(ne(ptr, written->file, NULL));
	pickle_begin(&written->pickle, written->file);
}

/* What stands between the protocol and the end. */
static void expect_pickle(struct written *written, const char *want, size_t size)
{
	pickle_end(&written->pickle);
	fclose(written->file);
	cr_assert(eq(sz, written->size, size + 3));
	cr_expect(eq(int, memcmp(written->bytes, "\x80\x04", 2), 0));
	cr_expect(eq(int, memcmp(written->bytes + 2, want, size), 0));
	cr_expect(eq(chr, written->bytes[written->size - 1], '.'));
	free(written->bytes);
}

static void expect_integer(int64_t value, const char *want, size_t size)
{
	struct written written;

	written_begin(&written);
	pickle_integer(&written.pickle, value);
	expect_pickle(&written, want, size);
}

Test(pickle, has_integers_as_short_as_they_can_be)
{
	expect_integer(0, "K\x00", 2);
	expect_integer(255, "K\xff", 2);
	expect_integer(256, "M\x00\x01", 3);
	expect_integer(65535, "M\xff\xff", 3);
	expect_integer(65536, "J\x00\x00\x01\x00", 5);
	expect_integer(-1, "J\xff\xff\xff\xff", 5);
	expect_integer(2147483647, "J\xff\xff\xff\x7f", 5);
	expect_integer(2147483648, "\x8a\x08\x00\x00\x00\x80\x00\x00\x00\x00", 10);
}

Test(pickle, has_no_integer_that_a_double_has_not)
{
	expect_integer(INT64_MAX, "\x8a\x08\xff\xff\xff\xff\xff\xff\x1f\x00", 10);
}

Test(pickle, repeats_texts_by_number)
{
	static const char name[] = "a";
	struct written written;

	written_begin(&written);
	pickle_text(&written.pickle, name);
	pickle_text(&written.pickle, name);
	pickle_fresh_text(&written.pickle, "b\xff");
	expect_pickle(&written,
		"\x8c\x01"
		"a\x94h\x00\x8c\x04"
		"b\xef\xbf\xbd",
		12);
}

Test(pickle, appends_a_batch_at_a_time)
{
	static const size_t COUNTS[] = {0, 1, 1000, 1001, 2000};
	static const int BATCHES[] = {0, 1, 1, 2, 2};

	for (size_t i = 0; i < sizeof(COUNTS) / sizeof(*COUNTS); i++) {
		struct written written;
		struct pickle_list list;
		int marks = 0, ends = 0;

		written_begin(&written);
		list = pickle_list(&written.pickle);
		for (size_t item = 0; item < COUNTS[i]; item++) {
			pickle_list_item(&list);
			pickle_boolean(&written.pickle, true);
		}
		pickle_list_end(&list);
		pickle_end(&written.pickle);
		fclose(written.file);
		for (size_t at = 0; at < written.size; at++) {
			marks += written.bytes[at] == '(';
			ends += written.bytes[at] == 'e';
		}
		cr_expect(eq(int, marks, BATCHES[i]), "of %zu", COUNTS[i]);
		cr_expect(eq(int, ends, BATCHES[i]), "of %zu", COUNTS[i]);
		free(written.bytes);
	}
}

/* --- protocol buffers ------------------------------------------------------------------------- */

static void expect_message(uint8_t **message, const char *want, size_t size)
{
	cr_assert(eq(sz, arrlenu(*message), size));
	cr_expect(eq(int, memcmp(*message, want, size), 0));
	arrfree(*message);
}

/* The examples of protobuf.dev, "Encoding", and the largest number. */
Test(protobuf, is_encoded_as_its_documents_say)
{
	uint8_t *message = NULL, *inner = NULL;

	proto_varint(&message, 1, 150);
	expect_message(&message, "\x08\x96\x01", 3);
	proto_text(&message, 2, "testing");
	expect_message(&message, "\x12\x07testing", 9);
	proto_varint(&inner, 1, 150);
	proto_message(&message, 3, &inner);
	expect_message(&message, "\x1a\x03\x08\x96\x01", 5);
	cr_expect(eq(sz, arrlenu(inner), 0));
	proto_varint(&message, 60, UINT64_MAX);
	expect_message(&message, "\xe0\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
	proto_fixed64(&message, 47, 258);
	expect_message(&message, "\xf9\x02\x02\x01\x00\x00\x00\x00\x00\x00", 10);
	arrfree(inner);
}

/* --- histories ---------------------------------------------------------------------------------- */

static struct rank *rank_new(void)
{
	struct rank *rank = calloc(1, sizeof(*rank));

	cr_assert(ne(ptr, rank, NULL));
	arrzero(rank->devices, 1);
	return rank;
}

static void rank_free(struct rank *rank)
{
	arrfree(rank->devices);
	arrfree(rank->blocks);
	arrfree(rank->segments);
	free(rank);
}

/* From one change to another, each at ten times its number; UINT32_MAX: for ever. */
static void block_add(struct rank *rank, uint64_t address, uint64_t bytes, uint32_t from, uint32_t until)
{
	struct block block = {.address = address,
		.bytes = bytes,
		.allocated_bytes = bytes,
		.first_order = from,
		.last_order = until,
		.start_time_ns = 10ull * from,
		.end_time_ns = 10ull * until,
		.persistent = until == UINT32_MAX};

	arrput(rank->blocks, block);
}

static void segment_add(struct rank *rank, uint64_t address, uint64_t bytes, uint64_t from, uint64_t until)
{
	struct segment segment = {
		.address = address, .bytes = bytes, .start_time_ns = from, .end_time_ns = until, .has_blocks = true};

	arrput(rank->segments, segment);
}

static size_t actions(const struct history *history, enum history_action action)
{
	size_t count = 0;

	for (size_t i = 0; i < arrlenu(history->events); i++)
		count += history->events[i].action == action;
	return count;
}

Test(history, has_the_drivers_segments_when_they_explain_all_blocks)
{
	struct rank *rank = rank_new();
	struct history history;

	segment_add(rank, 0x9000, 0x1000, 5, UINT64_MAX);
	segment_add(rank, 0x1000, 0x1000, 25, 55);
	segment_add(rank, 0x1000, 0x2000, 56, UINT64_MAX);
	block_add(rank, 0x9000, 0x800, 1, 2);
	block_add(rank, 0x9800, 0x800, 2, UINT32_MAX);
	block_add(rank, 0x1000, 0x1000, 3, 5);
	block_add(rank, 0x1000, 0x2000, 6, UINT32_MAX);
	history_find(rank, 0, &history);
	cr_expect(eq(sz, actions(&history, HISTORY_SEGMENT_ALLOCATE), 3));
	cr_expect(eq(sz, actions(&history, HISTORY_SEGMENT_FREE), 1));
	cr_assert(eq(sz, arrlenu(history.regions), 3));
	cr_expect(eq(sz, arrlenu(history.regions[0].left), 1));
	cr_expect(not(history.regions[1].held));
	cr_expect(eq(sz, arrlenu(history.regions[2].left), 1));
	/* What takes the place of a block comes after it. */
	cr_expect(eq(int, history.events[1].action, HISTORY_ALLOCATE));
	cr_expect(eq(int, history.events[2].action, HISTORY_FREE));
	cr_expect(eq(int, history.events[3].action, HISTORY_ALLOCATE));
	history_free(&history);
	rank_free(rank);
}

/* A block that ends behind its segment, one in none, one that is older, a piece under a running block. */
Test(history, has_none_of_the_drivers_segments_when_one_block_is_not_explained)
{
	for (int which = 0; which < 4; which++) {
		struct rank *rank = rank_new();
		struct history history;

		segment_add(rank, 0x1000, 0x1000, 5, which == 0 ? 15 : UINT64_MAX);
		rank->segments[0].mapped = which == 3;
		block_add(rank, which == 1 ? 0x1800 : 0x1000, 0x1000, which == 2 ? 0 : 1, 2);
		history_find(rank, 0, &history);
		cr_expect(eq(sz, actions(&history, HISTORY_SEGMENT_ALLOCATE), 0), "case %d", which);
		cr_assert(eq(sz, arrlenu(history.regions), 1));
		cr_expect(eq(u64, history.regions[0].address, rank->blocks[0].address));
		cr_expect(eq(u64, history.regions[0].bytes, 0x1000));
		cr_expect(eq(sz, actions(&history, HISTORY_ALLOCATE), which != 2), "case %d", which);
		cr_expect(eq(sz, actions(&history, HISTORY_FREE), 1));
		history_free(&history);
		rank_free(rank);
	}
}

Test(history, puts_blocks_together_that_are_near_and_leaves_out_what_overlaps)
{
	struct rank *rank = rank_new();
	struct history history;

	block_add(rank, 0x1000, 0x1000, 1, UINT32_MAX);
	block_add(rank, 0x1800, 0x1000, 2, UINT32_MAX);
	block_add(rank, 0x3000, 0x1000, 3, UINT32_MAX);
	block_add(rank, 0x3000 + 4 * MIB, 0x1000, 4, UINT32_MAX);
	history_find(rank, 0, &history);
	cr_assert(eq(sz, arrlenu(history.regions), 2));
	cr_expect(eq(u64, history.regions[0].bytes, 0x3000));
	cr_expect(eq(sz, arrlenu(history.regions[0].left), 2));
	cr_expect(eq(sz, arrlenu(history.regions[1].left), 1));
	history_free(&history);
	rank_free(rank);
}

/* --- whole files -------------------------------------------------------------------------------- */

/* Names that would end a line, a field, a frame or a text, and one that the viewer of snapshots would hide. */
static struct trace hostile_trace(void)
{
	static const struct frame FRAMES[] = {
		{"/w/a,b\"c;d\r\ne'f.py", "<module>", 3, 0},
		{"/w/\xc3\xa4\xf0\x9f\x98\x80\xff\xed\xa0\x80 (x).py", "on_step_start;1 2", 4, 0},
		{"/w/ceval.c.py", "PyEval_\"x\"", 9, 0},
	};
	struct trace trace = trace_new(false, false);

	model_operator_name(trace.model, TEST_TARGET, OP_MUL, "odd,\"na;me\"\nof.\xc3\xa4", 0);
	define_stack(&trace, 1, FRAMES, 3);
	define_stack(&trace, 2, FRAMES, 2);
	trace.stack = 2;
	make(&trace, OP_EMPTY, 0x1000, 2 * MIB);
	trace.stack = 1;
	redispatch(&trace, 0, OP_MUL, ARGUMENTS(0x1000, 2 * MIB, 0x900000, 640));
	allocate(&trace, 1, 0x500000, 512);
	allocate(&trace, 1, 0x600000, 64);
	release(&trace, 1, 0x500000);
	release(&trace, 0, 0x1000);
	trace.stack = 0;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x600000, 64));
	allocate(&trace, 1, 0x1000, 300);
	trace.thread = 2;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x600000, 64));
	allocate(&trace, 1, 0x2000, 300);
	trace.thread = 1;
	redispatch(&trace, 0, OP_RELU, ARGUMENTS(0x2000, 300));
	return trace;
}

static int folder_check(const char *folder)
{
	char *arguments[] = {PYTHON, CHECK, (char *)folder, NULL};
	int status = -1;
	pid_t pid;

	cr_assert(eq(int, posix_spawn(&pid, PYTHON, NULL, NULL, arguments, environ), 0));
	waitpid(pid, &status, 0);
	return status;
}

static void folder_remove(const char *folder)
{
	char *arguments[] = {"/bin/rm", "-r", (char *)folder, NULL};
	pid_t pid;

	cr_assert(eq(int, posix_spawn(&pid, arguments[0], NULL, NULL, arguments, environ), 0));
	waitpid(pid, NULL, 0);
}

Test(files, of_hostile_names_are_read_as_what_they_are)
{
	struct trace trace = hostile_trace();
	const struct rank *rank = trace_finish(&trace);
	unsigned int formats = 0;
	char folder[] = "/tmp/hdtrace-viewers-XXXXXX";

	cr_assert(ne(ptr, mkdtemp(folder), NULL));
	for (size_t i = 0; i < report_format_count; i++)
		formats |= report_formats[i].format;
	cr_expect(eq(int, report_rank(rank, NULL, formats, folder), 0));
	for (size_t i = 0; i < report_job_file_count; i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%s", folder, report_job_files[i].name);
		cr_expect(eq(int, report_job_files[i].write(&rank, 1, NULL, path), 0), "%s", report_job_files[i].name);
	}
	cr_expect(eq(int, folder_check(folder), 0));
	folder_remove(folder);
	model_free(trace.model);
}

Test(files, of_a_rank_without_memory_are_not_there)
{
	struct trace trace = trace_new(true, false);
	const struct rank *rank = trace_finish(&trace);

	cr_expect(eq(int, report_snapshot(rank, NULL, "/nowhere"), -ENODATA));
	cr_expect(eq(int, report_folded_peak(rank, NULL, "/nowhere"), -ENODATA));
	cr_expect(eq(int, report_folded_allocated(rank, NULL, "/nowhere"), -ENODATA));
	cr_expect(eq(int, report_mindspore_blocks_csv(rank, NULL, "/nowhere"), -ENODATA));
	cr_expect(eq(int, report_job_sqlite(&rank, 1, NULL, "/nowhere/job.sqlite"), -ENOENT));
	cr_expect(eq(int, report_job_perfetto(&rank, 1, NULL, "/nowhere/job.pftrace"), -ENOENT));
	model_free(trace.model);
}

Test(formats, have_a_name_each_and_files)
{
	for (size_t i = 0; i < report_format_count; i++)
		for (size_t j = 0; j < i; j++) {
			cr_expect(ne(str, (char *)report_formats[i].name, (char *)report_formats[j].name));
			cr_expect(eq(int, report_formats[i].format &report_formats[j].format, 0));
		}
}
