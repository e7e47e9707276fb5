/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Sending a record: one place counts what was produced and what found no room. */
#ifndef HDTRACE_BPF_EMIT_H
#define HDTRACE_BPF_EMIT_H

#include "thread.h"

/* Set by the loader: the reader is woken when so many bytes wait; it also polls. */
const volatile __u32 wake_bytes __weak = 1 << 20;

/* Of so many records and one more, one asks how full the ring is: the reader polls besides. */
#define WAKE_CHECK_MASK 15

/*
 * At LEVEL_LITE the clock is read once a tick and for operators, since reading it
 * costs a quarter of a program: the order is the ring's.
 */
static __always_inline __u64 event_time(const struct hit *hit, __u16 kind)
{
	struct thread_state *thread = hit->thread;
	__u64 tick = bpf_jiffies64();

	if (hit->settings->level == LEVEL_FULL)
		return bpf_ktime_get_ns();
	if (thread->tick != tick || kind == EVENT_OPERATOR) {
		thread->tick = tick;
		thread->time_ns = bpf_ktime_get_ns();
	}
	return thread->time_ns;
}

static __always_inline void event_fill(struct event *event, const struct hit *hit, __u16 kind, __u32 size, __u8 depth)
{
	event->time_ns = event_time(hit, kind);
	event->size = size;
	event->thread_id = (__u32)bpf_get_current_pid_tgid();
	event->kind = kind;
	event->target = (__u16)hit->target;
	event->operator_ = 0;
	event->depth = depth;
	event->flags = 0;
}

/*
 * What the reader is to look at in the target's memory before it is gone: the
 * objects of frames that were never seen before, and all of them when memory is
 * out and at the end.
 */
static __always_inline bool event_is_urgent(const struct event *event)
{
	return event->kind == EVENT_CODE || event->kind == EVENT_FINALIZE || event->kind == EVENT_OUT_OF_MEMORY;
}

/* Returns false when the ring is full; the record is then counted as lost. */
static __always_inline bool event_send(const struct hit *hit, void *record, __u64 size)
{
	struct event_counters *counter = bpf_map_lookup_elem(&counters, &hit->target);
	/* A process that is seen by a guess is to be met while it is there. */
	bool wake = event_is_urgent(record) || hit->settings->family;
	long error;

	if (!counter)
		return false;
	if (!(counter->produced++ & WAKE_CHECK_MASK) && !wake)
		wake = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= wake_bytes;
	error = bpf_ringbuf_output(&events, record, size, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	if (error)
		counter->lost[LOSS_RING_FULL]++;
	return !error;
}

/* What the call of a driver wrote beside its result: how long a row is, and which device a handle is of. */
static __always_inline void segment_complete(const struct hit *hit, struct pending_segment *pending, __u64 result)
{
	struct segment_handle_key key = {
		.handle = result, .process = (__u32)(bpf_get_current_pid_tgid() >> 32), .kind = pending->handle_kind};
	__u64 pitch;

	if (pending->pitch && !READ_USER(pitch, pending->pitch) && pitch)
		pending->record.bytes = pitch * pending->rows;
	if (pending->handle_kind && result)
		bpf_map_update_elem(&segment_handles, &key, &pending->handle, BPF_ANY);
}

/*
 * The call of a driver that was waited for is over. Its result was not seen
 * behind the call: what lies where it was to go has to do.
 */
static __noinline int segment_send(struct hit *hit)
{
	struct pending_segment *pending = &hit->thread->pending;
	struct segment_event *record = &pending->record;
	/* The result went to a variable of a function that has returned since: others may have written there. */
	bool left = pending->result > hit->thread->driver_call.place && pending->result < hit->stack_pointer;

	hit->thread->driver_call.place = 0;
	if (pending->result) {
		record->result = SEGMENT_FOUND;
		if (READ_USER(record->address, pending->result))
			record->result = SEGMENT_UNREADABLE;
		else if (record->address == pending->before)
			record->result = left ? SEGMENT_UNREADABLE : SEGMENT_UNCHANGED;
		segment_complete(hit, pending, record->address);
	}
	if (record->action && !pending->told)
		event_send(hit, record, sizeof(*record));
	return 0;
}

/* What a program begins with; false: the hit is for nobody. */
static __always_inline bool hit_begin(struct hit *hit, struct pt_regs *context, __u64 cookie)
{
	if (!hit_find(hit, context, cookie))
		return false;
	if (hit->thread->driver_call.place && !call_is_alive(&hit->thread->driver_call, hit->stack_pointer))
		segment_send(hit);
	return true;
}

#endif
