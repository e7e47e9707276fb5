/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * How much memory a call of a driver asks for, where that is more than one
 * number: rows of a length that the driver chooses, and arrays of elements. Of an
 * array it is what its elements need; how a device pads them no call tells.
 */
#ifndef HDTRACE_BPF_EXTENT_H
#define HDTRACE_BPF_EXTENT_H

#include "thread.h"

#define BITS 8
#define ARRAY_LEVELS_MAX 16 /* a side of 32768 elements, which is the longest */

/* CUarray_format of the CUDA driver API: elements of one number for each channel. */
enum array_format {
	FORMAT_UINT8 = 0x01,
	FORMAT_UINT16 = 0x02,
	FORMAT_UINT32 = 0x03,
	FORMAT_SINT8 = 0x08,
	FORMAT_SINT16 = 0x09,
	FORMAT_SINT32 = 0x0a,
	FORMAT_HALF = 0x10,
	FORMAT_FLOAT = 0x20,
};

/* cudaChannelFormatDesc: bits of each channel. */
struct array_channels {
	__u32 bits[4];
};

/* CUDA_ARRAY3D_DESCRIPTOR; CUDA_ARRAY_DESCRIPTOR is the same without the depth. */
struct array_description {
	__u64 width, height, depth;
	__u32 format, channels;
};

struct array_extent {
	__u64 width, height, depth, element;
};

static __always_inline __u64 call_argument(struct pt_regs *context, const struct hit *hit, __u8 place)
{
	return place ? argument_word(context, hit, place - 1) : 0;
}

static __always_inline __u64 at_least_one(__u64 count)
{
	return count ? count : 1;
}

static __always_inline __u64 call_rows(struct pt_regs *context, const struct hit *hit, const struct segment_call *call)
{
	return at_least_one(call_argument(context, hit, call->rows)) *
	       at_least_one(call_argument(context, hit, call->layers));
}

/* Bytes of one number, 0: compressed or of several planes, whose size is not known. */
static __always_inline __u64 format_bytes(__u32 format)
{
	switch (format) {
	case FORMAT_UINT8:
	case FORMAT_SINT8:
		return 1;
	case FORMAT_UINT16:
	case FORMAT_SINT16:
	case FORMAT_HALF:
		return 2;
	case FORMAT_UINT32:
	case FORMAT_SINT32:
	case FORMAT_FLOAT:
		return 4;
	}
	return 0;
}

static __always_inline void extent_describe(struct array_extent *extent, __u64 address, bool is_3d)
{
	struct array_description description = {0};
	__u64 size = sizeof(description) - (is_3d ? 0 : sizeof(description.depth));

	if (bpf_probe_read_user(&description, size, (const void *)address))
		return;
	if (!is_3d) { /* what lies where the depth would are format and channels */
		description.format = (__u32)description.depth;
		description.channels = (__u32)(description.depth >> 32);
		description.depth = 0;
	}
	extent->width = description.width;
	extent->height = description.height;
	extent->depth = description.depth;
	extent->element = format_bytes(description.format) * description.channels;
}

static __always_inline __u64 extent_bytes(const struct array_extent *extent, __u32 levels)
{
	__u64 bytes = 0;

	for (__u32 level = 0; level < ARRAY_LEVELS_MAX; level++)
		if (level < levels)
			bytes += at_least_one(extent->width >> level) * at_least_one(extent->height >> level) *
			         at_least_one(extent->depth >> level) * extent->element;
	return bytes;
}

static __always_inline __u64 array_bytes(
	struct pt_regs *context, const struct hit *hit, const struct segment_call *call)
{
	struct array_extent extent = {
		.width = call_argument(context, hit, call->bytes),
		.height = call_argument(context, hit, call->rows),
		.depth = call_argument(context, hit, call->layers),
	};
	struct array_channels channels = {{0}};

	if (call->description)
		extent_describe(&extent, call_argument(context, hit, call->description), call->is_description_3d);
	else if (!READ_USER(channels, call_argument(context, hit, call->channels)))
		extent.element = (channels.bits[0] + channels.bits[1] + channels.bits[2] + channels.bits[3]) / BITS;
	return extent_bytes(&extent, call->levels ? (__u32)call_argument(context, hit, call->levels) : 1);
}

/* Of memory with a pitch: as if rows were no longer than asked for, until the call tells. */
static __always_inline __u64 call_bytes(struct pt_regs *context, const struct hit *hit, const struct segment_call *call)
{
	__u64 bytes = 0;

	if (call->channels || call->description)
		return array_bytes(context, hit, call);
	if (!call->bytes_offset)
		return call_argument(context, hit, call->bytes) * call_rows(context, hit, call);
	READ_USER(bytes, call_argument(context, hit, call->bytes) + call->bytes_offset);
	return bytes;
}

#endif
