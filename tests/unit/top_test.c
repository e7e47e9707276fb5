/* SPDX-License-Identifier: BSD-2-Clause */
/* What a look makes of the live accounting: rates, history, texts, JSON. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_tree.h>

#include "containers/containers.h"
#include "stream/capture_writer.h"
#include "top/view.h"

#define SECOND 1000000000ull

static struct view view;
static struct capture_writer *writer;
static uint64_t allocated;

static void observe(void *context, const struct event *record)
{
	(void)context;
	live_take(view.live, record);
}

static void begin(void)
{
	view = (struct view){.live = live_new(NULL)};
	allocated = 0;
	cr_assert_eq(capture_writer_fileless(&writer), 0);
	capture_writer_observe(writer, observe, NULL);
	capture_writer_text(writer, CAPTURE_TARGET, 0, "{\"rank\": 0, \"pid\": 7, \"command\": \"job \\u001b[2J\"}");
}

static void end(void)
{
	capture_writer_close(writer);
	view_free(&view);
}

TestSuite(view, .init = begin, .fini = end);

static void allocate(uint64_t bytes)
{
	struct device_allocate_event event = {
		.event = {.size = sizeof(event), .kind = EVENT_DEVICE_ALLOCATE, .time_ns = 5},
		.address = 0x100000 + allocated,
		.bytes = bytes,
		.allocated = allocated + bytes,
		.reserved = 1 << 20,
		.device_type = DEVICE_CUDA};

	allocated += bytes;
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

static const struct history *look(uint64_t now_ns, uint64_t records, uint64_t processor_ns)
{
	struct recording_cost cost = {.records = records, .processor_ns = processor_ns, .probe_hits = UINT64_MAX};

	live_refresh(view.live);
	view_update(&view, &cost, now_ns, 0);
	return view_history(&view, live_rank_at(view.live, 0));
}

Test(view, rates_are_those_since_the_look_before)
{
	const struct history *history;

	allocate(1000);
	history = look(10 * SECOND, 100, SECOND);
	cr_expect_eq(history->allocation_rate, RATE_UNKNOWN);
	cr_expect_eq(view.record_rate, RATE_UNKNOWN);
	allocate(500);
	history = look(12 * SECOND, 300, 2 * SECOND);
	cr_expect_float_eq(history->allocation_rate, 250, 1e-6);
	cr_expect_float_eq(view.record_rate, 100, 1e-6);
	cr_expect_float_eq(view.processor_share, 0.5, 1e-6);
}

Test(view, a_sample_is_the_most_of_its_second)
{
	const struct history *history;

	allocate(1000);
	look(10 * SECOND, 0, 0);
	allocate(500);
	history = look(10 * SECOND + SECOND / 2, 0, 0);
	cr_expect_eq(history->samples, 1);
	cr_expect_eq(history->bytes[0], 1500);
	allocate(1);
	/* Seconds that nobody looked at are like the one before. */
	history = look(14 * SECOND, 0, 0);
	cr_expect_eq(history->samples, 5);
	cr_expect_eq(history->bytes[3], 1500);
	cr_expect_eq(history->bytes[4], 1501);
	for (uint64_t second = 15; second < 1000; second++)
		history = look(second * SECOND, 0, 0);
	cr_expect_eq(history->samples, 990);
	cr_expect_eq(history->bytes[(history->samples - 1) % HISTORY_SAMPLES], 1501);
}

Test(view, bytes_have_few_characters)
{
	static const struct {
		uint64_t bytes;
		const char *text, *narrow;
	} cases[] = {{0, "0 B", "0"}, {1023, "1023 B", "1023"}, {1024, "1.0 KiB", "1.0K"},
		{1023 << 10, "1023.0 KiB", "1023.0K"}, {(1 << 20) - 1, "1.0 MiB", "1.0M"},
		{80ull << 30, "80.0 GiB", "80.0G"}, {LIVE_UNKNOWN, "-", "-"}};
	char text[BYTES_TEXT];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cr_expect_str_eq(bytes_text(cases[i].bytes, text), cases[i].text);
		cr_expect_str_eq(bytes_short(cases[i].bytes, text), cases[i].narrow);
	}
}

Test(view, json_has_null_for_what_is_not_known)
{
	const char *known[] = {"ranks", NULL};
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);
	yajl_val tree, rank;

	allocate(1000);
	look(10 * SECOND, 0, 0);
	cr_assert_eq(view_write_json(&view, file), 0);
	fclose(file);
	cr_expect_null(strchr(text, 0x1b), "what came from the target drives no terminal");
	tree = yajl_tree_parse(text, NULL, 0);
	cr_assert_not_null(tree);
	rank = yajl_tree_get(tree, known, yajl_t_array)->u.array.values[0];
	cr_expect(YAJL_IS_NULL(yajl_tree_get(rank, (const char *[]){"step_seconds", NULL}, yajl_t_any)));
	cr_expect(YAJL_IS_NULL(yajl_tree_get(rank, (const char *[]){"steps", NULL}, yajl_t_any)));
	cr_expect_eq(YAJL_GET_INTEGER(yajl_tree_get(rank, (const char *[]){"pid", NULL}, yajl_t_number)), 7);
	yajl_tree_free(tree);
	free(text);
}
