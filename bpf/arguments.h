/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Tensor arguments of an operator hook: from registers and stack words to the
 * storages behind them. An argument of any kind is a list of TensorImpl
 * pointers; a record holds a window of EVENT_TENSORS_MAX of them.
 */
#ifndef HDTRACE_BPF_ARGUMENTS_H
#define HDTRACE_BPF_ARGUMENTS_H

#include "storage.h"

#define ILIST_UNBOXED 0 /* c10::IListRefTag */
#define ILIST_BOXED 1
#define IVALUE_SIZE 16  /* payload, tag */
#define IVALUE_NONE 0   /* c10::IValue::Tag::None */
#define IVALUE_TENSOR 1 /* c10::IValue::Tag::Tensor */
#define BOXED_STACK 3   /* register of the stack, a std::vector<IValue> *, in a call of a boxed kernel */
#define TENSORS_TOTAL_MAX 8192

static __always_inline void tensor_append(struct hit *hit, __u64 tensor)
{
	struct thread_state *thread = hit->thread;
	__u64 offset = thread->tensor_count * sizeof(struct tensor_argument);
	struct tensor_argument argument;

	/* An undefined tensor and one without storage have nothing to tell. */
	if (!tensor_storage_read(hit->settings, tensor, &argument))
		return;
	asm volatile("" : "+r"(offset));
	offset &= TENSORS_SIZE - 1;
	*(struct tensor_argument *)(thread->record.tail + offset) = argument;
	thread->tensor_count++;
}

static long argument_element_read(__u32 index, struct hit *hit)
{
	const struct arguments_state *state = &hit->thread->arguments;
	__u64 words[2] = {}, element;

	if (index >= state->count || hit->thread->tensor_count >= EVENT_TENSORS_MAX)
		return 1;
	element = state->address + (__u64)(state->first + index) * state->stride;
	if (state->stride == IVALUE_SIZE) {
		if (bpf_probe_read_user(words, sizeof(words), (void *)element) || (__u32)words[1] != IVALUE_TENSOR)
			words[0] = 0;
	} else if (READ_USER(words[0], element)) {
		words[0] = 0;
	}
	tensor_append(hit, words[0]);
	return 0;
}

/*
 * Elements of a c10::List: the address of its list implementation is at `address`.
 * That begins with a std::vector<IValue>, as a tensor with its storage: behind
 * c10::intrusive_ptr_target.
 */
static __always_inline long boxed_list_find(struct hit *hit, __u64 address)
{
	struct arguments_state *state = &hit->thread->arguments;
	__u64 implementation = 0, bounds[2] = {};

	if (READ_USER(implementation, address) ||
		bpf_probe_read_user(bounds, sizeof(bounds), (void *)(implementation + hit->settings->tensor_storage)) ||
		bounds[1] < bounds[0])
		return -1;
	state->address = bounds[0];
	state->count = (__u32)((bounds[1] - bounds[0]) / IVALUE_SIZE);
	state->stride = IVALUE_SIZE;
	return 0;
}

/* One value of the stack that a boxed kernel is called with. */
static __always_inline long boxed_find(struct pt_regs *context, struct hit *hit, __u32 place)
{
	struct arguments_state *state = &hit->thread->arguments;
	__u64 end = 0, words[2] = {};

	if (READ_USER(end, arch_register(context, BOXED_STACK) + sizeof(__u64)))
		return -1;
	state->address = end - (__u64)place * IVALUE_SIZE;
	if (bpf_probe_read_user(words, sizeof(words), (void *)state->address))
		return -1;
	if ((__u32)words[1] == IVALUE_TENSOR)
		return 0;
	state->count = 0;
	return (__u32)words[1] == IVALUE_NONE ? 0 : boxed_list_find(hit, state->address);
}

/* Where the elements of one argument are; count 0 for an empty optional. */
static __always_inline long argument_find(
	struct pt_regs *context, struct hit *hit, const struct hook_argument *argument)
{
	struct arguments_state *state = &hit->thread->arguments;
	__u64 value, words[3] = {};
	__u8 present = 0;

	state->count = 1;
	state->stride = sizeof(__u64);
	if (argument->kind == ARGUMENT_BOXED)
		return boxed_find(context, hit, argument->place);
	value = argument_word(context, hit, argument->place);
	state->address = value;
	switch (argument->kind) {
	case ARGUMENT_TENSOR:
		return 0;
	case ARGUMENT_OPTIONAL_TENSOR:
		state->address = value + hit->settings->optional_value;
		if (READ_USER(present, value + hit->settings->optional_flag))
			return -1;
		state->count = present & 1;
		return 0;
	case ARGUMENT_TENSOR_LIST:
		state->count = (__u32)argument_word(context, hit, argument->place + 1);
		return 0;
	case ARGUMENT_ITENSOR_LIST:
		if (bpf_probe_read_user(words, sizeof(words), (void *)value))
			return -1;
		state->address = words[0];
		state->count = (__u32)words[1];
		if ((__u32)words[2] == ILIST_UNBOXED)
			return 0;
		return (__u32)words[2] == ILIST_BOXED ? boxed_list_find(hit, words[0]) : -1;
	case ARGUMENT_OPTIONAL_TENSOR_LIST:
		return boxed_list_find(hit, value);
	}
	return -1;
}

struct argument_walk {
	struct pt_regs *context;
	struct hit *hit;
	const struct hook_description *description;
};

static long argument_read(__u32 index, struct argument_walk *walk)
{
	struct arguments_state *state = &walk->hit->thread->arguments;

	if (index >= walk->description->argument_count || index >= HOOK_ARGUMENTS_MAX)
		return 1;
	if (argument_find(walk->context, walk->hit, &walk->description->arguments[index]) ||
		state->count > TENSORS_TOTAL_MAX) {
		state->fault = 1;
		return 0;
	}
	state->total += state->count;
	if (state->skip >= state->count) {
		state->skip -= state->count;
		return 0;
	}
	state->first = state->skip;
	state->count -= state->skip;
	state->skip = 0;
	bpf_loop(EVENT_TENSORS_MAX, argument_element_read, walk->hit, 0);
	return 0;
}

/* Put the storages of the elements [skip, skip + EVENT_TENSORS_MAX) into the record's tail. */
static __noinline int arguments_read(struct argument_walk *walk, __u32 skip)
{
	struct thread_state *thread = walk->hit->thread;

	thread->tensor_count = 0;
	thread->arguments.skip = skip;
	thread->arguments.total = 0;
	thread->arguments.fault = 0;
	bpf_loop(HOOK_ARGUMENTS_MAX, argument_read, walk, 0);
	return 0;
}

#endif
