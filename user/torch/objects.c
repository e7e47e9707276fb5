/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The walk of objects.h. Sources of the layouts: torch/nn/modules/module.py,
 * torch/optim/optimizer.py.
 */
#include "torch/objects.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "python/variables.h"
#include "torch/graph.h"
#include "torch/tensors.h"

/* Bounds of what is not trusted. */
#define MODULES_MAX (1u << 17)
#define MODULE_DEPTH_MAX 256
#define NAME_MAX_BYTES 1024
#define STATE_MAX (1u << 17) /* parameters of one optimizer */
#define STATE_DEPTH_MAX 4    /* of containers in its state */
#define FRAMES_MAX 1024      /* that outlive their functions */
#define QUICK_LOOKS 512      /* into objects, where there is no time */
#define NODES_MAX (1u << 17) /* of autograd's graph */
#define QUICK_NODES 2048
#define WRAPPERS_MAX 4 /* tensors around tensors */
#define OWNER_KIND_BITS 4

#define SAVED_BY "saved for backward by "

/* What a type makes of its objects. */
enum object_class {
	OBJECT_OTHER,
	OBJECT_TENSOR,
	OBJECT_MODULE,
	OBJECT_OPTIMIZER,
	OBJECT_PROGRAM,
	OBJECT_FRAME,
	OBJECT_CLASSES
};

struct address_set {
	uint64_t key;
	bool value;
};

struct objects_walk {
	struct python_memory *memory;
	const struct torch_layout *torch;
	const struct objects_visitor *visitor;
	struct {
		uint64_t key;
		char *value;
	} * modules;              /* stb_ds map: those that were met, and their names */
	struct address_set *held; /* stb_ds map: TensorImpls that were told */
	struct {
		uint64_t key;
		enum object_class value;
	} * classes; /* stb_ds map: by type */
	struct {
		uint64_t key;
		char *value;
	} * parameters; /* stb_ds map: names of parameters by object */
	struct {
		uint64_t key;
		char *value; /* NULL: no text */
	} * texts;           /* stb_ds map: strings by object; keys of dictionaries are the same few */
	struct {
		uint64_t key; /* address and kind of owner */
		char *value;
	} * shared; /* stb_ds map: names of what parameters are parts of */
};

struct objects_walk *objects_walk_new(
	struct python_memory *memory, const struct torch_layout *torch, const struct objects_visitor *visitor)
{
	struct objects_walk *walk = calloc(1, sizeof(*walk));

	if (walk)
		*walk = (struct objects_walk){.memory = memory, .torch = torch, .visitor = visitor};
	return walk;
}

void objects_walk_free(struct objects_walk *walk)
{
	if (!walk)
		return;
	for (ptrdiff_t i = 0; i < hmlen(walk->modules); i++)
		free(walk->modules[i].value);
	for (ptrdiff_t i = 0; i < hmlen(walk->parameters); i++)
		free(walk->parameters[i].value);
	for (ptrdiff_t i = 0; i < hmlen(walk->texts); i++)
		free(walk->texts[i].value);
	for (ptrdiff_t i = 0; i < hmlen(walk->shared); i++)
		free(walk->shared[i].value);
	hmfree(walk->shared);
	hmfree(walk->modules);
	hmfree(walk->held);
	hmfree(walk->classes);
	hmfree(walk->parameters);
	hmfree(walk->texts);
	free(walk);
}

static enum object_class class_of(struct objects_walk *walk, uint64_t type)
{
	/* The first was the name until 2.10. */
	static const struct {
		const char *base;
		enum object_class class;
	} bases[] = {
		{"_TensorBase", OBJECT_TENSOR},
		{"TensorBase", OBJECT_TENSOR},
		{"Module", OBJECT_MODULE},
		{"Optimizer", OBJECT_OPTIMIZER},
		{"module", OBJECT_PROGRAM},
		{"frame", OBJECT_FRAME},
	};
	ptrdiff_t at = hmgeti(walk->classes, type);
	enum object_class class = OBJECT_OTHER;

	if (at >= 0)
		return walk->classes[at].value;
	for (size_t i = 0; class == OBJECT_OTHER && i < sizeof(bases) / sizeof(*bases); i++)
		if (python_type_derives(walk->memory, type, bases[i].base))
			class = bases[i].class;
	hmput(walk->classes, type, class);
	return class;
}

