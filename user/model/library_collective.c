// SPDX-License-Identifier: BSD-2-Clause
/*
 * What libraries of collectives were asked for. Below a collective of c10d their
 * calls are part of it, and only tell what c10d does not know; else each is a
 * collective of its own. The sends and receives of one group call that go to every
 * rank and come from every rank are an all-to-all.
 */
#include <errno.h>
#include <string.h>

#include "state.h"

/* Of c10d's, so many without a call of their library are looked at to find a call's. */
#define UNJOINED_MAX 256

/* What stands for a buffer that is in place: MPI_IN_PLACE of Open MPI and of MPICH. */
#define IN_PLACE_OPEN_MPI 1ull
#define IN_PLACE_MPICH (~0ull)

/* --- counts ------------------------------------------------------------------------- */

static uint64_t product(uint64_t left, uint64_t right)
{
	uint64_t result;

	if (left == COUNT_UNKNOWN || right == COUNT_UNKNOWN || __builtin_mul_overflow(left, right, &result))
		return COUNT_UNKNOWN;
	return result;
}

/* One side of a call: what the rank gives, or what it gets. */
struct side {
	uint64_t address;
	uint64_t part;  /* elements as the argument says: all, or those of each rank */
	uint64_t total; /* elements altogether */
	uint8_t element, element_bytes;
	const uint64_t *splits; /* of single ranks */
	uint32_t split_count;
	bool in_place;
};

static bool is_in_place(const struct library_collective_event *event, uint64_t address)
{
	return event->layer == LAYER_MPI && (address == IN_PLACE_OPEN_MPI || address == IN_PLACE_MPICH);
}

static uint64_t total_of(const struct library_collective_event *event, uint64_t count, bool each, bool root_only)
{
	if (root_only && (event->rank < 0 || event->peer < 0))
		return COUNT_UNKNOWN;
	if (root_only && event->rank != event->peer)
		return 0;
	/* A rank has neighbours as the topology says. */
	if (each && (event->kind == COLLECTIVE_NEIGHBOR_ALL_GATHER || event->kind == COLLECTIVE_NEIGHBOR_ALL_TO_ALL))
		return COUNT_UNKNOWN;
	if (each)
		return event->size < 0 ? COUNT_UNKNOWN : product(count, (uint64_t)event->size);
	return count;
}

static struct side input_of(const struct library_collective_event *event)
{
	return (struct side){
		.address = event->input,
		.part = event->input_count,
		.total = total_of(event, event->input_count, event->counting & COUNT_INPUT_EACH,
			event->counting & COUNT_INPUT_ROOT),
		.element = event->input_element,
		.element_bytes = event->input_element_bytes,
		.splits = (const uint64_t *)(event + 1),
		.split_count = event->input_splits,
		.in_place = is_in_place(event, event->input),
	};
}

static struct side output_of(const struct library_collective_event *event)
{
	return (struct side){
		.address = event->output,
		.part = event->output_count,
		.total = total_of(event, event->output_count, event->counting & COUNT_OUTPUT_EACH,
			event->counting & COUNT_OUTPUT_ROOT),
		.element = event->output_element,
		.element_bytes = event->output_element_bytes,
		.splits = (const uint64_t *)(event + 1) + event->input_splits,
		.split_count = event->output_splits,
		.in_place = is_in_place(event, event->output),
	};
}

/* The part of one side that is this rank's. */
static uint64_t own_part(const struct library_collective_event *event, const struct side *side, bool each)
{
	if (each)
		return side->part;
	return event->rank >= 0 && (uint32_t)event->rank < side->split_count ? side->splits[event->rank]
	                                                                     : COUNT_UNKNOWN;
}

/* MPI does not look at the arguments of a side that is in place: all is said by the other one. */
static void side_replace(
	const struct library_collective_event *event, struct side *side, const struct side *other, bool other_is_each)
{
	side->address = other->address;
	side->element = other->element;
	side->element_bytes = other->element_bytes;
	switch (event->kind) {
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_SCATTER:
		side->total = own_part(event, other, other_is_each);
		break;
	case COLLECTIVE_ALL_TO_ALL:
		side->total = other->total;
		side->splits = other->splits;
		side->split_count = other->split_count;
		break;
	default: /* the counts are of both */
		break;
	}
}

