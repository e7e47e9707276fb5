/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The records that the BPF programs send to user space, and that a capture
 * keeps unchanged. Shared by both sides: only fixed-width types, every record
 * a multiple of 8 bytes, little-endian, layouts asserted below.
 *
 * All addresses are virtual addresses of the target, all times nanoseconds of
 * CLOCK_MONOTONIC, all sizes bytes. The order of the records of one target in
 * its ring is the order in which things happened in it.
 */
#ifndef HDTRACE_EVENT_H
#define HDTRACE_EVENT_H

#include <linux/types.h>

/* Upper bounds of one record; longer lists go on in EVENT_TENSORS records. */
#define EVENT_TENSORS_MAX 32
#define EVENT_FRAMES_MAX 64

enum event_kind {
	EVENT_NONE = 0,
	EVENT_OPERATOR = 1, /* struct operator_event */
	EVENT_TENSORS = 2,  /* struct tensors_event: further arguments of the thread's last operator */
	EVENT_ALLOCATE = 3, /* struct allocate_event */
	EVENT_FREE = 4,     /* struct free_event */
	EVENT_RESIZE = 5,   /* struct resize_event: a storage is about to change its size */
	EVENT_GRADIENT = 6, /* struct gradient_event: autograd is about to store a gradient */
	EVENT_FINALIZE = 7, /* struct event: the interpreter starts to shut down */
	EVENT_EXEC = 8,     /* struct event: the process image was replaced */
	EVENT_EXIT = 9,     /* struct event: the process ended */
	EVENT_THROW = 10,   /* struct event: a C++ exception is thrown inside an operator */
	/* Never in a capture: user space makes other records of them. */
	EVENT_INVOKED = 11,   /* struct invoked_event: becomes an operator_event */
	EVENT_CODE = 12,      /* struct code_event: becomes a code_record of capture.h */
	EVENT_INFERENCE = 13, /* struct event: inference mode begins, operators skip the levels of autograd */
	/* Memory of devices: kinds 32 to 47. Work of several ranks: kinds 48 to 63. */
	EVENT_DEVICE_ALLOCATE = 32,    /* struct device_allocate_event */
	EVENT_DEVICE_FREE = 33,        /* struct device_free_event */
	EVENT_DEVICE_REQUEST = 34,     /* struct device_request_event: what an allocation was made for */
	EVENT_SEGMENT = 35,            /* struct segment_event: a call of a driver or its runtime for memory */
	EVENT_OUT_OF_MEMORY = 36,      /* struct out_of_memory_event */
	EVENT_LAUNCH = 37,             /* struct launch_event: a kernel, or a graph of them, goes to a device */
	EVENT_KERNEL_NAME = 38,        /* struct kernel_event: becomes a symbol_record of capture.h */
	EVENT_COLLECTIVE = 48,         /* struct collective_event */
	EVENT_LIBRARY_COLLECTIVE = 49, /* struct library_collective_event: below c10d, or without it */
	EVENT_WORK = 50,               /* struct work_event: what became of a collective of c10d */
	EVENT_KERNEL_KINDS,            /* kinds from here on are made in user space: capture.h */
};

/* Where an operator was seen: operator_event.hook. */
enum operator_hook {
	/* at::_ops::X::call: X may run itself; what comes inside this frame decides (user/model/operator.c). */
	HOOK_CALL = 0,
	/* at::_ops::X::redispatch or a call site of it with backend keys only: X runs. */
	HOOK_REDISPATCH = 1,
	/* The backend's kernel of X, called with its arguments on a stack of c10::IValue: X runs, whoever is around. */
	HOOK_BOXED = 2,
	OPERATOR_HOOKS,
};

enum event_flag {
	EVENT_BACKWARD = 1 << 0,    /* a frame of the autograd engine's evaluate_function is alive */
	EVENT_UNGUARDED = 1 << 1,   /* the thread's dispatch keys do not exclude autograd */
	EVENT_STACK = 1 << 2,       /* the frames of `stack` follow in this record */
	EVENT_STACK_CUT = 1 << 3,   /* the stack had more than EVENT_FRAMES_MAX frames */
	EVENT_TENSORS_CUT = 1 << 4, /* arguments are missing: a read failed or there were too many */
	EVENT_STACK_LOST = 1 << 5,  /* frames are missing: a read failed */
	EVENT_LITE = 1 << 6,        /* of an allocation at LEVEL_LITE: its Python stack was not looked at */
};

