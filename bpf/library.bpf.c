// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * Collectives below c10d, or without it: functions of libraries (NCCL and its
 * likes, MPI), by entry. Which function does what, and where its arguments are,
 * is data (struct library_call); what their handles mean is the recorder's.
 *
 * A function that the library calls itself is part of the call that led there:
 * then the return address lies in the library's own code.
 */
#include "emit.h"
#include "liveness.h"
#include "stack.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define RANKS_MAX 16384    /* whose parts are added up */
#define MADE_MAX 64        /* communicators that one call makes */
#define RANK_MAX (1 << 24) /* larger numbers are none */
#define STARTS_MAX 4096    /* requests that one call begins */

/*
 * All arguments at once, into memory, and then by index: so the verifier sees
 * unknown numbers, and does not follow each place on its own.
 */
static __noinline int arguments_take(struct pt_regs *context, struct hit *hit)
{
	__u64 *words = hit->thread->library_words;

	words[0] = arch_register(context, 0);
	words[1] = arch_register(context, 1);
	words[2] = arch_register(context, 2);
	words[3] = arch_register(context, 3);
	words[4] = arch_register(context, 4);
	words[5] = arch_register(context, 5);
	/* Stack arguments start above the return address. */
	if (bpf_probe_read_user(&words[PLACE_STACK], LIBRARY_STACK_WORDS * sizeof(*words),
		    (void *)(hit->stack_pointer + ARCH_WORD)))
		__builtin_memset(&words[PLACE_STACK], 0, LIBRARY_STACK_WORDS * sizeof(*words));
	return 0;
}

/* Place 0, for none, is the last word, which stays 0. */
static __always_inline __u64 call_argument(const struct hit *hit, __u8 place)
{
	__u64 index = (__u64)place - 1;

	asm volatile("" : "+r"(index));
	return hit->thread->library_words[index & (LIBRARY_WORDS - 1)];
}

/*
 * Results go to memory, for the same reason. Registers and stack words of a number
 * of 4 bytes have anything in the other four.
 */
static __always_inline void number_take(const struct hit *hit, __u8 place, __s32 *number)
{
	*number = -1;
	if (place)
		*number = (__s32)call_argument(hit, place);
}

static __always_inline void count_take(const struct hit *hit, __u8 place, __u8 width, __u64 *count)
{
	__s32 number = (__s32)call_argument(hit, place);

	*count = call_argument(hit, place);
	if (width & LIBRARY_WIDE)
		return;
	*count = (__u32)number;
	if (number < 0)
		*count = COUNT_UNKNOWN;
}

static __always_inline void handle_take(const struct hit *hit, __u8 place, __u8 is_number, __u64 *handle)
{
	*handle = call_argument(hit, place);
	if (is_number)
		*handle = (__u32)*handle;
}

/* --- communicators ----------------------------------------------------------------- */

static __always_inline struct communicator_place communicator_find(const struct hit *hit, __u64 handle)
{
	struct communicator_key key = {.target = hit->target, .handle = handle};
	struct communicator_place *known = bpf_map_lookup_elem(&communicators, &key);
	struct communicator_place none = {.rank = -1, .size = -1};

	return known ? *known : none;
}

static __always_inline void communicator_keep(
	const struct hit *hit, __u64 handle, const struct communicator_place *place)
{
	struct communicator_key key = {.target = hit->target, .handle = handle};

	if (!handle)
		return;
	if (place->rank < 0 && place->size < 0)
		bpf_map_delete_elem(&communicators, &key);
	else
		bpf_map_update_elem(&communicators, &key, place, BPF_ANY);
}

static __always_inline bool handle_read(const struct pending_communicator *pending, __u32 index, __u64 *handle)
{
	__u32 number = 0;

	*handle = 0;
	if (!(pending->width & LIBRARY_INT_HANDLES))
		return !READ_USER(*handle, pending->result + index * sizeof(*handle));
	if (READ_USER(number, pending->result + index * sizeof(number)))
		return false;
	*handle = number;
	return true;
}

