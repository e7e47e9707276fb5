/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The threads of a live interpreter: where each keeps its PyThreadState, and
 * whether the layout really fits what is in memory. Everything is found from
 * _PyRuntime, by the interpreter's own lists; nothing that is read is trusted.
 */
#ifndef HDTRACE_PYTHON_THREADS_H
#define HDTRACE_PYTHON_THREADS_H

#include <stdint.h>

#include "python/code.h"
#include "python/layout.h"

struct python_image {
	const struct python_layout *layout;
	python_read_fn read;
	void *context;
	uint64_t runtime;   /* address of _PyRuntime */
	uint64_t code_type; /* address of PyCode_Type */
};

/*
 * Where a thread has the pointer to its PyThreadState, as an offset from its
 * thread pointer, into *slot: CPython sets a thread-specific key, and the slot is
 * the one that holds the very state of each thread that the interpreter lists.
 * It is given only if the frames of some thread are as the layout says (a code
 * object of the right type, an instruction in it), or no thread has any now.
 * Threads run on meanwhile, so what does not fit is looked at again for some
 * milliseconds. Errors, with python_threads_error(error) as text:
 * -ENOENT no thread is listed, -EBADMSG frames are there, but not so, -ESRCH no
 * slot holds the states.
 */
int python_threads_find(const struct python_image *image, uint32_t *slot);
const char *python_threads_error(int error);

/*
 * The file names of the frames of the main thread, innermost first, as far as they
 * are short and ASCII; nonzero ends the visit.
 */
void python_files_visit(const struct python_image *image, int (*visit)(void *context, const char *file), void *context);

/* The frames of all threads, innermost first, by address; nonzero ends the visit. */
void python_frames_visit(const struct python_image *image, int (*visit)(void *context, uint64_t frame), void *context);

/* Where a frame stands. */
struct python_spot {
	uint64_t code;        /* PyCodeObject */
	uint64_t instruction; /* as in struct python_frame */
};

/* The frames of the main thread, innermost first, at most `room`; returns how many. It runs on meanwhile. */
size_t python_main_stack(const struct python_image *image, struct python_spot *spots, size_t room);

#endif