static uint64_t bytes_of(const struct side *side)
{
	if (!side->total)
		return 0;
	return side->element_bytes ? product(side->total, side->element_bytes) : COUNT_UNKNOWN;
}

/* A rank's part lies where it belongs in the whole of the other side. */
static bool part_is_in(const struct library_collective_event *event, const struct side *part, const struct side *whole)
{
	uint64_t bytes = product(product(part->total, part->element_bytes), (uint64_t)event->rank);

	return event->rank >= 0 && part->element_bytes && bytes != COUNT_UNKNOWN && part->address &&
	       part->address == whole->address + bytes;
}

static bool is_same_memory(
	const struct library_collective_event *event, const struct side *input, const struct side *output)
{
	if (input->in_place || output->in_place)
		return true;
	if (!input->address || !output->address)
		return false;
	switch (event->kind) {
	case COLLECTIVE_ALL_GATHER:
		return part_is_in(event, input, output);
	case COLLECTIVE_REDUCE_SCATTER:
		return part_is_in(event, output, input);
	case COLLECTIVE_GATHER:
	case COLLECTIVE_SCATTER:
		if (event->rank != event->peer)
			return false;
		return event->kind == COLLECTIVE_GATHER ? part_is_in(event, input, output)
		                                        : part_is_in(event, output, input);
	default:
		return input->address == output->address;
	}
}

static void splits_keep(
	struct target_state *target, struct collective *collective, const struct side *input, const struct side *output)
{
	if (!input->split_count && !output->split_count)
		return;
	if (arrlenu(target->result.splits) >= INDEX_MAX - input->split_count - output->split_count)
		return;
	collective->splits = (uint32_t)arrlenu(target->result.splits);
	collective->input_splits = input->split_count;
	collective->output_splits = output->split_count;
	for (uint32_t i = 0; i < input->split_count; i++)
		arrput(target->result.splits, input->splits[i]);
	for (uint32_t i = 0; i < output->split_count; i++)
		arrput(target->result.splits, output->splits[i]);
}

static void counts_fill(
	struct target_state *target, const struct library_collective_event *event, struct collective *collective)
{
	struct side input = input_of(event), output = output_of(event);

	if (event->counting & COUNT_OUTPUT_OWN)
		output.total = own_part(event, &input, false);
	if (input.in_place)
		side_replace(event, &input, &output, event->counting & COUNT_OUTPUT_EACH);
	else if (output.in_place)
		side_replace(event, &output, &input, event->counting & COUNT_INPUT_EACH);
	collective->input_elements = input.total;
	collective->output_elements = output.total;
	collective->input_bytes = bytes_of(&input);
	collective->output_bytes = bytes_of(&output);
	collective->input_address = input.address;
	collective->output_address = output.address;
	collective->in_place = is_same_memory(event, &input, &output);
	/* Who gives nothing has a type only for what it gets. */
	collective->element_type =
		event->input && input.total && input.element != ELEMENT_UNKNOWN ? input.element : output.element;
	if (collective->element_type == ELEMENT_UNKNOWN)
		collective->element_type = input.element;
	splits_keep(target, collective, &input, &output);
}

/* --- below c10d ---------------------------------------------------------------------- */

static bool may_be_below(const struct collective *above, const struct library_collective_event *event)
{
	return above->layer == LAYER_C10D && (!above->calls || above->library == event->layer);
}

/* c10d's collective that a call of PyTorch on another thread was made for: the earliest like it, of the last ones. */
static uint32_t unjoined_find(const struct target_state *target, const struct library_collective_event *event)
{
	const struct rank *rank = &target->result;
	uint32_t end = (uint32_t)arrlenu(rank->collectives);

	for (uint32_t i = end > UNJOINED_MAX ? end - UNJOINED_MAX : 0; i < end; i++) {
		const struct collective *collective = &rank->collectives[i];
		const struct group *group = &rank->groups[collective->group];

		if (collective->layer != LAYER_C10D || collective->calls || collective->kind != event->kind)
			continue;
		if (!group->handle || group->handle == event->communicator)
			return i;
	}
	return NONE;
}

