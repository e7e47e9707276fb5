/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What following the blocks of the host may cost a job. Each that is made and each
 * that is freed is a hit of a probe: operators of a few microseconds make so many
 * that a step takes a quarter longer. A process where they cost more than is
 * allowed is followed in windows, so that it is less on average; at other times
 * only its resident size is looked at, and growth beyond what was seen opens a
 * window early. Where they cost less, as usual, every block is followed.
 *
 * Pure: the agent does what is decided here.
 */
#ifndef HDTRACE_AGENT_BUDGET_H
#define HDTRACE_AGENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Measured by tests/bench/overhead.py: 275 us longer a step with 227 hits of probes, each a record. */
#define BUDGET_HIT_SECONDS 1.2e-6

enum budget_state {
	BUDGET_FOLLOWED, /* every block of the host is seen */
	BUDGET_AWAY,     /* none is */
	BUDGET_RETURNING /* again, and what happened meanwhile is being found out */
};

/* Of one process; all 0 at its start. Times: CLOCK_MONOTONIC, ns. */
struct budget {
	enum budget_state state;
	uint64_t since_ns;             /* when the state was entered */
	uint64_t slice_ns, slice_hits; /* where the slice began over which hits are counted */
	uint64_t first_step;           /* complete steps when the window began */
	uint64_t away_until_ns, retry_ns;
	uint64_t returned_ns;    /* how long the last return took */
	uint64_t resident_bytes; /* the highest that was seen while it was followed */
	double cost;             /* of the last slice: time for hits over time */
	bool measured;
};

/* What is known of the process at a look. */
struct budget_facts {
	uint64_t now_ns;
	uint64_t hits;           /* of blocks of the host, since it is traced */
	uint64_t steps;          /* complete ones */
	uint64_t resident_bytes; /* 0: not known */
	bool settled;            /* what Python holds was read since the return, or it is not read at all */
};

enum budget_action { BUDGET_STAY, BUDGET_LEAVE, BUDGET_RETURN, BUDGET_SETTLE };

/*
 * Call it every 20 ms or so. `share`: of the time, 0.05; 1 and more: no limit. The action is to be carried out: the
 * state is the one behind it.
 */
enum budget_action budget_look(struct budget *budget, const struct budget_facts *facts, double share);

/* It could not be followed again: the next try is in a second. */
void budget_return_failed(struct budget *budget, uint64_t now_ns);

#endif
