// SPDX-License-Identifier: BSD-2-Clause
/* What the screen shows: a table of ranks, and of the selected one its memory, places and collectives. */
#include "top/screen_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curses.h>

#include "containers/containers.h"

#define FOOT_ROWS 1
#define RANKS_PART 3 /* of the screen at most a third is ranks */
#define PLACES_SHOWN 16
#define GROUPS_SHOWN 4
#define NAME_COLUMNS 12 /* of categories, and of the names of lines */
#define BYTES_COLUMNS 10
#define TEXT_ROOM 512

/* --- writing --------------------------------------------------------------------------------- */

static int room_end(const struct sheet *sheet)
{
	return sheet->rows - FOOT_ROWS;
}

static void style_set(const struct sheet *sheet, enum colour colour, attr_t attributes)
{
	attrset(attributes | (sheet->colours && colour ? COLOR_PAIR(colour) : 0));
}

/* What came from a target must not drive the terminal. */
static void text_clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

__attribute__((format(printf, 6, 7))) static void put(
	const struct sheet *sheet, int row, int column, int width, enum colour colour, const char *format, ...)
{
	char text[TEXT_ROOM];
	va_list arguments;

	if (row >= room_end(sheet) || column >= sheet->columns || width <= 0)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	text_clean(text);
	style_set(sheet, colour, A_NORMAL);
	if (width > sheet->columns - column)
		width = sheet->columns - column;
	mvaddnstr(row, column, text, width);
	attrset(A_NORMAL);
}

/* The end of a long name tells more than its begin. */
static const char *name_end(const char *name, int width)
{
	size_t length = strlen(name);

	return width > 0 && length > (size_t)width ? name + length - (size_t)width : name;
}

static void number_text(double value, const char *unit, char text[BYTES_TEXT])
{
	if (value == RATE_UNKNOWN)
		snprintf(text, BYTES_TEXT, "-");
	else if (value >= 1e6)
		snprintf(text, BYTES_TEXT, "%.1fM%s", value / 1e6, unit);
	else if (value >= 1e4)
		snprintf(text, BYTES_TEXT, "%.1fk%s", value / 1e3, unit);
	else
		snprintf(text, BYTES_TEXT, "%.0f%s", value, unit);
}

static void seconds_text(uint64_t nanoseconds, char text[BYTES_TEXT])
{
	double seconds = (double)nanoseconds / 1e9;

	if (nanoseconds == LIVE_UNKNOWN)
		snprintf(text, BYTES_TEXT, "-");
	else if (seconds >= 1)
		snprintf(text, BYTES_TEXT, "%.2f s", seconds);
	else
		snprintf(text, BYTES_TEXT, "%.1f ms", seconds * 1e3);
}

static void heading(const struct sheet *sheet, int row, const char *text)
{
	if (row >= room_end(sheet))
		return;
	style_set(sheet, COLOUR_NAME, A_BOLD);
	mvaddnstr(row, 0, text, sheet->columns);
	attrset(A_NORMAL);
}

/* --- order -------------------------------------------------------------------------------------- */

static double sort_value(const struct view *view, size_t index, enum sort sort)
{
	const struct live_rank *rank = live_rank_at(view->live, index);
	const struct live_device *device = live_device_main(rank);
	const struct history *history = view_history(view, rank);

	switch (sort) {
	case SORT_MEMORY:
		return device ? (double)device->bytes : -1;
	case SORT_PEAK:
		return device ? (double)device->peak_bytes : -1;
	case SORT_RATE:
		return history ? history->allocation_rate : -1;
	case SORT_STEP:
		return live_step_ns(rank) == LIVE_UNKNOWN ? -1 : (double)live_step_ns(rank);
	default:
		return -(rank->rank == RANK_UNKNOWN ? (double)INT32_MAX : (double)rank->rank);
	}
}

