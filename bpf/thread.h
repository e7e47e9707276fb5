/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The maps, and what is kept for each traced thread: the operator frames that
 * are alive, the engine's frame, and scratch for the record being built. It
 * lies in task storage because a uprobe program can be preempted by another
 * one on the same CPU, but not by one of the same thread.
 */
#ifndef HDTRACE_BPF_THREAD_H
#define HDTRACE_BPF_THREAD_H

#include <hdtrace/event.h>
#include <hdtrace/program.h>
#include "arch.h"

#define FRAMES_DEPTH_MAX 16
#define STACK_CACHE_SIZE 1024 /* a step has some hundred stacks */
#define VERDICTS_SHIFT 58     /* the number of verdicts is 2^(64 - this) */

/* A function that was entered: alive while its word still stands at its place. */
struct call_frame {
	__u64 place; /* of the return address on the stack */
	__u64 word;  /* the return address */
};

/* Where the innermost Python frame of a thread stands. */
struct python_position {
	__u64 frame;
	__u64 instruction;
};

struct operator_frame {
	struct call_frame call;
	__u64 stack;  /* identity of the Python stack at entry */
	__u8 guarded; /* autograd was excluded at entry */
	__u8 sealed;  /* and the in-place level too */
	__u8 leaf;    /* of a HOOK_LEAF */
	__u8 fill;    /* of a HOOK_FILL */
	__u8 boxed;   /* of a HOOK_BOXED: alive only while Python stands where it stood */
	__u8 reserved[3];
	struct python_position position; /* of a boxed one */
};

/*
 * Frames of one thread lie behind each other, callers below. So much is read at
 * once from below the innermost one, and usually holds all of them.
 */
#define PYTHON_BLOCK_BYTES 2048

/*
 * A record under construction. Heads of every kind end where the tail begins,
 * so that the record is one run of bytes. The tail's two parts are powers of
 * two, by which the verifier sees that a masked offset stays inside.
 */
#define TENSORS_SIZE (EVENT_TENSORS_MAX * sizeof(struct tensor_argument))
#define RECORD_TAIL_SIZE (TENSORS_SIZE + EVENT_FRAMES_MAX * sizeof(struct python_frame))
#define RECORD_HEAD_SIZE sizeof(struct invoked_event) /* the largest head with a tail */

struct record_buffer {
	__u8 head[RECORD_HEAD_SIZE];
	__u8 tail[RECORD_TAIL_SIZE];
	__u8 spare[sizeof(struct python_frame)]; /* a masked offset may start at the last byte */
};

#define RECORD_HEAD(thread, type) ((struct type *)((thread)->record.tail - sizeof(struct type)))

_Static_assert((TENSORS_SIZE & (TENSORS_SIZE - 1)) == 0, "tensors are no power of two");
_Static_assert((RECORD_TAIL_SIZE & (RECORD_TAIL_SIZE - 1)) == 0, "the tail is no power of two");

/* A code object's record under construction. */
struct code_buffer {
	struct code_event head;
	__u8 object[CODE_OBJECT_BYTES];
	__u8 file[CODE_FILE_BYTES];
	__u8 name[CODE_NAME_BYTES];
	__u8 qualified_name[CODE_QUALIFIED_BYTES];
	__u8 table[CODE_TABLE_BYTES];
};

/* Code objects whose copy was sent, and what told that copy from another one at the same address. */
struct code_key {
	__u64 target;
	__u64 code;
};

/*
 * The arguments being read: a window of EVENT_TENSORS_MAX elements over all of
 * them, and the one at hand. In a map, not on the program's stack, so that the
 * verifier sees unknown numbers and does not follow each value on its own.
 */
struct arguments_state {
	__u64 address;      /* of the argument's elements */
	__u32 first, count; /* those of them that are in the window */
	__u32 stride;
	__u32 skip;  /* elements that are still before the window */
	__u32 total; /* elements of all arguments */
	__u32 fault;
};

