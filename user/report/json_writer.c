/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON over yajl. Strings are escaped here: yajl passes bytes above ASCII on,
 * whatever they are, and the report is ASCII.
 */
#include "json_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "text.h"

/* Deeper trees than any of ours; the parser and the generator have limits above it. */
#define TREE_DEPTH_MAX 32

#define BUFFER_BYTES (1u << 14)

/* Every decimal of 15 digits survives a double, every double 17 digits. */
#define DOUBLE_DIGITS_SURE 15
#define DOUBLE_DIGITS_ENOUGH 17
#define DOUBLE_BYTES 40
#define INTEGER_BYTES 20 /* 2^64 */

static void json_flush(struct json *json)
{
	if (!json->buffer)
		return;
	fwrite_unlocked(json->buffer, 1, arrlenu(json->buffer), json->file);
	arrsetlen(json->buffer, 0);
}

/* The generator gives pieces of a few bytes. Only keys have more than ASCII in them here, and come whole: json_key. */
static void json_print(void *context, const char *text, size_t length)
{
	struct json *json = context;
	const char *at = text, *end = text + length;
	size_t used = arrlenu(json->buffer);

	if (json->foreign_key) {
		while (at < end)
			json->buffer = text_append_escaped(json->buffer, text_next(&at, end));
		return;
	}
	arrsetlen(json->buffer, used + length);
	memcpy(json->buffer + used, text, length);
	if (arrlenu(json->buffer) >= BUFFER_BYTES)
		json_flush(json);
}

static void check(struct json *json, yajl_gen_status status)
{
	if (status != yajl_gen_status_ok)
		json->failed = true;
}

int json_begin(struct json *json, FILE *file)
{
	memset(json, 0, sizeof(*json));
	json->file = file;
	json->generator = yajl_gen_alloc(NULL);
	if (!json->generator)
		return -ENOMEM;
	yajl_gen_config(json->generator, yajl_gen_beautify, 1);
	yajl_gen_config(json->generator, yajl_gen_indent_string, "  ");
	yajl_gen_config(json->generator, yajl_gen_print_callback, json_print, json);
	return 0;
}

/* The generator ends the text with a line feed itself. */
int json_end(struct json *json)
{
	json_flush(json);
	yajl_gen_free(json->generator);
	arrfree(json->buffer);
	arrfree(json->text);
	return json->failed ? -EINVAL : 0;
}

void json_object(struct json *json)
{
	check(json, yajl_gen_map_open(json->generator));
}

void json_object_end(struct json *json)
{
	check(json, yajl_gen_map_close(json->generator));
}

void json_array(struct json *json)
{
	check(json, yajl_gen_array_open(json->generator));
}

void json_array_end(struct json *json)
{
	check(json, yajl_gen_array_close(json->generator));
}

void json_raw(struct json *json, const char *text, size_t length)
{
	check(json, yajl_gen_number(json->generator, text, length));
}

void json_text(struct json *json, const char *text)
{
	if (!text) {
		json_null(json);
		return;
	}
	arrsetlen(json->text, 0);
	json->text = text_append_json(json->text, text);
	json_raw(json, json->text, arrlenu(json->text));
}

/* The generator escapes what JSON must have escaped, json_print the rest. */
void json_key(struct json *json, const char *key)
{
	size_t length = strlen(key);

	for (size_t i = 0; i < length && !json->foreign_key; i++)
		json->foreign_key = (unsigned char)key[i] >= 0x80;
	check(json, yajl_gen_string(json->generator, (const unsigned char *)key, length));
	json->foreign_key = false;
}

void json_signed(struct json *json, int64_t value)
{
	if (value >= 0)
		json_unsigned(json, (uint64_t)value);
	else
		check(json, yajl_gen_integer(json->generator, value));
}

void json_unsigned(struct json *json, uint64_t value)
{
	char text[INTEGER_BYTES], *at = text + sizeof(text);

	do {
		*--at = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	json_raw(json, at, (size_t)(text + sizeof(text) - at));
}

/* The shortest text that reads back as the same number: the generator's own has 20 digits, right or not. */
void json_double(struct json *json, double value)
{
	char text[DOUBLE_BYTES];
	size_t length;

	for (int digits = DOUBLE_DIGITS_SURE; digits <= DOUBLE_DIGITS_ENOUGH; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	length = strlen(text);
	if (!strpbrk(text, ".en")) {
		memcpy(text + length, ".0", sizeof(".0"));
		length += strlen(".0");
	}
	json_raw(json, text, length);
}

void json_boolean(struct json *json, bool value)
{
	check(json, yajl_gen_bool(json->generator, value));
}

void json_null(struct json *json)
{
	check(json, yajl_gen_null(json->generator));
}

bool json_list(struct json *json, const char *key, size_t count)
{
	json_key(json, key);
	if (count)
		json_array(json);
	else
		json_raw(json, "[]", 2);
	return count > 0;
}

void json_put_text(struct json *json, const char *key, const char *text)
{
	json_key(json, key);
	json_text(json, text);
}

void json_put_signed(struct json *json, const char *key, int64_t value)
{
	json_key(json, key);
	json_signed(json, value);
}

void json_put_unsigned(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_unsigned(json, value);
}

void json_put_unsigned_if(struct json *json, const char *key, bool known, uint64_t value)
{
	json_key(json, key);
	if (known)
		json_unsigned(json, value);
	else
		json_null(json);
}

/* --- trees --------------------------------------------------------------------- */

static int key_compare(const void *left, const void *right, void *context)
{
	yajl_val object = context;

	return strcmp(object->u.object.keys[*(const size_t *)left], object->u.object.keys[*(const size_t *)right]);
}

static void tree_write(struct json *json, yajl_val value, int depth);

static void object_write(struct json *json, yajl_val value, int depth)
{
	size_t *order = NULL;

	for (size_t i = 0; i < value->u.object.len; i++)
		arrput(order, i);
	if (!order) {
		json_raw(json, "{}", 2);
		return;
	}
	qsort_r(order, arrlenu(order), sizeof(*order), key_compare, value);
	json_object(json);
	for (size_t i = 0; i < arrlenu(order); i++) {
		json_key(json, value->u.object.keys[order[i]]);
		tree_write(json, value->u.object.values[order[i]], depth + 1);
	}
	json_object_end(json);
	arrfree(order);
}

static void array_write(struct json *json, yajl_val value, int depth)
{
	if (!value->u.array.len) {
		json_raw(json, "[]", 2);
		return;
	}
	json_array(json);
	for (size_t i = 0; i < value->u.array.len; i++)
		tree_write(json, value->u.array.values[i], depth + 1);
	json_array_end(json);
}

static void tree_write(struct json *json, yajl_val value, int depth)
{
	if (!value || depth > TREE_DEPTH_MAX)
		json_null(json);
	else if (YAJL_IS_OBJECT(value))
		object_write(json, value, depth);
	else if (YAJL_IS_ARRAY(value))
		array_write(json, value, depth);
	else if (YAJL_IS_STRING(value))
		json_text(json, YAJL_GET_STRING(value));
	else if (YAJL_IS_NUMBER(value))
		json_raw(json, YAJL_GET_NUMBER(value), strlen(YAJL_GET_NUMBER(value)));
	else if (YAJL_IS_TRUE(value) || YAJL_IS_FALSE(value))
		json_boolean(json, YAJL_IS_TRUE(value));
	else
		json_null(json);
}

void json_put_tree(struct json *json, const char *key, yajl_val value)
{
	json_key(json, key);
	tree_write(json, value, 0);
}