/* --- attributes ---------------------------------------------------------------- */

/* A name is kept for good: it must say the same twice. */
static char *text_read(struct python_memory *memory, uint64_t object)
{
	char *text = python_text(memory, object), *again = text ? python_text(memory, object) : NULL;

	if (again && strcmp(text, again) == 0) {
		free(again);
		return text;
	}
	free(text);
	free(again);
	return NULL;
}

static const char *text_of(struct objects_walk *walk, uint64_t object)
{
	ptrdiff_t at = hmgeti(walk->texts, object);

	if (at < 0) {
		hmput(walk->texts, object, text_read(walk->memory, object));
		at = hmgeti(walk->texts, object);
	}
	return walk->texts[at].value;
}

/* The value of a name among attributes, 0: it is not there. */
static uint64_t item_of(struct objects_walk *walk, const struct python_item *items, const char *name)
{
	for (size_t i = 0; i < arrlenu(items); i++) {
		const char *text = text_of(walk, items[i].key);

		if (text && !strcmp(text, name))
			return items[i].value;
	}
	return 0;
}

static uint64_t attribute_of(struct objects_walk *walk, uint64_t object, const char *name)
{
	struct python_item *items = NULL;
	uint64_t value = python_attributes(walk->memory, object, &items) ? 0 : item_of(walk, items, name);

	arrfree(items);
	return value;
}

/* "prefix.name" in `out`; false when it would be longer than any real name. */
static bool name_join(char out[NAME_MAX_BYTES], const char *prefix, const char *name)
{
	int length = snprintf(out, NAME_MAX_BYTES, "%s.%s", prefix, name);

	return length > 0 && length < NAME_MAX_BYTES;
}

/* --- tensors --------------------------------------------------------------------- */

/*
 * What a tensor of another kind has its memory in: DTensor, which FSDP2 and tensor parallel make of parameters, and
 * what a functional collective returns until it is waited for. 0: it is none of these.
 */
static uint64_t inner_of(struct objects_walk *walk, uint64_t object, uint64_t type)
{
	static const char *const wrappers[][2] = {{"DTensor", "_local_tensor"}, {"AsyncCollectiveTensor", "elem"}};
	char name[PYTHON_TYPE_NAME_MAX];

	python_type_name(walk->memory, type, name);
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++)
		if (!strcmp(name, wrappers[i][0]))
			return python_slot(walk->memory, object, wrappers[i][1]);
	return 0;
}

/* The tensor of a Python object that has its memory; none where it is no tensor. */
static struct tensor_place tensor_of(struct objects_walk *walk, uint64_t object)
{
	for (int depth = 0; depth < WRAPPERS_MAX; depth++) {
		uint64_t type = python_type_of(walk->memory, object), inner;

		if (class_of(walk, type) != OBJECT_TENSOR)
			break;
		inner = inner_of(walk, object, type);
		if (!inner)
			return tensor_of_object(walk->memory, object);
		object = inner;
	}
	return (struct tensor_place){0};
}

/* That of the gradient of one of these. */
static struct tensor_place gradient_of(struct objects_walk *walk, uint64_t object)
{
	struct tensor_place outer = tensor_of_object(walk->memory, object);
	struct tensor_place gradient = tensor_of_gradient(walk->memory, walk->torch, &outer);

	if (!gradient.tensor || !inner_of(walk, object, python_type_of(walk->memory, object)))
		return gradient;
	return tensor_of(walk, tensor_object(walk->memory, gradient.tensor));
}

/* Adds one of several names, "a, b"; false when it does not fit. */
static bool list_grow(char list[NAME_MAX_BYTES], const char *name)
{
	size_t used = strlen(list);
	int more = snprintf(list + used, NAME_MAX_BYTES - used, "%s%s", used ? ", " : "", name ? name : "");

	if (name && more > 0 && (size_t)more < NAME_MAX_BYTES - used)
		return true;
	list[used] = 0;
	return false;
}

/*
 * Parameters may be parts of one storage, as those of a recurrent network or of a flat one are: that is called by all
 * of them, "Model.first, Model.second". With more than fit it ends in "...". NULL: nothing new is to be told.
 */
