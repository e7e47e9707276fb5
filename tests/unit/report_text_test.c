/* SPDX-License-Identifier: BSD-2-Clause */
/* Text of a target in the forms of the reports. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "containers/containers.h"
#include "report/text.h"

static void expect_code(const char *text, uint32_t want, int bytes)
{
	const char *at = text, *end = text + strlen(text);

	cr_expect(eq(u32, text_next(&at, end), want), "of %s", text);
	cr_expect(eq(int, (int)(at - text), bytes), "of %s", text);
}

Test(utf8, gives_code_points)
{
	expect_code("a", 'a', 1);
	expect_code("\xc3\xa4", 0xe4, 2);
	expect_code("\xe2\x82\xac", 0x20ac, 3);
	expect_code("\xf0\x9f\x98\x80", 0x1f600, 4);
	expect_code("\xf4\x8f\xbf\xbf", 0x10ffff, 4);
}

Test(utf8, gives_a_replacement_for_each_wrong_byte)
{
	expect_code("\xff", TEXT_REPLACEMENT, 1);
	expect_code("\x80", TEXT_REPLACEMENT, 1);
	expect_code("\xc3", TEXT_REPLACEMENT, 1);
	expect_code("\xe2\x82", TEXT_REPLACEMENT, 1);
	expect_code("\xe2z", TEXT_REPLACEMENT, 1);
	/* Too long a form of '/', a surrogate, beyond the last code point. */
	expect_code("\xc0\xaf", TEXT_REPLACEMENT, 1);
	expect_code("\xe0\x80\xaf", TEXT_REPLACEMENT, 1);
	expect_code("\xed\xa0\x80", TEXT_REPLACEMENT, 1);
	expect_code("\xf4\x90\x80\x80", TEXT_REPLACEMENT, 1);
}

static void expect_csv(const char *text, const char *want)
{
	char *array = text_append_csv(NULL, text);

	arrput(array, '\0');
	cr_expect(eq(str, array, (char *)want));
	arrfree(array);
}

/* As csv.writer of Python 3.11 writes them. */
Test(csv, quotes_only_where_it_must)
{
	expect_csv("", "");
	expect_csv("aten.add.Tensor", "aten.add.Tensor");
	expect_csv("a b;c'd|e", "a b;c'd|e");
	expect_csv("a,b", "\"a,b\"");
	expect_csv("say \"x\"", "\"say \"\"x\"\"\"");
	expect_csv("\"", "\"\"\"\"");
	expect_csv(",\xc3\xa4", "\",\xc3\xa4\"");
	expect_csv("\xc3\xa4", "\xc3\xa4");
}

Test(csv, has_no_line_breaks_and_only_utf8)
{
	expect_csv("a\r\nb", "a  b");
	expect_csv("a\xff", "a\xef\xbf\xbd");
}

static void expect_json(const char *text, const char *want)
{
	char *array = text_append_json(NULL, text);

	cr_expect(eq(str, array, (char *)want));
	arrfree(array);
}

/* As json.dumps writes them. */
Test(json, is_ascii)
{
	expect_json("", "\"\"");
	expect_json("a/\"\\", "\"a/\\\"\\\\\"");
	expect_json("\b\f\n\r\t\x01\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u007f\"");
	expect_json("\xc3\xa4\xf0\x9f\x98\x80\xff", "\"\\u00e4\\ud83d\\ude00\\ufffd\"");
}

static void expect_stack(const struct frame *frames, uint32_t count, const char *want)
{
	struct stack stack = {.frames = (struct frame *)frames, .frame_count = count};
	char *text = text_of_stack(&stack);

	cr_expect(eq(str, text, (char *)want));
	arrfree(text);
}

Test(stack, keeps_its_parts_apart)
{
	static const struct frame FRAMES[] = {
		{"/w/a.py", "main", 1, 0},
		{"/w/a|b;Line:2;c\n.py", "f;Function:|\rg", 4294967295u, 0},
	};

	expect_stack(FRAMES, 0, "");
	expect_stack(FRAMES, 1, "File:/w/a.py;Line:1;Function:main");
	expect_stack(FRAMES, 2,
		"File:/w/a.py;Line:1;Function:main|"
		"File:/w/a_b,Line:2;c .py;Line:4294967295;Function:f,Function:_ g");
}
