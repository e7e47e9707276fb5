/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code objects of a capture, by target and address: the latest record of
 * an address is the one that counts. Gives the file, function and line of an
 * instruction, and says which code objects no report shows.
 */
#ifndef HDTRACE_REPLAY_CODE_TABLE_H
#define HDTRACE_REPLAY_CODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hdtrace/capture.h>

#include "model/model.h"
#include "stream/record.h"

/* All code objects of a capture together: a job has a few MB, a bomb as much as it likes. */
#define CODE_TABLE_BYTES_MAX (512u << 20)

/* What a frame is called whose code object was never read. */
#define CODE_UNKNOWN_FILE "<unknown>"
#define CODE_UNKNOWN_FUNCTION "?"

struct code_table;

/* A code object; strings are valid UTF-8. Valid until the next code_table_put. */
struct code {
	const char *file;
	const char *function; /* co_name */
	bool hidden;          /* the interpreter's or the compiler's own frame, not shown */
};

/* `bytes_max`: of all code objects together, CODE_TABLE_BYTES_MAX but in tests. NULL: no memory. */
struct code_table *code_table_new(size_t bytes_max);
void code_table_free(struct code_table *table);

/*
 * Takes a record that record_check accepted. `changed` tells whether an
 * address that had another code object before has it no more, so that what
 * was derived from it is stale. 0; -ENOMEM; -ENOSPC: the table is full, and the
 * address without a code object.
 */
int code_table_put(struct code_table *table, const struct code_record *record, bool *changed);

/* The target has a new process image: all that was known of it is gone. */
void code_table_forget(struct code_table *table, uint16_t target);

/*
 * The code object at an address, and the line of `instruction` in it (0: it has
 * none). NULL: not known.
 */
const struct code *code_table_find(
	struct code_table *table, uint16_t target, uint64_t address, uint64_t instruction, uint32_t *line);

/*
 * The frames that a report shows of a stack, outermost first, into `frames` with room for EVENT_FRAMES_MAX; returns how
 * many. Hidden ones leave no trace; those without a code object stay, so that a stack keeps its shape, and are added to
 * *unknown. Texts are valid until the next code_table_put.
 */
size_t code_table_frames(struct code_table *table, uint16_t target, const struct event_stack *stack,
	struct frame *frames, uint64_t *unknown);

#endif
