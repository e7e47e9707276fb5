/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A memory snapshot as torch.cuda.memory._snapshot() gives it, pickled, for
 * those who look at these: PyTorch's viewer (MemoryViz.js) and its command
 * (torch/cuda/_memory_viz.py), whose demands are kept: docs/report-format.md,
 * "The snapshot". Bytes are those of the memory CSV; where a block lies, and
 * what of it was asked for, is told too.
 */
#include "report.h"

#include <errno.h>
#include <string.h>

#include "containers/containers.h"
#include "history.h"
#include "holders.h"
#include "output.h"
#include "pickle.h"
#include "segments.h"
#include "text.h"

#define SMALL_SEGMENT_BYTES (2ull << 20) /* of PyTorch's allocators */
#define LABEL_BYTES 512

/* What blocks have in common that have the same frames. */
struct frames_key {
	const char *module, *owner;
	uint32_t stack, name;
	uint64_t phase;
};

struct frame_key {
	const char *file, *function;
	uint64_t line;
};

struct shot {
	struct pickle pickle;
	const struct rank *rank;
	uint8_t *
		devices; /* stb_ds: for each number that the snapshot knows the index into rank.devices, or UINT8_MAX */
	struct history *histories; /* stb_ds: of each of them */
	struct {
		struct frames_key key;
		uint32_t value;
	} * lists; /* stb_ds map: lists of frames that were written */
	struct {
		struct frame_key key;
		uint32_t value;
	} * frames; /* stb_ds map */
};

static void put_key_integer(struct pickle *pickle, const char *key, int64_t value)
{
	pickle_text(pickle, key);
	pickle_integer(pickle, value);
}

static void put_key_text(struct pickle *pickle, const char *key, const char *value)
{
	pickle_text(pickle, key);
	pickle_text(pickle, value);
}

/* --- frames -------------------------------------------------------------------------------- */

/* The viewer leaves out frames whose function or file has such a word anywhere in it. */
static const char *const HIDDEN[] = {"unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start",
	"__libc_start_main", "PyEval_", "PyObject_", "PyFunction_", "core/boxing", "/Register", "/Redispatch",
	"pythonrun.c", "Modules/main.c", "Objects/call.c", "Objects/methodobject.c", "pycore_ceval.h", "ceval.c",
	"cpython/abstract.h"};
#define HIDDEN_COUNT (sizeof(HIDDEN) / sizeof(*HIDDEN))
#define ZERO_WIDTH_SPACE "\xe2\x80\x8b"

static bool is_hidden(const char *text)
{
	for (size_t i = 0; i < HIDDEN_COUNT; i++)
		if (strstr(text, HIDDEN[i]))
			return true;
	return false;
}

/* How long a hidden word is that begins here, 0: none does. */
static size_t hidden_length(const char *text)
{
	for (size_t i = 0; i < HIDDEN_COUNT; i++)
		if (!strncmp(text, HIDDEN[i], strlen(HIDDEN[i])))
			return strlen(HIDDEN[i]);
	return 0;
}

/* A name in which no hidden word is left: one has a space of no width in it. `lasts`: it is a text of the model. */
static void put_name(struct pickle *pickle, const char *name, bool lasts)
{
	char *text = NULL;

	if (!is_hidden(name)) {
		(lasts ? pickle_text : pickle_fresh_text)(pickle, name);
		return;
	}
	for (const char *at = name; *at; at++) {
		arrput(text, *at);
		for (const char *space = ZERO_WIDTH_SPACE; hidden_length(at) && *space; space++)
			arrput(text, *space);
	}
	arrput(text, '\0');
	pickle_fresh_text(pickle, text);
	arrfree(text);
}