/* The call of a driver whose result is not known before it has returned. */
struct pending_segment {
	__u64 result;      /* address where the result goes */
	__u64 before;      /* what stood there */
	__u64 runtime;     /* of a runtime, which calls its driver */
	__u64 pitch;       /* address where the length of a row goes, 0: nowhere */
	__u64 rows;        /* of that length */
	__u32 handle_kind; /* what the result is noted as */
	struct segment_handle_value handle;
	__u8 told; /* already: what it comes to is of interest if it is refused */
	__u8 reserved;
	struct segment_event record;
};

/* A call that finds a kernel by its name. */
struct pending_kernel {
	struct call_frame call; /* place 0: none */
	__u64 result;           /* address where the handle goes */
	__u64 name;             /* address of it */
};

/* A call that says something of a communicator, when it has returned. */
struct pending_communicator {
	struct call_frame call; /* place 0: none */
	__u64 result;           /* address where the result goes */
	__u64 communicator;
	struct communicator_place place;
	__u8 action; /* enum library_action */
	__u8 width;  /* enum library_width */
	__u8 reserved[6];
};

#define LIBRARY_STACK_WORDS 6
#define LIBRARY_WORDS (2 * PLACE_STACK) /* a power of two: registers, from PLACE_STACK on the stack */

/* What every hit needs comes first: each page and cache line that is touched costs. */
struct thread_state {
	__u8 known;        /* it was hit before */
	__u8 plain;        /* it follows the plain set of hooks */
	__u8 resizing;     /* a storage gets memory of another size */
	__u8 device_known; /* `device` is what the thread selected */
	__u8 device;
	__u32 frame_count;             /* operator frames that were alive at the last hit */
	__u32 running;                 /* index + 1 of the frame that certainly runs, 0: none */
	__u64 tick, time_ns;           /* when the clock was read last: event_time */
	struct call_frame driver_call; /* `pending`, place 0: none */
	__u64 keys_address;            /* of the thread's dispatch key sets, 0: not looked up */
	__u64 filled;                  /* address of the last allocation inside an operator: factory_check */
	struct operator_frame frames[FRAMES_DEPTH_MAX];
	struct python_position position; /* when the outermost of them was entered */
	struct call_frame engine;        /* evaluate_function, place 0: none */
	struct autograd_node evaluated;  /* by it */
	__u64 node_counter_address;      /* 0: not looked up */
	__u32 number;                    /* PyTorch's own of this thread, 0: none yet */
	__u32 reserved_;
	struct call_frame collective; /* the last one that the thread began, of `group` */
	struct call_frame bucket;     /* Reducer::all_reduce_bucket */
	struct call_frame wait_tensor;
	__u64 group;
	__u64 python_holder; /* address of the word that held the innermost frame at the last look */
	__u64 verdicts[1 << (64 - VERDICTS_SHIFT)]; /* allocator.bpf.c */
	__u64 stacks_sent[STACK_CACHE_SIZE];

	__u64 devices_below; /* that were pushed, a byte each, plus 1; 0: unknown */
	struct pending_segment pending;
	struct pending_communicator communicator;
	struct library_collective_event prepared; /* what `communicator` is to be a request of: LIBRARY_PREPARE */
	struct call_frame launch;                 /* of a runtime, place 0: none */
	struct pending_kernel kernel;
	/* Arguments of a library's call by place + 1, which is so much as an index less 1; 0 where there is none. */
	__u64 library_words[LIBRARY_WORDS];
	__u32 library_groups; /* group calls of the thread so far */
	__u32 library_depth;  /* of those that are open */
	__u64 python_block[PYTHON_BLOCK_BYTES / sizeof(__u64)];
	struct arguments_state arguments;
	__u32 tensor_count; /* in the record's tail */
	__u32 reserved;
	struct record_buffer record;
	struct code_buffer code;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct code_key);
	__type(value, __u64);
} codes_sent __weak SEC(".maps");

