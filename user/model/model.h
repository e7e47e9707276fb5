/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model: events in, tasks and blocks out. Pure and deterministic: no I/O,
 * no BPF, no files; the same calls give the same result. docs/architecture.md
 * section "The model" holds the rules and docs/accuracy.md where they come from.
 *
 * Use: model_new, then for every record of a capture, in order, one call below,
 * then model_finish, then read the ranks. Functions return 0 or a negative
 * errno; after an error the model may only be freed.
 */
#ifndef HDTRACE_MODEL_H
#define HDTRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hdtrace/event.h>

#include "device.h"

/* End of a block that was alive when the trace ended (report-format: 2^63-1). */
#define TASK_PERSISTENT INT64_MAX
#define TASK_NONE ((int64_t)-1)

enum phase { PHASE_INITIALIZATION, PHASE_FORWARD, PHASE_RECOMPUTE, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASES };

enum category {
	CATEGORY_PARAMETER,
	CATEGORY_BUFFER,
	CATEGORY_GRADIENT,
	CATEGORY_ACTIVATION,
	CATEGORY_TEMP,
	CATEGORY_OPTSTATE,
	CATEGORY_OTHER,
	CATEGORY_WORKSPACE,
	CATEGORIES
};

const char *phase_name(enum phase phase);          /* "forward" */
const char *category_name(enum category category); /* "Optstate" */

/* One Python frame; strings belong to the model. */
struct frame {
	const char *file;
	const char *function; /* co_name */
	uint32_t line;
	uint64_t self; /* localsplus[0] */
};

/* A Python stack, outermost frame first, already filtered (report-format). */
struct stack {
	struct frame *frames;
	uint32_t frame_count;
	bool cut; /* outer frames are missing */
	/* What the frames say of the phase by themselves (stack.c). */
	bool in_optimizer, in_backward, in_recompute;
	bool at_backward; /* the innermost frame starts an engine run */
	/* The same walk for a stack whose missing outer part is known to be a backward pass. */
	bool in_recompute_of_engine;
	bool in_compiled;   /* the innermost frame is code that inductor made: its tensors come from no operator */
	bool from_program;  /* the outermost frame is where a program or a Python thread starts */
	uint64_t optimizer; /* self of the innermost optimizer step, 0: none */
	const char *module; /* name of the deepest module that is called, "": none */
	/* For each frame the name of the module that it calls, NULL: none that is known; NULL itself: none at all. */
	const char **modules;
};

/* An operator that ran. Only those with an index are tasks. */
struct operator_run {
	uint64_t time_ns;
	int64_t task;        /* index, TASK_NONE when it touched no tracked block */
	uint64_t live_bytes; /* of all devices that are reported, when the operator ended */
	uint32_t name;       /* index into rank.operator_names */
	uint32_t thread_id;
	uint32_t step;     /* completed optimizer steps when it started */
	uint32_t stack;    /* index into rank.stacks */
	uint32_t launches; /* kernels, and graphs of them, that it sent to devices */
	/* In a backward pass: the operator whose node of autograd's graph it works for, an index into rank.runs. */
	uint32_t forward;
	const char *module; /* of its stack, else of that operator; "": none */
	/* How many of rank.changes came before it, and until its last one. */
	uint32_t first_order, last_order;
	uint8_t phase; /* enum phase */
};

#define RUN_NONE UINT32_MAX

/* From the first operator after an optimizer's step to the end of the next step; bytes of all devices that are
 * reported. */
struct step {
	uint64_t start_time_ns, end_time_ns; /* of its first operator, and of the one after its last */
	uint64_t phase_ns[PHASES];           /* of it, by the phase of the operator that came last */
	uint64_t allocated_bytes;            /* by all allocations in it */
	uint64_t peak_bytes, end_bytes; /* of several devices the sum of their peaks, which are rarely at one moment */
	uint64_t collective_bytes, wait_ns;
	/* Blocks that exist only for communication: of those made in it the sum, and the highest total at one moment.
	 */
	uint64_t communication_bytes, communication_peak_bytes;
	uint64_t host_wait_ns;     /* threads waited for collectives of c10d that began in it */
	uint64_t communication_ns; /* at least one of these was under way, as far as their ends are known */
	uint32_t operators, launches, collectives;
	uint32_t small_collectives; /* collective_is_small */
	uint32_t micro_steps;       /* backward passes that were started */
	bool complete;              /* the trace has its end */
};