/*
 * Every record starts with this. `depth` counts the operator frames that are
 * alive on the thread, without the one that the record is about: an operator
 * with depth 0 is outermost; an allocation with depth 0 is outside operators.
 */
struct event {
	__u64 time_ns;
	__u32 size;      /* of the whole record */
	__u32 thread_id; /* in the initial pid namespace */
	__u16 kind;      /* enum event_kind, or a kind of capture.h */
	__u16 target;    /* index of the target in this capture */
	__u16 operator_; /* index into the target's operator names */
	__u8 depth;
	__u8 flags; /* enum event_flag */
};

/* c10::DeviceType. Any other value is a device too, whose name is not known. */
enum device_type {
	DEVICE_CPU = 0,
	DEVICE_CUDA = 1,
	DEVICE_HIP = 6,
	DEVICE_XPU = 12,
	DEVICE_PRIVATE = 20, /* PrivateUse1 */
	DEVICE_PINNED = 255, /* none of PyTorch's: host memory that the allocator of an accelerator made */
};

#define TENSOR_BYTES_BITS 48

/* A storage that an argument refers to. `data` is never 0. */
struct tensor_argument {
	__u64 data;                      /* first byte of the storage */
	__u64 bytes : TENSOR_BYTES_BITS; /* of the storage */
	__u64 device_type : 8;           /* enum device_type */
	__u64 device_index : 8;          /* 0 on the CPU */
};

struct python_frame {
	__u64 code;        /* PyCodeObject */
	__u64 instruction; /* counts from code_record.first_instruction of the code object */
	__u64 self;        /* localsplus[0], a PyObject or 0 */
};

#define NODE_SEQUENCE_BITS 40
#define NODE_THREAD_BITS 22

/* A node of autograd's graph. Each thread numbers those that it makes, from 0. */
struct autograd_node {
	__u64 sequence : NODE_SEQUENCE_BITS;
	__u64 thread : NODE_THREAD_BITS; /* PyTorch's own number of the thread that made it */
	__u64 late : 1;  /* made after the operator that it is of, else before that goes to its backend */
	__u64 known : 1; /* else all is 0 */
};

/* Followed by tensor_argument[tensor_count], then python_frame[frame_count], innermost first. */
struct operator_event {
	struct event event;
	__u64 stack;                    /* identity of the Python stack, 0: no Python frame */
	struct autograd_node next;      /* that the thread is going to make */
	struct autograd_node evaluated; /* by the engine, in which the operator runs */
	__u16 tensor_count;
	__u16 frame_count; /* 0 unless EVENT_STACK */
	__u8 hook;         /* enum operator_hook */
	__u8 reserved[3];
};

/* Followed by tensor_argument[tensor_count]. */
struct tensors_event {
	struct event event;
	__u16 tensor_count;
	__u16 reserved[3];
};

/* Followed by python_frame[frame_count]; a stack is taken only outside operators. */
struct allocate_event {
	struct event event;
	__u64 address;
	__u64 bytes;
	__u64 stack;
	__u16 frame_count;
	__u16 reserved[3];
};

struct free_event {
	struct event event;
	__u64 address;
};

struct resize_event {
	struct event event;
	struct tensor_argument before; /* data 0: none */
	__u64 bytes_after;
};

/*
 * A caching allocator gave out a block of a device. Followed by
 * python_frame[frame_count]; a stack is taken only outside operators.
 */
struct device_allocate_event {
	struct event event;
	__u64 address;
	__u64 bytes; /* of the block: what was asked for, rounded up */
	__u64 stack;
	__u64 allocated, reserved; /* of the allocator on this device, with this block */
	__u16 frame_count;
	__u8 device_type; /* enum device_type */
	__u8 device_index;
	__u8 reserved_[4];
};

