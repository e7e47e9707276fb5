/* SPDX-License-Identifier: BSD-2-Clause */
/* Dictionaries and attributes; Objects/dictobject.c and Include/internal/pycore_dict.h of each version. */
#include "python/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "python/utf8.h"

/* tp_flags. */
#define TYPE_INLINE_VALUES (1ull << 2)
#define TYPE_MANAGED_DICT (1ull << 4)
#define TYPE_IS_INTEGER (1ull << 24)
#define TYPE_IS_LIST (1ull << 25)
#define TYPE_IS_TUPLE (1ull << 26)
#define TYPE_IS_DICT (1ull << 29)

/* PyListObject: ob_size, then ob_item. */
#define LIST_COUNT 16
#define LIST_OBJECTS 24

/* In front of an object: its dictionary, and in 3.11 its values before that. */
#define DICT_BEFORE 24
#define VALUES_BEFORE 32
#define VALUES_TAG 1ull

/* struct _dictvalues of 3.13: capacity, size, embedded, valid, one byte each. */
#define VALUES_CAPACITY 0
#define VALUES_VALID 3

/* PyDictKeysObject */
#define KEYS_309_SIZE 8
#define KEYS_309_COUNT 32
#define KEYS_309_INDICES 40
#define KEYS_311_LOG_BYTES 9
#define KEYS_311_KIND 10
#define KEYS_311_COUNT 24
#define KEYS_311_INDICES 32
#define KEYS_KIND_GENERAL 0
#define KEYS_KIND_SPLIT 2
#define KEYS_LOG_MAX 32

#define ENTRY_WORDS_MAX 3 /* hash, key, value */

int python_memory_read(const struct python_memory *memory, uint64_t address, void *buffer, size_t length)
{
	if (!address || address > UINT64_MAX - length)
		return -EBADMSG;
	return memory->read(memory->context, address, buffer, length);
}

/* What changes while it is read reads as something that never was: it must read alike twice. */
#define READ_TRIES 3
#define STABLE_SMALL 64

static int stable_read(const struct python_memory *memory, uint64_t address, void *buffer, size_t length)
{
	uint8_t small[STABLE_SMALL], *again = length <= sizeof(small) ? small : malloc(length);
	int error = again ? python_memory_read(memory, address, buffer, length) : -ENOMEM;

	for (int tries = 0; !error; tries++) {
		error = tries < READ_TRIES ? python_memory_read(memory, address, again, length) : -EBADMSG;
		if (error || !memcmp(buffer, again, length))
			break;
		memcpy(buffer, again, length);
	}
	if (again != small)
		free(again);
	return error;
}

uint64_t python_pointer(const struct python_memory *memory, uint64_t address)
{
	uint64_t value;

	return python_memory_read(memory, address, &value, sizeof(value)) ? 0 : value;
}

/* The same that holds, 0 when it cannot be read: where another one would lead to something real. */
static uint64_t stable_pointer(const struct python_memory *memory, uint64_t address)
{
	uint64_t value;

	return stable_read(memory, address, &value, sizeof(value)) ? 0 : value;
}

/* --- types ------------------------------------------------------------------- */

uint64_t python_type_of(const struct python_memory *memory, uint64_t object)
{
	return object ? python_pointer(memory, object + memory->layout->object_type) : 0;
}

static uint64_t type_flags(const struct python_memory *memory, uint64_t type)
{
	return type ? python_pointer(memory, type + memory->layout->type.flags) : 0;
}

static void type_name_read(const struct python_memory *memory, uint64_t type, char name[PYTHON_TYPE_NAME_MAX])
{
	char bytes[PYTHON_TYPE_NAME_MAX] = "", *valid;
	uint64_t address = type ? python_pointer(memory, type + memory->layout->type.name) : 0;
	size_t length = sizeof(bytes) - 1;
	const char *last;

	name[0] = 0;
	/* It may lie at the end of what is mapped. */
	while (length && python_memory_read(memory, address, bytes, length))
		length /= 2;
	bytes[length] = 0;
	last = strrchr(bytes, '.');
	last = last ? last + 1 : bytes;
	valid = utf8_sanitize(last, strlen(last));
	if (valid && strlen(valid) < PYTHON_TYPE_NAME_MAX)
		memcpy(name, valid, strlen(valid) + 1);
	free(valid);
}

void python_type_name(const struct python_memory *memory, uint64_t type, char name[PYTHON_TYPE_NAME_MAX])
{
	char again[PYTHON_TYPE_NAME_MAX];

	type_name_read(memory, type, name);
	for (int tries = 0; tries < READ_TRIES; tries++) {
		type_name_read(memory, type, again);
		if (!strcmp(name, again))
			return;
		memcpy(name, again, sizeof(again));
	}
	name[0] = 0;
}

