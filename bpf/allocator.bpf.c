// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * Memory of the CPU allocator: c10::ProfiledCPUMemoryReporter::New and ::Delete,
 * which it calls for every block whether or not a profiler is on, and the
 * function by which a storage changes its size.
 */
#include "emit.h"
#include "liveness.h"
#include "stack.h"
#include "storage.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Smaller allocations outside operators are numbers that PyTorch wraps: no stack is worth its cost. */
#define STACK_BYTES_MIN 64

/* What is allocated outside operators may belong to one that the sparse hooks do not see. */
static __always_inline void inference_tell(struct hit *hit)
{
	struct event record;

	if (hit->settings->plain || !inference_is_on(hit))
		return;
	event_fill(&record, hit, EVENT_INFERENCE, sizeof(record), 0);
	event_send(hit, &record, sizeof(record));
}

static __always_inline void allocation_fill(
	struct allocate_event *record, struct pt_regs *context, const struct hit *hit, __u32 size, __u8 depth)
{
	event_fill(&record->event, hit, EVENT_ALLOCATE, size, depth);
	record->address = arch_register(context, 1);
	record->bytes = arch_register(context, 2);
	record->stack = 0;
	record->frame_count = 0;
	__builtin_memset(record->reserved, 0, sizeof(record->reserved));
}

/* An allocation outside operators, with the Python stack that made it. */
static __noinline int allocation_send_with_stack(struct pt_regs *context, struct hit *hit)
{
	struct allocate_event *record = RECORD_HEAD(hit->thread, allocate_event);
	__u8 flags = engine_is_alive(hit) ? EVENT_BACKWARD : 0;
	__u64 stack;
	__u32 frame_count, size;

	inference_tell(hit);
	frame_count = python_stack_read(hit, 0, &stack, &flags);
	size = sizeof(*record) + frame_count * sizeof(struct python_frame);
	allocation_fill(record, context, hit, size, 0);
	record->event.flags = flags;
	record->stack = stack;
	record->frame_count = (__u16)frame_count;
	event_send_with_frames(hit, record, sizeof(*record), size, frame_count, stack);
	return 0;
}

/* New(this, pointer, bytes) */
SEC("uprobe.multi")
int memory_allocated(struct pt_regs *context)
{
	bool number;
	struct allocate_event record;
	struct hit hit;
	__u8 depth;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	number = arch_register(context, 2) < STACK_BYTES_MIN && !hit.thread->resizing;
	hit.thread->resizing = 0;
	depth = hit_depth(&hit, number);
	if (!depth && !number && hit.settings->level == LEVEL_FULL)
		return allocation_send_with_stack(context, &hit);
	allocation_fill(&record, context, &hit, sizeof(record), depth);
	if (hit.settings->level == LEVEL_LITE)
		record.event.flags = EVENT_LITE;
	else if (depth)
		hit.thread->filled = record.address;
	else if (engine_is_alive(&hit))
		record.event.flags = EVENT_BACKWARD;
	if (!depth && !number)
		inference_tell(&hit);
	event_send(&hit, &record, sizeof(record));
	return 0;
}

/* What a node of autograd's graph saved is let go while the engine evaluates it. */
static __always_inline __u8 free_flags(struct hit *hit)
{
	return hit->settings->level == LEVEL_FULL && engine_is_alive(hit) ? EVENT_BACKWARD : 0;
}

/* Delete(this, pointer) */
SEC("uprobe.multi")
int memory_freed(struct pt_regs *context)
{
	struct free_event record = {};
	struct hit hit;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	event_fill(&record.event, &hit, EVENT_FREE, sizeof(record), hit_depth(&hit, false));
	record.event.flags = free_flags(&hit);
	record.address = arch_register(context, 1);
	event_send(&hit, &record, sizeof(record));
	return 0;
}

/* at::native::resize_bytes_cpu(c10::StorageImpl *, size_t), and its likes for other devices */
SEC("uprobe.multi")
int storage_resized(struct pt_regs *context)
{
	struct resize_event record = {};
	struct hit hit;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	event_fill(&record.event, &hit, EVENT_RESIZE, sizeof(record), hit_depth(&hit, false));
	storage_read(hit.settings, arch_register(context, 0), &record.before);
	record.bytes_after = arch_register(context, 1);
	/* What it allocates next is no number, however small, and its line is wanted. */
	hit.thread->resizing = record.bytes_after != 0;
	event_send(&hit, &record, sizeof(record));
	return 0;
}

/* --- devices ---------------------------------------------------------------------- */

static __always_inline void device_freed(struct hit *hit, struct pt_regs *context)
{
	struct device_free_event record = {
		.address = arch_register(context, 0),
		.bytes = -arch_register(context, 1),
		.allocated = arch_register(context, 2),
		.reserved = arch_register(context, 3),
		.device_type = (__u8)arch_register(context, 4),
		.device_index = (__u8)(arch_register(context, 4) >> 8),
	};

	event_fill(&record.event, hit, EVENT_DEVICE_FREE, sizeof(record), hit_depth(hit, false));
	record.event.flags = free_flags(hit);
	event_send(hit, &record, sizeof(record));
}

