/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decoders of CPython's location tables; see location.h. A line must be one that
 * fits 32 bits; differences may lead outside on the way.
 *
 * Format 311: the table is a row of entries, in the order of the instructions. The first
 * byte of an entry has its top bit set, then four bits of kind, then three bits
 * of the number of code units it covers, less one. Line numbers are differences
 * to the entry before, the first one to the line of the code object.
 */
#include "python/location.h"

#include <errno.h>
#include <stdbool.h>

#define CODE_UNIT 2 /* bytes of an instruction */

#define ENTRY_START 0x80u
#define ENTRY_KIND_SHIFT 3
#define ENTRY_KIND_MASK 0x0fu
#define ENTRY_LENGTH_MASK 0x07u

/* Kinds below KIND_ONE_LINE_0 are the short forms: same line, one byte of columns. */
enum entry_kind {
	KIND_ONE_LINE_0 = 10, /* to 12: the line grows by kind - 10; two bytes of columns */
	KIND_NO_COLUMNS = 13, /* signed line difference */
	KIND_LONG = 14,       /* signed line difference, end line, both columns */
	KIND_NONE = 15,       /* no location */
};

/* Numbers come in groups of six bits, least first, with a bit that says that another group follows. */
#define NUMBER_BITS 6
#define NUMBER_MASK 0x3fu
#define NUMBER_MORE 0x40u
#define NUMBER_SHIFT_MAX 30 /* 32-bit numbers, as in CPython */

struct cursor {
	const uint8_t *at, *end;
};

/* Bytes inside an entry never have the top bit. */
static int byte_read(struct cursor *cursor, uint8_t *byte)
{
	if (cursor->at == cursor->end || *cursor->at & ENTRY_START)
		return -EBADMSG;
	*byte = *cursor->at++;
	return 0;
}

static int number_read(struct cursor *cursor, uint32_t *number)
{
	uint8_t byte;

	*number = 0;
	for (unsigned int shift = 0; shift <= NUMBER_SHIFT_MAX; shift += NUMBER_BITS) {
		if (byte_read(cursor, &byte))
			return -EBADMSG;
		*number |= (uint32_t)(byte & NUMBER_MASK) << shift;
		if (!(byte & NUMBER_MORE))
			return 0;
	}
	return -EBADMSG;
}

/* The sign is the lowest bit. */
static int signed_read(struct cursor *cursor, int64_t *number)
{
	uint32_t encoded;

	if (number_read(cursor, &encoded))
		return -EBADMSG;
	*number = encoded & 1 ? -(int64_t)(encoded >> 1) : (int64_t)(encoded >> 1);
	return 0;
}

static int bytes_skip(struct cursor *cursor, unsigned int count)
{
	uint8_t byte;

	while (count--)
		if (byte_read(cursor, &byte))
			return -EBADMSG;
	return 0;
}

static int numbers_skip(struct cursor *cursor, unsigned int count)
{
	uint32_t number;

	while (count--)
		if (number_read(cursor, &number))
			return -EBADMSG;
	return 0;
}

/* The rest of an entry of `kind`: by how much it moves the line, and whether it has one. */
static int entry_read(struct cursor *cursor, unsigned int kind, int64_t *difference, bool *has_line)
{
	*difference = 0;
	*has_line = kind != KIND_NONE;
	switch (kind) {
	case KIND_NONE:
		return 0;
	case KIND_LONG:
		/* end line, column, end column */
		return signed_read(cursor, difference) || numbers_skip(cursor, 3) ? -EBADMSG : 0;
	case KIND_NO_COLUMNS:
		return signed_read(cursor, difference);
	default:
		if (kind < KIND_ONE_LINE_0)
			return bytes_skip(cursor, 1);
		*difference = kind - KIND_ONE_LINE_0;
		return bytes_skip(cursor, 2);
	}
}

static int line_take(int64_t current, uint32_t *line)
{
	if (current < 0 || current > UINT32_MAX)
		return -EBADMSG;
	*line = (uint32_t)current;
	return 0;
}

static int line_311(const uint8_t *table, size_t length, int64_t current, uint64_t offset, uint32_t *line)
{
	struct cursor cursor = {table, table + length};
	uint64_t unit = offset / CODE_UNIT, covered = 0;

	while (cursor.at < cursor.end) {
		uint8_t head = *cursor.at++;
		int64_t difference;
		bool has_line;

		if (!(head & ENTRY_START) ||
			entry_read(&cursor, head >> ENTRY_KIND_SHIFT & ENTRY_KIND_MASK, &difference, &has_line))
			return -EBADMSG;
		current += difference;
		covered += (head & ENTRY_LENGTH_MASK) + 1u;
		if (unit >= covered)
			continue;
		return has_line ? line_take(current, line) : -ENOENT;
	}
	return -ENOENT;
}

/* Formats 309 and 310: pairs of bytes, how far the offset grows and, signed, by how much the line changes. */
struct pair {
	uint8_t offset;
	int8_t line;
};

#define PAIR_NO_LINE (-128) /* 310: these instructions have no line; the next difference is to the one before */

/* The pair says where the lines before it end. */
static int line_309(const struct pair *pairs, size_t count, int64_t current, uint64_t offset, uint32_t *line)
{
	uint64_t end = 0;

	for (size_t index = 0; index < count; index++) {
		end += pairs[index].offset;
		if (end > offset)
			break;
		current += pairs[index].line;
	}
	return line_take(current, line);
}

/* The pair says where its own line ends. */
static int line_310(const struct pair *pairs, size_t count, int64_t current, uint64_t offset, uint32_t *line)
{
	uint64_t end = 0;

	for (size_t index = 0; index < count; index++) {
		bool has_line = pairs[index].line != PAIR_NO_LINE;

		end += pairs[index].offset;
		if (has_line)
			current += pairs[index].line;
		if (end > offset)
			return has_line ? line_take(current, line) : -ENOENT;
	}
	return -ENOENT;
}

int location_line(
	uint32_t format, const uint8_t *table, size_t length, uint32_t first_line, uint64_t offset, uint32_t *line)
{
	const struct pair *pairs = (const void *)table;
	size_t pair_count = length / sizeof(*pairs);

	switch (format) {
	case LOCATION_FORMAT_309:
		return line_309(pairs, pair_count, first_line, offset, line);
	case LOCATION_FORMAT_310:
		return line_310(pairs, pair_count, first_line, offset, line);
	case LOCATION_FORMAT_311:
		return line_311(table, length, first_line, offset, line);
	default:
		return -EPROTONOSUPPORT;
	}
}
