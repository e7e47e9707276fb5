/* SPDX-License-Identifier: BSD-2-Clause */
/* Some limits apply always, others follow from how the trace was made and from what it lost. */
#include "limitations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "tree.h"

static const char *const LIMITATIONS[] = {
	"Sizes are those of live blocks; what an allocator holds beside them is a total only (live.devices).",
	"Memory from elsewhere is not in the totals: numpy and shared memory (live.externals), libraries.",
	"Operators that reach a backend without a hook (custom, scripted) are seen by the operators inside.",
	"stream_id is 0 on the CPU, and where the allocator has no USDT that tells the stream.",
};

#define LIMITATION_ATTACHED                                                                                            \
	"The trace began while the job ran: blocks older than it are known where Python holds them, else from their "  \
	"first use only, and not at all when they were not used."
#define LIMITATION_OBJECTS                                                                                             \
	"Modules and owners that lived for less time than it takes to read them have no name; parameters of scripted " \
	"modules have no owner."
#define LIMITATION_NO_OBJECTS                                                                                          \
	"Python's objects were not read: modules are not named, and categories are known from phases and from "        \
	"gradients being stored."
#define LIMITATION_OBJECTS_CHANGED                                                                                     \
	"When Python's objects were read last, they changed faster than they could be followed: owners may be "        \
	"missing."
#define LIMITATION_LITE                                                                                                \
	"Traced at level lite: no users, Python stacks, phases, steps or categories; operators that make no storage "  \
	"are left out, and those that raise are not told from others; sizes on devices are rounded up."
#define LIMITATION_INFERENCE                                                                                           \
	"Inference mode began while the hooks were those that do not see it: operators of its first moments are "      \
	"missing (live.target.inference_gap_ns)."
#define LIMITATION_PYTHON                                                                                              \
	"This interpreter's frames could not be read: no Python stacks, files and lines, and no phases and steps "     \
	"that "                                                                                                        \
	"need them."
#define LIMITATION_CHILDREN                                                                                            \
	"%lld children of the process, forked without exec (as data loaders do), are not in this report."
#define LIMITATION_IDENTITY                                                                                            \
	"The launcher says that this is rank %d of %lld, its largest communicator that it is rank %d of %d."
#define LIMITATION_LOSSES "Events were lost: see live.losses; blocks, users and operators may be missing or wrong."
#define LIMITATION_WINDOW                                                                                              \
	"Only a window of the trace was kept: before live.window.since_ns there are only the blocks that were alive "  \
	"then and the operators that made them; tasks and steps count from these on, and earlier users are missing."
#define LIMITATION_CUT_OFF "The capture was cut off: what happened after its last event is not known."
#define LIMITATION_REUSED "Addresses were given out again without a free that was seen: those blocks end too late."
#define LIMITATION_STACKS_CUT "Python stacks were cut to their innermost frames."
#define LIMITATION_ARGUMENTS_CUT "Arguments of some operators are missing: users of blocks may be missing."

#define LIMITATION_TOTALS                                                                                              \
	"The allocator's totals of a device are not the sum of the blocks that were seen "                             \
	"(live.devices: unexplained_totals)."
#define LIMITATION_DEVICES "Memory of other devices was seen but is not in this report (live.devices; --device)."
#define LIMITATION_IMPORTED                                                                                            \
	"Memory that another process or interface holds was imported: it is listed (rank_N_segments.csv: imported), "  \
	"and in no total."
#define LIMITATION_UNSIZED                                                                                             \
	"Of some arrays or of memory of other processes no call tells the size: they are not in the segments "         \
	"(live.segments.unsized)."
#define LIMITATION_ARRAYS "Arrays of a device are counted by their elements: how the device pads them is not known."
#define LIMITATION_ASYNC                                                                                               \
	"The allocator back end is cudaMallocAsync: blocks are what the driver's pools gave to it, and what the "      \
	"pools "                                                                                                       \
	"hold beside them is not known."

