// SPDX-License-Identifier: BSD-2-Clause
/*
 * Blocks that are alive, and what each device holds.
 *
 * Lifetimes are the model's (model/memory.c): an address that is given out again
 * lost its free; a device's allocator tells its own totals, which count; a block
 * that Python holds, or that is an argument, and that was never seen being made is
 * older than the trace. Only for a while, though: what shows up later without
 * having been made (memory shared with a process that loads data, NumPy's) has no
 * end that is seen, and would pile up.
 */
#include <stdio.h>

#include <hdtrace/capture.h>

#include "live/state.h"
#include "model/category.h"

/* No machine has more; sums stay sums. */
#define BLOCK_BYTES_MAX (1ull << TENSOR_BYTES_BITS)

/* --- devices ------------------------------------------------------------------------- */

uint8_t live_device_find(struct state *state, uint8_t type, uint8_t index)
{
	struct live_rank *rank = &state->rank;
	struct live_device *device;

	for (size_t i = 0; i < rank->device_count; i++)
		if (rank->devices[i].type == type && rank->devices[i].index == index)
			return (uint8_t)i;
	if (rank->device_count == LIVE_DEVICES_MAX)
		return LIVE_DEVICES_MAX;
	device = &rank->devices[rank->device_count];
	*device = (struct live_device){
		.type = type,
		.index = index,
		.size_bytes = LIVE_UNKNOWN,
		.idle_bytes = LIVE_UNKNOWN,
		.idle_blocks = LIVE_UNKNOWN,
	};
	device_name_format(device->name, type, index);
	return (uint8_t)rank->device_count++;
}

/* Not every accelerator shares the host's addresses; theirs have fewer bits than these. */
static uint64_t block_key(uint8_t device, uint64_t address)
{
	return address ^ (uint64_t)device << 56;
}

/* Key of the block at an argument, 0: none. */
static uint64_t argument_key(struct state *state, const struct tensor_argument *argument, uint8_t *device)
{
	/* Pinned memory is made and freed by an allocator that tells nothing. */
	if (!argument->data || argument->device_type == DEVICE_PINNED)
		return 0;
	*device = live_device_find(state, argument->device_type, (uint8_t)argument->device_index);
	return *device == LIVE_DEVICES_MAX ? 0 : block_key(*device, argument->data);
}

static void peak_raise(const struct state *state, struct live_device *device, uint64_t time_ns)
{
	/* Its blocks are not known one by one. */
	if (state->rank.host_away && device_is_host(device->type))
		return;
	if (device->bytes > device->next_peak_bytes)
		device->next_peak_bytes = device->bytes;
	if (device->bytes <= device->peak_bytes)
		return;
	device->peak_bytes = device->bytes;
	device->peak_time_ns = time_ns;
}

/* --- sums ------------------------------------------------------------------------------ */

/* Add a block to what it counts for, or take it out (`sign` -1). */
static void block_count(struct state *state, const struct live_block *block, int sign)
{
	struct live_device *device = &state->rank.devices[block->device];
	enum side side = device_is_host(device->type) ? SIDE_HOST : SIDE_DEVICE;
	uint64_t bytes = sign > 0 ? block->bytes : -block->bytes, one = sign > 0 ? 1 : UINT64_MAX;

	device->blocks += one;
	device->block_bytes += bytes;
	device->category_bytes[block->category] += bytes;
	device->phase_bytes[block->phase] += bytes;
	if (!device->has_totals)
		device->bytes += bytes;
	for (int table = 0; table < LIVE_TABLES; table++) {
		struct place *place = &state->places[table].places[block->place[table]];

		place->bytes[side] += bytes;
		place->blocks[side] += one;
	}
}

static uint8_t block_category(const struct state *state, const struct live_block *block)
{
	struct category_facts facts = {
		.workspace = block->flags & BLOCK_WORKSPACE,
		.holder = block->holder,
		.parameter = block->flags & BLOCK_PARAMETER,
		.gradient = block->flags & BLOCK_GRADIENT,
		.preexisting = block->flags & BLOCK_PREEXISTING,
		.phase = block->phase < PHASES ? block->phase : PHASE_FORWARD,
	};
	bool held = block->holder && block->holder != OWNER_VARIABLE;

	/* Without phases, and without gradients, only what Python holds tells. */
	if (state->rank.lite && !held && !facts.workspace)
		return CATEGORIES;
	return (uint8_t)category_of(&facts);
}

static void block_change(struct state *state, struct live_block *block, const struct live_block *as)
{
	block_count(state, block, -1);
	*block = *as;
	block->category = block_category(state, block);
	block_count(state, block, 1);
}

