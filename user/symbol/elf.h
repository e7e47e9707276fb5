/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ELF files of the target: symbols, segments, notes. 64-bit little-endian
 * x86_64 and aarch64, executables and shared libraries only.
 *
 * The file belongs to somebody else and may change or lie: it is read with
 * pread, never mapped (a shrinking file would end the tracer with SIGBUS), and
 * every count, offset and string in it is bounded. All addresses are virtual
 * addresses as the file states them (load base 0); offsets are file offsets.
 * Functions return 0 or a negative errno: -ENOEXEC not such an ELF file,
 * -EBADMSG damaged, -EFBIG beyond a bound of this reader, -ENOENT not there.
 */
#ifndef HDTRACE_SYMBOL_ELF_H
#define HDTRACE_SYMBOL_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct elf_file;

enum elf_machine { ELF_MACHINE_X86_64 = 1, ELF_MACHINE_AARCH64 };

enum elf_symbol_kind { ELF_FUNCTION = 1, ELF_OBJECT, ELF_TLS };

struct elf_symbol {
	const char *name; /* without version; lives as long as the file is open */
	uint64_t address; /* ELF_TLS: offset in the module's TLS block */
	uint64_t size;    /* bytes, 0: not stated */
	uint8_t kind;     /* enum elf_symbol_kind */
	uint8_t rank;     /* 0: exported under its default version, higher: found by name only after the lower ones */
};

struct elf_range {
	uint64_t address, offset, size;
	bool in_file; /* false: no bytes in the file (.bss) */
};

/* A USDT point. Strings live as long as the file is open. */
struct elf_usdt {
	const char *provider, *name, *arguments;
	uint64_t location;  /* address of the nop, moved by what prelink moved */
	uint64_t semaphore; /* address of the 16-bit counter, 0: none */
};

/*
 * Opens the ELF file behind `fd` and loads its defined symbols. `fd` stays the
 * caller's and may be closed afterwards. Free *out with elf_file_close.
 */
int elf_file_open(int fd, struct elf_file **out);
void elf_file_close(struct elf_file *file);

/*
 * Free its tables, tens of MB for a large library. What needs them reads them again; what pointed into them (symbols,
 * sections' bytes and names) is gone.
 */
void elf_file_release(struct elf_file *file);

enum elf_machine elf_file_machine(const struct elf_file *file);
const char *elf_file_build_id(const struct elf_file *file); /* lower-case hex, "": none */
const char *elf_file_soname(const struct elf_file *file);   /* "": none */

/* All defined functions, objects and TLS variables, sorted by name (bytes), then rank, then address. */
const struct elf_symbol *elf_file_symbols(const struct elf_file *file, size_t *count);
/* The best symbol of exactly that name (no version part), or NULL. */
const struct elf_symbol *elf_file_symbol(const struct elf_file *file, const char *name);
/* The run of symbols whose name starts with `prefix`; *count may become 0. */
const struct elf_symbol *elf_file_symbols_prefix(const struct elf_file *file, const char *prefix, size_t *count);

/* Address <-> file offset through the PT_LOAD segments; -ENOENT where the file has no byte for it. */
int elf_file_offset(const struct elf_file *file, uint64_t address, uint64_t *offset);
int elf_file_address(const struct elf_file *file, uint64_t offset, uint64_t *address);

/*
 * The address that a mapping of code begins at which begins at `offset` of the
 * file. Mappings are whole pages: the offset may lie before the segment, in
 * bytes that belong to another one at another address.
 */
int elf_file_code_address(const struct elf_file *file, uint64_t offset, uint64_t *address);

/* Reads up to `size` bytes at an address, fewer at the end of its segment. Returns bytes read (> 0) or -errno. */
ssize_t elf_file_read(const struct elf_file *file, uint64_t address, void *buffer, size_t size);

/* The first section of that name. */
int elf_file_section(const struct elf_file *file, const char *name, struct elf_range *range);

/*
 * Where the GOT holds the pair {TLS module id, offset in its block} of a TLS
 * symbol, by the relocations that name it (R_X86_64_DTPMOD64 and, 8 bytes
 * later, R_X86_64_DTPOFF64; R_AARCH64_TLS_DTPMOD and _DTPREL alike). -ENOENT:
 * the file does not refer to it so (not at all, or by TLS descriptors).
 */
int elf_file_tls_got(const struct elf_file *file, const char *symbol, uint64_t *got_address);

/*
 * The next USDT point; start with *position = 0. Returns 1 with *out filled, 0
 * at the end, -errno. Format: SystemTap wiki, "UserSpaceProbeImplementation".
 */
int elf_file_usdt(const struct elf_file *file, size_t *position, struct elf_usdt *out);

#endif
