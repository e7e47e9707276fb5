/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the model keeps while events come in, shared by its files and by nobody
 * else. Events only append: runs in order of start, allocations in order of
 * creation, one timeline entry for each allocator event, one use for each
 * argument. Which of the runs were operators is known late, so everything that
 * is an index is worked out once, at the end, by passes over these arrays.
 */
#ifndef HDTRACE_MODEL_STATE_H
#define HDTRACE_MODEL_STATE_H

#include "containers/containers.h"
#include "model.h"
#include "stack.h"

#define NONE UINT32_MAX
/* Indices are 32 bits wide, and stay clear of NONE. */
#define INDEX_MAX (UINT32_MAX - 1)

/*
 * A block made outside operators is a row from this size on; below are the numbers
 * that Python wraps (8 bytes). At LEVEL_LITE factories are outside operators too.
 */
#define OUTSIDE_BYTES_MIN (1ull << 20)
#define OUTSIDE_BYTES_MIN_LITE 64

/* The entry for blocks older than the trace is always run 0; it goes when there are none. */
#define RUN_PREEXISTING 0u

enum run_state {
	RUN_OPEN,    /* a candidate whose frame is alive */
	RUN_RAN,     /* it is the operator */
	RUN_DROPPED, /* only a way to other operators: what it did belongs to run.into */
};

/* Where the name of a run comes from, when it is no operator. */
enum run_source { SOURCE_OPERATOR, SOURCE_PREEXISTING, SOURCE_RESIZE, SOURCE_OUTSIDE, SOURCE_SEGMENT };

struct run {
	uint64_t time_ns;
	uint32_t operator_; /* index of the operator's name; meaningless for other sources */
	uint32_t thread_id;
	uint32_t step;
	uint32_t stack;
	uint32_t into;  /* run that a dropped one belongs to, NONE: outside operators */
	uint8_t state;  /* enum run_state */
	uint8_t source; /* enum run_source */
	uint8_t flags;  /* enum event_flag */
	uint32_t launches;
	struct autograd_node next, evaluated; /* of an operator: operator_event */
};

enum allocation_flag {
	ALLOCATION_EXTERNAL = 1 << 0,    /* never seen by the allocator hooks, target traced from its start */
	ALLOCATION_PREEXISTING = 1 << 1, /* never seen by them, target attached to later */
	ALLOCATION_OUTSIDE = 1 << 2,     /* made outside operators, with a run of its own */
	ALLOCATION_SCRATCH = 1 << 3,     /* freed while the frame that made it was alive: Workspace */
	ALLOCATION_PARAMETER = 1 << 4,   /* a leaf that gradients were made for */
	ALLOCATION_GRADIENT = 1 << 5,    /* stored as the gradient of a leaf */
	ALLOCATION_TRACKED = 1 << 6,     /* a row, unless it is scratch of an operator that is no task */
	ALLOCATION_LIFTED = 1 << 7,      /* its first user is an OPERATOR_LIFT */
	ALLOCATION_USED = 1 << 8,        /* it has a user */
	ALLOCATION_LIBRARY = 1 << 9,     /* made by a library for itself, inside an operator: Workspace, however long */
	ALLOCATION_REMAINDER = 1 << 10,  /* what is older than the trace and no other allocation stands for */
};

/* More in one process are ignored. */
#define DEVICES_MAX 64
#define STREAMS_MAX 4096
#define DEVICE_HOST 0u /* place of the CPU, which is always there */

/* One lifetime of one address. */
struct allocation {
	uint64_t address;
	uint64_t bytes;           /* of the storage, once an argument showed it */
	uint64_t allocated_bytes; /* 0: never seen */
	uint64_t start_time_ns, end_time_ns;
	uint32_t run;   /* whose frame was innermost, NONE: outside operators */
	uint32_t stack; /* for those outside operators */
	uint32_t generation;
	uint32_t first_order, last_order; /* timeline positions; NONE: alive at the end */
	uint32_t resized_from;            /* allocation that a storage resize replaced by this one */
	uint32_t leaf;                    /* allocation that this is stored as the gradient of, NONE: not known */
	uint32_t released_in;             /* run of a backward pass in whose node it was freed, NONE */
	const char *owner;                /* of model_text; NULL: not known */
	uint16_t flags;
	uint16_t stream;      /* index into the device's */
	uint8_t device;       /* index into target_state.devices */
	uint8_t holder;       /* enum owner_kind */
	uint8_t element_type; /* of block */
	uint8_t owner_source; /* enum owner_source */
};

