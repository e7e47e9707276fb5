/* SPDX-License-Identifier: BSD-2-Clause */
/* Text of a target in the forms that reports need it: CSV fields, JSON strings, stacks. */
#ifndef HDTRACE_REPORT_TEXT_H
#define HDTRACE_REPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/model.h"

#define TEXT_REPLACEMENT 0xfffdu /* for bytes that are no UTF-8 */

/* The next code point of UTF-8 text, moving `at` behind it; TEXT_REPLACEMENT for a wrong byte. `at` < `end`. */
uint32_t text_next(const char **at, const char *end);

/* One CSV field as Python's csv writes it by default; line breaks become spaces, wrong bytes U+FFFD. */
void text_write_csv(FILE *file, const char *text);
/* The same, appended to an stb_ds array of char. */
char *text_append_csv(char *array, const char *text);

/*
 * Append to an stb_ds array of char: UTF-8, wrong bytes as U+FFFD, line breaks as spaces, and each byte of `unwanted`
 * (ASCII) as `with`. No NUL is added.
 */
char *text_append_replaced(char *array, const char *text, const char *unwanted, char with);
/* A field of a CSV that knows no quotes: commas become '_'. */
char *text_append_unquoted(char *array, const char *text);

/* Append to an stb_ds array of char: a JSON string with quotes, ASCII only; and the terminating NUL, not counted. */
char *text_append_json(char *array, const char *text);

/* A code point as JSON text of ASCII, without what JSON itself must have escaped below 0x80. */
char *text_append_escaped(char *array, uint32_t code);

/*
 * The python_stack text, stb_ds array with NUL (counted), freed by the caller with arrfree. What would end a frame or
 * one of its parts for a reader is replaced: '|' by '_', line breaks by spaces, ';' before Line: and Function: by ','.
 */
char *text_of_stack(const struct stack *stack);

/* A character for a terminal, `from` to `to` being its bytes: nothing that would move the cursor. */
void text_write_character(FILE *file, const char *from, const char *to, uint32_t code);
/* Text in exactly (pad) or at most so many columns; the front goes first. */
void text_write_columns(FILE *file, const char *text, int columns, bool pad);

/* Categories in the order of their names. */
extern const enum category categories_sorted[CATEGORIES];

#endif
