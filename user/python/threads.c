/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads and frames of a live interpreter; see threads.h. */
#include "python/threads.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* glibc keeps the values of its first keys in struct pthread, at the thread pointer (2.10 to 2.42, x86_64). */
#define SPECIFIC_BLOCK 0x310
#define SPECIFIC_KEYS 32

struct specific {
	uint64_t sequence, data;
};

/* Bounds of what is not trusted; lists that are longer are cut. */
#define INTERPRETERS_MAX 64
#define THREADS_MAX 4096
#define FRAMES_MAX 4096 /* of all threads */

/* An instruction farther than this from its code object does not belong to it. */
#define CODE_BYTES_MAX (64u << 20)

/* How often, and after which pause, frames that do not fit are looked at. */
#define CHECK_TRIES 20
#define CHECK_PAUSE_NS 1000000

/* What is done with a thread's state; nonzero ends the walk. */
typedef int (*thread_fn)(const struct python_image *image, uint64_t state, void *context);

/* A pointer of the target, 0 when it cannot be read. */
static uint64_t pointer_at(const struct python_image *image, uint64_t address)
{
	uint64_t value;

	return image->read(image->context, address, &value, sizeof(value)) ? 0 : value;
}

static int threads_walk(const struct python_image *image, thread_fn visit, void *context)
{
	const struct python_layout *layout = image->layout;
	uint64_t interpreter = pointer_at(image, image->runtime + layout->runtime.interpreters_head);
	unsigned int threads = 0;
	int result = 0;

	for (unsigned int count = 0; interpreter && count < INTERPRETERS_MAX; count++) {
		uint64_t state = pointer_at(image, interpreter + layout->interpreter.threads_head);

		for (; state && threads < THREADS_MAX; threads++) {
			result = visit(image, state, context);
			if (result)
				return result;
			state = pointer_at(image, state + layout->thread.next);
		}
		interpreter = pointer_at(image, interpreter + layout->interpreter.next);
	}
	return 0;
}

/* --- the slot ------------------------------------------------------------------- */

struct slot_count {
	unsigned int holding[SPECIFIC_KEYS]; /* threads whose state is in this slot */
};

static int slots_count(const struct python_image *image, uint64_t state, void *context)
{
	uint64_t pointer = pointer_at(image, state + image->layout->thread.thread_id);
	struct specific specifics[SPECIFIC_KEYS];
	struct slot_count *slots = context;

	if (!pointer || image->read(image->context, pointer + SPECIFIC_BLOCK, specifics, sizeof(specifics)))
		return 0;
	for (unsigned int key = 0; key < SPECIFIC_KEYS; key++)
		slots->holding[key] += specifics[key].data == state;
	return 0;
}

static int slot_find(const struct python_image *image, uint32_t *slot)
{
	struct slot_count slots = {0};
	unsigned int best = 0;

	threads_walk(image, slots_count, &slots);
	/* Extension modules keep states in keys of their own, for some threads only, and made later. */
	for (unsigned int key = 1; key < SPECIFIC_KEYS; key++)
		if (slots.holding[key] > slots.holding[best])
			best = key;
	if (!slots.holding[best])
		return -ESRCH;
	*slot = SPECIFIC_BLOCK + best * (uint32_t)sizeof(struct specific) + (uint32_t)offsetof(struct specific, data);
	return 0;
}

/* --- frames --------------------------------------------------------------------- */

static uint64_t innermost_frame(const struct python_image *image, uint64_t state)
{
	for (uint32_t step = 0; state && step < image->layout->thread.frame_step_count; step++)
		state = pointer_at(image, state + image->layout->thread.frame_steps[step]);
	return state;
}

static bool frame_is_of_c(const struct python_image *image, uint64_t frame)
{
	uint8_t owner;

	return image->layout->frame.owner_skip &&
	       !image->read(image->context, frame + image->layout->frame.owner, &owner, 1) &&
	       owner >= image->layout->frame.owner_skip;
}

static bool frame_fits(const struct python_image *image, uint64_t frame)
{
	const struct python_layout *layout = image->layout;
	uint64_t code = pointer_at(image, frame + layout->frame.code) & ~layout->frame.tag_mask;
	uint64_t instruction = pointer_at(image, frame + layout->frame.instruction);

	if (!code || pointer_at(image, code + layout->object_type) != image->code_type)
		return false;
	if (layout->frame.index_unit) /* -1: no instruction has run */
		return (int32_t)instruction >= -1 && (int32_t)instruction < (int32_t)CODE_BYTES_MAX;
	return instruction > code && instruction - code < CODE_BYTES_MAX;
}

struct look {
	bool thread, frame; /* there was one */
	unsigned int count; /* of frames that were looked at */
};

