/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The search of variables.h: breadth first, over memory that changes and is not
 * trusted. A name has a head (`local `), a path that grows (`x["key"][0]`) and a
 * tail (` in train (train.py:12)`); at a plain object it begins anew with the class.
 */
#include "python/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "python/threads.h"

/* Bounds of what is not trusted, and of what is worth the time. */
#define NAME_BYTES_MAX 512
#define DEPTH_MAX 4    /* from a variable to what it leads to */
#define LOOKS_MAX 8192 /* objects that are looked into, of one search */
#define ITEMS_MAX 4096 /* of one of them */
#define FRAMES_MAX 512 /* of all threads */
#define LOCALS_MAX 1024

/* tp_flags. */
#define TYPE_IS_HEAP (1ull << 9)
#define TYPE_IS_TYPE (1ull << 31)

/* PyCellObject: what it holds. */
#define CELL_OBJECT 16

enum type_kind { TYPE_DULL, TYPE_CONTAINER, TYPE_PLAIN };

/* An object that is going to be looked into. */
struct stop {
	uint64_t object, place; /* and where it was found, 0: it needs not be there */
	char *path;
	uint32_t root; /* index into roots */
	uint32_t depth;
};

/* What names begin and end with. */
struct root {
	char *head, *tail;
	uint64_t frame, code; /* of locals */
};

struct variables {
	struct variables_search search;
	struct root *roots; /* stb_ds */
	struct stop *stops; /* stb_ds: a queue */
	size_t next;        /* of it */
	struct {
		uint64_t key;
		bool value;
	} * seen; /* stb_ds map: objects that are or were in the queue */
	struct {
		uint64_t key;
		enum type_kind value;
	} * types; /* stb_ds map */
};

struct variables *variables_new(const struct variables_search *search)
{
	struct variables *variables = calloc(1, sizeof(*variables));
	struct root none = {0};

	if (!variables)
		return NULL;
	variables->search = *search;
	arrput(variables->roots, none);
	return variables;
}

void variables_free(struct variables *variables)
{
	if (!variables)
		return;
	for (size_t i = 0; i < arrlenu(variables->roots); i++) {
		free(variables->roots[i].head);
		free(variables->roots[i].tail);
	}
	for (size_t i = 0; i < arrlenu(variables->stops); i++)
		free(variables->stops[i].path);
	arrfree(variables->roots);
	arrfree(variables->stops);
	hmfree(variables->seen);
	hmfree(variables->types);
	free(variables);
}

bool python_variable_holds(const struct python_memory *memory, const struct python_variable *variable)
{
	uint64_t mask = variable->frame ? memory->layout->frame.tag_mask : 0;

	if ((python_pointer(memory, variable->place) & ~mask) != variable->object)
		return false;
	return !variable->frame ||
	       (python_pointer(memory, variable->frame + memory->layout->frame.code) & ~mask) == variable->code;
}

/* --- what a name leads to ---------------------------------------------------------- */

/* Objects of static types are of C: functions, modules, numbers. */
static enum type_kind type_kind_read(const struct variables *variables, uint64_t type)
{
	const struct python_memory *memory = variables->search.memory;
	uint64_t flags = python_pointer(memory, type + memory->layout->type.flags);

	if (variables->search.is_opaque(variables->search.context, type))
		return TYPE_DULL;
	if (python_type_is_container(memory, type))
		return TYPE_CONTAINER;
	return flags & TYPE_IS_HEAP && !(flags & TYPE_IS_TYPE) ? TYPE_PLAIN : TYPE_DULL;
}

static enum type_kind type_kind_of(struct variables *variables, uint64_t type)
{
	ptrdiff_t at = type ? hmgeti(variables->types, type) : -1;
	enum type_kind kind = TYPE_DULL;

	if (at >= 0)
		return variables->types[at].value;
	if (type) {
		kind = type_kind_read(variables, type);
		hmput(variables->types, type, kind);
	}
	return kind;
}