static inline uint64_t step_duration(const struct step *step)
{
	return step->end_time_ns > step->start_time_ns ? step->end_time_ns - step->start_time_ns : 0;
}

/* No coordinate: a persistent block has no end event. */
#define PLOT_NONE UINT64_MAX
/* Coordinates are counted in units of 10^-12 of a task index. */
#define PLOT_UNIT 1000000000000ull

/* Blocks that would not be there without communication: model/communication.c. */
enum communication {
	COMMUNICATION_NONE,
	COMMUNICATION_BUFFER,   /* collectives, and operators that only move or scale data, alone have it as an argument
	                         */
	COMMUNICATION_GATHERED, /* an all-gather's result, or a copy of it, that stands for a parameter in shards */
};

const char *communication_name(enum communication communication); /* "buffer", "" for none */

/* How it is known what held a block. */
enum owner_source {
	OWNER_UNKNOWN,
	OWNER_SEEN,      /* it was read in the memory of the target */
	OWNER_CONCLUDED, /* from what operators did: when it was let go, or where it was stored */
};

const char *owner_source_name(enum owner_source source); /* "memory"; NULL: unknown */

/* One lifetime of one storage allocation, [start, end) in task indices. */
struct block {
	uint64_t address;
	uint64_t bytes;                      /* of the storage where an argument showed them, else allocated */
	uint64_t allocated_bytes;            /* what the allocator was asked for; 0: never seen */
	int64_t start, end;                  /* task indices; end is TASK_PERSISTENT while alive */
	uint64_t start_event, end_event;     /* shared event numbers, UINT64_MAX: none */
	uint64_t start_time_ns, end_time_ns; /* end: UINT64_MAX while alive */
	/* Plot coordinates: PLOT_UNIT times the fraction that is added to start, and
	 * to the index that block_end_task gives. */
	uint64_t start_plot, end_plot;
	uint64_t used_bytes, peak_bytes;  /* device totals when the producing operator ended */
	uint32_t first_order, last_order; /* position among the allocator events: block_alive_at */
	uint32_t generation;              /* n-th block at this address, from 0 */
	uint32_t producer;                /* index into rank.runs */
	uint32_t stack;                   /* index into rank.stacks */
	uint32_t name;                    /* index into rank.operator_names: the producing operator or function */
	uint32_t first_user;              /* index into rank.users */
	uint32_t user_count;
	const char *owner; /* what held it, "": not known */
	uint8_t phase, category;
	uint8_t owner_source; /* enum owner_source */
	uint8_t element_type; /* of a parameter: c10::ScalarType and one more, 0: not known */
	uint8_t device;       /* index into rank.devices */
	uint16_t stream;      /* index into its streams; 0 too when it is not known */
	bool persistent;
	bool preexisting;      /* older than the trace, known by its first use */
	bool remainder;        /* no block: what an allocator had given out before the trace and nothing is known of */
	bool resized;          /* it ended by a resize of its storage */
	uint8_t communication; /* enum communication */
};

/* A storage that the allocator hooks never saw (numpy, shared memory). */
struct external {
	uint64_t address, bytes;
	uint64_t first_time_ns;
	uint32_t first_run; /* index into rank.runs */
	uint32_t stack;
	uint64_t uses;
	uint8_t device; /* index into rank.devices */
};

/* Totals of the memory of one device at one moment, by category. */
struct snapshot {
	uint64_t total;
	uint64_t category[CATEGORIES];
};

/* What an allocator event did to the memory of a device. */
struct change {
	uint64_t bytes; /* 0: of a device that is not reported, or not an allocator's */
	uint32_t made;  /* of a free: which change made the block, counted from 1; 0: it is older */
	uint8_t device; /* index into rank.devices */
	uint8_t category;
	bool is_free;
};

/* At the end of a step: what an allocator says that it has given out, and what the blocks say, rows or not. */
struct balance {
	uint64_t allocator_bytes;
	uint64_t older_bytes;  /* of blocks that are older than the trace, the remainder included */
	uint64_t traced_bytes; /* of blocks whose allocation was seen */
};

/* What no block accounts for; below 0: blocks that the allocator does not have. */
static inline int64_t balance_difference(const struct balance *balance)
{
	return (int64_t)(balance->allocator_bytes - balance->older_bytes - balance->traced_bytes);
}

/* The memory of one device. Of those that are not reported only the name is filled. */
struct device {
	char name[DEVICE_NAME_BYTES]; /* "cuda:0" */
	uint8_t type, index;
	bool seen; /* memory of it: made by its allocator, or older than the trace */
	bool reported;
	bool has_totals; /* its allocator tells its own totals: then they are the live bytes */