static bool type_is_named(const struct python_memory *memory, uint64_t type, const char *name)
{
	char found[PYTHON_TYPE_NAME_MAX];

	python_type_name(memory, type, found);
	return !strcmp(found, name);
}

/* The order and not the chain of first bases: of several, each has its own. Returns how many there are. */
static size_t type_bases(const struct python_memory *memory, uint64_t type, uint64_t bases[PYTHON_BASES_MAX])
{
	uint64_t order = type ? python_pointer(memory, type + memory->layout->type.order) : 0;
	uint64_t length = order ? python_pointer(memory, order + LIST_COUNT) : 0;

	if (!length || length > PYTHON_BASES_MAX ||
		!(type_flags(memory, python_type_of(memory, order)) & TYPE_IS_TUPLE) ||
		python_memory_read(memory, order + memory->layout->tuple_objects, bases, length * sizeof(*bases)))
		return 0;
	return length;
}

bool python_type_derives(const struct python_memory *memory, uint64_t type, const char *name)
{
	uint64_t bases[PYTHON_BASES_MAX];
	size_t count = type_bases(memory, type, bases);

	for (size_t i = 0; i < count; i++)
		if (type_is_named(memory, bases[i], name))
			return true;
	return false;
}

bool python_is_dict(const struct python_memory *memory, uint64_t object)
{
	return type_flags(memory, python_type_of(memory, object)) & TYPE_IS_DICT;
}

/* --- lists ---------------------------------------------------------------------- */

int python_list_objects(const struct python_memory *memory, uint64_t list, uint64_t **objects)
{
	uint64_t count = python_pointer(memory, list + LIST_COUNT), first = stable_pointer(memory, list + LIST_OBJECTS);
	size_t before = arrlenu(*objects);
	int error;

	if (!(type_flags(memory, python_type_of(memory, list)) & TYPE_IS_LIST) || count > PYTHON_ITEMS_MAX)
		return -EBADMSG;
	if (!count)
		return 0;
	error = stable_read(memory, first, arraddnptr(*objects, count), count * sizeof(**objects));
	if (error)
		arrsetlen(*objects, before);
	return error;
}

/* --- dictionaries ------------------------------------------------------------- */

/* The entries behind a dictionary's keys. */
struct entries {
	uint64_t address;
	uint64_t count;
	uint32_t words; /* of one: hash unless the keys are all strings, key, value */
};

static int keys_309(const struct python_memory *memory, uint64_t keys, struct entries *entries)
{
	uint64_t header[KEYS_309_INDICES / sizeof(uint64_t)], size;
	int error = stable_read(memory, keys, header, sizeof(header));

	if (error)
		return error;
	size = header[KEYS_309_SIZE / sizeof(uint64_t)];
	if (!size || size & (size - 1) || size > 2ull * PYTHON_ITEMS_MAX)
		return -EBADMSG;
	*entries = (struct entries){
		.address = keys + KEYS_309_INDICES +
	                   size * (size <= 0xff            ? 1
					  : size <= 0xffff ? 2
							   : 4),
		.count = header[KEYS_309_COUNT / sizeof(uint64_t)],
		.words = 3,
	};
	return entries->count > size ? -EBADMSG : 0;
}

static int keys_311(const struct python_memory *memory, uint64_t keys, struct entries *entries)
{
	uint8_t header[KEYS_311_INDICES];
	int error = stable_read(memory, keys, header, sizeof(header));

	if (error)
		return error;
	if (header[KEYS_311_LOG_BYTES] > KEYS_LOG_MAX || header[KEYS_311_KIND] > KEYS_KIND_SPLIT)
		return -EBADMSG;
	*entries = (struct entries){
		.address = keys + KEYS_311_INDICES + (1ull << header[KEYS_311_LOG_BYTES]),
		.words = header[KEYS_311_KIND] == KEYS_KIND_GENERAL ? 3 : 2,
	};
	memcpy(&entries->count, header + KEYS_311_COUNT, sizeof(entries->count));
	return 0;
}

static int keys_read(const struct python_memory *memory, uint64_t keys, struct entries *entries)
{
	int error = memory->layout->dict.keys_format == KEYS_FORMAT_309 ? keys_309(memory, keys, entries)
	                                                                : keys_311(memory, keys, entries);

	return error ? error : entries->count > PYTHON_ITEMS_MAX ? -EBADMSG : 0;
}

/* Objects share keys that others may add to: an object has no more values than it had room for when it was made. */
static uint64_t values_count(const struct python_memory *memory, uint64_t values, uint64_t keys)
{
	uint64_t capacity = keys;

	if (memory->layout->dict.first_value)
		capacity = python_pointer(memory, values) >> (8 * VALUES_CAPACITY) & 0xff;
	return capacity < keys ? capacity : keys;
}