/* It was told that a block is no longer used; when it gives the block out again is its own affair. */
struct device_free_event {
	struct event event;
	__u64 address;
	__u64 bytes;
	__u64 allocated, reserved; /* without this block */
	__u8 device_type;
	__u8 device_index;
	__u8 reserved_[6];
};

/* Who asked an allocator for a block: device_request_event.maker. */
enum block_maker {
	MAKER_UNKNOWN = 0,
	MAKER_TENSOR = 1,  /* PyTorch's factories of tensors: it is a storage */
	MAKER_LIBRARY = 2, /* the library of the device's kernels: a workspace, of cuBLAS for example */
};

/* Comes after the thread's allocation at that address. */
struct device_request_event {
	struct event event;
	__u64 address;
	__u64 bytes;  /* what was asked for */
	__u64 stream; /* PyTorch's number of it (c10::StreamId), 0: the default stream */
	__u8 maker;   /* enum block_maker */
	__u8 reserved[7];
};

/* What a call of a driver or its runtime does. */
enum segment_action {
	SEGMENT_ALLOCATE = 1,   /* memory with an address */
	SEGMENT_FREE = 2,       /* of an address */
	SEGMENT_CREATE = 3,     /* memory without an address yet: a handle */
	SEGMENT_RELEASE = 4,    /* of a handle */
	SEGMENT_MAP = 5,        /* a range of addresses gets the memory of a handle */
	SEGMENT_UNMAP = 6,      /* a range of addresses; bytes 0: the mapping that starts there */
	SEGMENT_REGISTER = 7,   /* host memory that is there becomes pinned */
	SEGMENT_UNREGISTER = 8, /* and no longer is */
};

enum segment_memory {
	SEGMENT_DEVICE = 0,
	SEGMENT_MANAGED = 1,
	SEGMENT_HOST = 2,
	SEGMENT_ARRAY = 3,    /* of a device, without an address: `address` is its handle */
	SEGMENT_IMPORTED = 4, /* of another process or interface, which holds it; bytes 0: how much is not known */
};

/* How it is known what a call came to. */
enum segment_result {
	SEGMENT_TAKEN = 0,      /* not known: what it was asked for is taken as done */
	SEGMENT_RETURNED = 1,   /* it returned success */
	SEGMENT_REFUSED = 2,    /* it returned an error: `code` */
	SEGMENT_FOUND = 3,      /* another value stands where its result was to go */
	SEGMENT_UNCHANGED = 4,  /* the same value as before stands there: it failed, or gave the same again */
	SEGMENT_UNREADABLE = 5, /* nothing can be read there any more */
};

#define SEGMENT_DEVICE_UNKNOWN 255

/*
 * Sent when the result is known, which is after what the call itself did; the
 * time is that of its begin. event.operator_ is the index of the function's name.
 */
struct segment_event {
	struct event event;
	__u64 address; /* first byte; of CREATE and RELEASE: the handle; 0: unknown */
	__u64 bytes;
	__u64 handle; /* of MAP: what is mapped */
	__u64 stream; /* 0: none, or the default one */
	__u64 caller; /* where the call returns to */
	__s32 code;   /* of REFUSED: the error number of the function */
	__u8 action;  /* enum segment_action */
	__u8 memory;  /* enum segment_memory */
	__u8 result;  /* enum segment_result */
	__u8 device_type;
	__u8 device_index; /* that the thread has selected; SEGMENT_DEVICE_UNKNOWN */
	__u8 pooled;       /* from a pool of the driver, in the order of a stream */
	__u8 reserved[2];
	__u32 process; /* of the thread */
};

/* The allocator of a device found no memory, after all that it tried. */
struct out_of_memory_event {
	struct event event;
	__u64 bytes; /* that were asked for */
	__u64 allocated, reserved_bytes;
	__u64 stack;
	__u16 frame_count; /* frames follow */
	__u8 device_type;
	__u8 device_index;
	__u8 reserved[4];
};

struct launch_event {
	struct event event; /* operator_: the name of the function that launches */
	__u64 function;     /* address of the host's stub of the kernel, or the driver's handle; 0: of a graph */
};

#define KERNEL_NAME_BYTES 192 /* longer names are cut */

