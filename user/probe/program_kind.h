/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs of bpf/, by what a hit of each means. */
#ifndef HDTRACE_PROBE_PROGRAM_KIND_H
#define HDTRACE_PROBE_PROGRAM_KIND_H

enum program_kind {
	PROGRAM_OPERATOR, /* operator.bpf.c */
	PROGRAM_INVOKED,
	PROGRAM_THROWN,
	PROGRAM_ALLOCATED, /* allocator.bpf.c */
	PROGRAM_FREED,
	PROGRAM_RESIZED,
	PROGRAM_DEVICE,
	PROGRAM_REQUESTED,
	PROGRAM_CALLED, /* segment.bpf.c */
	PROGRAM_RETURNED,
	PROGRAM_EXHAUSTED,
	PROGRAM_LAUNCHED,
	PROGRAM_NODE, /* autograd.bpf.c */
	PROGRAM_GRADIENT,
	PROGRAM_COLLECTIVE, /* collective.bpf.c */
	PROGRAM_BUCKET,
	PROGRAM_WORK,
	PROGRAM_LIBRARY, /* library.bpf.c */
	PROGRAM_LIBRARY_NOTED,
	PROGRAM_LIBRARY_RETURNED,
	PROGRAM_FINALIZED, /* process.bpf.c */
	PROGRAMS,
};

#endif