static __always_inline void number_keep(struct hit *hit, const struct pending_communicator *pending)
{
	struct communicator_place place = communicator_find(hit, pending->communicator);
	__s32 number = -1;

	if (READ_USER(number, pending->result) || number < 0 || number > RANK_MAX)
		return;
	if (pending->action == LIBRARY_RANK)
		place.rank = number;
	else if (number)
		place.size = number;
	communicator_keep(hit, pending->communicator, &place);
}

static __noinline int request_keep(struct hit *hit, const struct pending_communicator *pending)
{
	struct communicator_key key = {.target = hit->target};

	if (handle_read(pending, 0, &key.handle) && key.handle)
		bpf_map_update_elem(&requests, &key, &hit->thread->prepared, BPF_ANY);
	return 0;
}

struct made_walk {
	struct hit *hit;
	struct pending_communicator *pending;
};

static long made_keep(__u32 index, struct made_walk *walk)
{
	struct communicator_place place = walk->pending->place;
	__u64 handle;

	if (!handle_read(walk->pending, index, &handle))
		return 1;
	if (walk->pending->action == LIBRARY_MAKE_ALL)
		place.rank = (__s32)index;
	communicator_keep(walk->hit, handle, &place);
	return 0;
}

static __always_inline bool tells_number(const struct pending_communicator *pending)
{
	return pending->action == LIBRARY_SIZE || pending->action == LIBRARY_RANK;
}

/* The call is over: what its result says is taken over. */
static __noinline int communicator_settle(struct hit *hit)
{
	struct pending_communicator *pending = &hit->thread->communicator;
	struct made_walk walk = {.hit = hit, .pending = pending};
	__u32 count = 1;

	pending->call.place = 0;
	if (tells_number(pending)) {
		number_keep(hit, pending);
		return 0;
	}
	if (pending->action == LIBRARY_PREPARE) {
		request_keep(hit, pending);
		return 0;
	}
	if (pending->action == LIBRARY_MAKE_ALL)
		count = pending->place.size < 0 ? 0 : (__u32)pending->place.size;
	bpf_loop(count < MADE_MAX ? count : MADE_MAX, made_keep, &walk, 0);
	return 0;
}

/*
 * At the thread's next hit, when the call was not seen to return. A number may be
 * another one by now, and is given up. A handle that is not one any more does no
 * harm, since nobody calls with it; but a place on the stack that was left is not read.
 */
static __always_inline void communicator_check(struct hit *hit)
{
	struct pending_communicator *pending = &hit->thread->communicator;

	if (!pending->call.place || call_is_alive(&pending->call, hit->stack_pointer))
		return;
	if (tells_number(pending) || (pending->result >= pending->call.place && pending->result < hit->stack_pointer)) {
		pending->call.place = 0;
		return;
	}
	communicator_settle(hit);
}

/* --- calls ---------------------------------------------------------------------------- */

/* Whose call it is; NULL: nobody's, or part of another call. `caller`: where it returns to. */
static __always_inline const struct hook_description *library_begin(
	struct hit *hit, struct pt_regs *context, __u64 *caller)
{
	__u64 cookie = bpf_get_attach_cookie(context), at;
	const struct hook_description *description;
	__u32 hook = COOKIE_HOOK(cookie);

	*caller = 0;
	description = bpf_map_lookup_elem(&hooks, &hook);
	if (!description || !hit_begin(hit, context, cookie))
		return NULL;
	hit->stack_pointer += (__s64)description->stack_adjust;
	READ_USER(*caller, hit->stack_pointer);
	at = ARCH_INSTRUCTION(context);
	if (*caller >= at - description->library.code_before && *caller < at + description->library.code_after)
		return NULL;
	return description;
}

struct splits_walk {
	struct hit *hit;
	__u64 address;
	__u64 sum;
	__u32 count;
	__u32 shown;
	__u32 wide;
	__u32 fault;
};

