/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a compacted capture: made again, cut off, damaged, gone on with, given up. */
#include "window_capture.h"

TestSuite(window_file, .init = setup, .fini = teardown, .timeout = 60);

Test(window_file, compacting_twice_gives_what_compacting_once_does)
{
	const struct rank *rank;
	uint64_t start, dropped;

	capture_begin(true);
	code_make(0x100, "weights.py");
	code_make(0x200, "loop.py");
	block_make(0x1000, 11, 0x100);
	operator_make(0, MM, 1ull << 32 | 12, 0x200, NO_DATA);
	noise_make(50);
	start = window_begin();
	noise_make(50);
	capture_writer_flush(writer);
	block_make(0x2000, 1ull << 32 | 12, 0);
	capture_end();
	cr_assert_eq(compact_from(start), 0);
	dropped = rank_read()->window.dropped_records;
	cr_assert_eq(compact_from(file_size() - 1), 0, "nothing lies behind the cut");
	rank = rank_read();
	cr_expect_eq(records_count(CAPTURE_WINDOW), 1);
	cr_expect_gt(rank->window.dropped_records, dropped + 190);
	cr_expect_leq(rank->window.dropped_records, dropped + 210);
	cr_expect_eq(arrlenu(rank->blocks), 2);
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x1000)), "weights.py");
	cr_expect_str_eq(file_of(rank, block_at(rank, 0x2000)), "loop.py");
	cr_expect_eq(records_count(CAPTURE_SESSION), 1);
	cr_expect_eq(records_count(CAPTURE_TARGET), 1);
	cr_expect_eq(records_count(CAPTURE_OPERATOR), NUMBER_OF_NAMES);
}

Test(window_file, capture_that_ends_inside_a_chunk_is_compacted_up_to_there)
{
	uint64_t start;

	capture_begin(true);
	block_make(0x1000, 0, 0);
	noise_make(20);
	start = window_begin();
	block_make(0x2000, 0, 0);
	capture_writer_flush(writer);
	noise_make(20);
	capture_end();
	cr_assert_eq(truncate(path, (off_t)file_size() - 5), 0);
	cr_assert_eq(compact_from(file_size() - 1), 0);
	cr_expect_gt(start, 0);
	cr_expect_eq(arrlenu(rank_read()->blocks), 2);
}

Test(window_file, damage_before_the_cut_is_told_and_the_capture_left_alone)
{
	uint64_t start, size;
	int fd;

	capture_begin(true);
	noise_make(20);
	start = window_begin();
	noise_make(20);
	capture_end();
	fd = open(path, O_WRONLY);
	cr_assert_eq(pwrite(fd, "?", 1, (off_t)start - 3), 1);
	close(fd);
	size = file_size();
	cr_expect_eq(compact_from(start), -EBADMSG);
	cr_expect_eq(file_size(), size);
}

static void record_see(void *context, const struct event *record)
{
	(void)record;
	++*(uint64_t *)context;
}

Test(window_file, writer_goes_on_in_the_new_file_and_is_watched_once)
{
	struct capture_reader *reader;
	struct capture_writer *draft;
	uint64_t end, seen = 0, start;

	capture_begin(true);
	capture_writer_observe(writer, record_see, &seen);
	block_make(0x1000, 0, 0);
	noise_make(20);
	start = window_begin();
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_writer_draft(path, capture_reader_header(reader), &draft), 0);
	capture_reader_close(reader);
	cr_assert_eq(window_compact(path, start, 0, draft, &end), 0);
	block_make(0x2000, 0, 0);
	capture_writer_flush(writer); /* while it is compacted */
	block_make(0x3000, 0, 0);     /* not written yet */
	cr_assert_eq(capture_writer_replace(writer, draft, end), 0);
	cr_expect_eq(capture_writer_bytes(writer), file_size());
	block_make(0x4000, 0, 0);
	capture_end();
	cr_expect_eq(seen, 2 + 4 * 20 + 2 + 2 + 2 + 1);
	cr_expect_eq(arrlenu(rank_read()->blocks), 4);
}

Test(window_file, draft_that_is_given_up_leaves_nothing)
{
	struct capture_reader *reader;
	struct capture_writer *draft;
	uint64_t size;

	capture_begin(true);
	capture_end();
	size = file_size();
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_writer_draft(path, capture_reader_header(reader), &draft), 0);
	capture_reader_close(reader);
	cr_expect_eq(capture_writer_close(draft), 0);
	cr_expect_eq(file_size(), size);
}

Test(window_file, copy_of_something_that_is_no_chunk_is_refused)
{
	struct capture_reader *reader;
	struct capture_writer *draft;
	int fd;

	capture_begin(true);
	noise_make(5);
	capture_end();
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_writer_draft(path, capture_reader_header(reader), &draft), 0);
	capture_reader_close(reader);
	fd = open(path, O_RDONLY);
	cr_expect_eq(capture_writer_copy(draft, fd, HEADER_BYTES + 8, file_size()), -EBADMSG);
	cr_expect_eq(capture_writer_copy(draft, fd, file_size() - 8, file_size()), -EBADMSG);
	close(fd);
	capture_writer_close(draft);
}
