/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is alive after some records of a capture, and which of them explain it.
 * Records are known by their number in the capture, from 1; 0 is none. Private to
 * this room.
 */
#ifndef HDTRACE_WINDOW_ALIVE_H
#define HDTRACE_WINDOW_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <hdtrace/capture.h>

#include "containers/containers.h"

/* As in the cache of the BPF programs (bpf/thread.h), which sends a stack without its frames while it is in there. */
#define STACK_SLOTS 1024

/* Frames of a stack, and the code objects and modules that they meant then. */
struct definition {
	uint32_t references;
	uint64_t identity, record;
	uint64_t *meanings; /* stb_ds: records */
	bool listed;
};

/* An operator, while its frame or something that it made is alive. */
struct operation {
	uint32_t references;
	struct operation *around;
	struct definition *stack;
	uint64_t record, threw;
	uint64_t inside[2 * OPERATOR_HOOKS]; /* by hook and whether autograd was excluded: the first operator right
	                                        inside it */
	uint16_t operator_;
	uint8_t hook; /* enum operator_hook */
	bool nested;  /* part of a running operator: its arguments do not count */
	bool listed;
};

/* Compared as bytes: no padding. */
struct storage_key {
	uint64_t address;
	uint32_t reserved;
	uint16_t target;
	uint8_t device_type, device_index;
};

struct storage {
	uint64_t birth; /* the record that made it, or used it first; 0: dead */
	uint64_t birth_time_ns;
	uint64_t bytes; /* that its allocator counts for it; 0: older than the capture */
	uint64_t owner; /* the last record of its closest owner */
	struct operation *maker, *lift;
	struct definition *stack;
	uint64_t resize, request;
	uint64_t variable, gradient; /* the last gradient for it, and with it */
	struct operation *stored[2]; /* the operators that came next */
	uint8_t holder;              /* enum owner_kind of that owner */
	bool used;
};

/* The storage of a profiler range that is open: its memory is gone, but it counts until the range ends. */
struct open_range {
	struct storage storage;
	uint64_t free;
};

struct segment {
	uint64_t record, bytes;
	bool corrected; /* the allocator told its address, not the call */
};

struct number_key {
	uint64_t number;
	uint32_t target, reserved;
};

struct device_key {
	uint16_t target;
	uint8_t type, index;
};

struct device {
	uint64_t allocated, reserved; /* last told */
	uint64_t alive_bytes;         /* of blocks that the capture has */
};

struct strand {
	struct operation **frames; /* stb_ds; NULL where the record was lost */
	struct operation *last;
	struct open_range *ranges; /* stb_ds: innermost last */
	struct definition *slots[STACK_SLOTS];
	uint64_t resize;
	struct storage_key last_block;
	uint64_t gradient; /* the last one, until the next operator; of these two: */
	struct storage_key gradient_of[2];
	uint64_t segment, segment_bytes; /* call that the allocator may still confirm, 0: none */
	uint64_t segment_address;        /* where it was believed, 0: nowhere */
	uint64_t segment_caller;
	bool segment_unchanged;
	bool segment_unreadable;
};

struct target {
	uint64_t first, last, loss, owners; /* records; the last: from which on owners are told */
	bool from_start, ended, active;
};

/* What is kept of a record. */
enum kept_as {
	KEPT_STACK, /* its stack */
	KEPT_BARE,  /* an operator without its arguments */
	KEPT_WHOLE,
};

struct kept {
	uint64_t record;
	uint64_t address; /* of a segment that is not where the record says, 0: it is */
	enum kept_as as;
};

struct alive {
	struct {
		struct storage_key key;
		struct storage value;
	} * storages;
	struct {
		struct number_key key; /* address */
		struct segment value;
	} * segments;
	struct {
		struct number_key key; /* thread id */
		struct strand *value;
	} * strands;
	struct {
		struct number_key key; /* address of a code object */
		uint64_t value;
	} * codes;
	struct {
		struct number_key key; /* address of a module */
		uint64_t value;
	} * modules;
	struct {
		struct number_key key; /* address of native code */
		uint64_t value;
	} * symbols;
	struct {
		struct number_key key; /* index of an operator */
		uint64_t value;
	} * names;
	struct {
		struct number_key key; /* index of an operator */
		uint32_t value;        /* enum operator_flag */
	} * flags;
	struct {
		struct device_key key;
		struct device value;
	} * devices;
	struct {
		uint16_t key;
		struct target value;
	} * targets;
	uint64_t session;
	uint64_t *always; /* stb_ds: records that stay whatever happens */
	uint64_t last_time_ns;
	uint64_t records, bytes;      /* taken */
	struct window_record dropped; /* by those that were there before */
};

/* 0, -ENOMEM. */
int alive_take(struct alive *alive, const struct event *record);
/* The records to keep in order, an stb_ds array. */
struct kept *alive_list(struct alive *alive);
/* Was a storage that is alive at the end there at that record? */
bool alive_has(struct alive *alive, uint16_t target, const struct tensor_argument *argument, uint64_t record);
void alive_clear(struct alive *alive);

static inline struct storage_key storage_key(uint16_t target, uint8_t type, uint8_t index, uint64_t address)
{
	return (struct storage_key){.address = address, .target = target, .device_type = type, .device_index = index};
}

static inline struct number_key number_key(uint16_t target, uint64_t number)
{
	return (struct number_key){.number = number, .target = target};
}

/* alive_segments.c */
void segments_take(struct alive *alive, struct strand *strand, const struct segment_event *event);
/* The allocator gave out a block on the thread and holds `more` bytes than before. */
void segments_confirm(struct alive *alive, struct strand *strand, uint16_t target, uint64_t address, uint64_t more);

#endif
