/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the ELF reader share; nobody outside this folder includes it. */
#ifndef HDTRACE_SYMBOL_ELF_PRIVATE_H
#define HDTRACE_SYMBOL_ELF_PRIVATE_H

#include <libelf.h>

#include "symbol/elf.h"

/* Bounds on what a file may ask of us; the largest real libraries stay an order of magnitude below. */
#define ELF_SECTIONS_MAX 4096
#define ELF_SEGMENTS_MAX 1024
#define ELF_SYMBOLS_MAX (4u << 20)
#define ELF_TABLE_MAX (1ull << 29) /* bytes of one section that is read as a whole */
#define ELF_NAME_MAX (1u << 16)    /* longer symbol names are left out */

/* A string table whose strings are known to end: every offset below `limit` starts one that has its NUL. */
struct elf_strings {
	const char *bytes;
	uint64_t limit;
};

struct elf_section {
	const char *name;
	uint64_t address, offset, size, entry_size;
	uint32_t type, link;
};

struct elf_segment {
	uint64_t address, offset, size; /* of the bytes that are in the file */
	bool executable;
};

struct elf_file {
	int fd;
	Elf *elf;
	uint64_t size;
	enum elf_machine machine;
	struct elf_section *sections;
	size_t section_count;
	struct elf_segment *segments; /* PT_LOAD */
	size_t segment_count;
	struct elf_symbol *symbols;
	size_t symbol_count;
	char *static_names; /* string table of .symtab, versions cut off */
	char *build_id;
	char *soname;
};

const struct elf_section *elf_section_find(const struct elf_file *file, const char *name);
/* The raw bytes of a section, owned by the file. -ENOENT: it has none. */
int elf_section_bytes(
	const struct elf_file *file, const struct elf_section *section, const uint8_t **bytes, uint64_t *size);
/* The string table that `section` links to. */
int elf_section_strings(const struct elf_file *file, const struct elf_section *section, struct elf_strings *strings);
struct elf_strings elf_strings_of(const uint8_t *bytes, uint64_t size);
/* A string of the table, "" when the offset is outside. */
const char *elf_string(const struct elf_strings *strings, uint64_t offset);

/* Have the tables at hand, after elf_file_release; where that fails there are none. */
void elf_file_wake(const struct elf_file *file);
int elf_symbols_load(struct elf_file *file);
int elf_build_id_load(struct elf_file *file);
int elf_soname_load(struct elf_file *file);

#endif
