/* SPDX-License-Identifier: BSD-2-Clause */
/* A section of an ELF file in memory, and the table in which linkers write where functions begin. */
#ifndef HDTRACE_SYMBOL_SECTION_H
#define HDTRACE_SYMBOL_SECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "symbol/elf.h"

struct section_bytes {
	uint8_t *data; /* with 8 zeros behind it; to be freed */
	uint64_t size, address;
};

/* Returns 0, -ENOENT where there is none in the file, -ENOMEM, -EBADMSG for one that is cut off. */
int section_load(const struct elf_file *file, const char *name, struct section_bytes *bytes);

/* Starts of functions, in order of address: .eh_frame_hdr. */
struct function_starts {
	struct section_bytes table;
	uint32_t count;
};

/* Returns 0, or as section_load; -ENOENT also for a table of another encoding. function_starts_free in any case. */
int function_starts_load(const struct elf_file *file, struct function_starts *starts);
void function_starts_free(struct function_starts *starts);
uint64_t function_start(const struct function_starts *starts, uint32_t index);
/* Does one start right there? */
bool function_starts_at(const struct function_starts *starts, uint64_t address);
/* Where the function around an address ends at the latest; false: it is not known. */
bool function_end_find(const struct function_starts *starts, uint64_t address, uint64_t *end);

#endif