/* A frame of c10d may seem to be alive that is not: then another library is called below it than before. */
static uint32_t above_find(
	const struct target_state *target, const struct thread *thread, const struct library_collective_event *event)
{
	if (event->flags & LIBRARY_INSIDE && thread->collective != NONE &&
		may_be_below(&target->result.collectives[thread->collective], event))
		return thread->collective;
	return event->flags & LIBRARY_BY_TORCH && event->layer == LAYER_MPI ? unjoined_find(target, event) : NONE;
}

/* Only what c10d does not know is the library's word. */
static void collective_join(
	struct target_state *target, struct collective *above, const struct library_collective_event *event)
{
	struct collective call = {.kind = event->kind};

	if (!above->calls++) {
		above->library = event->layer;
		above->function = event->event.operator_;
		above->stream = event->stream;
		above->handle = event->communicator;
		above->group_call = event->group;
		target->result.groups[above->group].handle = event->communicator;
	}
	if (above->operation == OPERATION_AVERAGE && event->operation_ == OPERATION_SUM)
		above->average_by_sum = true;
	/* What a collective is made of says nothing of the whole. */
	if (event->kind != above->kind || above->calls > 1)
		return;
	counts_fill(target, event, &call);
	above->in_place = call.in_place;
	if (call.input_splits || call.output_splits) {
		above->splits = call.splits;
		above->input_splits = call.input_splits;
		above->output_splits = call.output_splits;
	}
}

/* --- groups of calls -------------------------------------------------------------------- */

static struct collective *grouped_at(struct target_state *target, const struct thread *thread, size_t index)
{
	return &target->result.collectives[thread->grouped[index]];
}

/*
 * Do the calls send to every rank and receive from every rank, once each? One, which must be this rank itself, may be
 * left out. `parts` gets the elements: those sent by rank, then those received.
 */
static bool parts_find(struct target_state *target, const struct thread *thread, uint32_t size, uint64_t *parts)
{
	const struct collective *first = grouped_at(target, thread, 0);
	uint32_t missing = 0;

	for (uint32_t i = 0; i < 2 * size; i++)
		parts[i] = COUNT_UNKNOWN;
	for (size_t i = 0; i < arrlenu(thread->grouped); i++) {
		const struct collective *call = grouped_at(target, thread, i);
		bool sends = call->kind == COLLECTIVE_SEND;
		uint64_t *part;

		if ((!sends && call->kind != COLLECTIVE_RECEIVE) || call->group != first->group || call->peer < 0 ||
			(uint32_t)call->peer >= size || call->element_type != first->element_type)
			return false;
		part = &parts[(sends ? 0 : size) + (uint32_t)call->peer];
		if (*part != COUNT_UNKNOWN)
			return false;
		*part = sends ? call->input_elements : call->output_elements;
	}
	for (uint32_t i = 0; i < size; i++) {
		int32_t own = target->result.groups[first->group].rank;

		if (parts[i] != COUNT_UNKNOWN && parts[size + i] != COUNT_UNKNOWN)
			continue;
		if (parts[i] != parts[size + i] || missing++ || (own >= 0 && (uint32_t)own != i))
			return false;
		parts[i] = parts[size + i] = 0;
	}
	return true;
}

static void sum_add(uint64_t *sum, uint64_t more)
{
	if (*sum == COUNT_UNKNOWN || more == COUNT_UNKNOWN || __builtin_add_overflow(*sum, more, sum))
		*sum = COUNT_UNKNOWN;
}

