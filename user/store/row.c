/* SPDX-License-Identifier: BSD-2-Clause */
/* Records become bytes, and bytes values; nothing is believed of bytes that come from a file. */
#include "store/row.h"

#include <string.h>

#include "containers/containers.h"

#define NUMBER_BYTES 8
#define LENGTH_BITS 7
#define LENGTH_MORE 0x80
#define UTF8_CONTINUATION 0x80
#define UTF8_CONTINUATION_MASK 0xc0

static void put_length(uint8_t **bytes, size_t length)
{
	for (; length >= LENGTH_MORE; length >>= LENGTH_BITS)
		arrput(*bytes, (uint8_t)(length | LENGTH_MORE));
	arrput(*bytes, (uint8_t)length);
}

/* Cut between two characters, not inside one. */
static size_t text_length(const char *text)
{
	size_t length = strnlen(text, ROW_TEXT_MAX + 1);

	if (length <= ROW_TEXT_MAX)
		return length;
	for (length = ROW_TEXT_MAX; length && ((uint8_t)text[length] & UTF8_CONTINUATION_MASK) == UTF8_CONTINUATION;)
		length--;
	return length;
}

static void put_text(uint8_t **bytes, const char *text)
{
	size_t length = text ? text_length(text) : 0;

	put_length(bytes, length);
	if (length)
		memcpy(arraddnptr(*bytes, length), text, length);
}

static void put_number(uint8_t **bytes, const struct column *column, int64_t number)
{
	uint64_t bits = (uint64_t)number;

	if (column->optional) {
		arrput(*bytes, number == RECORD_UNKNOWN);
		if (number == RECORD_UNKNOWN)
			return;
	}
	for (int byte = 0; byte < NUMBER_BYTES; byte++)
		arrput(*bytes, (uint8_t)(bits >> (byte * 8)));
}

void batch_add(struct batch *batch, const void *record)
{
	const struct table *table = &tables[batch->table];

	for (size_t index = 0; index < table->column_count; index++) {
		const struct column *column = &table->columns[index];
		const char *member = (const char *)record + column->offset;

		if (column->type == COLUMN_TEXT) {
			const char *text;

			memcpy(&text, member, sizeof(text));
			put_text(&batch->bytes, text);
		} else {
			int64_t number;

			memcpy(&number, member, sizeof(number));
			put_number(&batch->bytes, column, number);
		}
	}
	batch->rows++;
}

void batch_clear(struct batch *batch)
{
	arrfree(batch->bytes);
	batch->rows = 0;
}

static bool length_next(struct row_cursor *cursor, size_t *length)
{
	*length = 0;
	for (int shift = 0; cursor->at < cursor->end && shift <= LENGTH_BITS; shift += LENGTH_BITS) {
		uint8_t byte = *cursor->at++;

		*length |= (size_t)(byte & ~LENGTH_MORE) << shift;
		if (!(byte & LENGTH_MORE))
			return *length <= ROW_TEXT_MAX && *length <= (size_t)(cursor->end - cursor->at);
	}
	return false;
}

static bool number_next(struct row_cursor *cursor, const struct column *column, struct row_value *value)
{
	uint64_t bits = 0;

	if (column->optional) {
		if (cursor->at == cursor->end || *cursor->at > 1)
			return false;
		value->unknown = *cursor->at++;
		if (value->unknown)
			return true;
	}
	if (cursor->end - cursor->at < NUMBER_BYTES)
		return false;
	for (int byte = 0; byte < NUMBER_BYTES; byte++)
		bits |= (uint64_t)*cursor->at++ << (byte * 8);
	value->number = (int64_t)bits;
	return true;
}

bool row_value_next(struct row_cursor *cursor, const struct column *column, struct row_value *value)
{
	*value = (struct row_value){.text = ""};
	if (column->type == COLUMN_NUMBER)
		return number_next(cursor, column, value);
	if (!length_next(cursor, &value->length))
		return false;
	value->text = (const char *)cursor->at;
	cursor->at += value->length;
	return true;
}

bool rows_check(enum table_id table, uint32_t rows, const uint8_t *bytes, size_t size)
{
	struct row_cursor cursor = {bytes, bytes + size};
	struct row_value value;

	for (uint32_t row = 0; row < rows; row++)
		for (size_t index = 0; index < tables[table].column_count; index++)
			if (!row_value_next(&cursor, &tables[table].columns[index], &value))
				return false;
	return cursor.at == cursor.end;
}
