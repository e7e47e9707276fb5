/* SPDX-License-Identifier: BSD-2-Clause */
/* UTF-8 (RFC 3629); see utf8.h. */
#include "python/utf8.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xfffdu
#define SURROGATE_FIRST 0xd800u
#define SURROGATE_LAST 0xdfffu
#define CODE_POINT_LAST 0x10ffffu

#define CONTINUATION 0x80u
#define CONTINUATION_BITS 6
#define CONTINUATION_MASK 0x3fu

/* The first code point that needs n + 1 bytes, and the marker bits of the first of n bytes. */
static const uint32_t length_limits[UTF8_MAX] = {0x80, 0x800, 0x10000, 0x110000};
static const uint8_t lead_markers[UTF8_MAX] = {0x00, 0xc0, 0xe0, 0xf0};
/* Bits of the first byte that are the marker. */
static const uint8_t lead_masks[UTF8_MAX] = {0x80, 0xe0, 0xf0, 0xf8};

static int code_point_valid(uint32_t code_point)
{
	return code_point && code_point <= CODE_POINT_LAST &&
	       (code_point < SURROGATE_FIRST || code_point > SURROGATE_LAST);
}

size_t utf8_encode(uint32_t code_point, uint8_t *bytes)
{
	size_t length = 1;

	if (!code_point_valid(code_point))
		code_point = REPLACEMENT;
	while (code_point >= length_limits[length - 1])
		length++;
	for (size_t i = length - 1; i > 0; i--) {
		bytes[i] = (uint8_t)(CONTINUATION | (code_point & CONTINUATION_MASK));
		code_point >>= CONTINUATION_BITS;
	}
	bytes[0] = (uint8_t)(lead_markers[length - 1] | code_point);
	return length;
}

/* Bytes of the valid character at the start of the text; 0: there is none. */
static size_t character_length(const uint8_t *text, size_t available)
{
	size_t length = 1;
	uint32_t code_point;

	while (length <= UTF8_MAX && (text[0] & lead_masks[length - 1]) != lead_markers[length - 1])
		length++;
	if (length > UTF8_MAX || length > available)
		return 0;
	code_point = text[0] & (uint8_t)~lead_masks[length - 1];
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & ~CONTINUATION_MASK) != CONTINUATION)
			return 0;
		code_point = code_point << CONTINUATION_BITS | (text[i] & CONTINUATION_MASK);
	}
	if (!code_point_valid(code_point) || (length > 1 && code_point < length_limits[length - 2]))
		return 0;
	return length;
}

char *utf8_sanitize(const char *text, size_t length)
{
	const uint8_t *bytes = (const uint8_t *)text;
	/* A replaced byte becomes three. */
	uint8_t *result = length < SIZE_MAX / UTF8_MAX ? malloc(3 * length + 1) : NULL;
	uint8_t *out = result;

	if (!result)
		return NULL;
	for (size_t at = 0; at < length;) {
		size_t character = character_length(bytes + at, length - at);

		if (character) {
			out = mempcpy(out, bytes + at, character);
			at += character;
		} else {
			out += utf8_encode(REPLACEMENT, out);
			at++;
		}
	}
	*out = 0;
	return (char *)result;
}