/* What a row says: of the storage, else of the block, which may be known by its free alone. */
static inline uint64_t allocation_shown_bytes(const struct allocation *allocation)
{
	return allocation->bytes ? allocation->bytes : allocation->allocated_bytes;
}

/* A device while events come in. */
struct device_state {
	struct device device; /* what becomes public */
	uint64_t before;      /* bytes that its allocator had given out before the trace */
	uint64_t allocated;   /* its total now */
};

/* One allocator event: what, in which frame, and how many runs had started. */
struct moment {
	uint32_t allocation;
	uint32_t run; /* whose frame was innermost, NONE: outside operators */
	uint32_t runs_started;
	bool is_free;
	bool by_resize; /* the free of a storage that a resize outside operators emptied or replaced */
	bool unseen;    /* of a free: no event, but its address was given out again */
};

/* A segment begins or ends. */
struct segment_moment {
	uint32_t segment;
	bool is_end;
};

/* A total that an allocator told and that does not follow from what was seen before: that was not all. */
struct correction {
	uint64_t live_bytes, time_ns;
	uint32_t moments; /* before it */
	uint8_t device;
};

/* An argument of a run. */
struct use {
	uint32_t run;
	uint32_t allocation;
};

/* The run that autograd stored a gradient with, and the gradient that came in. */
struct accumulation {
	uint32_t run;
	uint32_t allocation;
	uint32_t leaf; /* allocation */
	bool by_hook;  /* an operator of Python code that the engine called meanwhile */
};

enum frame_kind {
	FRAME_UNKNOWN,   /* its record was lost */
	FRAME_CANDIDATE, /* HOOK_CALL: may be the operator itself */
	FRAME_RUNNING,   /* HOOK_REDISPATCH: is the operator */
	FRAME_NESTED,    /* inside a running operator: run is that operator's */
};

struct operator_frame {
	uint32_t run; /* NONE when the record was lost */
	uint16_t operator_;
	uint8_t kind;       /* enum frame_kind */
	bool unguarded;     /* autograd was not excluded when it was entered */
	bool runs;          /* a nested operator with autograd excluded proved that its kernel runs */
	bool has_operators; /* operators of their own came inside */
	bool led_elsewhere; /* one of them boxed: a class of tensors answered the call by others */
	bool threw;         /* an exception was thrown inside, and nothing was allocated since */
};

struct thread {
	uint32_t thread_id;
	struct operator_frame *frames; /* stb_ds */
	uint32_t last_run;             /* whose arguments EVENT_TENSORS continues; NONE: ignored */

	/* A storage resize outside operators, until its allocation, then until its free. */
	uint32_t resize_from;  /* allocation, NONE */
	uint32_t resize_to;    /* allocation, NONE */
	uint64_t resize_bytes; /* 0: none announced */

	/* Gradient being stored. */
	uint32_t storing;      /* allocation, NONE */
	uint32_t accumulating; /* the same, until the engine's first operator after it */
	uint32_t leaf;         /* allocation that the gradient is for, NONE */

	bool met; /* an operator of its was seen */

	uint32_t evaluating; /* the last run, if it works for a node of autograd's graph, NONE */

	uint32_t last_device_block; /* allocation of a device that the thread made last, NONE */
	bool resizing;              /* a storage is about to get its memory */
	bool resized;               /* last_device_block is that memory */

	struct segment doubtful;  /* a call whose result is not known, bytes 0: none */
	bool doubtful_unchanged;  /* nothing was written where its result was to go */
	bool doubtful_unreadable; /* what was, is gone */
	uint32_t freed;           /* the segment that the last call gave back, NONE */
	bool freed_unknown;       /* it was memory that is not known */
	uint32_t last_segment;    /* that the thread got, until its next block; NONE */
	uint32_t release;         /* index into rank.releases, while they are given back; NONE */

	uint32_t collective; /* the last of c10d that it began, index into result.collectives; NONE */
	uint32_t *grouped;   /* stb_ds: what a library was asked for in the group call that is open */

