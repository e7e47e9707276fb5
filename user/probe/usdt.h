/* SPDX-License-Identifier: BSD-2-Clause */
/* The operands of USDT points, as their notes have them. */
#ifndef HDTRACE_PROBE_USDT_H
#define HDTRACE_PROBE_USDT_H

#include <hdtrace/program.h>

#include "symbol/elf.h"

/*
 * Where to probe a USDT point. One with a counter (semaphore) is passed only by
 * who raises that, which is a write to the target's memory; but the branch in
 * front of it, which looks at the counter, is always passed, with the same
 * values. -ENOTSUP: there is no such branch; else 0 or a negative errno.
 */
int usdt_place_find(const struct elf_file *elf, const struct elf_usdt *usdt, uint64_t *address);

/*
 * Parse the operand number `index` of a text as "-8@%rax -1@%dl 8@-104(%rbp)".
 * -ENOENT: there is none; -ENOTSUP: no value of 8 bytes in a register or in
 * memory near where one points.
 */
int usdt_operand_parse(const char *text, unsigned int index, struct usdt_operand *operand);

#endif