/* A few ranks, nearly in order: by insertion, which keeps equal ones as they were. */
void sheet_order(struct sheet *sheet, const struct view *view)
{
	arrsetlen(sheet->order, 0);
	for (size_t index = 0; index < live_rank_count(view->live); index++) {
		double value = sort_value(view, index, sheet->sort);
		size_t at = arrlenu(sheet->order);

		if (!live_rank_at(view->live, index)->is_rank)
			continue;
		while (at > 0 && sort_value(view, sheet->order[at - 1], sheet->sort) < value)
			at--;
		arrins(sheet->order, at, index);
	}
	for (size_t i = 0; i < arrlenu(sheet->order); i++)
		if (live_rank_at(view->live, sheet->order[i])->target == sheet->selected_target)
			sheet->selected = (ptrdiff_t)i;
	if (sheet->selected >= arrlen(sheet->order))
		sheet->selected = 0;
	sheet->selected_target =
		arrlen(sheet->order) ? live_rank_at(view->live, sheet->order[sheet->selected])->target : -1;
}

static const struct live_rank *rank_selected(const struct sheet *sheet, const struct view *view)
{
	return arrlen(sheet->order) ? live_rank_at(view->live, sheet->order[sheet->selected]) : NULL;
}

/* --- head and foot --------------------------------------------------------------------------------- */