/* Keys with their values; these stand in a list of their own (PyDictValues) when `values` is not 0. */
static int entries_read(const struct python_memory *memory, uint64_t keys, uint64_t values, struct python_item **items)
{
	struct entries entries;
	uint64_t *words, *apart = NULL;
	int error = keys_read(memory, keys, &entries);

	if (!error && values)
		entries.count = values_count(memory, values, entries.count);
	if (error || !entries.count)
		return error;
	words = malloc(entries.count * (ENTRY_WORDS_MAX + 1) * sizeof(*words));
	if (!words)
		return -ENOMEM;
	error = stable_read(memory, entries.address, words, entries.count * entries.words * sizeof(*words));
	if (!error && values) {
		apart = words + entries.count * ENTRY_WORDS_MAX;
		error = stable_read(
			memory, values + memory->layout->dict.first_value, apart, entries.count * sizeof(*apart));
	}
	for (uint64_t i = 0; !error && i < entries.count; i++) {
		const uint64_t *entry = words + i * entries.words + entries.words - 2;
		struct python_item item = {
			.key = entry[0],
			.value = apart ? apart[i] : entry[1],
			.place = apart ? values + memory->layout->dict.first_value + i * sizeof(*apart)
		                       : entries.address + (i * entries.words + entries.words - 1) * sizeof(*words),
		};

		if (item.key && item.value)
			arrput(*items, item);
	}
	free(words);
	return error;
}

int python_dict_items(const struct python_memory *memory, uint64_t dict, struct python_item **items)
{
	uint64_t keys, values;
	size_t before = arrlenu(*items);
	int error;

	if (!python_is_dict(memory, dict))
		return -EBADMSG;
	keys = stable_pointer(memory, dict + memory->layout->dict.keys);
	values = stable_pointer(memory, dict + memory->layout->dict.values);
	error = entries_read(memory, keys, values, items);
	/* One that grew meanwhile has other keys. */
	if (!error && python_pointer(memory, dict + memory->layout->dict.keys) != keys)
		error = -EBADMSG;
	if (error && *items)
		arrsetlen(*items, before);
	return error;
}

/* --- containers ---------------------------------------------------------------- */

bool python_type_is_container(const struct python_memory *memory, uint64_t type)
{
	return type_flags(memory, type) & (TYPE_IS_DICT | TYPE_IS_LIST | TYPE_IS_TUPLE);
}

int python_container_items(const struct python_memory *memory, uint64_t object, struct python_item **items)
{
	uint64_t flags = type_flags(memory, python_type_of(memory, object)), count, first, *objects = NULL;
	int error;

	if (flags & TYPE_IS_DICT)
		return python_dict_items(memory, object, items);
	if (!(flags & (TYPE_IS_LIST | TYPE_IS_TUPLE)))
		return -EBADMSG;
	count = python_pointer(memory, object + LIST_COUNT);
	first = flags & TYPE_IS_LIST ? stable_pointer(memory, object + LIST_OBJECTS)
	                             : object + memory->layout->tuple_objects;
	if (!count || count > PYTHON_ITEMS_MAX)
		return count ? -EBADMSG : 0;
	error = stable_read(memory, first, arraddnptr(objects, count), count * sizeof(*objects));
	for (uint64_t i = 0; !error && i < count; i++) {
		struct python_item item = {.value = objects[i], .place = first + i * sizeof(*objects)};

		arrput(*items, item);
	}
	arrfree(objects);
	return error;
}

/* --- attributes ---------------------------------------------------------------- */

static int values_read(const struct python_memory *memory, uint64_t type, uint64_t values, struct python_item **items)
{
	uint64_t keys = stable_pointer(memory, type + memory->layout->type.cached_keys);

	return keys ? entries_read(memory, keys, values, items) : 0;
}

static int inline_values_read(
	const struct python_memory *memory, uint64_t type, uint64_t object, struct python_item **items)
{
	uint64_t size = stable_pointer(memory, type + memory->layout->type.basic_size), head;

	if (!(type_flags(memory, type) & TYPE_INLINE_VALUES))
		return 0;
	head = python_pointer(memory, object + size);
	return head >> (8 * VALUES_VALID) & 0xff ? values_read(memory, type, object + size, items) : 0;
}

