/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture of bounded size: its older records are dropped, but for what the
 * younger ones rest on. That is what was alive at the cut (blocks, segments) with
 * the operators, stacks and gradients that explain it, names, code objects,
 * symbols, descriptions and losses. The totals of devices are written anew, so
 * that the kept blocks add up to what the allocator says at the cut.
 */
#ifndef HDTRACE_WINDOW_WINDOW_H
#define HDTRACE_WINDOW_WINDOW_H

#include <stdint.h>

#include "stream/capture_writer.h"

/*
 * Copies the first `size` bytes of a capture (whole chunks), which may still be
 * growing, to a draft of it: about the last `tail` bytes as they are, and of what
 * is before them what they rest on. *end is where the copy ends, and what is
 * written later goes on. 0; -EBADMSG: the capture is damaged before the cut; else
 * the errno of reading or writing.
 */
int window_compact(const char *path, uint64_t size, uint64_t tail, struct capture_writer *draft, uint64_t *end);

#endif