static void put_frame(struct shot *shot, const struct frame *frame)
{
	struct frame_key key = {frame->file, frame->function, frame->line};
	ptrdiff_t at = hmgeti(shot->frames, key);
	uint32_t number;

	if (at >= 0) {
		pickle_again(&shot->pickle, shot->frames[at].value);
		return;
	}
	pickle_dict(&shot->pickle);
	pickle_text(&shot->pickle, "filename");
	put_name(&shot->pickle, frame->file, true);
	put_key_integer(&shot->pickle, "line", frame->line);
	pickle_text(&shot->pickle, "name");
	put_name(&shot->pickle, frame->function, true);
	pickle_dict_end(&shot->pickle);
	number = pickle_keep(&shot->pickle);
	hmput(shot->frames, key, number);
}

/* What is no place in a file, shown as one: the viewer knows nothing but frames. */
static void put_label(struct shot *shot, const char *file, const char *name)
{
	pickle_dict(&shot->pickle);
	pickle_text(&shot->pickle, "filename");
	put_name(&shot->pickle, file, false);
	put_key_integer(&shot->pickle, "line", 0);
	pickle_text(&shot->pickle, "name");
	put_name(&shot->pickle, name, false);
	pickle_dict_end(&shot->pickle);
}

/* Innermost first: the operator with the phase, the module and the owner, then the Python stack. */
static void put_frames_new(struct shot *shot, const struct frames_key *key)
{
	const struct stack *stack = &shot->rank->stacks[key->stack];
	struct pickle_list list = pickle_list(&shot->pickle);
	char file[LABEL_BYTES], name[LABEL_BYTES];

	snprintf(
		file, sizeof(file), "%s%s%s", phase_name((enum phase)key->phase), *key->module ? " " : "", key->module);
	snprintf(name, sizeof(name), "%s%s%s", shot->rank->operator_names[key->name], *key->owner ? " " : "",
		key->owner);
	pickle_list_item(&list);
	put_label(shot, file, name);
	for (uint32_t i = stack->frame_count; i; i--) {
		pickle_list_item(&list);
		put_frame(shot, &stack->frames[i - 1]);
	}
	pickle_list_end(&list);
}

static void put_frames(struct shot *shot, const struct block *block)
{
	const struct rank *rank = shot->rank;
	struct frames_key key = {rank->runs[block->producer].module, block->owner, block_stack_shown(rank, block),
		block->name, block->phase};
	ptrdiff_t at = hmgeti(shot->lists, key);
	uint32_t number;

	pickle_text(&shot->pickle, "frames");
	if (at >= 0) {
		pickle_again(&shot->pickle, shot->lists[at].value);
		return;
	}
	put_frames_new(shot, &key);
	number = pickle_keep(&shot->pickle);
	hmput(shot->lists, key, number);
}

static void put_no_frames(struct pickle *pickle)
{
	struct pickle_list none;

	pickle_text(pickle, "frames");
	none = pickle_list(pickle);
	pickle_list_end(&none);
}

/* Who asked the driver for a segment. */
static void put_segment_frames(struct shot *shot, const struct segment *segment)
{
	char caller[SEGMENT_CALLER_BYTES];
	struct pickle_list list;

	if (!segment) {
		put_no_frames(&shot->pickle);
		return;
	}
	pickle_text(&shot->pickle, "frames");
	list = pickle_list(&shot->pickle);
	pickle_list_item(&list);
	put_label(shot, segment_caller(shot->rank, segment->caller, caller),
		shot->rank->operator_names[segment->function]);
	pickle_list_end(&list);
}

/* --- segments ------------------------------------------------------------------------------ */

static uint64_t requested_bytes(const struct block *block)
{
	return block->bytes < block_held_bytes(block) ? block->bytes : block_held_bytes(block);
}

static void put_hole(struct pickle *pickle, struct pickle_list *list, uint64_t address, uint64_t bytes)
{
	if (!bytes)
		return;
	pickle_list_item(list);
	pickle_dict(pickle);
	put_key_integer(pickle, "address", (int64_t)address);
	put_key_integer(pickle, "size", (int64_t)bytes);
	put_key_integer(pickle, "requested_size", 0);
	put_key_text(pickle, "state", "inactive");
	put_no_frames(pickle);
	pickle_dict_end(pickle);
}

