/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Call sites of at::_ops::X::redispatch. The kernels of each dispatch level
 * (BackendSelect, ADInplaceOrView, autograd, tracer) call it with the key set
 * cut down by a constant, so that the constant tells the level of a site. The
 * last site before the backend is passed once for each operator that runs, and
 * not at all by operators nested in it: far fewer hits than at the entries.
 */
#ifndef HDTRACE_TORCH_CALL_SITES_H
#define HDTRACE_TORCH_CALL_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"

struct call_site {
	uint64_t address;  /* of the call instruction */
	uint64_t function; /* address of the redispatch function that it calls */
	uint64_t mask;     /* key bits that it lets pass, without those above the functionality keys; 0: unknown */
};

/*
 * Find all calls of the functions at `functions` (sorted addresses) in a file,
 * directly or through the PLT. Every site was reached by decoding its function
 * from its first instruction, so that no site lies inside an instruction.
 * Sites are sorted by address; *sites is stb_ds. Takes about a second for a
 * library of 100 MB. Returns 0; -ENOTSUP for a machine that cannot be decoded;
 * -ENOENT when the file has no unwind table; else a negative errno.
 */
int call_sites_find(
	const struct elf_file *file, const uint64_t *functions, size_t function_count, struct call_site **sites);

/* The same for functions of other files by their names; `function` of a site is the index of the name, plus 1. */
int call_sites_find_imports(
	const struct elf_file *file, const char *const *names, size_t name_count, struct call_site **sites);

#endif
