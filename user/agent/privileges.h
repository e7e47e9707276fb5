/* SPDX-License-Identifier: BSD-2-Clause */
/* What an agent keeps of root's powers once it runs, however it was started. */
#ifndef HDTRACE_AGENT_PRIVILEGES_H
#define HDTRACE_AGENT_PRIVILEGES_H

/*
 * Give up every capability that an agent does not need, for good: out of the bounding set too, so that no program it
 * starts has them again. What was not there before is not there after. To be called while there is one thread only.
 * Returns 0 or a negative errno.
 */
int privileges_drop(void);

#endif
