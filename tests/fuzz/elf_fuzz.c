/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as an ELF file: everything that the reader offers is asked for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "containers/containers.h"
#include "symbol/elf.h"
#include "symbol/entry.h"
#include "torch/call_sites.h"
#include "torch/operators.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void symbols_use(const struct elf_file *file)
{
	size_t count, found;
	const struct elf_symbol *symbols = elf_file_symbols(file, &count);

	for (size_t i = 0; i < count; i++) {
		struct entry_place place;

		if (!elf_file_symbol(file, symbols[i].name) || (i && strcmp(symbols[i - 1].name, symbols[i].name) > 0))
			abort();
		if (symbols[i].kind == ELF_FUNCTION)
			(void)entry_find(file, symbols[i].address, symbols[i].size, &place);
	}
	elf_file_symbols_prefix(file, "_Z", &found);
	if (found > count)
		abort();
}

static int address_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Every function of the file could be the one that is called. */
static void calls_use(const struct elf_file *file)
{
	size_t count;
	const struct elf_symbol *symbols = elf_file_symbols(file, &count);
	uint64_t *functions = NULL;
	struct call_site *sites;

	for (size_t i = 0; i < count; i++)
		arrput(functions, symbols[i].address);
	if (functions)
		qsort(functions, count, sizeof(functions[0]), address_compare);
	if (functions && !call_sites_find(file, functions, count, &sites)) {
		for (ptrdiff_t i = 1; i < arrlen(sites); i++)
			if (sites[i - 1].address >= sites[i].address)
				abort();
		arrfree(sites);
	}
	arrfree(functions);
}

static void notes_use(const struct elf_file *file)
{
	struct elf_usdt usdt;
	size_t position = 0, before = 0;

	while (elf_file_usdt(file, &position, &usdt) == 1) {
		if (position <= before || strlen(usdt.provider) + strlen(usdt.name) + strlen(usdt.arguments) > 1u << 20)
			abort();
		before = position;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct torch_operators *operators;
	struct elf_range range;
	struct elf_file *file;
	unsigned int major, minor;
	uint64_t value;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		return 0;
	if (elf_file_open(fd, &file))
		return 0;
	symbols_use(file);
	notes_use(file);
	calls_use(file);
	if (strlen(elf_file_build_id(file)) > 128 || strlen(elf_file_soname(file)) > 4096)
		abort();
	(void)elf_file_section(file, ".text", &range);
	(void)elf_file_tls_got(file, "_ZN3c104impl26raw_local_dispatch_key_setE", &value);
	(void)torch_version(file, &major, &minor);
	if (operators_find(file, &operators) == 0)
		torch_operators_free(operators);
	elf_file_close(file);
	return 0;
}