	uint32_t *ranges; /* stb_ds: handles of the profiler ranges that are open, innermost last */

	struct thread_kind kind;
	struct step_place place;
};

struct address_state {
	uint32_t live;     /* allocation, NONE */
	uint32_t count;    /* of the allocations there so far */
	uint32_t external; /* the untracked storage seen there, NONE */
};

struct target_state {
	uint16_t target;
	bool ended;                         /* nothing counts any more */
	bool all_blocks;                    /* of the options */
	const struct device_choice *choice; /* of the options */
	uint32_t steps;
	char *target_json, *end_json;

	const char **operator_names; /* stb_ds, NULL where no name came */
	uint8_t *operator_flags;     /* stb_ds, the same length */

	struct stack *stacks; /* stb_ds */
	bool *stack_known;    /* stb_ds: its frames came */
	struct {
		uint64_t key;
		uint32_t value;
	} * stack_index; /* stb_ds map: identity to index */

	struct {
		uint32_t key;
		struct thread *value;
	} * threads; /* stb_ds map */
	struct thread *last_thread;

	struct {
		uint64_t key;
		const char *value;
	} * modules; /* stb_ds map: names of objects, of model_text */

	struct device_state *devices; /* stb_ds */

	struct {
		uint64_t key; /* address_key */
		struct address_state value;
	} * addresses; /* stb_ds map */

	uint32_t *live_segments;                /* stb_ds: indices into result.segments, by address */
	uint32_t *unplaced;                     /* stb_ds: the same of those at no known address */
	struct segment_moment *segment_moments; /* stb_ds */
	bool pools_are_blocks;                  /* segments_meet_pytorch */
	struct {
		uint64_t key;
		bool value;
	} * allocators; /* stb_ds map: callers whose segments have blocks of an allocator */
	struct {
		uint64_t key;
		uint32_t value;
	} * kernel_index; /* stb_ds map: stub or launcher to index into result.kernels */

	struct run *runs;                   /* stb_ds */
	struct allocation *allocations;     /* stb_ds */
	struct moment *moments;             /* stb_ds */
	struct correction *corrections;     /* stb_ds, in order */
	struct use *uses;                   /* stb_ds */
	struct accumulation *accumulations; /* stb_ds */
	struct {
		uint64_t key;
		uint32_t value;
	} * works;                        /* stb_ds map: c10d::Work to index into result.collectives */
	uint32_t first_bucket;            /* collective from which on buckets of gradients are waited for */
	uint32_t *collective_allocations; /* stb_ds: of all collectives; becomes result.collective_blocks */

	int32_t parent; /* index of the target that started it, -1: none */
	bool forked;    /* it did no exec since */
	bool runs_python;
	bool trained;    /* it ran a backward pass */
	const char *job; /* model_text, "": unknown */

	struct rank result; /* counters from the start on, the rest at the end */
};

/* A capture that targets are of. */
struct source {
	int64_t real_offset_ns;
	struct window window;
};

struct model {
	struct model_options options;
	struct source *sources;        /* stb_ds, at least one */
	struct target_state **targets; /* stb_ds, by index; NULL: not announced */
	struct target_state **order;   /* stb_ds, after model_finish: by rank */
	struct {
		char *key;
		int value;
	} * texts; /* stb_ds string map: every text once */
	bool finished;
};

/* The one copy of a text that the model keeps. */
const char *model_text(struct model *model, const char *text);

/* job.c */
/* Is it a rank, as far as is known: not a launcher of ranks, nor what a rank started for other work? */
bool target_is_rank(const struct model *model, const struct target_state *target);
/* Has anything happened in it? */
bool target_was_active(const struct target_state *target);
/* Give each rank its number and its job. */
void ranks_number(struct model *model);

/* collective.c */
int collective_begin(struct target_state *target, const struct collective_event *event);
/* The index of a communicator, made when it is new. `layer`: enum collective_layer. */
uint32_t group_find(struct target_state *target, uint8_t layer, uint64_t address, int32_t rank, int32_t size);
/* What both kinds of collectives begin with; its stack, phase and step. */
struct collective collective_of(
	struct target_state *target, const struct event *event, uint64_t stack, enum collective_kind kind);
