// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * Memory of devices below PyTorch: calls of drivers and of their runtimes. Which
 * function does what, and where its arguments are, is data (struct segment_call).
 *
 * What a call gave is known when it has returned, and there are no return
 * probes: an ordinary probe on the instruction behind the call tells, once user
 * space has set it, which needs one call to know the place. Before that it is
 * read from where the result was to go, at the thread's next hit.
 */
#include "emit.h"
#include "extent.h"
#include "liveness.h"
#include "stack.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The device that a handle stands for, NULL: it was not seen to be made. */
static __always_inline const struct segment_handle_value *handle_find(
	struct pt_regs *context, const struct hit *hit, const struct segment_call *call)
{
	struct segment_handle_key key = {
		.process = (__u32)(bpf_get_current_pid_tgid() >> 32), .kind = call->handle_kind};

	key.handle = call_argument(context, hit, call->handle);
	return call->handle && call->handle_kind ? bpf_map_lookup_elem(&segment_handles, &key) : NULL;
}

/* What the thread's calls are for from here on; a context that was not seen to be made changes nothing. */
static __always_inline void device_select(
	struct pt_regs *context, const struct hit *hit, const struct segment_call *call)
{
	const struct segment_handle_value *value = handle_find(context, hit, call);
	struct thread_state *thread = hit->thread;
	__u8 selected = thread->device_known ? thread->device + 1 : 0;

	if (call->selection == SELECT_PUSH)
		thread->devices_below = thread->devices_below << 8 | selected;
	if (call->selection == SELECT_POP) {
		selected = (__u8)thread->devices_below;
		thread->devices_below >>= 8;
	} else if (call->device) {
		selected = (__u8)call_argument(context, hit, call->device) + 1;
	} else if (value) {
		selected = value->device + 1;
	}
	thread->device_known = selected != 0;
	thread->device = selected - 1;
}

/* CUmemLocation: its type (1: a device), and the number of that. Behind two numbers in all properties that have one. */
#define LOCATION_OFFSET 8
#define LOCATION_OF_DEVICE 1

struct location {
	__s32 type, number;
};

/* Which device the call is for, and what memory it is about. */
static __always_inline void segment_place(struct pt_regs *context, const struct hit *hit,
	const struct segment_call *call, struct segment_handle_value *place)
{
	const struct segment_handle_value *value = handle_find(context, hit, call);
	struct location location = {0};

	place->device = hit->thread->device_known ? hit->thread->device : SEGMENT_DEVICE_UNKNOWN;
	place->memory = call->memory;
	if (value)
		*place = *value;
	if (call->device)
		place->device = (__u8)call_argument(context, hit, call->device);
	if (!call->location || READ_USER(location, call_argument(context, hit, call->location) + LOCATION_OFFSET))
		return;
	if (location.type == LOCATION_OF_DEVICE)
		place->device = (__u8)location.number;
	else if (location.type)
		place->memory = SEGMENT_HOST;
}

static __always_inline void segment_fill(struct segment_event *record, struct pt_regs *context, const struct hit *hit,
	const struct hook_description *description, __u8 depth)
{
	const struct segment_call *call = &description->segment;

	event_fill(&record->event, hit, EVENT_SEGMENT, sizeof(*record), depth);
	record->event.operator_ = description->operator_;
	record->address = call_argument(context, hit, call->address);
	record->bytes = call_bytes(context, hit, call);
	record->handle = call_argument(context, hit, call->handle);
	record->stream = call_argument(context, hit, call->stream);
	record->caller = hit->thread->driver_call.word;
	record->code = 0;
	record->action = call->action;
	record->memory = hit->thread->pending.handle.memory;
	record->result = SEGMENT_TAKEN;
	record->device_type = call->device_type;
	record->pooled = call->pooled;
	record->device_index = hit->thread->pending.handle.device;
	record->process = (__u32)(bpf_get_current_pid_tgid() >> 32);
	__builtin_memset(record->reserved, 0, sizeof(record->reserved));
}