/* A driver was asked for a kernel by its name. */
struct kernel_event {
	struct event event;
	__u64 function; /* handle that it gave */
	char name[KERNEL_NAME_BYTES];
};

enum collective_kind {
	COLLECTIVE_ALL_REDUCE,
	COLLECTIVE_BROADCAST,
	COLLECTIVE_REDUCE,
	COLLECTIVE_ALL_GATHER,
	COLLECTIVE_REDUCE_SCATTER,
	COLLECTIVE_ALL_TO_ALL,
	COLLECTIVE_GATHER,
	COLLECTIVE_SCATTER,
	COLLECTIVE_SEND,
	COLLECTIVE_RECEIVE,
	COLLECTIVE_BARRIER,
	COLLECTIVE_SEND_RECEIVE, /* one call that sends to a rank and receives from another one */
	COLLECTIVE_SCAN,         /* of the ranks up to this one */
	COLLECTIVE_EXCLUSIVE_SCAN,
	COLLECTIVE_NEIGHBOR_ALL_GATHER, /* among neighbours of a topology, of whom there are how many is not known */
	COLLECTIVE_NEIGHBOR_ALL_TO_ALL,
	COLLECTIVE_PUT, /* one rank alone, in the memory of another */
	COLLECTIVE_GET,
	COLLECTIVE_ACCUMULATE,
	COLLECTIVE_GET_ACCUMULATE,
	COLLECTIVE_KINDS,
};

/* Who was asked for a collective. */
enum collective_layer { LAYER_C10D, LAYER_NCCL, LAYER_RCCL, LAYER_HCCL, LAYER_MPI, LAYERS };

/* Reduce operations: those of c10d::ReduceOp::RedOpType (c10d/Types.hpp), and behind them those that only libraries
 * have. */
enum collective_operation {
	OPERATION_SUM = 0,
	OPERATION_AVERAGE = 1,
	OPERATION_PRODUCT = 2,
	OPERATION_MIN = 3,
	OPERATION_MAX = 4,
	OPERATION_BAND = 5,
	OPERATION_BOR = 6,
	OPERATION_BXOR = 7,
	OPERATION_PREMUL_SUM = 8,
	OPERATION_LAND = 32,
	OPERATION_LOR,
	OPERATION_LXOR,
	OPERATION_MAXLOC,
	OPERATION_MINLOC,
	OPERATION_REPLACE,
	OPERATION_NO_OP,
	OPERATION_USER, /* made by the program */
};

/* Types of elements: those of c10::ScalarType, and these, that only libraries have. */
enum collective_element {
	ELEMENT_LONG_DOUBLE = 128,
	ELEMENT_LONG_DOUBLE_COMPLEX,
	ELEMENT_FLOAT_INT, /* pairs of a value and where it is, for maxloc and minloc */
	ELEMENT_DOUBLE_INT,
	ELEMENT_LONG_INT,
	ELEMENT_SHORT_INT,
	ELEMENT_LONG_DOUBLE_INT,
	ELEMENT_INT_INT,
	ELEMENT_FLOAT_FLOAT,
	ELEMENT_DOUBLE_DOUBLE,
	ELEMENT_INT128,
	ELEMENT_UNKNOWN = 255,
};

enum collective_flag {
	COLLECTIVE_BUCKET = 1 << 0, /* of a bucket of gradients (c10d::Reducer) */
};

#define COLLECTIVE_NO_OPERATION 255
#define COUNT_UNKNOWN (~0ull)

/* How a library's counts are to be read. */
enum library_counting {
	COUNT_INPUT_EACH = 1 << 0,  /* as many for each rank */
	COUNT_OUTPUT_EACH = 1 << 1, /* as many from each rank */
	COUNT_INPUT_ROOT = 1 << 2,  /* only the root gives anything */
	COUNT_OUTPUT_ROOT = 1 << 3, /* only the root gets anything */
	COUNT_OUTPUT_OWN = 1 << 4,  /* what the rank gets is one of the splits of what it gives */
	COUNT_UNEVEN = 1 << 5,      /* ranks may have different counts; set by the programs */
	COUNT_SINGLE = 1 << 6,      /* one element, without an argument that says so */
};