static long split_take(__u32 index, struct splits_walk *walk)
{
	struct thread_state *thread = walk->hit->thread;
	__u64 value = 0, offset = thread->tensor_count * sizeof(__u64);
	__s32 number = 0;

	if (index >= walk->count)
		return 1;
	if (walk->wide)
		walk->fault = READ_USER(value, walk->address + index * sizeof(value)) != 0;
	else {
		walk->fault = READ_USER(number, walk->address + index * sizeof(number)) != 0 || number < 0;
		value = (__u32)number;
	}
	if (walk->fault)
		return 1;
	walk->sum += value;
	if (walk->count > EVENT_SPLITS_MAX)
		return 0;
	asm volatile("" : "+r"(offset));
	offset &= TENSORS_SIZE - 1;
	*(__u64 *)(thread->record.tail + offset) = value;
	thread->tensor_count++;
	walk->shown++;
	return 0;
}

/* A rank's count for each rank of a communicator of known size: their sum, and each where they are few. */
static __noinline int splits_read(struct splits_walk *walk)
{
	__u32 count = walk->count, before = walk->hit->thread->tensor_count;

	if (count > RANKS_MAX)
		return -1;
	bpf_loop(count, split_take, walk, 0);
	if (!walk->fault)
		return 0;
	walk->hit->thread->tensor_count = before;
	loss_count(walk->hit->target, LOSS_ARGUMENTS);
	return -1;
}

static __noinline __u32 counts_read(struct hit *hit, __u64 address, __u32 wide, __s32 size, __u64 *sum)
{
	struct splits_walk walk = {.hit = hit, .address = address, .wide = wide, .count = (__u32)size};

	*sum = COUNT_UNKNOWN;
	if (size <= 0 || splits_read(&walk))
		return 0;
	*sum = walk.sum;
	return walk.shown;
}

static __noinline int counts_fill(struct hit *hit, const struct library_call *call)
{
	struct library_collective_event *record = RECORD_HEAD(hit->thread, library_collective_event);
	__u64 sum = 0;

	hit->thread->tensor_count = 0;
	record->input_splits = record->output_splits = 0;
	count_take(hit, call->input_count, call->width, &record->input_count);
	count_take(hit, call->output_count, call->width, &record->output_count);
	if (call->counting & COUNT_SINGLE)
		record->input_count = record->output_count = 1;
	/* Only the root's are read by the library, others may be anything. */
	if (call->input_counts && (!(call->counting & COUNT_INPUT_ROOT) || record->rank == record->peer)) {
		record->input_splits = (__u16)counts_read(
			hit, call_argument(hit, call->input_counts), call->width & LIBRARY_WIDE, record->size, &sum);
		record->input_count = sum;
	}
	if (call->output_counts && (!(call->counting & COUNT_OUTPUT_ROOT) || record->rank == record->peer)) {
		record->output_splits = (__u16)counts_read(
			hit, call_argument(hit, call->output_counts), call->width & LIBRARY_WIDE, record->size, &sum);
		record->output_count = sum;
	}
	return 0;
}

static __always_inline bool is_within(__u64 address, __u64 start, __u64 end)
{
	return address >= start && address < end;
}

static __always_inline __u8 flags_of(const struct hit *hit, __u64 caller)
{
	const struct target_settings *settings = hit->settings;
	__u8 flags = 0;

	if (call_is_alive(&hit->thread->collective, hit->stack_pointer))
		flags |= LIBRARY_INSIDE;
	if (is_within(caller, settings->tensor_code_start, settings->tensor_code_end) ||
		is_within(caller, settings->device_code_start, settings->device_code_end))
		flags |= LIBRARY_BY_TORCH;
	return flags;
}

