/* SPDX-License-Identifier: BSD-2-Clause */
/* Code objects by target and address; see code_table.h. */
#include "replay/code_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "containers/containers.h"
#include "python/location.h"
#include "python/utf8.h"

/* Lines kept for one code object; a function has far fewer calls in it. */
#define LINES_MAX 4096

/* Keys are compared as bytes: no padding. */
struct entry_key {
	uint64_t address;
	uint32_t target;
	uint32_t image; /* of the target's process images */
};

struct line_entry {
	uint64_t key; /* offset of the instruction */
	uint32_t value;
};

struct entry {
	struct code code;
	uint64_t first_instruction;
	uint64_t content; /* hash of the record, to know one that is sent again */
	uint32_t first_line;
	uint32_t table_format;
	size_t bytes; /* that count against code_table.bytes_max */
	char *file, *function;
	uint8_t *table;
	size_t table_length;
	struct line_entry *lines; /* stb_ds map: a line is looked for once */
};

struct code_table {
	struct {
		struct entry_key key;
		struct entry *value;
	} * entries; /* stb_ds map */
	struct {
		uint16_t key;
		uint32_t value;
	} * images; /* stb_ds map: images of a target before its present one */
	size_t bytes, bytes_max;
};

_Static_assert(sizeof(struct entry_key) == 16, "entry_key has padding");

/* --- which frames no report shows ---------------------------------------------- */

/* Frames that stand between a model and its operators without being either's code. */
static const char *const hidden_endings[] = {
	"/torch/_compile.py",
	"/torch/_dynamo/eval_frame.py",
};
static const char frozen_prefix[] = "<frozen"; /* the import system */
/* The interpreter's own code around an __init__, in CPython 3.12 and later; no line is its first. */
static const char interpreter_file[] = "__init__";

static char slash_normalize(char character)
{
	return character == '\\' ? '/' : character;
}

static bool path_ends(const char *path, const char *ending)
{
	size_t length = strlen(path), ending_length = strlen(ending);

	if (length < ending_length)
		return false;
	path += length - ending_length;
	while (*path && slash_normalize(*path) == *ending) {
		path++;
		ending++;
	}
	return !*path;
}

static bool code_hidden(const char *file, uint32_t first_line)
{
	if (strncmp(file, frozen_prefix, strlen(frozen_prefix)) == 0 ||
		(!first_line && strcmp(file, interpreter_file) == 0))
		return true;
	for (size_t i = 0; i < sizeof(hidden_endings) / sizeof(*hidden_endings); i++)
		if (path_ends(file, hidden_endings[i]))
			return true;
	return false;
}

/* --- entries ------------------------------------------------------------------- */

static void entry_free(struct entry *entry)
{
	if (!entry)
		return;
	hmfree(entry->lines);
	free(entry->file);
	free(entry->function);
	free(entry->table);
	free(entry);
}

static uint64_t record_hash(const struct code_record *record)
{
	size_t header = sizeof(record->event);

	/* All but the common part, whose time differs. */
	return XXH3_64bits((const uint8_t *)record + header, record->event.size - header);
}

static struct entry *entry_new(const struct code_record *record)
{
	const char *name = record->bytes + record->file_length;
	const char *table = name + record->name_length + record->qualified_length;
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->first_instruction = record->first_instruction;
	entry->first_line = record->first_line;
	entry->table_format = record->table_format;
	entry->bytes = sizeof(*entry) + record->event.size;
	entry->file = utf8_sanitize(record->bytes, record->file_length);
	entry->function = utf8_sanitize(name, record->name_length);
	entry->table_length = record->table_length;
	entry->table = malloc(record->table_length ? record->table_length : 1);
	if (!entry->file || !entry->function || !entry->table) {
		entry_free(entry);
		return NULL;
	}
	memcpy(entry->table, table, record->table_length);
	entry->code = (struct code){entry->file, entry->function, code_hidden(entry->file, entry->first_line)};
	return entry;
}

