/* SPDX-License-Identifier: BSD-2-Clause */
/* Values become opcodes as they come; nothing but the numbers of kept ones stays in memory. */
#include "pickle.h"

#include "containers/containers.h"
#include "text.h"

#define PROTOCOL 4
/* So many items as CPython appends at once; a viewer hands a batch to one call, whose stack is bounded. */
#define BATCH 1000
#define LONG_BYTES 8

enum opcode {
	OP_MARK = '(',
	OP_STOP = '.',
	OP_BININT = 'J',
	OP_BININT1 = 'K',
	OP_BININT2 = 'M',
	OP_LONG1 = 0x8a,
	OP_SHORT_TEXT = 0x8c,
	OP_TEXT = 'X',
	OP_EMPTY_LIST = ']',
	OP_APPENDS = 'e',
	OP_EMPTY_DICT = '}',
	OP_SETITEMS = 'u',
	OP_TUPLE2 = 0x86,
	OP_TRUE = 0x88,
	OP_FALSE = 0x89,
	OP_MEMOIZE = 0x94,
	OP_GET = 'h',
	OP_LONG_GET = 'j',
	OP_PROTOCOL = 0x80,
};

static void put_opcode(struct pickle *pickle, enum opcode opcode)
{
	putc_unlocked((int)opcode, pickle->file);
}

/* Lowest byte first. */
static void put_number(struct pickle *pickle, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		putc_unlocked((int)(value >> 8 * i & 0xff), pickle->file);
}

void pickle_begin(struct pickle *pickle, FILE *file)
{
	*pickle = (struct pickle){.file = file};
	put_opcode(pickle, OP_PROTOCOL);
	put_number(pickle, PROTOCOL, 1);
}

void pickle_end(struct pickle *pickle)
{
	put_opcode(pickle, OP_STOP);
	arrfree(pickle->text);
	hmfree(pickle->texts);
}

void pickle_integer(struct pickle *pickle, int64_t value)
{
	if (value > PICKLE_INTEGER_MAX)
		value = PICKLE_INTEGER_MAX;
	if (value >= 0 && value <= UINT8_MAX) {
		put_opcode(pickle, OP_BININT1);
		put_number(pickle, (uint64_t)value, 1);
	} else if (value >= 0 && value <= UINT16_MAX) {
		put_opcode(pickle, OP_BININT2);
		put_number(pickle, (uint64_t)value, 2);
	} else if (value >= INT32_MIN && value <= INT32_MAX) {
		put_opcode(pickle, OP_BININT);
		put_number(pickle, (uint64_t)value, 4);
	} else {
		put_opcode(pickle, OP_LONG1);
		put_number(pickle, LONG_BYTES, 1);
		put_number(pickle, (uint64_t)value, LONG_BYTES);
	}
}

void pickle_fresh_text(struct pickle *pickle, const char *text)
{
	size_t length;

	arrsetlen(pickle->text, 0);
	pickle->text = text_append_replaced(pickle->text, text, "", ' ');
	length = arrlenu(pickle->text);
	put_opcode(pickle, length <= UINT8_MAX ? OP_SHORT_TEXT : OP_TEXT);
	put_number(pickle, length, length <= UINT8_MAX ? 1 : 4);
	fwrite_unlocked(pickle->text, 1, length, pickle->file);
}

void pickle_text(struct pickle *pickle, const char *text)
{
	ptrdiff_t at = hmgeti(pickle->texts, text);
	uint32_t number;

	if (at >= 0) {
		pickle_again(pickle, pickle->texts[at].value);
		return;
	}
	pickle_fresh_text(pickle, text);
	number = pickle_keep(pickle);
	hmput(pickle->texts, text, number);
}

void pickle_boolean(struct pickle *pickle, bool value)
{
	put_opcode(pickle, value ? OP_TRUE : OP_FALSE);
}

void pickle_pair(struct pickle *pickle, int64_t first, int64_t second)
{
	pickle_integer(pickle, first);
	pickle_integer(pickle, second);
	put_opcode(pickle, OP_TUPLE2);
}

void pickle_dict(struct pickle *pickle)
{
	put_opcode(pickle, OP_EMPTY_DICT);
	put_opcode(pickle, OP_MARK);
}

void pickle_dict_end(struct pickle *pickle)
{
	put_opcode(pickle, OP_SETITEMS);
}

struct pickle_list pickle_list(struct pickle *pickle)
{
	put_opcode(pickle, OP_EMPTY_LIST);
	return (struct pickle_list){.pickle = pickle};
}

void pickle_list_item(struct pickle_list *list)
{
	if (list->count && list->count % BATCH == 0)
		put_opcode(list->pickle, OP_APPENDS);
	if (list->count++ % BATCH == 0)
		put_opcode(list->pickle, OP_MARK);
}

void pickle_list_end(struct pickle_list *list)
{
	if (list->count)
		put_opcode(list->pickle, OP_APPENDS);
}

uint32_t pickle_keep(struct pickle *pickle)
{
	put_opcode(pickle, OP_MEMOIZE);
	return pickle->memo_count++;
}

void pickle_again(struct pickle *pickle, uint32_t number)
{
	put_opcode(pickle, number <= UINT8_MAX ? OP_GET : OP_LONG_GET);
	put_number(pickle, number, number <= UINT8_MAX ? 1 : 4);
}
