/* SPDX-License-Identifier: BSD-2-Clause */
#include "protobuf.h"

#include "containers/containers.h"
#include "text.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

#define TAG_BITS 3
#define VARINT_BITS 7

static void put_varint(uint8_t **message, uint64_t value)
{
	for (; value >> VARINT_BITS; value >>= VARINT_BITS)
		arrput(*message, (uint8_t)(value | 1u << VARINT_BITS));
	arrput(*message, (uint8_t)value);
}

static void put_tag(uint8_t **message, uint32_t field, enum wire_type type)
{
	put_varint(message, (uint64_t)field << TAG_BITS | type);
}

void proto_varint(uint8_t **message, uint32_t field, uint64_t value)
{
	put_tag(message, field, WIRE_VARINT);
	put_varint(message, value);
}

void proto_fixed64(uint8_t **message, uint32_t field, uint64_t value)
{
	put_tag(message, field, WIRE_FIXED64);
	for (int byte = 0; byte < 8; byte++)
		arrput(*message, (uint8_t)(value >> 8 * byte));
}

void proto_bytes(uint8_t **message, uint32_t field, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;

	put_tag(message, field, WIRE_BYTES);
	put_varint(message, length);
	for (size_t i = 0; i < length; i++)
		arrput(*message, from[i]);
}

void proto_text(uint8_t **message, uint32_t field, const char *text)
{
	char *clean = text_append_replaced(NULL, text, "", ' ');

	proto_bytes(message, field, clean, arrlenu(clean));
	arrfree(clean);
}

void proto_message(uint8_t **message, uint32_t field, uint8_t **inner)
{
	proto_bytes(message, field, *inner, arrlenu(*inner));
	arrsetlen(*inner, 0);
}