/* A frame that has not run its first instruction yet stands before it; CPython gives it the first line. */
static uint32_t entry_line(struct entry *entry, uint64_t instruction)
{
	uint64_t offset = instruction - entry->first_instruction;
	uint32_t line = 0;
	ptrdiff_t known;

	if (instruction < entry->first_instruction)
		return entry->first_line;
	known = hmgeti(entry->lines, offset);
	if (known >= 0)
		return entry->lines[known].value;
	if (location_line(entry->table_format, entry->table, entry->table_length, entry->first_line, offset, &line))
		line = 0;
	if (hmlen(entry->lines) < LINES_MAX)
		hmput(entry->lines, offset, line);
	return line;
}

/* --- the table ------------------------------------------------------------------- */

struct code_table *code_table_new(size_t bytes_max)
{
	struct code_table *table = calloc(1, sizeof(*table));

	if (table)
		table->bytes_max = bytes_max;
	return table;
}

void code_table_free(struct code_table *table)
{
	if (!table)
		return;
	for (ptrdiff_t i = 0; i < hmlen(table->entries); i++)
		entry_free(table->entries[i].value);
	hmfree(table->entries);
	hmfree(table->images);
	free(table);
}

static struct entry_key key_make(struct code_table *table, uint16_t target, uint64_t address)
{
	ptrdiff_t image = hmgeti(table->images, target);

	return (struct entry_key){address, target, image < 0 ? 0 : table->images[image].value};
}

int code_table_put(struct code_table *table, const struct code_record *record, bool *changed)
{
	struct entry_key key = key_make(table, record->event.target, record->code);
	ptrdiff_t at = hmgeti(table->entries, key);
	struct entry *old = at < 0 ? NULL : table->entries[at].value;
	uint64_t content = record_hash(record);
	struct entry *entry;

	*changed = false;
	if (old && old->content == content)
		return 0;
	/* The old one is gone in any case: no name is better than a wrong one. */
	if (old) {
		*changed = true;
		table->bytes -= old->bytes;
		entry_free(old);
		(void)hmdel(table->entries, key);
	}
	if (table->bytes + sizeof(*entry) + record->event.size > table->bytes_max)
		return -ENOSPC;
	entry = entry_new(record);
	if (!entry)
		return -ENOMEM;
	entry->content = content;
	table->bytes += entry->bytes;
	hmput(table->entries, key, entry);
	return 0;
}

void code_table_forget(struct code_table *table, uint16_t target)
{
	ptrdiff_t image = hmgeti(table->images, target);
	uint32_t next = image < 0 ? 1 : table->images[image].value + 1;

	/* Entries of older images are never found again; they go with the table. */
	hmput(table->images, target, next);
}

const struct code *code_table_find(
	struct code_table *table, uint16_t target, uint64_t address, uint64_t instruction, uint32_t *line)
{
	struct entry_key key = key_make(table, target, address);
	ptrdiff_t at = hmgeti(table->entries, key);
	struct entry *entry;

	if (at < 0)
		return NULL;
	entry = table->entries[at].value;
	*line = entry->code.hidden ? 0 : entry_line(entry, instruction);
	return &entry->code;
}

size_t code_table_frames(struct code_table *table, uint16_t target, const struct event_stack *stack,
	struct frame *frames, uint64_t *unknown)
{
	size_t count = 0;

	for (size_t i = stack->frame_count; i > 0; i--) {
		const struct python_frame *raw = &stack->frames[i - 1];
		uint32_t line = 0;
		const struct code *code = code_table_find(table, target, raw->code, raw->instruction, &line);

		if (code && code->hidden)
			continue;
		*unknown += !code;
		frames[count++] = (struct frame){
			.file = code ? code->file : CODE_UNKNOWN_FILE,
			.function = code ? code->function : CODE_UNKNOWN_FUNCTION,
			.line = line,
			.self = raw->self,
		};
	}
	return count;
}