static struct live_block *block_at(struct state *state, uint64_t key)
{
	ptrdiff_t at = key ? hmgeti(state->blocks, key) : -1;

	return at >= 0 ? &state->blocks[at].value : NULL;
}

static void block_end(struct state *state, uint64_t key)
{
	const struct live_block *block = block_at(state, key);

	if (!block)
		return;
	block_count(state, block, -1);
	(void)hmdel(state->blocks, key);
}

static void block_begin(struct live *live, struct state *state, uint64_t key, const struct live_block *as)
{
	struct live_block block = *as;

	block_end(state, key); /* its free was lost */
	if ((size_t)hmlen(state->blocks) >= live->limits.blocks || block.bytes >= BLOCK_BYTES_MAX) {
		state->rank.blocks_untold++;
		return;
	}
	block.used_step = state->rank.steps;
	block.category = block_category(state, &block);
	hmput(state->blocks, key, block);
	block_count(state, &block, 1);
}

static struct live_block block_made(uint8_t device, uint64_t bytes, const struct maker *maker)
{
	struct live_block block = {.bytes = bytes, .device = device, .phase = maker->phase};

	memcpy(block.place, maker->place, sizeof(block.place));
	block.flags = maker->stores ? BLOCK_GRADIENT : 0;
	return block;
}

/* Probes go one by one: what still comes then has lost its other half. */
static bool host_is_left(const struct state *state)
{
	return state->rank.host_away && !state->back_ns;
}

/* --- allocators ------------------------------------------------------------------------- */

static void host_allocate(
	struct live *live, struct state *state, struct strand *strand, const struct allocate_event *event)
{
	uint8_t at = live_device_find(state, DEVICE_CPU, 0);
	struct maker maker = strand_maker(live, state, strand, &event->event);
	struct live_block block = block_made(at, event->bytes, &maker);
	struct live_device *device = &state->rank.devices[at];

	state->rank.host_events++;
	if (host_is_left(state) || at == LIVE_DEVICES_MAX || !event->address || !event->bytes)
		return;
	device->allocations++;
	device->allocated_bytes += event->bytes;
	block_begin(live, state, block_key(at, event->address), &block);
	peak_raise(state, device, event->event.time_ns);
}

static void host_free(struct state *state, const struct free_event *event)
{
	uint8_t at = live_device_find(state, DEVICE_CPU, 0);
	uint64_t key = block_key(at, event->address);
	const struct live_block *block = at == LIVE_DEVICES_MAX ? NULL : block_at(state, key);

	state->rank.host_events++;
	if (host_is_left(state) || !block)
		return;
	state->rank.devices[at].frees++;
	state->rank.devices[at].freed_bytes += block->bytes;
	block_end(state, key);
}

static void totals_take(
	const struct state *state, struct live_device *device, uint64_t allocated, uint64_t reserved, uint64_t time_ns)
{
	device->has_totals = true;
	device->bytes = allocated;
	device->reserved_bytes = reserved;
	if (reserved > device->reserved_peak_bytes)
		device->reserved_peak_bytes = reserved;
	peak_raise(state, device, time_ns);
}

static void device_allocate(
	struct live *live, struct state *state, struct strand *strand, const struct device_allocate_event *event)
{
	uint8_t at = live_device_find(state, event->device_type, event->device_index);
	struct maker maker = strand_maker(live, state, strand, &event->event);
	struct live_block block = block_made(at, event->bytes, &maker);

	/* Under a profiler the CPU's allocator calls it too. */
	if (event->device_type == DEVICE_CPU || at == LIVE_DEVICES_MAX)
		return;
	totals_take(state, &state->rank.devices[at], event->allocated, event->reserved, event->event.time_ns);
	if (!event->address || !event->bytes)
		return;
	state->rank.devices[at].allocations++;
	state->rank.devices[at].allocated_bytes += event->bytes;
	strand->last_block = block_key(at, event->address);
	block_begin(live, state, strand->last_block, &block);
}

static void device_free(struct state *state, const struct device_free_event *event)
{
	uint8_t at = live_device_find(state, event->device_type, event->device_index);

	if (event->device_type == DEVICE_CPU || at == LIVE_DEVICES_MAX || !event->address || !event->bytes)
		return;
	totals_take(state, &state->rank.devices[at], event->allocated, event->reserved, event->event.time_ns);
	state->rank.devices[at].frees++;
	state->rank.devices[at].freed_bytes += event->bytes;
	block_end(state, block_key(at, event->address));
}

