// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * Collectives of c10d: the methods of its process groups, by entry. Where the
 * tensors, the options and the peer are is in the hook's description; a
 * collective that one of them is made of belongs to it and is passed over.
 */
#include "emit.h"
#include "liveness.h"
#include "stack.h"
#include "storage.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TENSORS_TOTAL_MAX 8192    /* of one collective */
#define ELEMENT_TYPE_UNKNOWN 0xff /* more than one type, or none */
#define REDUCE_OP_BYTES 16        /* ReduceOp behind its base: operation, supplement */

/* std::vector<at::Tensor>, or a single one. */
struct tensors_walk {
	struct hit *hit;
	__u64 address; /* of the first at::Tensor */
	__u64 elements;
	__u32 count;
	__u32 type;
};

static __always_inline struct collective_event *record_of(struct hit *hit)
{
	return RECORD_HEAD(hit->thread, collective_event);
}

static long tensor_take(__u32 index, struct tensors_walk *walk)
{
	const struct target_settings *settings = walk->hit->settings;
	struct thread_state *thread = walk->hit->thread;
	__u64 tensor = 0, words[2] = {}, offset = thread->tensor_count * sizeof(struct tensor_argument);
	struct tensor_argument argument;

	if (index >= walk->count)
		return 1;
	if (READ_USER(tensor, walk->address + index * sizeof(__u64)) || !tensor)
		return 0;
	/* TensorImpl: numel_, data_type_ */
	if (settings->tensor_elements &&
		!bpf_probe_read_user(words, sizeof(words), (void *)(tensor + settings->tensor_elements))) {
		walk->elements += words[0];
		walk->type = (__u16)words[1];
	}
	if (thread->tensor_count >= EVENT_TENSORS_MAX || !tensor_storage_read(settings, tensor, &argument))
		return 0;
	asm volatile("" : "+r"(offset));
	offset &= TENSORS_SIZE - 1;
	*(struct tensor_argument *)(thread->record.tail + offset) = argument;
	thread->tensor_count++;
	return 0;
}

/* Where the tensors of an argument are; of a list of lists, those of the first: there is one for each own tensor. */
static __always_inline void tensors_find(struct tensors_walk *walk, __u32 form, __u64 value)
{
	__u64 bounds[2] = {};

	walk->count = 0;
	walk->address = value;
	if (form == COLLECTIVE_TENSOR) {
		walk->count = 1;
		return;
	}
	if (form == COLLECTIVE_LISTS && READ_USER(value, value))
		return;
	if (bpf_probe_read_user(bounds, sizeof(bounds), (void *)value) || bounds[1] < bounds[0])
		return;
	walk->address = bounds[0];
	walk->count = (__u32)((bounds[1] - bounds[0]) / sizeof(__u64));
}

/* Appends the tensors to the record's tail; how many there are, and their elements, goes into the walk. */
static __noinline int tensors_read(struct tensors_walk *walk, __u32 form, __u64 value)
{
	__u32 count;

	walk->elements = 0;
	walk->type = ELEMENT_TYPE_UNKNOWN;
	tensors_find(walk, form, value);
	count = walk->count;
	if (count > TENSORS_TOTAL_MAX)
		walk->count = count = 0;
	bpf_loop(count, tensor_take, walk, 0);
	return 0;
}

/* The reduce operation and the root or peer, from where the method has them. */
static __always_inline void options_read(
	struct collective_event *record, struct pt_regs *context, struct hit *hit, const struct collective_call *call)
{
	__u64 base = hit->settings->tensor_storage, options, root = 0;
	__u8 operation = 0;

	if (call->options) {
		options = argument_word(context, hit, call->options - 1);
		if (call->reduces && !READ_USER(operation, options + base))
			record->operation = operation;
		/* ReduceOptions have the operation before the root. */
		if (call->rooted && !READ_USER(root, options + (call->reduces ? base + REDUCE_OP_BYTES : 0)))
			record->peer = (__s32)root;
	}
	if (call->peer)
		record->peer = (__s32)argument_word(context, hit, call->peer - 1);
}

/* Backend, and ProcessGroup before 2.0: rank_ and size_ come right behind the base. */
static __always_inline void group_read(struct collective_event *record, struct hit *hit)
{
	__s32 place[2] = {};

	record->rank = record->size = -1;
	if (bpf_probe_read_user(place, sizeof(place), (void *)(record->group + hit->settings->tensor_storage)) ||
		place[0] < 0 || place[0] >= place[1])
		return;
	record->rank = place[0];
	record->size = place[1];
}

/* The numbers of a std::vector<int64_t>, behind the tensors and `before` others; returns how many. */
static __noinline int splits_read(struct hit *hit, __u64 vector, __u32 before)
{
	struct thread_state *thread = hit->thread;
	__u64 bounds[2] = {}, bytes, offset;

	offset = thread->tensor_count * sizeof(struct tensor_argument) + before * sizeof(__u64);
	if (bpf_probe_read_user(bounds, sizeof(bounds), (void *)vector) || bounds[1] <= bounds[0])
		return 0;
	bytes = bounds[1] - bounds[0];
	if (bytes > EVENT_SPLITS_MAX * sizeof(__u64))
		return 0;
	asm volatile("" : "+r"(offset));
	offset &= TENSORS_SIZE - 1;
	if (bpf_probe_read_user(thread->record.tail + offset, bytes, (void *)bounds[0]))
		return 0;
	return (int)(bytes / sizeof(__u64));
}

