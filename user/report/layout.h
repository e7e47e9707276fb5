/* SPDX-License-Identifier: BSD-2-Clause */
/* Where blocks are drawn: a place for each one that nothing else has at the same time. */
#ifndef HDTRACE_REPORT_LAYOUT_H
#define HDTRACE_REPORT_LAYOUT_H

#include "model/model.h"

/*
 * For each block the first byte of its place, an stb_ds array to be freed with arrfree. On each device apart, in the
 * order of allocations and frees, a block gets the lowest place that is free and large enough (first fit): a picture of
 * lifetimes without overlap, not the addresses of the allocator. Heights are block_held_bytes.
 */
uint64_t *layout_places(const struct rank *rank);

#endif