/* What a library takes for itself is its workspace. */
static void device_request(struct state *state, struct strand *strand, const struct device_request_event *event)
{
	struct live_block *block = block_at(state, strand->last_block);
	struct live_block workspace;

	if (!block || block_key(block->device, event->address) != strand->last_block)
		return;
	strand->last_block = 0;
	if (event->maker != MAKER_LIBRARY)
		return;
	workspace = *block;
	workspace.flags |= BLOCK_WORKSPACE;
	block_change(state, block, &workspace);
}

static void memory_exhausted(
	struct live *live, struct state *state, struct strand *strand, const struct out_of_memory_event *event)
{
	uint8_t at = live_device_find(state, event->device_type, event->device_index);
	struct live_device *device = &state->rank.devices[at];
	uint16_t line;

	if (at == LIVE_DEVICES_MAX)
		return;
	line = strand_maker(live, state, strand, &event->event).place[LIVE_LINES];
	device->out_of_memory_line[0] = '\0';
	if (line >= PLACES_FIRST)
		snprintf(device->out_of_memory_line, sizeof(device->out_of_memory_line), "%s",
			state->places[LIVE_LINES].places[line].name);
	device->out_of_memories++;
	device->out_of_memory_bytes = event->bytes;
	device->out_of_memory_time_ns = event->event.time_ns;
}

/* --- drivers -------------------------------------------------------------------------------- */

static void segment_end(struct state *state, uint64_t address)
{
	ptrdiff_t at = hmgeti(state->segments, address);
	struct live_device *device;

	if (at < 0)
		return;
	device = &state->rank.devices[state->segments[at].value.device];
	device->segments--;
	device->segment_bytes -= state->segments[at].value.bytes;
	(void)hmdel(state->segments, address);
}

static bool segment_is_certain(const struct segment_event *event)
{
	return event->address && event->bytes && event->memory != SEGMENT_HOST &&
	       event->device_index != SEGMENT_DEVICE_UNKNOWN &&
	       (event->result == SEGMENT_RETURNED || event->result == SEGMENT_FOUND || event->action == SEGMENT_MAP);
}

static void segment_begin(
	struct live *live, struct state *state, struct strand *strand, const struct segment_event *event)
{
	struct live_segment segment = {event->bytes, live_device_find(state, event->device_type, event->device_index)};
	struct maker maker = strand_maker(live, state, strand, &event->event);
	struct live_block block = block_made(segment.device, event->bytes, &maker);

	if (segment.device == LIVE_DEVICES_MAX || (size_t)hmlen(state->segments) >= live->limits.blocks)
		return;
	segment_end(state, event->address);
	hmput(state->segments, event->address, segment);
	state->rank.devices[segment.device].segments++;
	state->rank.devices[segment.device].segment_bytes += event->bytes;
	/* From a driver's pool, without an allocator of blocks above it. */
	if (event->pooled && !state->rank.devices[segment.device].has_totals) {
		block_begin(live, state, block_key(segment.device, event->address), &block);
		peak_raise(state, &state->rank.devices[segment.device], event->event.time_ns);
	}
}

static void segment_take(
	struct live *live, struct state *state, struct strand *strand, const struct segment_event *event)
{
	ptrdiff_t at = hmgeti(state->segments, event->address);

	if (event->result == SEGMENT_REFUSED)
		return;
	switch (event->action) {
	case SEGMENT_ALLOCATE:
	case SEGMENT_MAP:
		if (segment_is_certain(event))
			segment_begin(live, state, strand, event);
		break;
	case SEGMENT_FREE:
	case SEGMENT_UNMAP:
		if (at >= 0 && event->pooled)
			block_end(state, block_key(state->segments[at].value.device, event->address));
		segment_end(state, event->address);
		break;
	default:
		break;
	}
}

/* --- what is told of blocks ------------------------------------------------------------------- */

/* The block at an argument; one that is older than the trace begins here. NULL: none. */
static struct live_block *block_told(
	struct live *live, struct state *state, uint64_t time_ns, const struct tensor_argument *argument, bool certain)
{
	struct live_block older = {.bytes = argument->bytes, .flags = BLOCK_PREEXISTING, .phase = PHASE_INITIALIZATION};
	uint64_t key = argument_key(state, argument, &older.device);
	struct live_block *block = block_at(state, key);

	if (block || !key || !argument->bytes || !state->older_until_ns)
		return block;
	if (!certain && time_ns > state->older_until_ns)
		return NULL;
	block_begin(live, state, key, &older);
	peak_raise(state, &state->rank.devices[older.device], time_ns);
	return block_at(state, key);
}