/* In order and without gaps: the viewer takes the sum of sizes for the address. */
static void put_blocks(struct shot *shot, const struct region *region)
{
	struct pickle *pickle = &shot->pickle;
	uint64_t at = region->address;
	struct pickle_list list;

	pickle_text(pickle, "blocks");
	list = pickle_list(pickle);
	for (size_t i = 0; i < arrlenu(region->left); i++) {
		const struct block *block = region->left[i];

		put_hole(pickle, &list, at, block->address - at);
		at = block->address + block_held_bytes(block);
		pickle_list_item(&list);
		pickle_dict(pickle);
		put_key_integer(pickle, "address", (int64_t)block->address);
		put_key_integer(pickle, "size", (int64_t)block_held_bytes(block));
		put_key_integer(pickle, "requested_size", (int64_t)requested_bytes(block));
		put_key_text(pickle, "state", "active_allocated");
		put_frames(shot, block);
		pickle_dict_end(pickle);
	}
	put_hole(pickle, &list, at, region->address + region->bytes - at);
	pickle_list_end(&list);
}

static void put_segment(struct shot *shot, size_t device, const struct region *region)
{
	struct pickle *pickle = &shot->pickle;
	uint64_t held = 0, requested = 0;

	for (size_t i = 0; i < arrlenu(region->left); i++) {
		held += block_held_bytes(region->left[i]);
		requested += requested_bytes(region->left[i]);
	}
	pickle_dict(pickle);
	put_key_integer(pickle, "device", (int64_t)device);
	put_key_integer(pickle, "address", (int64_t)region->address);
	put_key_integer(pickle, "total_size", (int64_t)region->bytes);
	put_key_integer(pickle, "allocated_size", (int64_t)held);
	put_key_integer(pickle, "active_size", (int64_t)held);
	put_key_integer(pickle, "requested_size", (int64_t)requested);
	put_key_integer(pickle, "stream", region->stream);
	put_key_text(pickle, "segment_type", region->bytes > SMALL_SEGMENT_BYTES ? "large" : "small");
	pickle_text(pickle, "segment_pool_id");
	pickle_pair(pickle, 0, 0);
	pickle_text(pickle, "is_expandable");
	pickle_boolean(pickle, false);
	put_segment_frames(shot, region->of);
	put_blocks(shot, region);
	pickle_dict_end(pickle);
}

static void put_held_segments(struct shot *shot)
{
	struct pickle_list list;

	pickle_text(&shot->pickle, "segments");
	list = pickle_list(&shot->pickle);
	for (size_t device = 0; device < arrlenu(shot->devices); device++) {
		const struct region *regions = shot->histories[device].regions;

		for (size_t i = 0; i < arrlenu(regions); i++) {
			if (!regions[i].held)
				continue;
			pickle_list_item(&list);
			put_segment(shot, device, &regions[i]);
		}
	}
	pickle_list_end(&list);
}

/* --- traces ---------------------------------------------------------------------------------- */

static int64_t time_us(const struct shot *shot, uint64_t time_ns)
{
	return ((int64_t)time_ns + shot->rank->real_offset_ns) / 1000;
}

/* An entry with what all have; the caller ends the dictionary. `where`: the key of `address`. */
static void entry_begin(struct shot *shot, struct pickle_list *list, const char *action, const char *where,
	uint64_t address, uint64_t bytes, uint32_t stream, uint64_t time_ns)
{
	struct pickle *pickle = &shot->pickle;

	pickle_list_item(list);
	pickle_dict(pickle);
	put_key_text(pickle, "action", action);
	put_key_integer(pickle, where, (int64_t)address);
	put_key_integer(pickle, "size", (int64_t)bytes);
	put_key_integer(pickle, "stream", stream);
	put_key_integer(pickle, "time_us", time_us(shot, time_ns));
}

