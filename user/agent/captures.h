/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full captures that the agent makes of a rank for some steps, when something
 * happens: `hdtrace record` in a process of its own, one at a time. Limits keep
 * them from harm: so many an hour, a pause for each rank, a quota and an age on
 * disk. What was being written when the agent ended is removed by the next one.
 */
#ifndef HDTRACE_AGENT_CAPTURES_H
#define HDTRACE_AGENT_CAPTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"
#include "agent/growth.h"
#include "live/live.h"

struct captures;

/* `config` is borrowed. NULL when memory is out. */
struct captures *captures_new(const struct agent_config *config);
/* The configuration is another from here on. */
void captures_configure(struct captures *captures, const struct agent_config *config);
/* One that is being made is ended, and kept. */
void captures_stop(struct captures *captures);

/*
 * At each look, after live_refresh: begins one where memory is near its end, grows or ran out, as the configuration
 * says; takes back those that are done; removes what is too much or too old. `run` gives the run of a rank, as the
 * store knows it (JOURNAL_RUN_BYTES).
 */
struct captures_run {
	void (*name)(void *context, const struct live_rank *rank, char *run);
	void *context;
};
void captures_look(struct captures *captures, const struct live *live, const struct growth *growth,
	const struct captures_run *run, uint64_t now_ns);

/* One of each rank, the next look on: somebody asked for it. */
void captures_ask(struct captures *captures);

struct captures_figures {
	uint64_t begun, refused, bytes;
};
void captures_figures(const struct captures *captures, struct captures_figures *figures);

#endif
