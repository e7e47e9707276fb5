/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan for one library file: where each probe goes, what each operator hook
 * reads, which layouts hold, and what is missing. It depends on the file alone,
 * so that processes with the same library share it.
 */
#ifndef HDTRACE_PROBE_PLAN_H
#define HDTRACE_PROBE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <hdtrace/program.h>

#include "probe/catalogue.h"
#include "python/code.h"
#include "python/layout.h"
#include "torch/layout.h"
#include "torch/live.h"

struct elf_file;

struct plan_point {
	enum program_kind program;
	uint64_t offset;  /* in the file */
	bool full_only;   /* left out at LEVEL_LITE */
	bool described;   /* its program needs `description` */
	const char *name; /* of the function or operator, that its records are to have; NULL: none. Static */
	uint32_t shift;   /* bytes: of PROGRAM_RETURNED from where the call returns to; else from sp there up to the
	                     entry's */
	struct hook_description description;
};

/* What was found out, good or bad; told by `hdtrace doctor` and, where bad, at attach. */
struct plan_finding {
	bool good;
	bool fatal;   /* nothing can be reported without it */
	char *what;   /* "c10::ProfiledCPUMemoryReporter::New at +0, emulated" */
	char *remedy; /* what does not work and what to do; NULL when good */
};

/*
 * Hooks of operators: at every entry, or only at the last call site before the backend;
 * besides, at the kernels of the backends that are called with arguments on a stack.
 */
enum hook_set_kind { HOOK_SET_PLAIN, HOOK_SET_SPARSE, HOOK_SET_BOXED, HOOK_SETS };

/* stb_ds arrays; offsets[i] is where hooks[i] goes, in the file. */
struct hook_set {
	struct hook_description *hooks;
	uint64_t *offsets;
};

struct library_plan {
	enum library_role role;
	bool torch_planned; /* torch_plan_make was here */
	int torch_error;    /* what it returned */
	bool open_mpi;      /* of LIBRARY_MPI: Open MPI's, else as MPICH's */
	char *build_id;
	struct elf_file *elf;

	struct plan_point *points; /* stb_ds: hooks of the catalogue */

	struct hook_set sets[HOOK_SETS]; /* sparse: empty where it does not fit; others: by their own functions */
	struct hook_description *boxed;  /* stb_ds: one an operator, as HOOK_SET_BOXED is to have it */
	char **operator_names;           /* stb_ds */
	uint32_t *operator_flags;        /* stb_ds: enum operator_flag */

	int version_major, version_minor; /* of PyTorch or CPython; 0.0: unknown */
	struct torch_layout *torch;       /* NULL: unknown, or torch_plan_make has not been here */
	struct python_layout *python;     /* NULL: unknown version */
	uint64_t keys_got;                /* address in the file, 0: not found */
	struct torch_nodes nodes;         /* all 0: unknown */
	uint64_t dispatcher;              /* address in the file of the one c10::Dispatcher, 0: not found */
	uint64_t copy_slices;             /* address in the file of the class's table of functions, 0: not found */
	uint64_t undefined_tensor;        /* of libc10, addresses in the file, 0: not found: torch/live.h */
	uint64_t undefined_table;
	uint64_t tensor_class;            /* of libtorch_python: null until it has been initialized; 0: not found */
	uint64_t python_runtime;          /* address of _PyRuntime in the file, 0: not found */
	struct python_types python_types; /* addresses in the file */

	struct plan_finding *findings; /* stb_ds */
	ptrdiff_t findings_told;       /* of them, the first so many */
};

/* Make the plan for the file behind `fd`. Returns 0 or a negative errno; findings are filled in any case. */
int library_plan_make(int fd, enum library_role role, struct library_plan *plan);
/*
 * Add layouts and operators to the plan of libtorch_cpu, which takes the libc10
 * that is mapped with it; when that was done already, what came of it. `operators`: hooks of
 * operators are wanted too, which take 90 MB for a moment.
 */
int torch_plan_make(struct library_plan *torch_cpu, const struct library_plan *c10, bool operators);
/* Fill the plain set of hooks, which is made only where it is needed: the target is importing meanwhile. */
int plain_hooks_plan(struct library_plan *plan);
void library_plan_free(struct library_plan *plan);

/*
 * What torch_live_fault is to look at, in a process where libtorch_cpu and libc10
 * are away from their files' addresses by so much; `read` and `context` are the
 * caller's. The layout must be known.
 */
struct torch_image torch_plan_image(const struct library_plan *torch_cpu, uint64_t torch_cpu_bias,
	const struct library_plan *c10, uint64_t c10_bias);

/* Difference between addresses in the process and in the file, from where an executable segment is mapped. */
int library_plan_bias(const struct library_plan *plan, uint64_t mapped_at, uint64_t mapped_offset, uint64_t *bias);

#endif
