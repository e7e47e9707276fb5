/* SPDX-License-Identifier: BSD-2-Clause */
/* What the live accounting keeps, shared by its files and by nobody else. */
#ifndef HDTRACE_LIVE_STATE_H
#define HDTRACE_LIVE_STATE_H

#include "containers/containers.h"
#include "live/live.h"
#include "model/stack.h"
#include "replay/code_table.h"

/* --- places: names that blocks have in common ------------------------------------ */

#define PLACE_NONE 0u  /* nothing is known */
#define PLACE_OTHER 1u /* the table is full */
#define PLACES_FIRST 2u

enum side { SIDE_HOST, SIDE_DEVICE, SIDES };

struct place {
	const char *name; /* of the map below */
	uint64_t bytes[SIDES], blocks[SIDES];
};

struct places {
	struct place *places; /* stb_ds */
	struct {
		char *key;
		uint16_t value;
	} * index; /* stb_ds string map */
};

void places_begin(struct places *places);
void places_free(struct places *places);
/* The place of that name, PLACE_OTHER when there are `max` already; PLACE_NONE for "". */
uint16_t place_find(struct places *places, const char *name, size_t max);

/* --- blocks ------------------------------------------------------------------------ */

enum block_flag {
	BLOCK_PARAMETER = 1 << 0,
	BLOCK_GRADIENT = 1 << 1,
	BLOCK_WORKSPACE = 1 << 2,
	BLOCK_PREEXISTING = 1 << 3,
	BLOCK_UNSEEN = 1 << 4, /* since the blocks of the host are followed again */
};

struct live_block {
	uint64_t bytes;
	uint32_t used_step; /* complete steps when an operator had it last as an argument, or when it was made */
	uint16_t place[LIVE_TABLES];
	uint8_t device, category, phase;
	uint8_t holder; /* enum owner_kind */
	uint8_t flags;  /* enum block_flag */
};

/* Who makes a block. */
struct maker {
	uint16_t place[LIVE_TABLES];
	uint8_t phase;
	bool stores; /* an operator that makes a gradient of the one that came in */
};

/* --- threads -------------------------------------------------------------------------- */

/* As in the cache of the BPF programs (bpf/stack.h), which send a stack without its frames while it is in there. */
#define STACK_SLOTS 1024

/* What a stack means. */
struct meaning {
	uint64_t identity;
	struct stack stack; /* without its frames */
	uint16_t place[LIVE_TABLES];
};

struct strand {
	uint32_t thread_id;
	uint64_t last_ns;
	struct thread_kind kind;
	struct step_place step;
	struct maker *frames;  /* stb_ds: operators that are alive, innermost last */
	struct meaning *slots; /* STACK_SLOTS, NULL: it sent no stack */
	uint64_t accumulating; /* key of the gradient that is being stored, until the thread's next operator */
	uint64_t last_block;   /* key of the device block that the thread made last */
	unsigned int ranges;   /* of the profiler, that are open inside an optimizer's step */
};

/* --- ranks ------------------------------------------------------------------------------ */

#define RING_COLLECTIVES 256

/* The last collectives of a communicator: number n at n % RING_COLLECTIVES, from 1. */
struct ring {
	uint64_t time_ns[RING_COLLECTIVES + 1];
	uint8_t kind[RING_COLLECTIVES + 1];
	uint64_t counted;   /* numbers whose waits are in the sum */
	uint16_t reference; /* target that `offset` is to */
	int64_t offset;     /* number here + offset: number there */
	bool aligned;
};

struct live_segment {
	uint64_t bytes;
	uint8_t device;
};

struct state {
	struct live_rank rank;     /* what becomes public */
	int32_t parent, told_rank; /* what its launcher says */
	bool forked, trained, runs_python;
	uint64_t step_start_ns;  /* of the step that is going on, 0: unknown */
	uint64_t older_until_ns; /* until then what was not seen being made may show up; 0: there is nothing older */
	uint64_t back_ns;        /* when the blocks of the host were followed again; 0: they are not */
	uint32_t away_step;      /* complete steps when they were left */
	struct {
		uint64_t key; /* block_key */
		struct live_block value;
	} * blocks; /* stb_ds map */
	struct {
		uint64_t key; /* address */
		struct live_segment value;
	} * segments; /* stb_ds map */
	struct {
		uint32_t key;
		struct strand *value;
	} * strands; /* stb_ds map */
	struct {
		uint16_t key;
		uint8_t value; /* enum operator_flag */
	} * ranges;            /* stb_ds map: operators that begin or end a profiler's range */
	struct {
		uint64_t key;
		char *value;
	} * modules; /* stb_ds map: names of objects */
	struct places places[LIVE_TABLES];
	struct code_table *codes;
	struct ring *rings[LIVE_GROUPS_MAX]; /* by group */
};

struct live {
	struct live_limits limits;
	struct state **states; /* stb_ds, by target */
};

/* blocks.c */
uint8_t live_device_find(struct state *state, uint8_t type, uint8_t index); /* LIVE_DEVICES_MAX: there are too many */
void blocks_take(struct live *live, struct state *state, struct strand *strand, const struct event *event);
void blocks_argument(struct live *live, struct state *state, uint64_t time_ns, const struct tensor_argument *argument);
void blocks_owner(struct live *live, struct state *state, const struct owner_record *record);
void blocks_gradient(struct live *live, struct state *state, struct strand *strand, const struct gradient_event *event);
/* What an operator with these arguments does with the gradient that its thread stores; returns whether it makes one. */
bool blocks_store(struct state *state, struct strand *strand, const struct tensor_argument *tensors, size_t count);
void blocks_refresh(struct state *state);
/* Blocks of the host: what could not be seen ending (live_host_back); what was not seen again (live_host_settled). */
void blocks_host_back(struct state *state);
void blocks_host_settled(struct state *state, uint64_t now_ns, bool whole);

/* threads.c */
struct strand *strand_find(struct live *live, struct state *state, const struct event *event);
void strand_free(struct strand *strand);
void strand_trim(struct strand *strand, size_t depth);
/* Who makes what comes at this depth of a thread, with that stack of its own. */
struct maker strand_maker(struct live *live, struct state *state, struct strand *strand, const struct event *event);
void operator_take(struct live *live, struct state *state, struct strand *strand, const struct operator_event *event);
void tensors_take(struct live *live, struct state *state, const struct tensors_event *event);

/* collectives.c */
void collective_take(struct state *state, const struct collective_event *event);
void library_collective_take(struct state *state, const struct library_collective_event *event);
void collectives_refresh(struct live *live);

#endif