static void put_metadata(struct shot *shot, const struct block *block)
{
	struct pickle *pickle = &shot->pickle;
	const struct operator_run *run = &shot->rank->runs[block->producer];

	pickle_text(pickle, "user_metadata");
	pickle_dict(pickle);
	put_key_integer(pickle, "task", block->start);
	put_key_integer(pickle, "step", run->step);
	put_key_text(pickle, "phase", phase_name((enum phase)block->phase));
	put_key_text(pickle, "operator", shot->rank->operator_names[block->name]);
	put_key_text(pickle, "module", run->module);
	put_key_text(pickle, "owner", block->owner);
	pickle_dict_end(pickle);
}

static void put_allocation(struct shot *shot, struct pickle_list *list, const struct history_event *event)
{
	const struct block *block = event->block;

	entry_begin(shot, list, "alloc", "addr", block->address, block->bytes, block->stream, event->time_ns);
	put_key_text(&shot->pickle, "category", category_name((enum category)block->category));
	put_metadata(shot, block);
	put_frames(shot, block);
	pickle_dict_end(&shot->pickle);
}

/* The two come together: one that is only requested stays drawn for ever. */
static void put_free(struct shot *shot, struct pickle_list *list, const struct history_event *event)
{
	static const char *const ACTIONS[] = {"free_requested", "free_completed"};
	const struct block *block = event->block;

	for (size_t i = 0; i < 2; i++) {
		entry_begin(
			shot, list, ACTIONS[i], "addr", block->address, block->bytes, block->stream, event->time_ns);
		/* Of a block without allocation these are all that is shown. */
		if (!block->first_order) {
			put_key_text(&shot->pickle, "category", category_name((enum category)block->category));
			put_frames(shot, block);
		}
		pickle_dict_end(&shot->pickle);
	}
}

/* What the device had left then is not known: nothing that was enough. */
static void put_out_of_memory(struct shot *shot, struct pickle_list *list, const struct history_event *event)
{
	const struct out_of_memory *exhausted = event->exhausted;
	const char *name = exhausted_name(shot->rank, exhausted);
	const struct stack *stack = &shot->rank->stacks[exhausted->stack];
	struct pickle_list frames;

	entry_begin(shot, list, "oom", "device_free", 0, exhausted->bytes, 0, event->time_ns);
	pickle_text(&shot->pickle, "frames");
	frames = pickle_list(&shot->pickle);
	pickle_list_item(&frames);
	put_label(shot, phase_name((enum phase)exhausted->phase), name ? name : "");
	for (uint32_t i = stack->frame_count; i; i--) {
		pickle_list_item(&frames);
		put_frame(shot, &stack->frames[i - 1]);
	}
	pickle_list_end(&frames);
	pickle_dict_end(&shot->pickle);
}

static void put_event(
	struct shot *shot, const struct history *history, struct pickle_list *list, const struct history_event *event)
{
	const struct region *region;

	switch (event->action) {
	case HISTORY_ALLOCATE:
		put_allocation(shot, list, event);
		return;
	case HISTORY_FREE:
		put_free(shot, list, event);
		return;
	case HISTORY_OOM:
		put_out_of_memory(shot, list, event);
		return;
	default:
		region = &history->regions[event->region];
		entry_begin(shot, list, event->action == HISTORY_SEGMENT_FREE ? "segment_free" : "segment_alloc",
			"addr", region->address, region->bytes, region->stream, event->time_ns);
		put_segment_frames(shot, region->of);
		pickle_dict_end(&shot->pickle);
	}
}

static void put_trace(struct shot *shot, size_t device)
{
	const struct history *history = &shot->histories[device];
	struct pickle_list list = pickle_list(&shot->pickle);

	for (size_t i = 0; i < arrlenu(history->events); i++)
		put_event(shot, history, &list, &history->events[i]);
	/* The viewer fails where there are categories and none of them is this one. */
	if (arrlenu(history->events)) {
		entry_begin(shot, &list, "snapshot", "addr", 0, 0, 0, shot->rank->last_time_ns);
		put_key_text(&shot->pickle, "category", "unknown");
		pickle_dict_end(&shot->pickle);
	}
	pickle_list_end(&list);
}

