/* SPDX-License-Identifier: BSD-2-Clause */
/* What the line of progress says; that it is there and goes is a test on a terminal (tests/e2e/progress_test.py). */
#include <criterion/criterion.h>

#include "cli/progress.h"

Test(progress, what_is_left_follows_from_what_is_done)
{
	cr_expect_float_eq(progress_left(0.25, 10), 30, 1e-9);
	cr_expect_float_eq(progress_left(1, 10), 0, 1e-9);
	cr_expect_lt(progress_left(0.001, 10), 0, "too early to say");
}

Test(progress, the_line_says_no_more_than_is_known)
{
	char text[PROGRESS_TEXT];

	cr_expect_str_eq(progress_text(0.01, -1, text), "hdtrace: reports  1 %");
	cr_expect_str_eq(progress_text(0.42, 12.4, text), "hdtrace: reports 42 %, about 12 s left");
	cr_expect_str_eq(progress_text(0.1, 600, text), "hdtrace: reports 10 %, about 10 min left");
}

Test(progress, nothing_happens_where_none_is_shown)
{
	progress_begin(0, false);
	progress_tell(PROGRESS_RANKS, 1, 2);
	progress_hide();
	progress_show();
	progress_end();
}