static __noinline int library_fill(struct hit *hit, const struct hook_description *description, __u64 caller)
{
	struct library_collective_event *record = RECORD_HEAD(hit->thread, library_collective_event);
	const struct library_call *call = &description->library;
	struct communicator_place place;

	handle_take(hit, call->communicator, call->width & LIBRARY_INT_HANDLES, &record->communicator);
	record->input = call_argument(hit, call->input);
	record->output = call_argument(hit, call->output);
	handle_take(hit, call->input_type, call->width & LIBRARY_INT_TYPES, &record->input_type);
	handle_take(hit, call->output_type, call->width & LIBRARY_INT_TYPES, &record->output_type);
	handle_take(hit, call->operation, call->width & LIBRARY_INT_TYPES, &record->operation);
	record->stream = call_argument(hit, call->stream);
	record->caller = caller;
	place = communicator_find(hit, record->communicator);
	record->rank = place.rank;
	record->size = place.size;
	number_take(hit, call->peer, &record->peer);
	number_take(hit, call->source, &record->source);
	record->group = 0;
	if (hit->thread->library_depth)
		record->group = hit->thread->library_groups;
	record->layer = call->layer;
	record->kind = call->kind;
	record->counting = call->counting;
	if (call->input_counts | call->output_counts)
		record->counting |= COUNT_UNEVEN;
	record->flags = flags_of(hit, caller);
	record->operation_ = COLLECTIVE_NO_OPERATION;
	if (call->operation)
		record->operation_ = OPERATION_USER;
	record->input_element = record->output_element = ELEMENT_UNKNOWN;
	record->input_element_bytes = record->output_element_bytes = 0;
	__builtin_memset(record->reserved, 0, sizeof(record->reserved));
	return counts_fill(hit, call);
}

static __noinline int library_send(struct hit *hit, __u32 operator_)
{
	struct library_collective_event *record = RECORD_HEAD(hit->thread, library_collective_event);
	__u32 frame_count = 0, splits = hit->thread->tensor_count;
	__u64 stack = 0, size;
	__u8 flags = 0;

	if (hit->settings->level == LEVEL_FULL && !(record->flags & LIBRARY_INSIDE)) {
		flags = engine_is_alive(hit) ? EVENT_BACKWARD : 0;
		frame_count = python_stack_read(hit, splits * sizeof(__u64), &stack, &flags);
	}
	size = sizeof(*record) + splits * sizeof(__u64) + frame_count * sizeof(struct python_frame);
	event_fill(&record->event, hit, EVENT_LIBRARY_COLLECTIVE, (__u32)size, 0);
	record->event.operator_ = (__u16)operator_;
	record->event.flags = flags;
	record->stack = stack;
	record->frame_count = (__u16)frame_count;
	event_send_with_frames(hit, record, sizeof(*record), size, frame_count, stack);
	return 0;
}

/* A collective. */
SEC("uprobe.multi")
int library_called(struct pt_regs *context)
{
	const struct hook_description *description;
	struct hit hit;
	__u64 caller;

	description = library_begin(&hit, context, &caller);
	if (!description)
		return 0;
	communicator_check(&hit);
	arguments_take(context, &hit);
	library_fill(&hit, description, caller);
	library_send(&hit, description->operator_);
	return 0;
}

static __always_inline void group_change(struct thread_state *thread, __u8 action)
{
	if (action == LIBRARY_GROUP_BEGIN) {
		thread->library_groups += !thread->library_depth;
		thread->library_depth++;
	} else if (thread->library_depth) {
		thread->library_depth--;
	}
}

static __noinline int communicator_forget(struct hit *hit, const struct library_call *call)
{
	struct communicator_place none = {.rank = -1, .size = -1};
	struct pending_communicator at = {.width = call->width};
	__u64 handle = 0;

	handle_take(hit, call->communicator, call->width & LIBRARY_INT_HANDLES, &handle);
	if (call->action == LIBRARY_FORGET_AT) {
		at.result = call_argument(hit, call->result);
		if (!handle_read(&at, 0, &handle))
			return 0;
	}
	communicator_keep(hit, handle, &none);
	return 0;
}

static __noinline int communicator_wait(struct hit *hit, const struct library_call *call)
{
	struct pending_communicator *pending = &hit->thread->communicator;

	pending->result = call_argument(hit, call->result);
	handle_take(hit, call->communicator, call->width & LIBRARY_INT_HANDLES, &pending->communicator);
	number_take(hit, call->size, &pending->place.size);
	number_take(hit, call->rank, &pending->place.rank);
	if (call->action == LIBRARY_COPY)
		pending->place = communicator_find(hit, pending->communicator);
	if (pending->place.size > RANK_MAX || pending->place.rank >= pending->place.size)
		pending->place.size = pending->place.rank = -1;
	pending->action = call->action;
	pending->width = call->width;
	pending->call.word = 0;
	READ_USER(pending->call.word, hit->stack_pointer);
	pending->call.place = hit->stack_pointer;
	return 0;
}

