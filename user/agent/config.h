/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's configuration: a file of sections and `name = value` lines (INI),
 * of which packaging/agent/agent.conf explains each. What is not given has the
 * value that stands there.
 */
#ifndef HDTRACE_AGENT_CONFIG_H
#define HDTRACE_AGENT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define CONFIG_DEFAULT "/etc/hdtrace/agent.conf"
#define CONFIG_FAULT_BYTES 512
#define CAPTURES_HOURLY_MAX 60

struct agent_config {
	/* [agent] */
	char *node;      /* label of all that is told; "": the name of the machine */
	double interval; /* seconds between two looks at what jobs hold */
	uint64_t ring_bytes;
	uint64_t device_bytes;  /* of each accelerator whose driver does not tell; 0: not known */
	double growth_interval; /* seconds between two samples of growth */
	bool owners, steps;     /* read what Python holds; count steps */
	double host_percent;    /* of its time that following the blocks of the host may cost a process */

	/* [metrics] */
	char *address; /* "127.0.0.1", "::1", "" : no endpoint */
	uint64_t port;
	char *certificate, *key, *token; /* files; "": none */
	uint64_t ranks;                  /* that have series of their own: others are summed up in one */

	/* [store] */
	char *store, *spool; /* as of `hdtrace store`; an empty store: none */
	uint64_t spool_bytes;
	double period; /* seconds that a record of memory is about */

	/* [captures] */
	char *captures; /* folder; "": none is made */
	uint64_t capture_steps;
	double capture_seconds; /* that one takes at most */
	uint64_t per_hour;
	double pause; /* seconds between two of one rank */
	uint64_t quota_bytes;
	double age;            /* seconds that one is kept */
	double peak_percent;   /* of the device: from there on one is made; 0: never */
	uint64_t growth_bytes; /* an hour; 0: never */
	bool out_of_memory;
};

/*
 * Read the file. 0; a negative errno when it cannot be read; -EINVAL when
 * something in it is wrong. `fault` says which line and why, in one line.
 */
int agent_config_read(const char *path, struct agent_config *config, char fault[CONFIG_FAULT_BYTES]);
void agent_config_clear(struct agent_config *config);

/* Would only programs of this machine reach the endpoint? */
bool address_is_loopback(const char *address);

#endif
