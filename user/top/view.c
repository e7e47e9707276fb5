// SPDX-License-Identifier: BSD-2-Clause
/* From one look to the next: rates, and the history of a rank's memory. */
#include "top/view.h"

#include "containers/containers.h"

uint64_t rank_allocated_bytes(const struct live_rank *rank)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < rank->device_count; i++)
		bytes += rank->devices[i].allocated_bytes;
	return bytes;
}

static struct history *history_find(const struct view *view, const struct live_rank *rank)
{
	for (size_t i = 0; i < arrlenu(view->histories); i++)
		if (view->histories[i].target == rank->target &&
			view->histories[i].start_time_ns == rank->start_time_ns)
			return &view->histories[i];
	return NULL;
}

const struct history *view_history(const struct view *view, const struct live_rank *rank)
{
	return history_find(view, rank);
}

static struct history *history_make(struct view *view, const struct live_rank *rank)
{
	struct history *known = history_find(view, rank);
	struct history history = {
		.target = rank->target, .start_time_ns = rank->start_time_ns, .allocation_rate = RATE_UNKNOWN};

	if (known)
		return known;
	arrput(view->histories, history);
	return &arrlast(view->histories);
}

/* A sample is the most of its second; one that was missed is like the one before. */
static void sample_add(struct history *history, uint64_t bytes, uint64_t now_ns)
{
	uint64_t *last = &history->bytes[(history->samples - 1) % HISTORY_SAMPLES], before;

	if (history->samples && now_ns - history->sample_ns < HISTORY_SAMPLE_NS) {
		*last = bytes > *last ? bytes : *last;
		return;
	}
	before = history->samples ? *last : bytes;
	for (; history->samples && now_ns - history->sample_ns >= 2 * HISTORY_SAMPLE_NS;
		history->sample_ns += HISTORY_SAMPLE_NS)
		history->bytes[history->samples++ % HISTORY_SAMPLES] = before;
	history->bytes[history->samples++ % HISTORY_SAMPLES] = bytes;
	history->sample_ns = history->samples > 1 ? history->sample_ns + HISTORY_SAMPLE_NS : now_ns;
}

static void history_update(struct view *view, const struct live_rank *rank, double seconds)
{
	bool is_new = !history_find(view, rank);
	struct history *history = history_make(view, rank);
	const struct live_device *device = live_device_main(rank);
	uint64_t allocated = rank_allocated_bytes(rank);

	history->seen = true;
	if (!is_new && seconds > 0)
		history->allocation_rate = (double)(allocated - history->allocated_bytes) / seconds;
	history->allocated_bytes = allocated;
	sample_add(history, device ? device->bytes : 0, view->now_ns);
}

static void histories_drop(struct view *view)
{
	for (size_t i = arrlenu(view->histories); i-- > 0;) {
		if (!view->histories[i].seen)
			arrdel(view->histories, i);
		else
			view->histories[i].seen = false;
	}
}

void view_update(struct view *view, const struct recording_cost *cost, uint64_t now_ns, int64_t real_ns)
{
	double seconds = view->now_ns ? (double)(now_ns - view->now_ns) / 1e9 : 0;

	view->record_rate = view->processor_share = RATE_UNKNOWN;
	if (seconds > 0) {
		view->record_rate = (double)(cost->records - view->cost.records) / seconds;
		view->processor_share = (double)(cost->processor_ns - view->cost.processor_ns) / 1e9 / seconds;
	} else {
		view->first_cost = *cost;
		view->first_ns = now_ns;
	}
	view->before_ns = view->now_ns;
	view->now_ns = now_ns;
	view->real_ns = real_ns;
	view->cost = *cost;
	for (size_t i = 0; i < live_rank_count(view->live); i++)
		history_update(view, live_rank_at(view->live, i), seconds);
	histories_drop(view);
}

void view_free(struct view *view)
{
	arrfree(view->histories);
	live_free(view->live);
}

/* The value in the largest unit that leaves something before the point; what would be shown as 1024.0 is 1.0 of the
 * next. */
static size_t unit_find(double *value)
{
	size_t unit = 0;

	for (; *value >= 1023.95 && unit < 6; unit++)
		*value /= 1024;
	return unit;
}

const char *bytes_text(uint64_t bytes, char text[BYTES_TEXT])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = unit_find(&value);

	if (bytes == LIVE_UNKNOWN)
		snprintf(text, BYTES_TEXT, "-");
	else
		snprintf(text, BYTES_TEXT, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

const char *bytes_short(uint64_t bytes, char text[BYTES_TEXT])
{
	double value = (double)bytes;
	size_t unit = unit_find(&value);

	if (bytes == LIVE_UNKNOWN)
		snprintf(text, BYTES_TEXT, "-");
	else
		snprintf(text, BYTES_TEXT, unit ? "%.1f%c" : "%.0f", value, " KMGTPE"[unit]);
	return text;
}
