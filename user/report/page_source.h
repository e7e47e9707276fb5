/* SPDX-License-Identifier: BSD-2-Clause */
/* A rank as the columns of the page are made from it; only for the files that make them. */
#ifndef HDTRACE_REPORT_PAGE_SOURCE_H
#define HDTRACE_REPORT_PAGE_SOURCE_H

#include "containers/containers.h"
#include "model/model.h"
#include "page_data.h"

/* Texts of the model are there once: an address is as good as the text. */
struct texts {
	const char **list; /* stb_ds */
	struct {
		const char *key;
		uint32_t value;
	} * index; /* stb_ds map */
};

struct frame_key {
	const char *file, *function;
	uint64_t line;
};

struct frames {
	struct frame_key *list; /* stb_ds */
	struct {
		struct frame_key key;
		uint32_t value;
	} * index; /* stb_ds map */
};

/* A rank with what its columns refer to. */
struct source {
	const struct rank *rank;
	struct texts texts;
	struct frames frames;
	uint64_t *places;                  /* of blocks: layout.h */
	const struct operator_run **tasks; /* stb_ds: the runs that are tasks */
	uint32_t *stack_frames;            /* stb_ds: of all stacks, indices into frames */
	uint64_t *users;                   /* stb_ds: of all blocks, their tasks */
};

typedef uint64_t (*column_value)(struct source *source, size_t index);

struct column {
	const char *name;
	enum page_coding coding;
	column_value value;
};

/* The place of a text among those of the page; it is added when it is new. */
uint64_t page_text_index(struct texts *texts, const char *text);
/* Nanoseconds since the rank's first event; 0 before it. */
uint64_t page_time(const struct rank *rank, uint64_t time_ns);
/* One more than an index or a task, 0: none. */
uint64_t page_known(int64_t value);

/* Of blocks; as many as page_block_column_count. */
extern const struct column page_block_columns[];
extern const size_t page_block_column_count;

#endif
