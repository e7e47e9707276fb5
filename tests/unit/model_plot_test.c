/* SPDX-License-Identifier: BSD-2-Clause */
/* Plot coordinates against values of decimal arithmetic with 28 digits. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model/model.h"

static void expect_plot(int64_t task, uint64_t k, uint64_t n, const char *want)
{
	char text[PLOT_TEXT_BYTES];

	cr_expect(eq(str, (char *)plot_format(text, task, plot_fraction(k, n)), (char *)want));
}

Test(plot, is_exact_to_twelve_digits)
{
	expect_plot(2, 1, 1, "2.500000000000");
	expect_plot(6, 1, 2, "6.333333333333");
	expect_plot(6, 2, 2, "6.666666666667");
	expect_plot(0, 5, 6, "0.714285714286");
	expect_plot(1234567, 3, 12, "1234567.230769230769");
}

Test(plot, rounds_half_to_even)
{
	/* 1/8192 and 3/8192 end in 5 at the 13th digit. */
	expect_plot(0, 1, 8191, "0.000122070312");
	expect_plot(0, 3, 8191, "0.000366210938");
}

Test(plot, never_reaches_the_next_task)
{
	expect_plot(7, 400000000000, 400000000000, "7.999999999998");
	expect_plot(INT64_MAX - 1, 1, 1, "9223372036854775806.500000000000");
}

Test(plot, of_no_event_is_empty)
{
	char text[PLOT_TEXT_BYTES] = "x";

	cr_expect(eq(str, (char *)plot_format(text, 3, PLOT_NONE), (char *)""));
}
