// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the outermost modules of a target are called with: while such a call runs, the
 * arguments are in its frame. So the frames are looked at now and then, until one
 * is found; the shapes go into the capture with the end of the target.
 */
#include "record/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "containers/containers.h"
#include "python/threads.h"
#include "target/memory.h"
#include "torch/inputs.h"

#define ROOTS_MAX 8
#define READS_MAX 20000 /* of one look */

/* Looks come so often at first, then so rarely. */
#define SOON_NANOSECONDS 2000000ull
#define RARELY_NANOSECONDS 500000000ull
#define SOON_LOOKS 500
/*
 * Where none was found, the last ones come one after another: a short call is missed by those now and then. The
 * pause is less than the shortest call of a module that can be read.
 */
#define LAST_NANOSECONDS 1000000000ull
#define LAST_PAUSE_NANOSECONDS 10000l

/* A module that no other one was called in. */
struct root {
	uint64_t object;
	char *class;
	struct input *inputs; /* stb_ds; NULL: none was seen yet */
};

struct target_inputs {
	struct root *roots; /* stb_ds */
	uint64_t next_ns;   /* when the next look is due */
	unsigned int looks;
	bool all; /* nothing is left to be looked for */
};

struct look {
	struct target *target;
	unsigned int reads;
	uint64_t *frames; /* stb_ds: of calls of modules */
};

void inputs_add_root(struct target *target, uint64_t object, const char *class)
{
	struct root root = {.object = object};

	if (!target->inputs)
		target->inputs = calloc(1, sizeof(*target->inputs));
	if (!target->inputs || arrlen(target->inputs->roots) >= ROOTS_MAX)
		return;
	root.class = strdup(class);
	if (!root.class)
		return;
	arrput(target->inputs->roots, root);
	target->inputs->all = false;
}

static int inputs_memory_read(void *context, uint64_t address, void *buffer, size_t length)
{
	struct look *look = context;

	return look->reads++ < READS_MAX ? memory_read(look->target->process.pid, address, buffer, length) : -ETIME;
}

static int call_keep(void *context, uint64_t frame)
{
	struct look *look = context;
	const struct python_layout *layout = look->target->libraries[LIBRARY_PYTHON]->python;
	uint64_t code = 0;
	ptrdiff_t at;

	if (!inputs_memory_read(look, frame + layout->frame.code, &code, sizeof(code))) {
		at = hmgeti(look->target->codes, code & ~(uint64_t)layout->frame.tag_mask);
		if (at >= 0 && look->target->codes[at].value == CODE_MODULE_CALL)
			arrput(look->frames, frame);
	}
	return 0;
}

/* The root that a frame calls, NULL: none whose inputs are not known. */
static struct root *root_of(struct target *target, const struct python_memory *memory, uint64_t frame)
{
	uint64_t self = python_pointer(memory, frame + memory->layout->frame.localsplus) &
	                ~(uint64_t)memory->layout->frame.tag_mask;

	for (ptrdiff_t i = 0; i < arrlen(target->inputs->roots); i++)
		if (target->inputs->roots[i].object == self && !arrlen(target->inputs->roots[i].inputs))
			return &target->inputs->roots[i];
	return NULL;
}

static bool all_are_known(const struct target_inputs *inputs)
{
	for (ptrdiff_t i = 0; i < arrlen(inputs->roots); i++)
		if (!arrlen(inputs->roots[i].inputs))
			return false;
	return true;
}

void inputs_look(struct target *target, uint64_t now)
{
	const struct library_plan *python = target->libraries[LIBRARY_PYTHON];
	const struct library_plan *torch = target->libraries[LIBRARY_TORCH_CPU];
	struct target_inputs *inputs = target->inputs;
	struct look look = {.target = target};
	struct python_image image = {.read = inputs_memory_read, .context = &look};
	struct python_memory memory = {.types = target->types, .read = inputs_memory_read, .context = &look};

	if (!inputs || inputs->all || now < inputs->next_ns || !python || !python->python || !torch || !torch->torch)
		return;
	inputs->next_ns = now + (inputs->looks++ < SOON_LOOKS ? SOON_NANOSECONDS : RARELY_NANOSECONDS);
	image.layout = memory.layout = python->python;
	image.runtime = target->bias[LIBRARY_PYTHON] + python->python_runtime;
	image.code_type = target->bias[LIBRARY_PYTHON] + python->python_types.code;
	python_frames_visit(&image, call_keep, &look);
	for (ptrdiff_t i = 0; i < arrlen(look.frames); i++) {
		struct root *root = root_of(target, &memory, look.frames[i]);

		if (root)
			inputs_read(&memory, torch->torch, look.frames[i], &root->inputs);
	}
	inputs->all = all_are_known(inputs);
	arrfree(look.frames);
}

static bool any_is_known(const struct target_inputs *inputs)
{
	for (ptrdiff_t i = 0; i < arrlen(inputs->roots); i++)
		if (arrlen(inputs->roots[i].inputs))
			return true;
	return false;
}

/* Look at all whose inputs are not known; false: there is none such. */
static bool last_look(struct session *session)
{
	bool wanted = false;

	for (ptrdiff_t i = 0; i < arrlen(session->targets); i++) {
		struct target *target = session->targets[i];

		if (target->ended || !target->inputs || any_is_known(target->inputs) ||
			!process_is_alive(&target->process))
			continue;
		target->inputs->next_ns = 0;
		inputs_look(target, 0);
		wanted = true;
	}
	return wanted;
}

void inputs_wait(struct session *session)
{
	const struct timespec pause = {.tv_nsec = LAST_PAUSE_NANOSECONDS};
	uint64_t end = monotonic_ns() + LAST_NANOSECONDS;

	while (last_look(session) && monotonic_ns() < end)
		nanosleep(&pause, NULL);
}

static void text_put(yajl_gen json, const char *text)
{
	yajl_gen_string(json, (const unsigned char *)text, strlen(text));
}

static void root_put(yajl_gen json, const struct root *root)
{
	yajl_gen_map_open(json);
	text_put(json, "module");
	text_put(json, root->class);
	text_put(json, "tensors");
	yajl_gen_array_open(json);
	for (ptrdiff_t i = 0; i < arrlen(root->inputs); i++) {
		const struct input *input = &root->inputs[i];

		yajl_gen_map_open(json);
		text_put(json, "argument");
		text_put(json, input->name);
		text_put(json, "element_type");
		yajl_gen_integer(json, input->shape.element_type - 1);
		text_put(json, "shape");
		yajl_gen_array_open(json);
		for (uint32_t k = 0; k < input->shape.dimensions; k++)
			yajl_gen_integer(json, (long long)input->shape.sizes[k]);
		yajl_gen_array_close(json);
		yajl_gen_map_close(json);
	}
	yajl_gen_array_close(json);
	yajl_gen_map_close(json);
}

void inputs_put(yajl_gen json, const struct target *target)
{
	text_put(json, "inputs");
	yajl_gen_array_open(json);
	for (ptrdiff_t i = 0; target->inputs && i < arrlen(target->inputs->roots); i++)
		if (arrlen(target->inputs->roots[i].inputs))
			root_put(json, &target->inputs->roots[i]);
	yajl_gen_array_close(json);
}

void inputs_forget(struct target *target)
{
	for (ptrdiff_t i = 0; target->inputs && i < arrlen(target->inputs->roots); i++) {
		free(target->inputs->roots[i].class);
		arrfree(target->inputs->roots[i].inputs);
	}
	if (target->inputs)
		arrfree(target->inputs->roots);
	free(target->inputs);
	target->inputs = NULL;
}