int python_attributes(const struct python_memory *memory, uint64_t object, struct python_item **items)
{
	uint64_t type = python_type_of(memory, object), dict, values;

	if (!type)
		return -EBADMSG;
	if (memory->layout->dict.attributes == ATTRIBUTES_AT_OFFSET ||
		!(type_flags(memory, type) & TYPE_MANAGED_DICT)) {
		uint64_t offset = stable_pointer(memory, type + memory->layout->type.dict_offset);

		dict = offset && offset < UINT32_MAX ? stable_pointer(memory, object + offset) : 0;
		return dict ? python_dict_items(memory, dict, items) : 0;
	}
	dict = stable_pointer(memory, object - DICT_BEFORE);
	switch (memory->layout->dict.attributes) {
	case ATTRIBUTES_BEFORE:
		values = stable_pointer(memory, object - VALUES_BEFORE);
		return dict     ? python_dict_items(memory, dict, items)
		       : values ? values_read(memory, type, values, items)
		                : 0;
	case ATTRIBUTES_EITHER:
		if (dict & VALUES_TAG)
			return values_read(memory, type, dict + VALUES_TAG, items);
		return dict ? python_dict_items(memory, dict, items) : 0;
	default:
		return dict ? python_dict_items(memory, dict, items) : inline_values_read(memory, type, object, items);
	}
}

static char *text_read(struct python_memory *memory, uint64_t object)
{
	char *text;

	return python_text_read(memory->layout, &memory->types, memory->read, memory->context, object, &text) ? NULL
	                                                                                                      : text;
}

char *python_text(struct python_memory *memory, uint64_t object)
{
	char *text = text_read(memory, object), *again;

	for (int tries = 0; text && tries < READ_TRIES; tries++) {
		again = text_read(memory, object);
		if (again && !strcmp(text, again)) {
			free(again);
			return text;
		}
		free(text);
		text = again;
	}
	free(text);
	return NULL;
}

/* PyLongObject: how many digits of 30 bits there are, and the sign; then the digits. */
#define INTEGER_SIZE 16
#define INTEGER_DIGITS 24
#define INTEGER_TAG_DIGITS 3 /* since 3.12, from this bit on; below it */
#define INTEGER_TAG_SIGN 3   /* 0: positive, 1: zero, 2: negative */
#define INTEGER_NEGATIVE 2

/* One of a digit: the keys of dictionaries rarely are larger. */
static bool integer_read(const struct python_memory *memory, uint64_t object, int64_t *value)
{
	bool tagged = memory->layout->major > 3 || memory->layout->minor >= 12;
	uint64_t word;
	int64_t count;
	uint32_t digit;

	if (!(type_flags(memory, python_type_of(memory, object)) & TYPE_IS_INTEGER) ||
		python_memory_read(memory, object + INTEGER_SIZE, &word, sizeof(word)) ||
		python_memory_read(memory, object + INTEGER_DIGITS, &digit, sizeof(digit)))
		return false;
	count = (int64_t)word;
	if (tagged) {
		count = (int64_t)(word >> INTEGER_TAG_DIGITS);
		if ((word & INTEGER_TAG_SIGN) == 1)
			count = 0;
		else if ((word & INTEGER_TAG_SIGN) == INTEGER_NEGATIVE)
			count = -count;
	}
	*value = count * (int64_t)digit;
	return count >= -1 && count <= 1;
}

char *python_key_text(struct python_memory *memory, uint64_t key)
{
	char *text = python_text(memory, key), *written = NULL;
	int64_t number;

	if (text && asprintf(&written, "\"%s\"", text) < 0)
		written = NULL;
	else if (!text && integer_read(memory, key, &number) && asprintf(&written, "%" PRId64, number) < 0)
		written = NULL;
	free(text);
	return written;
}

/* --- slots --------------------------------------------------------------------- */

#define TYPE_MEMBERS_BEFORE_ORDER 104 /* from tp_members to tp_mro of PyTypeObject, in all versions */
#define SLOTS_MAX 64
#define SLOT_NAME_MAX 64
#define SLOT_OFFSET_MAX 65536

/* PyMemberDef. */
struct member {
	uint64_t name;
	uint32_t kind, padding;
	uint64_t offset, flags, text;
};

static bool member_is_called(const struct python_memory *memory, const struct member *member, const char *name)
{
	char text[SLOT_NAME_MAX];
	size_t length = strlen(name) + 1;

	return length <= sizeof(text) && !python_memory_read(memory, member->name, text, length) &&
	       !memcmp(text, name, length);
}

uint64_t python_slot(const struct python_memory *memory, uint64_t object, const char *name)
{
	uint64_t bases[PYTHON_BASES_MAX];
	size_t count = type_bases(memory, python_type_of(memory, object), bases);

	for (size_t base = 0; base < count; base++) {
		uint64_t members =
			python_pointer(memory, bases[base] + memory->layout->type.order - TYPE_MEMBERS_BEFORE_ORDER);
		struct member member;

		for (size_t i = 0; members && i < SLOTS_MAX; i++) {
			if (python_memory_read(memory, members + i * sizeof(member), &member, sizeof(member)) ||
				!member.name)
				break;
			if (member.offset < SLOT_OFFSET_MAX && member_is_called(memory, &member, name))
				return stable_pointer(memory, object + member.offset);
		}
	}
	return 0;
}
