/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Python stacks: a walk over the frames of the current thread, and a copy of
 * each code object before the first stack that refers to it.
 */
#ifndef HDTRACE_BPF_STACK_H
#define HDTRACE_BPF_STACK_H

#include "emit.h"
#include "python.h"

struct python_walk {
	struct thread_state *thread;
	const struct target_settings *settings;
	__u64 frame;
	__u64 block; /* address that python_block was read from, 0: unreadable */
	__u64 identity;
	__u64 innermost; /* the innermost frame's word with the instruction */
	__u32 offset;    /* into the record's tail */
	__u32 count;
	bool fault;
	bool cut; /* there are more frames than a record takes */
};

/* Frames that are looked at: those of C, which are left out, stand between those of Python. */
#define PYTHON_WALK_MAX (2 * EVENT_FRAMES_MAX)

#define TAIL_MASK (RECORD_TAIL_SIZE - 1)

static __always_inline __u64 span_field(const __u64 *span, __u32 offset)
{
	__u64 index = offset / sizeof(__u64);

	asm volatile("" : "+r"(index)); /* keep the check next to the use, for the verifier */
	return index < FRAME_SPAN_MAX / sizeof(__u64) ? span[index] : 0;
}

static __always_inline __u64 block_field(const struct thread_state *thread, __u64 offset, __u32 field)
{
	__u64 index = (offset + field) / sizeof(__u64);

	asm volatile("" : "+r"(index));
	return thread->python_block[index & (PYTHON_BLOCK_BYTES / sizeof(__u64) - 1)];
}

/* What a frame holds, as it stands there. */
struct raw_frame {
	__u64 code, previous, instruction, owner, self;
};

/* Read one frame, from the block where it lies in it. */
static __always_inline long raw_frame_read(const struct python_walk *walk, struct raw_frame *frame)
{
	const struct target_settings *settings = walk->settings;
	__u64 span[FRAME_SPAN_MAX / sizeof(__u64)], size = settings->frame_span;
	__u64 start = walk->frame + settings->frame_base, offset = start - walk->block;

	if (walk->block && offset <= PYTHON_BLOCK_BYTES - FRAME_SPAN_MAX) {
		frame->code = block_field(walk->thread, offset, settings->frame_code);
		frame->previous = block_field(walk->thread, offset, settings->frame_previous);
		frame->instruction = block_field(walk->thread, offset, settings->frame_instruction);
		frame->owner = block_field(walk->thread, offset, settings->frame_owner);
		frame->self = block_field(walk->thread, offset, settings->frame_self);
		return 0;
	}
	if (size > FRAME_SPAN_MAX || bpf_probe_read_user(span, size, (void *)start))
		return -1;
	frame->code = span_field(span, settings->frame_code);
	frame->previous = span_field(span, settings->frame_previous);
	frame->instruction = span_field(span, settings->frame_instruction);
	frame->owner = span_field(span, settings->frame_owner);
	if (settings->frame_self < size)
		frame->self = span_field(span, settings->frame_self);
	else if (READ_USER(frame->self, start + settings->frame_self))
		return -1;
	return 0;
}

static __always_inline bool raw_frame_is_of_c(const struct target_settings *settings, const struct raw_frame *frame)
{
	return settings->frame_owner_skip &&
	       (__u8)(frame->owner >> (settings->frame_owner_shift & 63)) >= settings->frame_owner_skip;
}

static __always_inline void raw_frame_decode(
	const struct target_settings *settings, const struct raw_frame *raw, struct python_frame *frame)
{
	__u64 tags = settings->frame_tag_mask;

	frame->code = raw->code & ~tags;
	frame->self = raw->self & ~tags;
	frame->instruction = raw->instruction;
	if (settings->frame_index_unit)
		frame->instruction = frame->code + (__s64)(__s32)raw->instruction * settings->frame_index_unit;
}

