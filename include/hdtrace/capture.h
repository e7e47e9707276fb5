/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture file: everything that is needed to make the reports again,
 * elsewhere, without the target. A file header, then chunks; each chunk holds
 * whole records (event.h, and the kinds below), compressed with zstd and
 * checksummed with XXH3, so that a damaged file is readable up to the damage.
 * docs/capture-format.md describes it for readers written elsewhere.
 */
#ifndef HDTRACE_CAPTURE_H
#define HDTRACE_CAPTURE_H

#include <hdtrace/event.h>

#define CAPTURE_MAGIC "HDTRACE\n"
#define CAPTURE_VERSION 2
#define CAPTURE_CHUNK_MAGIC 0x4b4e4843u /* "CHNK" */

/* Largest record and largest decompressed chunk that a reader accepts. */
#define CAPTURE_RECORD_MAX (1u << 20)
#define CAPTURE_CHUNK_MAX (8u << 20)

struct capture_header {
	char magic[8];
	__u32 version;
	__u32 header_size;        /* of this struct: later versions may append */
	__u64 start_time_ns;      /* CLOCK_MONOTONIC when the capture was opened */
	__u64 start_real_time_ns; /* CLOCK_REALTIME at the same moment */
	__u64 checksum;           /* XXH3-64 of the bytes before it */
};

struct capture_chunk {
	__u32 magic;
	__u32 sequence; /* 0, 1, 2, … */
	__u32 compressed_size;
	__u32 size; /* of the records, decompressed */
	__u64 record_count;
	__u64 checksum;        /* XXH3-64 of the compressed bytes */
	__u64 header_checksum; /* XXH3-64 of the fields before it */
};

/* Records that user space writes, beside those of enum event_kind. */
enum capture_kind {
	CAPTURE_SESSION = 256,  /* JSON object: how and where the capture was made */
	CAPTURE_TARGET = 257,   /* JSON object: one target; event.target is its index from then on */
	CAPTURE_OPERATOR = 258, /* struct operator_record: name of operator event.operator_ */
	CAPTURE_CODE = 259,     /* struct code_record: a Python code object */
	CAPTURE_LOSS = 260,     /* struct loss_record: losses of a target so far; the last one counts */
	CAPTURE_END = 261,      /* JSON object: the trace of a target ended, and why */
	CAPTURE_SYMBOL = 262,   /* struct symbol_record: what lies at an address of native code */
	CAPTURE_STACK = 263,    /* struct stack_record: frames of a stack, whose own record was dropped */
	CAPTURE_WINDOW = 264,   /* struct window_record: older records were dropped on purpose */
	CAPTURE_MODULE = 265,   /* struct module_record: name of an object */
	CAPTURE_OWNER = 266,    /* struct owner_record: what holds a storage */
};

/* CAPTURE_SESSION, CAPTURE_TARGET, CAPTURE_END: text, padded with NUL to 8 bytes. */
struct text_record {
	struct event event;
	__u32 length; /* without padding */
	__u32 reserved;
	char text[];
};

enum operator_flag {
	OPERATOR_LIFT = 1 << 0, /* aten.lift_fresh, aten.lift: adopts a storage made outside dispatch */
	/* Begins a profiler range: the storage it makes is a handle that lives until the range ends. */
	OPERATOR_RANGE_BEGIN = 1 << 1,
	OPERATOR_RANGE_END = 1 << 2,
};

/* Operators of at::_ops are numbered below this, other names from it on. */
#define EXTRA_NAMES_FIRST 0x4000

/* Followed by the name (aten.add.Tensor), padded with NUL to 8 bytes. */
struct operator_record {
	struct event event;
	__u32 length; /* of the name, without padding */
	__u32 flags;
	char name[];
};

/*
 * Valid for stacks that come after it, until another record for the same
 * address. Followed by file name, function name, qualified name (UTF-8, no
 * NUL) and the location table of the code object, then padding to 8 bytes.
 */
struct code_record {
	struct event event;
	__u64 code;
	__u64 first_instruction; /* address of co_code_adaptive[0]; of the code object where frames only count
	                            (3.9, 3.10) */
	__u32 first_line;
	__u32 table_format; /* of the location table: 309, 310, 311 (user/python/location.h) */
	__u32 file_length;
	__u32 name_length;
	__u32 qualified_length;
	__u32 table_length;
	char bytes[];
};

/* Followed by the base name of the library, then the function's name, demangled, empty when unknown; no NUL. */
struct symbol_record {
	struct event event;
	__u64 address;
	__u32 offset; /* of the address in the function */
	__u16 library_length, name_length;
	char bytes[];
};

/* Of the thread event.thread_id; event.flags has what is missing. Followed by python_frame[frame_count], innermost
 * first. */
struct stack_record {
	struct event event;
	__u64 stack;
	__u16 frame_count;
	__u16 reserved[3];
};

/* Of all targets; the last one counts. What was alive at since_ns is kept, and little else from before. */
struct window_record {
	struct event event;
	__u64 since_ns;
	__u64 dropped_records, dropped_bytes; /* altogether, decompressed */
};

/*
 * An nn.Module of Python, valid for stacks that come after it, until another record for the same address. Followed by
 * its name: class of the outermost module, then names of attributes ("Model.layers.1.mlp"); no NUL, padded to 8 bytes.
 */
struct module_record {
	struct event event;
	__u64 object;
	__u32 length; /* of the name, without padding */
	__u32 reserved;
	char name[];
};

enum owner_kind {
	OWNER_NONE = 0, /* no owner: from here on they are told, whatever has none has no known one */
	OWNER_PARAMETER = 1,
	OWNER_BUFFER = 2,
	OWNER_GRADIENT = 3, /* of a parameter, which has the name */
	OWNER_OPTIMIZER = 4,
	OWNER_VARIABLE =
		5,       /* of Python, which has the name; without one: only known to be a tensor that Python holds */
	OWNER_SAVED = 6, /* a node of autograd's graph, for its backward pass; the name has that of its class */
	OWNER_KINDS,
};

/*
 * What Python holds a storage by, as the memory of the target had it at the time of this record, which stands behind
 * the events until then. Followed by the owner's name; no NUL, padded to 8 bytes.
 */
struct owner_record {
	struct event event;
	struct tensor_argument storage;
	__u32 length;      /* of the name, without padding */
	__u8 kind;         /* enum owner_kind */
	__u8 element_type; /* of a parameter: c10::ScalarType and one more; 0: not known */
	__u8 reserved[2];
	char name[];
};

struct loss_record {
	struct event event;
	struct event_counters counters;
};

EVENT_ASSERT_SIZE(struct capture_header, 40);
EVENT_ASSERT_SIZE(struct capture_chunk, 40);
EVENT_ASSERT_SIZE(struct code_record, 64);
EVENT_ASSERT_SIZE(struct module_record, 40);
EVENT_ASSERT_SIZE(struct owner_record, 48);

#endif
