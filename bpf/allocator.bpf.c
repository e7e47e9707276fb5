// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * Memory of the CPU allocator: c10::ProfiledCPUMemoryReporter::New and ::Delete,
 * which it calls for every block whether or not a profiler is on, and the
 * function by which a storage changes its size.
 */
#include "emit.h"
#include "liveness.h"
#include "stack.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Smaller allocations outside operators are numbers that PyTorch wraps: no stack is worth its cost. */
#define STACK_BYTES_MIN 64

/*
 * At LEVEL_LITE the stack pointer has to do, since each read of the target costs
 * as much as all the rest; but numbers that PyTorch wraps are allocated where the
 * last operator's frame seems to be still, so for them its word is looked at.
 */
static __always_inline __u32 hit_depth_lite(const struct hit *hit, bool number)
{
	__u32 last = hit->thread->running - 1;

	if (!hit->thread->running || last >= FRAMES_DEPTH_MAX ||
		hit->thread->frames[last].call.place <= hit->stack_pointer)
		return 0;
	return !number || call_is_alive(&hit->thread->frames[last].call, hit->stack_pointer) ? hit->thread->running : 0;
}

static __always_inline __u32 hit_depth(struct hit *hit, bool number)
{
	struct thread_state *thread = hit->thread;

	if (hit->settings->level == LEVEL_LITE)
		return hit_depth_lite(hit, number);
	/* A guarded frame needs no second proof here: what else excludes autograd allocates nothing. */
	if (thread->frame_count)
		frames_check(hit, autograd_is_excluded(hit, keys_excluded(hit)), false);
	return *(volatile __u32 *)&thread->frame_count;
}

/* What is allocated outside operators may belong to one that the sparse hooks do not see. */
static __always_inline void inference_tell(struct hit *hit)
{
	struct event record;

	if (hit->settings->plain || !inference_is_on(hit))
		return;
	event_fill(&record, hit, EVENT_INFERENCE, sizeof(record), 0);
	event_send(hit, &record, sizeof(record));
}

/* New(this, pointer, bytes) */
SEC("uprobe.multi")
int memory_allocated(struct pt_regs *context)
{
	struct allocate_event *record;
	__u32 frame_count = 0, size;
	__u8 flags = 0, depth;
	struct hit hit;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	record = RECORD_HEAD(hit.thread, allocate_event);
	record->address = arch_register(context, 1);
	record->bytes = arch_register(context, 2);
	depth = hit_depth(&hit, record->bytes < STACK_BYTES_MIN);
	record->stack = 0;
	if (depth)
		hit.thread->filled = record->address;
	if (!depth && record->bytes >= STACK_BYTES_MIN)
		inference_tell(&hit);
	if (!depth && hit.settings->level == LEVEL_FULL && record->bytes >= STACK_BYTES_MIN)
		frame_count = python_stack_read(&hit, 0, &record->stack, &flags);
	if (!depth && engine_is_alive(&hit))
		flags |= EVENT_BACKWARD;
	size = sizeof(*record) + frame_count * sizeof(struct python_frame);
	event_fill(&record->event, &hit, EVENT_ALLOCATE, size, depth);
	record->event.flags = flags;
	record->frame_count = (__u16)frame_count;
	if (size > sizeof(*record) + RECORD_TAIL_SIZE)
		return 0;
	if (!event_send(&hit, record, size) && frame_count)
		python_stack_forget(&hit, record->stack);
	return 0;
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
	record.address = arch_register(context, 1);
	event_send(&hit, &record, sizeof(record));
	return 0;
}

/* at::native::resize_bytes_cpu(c10::StorageImpl *, size_t) */
SEC("uprobe.multi")
int storage_resized(struct pt_regs *context)
{
	struct resize_event record = {};
	struct hit hit;
	__u64 storage;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	event_fill(&record.event, &hit, EVENT_RESIZE, sizeof(record), hit_depth(&hit, false));
	storage = arch_register(context, 0);
	READ_USER(record.address, storage + hit.settings->storage_data);
	READ_USER(record.bytes_before, storage + hit.settings->storage_data + hit.settings->storage_bytes);
	record.bytes_after = arch_register(context, 1);
	event_send(&hit, &record, sizeof(record));
	return 0;
}