/* -E2BIG: there are too many. */
int collective_add(struct target_state *target, const struct collective *collective);

/* What became of a collective's work. */
int work_note(struct target_state *target, const struct work_event *event);

/* library_collective.c */
int library_collective_begin(struct target_state *target, const struct library_collective_event *event);
/* No more events come: what is one is made one, and collectives get their numbers. */
void collectives_finish(struct target_state *target);
/* matching.c */
/* matching.c: after the ranks have their numbers. */
void collectives_match(struct model *model);

/* stack.c */
void stack_clear(struct stack *stack);
uint32_t stack_find(struct target_state *target, uint64_t identity);
int stack_put(struct model *model, struct target_state *target, uint64_t identity, const struct frame *frames,
	size_t frame_count, bool cut);

/* operator.c */
struct thread *thread_find(struct target_state *target, uint32_t thread_id);
void thread_free(struct thread *thread);
/* Frames at `depth` and above have ended. */
void thread_trim(struct target_state *target, struct thread *thread, uint32_t depth);
/* Run of the frame that an event at this depth happened in, NONE: outside operators. */
uint32_t thread_run(const struct thread *thread, uint32_t depth);
/* As stack_flags. */
uint8_t flags_in_thread(struct target_state *target, const struct event *event, uint32_t stack);
uint32_t run_add(struct target_state *target, const struct event *event, enum run_source source, uint64_t stack);
/* Is it a run of an operator with this flag (enum operator_flag)? */
bool run_has(const struct target_state *target, const struct run *run, uint8_t flag);
/* The run that the work of `run` belongs to, NONE: outside operators. After every frame ended. */
uint32_t run_resolve(const struct target_state *target, uint32_t run);
int operator_enter(struct target_state *target, const struct operator_event *event);
/* An operator without a frame that is followed: what it calls stands on its own. NONE: there are too many. */
uint32_t operator_note(struct target_state *target, const struct event *event, uint64_t stack,
	const struct tensor_argument *tensors, uint32_t tensor_count);
/* An exception is thrown: the operators that are alive fail if nothing more is allocated in them. */
int operator_throw(struct target_state *target, const struct event *event);
int operator_tensors(struct target_state *target, const struct tensors_event *event);
void operators_end(struct target_state *target);
/* The program came to its end: a step that was going on is complete. */
void steps_end(struct target_state *target);

/* memory.c */
int memory_allocate(struct target_state *target, const struct allocate_event *event);
int memory_free(struct target_state *target, const struct free_event *event);
int memory_device_allocate(struct target_state *target, const struct device_allocate_event *event);
int memory_device_free(struct target_state *target, const struct device_free_event *event);
int memory_device_request(struct target_state *target, const struct device_request_event *event);
int memory_resize(struct target_state *target, const struct resize_event *event);
/* The innermost profiler range of a thread ends, and its handle with it. */
void memory_range_end(struct target_state *target, struct thread *thread, const struct event *event);
/* What Python held a storage by at a time; `name` is of model_text. */
void memory_owner(struct target_state *target, uint64_t time_ns, unsigned int kind,
	const struct tensor_argument *storage, const char *name);
void memory_element_type(struct target_state *target, const struct tensor_argument *storage, uint8_t element_type);
int memory_gradient(struct target_state *target, const struct gradient_event *event);
/* The allocation alive at an argument's address, made when there is none; NONE: no room. */
uint32_t memory_argument(
	struct target_state *target, const struct event *event, const struct tensor_argument *argument);
/* The gradient that a thread was storing is stored if it is still alive. */
void gradient_settle(struct target_state *target, struct thread *thread);

/* Index of a device, made when it is new; DEVICES_MAX: there are too many. */
uint8_t device_find(struct target_state *target, uint8_t type, uint8_t index);
/* A segment as a block, where there is no allocator of blocks above the driver. */
int memory_segment_begin(struct target_state *target, uint32_t segment, const struct event *event);
int memory_segment_end(struct target_state *target, uint32_t segment, const struct event *event);