static long python_walk_frame(__u32 index, struct python_walk *walk)
{
	__u64 offset = walk->offset;
	struct python_frame frame;
	struct raw_frame raw;

	if (!walk->frame)
		return 1;
	if (raw_frame_read(walk, &raw)) {
		walk->fault = true;
		return 1;
	}
	if (!index)
		walk->innermost = raw.instruction;
	walk->frame = raw.previous;
	if (raw_frame_is_of_c(walk->settings, &raw))
		return 0;
	if (walk->count >= EVENT_FRAMES_MAX) {
		walk->cut = true;
		return 1;
	}
	raw_frame_decode(walk->settings, &raw, &frame);
	asm volatile("" : "+r"(offset));
	offset &= TAIL_MASK;
	*(struct python_frame *)(walk->thread->record.tail + offset) = frame;
	walk->offset += sizeof(frame);
	walk->count++;
	walk->identity = identity_mix(identity_mix(walk->identity, frame.instruction), frame.code ^ frame.self);
	return 0;
}

/* --- code objects ---------------------------------------------------------------- */

static __always_inline void code_piece_read(
	struct code_buffer *buffer, __u32 piece, __u64 address, void *destination, __u32 length)
{
	buffer->head.pieces[piece].address = address;
	buffer->head.pieces[piece].length = bpf_probe_read_user(destination, length, (void *)address) ? 0 : length;
}

static __always_inline __u64 code_field(const struct code_buffer *buffer, __u32 offset)
{
	__u64 at = offset;

	asm volatile("" : "+r"(at));
	if (at > CODE_OBJECT_BYTES - sizeof(__u64))
		return 0;
	return *(__u64 *)(buffer->object + at);
}

/* The location table; returns the bytes copied, 0 when it is too long or unreadable. */
static __always_inline __u32 code_table_read(struct hit *hit, struct code_buffer *buffer)
{
	__u64 address = code_field(buffer, hit->settings->code_table), length = 0;

	buffer->head.pieces[CODE_PIECE_TABLE].address = address;
	buffer->head.pieces[CODE_PIECE_TABLE].length = 0;
	if (READ_USER(length, address + hit->settings->bytes_length))
		return 0;
	length = (length + hit->settings->bytes_data + 7) & ~7ULL;
	if (length > CODE_TABLE_BYTES || bpf_probe_read_user(buffer->table, length, (void *)address))
		return 0;
	buffer->head.pieces[CODE_PIECE_TABLE].length = (__u32)length;
	return (__u32)length;
}

/* What tells a code object from another one at its address; short tables and names are shared by many. */
static __always_inline __u64 code_identity(const struct target_settings *settings, const struct code_buffer *buffer)
{
	__u64 identity = identity_mix(code_field(buffer, settings->code_file), code_field(buffer, settings->code_name));

	identity = identity_mix(identity, code_field(buffer, settings->code_table));
	return identity_mix(identity, code_field(buffer, settings->code_first_line));
}

/* Send a copy of a code object, unless the same one was sent before. */
static __noinline int code_send(struct hit *hit, __u64 code)
{
	struct code_buffer *buffer = &hit->thread->code;
	struct code_key key = {.target = hit->target, .code = code};
	__u64 identity, size, *known;

	code_piece_read(buffer, CODE_PIECE_OBJECT, code, buffer->object, CODE_OBJECT_BYTES);
	if (!buffer->head.pieces[CODE_PIECE_OBJECT].length)
		return 0;
	identity = code_identity(hit->settings, buffer);
	known = bpf_map_lookup_elem(&codes_sent, &key);
	if (known && *known == identity)
		return 0;
	code_piece_read(
		buffer, CODE_PIECE_FILE, code_field(buffer, hit->settings->code_file), buffer->file, CODE_FILE_BYTES);
	code_piece_read(
		buffer, CODE_PIECE_NAME, code_field(buffer, hit->settings->code_name), buffer->name, CODE_NAME_BYTES);
	code_piece_read(buffer, CODE_PIECE_QUALIFIED_NAME, code_field(buffer, hit->settings->code_qualified_name),
		buffer->qualified_name, CODE_QUALIFIED_BYTES);
	size = sizeof(*buffer) - CODE_TABLE_BYTES + code_table_read(hit, buffer);
	event_fill(&buffer->head.event, hit, EVENT_CODE, (__u32)size, 0);
	buffer->head.code = code;
	if (size <= sizeof(*buffer) && event_send(hit, buffer, size))
		bpf_map_update_elem(&codes_sent, &key, &identity, BPF_ANY);
	return 0;
}

