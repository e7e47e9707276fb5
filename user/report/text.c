/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text of a target: file and function names are whatever the target's owner
 * wrote, so nothing in them may break a field, a line or a string of a report.
 */
#include "text.h"

#include <stdbool.h>
#include <string.h>

#include "containers/containers.h"

/* "\ud83d\ude00" and more than %04x can be wrong about. */
#define ESCAPE_BYTES 32

static bool is_continuation(const char *at, const char *end)
{
	return at < end && ((unsigned char)*at & 0xc0) == 0x80;
}

/* Bytes of the sequence that starts with `lead`, and the smallest code point that needs so many; 0: no lead byte. */
static int sequence_bytes(unsigned char lead, uint32_t *smallest, uint32_t *code)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t smallest;
	} FORMS[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (int i = 0; i < 4; i++) {
		if ((lead & FORMS[i].mask) == FORMS[i].lead) {
			*smallest = FORMS[i].smallest;
			*code = lead & (unsigned char)~FORMS[i].mask;
			return i + 1;
		}
	}
	return 0;
}

uint32_t text_next(const char **at, const char *end)
{
	uint32_t code = 0, smallest = 0;
	int bytes = sequence_bytes((unsigned char)**at, &smallest, &code);
	const char *next = *at + 1;

	*at = next;
	for (int i = 1; i < bytes; i++) {
		if (!is_continuation(next, end))
			return TEXT_REPLACEMENT;
		code = code << 6 | ((unsigned char)*next++ & 0x3f);
	}
	if (!bytes || code < smallest || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return TEXT_REPLACEMENT;
	*at = next;
	return code;
}

static char *append_utf8(char *array, uint32_t code)
{
	if (code < 0x80) {
		arrput(array, (char)code);
		return array;
	}
	if (code < 0x800) {
		arrput(array, (char)(0xc0 | code >> 6));
	} else {
		if (code < 0x10000) {
			arrput(array, (char)(0xe0 | code >> 12));
		} else {
			arrput(array, (char)(0xf0 | code >> 18));
			arrput(array, (char)(0x80 | (code >> 12 & 0x3f)));
		}
		arrput(array, (char)(0x80 | (code >> 6 & 0x3f)));
	}
	arrput(array, (char)(0x80 | (code & 0x3f)));
	return array;
}

/* Almost every text: ASCII that needs neither quotes nor replacing. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80 || *text == '"' || *text == ',' || *text == '\r' || *text == '\n')
			return false;
	return true;
}

static char *append(char *array, const char *text, size_t length)
{
	size_t at = arrlenu(array);

	arrsetlen(array, at + length);
	if (length)
		memcpy(array + at, text, length);
	return array;
}

char *text_append_csv(char *array, const char *text)
{
	bool quoted = strpbrk(text, "\",") != NULL;

	if (is_plain(text))
		return append(array, text, strlen(text));
	if (quoted)
		arrput(array, '"');
	for (const char *at = text, *end = text + strlen(text); at < end;) {
		uint32_t code = text_next(&at, end);

		if (code == '\r' || code == '\n')
			code = ' ';
		if (code == '"')
			arrput(array, '"');
		array = append_utf8(array, code);
	}
	if (quoted)
		arrput(array, '"');
	return array;
}

void text_write_csv(FILE *file, const char *text)
{
	char *array;

	if (is_plain(text)) {
		fputs_unlocked(text, file);
		return;
	}
	array = text_append_csv(NULL, text);
	fwrite_unlocked(array, 1, arrlenu(array), file);
	arrfree(array);
}

char *text_append_replaced(char *array, const char *text, const char *unwanted, char with)
{
	for (const char *at = text, *end = text + strlen(text); at < end;) {
		uint32_t code = text_next(&at, end);

		if (code == '\r' || code == '\n')
			code = ' ';
		else if (code < 0x80 && strchr(unwanted, (int)code))
			code = (unsigned char)with;
		array = append_utf8(array, code);
	}
	return array;
}

char *text_append_unquoted(char *array, const char *text)
{
	return text_append_replaced(array, text, ",", '_');
}

/* The \u form of a code point, two for those above 16 bits; the text's length. */
static int escape(char text[ESCAPE_BYTES], uint32_t code)
{
	if (code < 0x10000)
		return snprintf(text, ESCAPE_BYTES, "\\u%04x", code);
	return snprintf(text, ESCAPE_BYTES, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
		0xdc00 + ((code - 0x10000) & 0x3ff));
}

static char *append_escape(char *array, uint32_t code)
{
	static const char SHORT[] = "\"\\\b\f\n\r\t", LETTER[] = "\"\\bfnrt";
	const char *found = code && code < 0x80 ? strchr(SHORT, (int)code) : NULL;
	char text[ESCAPE_BYTES];

	if (!found)
		return append(array, text, (size_t)escape(text, code));
	arrput(array, '\\');
	arrput(array, LETTER[found - SHORT]);
	return array;
}

char *text_append_escaped(char *array, uint32_t code)
{
	char text[ESCAPE_BYTES];

	if (code >= 0x80)
		return append(array, text, (size_t)escape(text, code));
	arrput(array, (char)code);
	return array;
}

char *text_append_json(char *array, const char *text)
{
	arrput(array, '"');
	for (const char *at = text, *end = text + strlen(text); at < end;) {
		uint32_t code = text_next(&at, end);

		if (code < 0x20 || code > 0x7e || code == '"' || code == '\\')
			array = append_escape(array, code);
		else
			arrput(array, (char)code);
	}
	arrput(array, '"');
	arrput(array, '\0');
	(void)arrpop(array);
	return array;
}

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static char *append_part(char *array, const char *text)
{
	for (const char *at = text; *at; at++) {
		char c = *at;

		if (c == '|')
			c = '_';
		else if (c == '\r' || c == '\n')
			c = ' ';
		else if (c == ';' && (starts(at, ";Line:") || starts(at, ";Function:")))
			c = ',';
		arrput(array, c);
	}
	return array;
}

char *text_of_stack(const struct stack *stack)
{
	char *array = NULL, line[32];
	int length;

	for (uint32_t i = 0; i < stack->frame_count; i++) {
		if (i)
			arrput(array, '|');
		array = append(array, "File:", strlen("File:"));
		array = append_part(array, stack->frames[i].file);
		length = snprintf(line, sizeof(line), ";Line:%u;", stack->frames[i].line);
		array = append(array, line, (size_t)length);
		array = append(array, "Function:", strlen("Function:"));
		array = append_part(array, stack->frames[i].function);
	}
	arrput(array, '\0');
	return array;
}

void text_write_character(FILE *file, const char *from, const char *to, uint32_t code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == TEXT_REPLACEMENT)
		putc('?', file);
	else
		fwrite(from, 1, (size_t)(to - from), file);
}

void text_write_columns(FILE *file, const char *text, int columns, bool pad)
{
	const char *end = text + strlen(text), *at = text;
	int length = 0, skip, written = 0;

	while (at < end) {
		text_next(&at, end);
		length++;
	}
	skip = length > columns ? length - columns + 1 : 0;
	if (skip) {
		fputs("…", file);
		written = 1;
	}
	for (at = text; at < end;) {
		const char *from = at;
		uint32_t code = text_next(&at, end);

		if (skip-- > 0)
			continue;
		text_write_character(file, from, at, code);
		written++;
	}
	for (; pad && written < columns; written++)
		putc(' ', file);
}

const enum category categories_sorted[CATEGORIES] = {CATEGORY_ACTIVATION, CATEGORY_BUFFER, CATEGORY_GRADIENT,
	CATEGORY_OPTSTATE, CATEGORY_OTHER, CATEGORY_PARAMETER, CATEGORY_TEMP, CATEGORY_WORKSPACE};