/* The rank that the launcher's environment says must be that of the communicator of all ranks. */
static void put_identity(struct json *json, const struct rank *rank, yajl_val target)
{
	long long world = tree_number(target, "world_size");
	const struct group *largest = NULL;
	char *text;

	for (size_t i = 0; i < arrlenu(rank->groups); i++)
		if (rank->groups[i].size > 0 && (!largest || rank->groups[i].size > largest->size))
			largest = &rank->groups[i];
	if (rank->rank_source != RANK_OF_LAUNCHER || world <= 0 || !largest || largest->size < world ||
		(largest->size == world && largest->rank == rank->rank))
		return;
	if (asprintf(&text, LIMITATION_IDENTITY, rank->rank, world, largest->rank, largest->size) < 0)
		return;
	json_text(json, text);
	free(text);
}

static void put_children(struct json *json, yajl_val end)
{
	yajl_val count = tree_get(end, "forked_children");
	char *text;

	if (!YAJL_IS_INTEGER(count) || YAJL_GET_INTEGER(count) <= 0 ||
		asprintf(&text, LIMITATION_CHILDREN, YAJL_GET_INTEGER(count)) < 0)
		return;
	json_text(json, text);
	free(text);
}

static void put_device_limitations(struct json *json, const struct rank *rank, yajl_val target)
{
	const char *allocator = tree_text(target, "device_allocator");
	bool unexplained = false, others = false;

	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		const struct device *device = &rank->devices[i];

		unexplained |= device->reported && device->unexplained_totals;
		others |= device->seen && !device->reported;
	}
	if (unexplained)
		json_text(json, LIMITATION_TOTALS);
	if (others)
		json_text(json, LIMITATION_DEVICES);
	if (allocator && !strcmp(allocator, "cudaMallocAsync"))
		json_text(json, LIMITATION_ASYNC);
}

static void put_segment_limitations(struct json *json, const struct rank *rank)
{
	bool imported = false, arrays = false;

	for (size_t i = 0; i < arrlenu(rank->segments); i++) {
		imported |= rank->segments[i].memory == SEGMENT_IMPORTED;
		arrays |= rank->segments[i].memory == SEGMENT_ARRAY;
	}
	if (imported)
		json_text(json, LIMITATION_IMPORTED);
	if (arrays)
		json_text(json, LIMITATION_ARRAYS);
	if (rank->unsized_segments)
		json_text(json, LIMITATION_UNSIZED);
}

void put_limitations(struct json *json, const struct rank *rank, yajl_val target, yajl_val end)
{
	const char *level = tree_text(target, "level");
	bool lost = false;

	for (int reason = 0; reason < LOSS_REASONS; reason++)
		lost |= rank->loss.lost[reason] > 0;
	json_key(json, "limitations");
	json_array(json);
	for (size_t i = 0; i < sizeof(LIMITATIONS) / sizeof(*LIMITATIONS); i++)
		json_text(json, LIMITATIONS[i]);
	json_text(json, rank->owners_told ? LIMITATION_OBJECTS : LIMITATION_NO_OBJECTS);
	if (YAJL_IS_FALSE(tree_get(end, "objects_whole")))
		json_text(json, LIMITATION_OBJECTS_CHANGED);
	if (!rank->from_start)
		json_text(json, LIMITATION_ATTACHED);
	if (level && !strcmp(level, "lite"))
		json_text(json, LIMITATION_LITE);
	if (tree_number(target, "inference_gap_ns") > 0)
		json_text(json, LIMITATION_INFERENCE);
	if (YAJL_IS_FALSE(tree_get(target, "python_stacks")))
		json_text(json, LIMITATION_PYTHON);
	if (lost)
		json_text(json, LIMITATION_LOSSES);
	if (rank->window.since_ns)
		json_text(json, LIMITATION_WINDOW);
	if (!rank->end_json)
		json_text(json, LIMITATION_CUT_OFF);
	put_children(json, end);
	put_identity(json, rank, target);
	if (rank->reused_addresses)
		json_text(json, LIMITATION_REUSED);
	put_device_limitations(json, rank, target);
	put_segment_limitations(json, rank);
	if (rank->stacks_cut)
		json_text(json, LIMITATION_STACKS_CUT);
	if (rank->arguments_cut)
		json_text(json, LIMITATION_ARGUMENTS_CUT);
	json_array_end(json);
}