struct codes_walk {
	struct hit *hit;
	__u32 offset; /* of the next frame in the record's tail */
	__u32 count;
};

static long codes_send_one(__u32 index, struct codes_walk *walk)
{
	__u64 offset = walk->offset;

	if (index >= walk->count)
		return 1;
	asm volatile("" : "+r"(offset));
	offset &= TAIL_MASK;
	code_send(walk->hit, ((struct python_frame *)(walk->hit->thread->record.tail + offset))->code);
	walk->offset += sizeof(struct python_frame);
	return 0;
}

/* --- stacks ------------------------------------------------------------------------- */

/*
 * Write the frames, innermost first, into the record's tail from `offset` on;
 * returns their number, 0 when this thread has sent the same stack before.
 * The identity is 0 without Python, and the flags tell what is missing. The
 * thread's position is the innermost frame's.
 */
static __noinline __u32 python_stack_read(struct hit *hit, __u32 offset, __u64 *identity, __u8 *flags)
{
	struct python_walk walk = {
		.thread = hit->thread,
		.settings = hit->settings,
		.frame = python_innermost(hit),
		.identity = 1,
		.offset = offset,
	};
	struct codes_walk codes = {.hit = hit, .offset = offset};
	__u64 slot, size;

	*identity = 0;
	hit->thread->position.frame = walk.frame;
	if (!walk.frame)
		return 0;
	/* Up to the end of the innermost frame's fields, so that they lie in the block as well. */
	walk.block = walk.frame + hit->settings->frame_base + FRAME_SPAN_MAX - PYTHON_BLOCK_BYTES;
	size = PYTHON_BLOCK_BYTES - FRAME_SPAN_MAX + hit->settings->frame_span;
	/* Frames that count their instructions are objects of their own, anywhere. */
	if (hit->settings->frame_index_unit || size > PYTHON_BLOCK_BYTES ||
		bpf_probe_read_user(hit->thread->python_block, size, (void *)walk.block))
		walk.block = 0;
	bpf_loop(PYTHON_WALK_MAX, python_walk_frame, &walk, 0);
	hit->thread->position.instruction = walk.innermost;
	if (walk.fault) {
		*flags |= EVENT_STACK_LOST;
		loss_count(hit->target, LOSS_STACK);
	}
	if (!walk.count)
		return 0;
	if (walk.cut || walk.frame)
		*flags |= EVENT_STACK_CUT;
	*identity = identity_mix(walk.identity, walk.fault) | 1;
	slot = *identity >> 32;
	asm volatile("" : "+r"(slot));
	slot &= STACK_CACHE_SIZE - 1;
	if (hit->thread->stacks_sent[slot] == *identity)
		return 0;
	hit->thread->stacks_sent[slot] = *identity;
	*flags |= EVENT_STACK;
	codes.count = walk.count;
	bpf_loop(EVENT_FRAMES_MAX, codes_send_one, &codes, 0);
	return walk.count;
}

static __always_inline void python_stack_forget(struct hit *hit, __u64 identity)
{
	__u64 slot = identity >> 32;

	asm volatile("" : "+r"(slot));
	slot &= STACK_CACHE_SIZE - 1;
	hit->thread->stacks_sent[slot] = 0;
}

/*
 * Send a record with what stands in its tail, frames of that stack among it. When
 * it is lost, the frames must be sent again.
 */
static __always_inline void event_send_with_frames(
	struct hit *hit, void *record, __u64 head_size, __u64 size, __u32 frame_count, __u64 identity)
{
	if (size <= head_size + RECORD_TAIL_SIZE && !event_send(hit, record, size) && frame_count)
		python_stack_forget(hit, identity);
}

#endif