	/* Peak of all live bytes, workspaces and untracked blocks included. */
	uint64_t peak_bytes, peak_time_ns;
	uint32_t peak_order; /* block_alive_at(block, peak_order): alive at the peak */
	uint32_t peak_run;   /* index into rank.runs, UINT32_MAX: outside operators */
	struct snapshot peak, current;
	struct snapshot older; /* before the first of rank.changes */

	/* What the allocator holds of the device, for blocks and as cache; 0 without totals. */
	uint64_t reserved_bytes, reserved_peak_bytes;
	/*
	 * What its allocator had given out before the trace, 0 without totals; of it, the storages that are known, and
	 * the row for the rest: what was rounded up, and what neither Python nor an operator was seen to hold.
	 */
	uint64_t older_bytes, older_known_bytes, remainder_bytes;
	struct balance *balances;    /* stb_ds: for each of rank.steps; none without totals */
	uint64_t unexplained_totals; /* totals that do not follow from those before by the block at hand */
	/* stb_ds: PyTorch's numbers of them (c10::StreamId), in order of appearance; the first is 0, the default */
	uint64_t *streams;

	/* What was taken from the driver while the trace was on; of it, what holds no blocks of the allocator. */
	uint64_t segment_bytes, segment_peak_bytes;
	uint64_t outside_bytes, outside_peak_bytes;
};

/* Memory that a driver, or its runtime, gave. */
struct segment {
	uint64_t address, bytes;             /* address 0: unknown; bytes 0: an error of ours, not to be shown */
	uint64_t stream;                     /* the device's handle, 0: none or the default one */
	uint64_t caller;                     /* where the call returned to: rank.symbols */
	uint64_t start_time_ns, end_time_ns; /* end: UINT64_MAX while it is held */
	uint32_t function;                   /* index into rank.operator_names: what was called */
	uint32_t thread_id;
	uint8_t memory;      /* enum segment_memory */
	uint8_t device_type; /* enum device_type */
	uint8_t device;      /* index into rank.devices, UINT8_MAX: unknown */
	bool mapped;         /* physical memory at an address of its own (expandable segments) */
	bool registered;     /* host memory that was there before */
	bool pooled;         /* from a pool of the driver, in the order of a stream */
	bool has_blocks;     /* the allocator of blocks took it, or another from the same place */
	bool certain;        /* the call was seen to succeed, or the allocator confirmed it */
};

/* A call for memory that gave none. */
struct segment_failure {
	uint64_t time_ns, bytes, caller;
	uint32_t function;
	int32_t code;        /* error number of the function, 0: unknown */
	uint8_t device_type; /* enum device_type */
	uint8_t device;      /* index into rank.devices, UINT8_MAX: unknown */
};

/* Segments that an allocator gave back in one go. */
struct segment_release {
	uint64_t time_ns, bytes;
	uint32_t segments;
	uint8_t device;
	bool in_operator; /* to make room for an allocation; else because it was asked to (empty_cache) */
};

/* An allocator found no memory. */
struct out_of_memory {
	uint64_t time_ns;
	uint64_t bytes; /* that were asked for */
	uint64_t allocated_bytes, reserved_bytes;
	uint64_t largest_gap; /* free bytes in one piece, in its segments; UINT64_MAX: they are not known */
	uint32_t order;       /* block_alive_at */
	uint32_t name;        /* index into rank.operator_names: the operator, which failed; UINT32_MAX: none */
	uint32_t stack;       /* index into rank.stacks */
	uint8_t phase;
	uint8_t device; /* index into rank.devices */
};

/* A place in native code. Texts belong to the model. */
struct symbol {
	uint64_t address;
	const char *library; /* base name of the file */
	const char *name;    /* of the function, "": unknown */
	uint32_t offset;     /* in it */
};

struct kernel {
	uint64_t function; /* address of its stub: rank.symbols; 0: only a handle is known */
	uint32_t launcher; /* index into rank.operator_names */
	uint64_t launches;
};

/* A capture of which older records were dropped on purpose; since_ns 0: none were. */
struct window {
	uint64_t since_ns; /* from here on everything is there */
	uint64_t dropped_records, dropped_bytes;
};

#define RANK_UNKNOWN (-1)