static __noinline int collective_fill(struct pt_regs *context, struct hit *hit, const struct hook_description *hook)
{
	struct collective_event *record = record_of(hit);
	struct tensors_walk walk = {.hit = hit};
	const struct collective_call *call = &hook->collective;

	record->group = hit->thread->group;
	record->kind = call->kind;
	record->flags = 0;
	record->operation = COLLECTIVE_NO_OPERATION;
	record->peer = -1;
	group_read(record, hit);
	options_read(record, context, hit, call);
	hit->thread->tensor_count = 0;
	record->element_type = ELEMENT_TYPE_UNKNOWN;
	record->input_elements = record->output_elements = 0;
	record->input_count = record->output_count = 0;
	if (call->inputs) {
		tensors_read(&walk, call->input_form, argument_word(context, hit, call->inputs - 1));
		record->input_elements = walk.elements;
		record->input_count = (__u16)walk.count;
		record->element_type = (__u8)walk.type;
	}
	record->input_shown = (__u16)hit->thread->tensor_count;
	if (call->outputs) {
		tensors_read(&walk, call->output_form, argument_word(context, hit, call->outputs - 1));
		record->output_elements = walk.elements;
		record->output_count = (__u16)walk.count;
		/* Who only gets something, as in a scatter of another rank. */
		if (record->element_type == ELEMENT_TYPE_UNKNOWN)
			record->element_type = (__u8)walk.type;
	}
	record->tensor_count = (__u16)hit->thread->tensor_count;
	record->input_splits = record->output_splits = 0;
	if (call->input_splits)
		record->input_splits = (__u8)splits_read(hit, argument_word(context, hit, call->input_splits - 1), 0);
	if (call->output_splits)
		record->output_splits = (__u8)splits_read(
			hit, argument_word(context, hit, call->output_splits - 1), record->input_splits);
	return 0;
}

static __noinline int collective_send(struct hit *hit, __u32 operator_)
{
	struct collective_event *record = record_of(hit);
	__u32 lists = record->tensor_count * sizeof(struct tensor_argument) +
	              (record->input_splits + record->output_splits) * sizeof(__u64);
	__u64 stack = 0, size;
	__u32 frame_count = 0;
	__u8 flags = 0;

	if (call_is_alive(&hit->thread->bucket, hit->stack_pointer))
		record->flags |= COLLECTIVE_BUCKET;
	if (hit->settings->level == LEVEL_FULL) {
		flags = engine_is_alive(hit) ? EVENT_BACKWARD : 0;
		frame_count = python_stack_read(hit, lists, &stack, &flags);
	}
	size = sizeof(*record) + lists + frame_count * sizeof(struct python_frame);
	event_fill(&record->event, hit, EVENT_COLLECTIVE, (__u32)size, 0);
	record->event.operator_ = (__u16)operator_;
	record->event.flags = flags;
	record->stack = stack;
	record->frame_count = (__u16)frame_count;
	__builtin_memset(record->reserved, 0, sizeof(record->reserved));
	event_send_with_frames(hit, record, sizeof(*record), size, frame_count, stack);
	return 0;
}

static __always_inline const struct hook_description *collective_begin(struct hit *hit, struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	const struct hook_description *description;
	__u32 hook = COOKIE_HOOK(cookie);

	if (!hit_begin(hit, context, cookie))
		return NULL;
	description = bpf_map_lookup_elem(&hooks, &hook);
	if (description)
		hit->stack_pointer += description->stack_adjust;
	return description;
}

/* METHOD(hidden result, this, …) of a process group, or METHOD(this, …) where it returns nothing */
SEC("uprobe.multi")
int collective_begun(struct pt_regs *context)
{
	const struct hook_description *description;
	struct thread_state *thread;
	struct hit hit;
	__u64 group;

	description = collective_begin(&hit, context);
	if (!description)
		return 0;
	thread = hit.thread;
	group = description->collective.returns_nothing ? arch_register(context, 0) : arch_register(context, 1);
	if (thread->group == group && call_is_alive(&thread->collective, hit.stack_pointer))
		return 0;
	thread->group = group;
	thread->collective.place = hit.stack_pointer;
	READ_USER(thread->collective.word, hit.stack_pointer);
	collective_fill(context, &hit, description);
	collective_send(&hit, description->operator_);
	return 0;
}

static __always_inline void work_send(const struct hit *hit, __u64 work, __u8 action, bool is_functional)
{
	struct work_event record = {.work = work, .action = action, .is_functional = is_functional};

	event_fill(&record.event, hit, EVENT_WORK, sizeof(record), 0);
	event_send(hit, &record, sizeof(record));
}

/* What becomes of a collective: the constructor, wait and finish of c10d::Work, and who waits otherwise. */
SEC("uprobe.multi")
int work_noted(struct pt_regs *context)
{
	const struct hook_description *description;
	struct hit hit;
	__u8 action;

	description = collective_begin(&hit, context);
	if (!description)
		return 0;
	action = description->collective.kind;
	if (action == WORK_WAIT_TENSOR) {
		hit.thread->wait_tensor.place = hit.stack_pointer;
		READ_USER(hit.thread->wait_tensor.word, hit.stack_pointer);
		return 0;
	}
	/* Others make works too: timers, remote calls. */
	if (action == WORK_MADE && !call_is_alive(&hit.thread->collective, hit.stack_pointer))
		return 0;
	work_send(&hit, action == WORK_WAIT_BUCKETS ? 0 : arch_register(context, 0), action,
		action == WORK_WAITED && call_is_alive(&hit.thread->wait_tensor, hit.stack_pointer));
	return 0;
}

/* c10d::Reducer::all_reduce_bucket: the collectives inside are those of a bucket of gradients. */
SEC("uprobe.multi")
int bucket_reduced(struct pt_regs *context)
{
	struct hit hit;

	if (!collective_begin(&hit, context))
		return 0;
	hit.thread->bucket.place = hit.stack_pointer;
	READ_USER(hit.thread->bucket.word, hit.stack_pointer);
	return 0;
}
