/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the screen, from top to bottom. Private to this room. */
#ifndef HDTRACE_TOP_SCREEN_PARTS_H
#define HDTRACE_TOP_SCREEN_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "top/view.h"

enum sort { SORT_RANK, SORT_MEMORY, SORT_PEAK, SORT_RATE, SORT_STEP, SORTS };

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_BAD, COLOUR_NOTE, COLOUR_MEMORY, COLOUR_NAME, COLOURS };

struct sheet {
	int rows, columns;
	bool colours, unicode;
	bool paused, help;
	enum sort sort;
	size_t *order;       /* stb_ds: ranks of the view as they are shown */
	ptrdiff_t selected;  /* index into order */
	int selected_target; /* its target, which it stays with; -1: none yet */
	ptrdiff_t first;     /* index of the first that is shown */
	int ranks_shown;     /* rows for ranks */
};

/* Which ranks are shown in which order. */
void sheet_order(struct sheet *sheet, const struct view *view);

/* Each draws from `row` on and returns the row behind it; what does not fit above the last row is left out. */
int sheet_head(struct sheet *sheet, const struct view *view, int row);
int sheet_ranks(struct sheet *sheet, const struct view *view, int row);
int sheet_memory(struct sheet *sheet, const struct view *view, int row);
int sheet_places(struct sheet *sheet, const struct view *view, int row);
int sheet_collectives(struct sheet *sheet, const struct view *view, int row);
void sheet_help(struct sheet *sheet, int row);
void sheet_foot(struct sheet *sheet, const struct view *view);

#endif
