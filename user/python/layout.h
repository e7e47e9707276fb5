/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the fields of CPython's structures are, by version: the one table that
 * the kernel side's frame walk and the readers of Python objects go by.
 * x86-64 and aarch64, 64-bit release builds with the GIL; a debug build
 * (Py_TRACE_REFS, Py_DEBUG) or a free-threaded one has other offsets and must
 * be told apart before this table is asked.
 *
 * All offsets are bytes from the start of the named structure.
 */
#ifndef HDTRACE_PYTHON_LAYOUT_H
#define HDTRACE_PYTHON_LAYOUT_H

#include <stdint.h>

/* Pointers to follow from a PyThreadState to its innermost frame. */
#define PYTHON_FRAME_STEPS_MAX 2
/* python_layout.frame.owner_skip of a version where every frame is one of Python code. */
#define PYTHON_OWNER_NONE 0xffu

struct python_layout {
	uint8_t major, minor;

	struct {
		uint32_t tss;               /* autoTSSkey, a Py_tss_t: not 0 at +0 when the key is in use */
		uint32_t tss_key;           /* the pthread key itself, an unsigned int */
		uint32_t interpreters_head; /* PyInterpreterState, newest first */
	} runtime;                          /* _PyRuntime */

	struct {
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
		uint32_t instruction; /* prev_instr, instr_ptr */
		uint32_t owner;       /* one byte */
		uint32_t localsplus;  /* [0] is `self` of a method */
		uint32_t owner_skip;  /* frames with this owner belong to C, PYTHON_OWNER_NONE: there are none */
		uint64_t tag_mask;    /* bits of code and localsplus that are no address */
	} frame;                      /* _PyInterpreterFrame */

	struct {
		uint32_t size; /* ob_size */
		uint32_t flags;
		uint32_t first_line;
		uint32_t file, name, qualified_name;
		uint32_t table;        /* co_linetable */
		uint32_t instructions; /* co_code_adaptive, in place */
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
		uint32_t name;  /* tp_name, a char pointer */
		uint32_t flags; /* tp_flags */
	} type;                 /* PyTypeObject */

	uint32_t object_type; /* ob_type in every object */
};

/* The layout of CPython major.minor; NULL when it is not known. Constant. */
const struct python_layout *python_layout_find(unsigned int major, unsigned int minor);

/* How many layouts are known, and each of them, oldest first; NULL past the end. */
const struct python_layout *python_layout_at(unsigned int index);

#endif