static const char *shared_name(struct objects_walk *walk, enum owner_kind kind, uint64_t data, const char *name)
{
	static const char rest[] = "...";
	uint64_t key = data << OWNER_KIND_BITS | kind;
	ptrdiff_t at;
	char *list;
	size_t used;

	if (kind != OWNER_PARAMETER && kind != OWNER_GRADIENT)
		return name;
	at = hmgeti(walk->shared, key);
	if (at < 0) {
		hmput(walk->shared, key, strdup(name));
		return name;
	}
	list = walk->shared[at].value ? realloc(walk->shared[at].value, NAME_MAX_BYTES) : NULL;
	if (!list)
		return NULL;
	walk->shared[at].value = list;
	used = strlen(list);
	if (used >= sizeof(rest) && !strcmp(list + used - (sizeof(rest) - 1), rest))
		return NULL;
	if (used + strlen(name) >= NAME_MAX_BYTES / 2)
		name = rest;
	return list_grow(list, name) ? list : NULL;
}

static void owner_tell(
	struct objects_walk *walk, enum owner_kind kind, const struct tensor_place *place, const char *name)
{
	struct tensor_argument storage;
	uint8_t element_type;

	/* What is shared has the name of its first holder. */
	if (!place->tensor || hmgeti(walk->held, place->tensor) >= 0)
		return;
	element_type = kind == OWNER_PARAMETER ? tensor_element_type(walk->memory, walk->torch, place) : 0;
	/* Last, since only then it is known whether the tensor was there. */
	if (!tensor_storage_read(walk->memory, walk->torch, place, &storage))
		return;
	hmput(walk->held, place->tensor, true);
	name = shared_name(walk, kind, storage.data, name);
	if (name)
		walk->visitor->owner(walk->visitor->context, kind, &storage, element_type, name);
}

/* --- modules --------------------------------------------------------------------- */

/*
 * FullyShardedDataParallel makes one parameter of many and keeps their names:
 * "Model._flat_param(layer.weight, layer.bias)". With more than fit it ends in "...".
 */
static const char *flat_name(struct objects_walk *walk, uint64_t object, const char *name, char out[NAME_MAX_BYTES])
{
	static const char end[] = "_flat_param";
	size_t length = strlen(name);
	struct python_item *items = NULL;
	char list[NAME_MAX_BYTES] = "";
	uint64_t names;
	int written = 0;

	if (length < sizeof(end) - 1 || strcmp(name + length - (sizeof(end) - 1), end) != 0)
		return name;
	names = attribute_of(walk, object, "_fqns");
	if (names && !python_container_items(walk->memory, names, &items)) {
		for (size_t i = 0; i < arrlenu(items); i++) {
			if (strlen(list) + length < NAME_MAX_BYTES / 2 &&
				list_grow(list, text_of(walk, items[i].value)))
				continue;
			list_grow(list, "...");
			break;
		}
		written = snprintf(out, NAME_MAX_BYTES, "%s(%s)", name, list);
	}
	arrfree(items);
	return *list && written > 0 && written < NAME_MAX_BYTES ? out : name;
}

static void parameter_walk(struct objects_walk *walk, uint64_t object, const char *name)
{
	char flat[NAME_MAX_BYTES];
	struct tensor_place place = tensor_of(walk, object), gradient;

	if (!place.tensor)
		return;
	name = flat_name(walk, object, name, flat);
	if (hmgeti(walk->parameters, object) < 0)
		hmput(walk->parameters, object, strdup(name));
	owner_tell(walk, OWNER_PARAMETER, &place, name);
	gradient = gradient_of(walk, object);
	owner_tell(walk, OWNER_GRADIENT, &gradient, name);
}

static void buffer_walk(struct objects_walk *walk, uint64_t object, const char *name)
{
	struct tensor_place place = tensor_of(walk, object);

	owner_tell(walk, OWNER_BUFFER, &place, name);
}

