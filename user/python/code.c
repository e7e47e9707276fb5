/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader of code objects; see code.h. */
#include "python/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/utf8.h"

/* Room for the fixed part of a code object in every known version. */
#define CODE_HEADER_MAX 256
/* The same for the fixed part of a string. */
#define TEXT_HEADER_MAX 96

/* tp_flags that say what an object's type derives from; the same in every version 3. */
#define TYPE_IS_BYTES (1ull << 27)
#define TYPE_IS_TEXT (1ull << 28)

/* Bits of a string's state: two of interning, three of kind, then these. */
#define STATE_KIND_SHIFT 2
#define STATE_KIND_MASK 7u
#define STATE_COMPACT (1u << 5)
#define STATE_ASCII (1u << 6)

/* The name of the type of code objects, with its NUL. */
static const char code_type_name[] = "code";

struct remote {
	const struct python_layout *layout;
	python_read_fn read;
	void *context;
	struct python_types *types;
};

static int remote_read(const struct remote *remote, uint64_t address, void *buffer, size_t length)
{
	/* An address and its length must not wrap, whatever the target wrote. */
	if (!address || address > UINT64_MAX - length)
		return -EBADMSG;
	return remote->read(remote->context, address, buffer, length);
}

static uint64_t field_u64(const uint8_t *object, uint32_t offset)
{
	uint64_t value;

	memcpy(&value, object + offset, sizeof(value));
	return value;
}

static uint32_t field_u32(const uint8_t *object, uint32_t offset)
{
	uint32_t value;

	memcpy(&value, object + offset, sizeof(value));
	return value;
}

/* --- types ------------------------------------------------------------------ */

/* Does the type derive from the one with this flag? Keeps it in *known. */
static int type_derives(const struct remote *remote, uint64_t type, uint64_t flag, uint64_t *known)
{
	uint64_t flags;
	int error;

	if (type == *known)
		return 0;
	error = remote_read(remote, type + remote->layout->type.flags, &flags, sizeof(flags));
	if (error)
		return error;
	if (!(flags & flag))
		return -EBADMSG;
	*known = type;
	return 0;
}

static int type_is_code(const struct remote *remote, uint64_t type)
{
	char name[sizeof(code_type_name)];
	uint64_t address;
	int error;

	if (type == remote->types->code)
		return 0;
	error = remote_read(remote, type + remote->layout->type.name, &address, sizeof(address));
	if (!error)
		error = remote_read(remote, address, name, sizeof(name));
	if (error)
		return error;
	if (memcmp(name, code_type_name, sizeof(name)) != 0)
		return -EBADMSG;
	remote->types->code = type;
	return 0;
}

/* --- strings ---------------------------------------------------------------- */

/* Where the characters of a string are, and how wide; -EBADMSG: not in one piece with it. */
static int text_shape(const struct python_layout *layout, uint32_t state, unsigned int *width, uint32_t *data)
{
	*width = state >> STATE_KIND_SHIFT & STATE_KIND_MASK;
	if (!(state & STATE_COMPACT) || (*width != 1 && *width != 2 && *width != 4))
		return -EBADMSG;
	if (state & STATE_ASCII && *width != 1)
		return -EBADMSG;
	*data = state & STATE_ASCII ? layout->text.ascii_data : layout->text.compact_data;
	return 0;
}

static uint32_t character_at(const uint8_t *characters, unsigned int width, size_t index)
{
	uint32_t wide;
	uint16_t half;

	switch (width) {
	case 1:
		return characters[index];
	case 2:
		memcpy(&half, characters + index * sizeof(half), sizeof(half));
		return half;
	default:
		memcpy(&wide, characters + index * sizeof(wide), sizeof(wide));
		return wide;
	}
}

/* UTF-8 of `length` characters, at most PYTHON_TEXT_MAX bytes of it. */
static int text_convert(const uint8_t *characters, unsigned int width, size_t length, char **text)
{
	uint8_t *result = malloc(length * UTF8_MAX + 1);
	size_t used = 0;

	if (!result)
		return -ENOMEM;
	for (size_t i = 0; i < length; i++)
		used += utf8_encode(character_at(characters, width, i), result + used);
	result[used] = 0;
	if (used > PYTHON_TEXT_MAX) {
		free(result);
		return -E2BIG;
	}
	*text = (char *)result;
	return 0;
}

static int text_read(const struct remote *remote, uint64_t address, char **text)
{
	const struct python_layout *layout = remote->layout;
	uint8_t header[TEXT_HEADER_MAX] = {0}, characters[PYTHON_TEXT_MAX * sizeof(uint32_t)];
	uint64_t length;
	unsigned int width;
	uint32_t data;
	int error = remote_read(remote, address, header, layout->text.state + sizeof(uint32_t));

	if (error)
		return error;
	error = text_shape(layout, field_u32(header, layout->text.state), &width, &data);
	if (error)
		return error;
	length = field_u64(header, layout->text.length);
	if (length > PYTHON_TEXT_MAX)
		return -E2BIG;
	error = type_derives(remote, field_u64(header, layout->object_type), TYPE_IS_TEXT, &remote->types->text);
	if (error)
		return error;
	if (length)
		error = remote_read(remote, address + data, characters, length * width);
	return error ? error : text_convert(characters, width, length, text);
}

