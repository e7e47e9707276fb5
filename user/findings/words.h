/* SPDX-License-Identifier: BSD-2-Clause */
/* Words for bytes, lines and owners, as people read them in findings and summaries. */
#ifndef HDTRACE_FINDINGS_WORDS_H
#define HDTRACE_FINDINGS_WORDS_H

#include <stdint.h>

#include "model/model.h"

#define SIZE_TEXT_BYTES 24

/* "18.4 MiB"; units are powers of 1024. */
const char *size_format(char text[SIZE_TEXT_BYTES], uint64_t bytes);

/* The job's own line: innermost outside PyTorch, whose lines are the same for every job; else the innermost; or NULL.
 */
const struct frame *stack_line(const struct stack *stack);

/* Of the forward pass where that is known: the engine of autograd is always called from the same line. */
const struct stack *run_origin(const struct rank *rank, const struct operator_run *run);

/* A text as printf makes it, an stb_ds array with its NUL. */
char *sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* part / whole in percent; 0 of nothing. */
double percent_of(uint64_t part, uint64_t whole);

#endif