/* segment.c */
int segment_event(struct target_state *target, const struct segment_event *event);
int memory_exhausted(struct target_state *target, const struct out_of_memory_event *event);
int kernel_launch(struct target_state *target, const struct launch_event *event);
/* The allocator of a device gives out a block, and holds `more` bytes than before. */
void segment_block(struct target_state *target, struct thread *thread, uint8_t device, uint64_t address, uint64_t more);
/* Mapped memory that a block lies in was given, whatever was seen of the call. */
void mappings_confirm(struct target_state *target, uint64_t address, uint64_t bytes);
/* There are operators or blocks of an allocator: of what drivers give, blocks are what comes from their pools. */
int segments_meet_pytorch(struct target_state *target);
/* A program without PyTorch: all that the driver gave it are its blocks. */
int segments_become_blocks(struct target_state *target);
/* No more events come. */
void segments_finish(struct target_state *target);
void segments_total(struct target_state *target);

/* finish.c */
int target_finish(struct model *model, struct target_state *target);

/* What was alive on a device when a run ended, and at most until then. */
struct run_totals {
	uint64_t live_bytes, peak_bytes;
};

/* Of a region, from its first run up to behind its last; those of other threads are in between. */
struct region_runs {
	uint32_t first, end;
};

/* Shared by the passes at the end. */
struct passes {
	struct target_state *target;
	uint32_t *resolved;     /* for each run: run_resolve */
	uint32_t *use_start;    /* for each run and one more: its slice of used */
	uint32_t *used;         /* allocations, grouped by run, each once for a run */
	uint32_t *made;         /* for each run: blocks it made that outlive it */
	int64_t *task;          /* for each run: its index or TASK_NONE */
	uint32_t *tasks_before; /* for each run and one more: tasks among the runs before it */
	uint32_t *maker;        /* for each run of a backward pass: the run whose node it works for, NONE */
	uint32_t *region;       /* for each run: number of the call of compiled code that it is part of, 0: none */
	struct region_runs *region_runs; /* by that number */
	uint32_t *public_run;            /* for each run: index into rank.runs, NONE: not there */
	uint32_t *row;                   /* for each allocation: index into rank.blocks, NONE: no row */
	uint32_t remainder_name;         /* index into rank.operator_names */
	struct run_totals **totals;      /* for each device that is reported, for each public run; NULL for others */
};

/* task.c */
void passes_number_tasks(struct passes *passes);
/* Is an allocation an argument of a run? */
bool run_uses(const struct passes *passes, uint32_t run, uint32_t allocation);
/* nodes.c: for each run of a backward pass the operator that it belongs to. `runs` are the public ones. */
void passes_link_nodes(struct passes *passes, struct operator_run *runs);
/* compiled.c: regions of compiled code. */
void passes_find_regions(struct passes *passes);
/* The run whose node the region of a run works for, NONE: not known, or in no region. */
uint32_t region_maker(const struct passes *passes, uint32_t run);
/* Is an allocation an argument of any run of the region of this one? */
bool region_uses(const struct passes *passes, uint32_t run, uint32_t allocation);
/* saved.c: what nodes of autograd's graph held, as its end shows. */
int passes_conclude_saved(struct model *model, struct passes *passes, const struct operator_run *runs);
/* steps.c: before totals are made, after runs and totals are there, and after collectives were matched over the ranks.
 */
void passes_begin_steps(struct passes *passes);
void passes_fill_steps(struct passes *passes);
void rank_add_collectives_to_steps(struct rank *rank);
/* rows.c */
void passes_make_rows(struct passes *passes);
/* remainder.c */
/* All that is known to be older than the trace, as the allocator counts it as far as that is known. */
uint64_t older_total(const struct target_state *target, size_t device);
/* Before tasks are numbered. */
void remainders_add(struct target_state *target);
/* totals.c */
void passes_total(struct passes *passes);
void passes_snapshot(struct passes *passes);
/* What is known of less than there is, is Other. */
void snapshot_complete(struct snapshot *snapshot, uint64_t total);
/* communication.c: after rows and steps are there. */
void passes_communicate(struct passes *passes);
/* changes.c */
void passes_change(struct passes *passes);
/* Is an allocation on a device that is reported? */
bool allocation_is_reported(const struct target_state *target, const struct allocation *allocation);
/* Alive from that time on; neither made by a run nor resized, as far as is known. */
struct allocation allocation_begin(uint8_t device, uint64_t address, uint64_t time_ns);
uint64_t allocation_total_bytes(const struct allocation *allocation);

#endif