int sheet_head(struct sheet *sheet, const struct view *view, int row)
{
	time_t seconds = (time_t)(view->real_ns / 1000000000);
	char clock[16] = "", rate[BYTES_TEXT], memory[BYTES_TEXT], share[BYTES_TEXT] = "-";
	uint64_t lost = 0;
	struct tm local;

	if (localtime_r(&seconds, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	for (size_t i = 0; i < live_rank_count(view->live); i++)
		lost += live_rank_at(view->live, i)->lost;
	number_text(view->record_rate, "/s", rate);
	bytes_text(view->cost.memory_bytes, memory);
	if (view->processor_share != RATE_UNKNOWN)
		snprintf(share, sizeof(share), "%.1f%%", 100 * view->processor_share);
	style_set(sheet, COLOUR_NONE, A_BOLD);
	mvaddnstr(row, 0, "hdtrace top", sheet->columns);
	attrset(A_NORMAL);
	put(sheet, row, 12, sheet->columns - 12, COLOUR_NONE, "%s  %s  %td rank%s  %s records  own %s %s%s", clock,
		view->lite ? "lite" : "full", arrlen(sheet->order), arrlen(sheet->order) == 1 ? "" : "s", rate, share,
		memory, sheet->paused ? "  PAUSED" : "");
	put(sheet, row + 1, 0, sheet->columns, lost ? COLOUR_BAD : COLOUR_GOOD,
		lost ? "lost %llu events" : "lost nothing", (unsigned long long)lost);
	put(sheet, row + 1, 20, sheet->columns - 20, COLOUR_NOTE, "%s", view->message);
	return row + 2;
}

void sheet_foot(struct sheet *sheet, const struct view *view)
{
	static const char *const sorts[SORTS] = {"rank", "memory", "peak", "rate", "step"};

	(void)view;
	style_set(sheet, COLOUR_NONE, A_REVERSE);
	mvhline(sheet->rows - 1, 0, ' ', sheet->columns);
	mvprintw(sheet->rows - 1, 0, "%.*s", sheet->columns - 1,
		"q quit  h help  space pause  up/down select  r m p a s sort");
	attrset(A_NORMAL);
	if (sheet->columns >= 78) {
		style_set(sheet, COLOUR_NONE, A_REVERSE);
		mvprintw(sheet->rows - 1, sheet->columns - 16, "sort: %s", sorts[sheet->sort]);
		attrset(A_NORMAL);
	}
}

void sheet_help(struct sheet *sheet, int row)
{
	static const char *const lines[] = {
		"q          quit; the job goes on, the probes are taken off",
		"up, down   select a rank (k, j, tab; page up, page down)",
		"space      pause the display; what comes is followed all the same",
		"r m p a s  sort by rank, memory now, peak, allocation rate, step time",
		"Ctrl-L     draw again",
		"h, ?       this help; escape: back",
		"",
		"NOW, PEAK   bytes given out by the device's allocator; the peak since hdtrace looks",
		"RESERVED    what the allocator holds of the device; HEADROOM: what is left of the device",
		"lite        lines, activations and temporary memory are not told apart (--level full)",
		"-           not known",
	};

	heading(sheet, row++, "Help");
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		put(sheet, row++, 1, sheet->columns - 1, COLOUR_NONE, "%s", lines[i]);
}

/* --- ranks ---------------------------------------------------------------------------------------------- */

#define COLUMNS_WIDE 108
#define RANKS_WIDE "%5s %8s %-8s %9s %9s %9s %9s %10s %-9s %9s %s"
#define RANKS_NARROW "%4s %7s %-6s %6s %6s %6s %6s %7s %-3s %8s %s"
#define WAIT_TEXT 48

static bool is_wide(const struct sheet *sheet)
{
	return sheet->columns >= COLUMNS_WIDE;
}

static void wait_text(
	const struct sheet *sheet, const struct view *view, const struct live_rank *rank, char text[WAIT_TEXT])
{
	const struct live_wait *wait = &rank->wait;
	char since[BYTES_TEXT];

	snprintf(text, WAIT_TEXT, "%s", rank->ended ? "ended" : "");
	if (!wait->waits || view->now_ns < wait->since_ns)
		return;
	seconds_text(view->now_ns - wait->since_ns, since);
	if (is_wide(sheet))
		snprintf(text, WAIT_TEXT, "for rank %d%s, %s", wait->absent_ranks[0],
			wait->absent > 1 ? " and others" : "", since);
	else
		snprintf(text, WAIT_TEXT, "r%d%s %s", wait->absent_ranks[0], wait->absent > 1 ? "+" : "", since);
}

static const char *phase_text(const struct sheet *sheet, const struct live_rank *rank)
{
	static const char *const names[PHASES] = {"init", "forward", "recompute", "backward", "optimizer"};
	static const char *const narrow[PHASES] = {"ini", "fwd", "rec", "bwd", "opt"};

	if (!rank->phase_known || rank->phase >= PHASES)
		return "-";
	return is_wide(sheet) ? names[rank->phase] : narrow[rank->phase];
}

static void rank_draw(const struct sheet *sheet, const struct view *view, size_t order, int row)
{
	const char *(*bytes)(uint64_t bytes, char text[BYTES_TEXT]) = is_wide(sheet) ? bytes_text : bytes_short;
	const struct live_rank *rank = live_rank_at(view->live, sheet->order[order]);
	const struct live_device *device = live_device_main(rank);
	const struct history *history = view_history(view, rank);
	char number[BYTES_TEXT] = "-", pid[BYTES_TEXT], now[BYTES_TEXT], peak[BYTES_TEXT], reserved[BYTES_TEXT],
	     headroom[BYTES_TEXT], rate[BYTES_TEXT] = "-", step[BYTES_TEXT], wait[WAIT_TEXT], line[TEXT_ROOM];

	if (rank->rank != RANK_UNKNOWN)
		snprintf(number, sizeof(number), "%d", rank->rank);
	snprintf(pid, sizeof(pid), "%d", rank->pid);
	bytes(device ? device->bytes : LIVE_UNKNOWN, now);
	bytes(device ? device->peak_bytes : LIVE_UNKNOWN, peak);
	bytes(device && device->has_totals ? device->reserved_bytes : LIVE_UNKNOWN, reserved);
	bytes(device ? live_headroom(device) : LIVE_UNKNOWN, headroom);
	if (history && history->allocation_rate != RATE_UNKNOWN)
		bytes((uint64_t)history->allocation_rate, rate);
	seconds_text(live_step_ns(rank), step);
	wait_text(sheet, view, rank, wait);
	snprintf(line, sizeof(line), is_wide(sheet) ? RANKS_WIDE : RANKS_NARROW, number, pid,
		device ? device->name : "-", now, peak, reserved, headroom, rate, phase_text(sheet, rank), step, wait);
	text_clean(line);
	style_set(sheet, rank->wait.waits || rank->ended ? COLOUR_NOTE : COLOUR_NONE,
		(ptrdiff_t)order == sheet->selected ? A_REVERSE : A_NORMAL);
	mvhline(row, 0, ' ', sheet->columns);
	mvaddnstr(row, 0, line, sheet->columns);
	attrset(A_NORMAL);
}

int sheet_ranks(struct sheet *sheet, const struct view *view, int row)
{
	ptrdiff_t count = arrlen(sheet->order);
	char head[TEXT_ROOM];

	snprintf(head, sizeof(head), is_wide(sheet) ? RANKS_WIDE : RANKS_NARROW, "RANK", "PID", "DEVICE", "NOW", "PEAK",
		is_wide(sheet) ? "RESERVED" : "RESERV", is_wide(sheet) ? "HEADROOM" : "HEADRM", "ALLOC/S",
		is_wide(sheet) ? "PHASE" : "PH", "STEP", "WAITS");
	heading(sheet, row++, head);
	sheet->ranks_shown = sheet->rows / RANKS_PART;
	if (sheet->selected < sheet->first)
		sheet->first = sheet->selected;
	if (sheet->selected >= sheet->first + sheet->ranks_shown)
		sheet->first = sheet->selected - sheet->ranks_shown + 1;
	for (ptrdiff_t i = sheet->first; i < count && i < sheet->first + sheet->ranks_shown; i++)
		rank_draw(sheet, view, (size_t)i, row++);
	if (!count)
		put(sheet, row++, 0, sheet->columns, COLOUR_NOTE, "no process with PyTorch yet");
	return row;
}

/* --- memory of the selected rank ------------------------------------------------------------------------------ */

/* One column is the most of its samples, the last one at the right. */
static uint64_t column_bytes(const struct history *history, int column, int columns)
{
	uint64_t each = (HISTORY_SAMPLES + (uint64_t)columns - 1) / (uint64_t)columns, most = LIVE_UNKNOWN;
	uint64_t behind = (uint64_t)(columns - 1 - column) * each;

	for (uint64_t i = behind; i < behind + each && i < history->samples && i < HISTORY_SAMPLES; i++) {
		uint64_t bytes = history->bytes[(history->samples - 1 - i) % HISTORY_SAMPLES];

		most = most == LIVE_UNKNOWN || bytes > most ? bytes : most;
	}
	return most;
}

static void spark_draw(const struct sheet *sheet, const struct history *history, int row, int column, int width)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
	uint64_t most = 1;

	if (width <= 0 || row >= room_end(sheet))
		return;
	for (int i = 0; i < width; i++) {
		uint64_t bytes = column_bytes(history, i, width);

		most = bytes != LIVE_UNKNOWN && bytes > most ? bytes : most;
	}
	style_set(sheet, COLOUR_MEMORY, A_NORMAL);
	for (int i = 0; i < width; i++) {
		uint64_t bytes = column_bytes(history, i, width);
		size_t level = bytes == LIVE_UNKNOWN ? 0 : (size_t)((double)bytes / (double)most * 7.999);

		mvaddstr(row, column + i, bytes == LIVE_UNKNOWN ? " " : (sheet->unicode ? blocks : plain)[level]);
	}
	attrset(A_NORMAL);
}

static void bar_draw(const struct sheet *sheet, int row, int column, int width, double share)
{
	int filled = (int)(share * width + 0.5);

	if (width <= 0 || row >= room_end(sheet))
		return;
	style_set(sheet, COLOUR_MEMORY, A_NORMAL);
	for (int i = 0; i < filled && i < width; i++)
		mvaddch(row, column + i, '#');
	attrset(A_NORMAL);
}

static void category_draw(
	const struct sheet *sheet, const struct live_device *device, size_t category, int row, int column, int width)
{
	uint64_t bytes = device->category_bytes[category];
	double share = device->bytes ? (double)bytes / (double)device->bytes : 0;
	char text[BYTES_TEXT];

	share = share > 1 ? 1 : share;
	put(sheet, row, column, width, COLOUR_NONE, "%-*s %*s %3.0f%%", NAME_COLUMNS, live_category_name(category),
		BYTES_COLUMNS, bytes_text(bytes, text), 100 * share);
	bar_draw(
		sheet, row, column + NAME_COLUMNS + BYTES_COLUMNS + 7, width - NAME_COLUMNS - BYTES_COLUMNS - 8, share);
}

/* Those that have something, in two columns. */
static int categories_draw(const struct sheet *sheet, const struct live_device *device, int row)
{
	int width = sheet->columns / 2, shown = 0;

	for (size_t category = 0; category < LIVE_CATEGORIES; category++) {
		if (!device->category_bytes[category])
			continue;
		category_draw(sheet, device, category, row + shown / 2, shown % 2 * width, width);
		shown++;
	}
	return row + (shown + 1) / 2;
}

int sheet_memory(struct sheet *sheet, const struct view *view, int row)
{
	const struct live_rank *rank = rank_selected(sheet, view);
	const struct live_device *device = rank ? live_device_main(rank) : NULL;
	const struct history *history = rank ? view_history(view, rank) : NULL;
	char idle[BYTES_TEXT], text[TEXT_ROOM];

	if (!device || !history)
		return row;
	snprintf(text, sizeof(text), "Rank %d, pid %d, %s", rank->rank, rank->pid, rank->command);
	text_clean(text);
	heading(sheet, row++, text);
	put(sheet, row, 0, NAME_COLUMNS, COLOUR_NONE, "last 5 min");
	spark_draw(sheet, history, row++, NAME_COLUMNS, sheet->columns - NAME_COLUMNS - 1);
	row = categories_draw(sheet, device, row);
	bytes_text(device->idle_bytes, idle);
	put(sheet, row++, 0, sheet->columns, device->out_of_memories ? COLOUR_BAD : COLOUR_NONE,
		"blocks %llu   unused for a step %s   out of memory %llu times   steps %u",
		(unsigned long long)device->blocks, idle, (unsigned long long)device->out_of_memories, rank->steps);
	put(sheet, row++, 0, sheet->columns, COLOUR_NONE, "at %s", name_end(rank->line, sheet->columns - 4));
	return row;
}

/* --- places ------------------------------------------------------------------------------------------------------ */

static int table_draw(const struct sheet *sheet, const struct view *view, enum live_table table, const char *name,
	int row, int column, int width, int rows)
{
	struct live_place places[PLACES_SHOWN];
	size_t count = live_top(view->live, sheet->order[sheet->selected], table, places,
		rows < PLACES_SHOWN ? (size_t)rows : PLACES_SHOWN);
	int room = width - BYTES_COLUMNS - 2;

	style_set(sheet, COLOUR_NAME, A_BOLD);
	mvaddnstr(row, column, name, width);
	attrset(A_NORMAL);
	for (size_t i = 0; i < count; i++) {
		char text[BYTES_TEXT];
		const char *shown = places[i].name ? places[i].name : "(all others)";

		put(sheet, row + 1 + (int)i, column, width - 1, COLOUR_NONE, "%*s  %s", BYTES_COLUMNS,
			bytes_text(places[i].bytes, text), name_end(shown, room - 1));
	}
	if (!count)
		put(sheet, row + 1, column, width, COLOUR_NONE, "%*s", BYTES_COLUMNS, "-");
	return (int)count;
}

int sheet_places(struct sheet *sheet, const struct view *view, int row)
{
	int left = room_end(sheet) - row - 1, width = sheet->columns / 2, modules, lines;
	const struct live_rank *rank = rank_selected(sheet, view);

	/* Below come the collectives, if there are any. */
	left -= rank && rank->group_count ? 2 : 0;
	if (!rank || left < 1)
		return row;
	modules = table_draw(sheet, view, LIVE_MODULES, "MODULES", row, 0, width, left);
	lines = table_draw(sheet, view, LIVE_LINES, "LINES", row, width, sheet->columns - width, left);
	modules = modules > lines ? modules : lines;
	return row + 1 + (modules ? modules : 1);
}

/* --- collectives ----------------------------------------------------------------------------------------------------
 */

int sheet_collectives(struct sheet *sheet, const struct view *view, int row)
{
	const struct live_rank *rank = rank_selected(sheet, view);

	if (!rank || !rank->group_count)
		return row;
	heading(sheet, row++, "COLLECTIVES");
	for (size_t i = 0; i < rank->group_count && i < GROUPS_SHOWN; i++) {
		const struct live_group *group = &rank->groups[i];
		struct collective kind = {.kind = group->kind};
		char bytes[BYTES_TEXT], ago[BYTES_TEXT];

		seconds_text(view->now_ns > group->time_ns ? view->now_ns - group->time_ns : 0, ago);
		put(sheet, row++, 1, sheet->columns - 1, COLOUR_NONE, "%s %s of %d ranks: %llu, the last %s, %s ago",
			collective_layer_name(group->layer), collective_kind_name(&kind), group->size,
			(unsigned long long)group->collectives, bytes_text(group->bytes, bytes), ago);
	}
	return row;
}