/* Everything in a dictionary of a module, by name. */
static void held_walk(struct objects_walk *walk, uint64_t dict, const char *prefix,
	void (*visit)(struct objects_walk *walk, uint64_t object, const char *name))
{
	struct python_item *items = NULL;
	char name[NAME_MAX_BYTES];

	if (dict && !python_dict_items(walk->memory, dict, &items)) {
		for (size_t i = 0; i < arrlenu(items); i++) {
			const char *text = text_of(walk, items[i].key);

			if (text && name_join(name, prefix, text))
				visit(walk, items[i].value, name);
		}
	}
	arrfree(items);
}

/* A module on the way of the walk. */
struct step {
	uint64_t object;
	char *name;
	uint32_t depth;
};

/* A scripted module has its children in an object around the dictionary. */
static uint64_t children_of(struct objects_walk *walk, const struct python_item *attributes)
{
	uint64_t children = item_of(walk, attributes, "_modules");

	if (!children || python_is_dict(walk->memory, children))
		return children;
	return attribute_of(walk, children, "_python_modules");
}

/* Children onto the stack of steps, the first one on top. */
static void children_push(struct objects_walk *walk, const struct step *parent, uint64_t dict, struct step **steps)
{
	struct python_item *items = NULL;
	char name[NAME_MAX_BYTES];

	if (parent->depth < MODULE_DEPTH_MAX && !python_dict_items(walk->memory, dict, &items)) {
		for (size_t i = arrlenu(items); i-- > 0;) {
			const char *text = text_of(walk, items[i].key);

			if (text && name_join(name, parent->name, text)) {
				struct step child = {items[i].value, strdup(name), parent->depth + 1};

				arrput(*steps, child);
			}
		}
	}
	arrfree(items);
}

/* One module; what it holds comes before its children. -EBADMSG: it is none. */
static int module_walk(struct objects_walk *walk, const struct step *step, struct step **steps)
{
	uint64_t type = python_type_of(walk->memory, step->object), children;
	struct python_item *attributes = NULL;
	int error = class_of(walk, type) == OBJECT_MODULE ? python_attributes(walk->memory, step->object, &attributes)
	                                                  : -EBADMSG;

	children = error ? 0 : children_of(walk, attributes);
	if (!children) {
		arrfree(attributes);
		return error ? error : -EBADMSG;
	}
	hmput(walk->modules, step->object, strdup(step->name));
	if (walk->visitor->module)
		walk->visitor->module(walk->visitor->context, step->object, type, step->name);
	held_walk(walk, item_of(walk, attributes, "_parameters"), step->name, parameter_walk);
	held_walk(walk, item_of(walk, attributes, "_buffers"), step->name, buffer_walk);
	children_push(walk, step, children, steps);
	arrfree(attributes);
	return 0;
}

int objects_walk_modules(struct objects_walk *walk, uint64_t root)
{
	char name[PYTHON_TYPE_NAME_MAX];
	struct step *steps = NULL, first = {.object = root};
	uint64_t type;
	int error = 0;

	if (hmgeti(walk->modules, root) >= 0)
		return 0;
	type = python_type_of(walk->memory, root);
	python_type_name(walk->memory, type, name);
	/* All names below begin with it. */
	if (!*name || python_type_of(walk->memory, root) != type)
		return -EBADMSG;
	first.name = strdup(name);
	arrput(steps, first);
	while (arrlenu(steps)) {
		struct step step = arrpop(steps);

		if (step.name && hmgeti(walk->modules, step.object) < 0 && hmlen(walk->modules) < MODULES_MAX) {
			int result = module_walk(walk, &step, &steps);

			error = step.object == root ? result : error;
		}
		free(step.name);
	}
	arrfree(steps);
	return error;
}

/* --- optimizers -------------------------------------------------------------------- */

/* What an optimizer keeps: a tensor, or tensors in lists, tuples and dictionaries. `behind` ends their names. */
static void kept_walk(
	struct objects_walk *walk, uint64_t object, const char *path, const char *behind, unsigned int depth)
{
	struct tensor_place tensor = tensor_of(walk, object);
	struct python_item *items = NULL;
	char name[NAME_MAX_BYTES];