static void stop_add(
	struct variables *variables, const struct python_item *item, const char *path, uint32_t root, uint32_t depth)
{
	struct stop stop = {.object = item->value, .place = item->place, .root = root, .depth = depth};

	size_t looks = variables->search.looks ? variables->search.looks : LOOKS_MAX;

	if (depth > DEPTH_MAX || arrlenu(variables->stops) >= looks || hmgeti(variables->seen, item->value) >= 0)
		return;
	stop.path = strdup(path);
	if (!stop.path)
		return;
	hmput(variables->seen, item->value, true);
	arrput(variables->stops, stop);
}

/* A name has this object, at this place: tell it, or look into it later. */
static void object_meet(
	struct variables *variables, const struct python_item *item, const char *path, uint32_t root, uint32_t depth)
{
	const struct root *from = &variables->roots[root];
	char name[NAME_BYTES_MAX];
	struct python_variable variable = {item->value, item->place, from->frame, from->code, name};
	int length;

	if (!variables->search.is_wanted(variables->search.context, item->value)) {
		stop_add(variables, item, path, root, depth);
		return;
	}
	length = snprintf(
		name, sizeof(name), "%s%s%s", from->head ? from->head : "", path, from->tail ? from->tail : "");
	if (length > 0 && (size_t)length < sizeof(name))
		variables->search.found(variables->search.context, &variable);
}

/*
 * Part of a name: "path" and what comes behind it; false when it is too long, or a key is neither text nor number.
 * In brackets it is written as in a program.
 */
static bool path_grow(
	struct variables *variables, char out[NAME_BYTES_MAX], const char *path, const char *format, uint64_t key)
{
	struct python_memory *memory = variables->search.memory;
	char *text = *format == '[' ? python_key_text(memory, key) : python_text(memory, key);
	int used = snprintf(out, NAME_BYTES_MAX, "%s", path), more = -1;

	if (text && used >= 0 && used < NAME_BYTES_MAX)
		more = snprintf(out + used, (size_t)(NAME_BYTES_MAX - used), format, text);
	free(text);
	return more > 0 && more < NAME_BYTES_MAX - used;
}

/* Is it worth asking what an item is called? Most are numbers and texts. */
static bool item_counts(struct variables *variables, const struct python_item *item)
{
	if (variables->search.is_wanted(variables->search.context, item->value))
		return true;
	if (hmgeti(variables->seen, item->value) >= 0)
		return false;
	return type_kind_of(variables, python_type_of(variables->search.memory, item->value)) != TYPE_DULL;
}

static void items_meet(
	struct variables *variables, const struct python_item *items, const struct stop *stop, const char *format)
{
	char path[NAME_BYTES_MAX];

	for (size_t i = 0; i < arrlenu(items) && i < ITEMS_MAX; i++) {
		bool fits;

		if (!item_counts(variables, &items[i]))
			continue;
		if (items[i].key)
			fits = path_grow(variables, path, stop->path, format, items[i].key);
		else
			fits = snprintf(path, sizeof(path), "%s[%zu]", stop->path, i) < (int)sizeof(path);
		if (fits)
			object_meet(variables, &items[i], path, stop->root, stop->depth + 1);
	}
}

/* It may have died, and another may lie there: then the name no longer leads to it. */
static bool stop_holds(const struct variables *variables, const struct stop *stop)
{
	const struct root *root = &variables->roots[stop->root];
	struct python_variable variable = {stop->object, stop->place, root->frame, root->code, NULL};

	return !stop->place || python_variable_holds(variables->search.memory, &variable);
}

