/* SPDX-License-Identifier: BSD-2-Clause */
/* The reading of inputs.h. Source of the arguments' places: torch/nn/modules/module.py of each version. */
#include "torch/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"

/* Arguments of the call by their place: all others by place, all others by keyword. */
#define LOCAL_SELF 0
#define LOCAL_PLACES 1
#define LOCAL_KEYWORDS 2
#define LOCALS 3

#define DEPTH_MAX 3
#define ITEMS_MAX 256
#define CELL_OBJECT 16 /* PyCellObject: what it holds */

struct reading {
	struct python_memory *memory;
	const struct torch_layout *torch;
	struct input **inputs;
	size_t first; /* of this call */
};

/* What stands at a frame's first locals; a variable that inner functions share stands in a cell. */
static bool locals_read(const struct python_memory *memory, uint64_t frame, uint64_t locals[LOCALS])
{
	const struct python_layout *layout = memory->layout;
	char type[PYTHON_TYPE_NAME_MAX];

	if (python_memory_read(memory, frame + layout->frame.localsplus, locals, LOCALS * sizeof(*locals)))
		return false;
	for (int i = 0; i < LOCALS; i++) {
		locals[i] &= ~(uint64_t)layout->frame.tag_mask;
		python_type_name(memory, python_type_of(memory, locals[i]), type);
		if (!strcmp(type, "cell"))
			locals[i] = python_pointer(memory, locals[i] + CELL_OBJECT);
	}
	return locals[LOCAL_SELF] && locals[LOCAL_PLACES];
}

static bool is_tensor(const struct python_memory *memory, uint64_t object)
{
	uint64_t type = python_type_of(memory, object);

	return type &&
	       (python_type_derives(memory, type, "TensorBase") || python_type_derives(memory, type, "_TensorBase"));
}

static void tensor_take(const struct reading *reading, uint64_t object, const char *name)
{
	struct tensor_place place = tensor_of_object(reading->memory, object);
	struct input input;

	if (arrlenu(*reading->inputs) - reading->first >= INPUTS_MAX ||
		!tensor_shape_read(reading->memory, reading->torch, &place, &input.shape))
		return;
	snprintf(input.name, sizeof(input.name), "%s", name);
	arrput(*reading->inputs, input);
}

/* The name of an item of what is called `outer`, "" being the arguments themselves; false: it would be too long. */
static bool item_name(const struct reading *reading, const char *outer, const struct python_item *item, size_t place,
	char name[INPUT_NAME_MAX])
{
	char *key = item->key ? python_text(reading->memory, item->key) : NULL;
	int length;

	if (key)
		length = snprintf(name, INPUT_NAME_MAX, *outer ? "%s[\"%s\"]" : "%s%s", outer, key);
	else
		length = snprintf(name, INPUT_NAME_MAX, *outer ? "%s[%zu]" : "%s%zu", outer, place);
	free(key);
	return length > 0 && length < INPUT_NAME_MAX;
}

static void container_take(const struct reading *reading, uint64_t object, const char *outer, int depth)
{
	struct python_item *items = NULL;
	char name[INPUT_NAME_MAX];

	if (!object || depth > DEPTH_MAX || python_container_items(reading->memory, object, &items)) {
		arrfree(items);
		return;
	}
	for (size_t i = 0; i < arrlenu(items) && i < ITEMS_MAX; i++) {
		if (!item_name(reading, outer, &items[i], i, name))
			continue;
		if (is_tensor(reading->memory, items[i].value))
			tensor_take(reading, items[i].value, name);
		else if (python_type_is_container(reading->memory, python_type_of(reading->memory, items[i].value)))
			container_take(reading, items[i].value, name, depth + 1);
	}
	arrfree(items);
}

bool inputs_read(struct python_memory *memory, const struct torch_layout *torch, uint64_t frame, struct input **inputs)
{
	struct reading reading = {memory, torch, inputs, arrlenu(*inputs)};
	uint64_t code = python_pointer(memory, frame + memory->layout->frame.code), before[LOCALS], after[LOCALS];

	if (!locals_read(memory, frame, before))
		return false;
	container_take(&reading, before[LOCAL_PLACES], "", 0);
	container_take(&reading, before[LOCAL_KEYWORDS], "", 0);
	if (locals_read(memory, frame, after) && !memcmp(before, after, sizeof(before)) &&
		python_pointer(memory, frame + memory->layout->frame.code) == code)
		return true;
	if (*inputs)
		arrsetlen(*inputs, reading.first);
	return false;
}