/* What gives memory back is told at once: another thread may get the same again before the call returns. */
static __always_inline bool is_giving_back(__u8 action)
{
	return action == SEGMENT_FREE || action == SEGMENT_RELEASE || action == SEGMENT_UNMAP ||
	       action == SEGMENT_UNREGISTER;
}

SEC("uprobe.multi")
int segment_called(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	const struct segment_call *call;
	struct hook_description *description;
	struct pending_segment *pending;
	__u32 hook = COOKIE_HOOK(cookie);
	struct hit hit;

	description = bpf_map_lookup_elem(&hooks, &hook);
	if (!description || !hit_begin(&hit, context, cookie))
		return 0;
	call = &description->segment;
	pending = &hit.thread->pending;
	hit.stack_pointer += (__s64)description->stack_adjust;
	if (call->selection)
		device_select(context, &hit, call);
	if (!call->action && !call->result)
		return 0;
	/* A runtime calls its driver: the outer call is the one that counts. */
	if (hit.thread->driver_call.place && pending->runtime && !call->runtime)
		return 0;
	if (hit.thread->driver_call.place)
		segment_send(&hit);
	pending->runtime = call->runtime;
	hit.thread->driver_call.place = hit.stack_pointer;
	hit.thread->driver_call.word = 0;
	READ_USER(hit.thread->driver_call.word, hit.stack_pointer);
	segment_place(context, &hit, call, &pending->handle);
	segment_fill(&pending->record, context, &hit, description, (__u8)hit_depth(&hit, false));
	pending->result = call_argument(context, &hit, call->result);
	pending->handle_kind = call->handle ? HANDLE_NONE : call->handle_kind;
	pending->pitch = call->pitch ? call_argument(context, &hit, call->pitch) + call->pitch_offset : 0;
	pending->rows = call_rows(context, &hit, call);
	pending->before = 0;
	pending->told = false;
	if (pending->result)
		READ_USER(pending->before, pending->result);
	if (is_giving_back(call->action)) {
		event_send(&hit, &pending->record, sizeof(pending->record));
		pending->told = true;
	}
	return 0;
}

/* The call that was waited for is over, and what it came to is known. */
static __noinline int segment_settle(struct pt_regs *context, struct hit *hit)
{
	struct pending_segment *pending = &hit->thread->pending;
	struct segment_event *record = &pending->record;

	hit->thread->driver_call.place = 0;
	record->code = (__s32)ARCH_RETURN_VALUE(context);
	record->result = record->code ? SEGMENT_REFUSED : SEGMENT_RETURNED;
	if (pending->result && READ_USER(record->address, pending->result))
		record->result = record->code ? SEGMENT_REFUSED : SEGMENT_UNREADABLE;
	if (pending->result && !record->code)
		segment_complete(hit, pending, record->address);
	if (record->action && (!pending->told || record->code))
		event_send(hit, record, sizeof(*record));
	return 0;
}

/* Behind a call; the cookie says how far. */
SEC("uprobe.multi")
int segment_returned(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	struct hit hit;

	if (hit_find(&hit, context, cookie) && hit.thread->driver_call.place &&
		hit.thread->driver_call.word + COOKIE_HOOK(cookie) == ARCH_INSTRUCTION(context) &&
		hit.thread->driver_call.place + ARCH_WORD == hit.stack_pointer)
		segment_settle(context, &hit);
	return 0;
}

/* The kernel that was looked for has a handle now. */
static __noinline int kernel_tell(struct hit *hit)
{
	struct pending_kernel *pending = &hit->thread->kernel;
	struct kernel_event *record = RECORD_HEAD(hit->thread, kernel_event);

	pending->call.place = 0;
	event_fill(&record->event, hit, EVENT_KERNEL_NAME, sizeof(*record), 0);
	if (!READ_USER(record->function, pending->result) && record->function &&
		bpf_probe_read_user_str(record->name, sizeof(record->name), (void *)pending->name) > 0)
		event_send(hit, record, sizeof(*record));
	return 0;
}