void blocks_argument(struct live *live, struct state *state, uint64_t time_ns, const struct tensor_argument *argument)
{
	struct live_block *block = block_told(live, state, time_ns, argument, false);

	if (block)
		block->used_step = state->rank.steps;
}

/* "Model.layers.1.mlp.weight" -> "Model.layers.1.mlp"; what an optimizer keeps has its parameter's name in brackets. */
static void owner_module(const struct owner_record *record, char module[LIVE_TEXT_BYTES])
{
	size_t length = record->length < LIVE_TEXT_BYTES ? record->length : 0;
	char *from = module, *end;

	memcpy(module, record->name, length);
	module[length] = '\0';
	end = strchr(module, '(');
	if (end && record->kind == OWNER_OPTIMIZER) {
		from = end + 1;
		from[strcspn(from, ")")] = '\0';
	}
	end = record->kind == OWNER_VARIABLE ? NULL : strrchr(from, '.');
	if (end)
		*end = '\0';
	memmove(module, end ? from : "", end ? strlen(from) + 1 : 1);
}

/* What was held while the blocks of the host were not followed says nothing of what is held when they are again. */
static bool owner_is_of_away(const struct state *state, const struct owner_record *record)
{
	return state->rank.host_away && device_is_host(record->storage.device_type) &&
	       (!state->back_ns || record->event.time_ns < state->back_ns);
}

void blocks_owner(struct live *live, struct state *state, const struct owner_record *record)
{
	char module[LIVE_TEXT_BYTES];
	struct live_block *block, held;
	uint16_t place;
	uint8_t device;

	if (record->kind == OWNER_NONE) {
		state->rank.owners_told = true;
		return;
	}
	if (owner_is_of_away(state, record))
		return;
	block = block_told(live, state, record->event.time_ns, &record->storage, record->kind != OWNER_VARIABLE);
	/* It ended while nobody looked, and another one took its address. */
	if (block && block->flags & BLOCK_UNSEEN && block->bytes != record->storage.bytes) {
		block_end(state, argument_key(state, &record->storage, &device));
		block = block_told(live, state, record->event.time_ns, &record->storage, true);
	}
	if (block)
		block->flags &= (uint8_t)~BLOCK_UNSEEN;
	if (!block || (block->holder && block->holder <= record->kind) || record->storage.bytes > block->bytes)
		return;
	held = *block;
	held.holder = record->kind;
	owner_module(record, module);
	/* What a node saved is of the module that made it. */
	place = record->kind == OWNER_SAVED ? PLACE_NONE
	                                    : place_find(&state->places[LIVE_MODULES], module, live->limits.places);
	if (place != PLACE_NONE)
		held.place[LIVE_MODULES] = place;
	block_change(state, block, &held);
}

static void block_mark(struct state *state, struct live_block *block, enum block_flag flag)
{
	struct live_block marked;

	if (!block || block->flags & flag)
		return;
	marked = *block;
	marked.flags |= flag;
	block_change(state, block, &marked);
}

/* Where it is known what Python holds, a leaf that it does not hold as a parameter is none. */
static bool leaf_counts(const struct state *state, const struct live_block *leaf)
{
	return !state->rank.owners_told || leaf->holder == OWNER_PARAMETER || leaf->flags & BLOCK_PREEXISTING;
}

void blocks_gradient(struct live *live, struct state *state, struct strand *strand, const struct gradient_event *event)
{
	struct live_block *leaf = block_told(live, state, event->event.time_ns, &event->variable, false);
	bool counts = leaf && leaf_counts(state, leaf);
	struct live_block *gradient;
	uint8_t device;

	if (counts)
		block_mark(state, leaf, BLOCK_PARAMETER);
	gradient = block_told(live, state, event->event.time_ns, &event->gradient, false);
	strand->accumulating = 0;
	if (!counts || !gradient)
		return;
	block_mark(state, gradient, BLOCK_GRADIENT);
	strand->accumulating = argument_key(state, &event->gradient, &device);
}

bool blocks_store(struct state *state, struct strand *strand, const struct tensor_argument *tensors, size_t count)
{
	uint64_t incoming = strand->accumulating;
	bool stores = false;
	uint8_t device;

	strand->accumulating = 0;
	for (size_t i = 0; incoming && i < count; i++)
		stores |= argument_key(state, &tensors[i], &device) == incoming;
	for (size_t i = 0; stores && i < count; i++)
		block_mark(state, block_at(state, argument_key(state, &tensors[i], &device)), BLOCK_GRADIENT);
	return stores;
}

/* --- records ---------------------------------------------------------------------------------- */

