/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads Python objects out of another process: types, dictionaries, attributes.
 * The memory changes while it is read and is not trusted: every size is
 * bounded, and what does not fit together is an error.
 */
#ifndef HDTRACE_PYTHON_OBJECT_H
#define HDTRACE_PYTHON_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "python/code.h"
#include "python/layout.h"

#define PYTHON_ITEMS_MAX (1u << 20) /* of one dictionary */
#define PYTHON_TYPE_NAME_MAX 128    /* bytes with the NUL; longer ones are cut */
#define PYTHON_BASES_MAX 64         /* of a type, with all of theirs */

struct python_memory {
	const struct python_layout *layout;
	struct python_types types; /* learnt while reading */
	python_read_fn read;
	void *context;
	unsigned int pause_microseconds; /* before what changed is read again */
};

struct python_item {
	uint64_t key, value; /* addresses of objects; key 0: it is its place in a list */
	uint64_t place;      /* address of the pointer to the value */
};

/* `length` bytes at an address: 0, -EBADMSG where none can be, or what `read` returned. */
int python_memory_read(const struct python_memory *memory, uint64_t address, void *buffer, size_t length);
/* A pointer, 0 when it cannot be read. */
uint64_t python_pointer(const struct python_memory *memory, uint64_t address);

/* Address of an object's type, 0 when it cannot be read. */
uint64_t python_type_of(const struct python_memory *memory, uint64_t object);
/* The last part of a type's name, sanitized; empty when it cannot be read. */
void python_type_name(const struct python_memory *memory, uint64_t type, char name[PYTHON_TYPE_NAME_MAX]);
/* Is a type, or one of its bases, of this name? */
bool python_type_derives(const struct python_memory *memory, uint64_t type, const char *name);

/* Does the object's type derive from dict? */
bool python_is_dict(const struct python_memory *memory, uint64_t object);

/*
 * The items of a dictionary in the order of insertion, appended to the stb_ds
 * array *items. -EBADMSG: it is none, or it changed meanwhile.
 */
int python_dict_items(const struct python_memory *memory, uint64_t dict, struct python_item **items);

/* The objects of a list, appended to the stb_ds array *objects. -EBADMSG: it is none. */
int python_list_objects(const struct python_memory *memory, uint64_t list, uint64_t **objects);

/* Is it a type of dictionaries, lists or tuples? */
bool python_type_is_container(const struct python_memory *memory, uint64_t type);
/* The items of a dictionary, list or tuple, appended to the stb_ds array *items. -EBADMSG: it is none. */
int python_container_items(const struct python_memory *memory, uint64_t object, struct python_item **items);

/* The value of an attribute of __slots__, 0: there is none of this name, or it is not set. */
uint64_t python_slot(const struct python_memory *memory, uint64_t object, const char *name);

/* The same of an object's own attributes; none is no error. */
int python_attributes(const struct python_memory *memory, uint64_t object, struct python_item **items);

/* A string object, to be freed; NULL when it is none. */
char *python_text(struct python_memory *memory, uint64_t object);

/* The key of an item as it is written in brackets, `"name"` or `2`, to be freed; NULL when it is neither. */
char *python_key_text(struct python_memory *memory, uint64_t key);

#endif
