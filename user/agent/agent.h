/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent: traces every training process of its machine at LEVEL_LITE as they
 * come and go, tells their memory as metrics, keeps records for an audit store,
 * and makes full captures when something happens.
 */
#ifndef HDTRACE_AGENT_AGENT_H
#define HDTRACE_AGENT_AGENT_H

#include "agent/config.h"

struct agent_options {
	const char *config_path; /* read again at SIGHUP */
	const char *port_path;   /* a file that gets the port of the endpoint once it listens; NULL: none does */
};

/*
 * Until SIGINT or SIGTERM; SIGUSR1 asks for a full capture of each rank. `config` is the agent's then. 0, or a
 * negative errno: it could not begin, and said why.
 */
int agent_run(const struct agent_options *options, struct agent_config *config);

#endif
