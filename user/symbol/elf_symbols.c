/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The symbol tables of an ELF file: .dynsym and .symtab in one array sorted by
 * name, for lookups by name and by prefix. C++ names share long beginnings, so
 * they are sorted eight bytes at a time: each round sorts a run of names that
 * agree so far by their next eight bytes as one integer. The work is bounded by
 * the bytes of the names, and those by the size of the string table, whatever
 * the file says.
 */
#include "symbol/elf_private.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_HIDDEN 0x8000 /* bit of a .gnu.version entry: not the default version of that name */
#define CHUNK_BYTES 8
#define INSERTION_MAX 12 /* runs up to this length are sorted by insertion */
#define VERSIONS_MAX 16  /* versions of one name that are looked through for a repetition */

/* Honest tables share the tails of some names; names that add up to far more than their table do not end here. */
#define SHARED_NAME_FACTOR 4
#define SHARED_NAME_BYTES 64

enum { RANK_DEFAULT, RANK_OLD_VERSION, RANK_STATIC, RANK_LOCAL };

struct symbol_list {
	struct elf_symbol *symbols;
	size_t count, capacity;
};

struct sort_entry {
	uint64_t chunk; /* the name's bytes at the current depth, first byte highest */
	uint32_t index;
	uint32_t last; /* the name ends inside this chunk */
};

struct sort_run {
	size_t first, count;
	uint32_t depth;
};

/* --- reading the tables ------------------------------------------------------ */

static uint8_t kind_of(const Elf64_Sym *symbol)
{
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || symbol->st_shndx == SHN_COMMON)
		return 0;
	switch (ELF64_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return ELF_FUNCTION;
	case STT_OBJECT:
		return ELF_OBJECT;
	case STT_TLS:
		return ELF_TLS;
	default:
		return 0;
	}
}