/* At the end of a function, which is about to return: another one that ends there has another place on the stack. */
SEC("uprobe.multi")
int function_ended(struct pt_regs *context)
{
	struct hit hit;

	if (!hit_find(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	if (hit.thread->driver_call.place && hit.thread->driver_call.place == hit.stack_pointer)
		segment_settle(context, &hit);
	if (hit.thread->kernel.call.place && hit.thread->kernel.call.place == hit.stack_pointer)
		kernel_tell(&hit);
	return 0;
}

/* c10::reportOutOfMemoryToProfiler(bytes, allocated, reserved, device) */
SEC("uprobe.multi")
int memory_exhausted(struct pt_regs *context)
{
	struct out_of_memory_event *record;
	__u32 frame_count = 0, size;
	__u64 stack = 0;
	__u8 flags = 0, depth;
	struct hit hit;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	record = RECORD_HEAD(hit.thread, out_of_memory_event);
	depth = (__u8)hit_depth(&hit, false);
	if (!depth)
		frame_count = python_stack_read(&hit, 0, &stack, &flags);
	size = sizeof(*record) + frame_count * sizeof(struct python_frame);
	event_fill(&record->event, &hit, EVENT_OUT_OF_MEMORY, size, depth);
	record->event.flags = flags;
	record->bytes = arch_register(context, 0);
	record->allocated = arch_register(context, 1);
	record->reserved_bytes = arch_register(context, 2);
	record->stack = stack;
	record->frame_count = (__u16)frame_count;
	record->device_type = (__u8)arch_register(context, 3);
	record->device_index = (__u8)(arch_register(context, 3) >> 8);
	__builtin_memset(record->reserved, 0, sizeof(record->reserved));
	event_send_with_frames(&hit, record, sizeof(*record), size, frame_count, stack);
	return 0;
}

static __always_inline void frame_note(const struct hit *hit, struct call_frame *frame)
{
	frame->place = hit->stack_pointer;
	frame->word = 0;
	READ_USER(frame->word, frame->place);
}

/* A function that finds a kernel by its name. */
SEC("uprobe.multi")
int kernel_sought(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	struct hook_description *description;
	__u32 hook = COOKIE_HOOK(cookie);
	struct hit hit;

	description = bpf_map_lookup_elem(&hooks, &hook);
	if (!description || !hit_begin(&hit, context, cookie))
		return 0;
	hit.stack_pointer += (__s64)description->stack_adjust;
	frame_note(&hit, &hit.thread->kernel.call);
	hit.thread->kernel.result = call_argument(context, &hit, description->kernel.result);
	hit.thread->kernel.name = call_argument(context, &hit, description->kernel.name);
	return 0;
}

/* A function that launches a kernel or a graph. */
SEC("uprobe.multi")
int kernel_launched(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	struct hook_description *description;
	struct launch_event record;
	__u32 hook = COOKIE_HOOK(cookie);
	struct hit hit;

	description = bpf_map_lookup_elem(&hooks, &hook);
	if (!description || !hit_begin(&hit, context, cookie))
		return 0;
	hit.stack_pointer += (__s64)description->stack_adjust;
	if (description->kernel.runtime)
		frame_note(&hit, &hit.thread->launch);
	else if (hit.thread->launch.place && call_is_alive(&hit.thread->launch, hit.stack_pointer))
		return 0; /* it was told already */
	event_fill(&record.event, &hit, EVENT_LAUNCH, sizeof(record), (__u8)hit_depth(&hit, false));
	record.event.operator_ = description->operator_;
	record.function = call_argument(context, &hit, description->kernel.function);
	event_send(&hit, &record, sizeof(record));
	return 0;
}
