// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace agent`: follows all training processes of a machine, for as long as it runs. */
#include "agent/agent.h"

#include <argp.h>
#include <stdio.h>

#include "cli/cli.h"

enum option_key { KEY_CONFIG = 'c', KEY_CHECK = 256, KEY_PORT_FILE };

struct arguments {
	struct agent_options agent;
	bool check;
};

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case KEY_CONFIG:
		arguments->agent.config_path = text;
		return 0;
	case KEY_CHECK:
		arguments->check = true;
		return 0;
	case KEY_PORT_FILE:
		arguments->agent.port_path = text;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument %s", text);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int verb_agent(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"config", KEY_CONFIG, "FILE", 0, "its configuration (" CONFIG_DEFAULT ")", 0},
		{"check", KEY_CHECK, NULL, 0, "read the configuration, say what is wrong with it, and end", 0},
		{"port-file", KEY_PORT_FILE, "FILE", 0, "write the port of the endpoint to a file, once it listens", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.doc = "Follow all training processes of this machine: metrics, records for the audit store, captures "
		       "when something happens. SIGHUP: read the configuration again. SIGUSR1: a full capture of each "
		       "rank.",
	};
	struct arguments arguments = {.agent.config_path = CONFIG_DEFAULT};
	struct agent_config config;
	char fault[CONFIG_FAULT_BYTES];
	int error;

	argv[0] = "hdtrace agent";
	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &arguments))
		return STATUS_USAGE;
	error = agent_config_read(arguments.agent.config_path, &config, fault);
	if (error)
		fprintf(stderr, "hdtrace: %s\n", fault);
	else if (!arguments.check)
		error = agent_run(&arguments.agent, &config);
	agent_config_clear(&config);
	return error ? STATUS_FAILED : STATUS_COMPLETE;
}