/* --- persistent requests -------------------------------------------------------------- */

/* A call that only says what is to be begun later. The parts of single ranks are not kept. */
static __noinline int request_prepare(struct hit *hit, const struct hook_description *description, __u64 caller)
{
	struct library_collective_event *record = RECORD_HEAD(hit->thread, library_collective_event);

	library_fill(hit, description, caller);
	record->input_splits = record->output_splits = 0;
	record->event.operator_ = (__u16)description->operator_;
	hit->thread->prepared = *record;
	return communicator_wait(hit, &description->library);
}

struct start_walk {
	struct hit *hit;
	struct pending_communicator at; /* the requests */
	__u64 caller;
	__u32 count;
};

static long request_start(__u32 index, struct start_walk *walk)
{
	struct hit *hit = walk->hit;
	struct library_collective_event *known, *record = RECORD_HEAD(hit->thread, library_collective_event);
	struct communicator_key key = {.target = hit->target};

	if (index >= walk->count || !handle_read(&walk->at, index, &key.handle))
		return 1;
	known = bpf_map_lookup_elem(&requests, &key);
	if (!known)
		return 0;
	*record = *known;
	record->caller = walk->caller;
	record->flags = flags_of(hit, walk->caller);
	hit->thread->tensor_count = 0;
	library_send(hit, known->event.operator_);
	return 0;
}

static __noinline int requests_start(struct hit *hit, const struct library_call *call, __u64 caller)
{
	struct start_walk walk = {.hit = hit, .at.width = call->width, .caller = caller, .count = 1};

	walk.at.result = call_argument(hit, call->result);
	if (call->input_count)
		walk.count = (__u32)call_argument(hit, call->input_count);
	bpf_loop(walk.count < STARTS_MAX ? walk.count : STARTS_MAX, request_start, &walk, 0);
	return 0;
}

static __noinline int request_release(struct hit *hit, const struct library_call *call)
{
	struct pending_communicator at = {.width = call->width, .result = call_argument(hit, call->result)};
	struct communicator_key key = {.target = hit->target};

	if (handle_read(&at, 0, &key.handle))
		bpf_map_delete_elem(&requests, &key);
	return 0;
}

/* What is no collective: groups of calls, what is learnt of communicators, and requests. */
SEC("uprobe.multi")
int library_noted(struct pt_regs *context)
{
	const struct hook_description *description;
	struct hit hit;
	__u64 caller;
	__u8 action;

	description = library_begin(&hit, context, &caller);
	if (!description)
		return 0;
	communicator_check(&hit);
	arguments_take(context, &hit);
	action = description->library.action;
	if (action == LIBRARY_GROUP_BEGIN || action == LIBRARY_GROUP_END)
		group_change(hit.thread, action);
	else if (action == LIBRARY_FORGET || action == LIBRARY_FORGET_AT)
		communicator_forget(&hit, &description->library);
	else if (action == LIBRARY_PREPARE)
		request_prepare(&hit, description, caller);
	else if (action == LIBRARY_START)
		requests_start(&hit, &description->library, caller);
	else if (action == LIBRARY_RELEASE)
		request_release(&hit, &description->library);
	else
		communicator_wait(&hit, &description->library);
	return 0;
}

/* Behind a call with a result; the cookie says how far. */
SEC("uprobe.multi")
int library_returned(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	struct pending_communicator *pending;
	struct hit hit;

	if (!hit_find(&hit, context, cookie))
		return 0;
	pending = &hit.thread->communicator;
	if (!pending->call.place || pending->call.word + COOKIE_HOOK(cookie) != ARCH_INSTRUCTION(context) ||
		pending->call.place + ARCH_WORD != hit.stack_pointer)
		return 0;
	if (ARCH_RETURN_VALUE(context) & 0xffffffff)
		pending->call.place = 0; /* it failed */
	else
		communicator_settle(&hit);
	return 0;
}