enum library_flag {
	LIBRARY_INSIDE = 1 << 0,   /* a c10d collective is alive on the thread */
	LIBRARY_BY_TORCH = 1 << 1, /* PyTorch's code called */
};

/* Of each rank's part so many are told, for each direction. */
#define EVENT_SPLITS_MAX 32

/*
 * A rank begins a collective. event.operator_ is the operator of the dispatcher that
 * it is. Followed by tensor_argument[tensor_count], inputs first, then
 * __u64[input_splits], __u64[output_splits], then python_frame[frame_count].
 */
struct collective_event {
	struct event event;
	__u64 group; /* address of the process group */
	__u64 stack;
	__u64 input_elements, output_elements; /* of all tensors; 0 when the layout is not known */
	__s32 rank, size;                      /* in the group, and of it; -1: unknown */
	__s32 peer;                            /* root, or the other rank; -1: none, or any */
	__u16 input_count, output_count;       /* tensors */
	__u16 tensor_count, frame_count;       /* that follow */
	__u16 input_shown;                     /* of tensor_count, the inputs */
	__u8 kind;                             /* enum collective_kind */
	__u8 operation;                        /* c10d::ReduceOp::RedOpType, COLLECTIVE_NO_OPERATION */
	__u8 element_type;                     /* c10::ScalarType; 255: unknown */
	__u8 flags;                            /* enum collective_flag */
	__u8 input_splits, output_splits;      /* numbers of rows for each rank, and from each, that follow; 0: even */
	__u8 reserved[4];
};

/*
 * A library of collectives was called. event.operator_ is the index of the
 * function's name. Followed by the parts of single ranks as the call has them, as
 * __u64[input_splits], then [output_splits], then python_frame[frame_count].
 */
struct library_collective_event {
	struct event event;
	__u64 communicator;  /* the library's handle */
	__u64 input, output; /* addresses of the buffers, or what stands for one that is in place; 0: none */
	__u64 input_count, output_count; /* elements, as `counting` says; COUNT_UNKNOWN */
	__u64 input_type, output_type;   /* the library's handles, or numbers */
	__u64 operation;                 /* the same */
	__u64 stream;
	__u64 caller; /* where the call returns to */
	__u64 stack;
	__s32 rank, size; /* in the communicator, and of it; -1: unknown */
	__s32 peer;       /* root, destination, or source of a receive; -1: none, or any */
	__s32 source;     /* of COLLECTIVE_SEND_RECEIVE */
	__u32 group;      /* number of the group call on the thread, 0: in none */
	__u16 input_splits, output_splits;
	__u16 frame_count;
	__u8 layer;    /* enum collective_layer */
	__u8 kind;     /* enum collective_kind */
	__u8 counting; /* enum library_counting */
	__u8 flags;    /* enum library_flag */
	/* What the handles mean, filled in by the recorder, which has the library. */
	__u8 operation_;                                /* enum collective_operation, COLLECTIVE_NO_OPERATION */
	__u8 input_element, output_element;             /* enum collective_element */
	__u8 input_element_bytes, output_element_bytes; /* of one, 0: unknown */
	__u8 reserved[3];
};

enum work_action {
	WORK_MADE,         /* by the collective that the thread is in */
	WORK_WAITED,       /* the thread begins to wait until it is done */
	WORK_FINISHED,     /* it is done; on a thread of the process group */
	WORK_WAIT_BUCKETS, /* the thread begins to wait for all buckets of gradients, one after another; work is 0 */
	WORK_WAIT_TENSOR,  /* never sent: functional code begins to wait for a result */
};

/* The c10d::Work of a collective, by which its end is known. */
struct work_event {
	struct event event;
	__u64 work;         /* its address */
	__u8 action;        /* enum work_action */
	__u8 is_functional; /* of WORK_WAITED: inside c10d::wait_tensor */
	__u8 reserved[6];
};

/* Either may have data 0 when it could not be read. */
struct gradient_event {
	struct event event;
	struct tensor_argument variable; /* the leaf that the gradient is for */
	struct tensor_argument gradient;
};

