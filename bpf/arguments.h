/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Tensor arguments of an operator hook: from registers and stack words to the
 * storages behind them. An argument of any kind is a list of TensorImpl
 * pointers; a record holds a window of EVENT_TENSORS_MAX of them.
 */
#ifndef HDTRACE_BPF_ARGUMENTS_H
#define HDTRACE_BPF_ARGUMENTS_H

#include "thread.h"

#define ILIST_UNBOXED 0   /* c10::IListRefTag */
#define ILIST_BOXED 1
#define IVALUE_SIZE 16    /* payload, tag */
#define IVALUE_TENSOR 1   /* c10::IValue::Tag::Tensor */
#define LIST_ELEMENTS 24  /* c10::detail::ListImpl: std::vector<IValue> after intrusive_ptr_target */
#define TENSORS_TOTAL_MAX 8192

struct argument_list {
	struct hit *hit;
	__u64 address;
	__u32 first, count; /* elements of the list that fall into the window */
	__u32 stride;
};

static __always_inline void tensor_append(struct hit *hit, __u64 tensor)
{
	struct thread_state *thread = hit->thread;
	__u64 storage = 0, offset = thread->tensor_count * sizeof(struct tensor_argument);
	__u64 span[STORAGE_SPAN_MAX / sizeof(__u64)], bytes = hit->settings->storage_bytes / sizeof(__u64);
	struct tensor_argument argument;

	/* An undefined tensor and one without storage have nothing to tell. */
	asm volatile("" : "+r"(bytes));
	if (!tensor || READ_USER(storage, tensor + hit->settings->tensor_storage) || !storage ||
		bytes >= STORAGE_SPAN_MAX / sizeof(__u64) ||
		bpf_probe_read_user(span, (bytes + 1) * sizeof(__u64), (void *)(storage + hit->settings->storage_data)) ||
		!span[0])
		return;
	argument.data = span[0];
	argument.bytes = span[bytes];
	asm volatile("" : "+r"(offset));
	offset &= TENSORS_SIZE - 1;
	*(struct tensor_argument *)(thread->record.tail + offset) = argument;
	thread->tensor_count++;
}

static long argument_list_element(__u32 index, struct argument_list *list)
{
	__u64 words[2] = {}, element;

	if (index >= list->count || list->hit->thread->tensor_count >= EVENT_TENSORS_MAX)
		return 1;
	element = list->address + (__u64)(list->first + index) * list->stride;
	if (list->stride == IVALUE_SIZE) {
		if (!bpf_probe_read_user(words, sizeof(words), (void *)element) && (__u32)words[1] == IVALUE_TENSOR)
			tensor_append(list->hit, words[0]);
	} else if (!READ_USER(words[0], element)) {
		tensor_append(list->hit, words[0]);
	}
	return 0;
}

static __always_inline __u64 argument_word(struct pt_regs *context, const struct hit *hit, __u32 place)
{
	__u64 value = 0;

	if (place < ARGUMENT_REGISTERS)
		return arch_register(context, place);
	/* Stack arguments start above the return address. */
	READ_USER(value, hit->stack_pointer + ARCH_WORD + sizeof(__u64) * (place - PLACE_STACK));
	return value;
}

/* Elements of a c10::List: the address of its list implementation is at `address`. */
static __always_inline long boxed_list_find(__u64 address, __u64 *begin, __u32 *count)
{
	__u64 implementation = 0, bounds[2] = {};

	if (READ_USER(implementation, address) ||
		bpf_probe_read_user(bounds, sizeof(bounds), (void *)(implementation + LIST_ELEMENTS)) ||
		bounds[1] < bounds[0])
		return -1;
	*begin = bounds[0];
	*count = (__u32)((bounds[1] - bounds[0]) / IVALUE_SIZE);
	return 0;
}

/* Where the elements of one argument are; count 0 for an empty optional. */
static __always_inline long argument_find(struct pt_regs *context, struct hit *hit, const struct hook_argument *argument,
	__u64 *address, __u32 *count, __u32 *stride)
{
	__u64 value = argument_word(context, hit, argument->place);
	__u64 words[3] = {};
	__u8 present = 0;

	*address = value;
	*count = 1;
	*stride = sizeof(__u64);
	switch (argument->kind) {
	case ARGUMENT_TENSOR:
		return 0;
	case ARGUMENT_OPTIONAL_TENSOR:
		*address = value + hit->settings->optional_value;
		if (READ_USER(present, value + hit->settings->optional_flag))
			return -1;
		*count = present & 1;
		return 0;
	case ARGUMENT_TENSOR_LIST: {
		__u32 next = argument->place + 1;

		*count = (__u32)argument_word(context, hit, next);
		return 0;
	}
	case ARGUMENT_ITENSOR_LIST:
		if (bpf_probe_read_user(words, sizeof(words), (void *)value))
			return -1;
		*address = words[0];
		*count = (__u32)words[1];
		if ((__u32)words[2] == ILIST_UNBOXED)
			return 0;
		*stride = IVALUE_SIZE;
		return (__u32)words[2] == ILIST_BOXED ? boxed_list_find(words[0], address, count) : -1;
	case ARGUMENT_OPTIONAL_TENSOR_LIST:
		*stride = IVALUE_SIZE;
		return boxed_list_find(value, address, count);
	}
	return -1;
}

struct argument_walk {
	struct pt_regs *context;
	struct hit *hit;
	const struct hook_description *description;
	__u32 skip; /* elements that are still before the window */
	__u32 total;
	bool fault;
};

static long argument_read(__u32 index, struct argument_walk *walk)
{
	struct argument_list list = {.hit = walk->hit};
	__u32 count;

	if (index >= walk->description->argument_count || index >= HOOK_ARGUMENTS_MAX)
		return 1;
	if (argument_find(walk->context, walk->hit, &walk->description->arguments[index], &list.address, &count,
		    &list.stride) ||
		count > TENSORS_TOTAL_MAX) {
		walk->fault = true;
		return 0;
	}
	walk->total += count;
	if (walk->skip >= count) {
		walk->skip -= count;
		return 0;
	}
	list.first = walk->skip;
	list.count = count - walk->skip;
	walk->skip = 0;
	bpf_loop(EVENT_TENSORS_MAX, argument_list_element, &list, 0);
	return 0;
}

/* Put the storages of the elements [skip, skip + EVENT_TENSORS_MAX) into the record's tail. */
static __noinline int arguments_read(struct argument_walk *walk)
{
	walk->hit->thread->tensor_count = 0;
	walk->total = 0;
	bpf_loop(HOOK_ARGUMENTS_MAX, argument_read, walk, 0);
	return 0;
}

#endif