static int frames_look(const struct python_image *image, uint64_t state, void *context)
{
	uint64_t frame = innermost_frame(image, state);
	struct look *look = context;

	look->thread = true;
	for (; frame && look->count < FRAMES_MAX; look->count++) {
		if (!frame_is_of_c(image, frame)) {
			if (frame_fits(image, frame))
				return 1;
			look->frame = true;
		}
		frame = pointer_at(image, frame + image->layout->frame.previous);
	}
	return 0;
}

static int frames_check(const struct python_image *image)
{
	struct look look = {0};

	if (threads_walk(image, frames_look, &look))
		return 0;
	return look.frame ? -EBADMSG : look.thread ? 0 : -ENOENT;
}

/* --- files ---------------------------------------------------------------------- */

#define FILE_BYTES_MAX 512

/* The list of an interpreter's threads begins with the newest. */
static int state_keep(const struct python_image *image, uint64_t state, void *context)
{
	(void)image;
	*(uint64_t *)context = state;
	return 0;
}

/* "" when it cannot be read. */
static void file_read(const struct python_image *image, uint64_t frame, char file[FILE_BYTES_MAX])
{
	uint64_t code = pointer_at(image, frame + image->layout->frame.code) & ~(uint64_t)image->layout->frame.tag_mask;
	uint64_t text = code ? pointer_at(image, code + image->layout->code.file) : 0;
	uint64_t length = text ? pointer_at(image, text + image->layout->text.length) : 0;

	if (!length || length >= FILE_BYTES_MAX ||
		image->read(image->context, text + image->layout->text.ascii_data, file, length))
		length = 0;
	file[length] = '\0';
}

void python_files_visit(const struct python_image *image, int (*visit)(void *context, const char *file), void *context)
{
	uint64_t state = 0, frame;
	char file[FILE_BYTES_MAX];
	bool ended = false;

	threads_walk(image, state_keep, &state);
	frame = innermost_frame(image, state);
	for (unsigned int count = 0; frame && !ended && count < FRAMES_MAX; count++) {
		file_read(image, frame, file);
		ended = *file && visit(context, file);
		frame = pointer_at(image, frame + image->layout->frame.previous);
	}
}

/* --- all frames --------------------------------------------------------------------- */

struct frame_visit {
	int (*visit)(void *context, uint64_t frame);
	void *context;
	unsigned int count;
};

static int frames_tell(const struct python_image *image, uint64_t state, void *context)
{
	struct frame_visit *visit = context;
	uint64_t frame = innermost_frame(image, state);

	for (; frame && visit->count < FRAMES_MAX; visit->count++) {
		if (!frame_is_of_c(image, frame)) {
			int result = visit->visit(visit->context, frame);

			if (result)
				return result;
		}
		frame = pointer_at(image, frame + image->layout->frame.previous);
	}
	return 0;
}

void python_frames_visit(const struct python_image *image, int (*visit)(void *context, uint64_t frame), void *context)
{
	struct frame_visit all = {.visit = visit, .context = context};

	threads_walk(image, frames_tell, &all);
}

/* --- the main thread --------------------------------------------------------------- */

static struct python_spot spot_read(const struct python_image *image, uint64_t frame)
{
	const struct python_layout *layout = image->layout;
	struct python_spot spot = {
		.code = pointer_at(image, frame + layout->frame.code) & ~(uint64_t)layout->frame.tag_mask,
		.instruction = pointer_at(image, frame + layout->frame.instruction),
	};

	if (layout->frame.index_unit)
		spot.instruction = spot.code + (uint32_t)spot.instruction * (uint64_t)layout->frame.index_unit;
	return spot;
}

size_t python_main_stack(const struct python_image *image, struct python_spot *spots, size_t room)
{
	uint64_t state = 0, frame;
	size_t count = 0;

	threads_walk(image, state_keep, &state);
	frame = innermost_frame(image, state);
	for (unsigned int looked = 0; frame && count < room && looked < FRAMES_MAX; looked++) {
		if (!frame_is_of_c(image, frame))
			spots[count++] = spot_read(image, frame);
		frame = pointer_at(image, frame + image->layout->frame.previous);
	}
	return count;
}

/* --- both ----------------------------------------------------------------------- */

int python_threads_find(const struct python_image *image, uint32_t *slot)
{
	const struct timespec pause = {.tv_nsec = CHECK_PAUSE_NS};
	int error = frames_check(image);

	for (int tries = 1; error == -EBADMSG && tries < CHECK_TRIES; tries++) {
		nanosleep(&pause, NULL);
		error = frames_check(image);
	}
	return error ? error : slot_find(image, slot);
}

const char *python_threads_error(int error)
{
	switch (error) {
	case -ENOENT:
		return "the interpreter has no thread yet";
	case -EBADMSG:
		return "Python's frames are not where the layout has them";
	default:
		return "the threads' states are in none of the first thread-specific keys of glibc";
	}
}