/* A communicator, as one rank knows it. */
struct group {
	uint64_t address;     /* of its object; of a library: its handle */
	uint64_t handle;      /* of c10d: the library's communicator below it, 0: none was seen */
	uint8_t layer;        /* enum collective_layer */
	int32_t rank, size;   /* -1: unknown */
	uint32_t collectives; /* how many were begun */
	bool tells_end;       /* of c10d: the work of one of its collectives was seen to be done */
};

#define FUNCTION_NONE UINT32_MAX

struct rank;

enum collective_mode { MODE_EAGER, MODE_FUNCTIONAL, MODE_COMPILED };

#define SEQUENCE_NONE UINT32_MAX

/* Whether what a sum reads was divided (or multiplied by a number) right before, or what it wrote right after. */
enum division { DIVISION_NONE, DIVISION_BEFORE, DIVISION_AFTER };

/* A collective, send or receive that a rank began. */
struct collective {
	uint64_t time_ns;
	uint64_t input_elements, output_elements, input_bytes, output_bytes; /* COUNT_UNKNOWN */
	uint64_t input_address,
		output_address; /* of c10d: of the first storage; of a library: of the buffer; 0: none */
	/* Of c10d, 0 where it was not seen: when a thread began to wait for it, and when its work was done. */
	uint64_t waited_ns, finished_ns;
	uint64_t skew_ns;  /* between the first and the last rank that began it */
	uint64_t wait_ns;  /* from when this rank began it until the last one did */
	uint32_t group;    /* index into rank.groups */
	uint32_t sequence; /* number on the group, SEQUENCE_NONE: a send or receive */
	uint32_t stack;    /* index into rank.stacks */
	uint32_t run;      /* of c10d: index into rank.runs, RUN_NONE */
	uint32_t thread_id;
	uint32_t step;
	uint32_t matched_ranks; /* that began it, 0: not matched over the ranks */
	uint32_t match;         /* the same for all ranks that began it, numbered from 1; 0: not matched */
	int32_t last_rank;      /* the last to begin it */
	int32_t absent_rank;    /* the first of the group that did not, RANK_UNKNOWN: none */
	int32_t peer;           /* root or other rank in the group, -1: none */
	int32_t source;         /* of a send_receive: the rank that it gets from, -1: none, or any */
	uint8_t kind;           /* enum collective_kind */
	uint8_t operation;      /* enum collective_operation */
	uint8_t element_type;   /* enum collective_element */
	uint8_t mode;           /* enum collective_mode */
	uint8_t phase;          /* enum phase */
	uint8_t layer;          /* enum collective_layer: who was asked */
	/* Of the library: of c10d's those that it was seen to call. */
	uint8_t library;     /* enum collective_layer, LAYER_C10D: none was seen */
	uint32_t calls;      /* of its functions */
	uint32_t function;   /* the first of them: index into rank.operator_names, FUNCTION_NONE */
	uint32_t group_call; /* number of the group call of the thread, 0: in none */
	uint64_t handle;     /* of its communicator */
	uint64_t stream;     /* handle, 0: none or the default one */
	uint64_t caller;     /* where the call returned to: rank.symbols; 0: not kept */
	/* What goes to each rank and comes from it, in elements; counts are 0 where there are no such parts. */
	uint32_t splits; /* index into rank.splits: those of the input, then those of the output */
	uint32_t input_splits, output_splits;
	/* Of c10d: index into rank.collective_blocks: rows that it reads, that it writes, that are copied of these. */
	uint32_t blocks;
	uint32_t input_blocks, output_blocks, copy_blocks;
	uint64_t communication_bytes; /* of these, what exists only for communication, each block once */
	uint8_t division;             /* enum division */
	bool in_place;                /* result and argument are the same memory */
	bool average_by_sum;          /* c10d was asked for an average, the library for a sum */
	bool uneven;                  /* each rank may give another number of elements */
	bool folded;                  /* part of an earlier one; never in a finished rank */
	bool in_bucket;               /* of a bucket of gradients */
	bool differs;                 /* ranks began it with different kinds or sizes */
};

/* "" where unknown. */
const char *collective_kind_name(const struct collective *collective);      /* "all_reduce" */
const char *collective_operation_name(const struct collective *collective); /* "sum" */
const char *collective_type_name(const struct collective *collective);      /* "float32" */
const char *collective_mode_name(const struct collective *collective);      /* "eager" */
const char *collective_phase_name(const struct collective *collective);     /* "backward" */
const char *collective_layer_name(uint8_t layer);                           /* "nccl" */
const char *element_type_name(uint8_t type);                                /* of a c10::ScalarType: "float32" */
/* Bytes of so many elements; without their type, at least what their storages have. */
uint64_t collective_bytes(
	uint64_t elements, uint8_t type, const struct tensor_argument *tensors, uint32_t tensor_count);
