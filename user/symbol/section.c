// SPDX-License-Identifier: BSD-2-Clause
/* Source: LSB core (.eh_frame_hdr). */
#include "symbol/section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_BYTES_MAX (512ull << 20)

/* Encodings of the usual table, and the only one that linkers write. */
#define EH_VERSION 1
#define EH_PCREL_SDATA4 0x1b
#define EH_UDATA4 0x03
#define EH_DATAREL_SDATA4 0x3b

int section_load(const struct elf_file *file, const char *name, struct section_bytes *bytes)
{
	struct elf_range range;
	uint64_t have = 0;
	int error = elf_file_section(file, name, &range);

	memset(bytes, 0, sizeof(*bytes));
	if (error)
		return error;
	if (!range.in_file || range.size > SECTION_BYTES_MAX)
		return -ENOENT;
	bytes->data = malloc(range.size + sizeof(uint64_t));
	if (!bytes->data)
		return -ENOMEM;
	while (have < range.size) {
		ssize_t count = elf_file_read(file, range.address + have, bytes->data + have, range.size - have);

		if (count <= 0) {
			free(bytes->data);
			bytes->data = NULL;
			return count < 0 ? (int)count : -EBADMSG;
		}
		have += (uint64_t)count;
	}
	memset(bytes->data + range.size, 0, sizeof(uint64_t));
	bytes->size = range.size;
	bytes->address = range.address;
	return 0;
}

struct eh_header {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
};

/* Of the table that follows: where a function starts, and where it is described, both from the section on. */
struct eh_entry {
	int32_t start, frame;
};

int function_starts_load(const struct elf_file *file, struct function_starts *starts)
{
	struct eh_header header;
	int error = section_load(file, ".eh_frame_hdr", &starts->table);

	starts->count = 0;
	if (error)
		return error;
	if (starts->table.size < sizeof(header))
		return -ENOENT;
	memcpy(&header, starts->table.data, sizeof(header));
	if (header.version != EH_VERSION || header.frame_encoding != EH_PCREL_SDATA4 ||
		header.count_encoding != EH_UDATA4 || header.table_encoding != EH_DATAREL_SDATA4 ||
		header.count > (starts->table.size - sizeof(header)) / sizeof(struct eh_entry))
		return -ENOENT;
	starts->count = header.count;
	return 0;
}

void function_starts_free(struct function_starts *starts)
{
	free(starts->table.data);
	memset(starts, 0, sizeof(*starts));
}

uint64_t function_start(const struct function_starts *starts, uint32_t index)
{
	struct eh_entry entry;

	memcpy(&entry, starts->table.data + sizeof(struct eh_header) + index * sizeof(entry), sizeof(entry));
	return starts->table.address + (uint64_t)(int64_t)entry.start;
}

/* How many start at or before an address. */
static uint32_t starts_until(const struct function_starts *starts, uint64_t address)
{
	uint32_t low = 0, high = starts->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (function_start(starts, middle) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool function_starts_at(const struct function_starts *starts, uint64_t address)
{
	uint32_t count = starts_until(starts, address);

	return count && function_start(starts, count - 1) == address;
}

bool function_end_find(const struct function_starts *starts, uint64_t address, uint64_t *end)
{
	uint32_t count = starts_until(starts, address);

	if (!count || count == starts->count)
		return false;
	*end = function_start(starts, count);
	return true;
}