int python_text_read(const struct python_layout *layout, struct python_types *types, python_read_fn read, void *context,
	uint64_t address, char **text)
{
	struct remote remote = {.layout = layout, .read = read, .context = context, .types = types};

	return text_read(&remote, address, text);
}

/* --- the location table ------------------------------------------------------- */

static int table_read(const struct remote *remote, uint64_t address, uint8_t **table, size_t *table_length)
{
	const struct python_layout *layout = remote->layout;
	uint8_t header[TEXT_HEADER_MAX] = {0};
	uint64_t length;
	int error = remote_read(remote, address, header, layout->bytes.data);

	if (!error)
		error = type_derives(
			remote, field_u64(header, layout->object_type), TYPE_IS_BYTES, &remote->types->bytes);
	if (error)
		return error;
	length = field_u64(header, layout->bytes.length);
	if (length > PYTHON_TABLE_MAX)
		return -E2BIG;
	*table = malloc(length ? length : 1);
	if (!*table)
		return -ENOMEM;
	if (length)
		error = remote_read(remote, address + layout->bytes.data, *table, length);
	*table_length = error ? 0 : length;
	return error;
}

/* --- code objects ----------------------------------------------------------- */

static int identity_read(const struct remote *remote, uint64_t address, struct python_code_identity *identity)
{
	const struct python_layout *layout = remote->layout;
	uint8_t object[CODE_HEADER_MAX] = {0};
	uint32_t tuples = layout->code.size + sizeof(uint64_t);
	int error = remote_read(remote, address, object, layout->code.table + sizeof(uint64_t));

	if (error)
		return error;
	*identity = (struct python_code_identity){
		.type = field_u64(object, layout->object_type),
		.size = field_u64(object, layout->code.size),
		.table = field_u64(object, layout->code.table),
		.constants = field_u64(object, tuples),
		.names = field_u64(object, tuples + sizeof(uint64_t)),
		.exceptions = field_u64(object, tuples + 2 * sizeof(uint64_t)),
		.file = field_u64(object, layout->code.file),
		.name = field_u64(object, layout->code.name),
		.qualified_name = field_u64(object, layout->code.qualified_name),
		.flags = field_u32(object, layout->code.flags),
		.first_line = field_u32(object, layout->code.first_line),
	};
	return 0;
}

int python_code_read(const struct python_layout *layout, struct python_types *types, python_read_fn read, void *context,
	uint64_t address, struct python_code *code)
{
	struct remote remote = {.layout = layout, .read = read, .context = context, .types = types};
	const struct python_code_identity *identity = &code->identity;
	int error;

	*code = (struct python_code){
		.address = address,
		.first_instruction = address + layout->code.instructions,
		.table_format = layout->code.table_format,
	};
	error = identity_read(&remote, address, &code->identity);
	if (error)
		goto cleanup;
	error = type_is_code(&remote, identity->type);
	if (error)
		goto cleanup;
	code->first_line = identity->first_line;
	error = text_read(&remote, identity->file, &code->file);
	if (error)
		goto cleanup;
	error = text_read(&remote, identity->name, &code->name);
	if (error)
		goto cleanup;
	error = text_read(&remote, identity->qualified_name, &code->qualified_name);
	if (error)
		goto cleanup;
	error = table_read(&remote, identity->table, &code->table, &code->table_length);
	if (error)
		goto cleanup;
	/* Still the same object: then all that it owns was alive while it was read. */
	error = python_code_same(layout, read, context, code);
	if (error >= 0)
		error = error ? 0 : -ESTALE;
cleanup:
	if (error)
		python_code_clear(code);
	return error;
}

int python_code_same(
	const struct python_layout *layout, python_read_fn read, void *context, const struct python_code *code)
{
	struct remote remote = {.layout = layout, .read = read, .context = context};
	struct python_code_identity now;
	int error = identity_read(&remote, code->address, &now);

	if (error)
		return error;
	/* Without padding, so that bytes may be compared. */
	_Static_assert(sizeof(now) == 9 * sizeof(uint64_t) + 2 * sizeof(uint32_t), "identity has padding");
	return memcmp(&now, &code->identity, sizeof(now)) == 0;
}

void python_code_clear(struct python_code *code)
{
	free(code->file);
	free(code->name);
	free(code->qualified_name);
	free(code->table);
	*code = (struct python_code){0};
}