	if (tensor.tensor) {
		if (snprintf(name, sizeof(name), "%s%s", path, behind) < (int)sizeof(name))
			owner_tell(walk, OWNER_OPTIMIZER, &tensor, name);
		return;
	}
	if (depth == STATE_DEPTH_MAX || python_container_items(walk->memory, object, &items))
		goto cleanup;
	for (size_t i = 0; i < arrlenu(items) && i < STATE_MAX; i++) {
		char *key = items[i].key ? python_key_text(walk->memory, items[i].key) : NULL;
		int length = items[i].key ? snprintf(name, sizeof(name), "%s[%s]", path, key ? key : "?")
		                          : snprintf(name, sizeof(name), "%s[%zu]", path, i);

		if (length < (int)sizeof(name))
			kept_walk(walk, items[i].value, name, behind, depth + 1);
		free(key);
	}
cleanup:
	arrfree(items);
}

/* Each item of a dictionary of an optimizer by its key: "Adam.exp_avg", then `behind`. */
static void keys_walk(struct objects_walk *walk, const char *optimizer, uint64_t dict, const char *behind)
{
	struct python_item *items = NULL;
	char name[NAME_MAX_BYTES];

	if (!python_dict_items(walk->memory, dict, &items)) {
		for (size_t i = 0; i < arrlenu(items); i++) {
			const char *key = text_of(walk, items[i].key);

			if (key && strcmp(key, "params") != 0 && name_join(name, optimizer, key))
				kept_walk(walk, items[i].value, name, behind, 0);
		}
	}
	arrfree(items);
}

/* The tensors that an optimizer keeps for one parameter: "Adam.exp_avg(Model.weight)". */
static void state_walk(struct objects_walk *walk, const char *optimizer, const struct python_item *entry, size_t place)
{
	ptrdiff_t parameter = hmgeti(walk->parameters, entry->key);
	char behind[NAME_MAX_BYTES];
	int length;

	if (parameter >= 0 && walk->parameters[parameter].value)
		length = snprintf(behind, sizeof(behind), "(%s)", walk->parameters[parameter].value);
	else
		length = snprintf(behind, sizeof(behind), "(%zu)", place);
	if (length < (int)sizeof(behind))
		keys_walk(walk, optimizer, entry->value, behind);
}

/* What an optimizer steps is a parameter, also where no module of Python holds it (scripted ones do not). */
static void group_walk(struct objects_walk *walk, const char *optimizer, uint64_t group)
{
	struct python_item *items = NULL;
	uint64_t *parameters = NULL;
	char name[NAME_MAX_BYTES];

	if (!python_dict_items(walk->memory, group, &items))
		python_list_objects(walk->memory, item_of(walk, items, "params"), &parameters);
	for (size_t i = 0; i < arrlenu(parameters) && i < STATE_MAX; i++)
		if (hmgeti(walk->parameters, parameters[i]) < 0 &&
			snprintf(name, sizeof(name), "%s.params(%zu)", optimizer, i) < (int)sizeof(name))
			parameter_walk(walk, parameters[i], name);
	/* A learning rate may be a tensor. */
	keys_walk(walk, optimizer, group, "");
	arrfree(parameters);
	arrfree(items);
}

static void groups_walk(struct objects_walk *walk, const char *optimizer, uint64_t object)
{
	uint64_t list = attribute_of(walk, object, "param_groups"), *groups = NULL;

	if (list)
		python_list_objects(walk->memory, list, &groups);
	for (size_t i = 0; i < arrlenu(groups) && i < STATE_MAX; i++)
		group_walk(walk, optimizer, groups[i]);
	arrfree(groups);
}

static void optimizer_walk(struct objects_walk *walk, uint64_t object)
{
	uint64_t state = attribute_of(walk, object, "state");
	struct python_item *entries = NULL;
	char name[PYTHON_TYPE_NAME_MAX];

	python_type_name(walk->memory, python_type_of(walk->memory, object), name);
	groups_walk(walk, name, object);
	if (state && !python_dict_items(walk->memory, state, &entries))
		for (size_t i = 0; i < arrlenu(entries) && i < STATE_MAX; i++)
			state_walk(walk, name, &entries[i], i);
	arrfree(entries);
}

/* --- the heap ------------------------------------------------------------------------ */

/* What is of interest on the heap, each once, by class. */
struct found {
	struct objects_walk *walk;
	struct address_set *objects[OBJECT_CLASSES]; /* stb_ds maps */
};

