// SPDX-License-Identifier: BSD-2-Clause
/*
 * The interpreter of a target, as the programs must know it. The layout comes
 * with the plan of its file; here it is tried on the live process before it is used.
 */
#include "record/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "python/location.h"
#include "python/threads.h"
#include "target/memory.h"

#define STAND_FRAMES_MAX 16

static int target_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct target *target = context;

	return memory_read(target->process.pid, address, buffer, length);
}

/* Where the aligned word begins that has this byte. */
static uint32_t word_of(uint32_t offset)
{
	return offset / sizeof(uint64_t) * sizeof(uint64_t);
}

/* The fields that lie together are read at once: where they begin, and how far they reach. */
static void frame_settings(struct target_settings *settings, const struct python_layout *layout)
{
	uint32_t owner_word = word_of(layout->frame.owner);
	const uint32_t fields[] = {layout->frame.code, layout->frame.previous, layout->frame.instruction,
		layout->frame.owner_skip ? owner_word : layout->frame.code, layout->frame.localsplus};
	uint32_t first = fields[0], last = fields[0];

	for (size_t index = 1; index < sizeof(fields) / sizeof(fields[0]); index++)
		first = fields[index] < first ? fields[index] : first;
	/* localsplus of a frame object lies far off. */
	for (size_t index = 1; index < sizeof(fields) / sizeof(fields[0]); index++)
		last = fields[index] > last && fields[index] - first < FRAME_SPAN_MAX ? fields[index] : last;
	settings->frame_base = (uint16_t)first;
	settings->frame_span = (uint16_t)(last - first + sizeof(uint64_t));
	settings->frame_code = (uint16_t)(layout->frame.code - first);
	settings->frame_previous = (uint16_t)(layout->frame.previous - first);
	settings->frame_instruction = (uint16_t)(layout->frame.instruction - first);
	settings->frame_owner = (uint16_t)(fields[3] - first);
	settings->frame_owner_shift = (uint16_t)(8 * (layout->frame.owner - owner_word));
	settings->frame_owner_skip = (uint8_t)layout->frame.owner_skip;
	settings->frame_self = (uint16_t)(layout->frame.localsplus - first);
	settings->frame_tag_mask = (uint8_t)layout->frame.tag_mask;
	settings->frame_index_unit = (uint8_t)layout->frame.index_unit;
}

static void layout_settings(struct target_settings *settings, const struct python_layout *layout)
{
	settings->python_frame_step_count = (uint8_t)layout->thread.frame_step_count;
	for (uint32_t step = 0; step < layout->thread.frame_step_count; step++)
		settings->python_frame_steps[step] = (uint16_t)layout->thread.frame_steps[step];
	frame_settings(settings, layout);
	settings->code_file = (uint16_t)layout->code.file;
	settings->code_name = (uint16_t)layout->code.name;
	settings->code_qualified_name = (uint16_t)layout->code.qualified_name;
	settings->code_table = (uint16_t)layout->code.table;
	settings->code_first_line = (uint16_t)word_of(layout->code.first_line);
	settings->bytes_length = (uint16_t)layout->bytes.length;
	settings->bytes_data = (uint16_t)layout->bytes.data;
}

/* The interpreter of a process that has that of `owner`, itself or as its fork. */
static bool image_of(const struct target *owner, struct target *process, struct python_image *image)
{
	const struct library_plan *plan = owner->libraries[LIBRARY_PYTHON];

	if (!plan || !plan->python || !plan->python_runtime)
		return false;
	*image = (struct python_image){
		.layout = plan->python,
		.read = target_read,
		.context = process,
		.runtime = owner->bias[LIBRARY_PYTHON] + plan->python_runtime,
		.code_type = owner->bias[LIBRARY_PYTHON] + plan->python_types.code,
	};
	return true;
}

/* The texts of *frame are to be freed. */
static bool spot_read(
	struct target *target, const struct python_layout *layout, const struct python_spot *spot, struct frame *frame)
{
	struct python_types types = target->types;
	struct python_code code;
	uint32_t line = 0;

	if (python_code_read(layout, &types, target_read, target, spot->code, &code))
		return false;
	if (spot->instruction >= code.first_instruction)
		location_line(code.table_format, code.table, code.table_length, code.first_line,
			spot->instruction - code.first_instruction, &line);
	*frame = (struct frame){.file = code.file, .function = code.name, .line = line};
	code.file = code.name = NULL;
	python_code_clear(&code);
	return true;
}

struct frame *python_stand(struct target *target)
{
	struct python_spot spots[STAND_FRAMES_MAX];
	struct python_image image;
	struct frame *frames = NULL, frame;
	size_t count;

	if (target->settings.python_thread_slot == 0 || !image_of(target, target, &image))
		return NULL;
	count = python_main_stack(&image, spots, STAND_FRAMES_MAX);
	for (size_t index = 0; index < count; index++)
		if (spot_read(target, image.layout, &spots[index], &frame))
			arrput(frames, frame);
	return frames;
}

/* Files of a loader's worker, in this order from the innermost frame on. */
static const char *const loader_files[] = {
	"/multiprocessing/process.py", "/multiprocessing/popen_fork.py", "/torch/utils/data/dataloader.py"};

#define LOADER_FILES (sizeof(loader_files) / sizeof(loader_files[0]))

static int loader_look(void *context, const char *file)
{
	size_t *found = context;

	*found += strstr(file, loader_files[*found]) != NULL;
	return *found == LOADER_FILES;
}

/*
 * It forked inside the constructor of an iterator, and these frames stay below all that it ever runs. A rank that is
 * itself forked and uses a loader has the same files, in another order.
 */
bool python_is_loader(const struct target *parent, struct target *child)
{
	size_t found = 0;
	struct python_image image;

	if (!image_of(parent, child, &image))
		return false;
	python_files_visit(&image, loader_look, &found);
	return found == LOADER_FILES;
}

void python_settings(const struct session *session, struct target *target)
{
	const struct library_plan *plan = target->libraries[LIBRARY_PYTHON];
	uint64_t bias = target->bias[LIBRARY_PYTHON];
	struct target_settings *settings = &target->settings;
	struct python_image image;
	int error;

	settings->python_thread_slot = 0;
	if (!plan || !plan->python)
		return;
	image = (struct python_image){
		.layout = plan->python,
		.read = target_read,
		.context = target,
		.runtime = bias + plan->python_runtime,
		.code_type = bias + plan->python_types.code,
	};
	target->types = (struct python_types){
		bias + plan->python_types.code, bias + plan->python_types.text, bias + plan->python_types.bytes};
	error = python_threads_find(&image, &settings->python_thread_slot);
	if (error) {
		session_tell(session, "pid %d: %s; Python stacks, files and lines are left out", target->process.pid,
			python_threads_error(error));
		return;
	}
	layout_settings(settings, plan->python);
}