#define INVOKED_NAME_BYTES 64
#define INVOKED_OVERLOAD_BYTES 32

/*
 * An operator outside at::_ops that Python invoked. It has its name with it: the
 * process may be gone before it could be read from user space. Frames follow.
 */
struct invoked_event {
	struct operator_event head;            /* no tensors */
	__u64 definition;                      /* c10::OperatorDef */
	char name[INVOKED_NAME_BYTES];         /* "profiler::_record_function_enter", with its NUL */
	char overload[INVOKED_OVERLOAD_BYTES]; /* "" often */
};

/* Copies of memory that belongs to a code object; each starts 8-byte aligned in the record. */
enum code_piece {
	CODE_PIECE_OBJECT,
	CODE_PIECE_FILE,
	CODE_PIECE_NAME,
	CODE_PIECE_QUALIFIED_NAME,
	CODE_PIECE_TABLE,
	CODE_PIECES,
};

/* Room of the pieces, which have fixed places; the table comes last, since it alone differs much in length. */
#define CODE_OBJECT_BYTES 144 /* up to the location table in every known version */
#define CODE_FILE_BYTES 384   /* string objects, longer ones are read from user space */
#define CODE_NAME_BYTES 128
#define CODE_QUALIFIED_BYTES 256
#define CODE_TABLE_BYTES 4096

/*
 * A code object that a stack refers to, before the first such stack: a function
 * may be dropped as soon as it has run, long before its name could be read from
 * user space. The pieces follow, the table with its own length; a length of 0: not copied.
 */
struct code_event {
	struct event event;
	__u64 code;
	struct {
		__u64 address;
		__u32 length;
		__u32 reserved;
	} pieces[CODE_PIECES];
};

/* Why something is missing; counted per target, never only noticed. */
enum loss_reason {
	LOSS_RING_FULL = 0, /* a record found no room in the ring */
	LOSS_THREAD_STATE,  /* no memory for a thread's state: its hits are not seen */
	LOSS_ARGUMENTS,     /* tensor arguments unreadable or too many */
	LOSS_STACK,         /* Python frames unreadable */
	LOSS_DEPTH,         /* more operator frames alive than are followed */
	LOSS_CODE,          /* user space: a code object was gone before it was read */
	LOSS_CAPTURE,       /* user space: a record could not be written */
	LOSS_REASONS,
};

/* One for each target: what was produced and what was lost. */
struct event_counters {
	__u64 produced; /* records that the programs tried to send */
	__u64 received; /* of them, those that user space got; filled in there */
	__u64 lost[LOSS_REASONS];
};

#define EVENT_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " is not " #bytes " bytes")
EVENT_ASSERT_SIZE(struct event, 24);
EVENT_ASSERT_SIZE(struct tensor_argument, 16);
EVENT_ASSERT_SIZE(struct python_frame, 24);
EVENT_ASSERT_SIZE(struct autograd_node, 8);
EVENT_ASSERT_SIZE(struct operator_event, 56);
EVENT_ASSERT_SIZE(struct invoked_event, 160);
EVENT_ASSERT_SIZE(struct code_event, 112);
EVENT_ASSERT_SIZE(struct tensors_event, 32);
EVENT_ASSERT_SIZE(struct allocate_event, 56);
EVENT_ASSERT_SIZE(struct free_event, 32);
EVENT_ASSERT_SIZE(struct resize_event, 48);
EVENT_ASSERT_SIZE(struct gradient_event, 56);
EVENT_ASSERT_SIZE(struct device_allocate_event, 72);
EVENT_ASSERT_SIZE(struct device_free_event, 64);
EVENT_ASSERT_SIZE(struct device_request_event, 56);
EVENT_ASSERT_SIZE(struct segment_event, 80);
EVENT_ASSERT_SIZE(struct out_of_memory_event, 64);
EVENT_ASSERT_SIZE(struct launch_event, 32);
EVENT_ASSERT_SIZE(struct kernel_event, 224);
EVENT_ASSERT_SIZE(struct collective_event, 88);
EVENT_ASSERT_SIZE(struct library_collective_event, 152);
EVENT_ASSERT_SIZE(struct work_event, 40);

#endif