static void object_find(void *context, uint64_t object, uint64_t type)
{
	struct found *found = context;
	enum object_class class = class_of(found->walk, type);

	if (class != OBJECT_OTHER)
		hmput(found->objects[class], object, true);
}

/* Modules that are the child of another one. */
static struct address_set *children_find(struct objects_walk *walk, const struct address_set *modules)
{
	struct address_set *children = NULL;

	for (ptrdiff_t i = 0; i < hmlen(modules); i++) {
		struct python_item *attributes = NULL, *items = NULL;
		uint64_t dict = python_attributes(walk->memory, modules[i].key, &attributes)
		                        ? 0
		                        : children_of(walk, attributes);

		if (dict && !python_dict_items(walk->memory, dict, &items))
			for (size_t child = 0; child < arrlenu(items); child++)
				hmput(children, items[child].value, true);
		arrfree(attributes);
		arrfree(items);
	}
	return children;
}

/* --- variables ------------------------------------------------------------------------ */

/* Tensors that nothing better is known of. */
struct unowned {
	struct objects_walk *walk;
	struct {
		uint64_t key; /* Python's object */
		struct tensor_place value;
	} * tensors;               /* stb_ds map */
	struct address_set *named; /* stb_ds map: memory of those that a variable was found for */
};

static bool tensor_is_wanted(void *context, uint64_t object)
{
	struct unowned *unowned = context;

	return hmgeti(unowned->tensors, object) >= 0;
}

static bool type_is_known(void *context, uint64_t type)
{
	struct unowned *unowned = context;

	return class_of(unowned->walk, type) != OBJECT_OTHER;
}

/* What every nn.Module has for itself. */
static bool attribute_is_internal(void *context, uint64_t key)
{
	static const char *const starts[] = {"_parameters", "_buffers", "_modules", "_forward_", "_backward_",
		"_state_dict_", "_load_state_dict_", "_non_persistent_"};
	struct unowned *unowned = context;
	const char *text = text_of(unowned->walk, key);

	for (size_t i = 0; text && i < sizeof(starts) / sizeof(*starts); i++)
		if (!strncmp(text, starts[i], strlen(starts[i])))
			return true;
	return !text;
}

/* The first name that leads to a storage counts, whichever of its tensors it is of. */
static void tensor_named(void *context, const struct python_variable *variable)
{
	struct unowned *unowned = context;
	struct objects_walk *walk = unowned->walk;
	ptrdiff_t at = hmgeti(unowned->tensors, variable->object);
	const struct tensor_place *place = at < 0 ? NULL : &unowned->tensors[at].value;
	struct tensor_argument storage;

	if (!place || hmgeti(walk->held, place->tensor) >= 0 ||
		!tensor_storage_read(walk->memory, walk->torch, place, &storage) ||
		!python_variable_holds(walk->memory, variable))
		return;
	hmput(walk->held, place->tensor, true);
	if (hmgeti(unowned->named, storage.data) >= 0)
		return;
	hmput(unowned->named, storage.data, true);
	walk->visitor->owner(walk->visitor->context, OWNER_VARIABLE, &storage, 0, variable->name);
}

static void variables_look(struct unowned *unowned, const struct found *found, uint64_t runtime)
{
	struct objects_walk *walk = unowned->walk;
	const struct variables_search search = {
		walk->memory, unowned, tensor_is_wanted, type_is_known, attribute_is_internal, tensor_named, 0};
	struct variables *variables = variables_new(&search);

	if (!variables)
		return;
	for (ptrdiff_t i = 0; i < hmlen(walk->modules); i++)
		if (walk->modules[i].value)
			variables_of_object(variables, walk->modules[i].key, walk->modules[i].value);
	if (runtime)
		variables_of_program(variables, runtime);
	for (ptrdiff_t i = 0; i < hmlen(found->objects[OBJECT_FRAME]) && i < FRAMES_MAX; i++)
		variables_of_frame(variables, found->objects[OBJECT_FRAME][i].key);
	for (ptrdiff_t i = 0; i < hmlen(found->objects[OBJECT_PROGRAM]); i++)
		variables_of_module(variables, found->objects[OBJECT_PROGRAM][i].key);
	variables_free(variables);
}