/* The attributes of a plain object are called by its class. */
static void stop_look(struct variables *variables, const struct stop *stop)
{
	struct python_memory *memory = variables->search.memory;
	uint64_t type = python_type_of(memory, stop->object);
	enum type_kind kind = type_kind_of(variables, type);
	char class[PYTHON_TYPE_NAME_MAX];
	struct stop of_class = {.path = class, .depth = stop->depth};
	struct python_item *items = NULL;

	if (kind == TYPE_CONTAINER && !python_container_items(memory, stop->object, &items)) {
		if (stop_holds(variables, stop))
			items_meet(variables, items, stop, "[%s]");
	} else if (kind == TYPE_PLAIN && !python_attributes(memory, stop->object, &items)) {
		python_type_name(memory, type, class);
		if (*class && stop_holds(variables, stop))
			items_meet(variables, items, &of_class, ".%s");
	}
	arrfree(items);
}

static void stops_look(struct variables *variables)
{
	for (; variables->next < arrlenu(variables->stops); variables->next++) {
		struct stop stop = variables->stops[variables->next];

		stop_look(variables, &stop);
	}
}

/* --- objects ---------------------------------------------------------------------- */

void variables_of_object(struct variables *variables, uint64_t object, const char *name)
{
	struct stop stop = {.object = object, .path = (char *)name};
	struct python_item *items = NULL;
	size_t left = 0;

	if (python_attributes(variables->search.memory, object, &items))
		goto cleanup;
	for (size_t i = 0; i < arrlenu(items); i++)
		if (item_counts(variables, &items[i]) &&
			!variables->search.is_internal(variables->search.context, items[i].key))
			items[left++] = items[i];
	if (items)
		arrsetlen(items, left);
	items_meet(variables, items, &stop, ".%s");
	stops_look(variables);
cleanup:
	arrfree(items);
}

/* --- globals ---------------------------------------------------------------------- */

static uint32_t root_add(struct variables *variables, const struct root *root)
{
	arrput(variables->roots, *root);
	return (uint32_t)arrlenu(variables->roots) - 1;
}

/* The name of the module that a dictionary of globals is of; NULL: it has none. */
static char *module_name(struct variables *variables, const struct python_item *items)
{
	for (size_t i = 0; i < arrlenu(items) && i < ITEMS_MAX; i++) {
		char *key = python_text(variables->search.memory, items[i].key);
		bool is_name = key && !strcmp(key, "__name__");

		free(key);
		if (is_name)
			return python_text(variables->search.memory, items[i].value);
	}
	return NULL;
}

static bool any_is_wanted(struct variables *variables, const struct python_item *items)
{
	for (size_t i = 0; i < arrlenu(items); i++)
		if (variables->search.is_wanted(variables->search.context, items[i].value))
			return true;
	return false;
}

/* Globals of a dictionary; `deep`: also what they lead to. */
static void globals_meet(struct variables *variables, const struct python_item *items, bool deep)
{
	char *module = deep || any_is_wanted(variables, items) ? module_name(variables, items) : NULL;
	struct root root = {0};
	uint32_t index;

	if (module && asprintf(&root.tail, " in %s", module) < 0)
		root.tail = NULL;
	free(module);
	if (!root.tail)
		return;
	root.head = strdup("global ");
	index = root_add(variables, &root);
	for (size_t i = 0; i < arrlenu(items) && i < ITEMS_MAX; i++) {
		char path[NAME_BYTES_MAX];

		if (deep ? !item_counts(variables, &items[i])
			 : !variables->search.is_wanted(variables->search.context, items[i].value))
			continue;
		if (path_grow(variables, path, "", "%s", items[i].key))
			object_meet(variables, &items[i], path, index, 1);
	}
}

void variables_of_module(struct variables *variables, uint64_t module)
{
	struct python_item *items = NULL;

	if (!python_attributes(variables->search.memory, module, &items))
		globals_meet(variables, items, false);
	arrfree(items);
}

/* --- frames ----------------------------------------------------------------------- */

static const char *base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

/* " in train (train.py:12)"; NULL when the code object cannot be read. */
static char *locals_tail(struct variables *variables, uint64_t code)
{
	struct python_memory *memory = variables->search.memory;
	char *function = python_text(memory, python_pointer(memory, code + memory->layout->code.qualified_name));
	char *file = python_text(memory, python_pointer(memory, code + memory->layout->code.file)), *tail = NULL;
	uint32_t line = 0;

	if (function && file &&
		!python_memory_read(memory, code + memory->layout->code.first_line, &line, sizeof(line)) &&
		asprintf(&tail, " in %s (%s:%u)", function, base_name(file), line) < 0)
		tail = NULL;
	free(function);
	free(file);
	return tail;
}