void blocks_take(struct live *live, struct state *state, struct strand *strand, const struct event *event)
{
	switch (event->kind) {
	case EVENT_ALLOCATE:
		host_allocate(live, state, strand, (const void *)event);
		break;
	case EVENT_FREE:
		host_free(state, (const void *)event);
		break;
	case EVENT_DEVICE_ALLOCATE:
		device_allocate(live, state, strand, (const void *)event);
		break;
	case EVENT_DEVICE_FREE:
		device_free(state, (const void *)event);
		break;
	case EVENT_DEVICE_REQUEST:
		device_request(state, strand, (const void *)event);
		break;
	case EVENT_SEGMENT:
		segment_take(live, state, strand, (const void *)event);
		break;
	case EVENT_OUT_OF_MEMORY:
		memory_exhausted(live, state, strand, (const void *)event);
		break;
	default:
		break;
	}
}

/* --- blocks of the host that were not followed for a while --------------------------------------- */

/* Keys of the blocks that are to end, since the table changes with each: stb_ds. */
static void blocks_end_all(struct state *state, uint64_t *keys)
{
	for (size_t i = 0; i < arrlenu(keys); i++)
		block_end(state, keys[i]);
	arrfree(keys);
}

static bool block_is_of_host(const struct state *state, const struct live_block *block)
{
	return device_is_host(state->rank.devices[block->device].type);
}

/* Most blocks end with their step. What nobody holds and is younger was free to do so; the others are to be seen again.
 */
void blocks_host_back(struct state *state)
{
	uint64_t *ending = NULL;

	for (ptrdiff_t i = 0; i < hmlen(state->blocks); i++) {
		struct live_block *block = &state->blocks[i].value;

		if (!block_is_of_host(state, block))
			continue;
		block->flags |= BLOCK_UNSEEN;
		if (!block->holder && block->used_step + 1 >= state->away_step)
			arrput(ending, state->blocks[i].key);
	}
	blocks_end_all(state, ending);
}

/* What Python held and holds no more has ended. Of the others nothing says so. */
void blocks_host_settled(struct state *state, uint64_t now_ns, bool whole)
{
	uint64_t *ending = NULL;

	for (ptrdiff_t i = 0; i < hmlen(state->blocks); i++) {
		struct live_block *block = &state->blocks[i].value;

		if (whole && block->holder && block->flags & BLOCK_UNSEEN)
			arrput(ending, state->blocks[i].key);
		block->flags &= (uint8_t)~BLOCK_UNSEEN;
	}
	blocks_end_all(state, ending);
	for (size_t i = 0; i < state->rank.device_count; i++)
		if (device_is_host(state->rank.devices[i].type)) {
			state->rank.devices[i].next_peak_bytes = state->rank.devices[i].bytes;
			peak_raise(state, &state->rank.devices[i], now_ns);
		}
}

/* --- when somebody looks ------------------------------------------------------------------------ */

/* The last is what the others leave of the total: blocks of which nothing is known, and what is older than the trace.
 */
static void rest_fill(uint64_t *bytes, size_t count, uint64_t total)
{
	uint64_t known = 0;

	for (size_t i = 0; i + 1 < count; i++)
		known += bytes[i];
	bytes[count - 1] = total > known ? total - known : 0;
}

/* A step that has begun since the block was used, and ended. */
static bool block_is_idle(const struct state *state, const struct live_block *block)
{
	return state->rank.steps > block->used_step + 1 && block->holder != OWNER_PARAMETER &&
	       block->holder != OWNER_BUFFER && block->holder != OWNER_OPTIMIZER;
}

void blocks_refresh(struct state *state)
{
	struct live_rank *rank = &state->rank;
	bool told = !rank->lite && rank->steps > 1;

	for (size_t i = 0; i < rank->device_count; i++) {
		struct live_device *device = &rank->devices[i];

		/* What came and went is not known meanwhile. */
		if (!rank->host_away || !device_is_host(device->type)) {
			device->look_peak_bytes = device->next_peak_bytes;
			device->next_peak_bytes = device->bytes;
		}
		rest_fill(device->category_bytes, LIVE_CATEGORIES, device->bytes);
		rest_fill(device->phase_bytes, LIVE_PHASES, device->bytes);
		device->idle_bytes = device->idle_blocks = told ? 0 : LIVE_UNKNOWN;
	}
	for (ptrdiff_t i = 0; told && i < hmlen(state->blocks); i++) {
		const struct live_block *block = &state->blocks[i].value;

		if (!block_is_idle(state, block))
			continue;
		rank->devices[block->device].idle_bytes += block->bytes;
		rank->devices[block->device].idle_blocks++;
	}
}