/* The first call becomes the whole. */
static void group_fold(struct target_state *target, const struct thread *thread, const uint64_t *parts, uint32_t size)
{
	struct collective *whole = grouped_at(target, thread, 0);
	struct side input = {.splits = parts, .split_count = size};
	struct side output = {.splits = parts + size, .split_count = size};
	struct collective folded = *whole;

	folded.kind = COLLECTIVE_ALL_TO_ALL;
	folded.peer = -1;
	folded.calls = (uint32_t)arrlenu(thread->grouped);
	folded.input_elements = folded.output_elements = folded.input_bytes = folded.output_bytes = 0;
	folded.input_address = folded.output_address = 0;
	folded.in_place = false;
	for (size_t i = 0; i < arrlenu(thread->grouped); i++) {
		struct collective *call = grouped_at(target, thread, i);
		bool sends = call->kind == COLLECTIVE_SEND;
		uint64_t *address = sends ? &folded.input_address : &folded.output_address;
		uint64_t there = sends ? call->input_address : call->output_address;

		sum_add(&folded.input_elements, call->input_elements);
		sum_add(&folded.output_elements, call->output_elements);
		sum_add(&folded.input_bytes, call->input_bytes);
		sum_add(&folded.output_bytes, call->output_bytes);
		*address = !*address || there < *address ? there : *address;
		call->folded = i > 0;
	}
	folded.uneven = true;
	splits_keep(target, &folded, &input, &output);
	*whole = folded;
}

/* A group call is over. */
static void group_settle(struct target_state *target, struct thread *thread)
{
	size_t calls = arrlenu(thread->grouped);
	uint64_t *parts = NULL;
	int32_t size;

	if (calls > 1) {
		size = target->result.groups[grouped_at(target, thread, 0)->group].size;
		/* Two calls for each rank, but perhaps for itself. */
		if (size > 1 && (calls == 2 * (size_t)size || calls + 2 == 2 * (size_t)size)) {
			arrzero(parts, 2 * (size_t)size);
			if (parts_find(target, thread, (uint32_t)size, parts))
				group_fold(target, thread, parts, (uint32_t)size);
			arrfree(parts);
		}
	}
	arrsetlen(thread->grouped, 0);
}

static void group_take(struct target_state *target, struct thread *thread, uint32_t group_call)
{
	if (arrlenu(thread->grouped) && grouped_at(target, thread, 0)->group_call != group_call)
		group_settle(target, thread);
	if (group_call)
		arrput(thread->grouped, (uint32_t)arrlenu(target->result.collectives) - 1);
}

/* --- events -------------------------------------------------------------------------------- */

static bool event_is_whole(const struct library_collective_event *event)
{
	uint64_t splits = (uint64_t)event->input_splits + event->output_splits;

	return event->event.size >=
	       sizeof(*event) + splits * sizeof(uint64_t) + event->frame_count * sizeof(struct python_frame);
}

int library_collective_begin(struct target_state *target, const struct library_collective_event *event)
{
	struct thread *thread = thread_find(target, event->event.thread_id);
	struct collective collective;
	uint32_t above;
	int error;

	if (!thread)
		return -ENOMEM;
	if (!event_is_whole(event))
		return -EINVAL;
	above = above_find(target, thread, event);
	if (above != NONE) {
		collective_join(target, &target->result.collectives[above], event);
		return 0;
	}
	collective = collective_of(target, &event->event, event->stack, event->kind);
	collective.operation = event->operation_;
	collective.peer = event->peer < 0 ? -1 : event->peer;
	collective.source = event->kind != COLLECTIVE_SEND_RECEIVE || event->source < 0 ? -1 : event->source;
	collective.layer = collective.library = event->layer;
	collective.calls = 1;
	collective.function = event->event.operator_;
	collective.group_call = event->group;
	collective.handle = event->communicator;
	collective.stream = event->stream;
	collective.caller = event->caller;
	collective.group = group_find(target, event->layer, event->communicator, event->rank, event->size);
	counts_fill(target, event, &collective);
	collective.uneven = event->counting & COUNT_UNEVEN;
	error = collective_add(target, &collective);
	if (!error)
		group_take(target, thread, event->group);
	return error;
}

void collectives_finish(struct target_state *target)
{
	struct rank *rank = &target->result;
	size_t kept = 0;

	for (ptrdiff_t i = 0; i < hmlen(target->threads); i++)
		group_settle(target, target->threads[i].value);
	for (size_t i = 0; i < arrlenu(rank->collectives); i++) {
		struct collective *collective = &rank->collectives[i];

		if (collective->folded)
			continue;
		if (collective_is_common(collective))
			collective->sequence = rank->groups[collective->group].collectives++;
		rank->collectives[kept++] = *collective;
	}
	if (kept < arrlenu(rank->collectives))
		arrsetlen(rank->collectives, kept);
}