/* Is it one that all ranks of the group begin? */
bool collective_is_common(const struct collective *collective);
bool collective_kind_is_common(uint8_t kind); /* enum collective_kind */
/* Does the rank give nothing, so that what counts is what it gets? */
bool collective_only_gets(const struct collective *collective);
/* How long a thread waited for it, UINT64_MAX: unknown. One that never was done was waited for until the trace ended.
 */
uint64_t collective_host_wait(const struct rank *rank, const struct collective *collective);
/* A reduction of one element, as for counts of tokens, norms and losses. */
bool collective_is_small(const struct collective *collective);
const char *collective_division_name(const struct collective *collective); /* "before", "" */

/* Where a rank's number comes from. */
enum rank_source { RANK_OF_LAUNCHER, RANK_OF_COMMUNICATOR, RANK_OF_ORDER };

struct rank {
	uint16_t target;
	int32_t rank;            /* place in the job */
	uint8_t rank_source;     /* enum rank_source */
	const char *job;         /* its name, "" unless there are several jobs */
	const char *target_json; /* the CAPTURE_TARGET text, for metadata, or NULL */
	const char *end_json;    /* the CAPTURE_END text, or NULL */

	const char **operator_names; /* stb_ds */
	struct stack *stacks;        /* stb_ds; stack 0 is the empty one */
	struct operator_run *runs;   /* stb_ds, in order of start */
	struct block *blocks;        /* stb_ds, by start, then in order of creation: the rows of the report */
	int64_t *users;              /* stb_ds: of all blocks, for each ascending */
	struct external *externals;  /* stb_ds, by first use */
	struct change *changes;      /* stb_ds, in order: the n-th leads to order n (block_alive_at) */
	int64_t task_count;
	uint32_t step_count; /* complete ones */
	struct step *steps;  /* stb_ds; the last one may be incomplete */

	struct device *devices; /* stb_ds, by name: all that showed up */
	uint64_t peak_bytes;    /* sum of the peaks of those that are reported, which are rarely at the same moment */

	struct segment *segments;              /* stb_ds, in the order in which they became known */
	struct segment_failure *failures;      /* stb_ds, the first of them */
	struct segment_release *releases;      /* stb_ds */
	struct out_of_memory *out_of_memories; /* stb_ds, the first of them */
	struct kernel *kernels;                /* stb_ds, in order of the first launch */
	struct group *groups;                  /* stb_ds, in order of the first collective */
	struct collective *collectives;        /* stb_ds, in order */
	uint64_t *splits;                      /* stb_ds: of all collectives */
	uint32_t *collective_blocks;           /* stb_ds: indices into blocks; UINT32_MAX: no row */
	struct symbol *symbols;                /* stb_ds, by address */
	uint64_t segment_failures, out_of_memory_count;
	uint64_t unknown_segment_frees;
	uint64_t unsized_segments; /* arrays and imported memory of which it is not known how large they are */

	uint64_t first_time_ns, last_time_ns; /* of the events; both 0 when there was none */
	uint64_t event_count;
	uint64_t allocations, allocated_bytes, frees, freed_bytes;
	uint64_t unknown_frees;    /* of addresses that were never seen */
	uint64_t untracked_blocks; /* allocations that are no rows: wrapped numbers, torch.tensor data */
	uint64_t untracked_bytes;  /* of those, still alive at the end */
	uint64_t reused_addresses; /* allocations at an address that was still believed alive */
	struct event_counters loss;
	struct window window;
	uint16_t capture;        /* that it is of */
	int64_t clock_offset_ns; /* to be added to its times, to compare them with those of the first capture */
	int64_t real_offset_ns;  /* CLOCK_REALTIME less its clock, 0: not known */
	uint64_t stacks_cut, arguments_cut;
	bool from_start;  /* traced since before its first operator */
	bool owners_told; /* what Python holds was read: a leaf is not more than its owner says */
};

struct model_options {
	bool all_blocks; /* track also what the dry run cannot see: torch.tensor data, small outside allocations,
	                    externals */
	struct device_choice devices;
};

struct model;

struct model *model_new(const struct model_options *options); /* NULL: no memory; options may be NULL */
void model_free(struct model *model);

/*
 * What comes from here on is of another capture: its targets are numbered from the value that is returned (-E2BIG:
 * there are too many), and its clock is not that of the others; `real_offset_ns` is CLOCK_REALTIME less CLOCK_MONOTONIC
 * there. Without a call, all is of one.
 */
