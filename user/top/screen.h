/* SPDX-License-Identifier: BSD-2-Clause */
/* The screen of `hdtrace top`: draws a view, takes keys. */
#ifndef HDTRACE_TOP_SCREEN_H
#define HDTRACE_TOP_SCREEN_H

#include <stdbool.h>

#include "top/view.h"

struct screen;

/*
 * Takes the terminal over. 0; -ENOTTY: standard input or output is none; -ENOTSUP: it is of a kind that nothing can be
 * drawn on; -ENOMEM.
 */
int screen_open(struct screen **screen);

/* Gives the terminal back as it was. Accepts NULL. */
void screen_close(struct screen *screen);

void screen_draw(struct screen *screen, const struct view *view);

enum screen_wish { SCREEN_NOTHING, SCREEN_DRAW, SCREEN_QUIT };

/* Takes the keys that wait; is there something to do? Also where the terminal is gone (SCREEN_QUIT). */
enum screen_wish screen_keys(struct screen *screen);

/* Is the view to stay as it is? */
bool screen_is_paused(const struct screen *screen);

#endif
