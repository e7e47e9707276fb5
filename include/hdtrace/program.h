/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * What the loader tells the BPF programs: which hook stands where (by the
 * cookie of each probe), where a hook's tensor arguments are, and the layouts
 * of each target's PyTorch and CPython. Layouts are data: the programs contain
 * no offset of their own.
 */
#ifndef HDTRACE_PROGRAM_H
#define HDTRACE_PROGRAM_H

#include <linux/types.h>

#define PROGRAM_TARGETS_MAX 256
#define PROGRAM_HOOKS_MAX 32768
#define HOOK_ARGUMENTS_MAX 24 /* real operators have up to 21 */

/*
 * A cookie names the target and, for hooks that have one, their description;
 * else how many bytes the stack pointer at the probe is below that at the
 * function's entry. Behind a call: bytes from where it returns to.
 */
#define COOKIE(target, hook) ((__u64)(target) << 32 | (__u32)(hook))
#define COOKIE_TARGET(cookie) ((__u32)((cookie) >> 32))
#define COOKIE_HOOK(cookie) ((__u32)(cookie))

/* How a tensor argument is passed (System V x86_64 ABI). */
enum argument_kind {
	ARGUMENT_TENSOR = 1,               /* pointer to at::Tensor */
	ARGUMENT_TENSOR_LIST = 2,          /* ArrayRef<Tensor>: pointer, and count in the next place */
	ARGUMENT_OPTIONAL_TENSOR = 3,      /* pointer to optional<Tensor> */
	ARGUMENT_ITENSOR_LIST = 4,         /* pointer to IListRef<Tensor> */
	ARGUMENT_OPTIONAL_TENSOR_LIST = 5, /* pointer to c10::List<optional<Tensor>> */
	ARGUMENT_BOXED = 6,                /* c10::IValue of HOOK_BOXED: a tensor, a list of them, or none */
};

/*
 * place: integer register 0..5 (rdi rsi rdx rcx r8 r9), or PLACE_STACK + word of the stack arguments; of
 * ARGUMENT_BOXED how many values before the end of the stack it is, from 1.
 */
#define PLACE_STACK 16

struct hook_argument {
	__u8 kind; /* enum argument_kind */
	__u8 place;
};

enum hook_flag {
	/* The probe stands on the call instruction, not inside the function. */
	HOOK_CALL_SITE = 1 << 0,
	/* An autograd or in-place kernel: cannot be reached below an operator that excludes both (sealed). */
	HOOK_AUTOGRAD_LEVEL = 1 << 1,
	/* The operator calls no other: whatever comes after it is not inside it. */
	HOOK_LEAF = 1 << 2,
	/* The factory level (BackendSelect) may still follow: the site is the last one all the same. */
	HOOK_BEFORE_SELECT = 1 << 3,
	/* Left out at LEVEL_LITE (for the loader, not for the programs). */
	HOOK_FULL_ONLY = 1 << 4,
	/* Belongs to the plain set, else to the sparse one; a thread follows one of them. */
	HOOK_PLAIN = 1 << 5,
	/* A factory that only fills what it allocates: any other operator is not inside it. */
	HOOK_FILL = 1 << 6,
	/* An operator that such a factory fills with: its first argument is the tensor. */
	HOOK_FILLER = 1 << 7,
};

#define HOOK_NO_KEYS 255

/* Registers of x86_64, by DWARF's numbers. */
enum usdt_register {
	USDT_RAX,
	USDT_RDX,
	USDT_RCX,
	USDT_RBX,
	USDT_RSI,
	USDT_RDI,
	USDT_RBP,
	USDT_RSP,
	USDT_R8,
	USDT_R9,
	USDT_R10,
	USDT_R11,
	USDT_R12,
	USDT_R13,
	USDT_R14,
	USDT_R15,
	USDT_REGISTERS,
};

/* Where a USDT point has one of its values, all of 8 bytes: a register, or memory near where one points. */
struct usdt_operand {
	__u8 register_; /* enum usdt_register */
	__u8 memory;    /* 1: the value is at register + offset */
	__u8 reserved[2];
	__s32 offset;
};

/* Values of the point pytorch:malloc. */
enum usdt_malloc { USDT_MALLOC_POINTER, USDT_MALLOC_BYTES, USDT_MALLOC_STREAM, USDT_MALLOC_VALUES };

/* What a thread does with the device that its calls are for. */
enum segment_selection { SELECT_NONE, SELECT_DEVICE, SELECT_PUSH, SELECT_POP };

/* Handles that stand for a device in other calls. */
enum segment_handle { HANDLE_NONE, HANDLE_CONTEXT, HANDLE_POOL, HANDLE_PHYSICAL };

struct segment_handle_key {
	__u64 handle;
	__u32 process;
	__u32 kind; /* enum segment_handle */
};

struct segment_handle_value {
	__u8 device;
	__u8 memory; /* enum segment_memory */
};

/*
 * What a function of a driver or its runtime does, and in which argument it has
 * what: a place as in hook_argument, plus 1; 0: it has none. One with a kind of
 * handle and a result makes such a handle; one with `handle` too is about it.
 */
