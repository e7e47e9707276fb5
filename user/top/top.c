// SPDX-License-Identifier: BSD-2-Clause
/* The loop of `hdtrace top`: a sink of a recording that keeps the live accounting and shows it now and then. */
#include "top/top.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "containers/containers.h"
#include "live/live.h"
#include "target/accelerator.h"
#include "top/screen.h"
#include "top/view.h"

#define KEYS_NANOSECONDS 20000000ull

struct top {
	const struct top_options *options;
	struct view view;
	struct screen *screen; /* NULL: JSON, or not yet */
	uint64_t look_ns, keys_ns;
	int error; /* what ended it */
	bool looked;
};

static void record_take(void *context, const struct event *record)
{
	struct top *top = context;

	live_take(top->view.live, record);
}

static void message_take(void *context, const char *message)
{
	struct top *top = context;

	snprintf(top->view.message, sizeof(top->view.message), "%s", message);
	if (!top->screen)
		fprintf(stderr, "hdtrace: %s\n", message);
}

/* --- looks ------------------------------------------------------------------------------ */

static void sizes_tell(struct top *top, const struct live_rank *rank)
{
	for (size_t i = 0; i < rank->device_count; i++) {
		const struct live_device *device = &rank->devices[i];
		uint64_t bytes;

		if (device->size_bytes != LIVE_UNKNOWN || device_is_host(device->type))
			continue;
		bytes = accelerator_bytes(device->type);
		bytes = bytes ? bytes : top->options->device_bytes;
		if (bytes)
			live_device_size(top->view.live, rank->target, device->type, device->index, bytes);
	}
}

/* What no record tells: where the main thread stands, and how large devices are. */
static void outside_read(struct top *top, struct recording *recording)
{
	for (size_t i = 0; i < live_rank_count(top->view.live); i++) {
		const struct live_rank *rank = live_rank_at(top->view.live, i);
		struct frame *frames;

		if (rank->ended)
			continue;
		sizes_tell(top, rank);
		if (!rank->lite)
			continue;
		frames = recording_stand(recording, rank->target);
		live_stand(top->view.live, rank->target, frames, arrlenu(frames));
		recording_stand_free(frames);
	}
}

static void look(struct top *top, struct recording *recording, uint64_t now_ns)
{
	struct recording_cost cost;

	outside_read(top, recording);
	live_refresh(top->view.live);
	recording_cost(recording, &cost);
	view_update(&top->view, &cost, now_ns, clock_ns(CLOCK_REALTIME));
	top->look_ns = now_ns;
}

static bool json_look(struct top *top, struct recording *recording, uint64_t now_ns)
{
	look(top, recording, now_ns);
	/* The first one knows no rates. */
	if (!top->looked) {
		top->looked = true;
		return false;
	}
	top->error = view_write_json(&top->view, stdout);
	if (fflush(stdout) && !top->error)
		top->error = -errno;
	return top->error || top->options->once;
}

static bool screen_begin(struct top *top)
{
	top->error = screen_open(&top->screen);
	return !top->error;
}

static bool tick(void *context, struct recording *recording)
{
	struct top *top = context;
	uint64_t now_ns = monotonic_ns();
	bool due = !top->look_ns || now_ns - top->look_ns >= (uint64_t)(top->options->interval * 1e9);
	enum screen_wish wish;

	if (top->options->json)
		return due && json_look(top, recording, now_ns);
	if (!top->screen && !screen_begin(top))
		return true;
	if (!due && now_ns - top->keys_ns < KEYS_NANOSECONDS)
		return false;
	top->keys_ns = now_ns;
	wish = screen_keys(top->screen);
	if (wish == SCREEN_QUIT)
		return true;
	if (due && !screen_is_paused(top->screen))
		look(top, recording, now_ns);
	else if (due)
		top->look_ns = now_ns;
	if (due || wish == SCREEN_DRAW)
		screen_draw(top->screen, &top->view);
	return false;
}

/* The terminal has gone. */
static bool signalled(void *context, int number)
{
	(void)context;
	return number == SIGHUP;
}

/* --- begin and end ------------------------------------------------------------------------- */

static void end_tell(const struct top *top, const struct record_result *result)
{
	if (result->end == RECORD_END_EXIT)
		fputs("hdtrace: all processes have ended\n", stderr);
	if (top->error == -ENOTTY)
		fputs("hdtrace: top needs a terminal; for scripts there is `hdtrace top --once --json`\n", stderr);
	else if (top->error == -ENOTSUP)
		fprintf(stderr,
			"hdtrace: nothing can be drawn on a terminal of the kind TERM=%s; "
			"use another one, or `hdtrace top --once --json`\n",
			getenv("TERM") ? getenv("TERM") : "");
	else if (top->error)
		fprintf(stderr, "hdtrace: cannot go on: %s\n", strerror(-top->error));
}

int top_run(const struct top_options *options, struct record_options *record, bool *found)
{
	static const int signals[] = {SIGHUP, 0};
	struct top top = {.options = options};
	struct record_sink sink = {
		.context = &top,
		.take = record_take,
		.tick = tick,
		.signals = signals,
		.signalled = signalled,
		.tell = message_take,
	};
	struct record_result result;
	int error;

	top.view.lite = record->level == LEVEL_LITE;
	top.view.live = live_new(NULL);
	if (!top.view.live)
		return -ENOMEM;
	record->sink = &sink;
	error = recorder_run(record, &result);
	screen_close(top.screen);
	record->sink = NULL;
	*found = result.targets > 0;
	if (!error)
		end_tell(&top, &result);
	error = error ? error : top.error;
	view_free(&top.view);
	return error;
}