static int list_reserve(struct symbol_list *list, size_t more)
{
	struct elf_symbol *grown;

	if (more > ELF_SYMBOLS_MAX - list->count)
		return -EFBIG;
	list->capacity = list->count + more;
	grown = reallocarray(list->symbols, list->capacity, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->symbols = grown;
	return 0;
}

/* Adds a name if it is a usable one; `budget` bounds the bytes of all names of its table. */
static int list_add(struct symbol_list *list, const struct elf_strings *strings, const Elf64_Sym *symbol, uint8_t rank,
	uint64_t *budget)
{
	const char *name = elf_string(strings, symbol->st_name);
	size_t length = strnlen(name, ELF_NAME_MAX);

	if (length > *budget)
		return -EBADMSG;
	*budget -= length;
	if (length == 0 || length == ELF_NAME_MAX)
		return 0;
	if (rank != RANK_OLD_VERSION && ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
		rank = RANK_LOCAL;
	list->symbols[list->count++] =
		(struct elf_symbol){name, symbol->st_value, symbol->st_size, kind_of(symbol), rank};
	return 0;
}

static int table_add(struct symbol_list *list, const struct elf_strings *strings, const uint8_t *bytes, uint64_t size,
	const uint8_t *versions, uint64_t versions_size)
{
	uint64_t count = size / sizeof(Elf64_Sym);
	uint64_t budget = SHARED_NAME_FACTOR * strings->limit + SHARED_NAME_BYTES * count;
	int err = list_reserve(list, count);

	for (uint64_t i = 0; !err && i < count; i++) {
		Elf64_Sym symbol;
		uint16_t version = 0;
		uint8_t rank = versions ? RANK_DEFAULT : RANK_STATIC;

		memcpy(&symbol, bytes + i * sizeof(symbol), sizeof(symbol));
		if (!kind_of(&symbol))
			continue;
		if (versions && (i + 1) * sizeof(version) <= versions_size) {
			memcpy(&version, versions + i * sizeof(version), sizeof(version));
			if (version & VERSION_HIDDEN)
				rank = RANK_OLD_VERSION;
		}
		err = list_add(list, strings, &symbol, rank, &budget);
	}
	return err;
}

/* A symbol table and its strings. Returns 0, -ENOENT when the file has none, or another negative errno. */
static int table_find(const struct elf_file *file, const char *name, uint32_t type, const uint8_t **bytes,
	uint64_t *size, struct elf_strings *strings)
{
	const struct elf_section *section = elf_section_find(file, name);
	int err;

	if (!section || section->type != type)
		return -ENOENT;
	err = elf_section_bytes(file, section, bytes, size);
	return err ? err : elf_section_strings(file, section, strings);
}

static int dynamic_symbols_add(const struct elf_file *file, struct symbol_list *list)
{
	static const uint8_t no_versions[1];
	const struct elf_section *versions = elf_section_find(file, ".gnu.version");
	const uint8_t *bytes, *version_bytes = no_versions;
	uint64_t size, versions_size = 0;
	struct elf_strings strings;
	int err;

	err = table_find(file, ".dynsym", SHT_DYNSYM, &bytes, &size, &strings);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (versions && elf_section_bytes(file, versions, &version_bytes, &versions_size)) {
		version_bytes = no_versions;
		versions_size = 0;
	}
	return table_add(list, &strings, bytes, size, version_bytes, versions_size);
}

/* .symtab writes versions into the names (name@VERSION): they are cut off in a copy of its strings. */
static int static_symbols_add(struct elf_file *file, struct symbol_list *list)
{
	struct elf_strings strings;
	const uint8_t *bytes;
	uint64_t size;
	int err;

	err = table_find(file, ".symtab", SHT_SYMTAB, &bytes, &size, &strings);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (strings.limit == 0)
		return 0;
	file->static_names = malloc(strings.limit);
	if (!file->static_names)
		return -ENOMEM;
	memcpy(file->static_names, strings.bytes, strings.limit);
	for (char *at = file->static_names;
		(at = memchr(at, '@', strings.limit - (uint64_t)(at - file->static_names)));)
		*at = '\0';
	strings.bytes = file->static_names;
	return table_add(list, &strings, bytes, size, NULL, 0);
}

/* --- sorting ----------------------------------------------------------------- */

static void entry_load(struct sort_entry *entry, const char *name, uint32_t depth)
{
	uint64_t chunk = 0;
	int i = 0;

	name += depth;
	for (; i < CHUNK_BYTES && name[i]; i++)
		chunk = chunk << 8 | (uint8_t)name[i];
	entry->last = i < CHUNK_BYTES;
	entry->chunk = i ? chunk << 8 * (CHUNK_BYTES - i) : 0;
}

static void entries_insert(struct sort_entry *entries, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct sort_entry entry = entries[i];
		size_t at = i;

		for (; at > 0 && entries[at - 1].chunk > entry.chunk; at--)
			entries[at] = entries[at - 1];
		entries[at] = entry;
	}
}

/* Merge sort by chunk: its worst case is its usual one. `spare` has room for `count`. */
static void entries_sort(struct sort_entry *entries, struct sort_entry *spare, size_t count)
{
	size_t half = count / 2, left = 0, right = 0, to = 0;

	if (count <= INSERTION_MAX) {
		entries_insert(entries, count);
		return;
	}
	entries_sort(entries, spare, half);
	entries_sort(entries + half, spare, count - half);
	if (entries[half - 1].chunk <= entries[half].chunk)
		return;
	memcpy(spare, entries, half * sizeof(*spare));
	for (right = half; left < half; to++) {
		if (right < count && entries[right].chunk < spare[left].chunk)
			entries[to] = entries[right++];
		else
			entries[to] = spare[left++];
	}
}

static int compare_same_name(const void *left, const void *right)
{
	const struct elf_symbol *a = left, *b = right;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return 0;
}

struct sorter {
	const struct elf_symbol *symbols;
	struct sort_entry *entries, *spare;
	struct sort_run *runs; /* work that is left; a run is split into disjoint runs, so `count / 2` are enough */
	size_t run_count;
};

/* Sorts one run by its next chunk and queues those of its parts that agree in it and go on. */
static void run_sort(struct sorter *sorter, struct sort_run run)
{
	struct sort_entry *entries = sorter->entries + run.first;
	size_t end;

	for (size_t i = 0; i < run.count; i++)
		entry_load(&entries[i], sorter->symbols[entries[i].index].name, run.depth);
	entries_sort(entries, sorter->spare, run.count);
	for (size_t start = 0; start < run.count; start = end) {
		for (end = start + 1; end < run.count && entries[end].chunk == entries[start].chunk;)
			end++;
		if (end - start > 1 && !entries[start].last)
			sorter->runs[sorter->run_count++] =
				(struct sort_run){run.first + start, end - start, run.depth + CHUNK_BYTES};
	}
}

static int symbols_sort(struct symbol_list *list)
{
	struct elf_symbol *sorted = calloc(list->count, sizeof(*sorted));
	struct sorter sorter = {
		.symbols = list->symbols,
		.entries = calloc(list->count, sizeof(*sorter.entries)),
		.spare = calloc(list->count, sizeof(*sorter.spare)),
		.runs = calloc(list->count / 2 + 1, sizeof(*sorter.runs)),
	};
	int err = -ENOMEM;

	if (!sorted || !sorter.entries || !sorter.spare || !sorter.runs)
		goto cleanup;
	for (size_t i = 0; i < list->count; i++)
		sorter.entries[i].index = (uint32_t)i;
	sorter.runs[sorter.run_count++] = (struct sort_run){0, list->count, 0};
	while (sorter.run_count)
		run_sort(&sorter, sorter.runs[--sorter.run_count]);
	for (size_t i = 0; i < list->count; i++)
		sorted[i] = list->symbols[sorter.entries[i].index];
	free(list->symbols);
	list->symbols = sorted;
	sorted = NULL;
	err = 0;
cleanup:
	free(sorted);
	free(sorter.entries);
	free(sorter.spare);
	free(sorter.runs);
	return err;
}

/* Orders symbols of the same name, and drops what is in both tables. */
static void symbols_merge(struct symbol_list *list)
{
	size_t kept = 0, end;

	for (size_t start = 0; start < list->count; start = end) {
		struct elf_symbol *same = &list->symbols[start];

		for (end = start + 1; end < list->count && !strcmp(list->symbols[end].name, same->name);)
			end++;
		if (end - start > 1)
			qsort(same, end - start, sizeof(*same), compare_same_name);
		for (size_t i = start, first = kept; i < end; i++) {
			const struct elf_symbol *symbol = &list->symbols[i];
			bool known = false;

			for (size_t j = first; j < kept && j - first < VERSIONS_MAX && !known; j++)
				known = list->symbols[j].address == symbol->address &&
				        list->symbols[j].kind == symbol->kind && list->symbols[j].rank < RANK_STATIC &&
				        symbol->rank >= RANK_STATIC;
			if (!known)
				list->symbols[kept++] = *symbol;
		}
	}
	list->count = kept;
}

int elf_symbols_load(struct elf_file *file)
{
	struct symbol_list list = {0};
	int err = dynamic_symbols_add(file, &list);

	if (!err)
		err = static_symbols_add(file, &list);
	if (!err && list.count)
		err = symbols_sort(&list);
	if (err) {
		free(list.symbols);
		return err;
	}
	symbols_merge(&list);
	file->symbols = list.symbols;
	file->symbol_count = list.count;
	return 0;
}

/* --- lookups ----------------------------------------------------------------- */

const struct elf_symbol *elf_file_symbols(const struct elf_file *file, size_t *count)
{
	elf_file_wake(file);
	*count = file->symbol_count;
	return file->symbols;
}

/* The first symbol whose name, cut to `length` bytes, is not below `name` (or is above it). */
static size_t symbols_bound(const struct elf_file *file, const char *name, size_t length, bool above)
{
	size_t low = 0, high;

	elf_file_wake(file);
	high = file->symbol_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strncmp(file->symbols[middle].name, name, length);

		if (order < 0 || (above && order == 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct elf_symbol *elf_file_symbol(const struct elf_file *file, const char *name)
{
	size_t at = symbols_bound(file, name, SIZE_MAX, false);

	if (at == file->symbol_count || strcmp(file->symbols[at].name, name))
		return NULL;
	return &file->symbols[at];
}

const struct elf_symbol *elf_file_symbols_prefix(const struct elf_file *file, const char *prefix, size_t *count)
{
	size_t length = strlen(prefix);
	size_t first = symbols_bound(file, prefix, length, false);

	*count = symbols_bound(file, prefix, length, true) - first;
	return *count ? &file->symbols[first] : file->symbols;
}