static void put_traces(struct shot *shot)
{
	struct pickle_list list;

	pickle_text(&shot->pickle, "device_traces");
	list = pickle_list(&shot->pickle);
	for (size_t device = 0; device < arrlenu(shot->devices); device++) {
		pickle_list_item(&list);
		put_trace(shot, device);
	}
	pickle_list_end(&list);
}

static void put_mark(struct shot *shot, struct pickle_list *list, const char *name, const char *stage, size_t device,
	uint64_t time_ns)
{
	struct pickle *pickle = &shot->pickle;

	pickle_list_item(list);
	pickle_dict(pickle);
	pickle_text(pickle, "name");
	pickle_fresh_text(pickle, name);
	put_key_text(pickle, "stage", stage);
	put_key_integer(pickle, "device", (int64_t)device);
	put_key_integer(pickle, "time_us", time_us(shot, time_ns));
	pickle_dict_end(pickle);
}

/* Optimizer steps, on every device. */
static void put_annotations(struct shot *shot)
{
	struct pickle_list list;

	pickle_text(&shot->pickle, "external_annotations");
	list = pickle_list(&shot->pickle);
	for (size_t device = 0; device < arrlenu(shot->devices); device++)
		for (size_t i = 0; i < arrlenu(shot->rank->steps); i++) {
			const struct step *step = &shot->rank->steps[i];
			char name[32];

			snprintf(name, sizeof(name), "step %zu", i);
			put_mark(shot, &list, name, "START", device, step->start_time_ns);
			put_mark(shot, &list, name, "END", device, step->end_time_ns);
		}
	pickle_list_end(&list);
}

/* --- devices --------------------------------------------------------------------------------- */

/* An accelerator has its own number as long as it is free; what is left takes those behind. */
static void devices_number(struct shot *shot)
{
	const struct rank *rank = shot->rank;
	bool *placed = NULL;

	arrzero(placed, arrlenu(rank->devices));
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		const struct device *device = &rank->devices[i];

		if (!device->reported || !device->seen || device_is_host(device->type))
			continue;
		while (arrlenu(shot->devices) <= device->index)
			arrput(shot->devices, UINT8_MAX);
		placed[i] = shot->devices[device->index] == UINT8_MAX;
		if (placed[i])
			shot->devices[device->index] = (uint8_t)i;
	}
	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		if (rank->devices[i].reported && rank->devices[i].seen && !placed[i])
			arrput(shot->devices, (uint8_t)i);
	arrfree(placed);
}

static void put_device_names(struct shot *shot)
{
	struct pickle_list list;

	pickle_text(&shot->pickle, "device_names");
	list = pickle_list(&shot->pickle);
	for (size_t i = 0; i < arrlenu(shot->devices); i++) {
		uint8_t device = shot->devices[i];

		pickle_list_item(&list);
		pickle_text(&shot->pickle, device == UINT8_MAX ? "" : shot->rank->devices[device].name);
	}
	pickle_list_end(&list);
}

int report_snapshot(const struct rank *rank, const struct report_options *options, const char *path)
{
	struct shot shot = {.rank = rank};
	struct output output;
	int error;

	(void)options;
	if (!report_has_data(rank))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	devices_number(&shot);
	arrzero(shot.histories, arrlenu(shot.devices));
	for (size_t i = 0; i < arrlenu(shot.devices); i++)
		if (shot.devices[i] != UINT8_MAX)
			history_find(rank, shot.devices[i], &shot.histories[i]);
	pickle_begin(&shot.pickle, output.file);
	pickle_dict(&shot.pickle);
	put_held_segments(&shot);
	put_traces(&shot);
	put_annotations(&shot);
	put_device_names(&shot);
	pickle_dict_end(&shot.pickle);
	pickle_end(&shot.pickle);
	for (size_t i = 0; i < arrlenu(shot.histories); i++)
		history_free(&shot.histories[i]);
	arrfree(shot.histories);
	arrfree(shot.devices);
	hmfree(shot.lists);
	hmfree(shot.frames);
	return output_commit(&output);
}