/* What a local is: a variable that inner functions share stands in a cell. */
static void local_read(const struct python_memory *memory, uint64_t place, struct python_item *item)
{
	char type[PYTHON_TYPE_NAME_MAX];

	*item = (struct python_item){
		.value = python_pointer(memory, place) & ~(uint64_t)memory->layout->frame.tag_mask, .place = place};
	if (!item->value)
		return;
	python_type_name(memory, python_type_of(memory, item->value), type);
	if (strcmp(type, "cell") != 0)
		return;
	item->place = item->value + CELL_OBJECT;
	item->value = python_pointer(memory, item->place);
}

static void locals_meet(struct variables *variables, uint64_t frame)
{
	struct python_memory *memory = variables->search.memory;
	const struct python_layout *layout = memory->layout;
	uint64_t code = python_pointer(memory, frame + layout->frame.code) & ~(uint64_t)layout->frame.tag_mask;
	struct root root = {.head = NULL, .frame = frame, .code = code};
	struct python_item *names = NULL;
	uint32_t index = 0;

	if (!code || python_container_items(memory, python_pointer(memory, code + layout->code.local_names), &names))
		goto cleanup;
	for (size_t i = 0; i < arrlenu(names) && i < LOCALS_MAX; i++) {
		struct python_item item;
		char path[NAME_BYTES_MAX];

		local_read(memory, frame + layout->frame.localsplus + i * sizeof(uint64_t), &item);
		if (!item.value || !item_counts(variables, &item) ||
			!path_grow(variables, path, "", "%s", names[i].value))
			continue;
		if (!index) {
			root.tail = locals_tail(variables, code);
			if (!root.tail)
				break;
			root.head = strdup("local ");
			index = root_add(variables, &root);
		}
		object_meet(variables, &item, path, index, 1);
	}
cleanup:
	arrfree(names);
}

struct frames {
	uint64_t *addresses; /* stb_ds */
};

static int frame_keep(void *context, uint64_t frame)
{
	struct frames *frames = context;

	arrput(frames->addresses, frame);
	return arrlenu(frames->addresses) >= FRAMES_MAX;
}

static void frame_globals_meet(struct variables *variables, uint64_t frame)
{
	const struct python_memory *memory = variables->search.memory;
	uint64_t globals = python_pointer(memory, frame + memory->layout->frame.globals);
	struct python_item *items = NULL;

	if (!globals || hmgeti(variables->seen, globals) >= 0)
		return;
	hmput(variables->seen, globals, true);
	if (!python_dict_items(memory, globals, &items))
		globals_meet(variables, items, true);
	arrfree(items);
}

void variables_of_program(struct variables *variables, uint64_t runtime)
{
	const struct python_memory *memory = variables->search.memory;
	struct python_image image = {
		.layout = memory->layout, .read = memory->read, .context = memory->context, .runtime = runtime};
	struct frames frames = {NULL};

	python_frames_visit(&image, frame_keep, &frames);
	/* They came innermost first. */
	for (size_t i = arrlenu(frames.addresses); i-- > 0;)
		frame_globals_meet(variables, frames.addresses[i]);
	stops_look(variables);
	for (size_t i = arrlenu(frames.addresses); i-- > 0;)
		locals_meet(variables, frames.addresses[i]);
	stops_look(variables);
	arrfree(frames.addresses);
}

void variables_of_frame(struct variables *variables, uint64_t object)
{
	const struct python_memory *memory = variables->search.memory;
	uint32_t place = memory->layout->frame.of_object;

	locals_meet(variables, place ? python_pointer(memory, object + place) : object);
	stops_look(variables);
}
