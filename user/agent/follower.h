/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows the blocks of the host of each process as its budget allows (budget.h). */
#ifndef HDTRACE_AGENT_FOLLOWER_H
#define HDTRACE_AGENT_FOLLOWER_H

#include <stdbool.h>

#include "live/live.h"
#include "record/recorder.h"

struct follower;

/* `owners`: the recording reads what Python holds. NULL: no memory. */
struct follower *follower_new(bool owners);
void follower_free(struct follower *follower);

/* After each reading of the ring. `share` as in budget.h. */
void follower_tick(struct follower *follower, struct live *live, struct recording *recording, double share);

#endif
