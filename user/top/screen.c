// SPDX-License-Identifier: BSD-2-Clause
/*
 * The terminal: taken over, given back, keys, and where what stands. What the parts
 * show is in screen_parts.c. Standard output is the screen; nothing else may write to
 * it, nor to stderr where that is the same terminal, while it is open.
 */
#include "top/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>
#undef columns /* names of capabilities are macros there */
#undef lines

#include "containers/containers.h"
#include "top/screen_parts.h"

#define ESCAPE_DELAY_MS 25
#define LINES_MIN 8
#define COLUMNS_MIN 40

struct screen {
	SCREEN *terminal;
	struct sheet sheet;
};

/* --- taken over and given back ---------------------------------------------------------- */

/* What the terminal's description must have for a screen to be drawn. */
static bool terminal_is_drawable(void)
{
	const char *name = getenv("TERM");
	int state;

	if (!name || !*name || setupterm(name, STDOUT_FILENO, &state) != OK)
		return false;
	return tigetstr("cup") != NULL && tigetstr("cup") != (char *)-1 && tigetstr("clear") != NULL;
}

/* https://no-color.org: set and not empty. */
static bool colours_are_wanted(void)
{
	const char *value = getenv("NO_COLOR");

	return (!value || !*value) && has_colors();
}

static void colours_begin(struct sheet *sheet)
{
	static const short colours[COLOURS] = {
		[COLOUR_GOOD] = COLOR_GREEN,
		[COLOUR_BAD] = COLOR_RED,
		[COLOUR_NOTE] = COLOR_YELLOW,
		[COLOUR_MEMORY] = COLOR_CYAN,
		[COLOUR_NAME] = COLOR_BLUE,
	};

	sheet->colours = colours_are_wanted() && start_color() == OK && use_default_colors() == OK;
	for (short colour = 1; sheet->colours && colour < COLOURS; colour++)
		init_pair(colour, colours[colour], -1);
}

int screen_open(struct screen **out)
{
	struct screen *screen;

	*out = NULL;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -ENOTTY;
	/* Only which characters there are; numbers are written as everywhere else. */
	setlocale(LC_CTYPE, "");
	if (!terminal_is_drawable())
		return -ENOTSUP;
	screen = calloc(1, sizeof(*screen));
	if (!screen)
		return -ENOMEM;
	screen->sheet.sort = SORT_RANK;
	screen->sheet.unicode = !strcmp(nl_langinfo(CODESET), "UTF-8");
	screen->terminal = newterm(NULL, stdout, stdin);
	if (!screen->terminal) {
		free(screen);
		return -ENOTSUP;
	}
	set_term(screen->terminal);
	set_escdelay(ESCAPE_DELAY_MS);
	cbreak();
	noecho();
	nonl();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	colours_begin(&screen->sheet);
	*out = screen;
	return 0;
}

void screen_close(struct screen *screen)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen->terminal);
	arrfree(screen->sheet.order);
	free(screen);
}

/* --- drawing ------------------------------------------------------------------------------ */

void screen_draw(struct screen *screen, const struct view *view)
{
	struct sheet *sheet = &screen->sheet;
	int row = 0;

	erase();
	sheet->rows = LINES;
	sheet->columns = COLS;
	if (LINES < LINES_MIN || COLS < COLUMNS_MIN) {
		mvaddnstr(0, 0, "the window is too small", COLS);
		refresh();
		return;
	}
	sheet_order(sheet, view);
	row = sheet_head(sheet, view, row);
	if (sheet->help)
		sheet_help(sheet, row);
	else {
		row = sheet_ranks(sheet, view, row);
		row = sheet_memory(sheet, view, row);
		row = sheet_places(sheet, view, row);
		sheet_collectives(sheet, view, row);
	}
	sheet_foot(sheet, view);
	refresh();
}

/* --- keys ----------------------------------------------------------------------------------- */

static void selection_move(struct sheet *sheet, int by)
{
	ptrdiff_t count = arrlen(sheet->order), at = sheet->selected + by;

	sheet->selected = at < 0 || !count ? 0 : at < count ? at : count - 1;
	sheet->selected_target = -1; /* the next order tells it */
}

static const struct {
	int key;
	enum sort sort;
} sort_keys[] = {{'r', SORT_RANK}, {'m', SORT_MEMORY}, {'p', SORT_PEAK}, {'a', SORT_RATE}, {'s', SORT_STEP}};

static bool sort_choose(struct sheet *sheet, int key)
{
	for (size_t i = 0; i < sizeof(sort_keys) / sizeof(*sort_keys); i++) {
		if (sort_keys[i].key != key)
			continue;
		sheet->sort = sort_keys[i].sort;
		return true;
	}
	return false;
}

static enum screen_wish key_take(struct sheet *sheet, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return SCREEN_QUIT;
	case ' ':
		sheet->paused = !sheet->paused;
		return SCREEN_DRAW;
	case 'h':
	case '?':
		sheet->help = !sheet->help;
		return SCREEN_DRAW;
	case 27: /* escape */
		sheet->help = false;
		return SCREEN_DRAW;
	case KEY_UP:
	case 'k':
		selection_move(sheet, -1);
		return SCREEN_DRAW;
	case KEY_DOWN:
	case 'j':
	case '\t':
		selection_move(sheet, 1);
		return SCREEN_DRAW;
	case KEY_PPAGE:
		selection_move(sheet, -sheet->ranks_shown);
		return SCREEN_DRAW;
	case KEY_NPAGE:
		selection_move(sheet, sheet->ranks_shown);
		return SCREEN_DRAW;
	case 'l' & 0x1f: /* Ctrl-L */
		clearok(curscr, TRUE);
		return SCREEN_DRAW;
	case KEY_RESIZE:
		return SCREEN_DRAW;
	default:
		return sort_choose(sheet, key) ? SCREEN_DRAW : SCREEN_NOTHING;
	}
}

/* A terminal that has gone without a signal. */
static bool terminal_is_gone(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) == 1 && (input.revents & (POLLHUP | POLLERR | POLLNVAL));
}

enum screen_wish screen_keys(struct screen *screen)
{
	enum screen_wish wish = SCREEN_NOTHING;
	int key;

	if (terminal_is_gone())
		return SCREEN_QUIT;
	while ((key = getch()) != ERR) {
		enum screen_wish one = key_take(&screen->sheet, key);

		if (one == SCREEN_QUIT)
			return SCREEN_QUIT;
		wish = one == SCREEN_DRAW ? SCREEN_DRAW : wish;
	}
	return wish;
}

bool screen_is_paused(const struct screen *screen)
{
	return screen->sheet.paused;
}
