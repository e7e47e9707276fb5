/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The instructions by which a function goes back to its caller. An ordinary probe
 * there tells what the function returned, for every caller and from the first call
 * on. Only what control flow reaches from the first instruction is looked at, so
 * that no place lies inside an instruction; a direct jump to another function is
 * followed, an indirect one (a table of a switch, a stub) is not.
 */
#ifndef HDTRACE_SYMBOL_FUNCTION_ENDS_H
#define HDTRACE_SYMBOL_FUNCTION_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"
#include "symbol/section.h"

/* Instructions that are looked at, all branches of a function and of those that it jumps to together. */
#define ENDS_INSTRUCTIONS_MAX 16384

/*
 * Addresses of the ends of the function at `address`, `size` bytes long (0: unknown), sorted; *ends is
 * stb_ds. `starts`: of the file, to know how far functions reach. *complete: there is no other way out.
 * Returns 0, -ENOTSUP for a machine that is not decoded, or -ENOMEM.
 */
int function_ends_find(const struct elf_file *file, const struct function_starts *starts, uint64_t address,
	uint64_t size, uint64_t **ends, bool *complete);

#endif