static __always_inline void device_allocation_fill(
	struct device_allocate_event *record, struct pt_regs *context, const struct hit *hit, __u32 size, __u8 depth)
{
	event_fill(&record->event, hit, EVENT_DEVICE_ALLOCATE, size, depth);
	record->address = arch_register(context, 0);
	record->bytes = arch_register(context, 1);
	record->stack = 0;
	record->allocated = arch_register(context, 2);
	record->reserved = arch_register(context, 3);
	record->frame_count = 0;
	record->device_type = (__u8)arch_register(context, 4);
	record->device_index = (__u8)(arch_register(context, 4) >> 8);
	__builtin_memset(record->reserved_, 0, sizeof(record->reserved_));
}

/* One outside operators, with the Python stack that made it. */
static __noinline int device_allocation_send_with_stack(struct pt_regs *context, struct hit *hit)
{
	struct device_allocate_event *record = RECORD_HEAD(hit->thread, device_allocate_event);
	__u8 flags = engine_is_alive(hit) ? EVENT_BACKWARD : 0;
	__u64 stack;
	__u32 frame_count, size;

	frame_count = python_stack_read(hit, 0, &stack, &flags);
	size = sizeof(*record) + frame_count * sizeof(struct python_frame);
	device_allocation_fill(record, context, hit, size, 0);
	record->event.flags = flags;
	record->stack = stack;
	record->frame_count = (__u16)frame_count;
	event_send_with_frames(hit, record, sizeof(*record), size, frame_count, stack);
	return 0;
}

static __always_inline int device_allocated(struct hit *hit, struct pt_regs *context)
{
	struct device_allocate_event record;
	__u8 depth = hit_depth(hit, false);

	if (!depth)
		inference_tell(hit);
	if (!depth && hit->settings->level == LEVEL_FULL)
		return device_allocation_send_with_stack(context, hit);
	device_allocation_fill(&record, context, hit, sizeof(record), depth);
	if (hit->settings->level == LEVEL_LITE)
		record.event.flags = EVENT_LITE;
	else
		hit->thread->filled = record.address;
	event_send(hit, &record, sizeof(record));
	return 0;
}

/*
 * c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, device):
 * caching allocators call it for every block, with bytes below 0 for one that is
 * freed. That of the CPU does so only under a profiler, and is followed by its
 * own hooks.
 */
SEC("uprobe.multi")
int device_reported(struct pt_regs *context)
{
	struct hit hit;

	if ((__u8)arch_register(context, 4) == DEVICE_CPU || !hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	if ((__s64)arch_register(context, 1) >= 0)
		return device_allocated(&hit, context);
	device_freed(&hit, context);
	return 0;
}

static __always_inline __u64 usdt_value(struct pt_regs *context, const struct usdt_operand *operand)
{
	__u64 value = arch_usdt_register(context, operand->register_);

	if (operand->memory && READ_USER(value, value + operand->offset))
		return 0;
	return value;
}

/*
 * Who called the function that the point is in. Where it keeps values at places
 * below %rbp, that is its frame, with the caller's address right above.
 */
static __always_inline __u8 usdt_maker(
	struct pt_regs *context, const struct target_settings *settings, const struct usdt_operand *operand)
{
	__u64 caller = 0;

	if (!operand->memory || operand->register_ != USDT_RBP || operand->offset >= 0 ||
		READ_USER(caller, arch_usdt_register(context, USDT_RBP) + sizeof(__u64)))
		return MAKER_UNKNOWN;
	if (caller >= settings->tensor_code_start && caller < settings->tensor_code_end)
		return MAKER_TENSOR;
	if (caller >= settings->device_code_start && caller < settings->device_code_end)
		return MAKER_LIBRARY;
	return MAKER_UNKNOWN;
}

/* USDT pytorch:malloc: what a block was asked for, which is less than its bytes, by whom and for which stream. */
SEC("uprobe.multi")
int device_requested(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	struct device_request_event record = {};
	struct hook_description *description;
	__u32 hook = COOKIE_HOOK(cookie);
	struct hit hit;

	if (!hit_begin(&hit, context, cookie))
		return 0;
	description = bpf_map_lookup_elem(&hooks, &hook);
	if (!description)
		return 0;
	record.address = usdt_value(context, &description->malloc_values[USDT_MALLOC_POINTER]);
	record.bytes = usdt_value(context, &description->malloc_values[USDT_MALLOC_BYTES]);
	record.stream = usdt_value(context, &description->malloc_values[USDT_MALLOC_STREAM]);
	record.maker = usdt_maker(context, hit.settings, &description->malloc_values[USDT_MALLOC_STREAM]);
	event_fill(&record.event, &hit, EVENT_DEVICE_REQUEST, sizeof(record), 0);
	event_send(&hit, &record, sizeof(record));
	return 0;
}