struct segment_call {
	__u8 action; /* enum segment_action; 0: it gives or takes no memory */
	__u8 memory; /* enum segment_memory */
	__u8 device_type;
	__u8 result;  /* pointer to where the address or handle goes */
	__u8 address; /* or handle, when it is an argument */
	__u8 bytes;   /* of an array: its elements in a row */
	__u8 handle;
	__u8 stream;
	__u8 device;      /* number of one */
	__u8 location;    /* pointer to properties that have a CUmemLocation behind two numbers */
	__u8 runtime;     /* it may call the driver, whose calls are then part of it */
	__u8 pooled;      /* memory from a pool of the driver, in the order of a stream */
	__u8 selection;   /* enum segment_selection */
	__u8 handle_kind; /* enum segment_handle */
	/* Sizes that are more than one number. */
	__u8 bytes_offset;      /* `bytes` is a pointer, and the number lies so far behind it */
	__u8 rows, layers;      /* how many; 0 counts as 1 */
	__u8 pitch;             /* pointer to the length of a row, which the call tells */
	__u8 pitch_offset;      /* it lies so far behind it */
	__u8 channels;          /* of an array: pointer to a cudaChannelFormatDesc */
	__u8 description;       /* of an array: pointer to a CUDA_ARRAY_DESCRIPTOR */
	__u8 is_description_3d; /* to a CUDA_ARRAY3D_DESCRIPTOR */
	__u8 levels;            /* of a mipmapped array */
};

/* How a collective has its tensors: a pointer to each of these. */
enum collective_form {
	COLLECTIVE_TENSOR, /* at::Tensor */
	COLLECTIVE_LIST,   /* std::vector<at::Tensor> */
	COLLECTIVE_LISTS,  /* std::vector<std::vector<at::Tensor>> */
};

/* What a method of a process group does, and in which argument it has what: as in segment_call. */
struct collective_call {
	__u8 kind; /* enum collective_kind */
	__u8 inputs, input_form;
	__u8 outputs, output_form;
	__u8 options;                     /* pointer to them */
	__u8 reduces;                     /* they have a reduce operation */
	__u8 rooted;                      /* they have a root */
	__u8 peer;                        /* the other rank, itself an argument */
	__u8 input_splits, output_splits; /* std::vector<int64_t> of rows for each rank, and from each */
	__u8 returns_nothing;             /* no hidden result: the object is the first argument */
};

enum library_action {
	LIBRARY_COLLECTIVE,  /* a rank's part in a collective */
	LIBRARY_GROUP_BEGIN, /* what follows on the thread is one, until the end */
	LIBRARY_GROUP_END,
	/* What is learnt of communicators: where a result goes is looked at when the call has returned. */
	LIBRARY_MAKE,      /* the result is one of that size and rank; without these: one of which nothing is known */
	LIBRARY_MAKE_ALL,  /* the results are `size` communicators, of ranks from 0 on */
	LIBRARY_COPY,      /* the result is like `communicator` */
	LIBRARY_SIZE,      /* the result is its size */
	LIBRARY_RANK,      /* the result is the rank in it */
	LIBRARY_FORGET,    /* it ends */
	LIBRARY_FORGET_AT, /* the one that `result` points to ends */
	/* Persistent requests of MPI: `result` points to them. */
	LIBRARY_PREPARE, /* the result is one for a rank's part in a collective, to be begun again and again */
	LIBRARY_START,   /* it is begun, or as many of them as the input count says */
	LIBRARY_RELEASE, /* it ends */
};

enum library_width {
	LIBRARY_WIDE = 1 << 0,        /* counts have 8 bytes, else 4 with a sign */
	LIBRARY_INT_TYPES = 1 << 1,   /* types and operations are numbers of 4 bytes, else handles of 8 */
	LIBRARY_INT_HANDLES = 1 << 2, /* communicators too */
};

/*
 * What a function of a library of collectives does, and in which argument it has
 * what: as in segment_call. A call from the library's own code is part of another.
 */
struct library_call {
	__u8 action;   /* enum library_action */
	__u8 layer;    /* enum collective_layer */
	__u8 kind;     /* enum collective_kind */
	__u8 counting; /* enum library_counting */
	__u8 width;    /* enum library_width */
	__u8 input, output;
	__u8 input_count, output_count;
	__u8 input_counts, output_counts; /* pointer to one for each rank */
	__u8 input_type, output_type;
	__u8 operation;
	__u8 peer, source;
	__u8 communicator;
	__u8 stream;
	__u8 result;
	__u8 size, rank;
	__u8 reserved[3];
	__u32 code_before, code_after; /* bytes of the library's code before the probe and from it on */
};

struct communicator_key {
	__u64 target;
	__u64 handle;
};

struct communicator_place {
	__s32 rank, size; /* -1: unknown */
};