/* Communicators of libraries, by what was seen of them. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct communicator_key);
	__type(value, struct communicator_place);
} communicators __weak SEC(".maps");

/* What a persistent request begins, by its handle. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct communicator_key);
	__type(value, struct library_collective_event);
} requests __weak SEC(".maps");

/* Handles of drivers that stand for a device. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct segment_handle_key);
	__type(value, struct segment_handle_value);
} segment_handles __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} events __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROGRAM_HOOKS_MAX);
	__type(key, __u32);
	__type(value, struct hook_description);
} hooks __weak SEC(".maps");

/* Statistics: threads may overwrite each other's counts. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROGRAM_HOOKS_MAX);
	__type(key, __u32);
	__type(value, struct hook_counters);
} hook_hits __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROGRAM_TARGETS_MAX);
	__type(key, __u32);
	__type(value, struct target_settings);
} targets __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROGRAM_TARGETS_MAX);
	__type(key, __u32);
	__type(value, struct event_counters);
} counters __weak SEC(".maps");

/* Everything that a program needs to know about the hit that it handles. */
struct hit {
	struct thread_state *thread;
	struct target_settings *settings;
	__u32 target;
	__u64 stack_pointer; /* at the function's entry, or at the call */
};

/* The one place where losses are counted. */
static __always_inline void loss_count(__u32 target, __u32 reason)
{
	struct event_counters *counter = bpf_map_lookup_elem(&counters, &target);

	if (counter && reason < LOSS_REASONS)
		counter->lost[reason]++;
}

/* Processes that were found to descend from the one of a family: its end leaves them orphans. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} family_members __weak SEC(".maps");

#define ANCESTORS_MAX 16

/* Is the thread's process that one, or does it descend from it? */
static __always_inline bool is_of_family(__u32 family)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	__u32 process = (__u32)task->tgid;
	__u32 *member = bpf_map_lookup_elem(&family_members, &process);

	if (member && *member == family)
		return true;
	for (int generation = 0; generation < ANCESTORS_MAX && task; generation++) {
		if ((__u32)task->tgid == family) {
			bpf_map_update_elem(&family_members, &process, &family, BPF_ANY);
			return true;
		}
		task = task->real_parent;
	}
	return false;
}

/* For whom it is, and the state of the thread; emit.h has what most programs begin with. */
static __always_inline bool hit_find(struct hit *hit, struct pt_regs *context, __u64 cookie)
{
	hit->target = COOKIE_TARGET(cookie);
	hit->settings = bpf_map_lookup_elem(&targets, &hit->target);
	if (!hit->settings || !hit->settings->ready)
		return false;
	if (hit->settings->family && !is_of_family(hit->settings->family))
		return false;
	hit->thread =
		bpf_task_storage_get(&threads, (void *)bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!hit->thread) {
		loss_count(hit->target, LOSS_THREAD_STATE);
		return false;
	}
	hit->stack_pointer = ARCH_STACK_POINTER(context);
	return true;
}

static __always_inline void frames_forget(struct thread_state *thread)
{
	thread->frame_count = 0;
	thread->running = 0;
}

#define READ_USER(destination, address)                                                                                \
	bpf_probe_read_user(&(destination), sizeof(destination), (const void *)(address))

static __always_inline __u64 argument_word(struct pt_regs *context, const struct hit *hit, __u32 place)
{
	__u64 value = 0;

	if (place < ARGUMENT_REGISTERS)
		return arch_register(context, place);
	/* Stack arguments start above the return address. */
	READ_USER(value, hit->stack_pointer + ARCH_WORD + sizeof(__u64) * (place - PLACE_STACK));
	return value;
}

static __always_inline bool call_is_alive(const struct call_frame *call, __u64 stack_pointer)
{
	__u64 word = 0;

	return call->place > stack_pointer && !READ_USER(word, call->place) && word == call->word;
}

static __always_inline __u64 identity_mix(__u64 identity, __u64 value)
{
	identity = (identity ^ value) * 0x9e3779b97f4a7c15ULL; /* 2^64 / golden ratio: Fibonacci hashing */
	return identity ^ (identity >> 29);
}

#endif
