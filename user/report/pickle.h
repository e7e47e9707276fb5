/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python's pickle format, protocol 4, with those opcodes alone that PyTorch's
 * viewer of memory snapshots understands (docs/report-format.md). Errors of the
 * file are kept in it. Opcodes: CPython, Lib/pickletools.py.
 */
#ifndef HDTRACE_REPORT_PICKLE_H
#define HDTRACE_REPORT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Readers count in doubles: greater numbers become this one. */
#define PICKLE_INTEGER_MAX ((1ll << 53) - 1)

struct pickle {
	FILE *file;
	uint32_t memo_count;
	char *text; /* stb_ds: the last string */
	struct {
		const char *key;
		uint32_t value;
	} * texts; /* stb_ds map: strings that were written, by address */
};

/* An open list: its items are appended a batch at a time. */
struct pickle_list {
	struct pickle *pickle;
	size_t count;
};

void pickle_begin(struct pickle *pickle, FILE *file);
void pickle_end(struct pickle *pickle);

void pickle_integer(struct pickle *pickle, int64_t value);
/* A text of the model, or a literal: equal addresses are the same string. Wrong bytes become U+FFFD. */
void pickle_text(struct pickle *pickle, const char *text);
/* One that is not there any more when the next is written. */
void pickle_fresh_text(struct pickle *pickle, const char *text);
void pickle_boolean(struct pickle *pickle, bool value);
void pickle_pair(struct pickle *pickle, int64_t first, int64_t second);

/* Keys and values come between the two, in turns. */
void pickle_dict(struct pickle *pickle);
void pickle_dict_end(struct pickle *pickle);

/* Before each item pickle_list_item. */
struct pickle_list pickle_list(struct pickle *pickle);
void pickle_list_item(struct pickle_list *list);
void pickle_list_end(struct pickle_list *list);

/* Keep what was written last, to be repeated by its number. */
uint32_t pickle_keep(struct pickle *pickle);
void pickle_again(struct pickle *pickle, uint32_t number);

#endif
