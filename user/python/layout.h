/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the fields of CPython's structures are, by version: the one table that
 * the kernel side's frame walk and the readers of Python objects go by, with
 * what an interpreter says of itself laid over it (debug_offsets.h).
 * x86-64 and aarch64, 64-bit release builds with the GIL; a debug build
 * (Py_TRACE_REFS, Py_DEBUG) or a free-threaded one has other offsets and must
 * be told apart before this table is asked.
 *
 * All offsets are bytes from the start of the named structure.
 */
#ifndef HDTRACE_PYTHON_LAYOUT_H
#define HDTRACE_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Pointers to follow from a PyThreadState to its innermost frame. */
#define PYTHON_FRAME_STEPS_MAX 2

/* PyDictKeysObject, the header in front of the indices. */
enum python_keys_format {
	KEYS_FORMAT_309, /* sizes are words, entries always have a hash */
	KEYS_FORMAT_311, /* sizes are logarithms, there are kinds */
};

/* Where an object has its attributes. */
enum python_attributes {
	ATTRIBUTES_AT_OFFSET, /* a dictionary at tp_dictoffset */
	ATTRIBUTES_BEFORE, /* 3.11: in front of the object a dictionary, and in front of that the values without one */
	ATTRIBUTES_EITHER, /* 3.12: one word in front of it is the dictionary, or with its lowest bit set the values */
	ATTRIBUTES_INLINE, /* 3.13: a dictionary in front of it, and values behind tp_basicsize */
};

struct python_layout {
	uint8_t major, minor;
	bool collects_in_pieces; /* the collector moves objects between its two oldest lists, both ways */

	struct {
		uint32_t interpreters_head; /* PyInterpreterState, newest first */
	} runtime;                          /* _PyRuntime */

	struct {
		uint32_t next; /* in the runtime's list */
		uint32_t threads_head;
	} interpreter; /* PyInterpreterState */

	struct {
		uint32_t frame_steps[PYTHON_FRAME_STEPS_MAX];
		uint32_t frame_step_count;
		uint32_t next;      /* in the interpreter's list */
		uint32_t thread_id; /* pthread_self() of the thread */
	} thread;                   /* PyThreadState */

	struct {
		uint32_t code;        /* f_code, f_executable */
		uint32_t previous;    /* the caller's frame */
		uint32_t instruction; /* prev_instr, instr_ptr; f_lasti before 3.11 */
		uint32_t index_unit;  /* 0: the instruction is an address; else an int that counts so many bytes */
		uint32_t owner;       /* one byte */
		uint32_t localsplus;  /* [0] is `self` of a method */
		uint32_t owner_skip;  /* frames with this owner or a higher one belong to C, 0: there are none */
		uint32_t globals;     /* a dictionary */
		uint32_t of_object;   /* f_frame of PyFrameObject; 0: they are the same */
		uint64_t tag_mask;    /* bits of code and localsplus that are no address */
	} frame;                      /* _PyInterpreterFrame; PyFrameObject before 3.11 */

	struct {
		uint32_t size; /* ob_size, then consts, names, and what else tells code objects apart */
		uint32_t flags;
		uint32_t first_line;
		uint32_t file, name, qualified_name;
		uint32_t table;        /* co_linetable, co_lnotab */
		uint32_t instructions; /* co_code_adaptive, in place; 0 where frames count instructions */
		uint32_t local_names;  /* a tuple: the names of what stands at localsplus, or the first of them */
		uint32_t table_format; /* code_record.table_format */
	} code;                        /* PyCodeObject */

	struct {
		uint32_t length, state;
		uint32_t ascii_data;   /* of compact ASCII strings */
		uint32_t compact_data; /* of other compact strings */
	} text;                        /* PyUnicodeObject */

	struct {
		uint32_t length, data;
	} bytes; /* PyBytesObject */

	struct {
		uint32_t name;        /* tp_name, a char pointer */
		uint32_t basic_size;  /* tp_basicsize */
		uint32_t flags;       /* tp_flags */
		uint32_t order;       /* tp_mro, a tuple of the type and all of its bases */
		uint32_t dict_offset; /* tp_dictoffset */
		uint32_t cached_keys; /* ht_cached_keys of heap types; 0: not needed */
	} type;                       /* PyTypeObject, PyHeapTypeObject */

	struct {
		uint32_t keys, values; /* ma_keys, ma_values */
		uint32_t first_value;  /* in the values of a split dictionary */
		uint8_t keys_format;   /* enum python_keys_format */
		uint8_t attributes;    /* enum python_attributes */
	} dict;                        /* PyDictObject */

	uint32_t object_type;   /* ob_type in every object */
	uint32_t tuple_objects; /* ob_item of PyTupleObject */
};

/* The layout of CPython major.minor; NULL when it is not known. Constant. */
const struct python_layout *python_layout_find(unsigned int major, unsigned int minor);

/* How many layouts are known, and each of them, oldest first; NULL past the end. */
const struct python_layout *python_layout_at(unsigned int index);

#endif