/* --- autograd's graph ------------------------------------------------------------------ */

/* What a node has saved counts where nothing better is known of it. */
static void tensor_saved(void *context, const struct tensor_argument *storage, const char *node)
{
	struct unowned *unowned = context;
	char name[sizeof(SAVED_BY) + GRAPH_NAME_MAX];

	if (hmgeti(unowned->named, storage->data) >= 0)
		return;
	snprintf(name, sizeof(name), SAVED_BY "%s", node);
	unowned->walk->visitor->owner(unowned->walk->visitor->context, OWNER_SAVED, storage, 0, name);
}

/* From tensors of Python, which are the ends of the graph. */
static void graph_walk(struct unowned *unowned, size_t nodes)
{
	const struct graph_visitor visitor = {unowned, tensor_saved};
	struct graph *graph = graph_new(unowned->walk->memory, unowned->walk->torch, &visitor, nodes);

	for (ptrdiff_t i = 0; graph && i < hmlen(unowned->tensors); i++)
		graph_look(graph, &unowned->tensors[i].value);
	graph_free(graph);
}

/* Any tensor that shows up is wanted. */
static bool tensor_shows_up(void *context, uint64_t object)
{
	struct unowned *unowned = context;
	struct tensor_place place;

	if (hmgeti(unowned->tensors, object) >= 0)
		return true;
	place = tensor_of(unowned->walk, object);
	if (place.tensor)
		hmput(unowned->tensors, object, place);
	return place.tensor;
}

void objects_walk_program(struct objects_walk *walk, uint64_t runtime)
{
	struct unowned unowned = {.walk = walk};
	const struct variables_search search = {walk->memory, &unowned, tensor_shows_up, type_is_known,
		attribute_is_internal, tensor_named, QUICK_LOOKS};
	struct variables *variables = variables_new(&search);

	if (variables)
		variables_of_program(variables, runtime);
	variables_free(variables);
	graph_walk(&unowned, QUICK_NODES);
	hmfree(unowned.tensors);
	hmfree(unowned.named);
}

/* Tensors that neither modules nor optimizers hold: by the variables that do, the rest without a name. */
static void variables_walk(struct objects_walk *walk, const struct found *found, uint64_t runtime)
{
	struct unowned unowned = {.walk = walk};

	for (ptrdiff_t i = 0; i < hmlen(found->objects[OBJECT_TENSOR]); i++) {
		uint64_t object = found->objects[OBJECT_TENSOR][i].key;
		struct tensor_place place = tensor_of(walk, object);

		if (place.tensor && hmgeti(walk->held, place.tensor) < 0)
			hmput(unowned.tensors, object, place);
	}
	if (hmlen(unowned.tensors))
		variables_look(&unowned, found, runtime);
	graph_walk(&unowned, NODES_MAX);
	for (ptrdiff_t i = 0; i < hmlen(unowned.tensors); i++)
		owner_tell(walk, OWNER_VARIABLE, &unowned.tensors[i].value, "");
	hmfree(unowned.tensors);
	hmfree(unowned.named);
}

/* --- all of it ------------------------------------------------------------------------ */

static void found_walk(struct objects_walk *walk, const struct found *found, uint64_t runtime)
{
	const struct address_set *modules = found->objects[OBJECT_MODULE];
	struct address_set *children = children_find(walk, modules);

	for (ptrdiff_t i = 0; i < hmlen(modules); i++)
		if (hmgeti(children, modules[i].key) < 0)
			objects_walk_modules(walk, modules[i].key);
	for (ptrdiff_t i = 0; i < hmlen(found->objects[OBJECT_OPTIMIZER]); i++)
		optimizer_walk(walk, found->objects[OBJECT_OPTIMIZER][i].key);
	variables_walk(walk, found, runtime);
	hmfree(children);
}

int objects_walk_heap(struct objects_walk *walk, struct python_heap *heap, uint64_t runtime)
{
	struct found found = {.walk = walk};
	int error = python_heap_walk(walk->memory, heap, object_find, &found);

	found_walk(walk, &found, runtime);
	for (int class = 0; class < OBJECT_CLASSES; class ++)
		hmfree(found.objects[class]);
	return error;
}
