/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the agent keeps of the ranks of its machine, as records of the audit
 * store (store/record.h): of each device one record a period, what held memory
 * when it was highest in that, each time that memory ran out.
 *
 * A run is told by what its launcher calls the job, which is the same on all
 * machines and after a restart of the agent; where nothing does, by machine,
 * process and the time at which that was started.
 */
#ifndef HDTRACE_AGENT_JOURNAL_H
#define HDTRACE_AGENT_JOURNAL_H

#include <stdint.h>

#include "live/live.h"
#include "store/spool.h"

#define JOURNAL_RUN_BYTES 17 /* 16 digits and NUL */

struct journal;

/* `node` is borrowed; NULL when memory is out. */
struct journal *journal_new(const char *node);
void journal_free(struct journal *journal);

/* Of CLOCK_REALTIME and CLOCK_MONOTONIC, in ns. */
struct journal_time {
	int64_t real_ns;
	uint64_t monotonic_ns;
};

/*
 * Follow what is held now: to be called at each look, after live_refresh. Records of periods that are over, of ranks
 * that ended and of memory that ran out are put into the spool, not committed yet. `spool` may be NULL: nothing is
 * kept then. Returns how many records were put, or a negative errno of spool_put (what found no room is lost).
 */
int journal_look(
	struct journal *journal, struct live *live, struct spool *spool, struct journal_time now, uint64_t period_ns);

/* The periods of all ranks end here. As journal_look. */
int journal_end(struct journal *journal, struct live *live, struct spool *spool, struct journal_time now);

/* The run of a rank, as records have it. */
void journal_run(const struct journal *journal, const struct live_rank *rank, char run[JOURNAL_RUN_BYTES]);

#endif