int model_capture(struct model *model, int64_t real_offset_ns);
/*
 * A target; `rank`: what its launcher says, RANK_UNKNOWN: nothing; `from_start`: it is traced since before its first
 * operator. A second call corrects the first.
 */
int model_target(struct model *model, uint16_t target, int32_t rank, bool from_start, const char *json);
/*
 * Where a target comes from: the target that started it (-1: none), whether it forked and did no exec, and the name of
 * its job ("": unknown; copied). Without a call, from nowhere.
 */
int model_family(struct model *model, uint16_t target, int32_t parent, bool forked, const char *job);
int model_operator_name(struct model *model, uint16_t target, uint16_t index, const char *name, uint32_t flags);
/* What lies at an address of native code; the texts are copied. */
int model_symbol(
	struct model *model, uint16_t target, uint64_t address, const char *library, const char *name, uint32_t offset);
/* The name of the module object at an address, for stacks that come after it; copied. */
int model_module(struct model *model, uint16_t target, uint64_t object, const char *name);
/* What Python held a storage by at `time_ns` (enum owner_kind of capture.h); the name is copied. */
int model_owner(struct model *model, uint16_t target, uint64_t time_ns, unsigned int kind,
	const struct tensor_argument *storage, const char *name);
/* The type of the elements of a storage that an owner was just told of: c10::ScalarType and one more. */
void model_element_type(
	struct model *model, uint16_t target, const struct tensor_argument *storage, uint8_t element_type);
/*
 * The frames of a stack identity, outermost first and filtered; strings are
 * copied. Before the first event that refers to the identity. Another stack of
 * the same identity counts for the events after it.
 */
int model_stack(struct model *model, uint16_t target, uint64_t identity, const struct frame *frames, size_t frame_count,
	bool cut);
/*
 * Any record of event.h; unknown kinds and unknown targets are ignored, and so
 * is what a target sends after its interpreter began to shut down. -EINVAL: the
 * record is shorter than the lists it announces.
 */
int model_event(struct model *model, const struct event *event);
/* Of all targets of the capture; the last call counts. */
int model_window(struct model *model, uint64_t since_ns, uint64_t dropped_records, uint64_t dropped_bytes);
int model_loss(struct model *model, uint16_t target, const struct event_counters *counters);
int model_end(struct model *model, uint16_t target, const char *json);
/* Once; afterwards only the functions below. */
int model_finish(struct model *model);

/*
 * Completed optimizer steps of the slowest rank that is not at its end (of all, when all are); before model_finish
 * too. 0 without ranks.
 */
uint32_t model_steps(const struct model *model);

size_t model_rank_count(const struct model *model);
const struct rank *model_rank(const struct model *model, size_t index); /* by job and rank, after model_finish */

/* After model_finish: the symbol of an address, NULL when it is not known. */
const struct symbol *rank_symbol(const struct rank *rank, uint64_t address);

/* Nothing that the report rests on was lost. */
bool rank_complete(const struct rank *rank);

/* A workspace ends within the last task of its life, any other block at the next one. */
static inline int64_t block_end_task(const struct block *block)
{
	return block->category == CATEGORY_WORKSPACE ? block->end - 1 : block->end;
}

/* A change of the snapshot's own device. */
void snapshot_change(struct snapshot *snapshot, const struct change *change);

static inline bool block_alive_at(const struct block *block, uint32_t order)
{
	return block->first_order <= order && order < block->last_order;
}

/* Bytes of a block in the totals of its device. */
static inline uint64_t block_held_bytes(const struct block *block)
{
	return block->allocated_bytes ? block->allocated_bytes : block->bytes;
}

/* The innermost frame, or NULL. */
static inline const struct frame *stack_leaf(const struct stack *stack)
{
	return stack->frame_count ? &stack->frames[stack->frame_count - 1] : NULL;
}

/*
 * A plot coordinate as the report prints it, 12 decimals ("6.333333333333").
 * `task` is start or block_end_task; the text is at most
 * PLOT_TEXT_BYTES long with its NUL. PLOT_NONE gives the empty text.
 */
#define PLOT_TEXT_BYTES 40
const char *plot_format(char text[PLOT_TEXT_BYTES], int64_t task, uint64_t fraction);
/* Fraction of the k-th (from 1) of n events of one task: k/(n+1) of PLOT_UNIT, half to even. */
uint64_t plot_fraction(uint64_t k, uint64_t n);

#endif
