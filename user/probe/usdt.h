/* SPDX-License-Identifier: BSD-2-Clause */
/* The operands of USDT points, as their notes have them. */
#ifndef HDTRACE_PROBE_USDT_H
#define HDTRACE_PROBE_USDT_H

#include <hdtrace/program.h>

/*
 * Parse the operand number `index` of a text as "-8@%rax -1@%dl 8@-104(%rbp)".
 * -ENOENT: there is none; -ENOTSUP: no value of 8 bytes in a register or in
 * memory near where one points.
 */
int usdt_operand_parse(const char *text, unsigned int index, struct usdt_operand *operand);

#endif