/* What a function does with kernels, and in which argument it has what: as in segment_call. */
struct kernel_call {
	__u8 function; /* of one that launches: the kernel's stub or handle */
	__u8 runtime;  /* it may call the driver, whose launch is then the same */
	__u8 result;   /* of one that finds a kernel: pointer to where its handle goes */
	__u8 name;     /* by this */
};

struct hook_description {
	__u16 operator_;    /* index of the operator's name */
	__u8 hook;          /* enum operator_hook */
	__u8 flags;         /* enum hook_flag */
	__u8 keys_register; /* integer register with the DispatchKeySet, or HOOK_NO_KEYS */
	__u8 argument_count;
	__s16 stack_adjust; /* bytes from sp at the probe to sp at the function's entry */
	union {
		struct hook_argument arguments[HOOK_ARGUMENTS_MAX];
		struct usdt_operand malloc_values[USDT_MALLOC_VALUES]; /* of a USDT point */
		struct segment_call segment;
		struct collective_call collective;
		struct library_call library;
		struct kernel_call kernel;
	};
};

/* What a hook was good for, by its index. */
struct hook_counters {
	__u64 hits;
	__u64 records; /* hits that became one */
};

enum tracing_level {
	LEVEL_FULL = 0, /* tensor arguments and Python stacks of every operator */
	LEVEL_LITE = 1, /* operators and blocks only: the programs read as little of the target as they can */
};

/* Layouts of one target. An address of 0 means: not there, leave the feature out. */
struct target_settings {
	__u64 keys_got;      /* pair {TLS module, offset} of c10::impl::raw_local_dispatch_key_set */
	__u64 keys_backend;  /* a key set within these bits goes to a backend kernel */
	__u64 keys_autograd; /* the autograd functionality bits */
	__u64 keys_inplace;  /* the ADInplaceOrView bit */
	__u64 keys_fallback; /* Conjugate, Negative, ZeroTensor: resolved, then the operator goes on to its backend */
	__u64 keys_excluded_default; /* TLS stores the excluded set XOR this */
	__u64 keys_included_default; /* and the included set XOR this */

	/* Code of PyTorch's factories of tensors (libtorch_cpu), and of its kernels of devices; 0: none. */
	__u64 tensor_code_start, tensor_code_end;
	__u64 device_code_start, device_code_end;

	/* The thread's next autograd node and PyTorch's number of the thread: {TLS module, offset}, and offsets to add.
	 */
	__u64 node_counter_got, thread_number_got;
	__u64 late_node_class; /* table of functions of torch::autograd::CopySlices */
	__u32 node_counter_offset, thread_number_offset;

	/* Process whose descendants alone are meant, where probes are for all processes; 0: they are not. */
	__u32 family;
	__u32 python_thread_slot;    /* of PyThreadState*, from the thread pointer; 0: no Python */
	__u16 python_frame_steps[2]; /* thread state -> frame */
	__u8 python_frame_step_count;
	__u8 frame_owner_skip; /* frames whose owner is this or higher are C's; 0: there are none */
	__u8 frame_tag_mask;   /* bits of code and self that are no address */
	__u8 frame_index_unit; /* 0: the instruction is an address; else an int that counts so many bytes */
	__u16 frame_base,
		frame_span; /* the part of a frame that is read at once; what follows counts from frame_base */
	__u16 frame_code, frame_previous, frame_instruction;
	__u16 frame_owner; /* of the aligned word with the owner */
	__u16 frame_owner_shift;
	__u16 frame_self; /* may lie past frame_span, and is then read by itself */
	__u16 code_file, code_name, code_qualified_name, code_table;
	__u16 code_first_line; /* of the aligned word with the first line */
	__u16 bytes_length, bytes_data;

	__u16 tensor_storage;
	__u16 tensor_elements; /* TensorImpl::numel_, with the type of the elements behind it; 0: unknown */
	__u16 storage_data;    /* StorageImpl -> pointer to its first byte */
	__u16 storage_bytes;   /* from storage_data on */
	__u16 optional_value, optional_flag;
	__u16 accumulate_variable; /* of the Variable in AccumulateGrad; 0: unknown */
	__u16 node_sequence;       /* of autograd's Node: its number; 0: unknown */
	__u16 node_thread;         /* and the thread that made it */
	__u16 operator_definition; /* torch::jit::Operator -> c10::OperatorDef */
	__u16 definition_name;     /* its name, a std::string */
	__u16 level;               /* enum tracing_level */
	__u8 plain;                /* threads should follow the plain set of hooks */
	__u8 ready;                /* all probes are in place; until then hits are passed over */
	__u8 attached;             /* operators may have been running by then, which were not seen */
};

/* The parts of a frame and of a storage that are read at once have at most so many bytes. */
#define FRAME_SPAN_MAX 96
#define STORAGE_SPAN_MAX 64
/* Of a node so many are read, in which its number and thread lie. */
#define NODE_SPAN 64

_Static_assert(sizeof(struct hook_description) == 56, "struct hook_description is not 56 bytes");
_Static_assert(sizeof(struct target_settings) == 200, "struct target_settings is not 200 bytes");

#endif
