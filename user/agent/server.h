/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint that Prometheus asks: /metrics, and /health for those who look
 * after services. It has a thread of its own and copies of the texts, so that
 * no client, slow or hostile, is ever waited for.
 */
#ifndef HDTRACE_AGENT_SERVER_H
#define HDTRACE_AGENT_SERVER_H

#include <stddef.h>
#include <stdint.h>

struct server;

struct server_options {
	const char *address; /* IPv4 or IPv6 */
	uint16_t port;       /* 0: any that is free */
	/* Files, "" for none: of TLS, in PEM; and one with the token that a client must send ("Authorization: Bearer
	 * …"). */
	const char *certificate, *key, *token;
};

#define SERVER_FAULT_BYTES 512

/* Returns 0, or a negative errno with the reason in one line. */
int server_start(const struct server_options *options, struct server **server, char fault[SERVER_FAULT_BYTES]);
void server_stop(struct server *server); /* accepts NULL */

uint16_t server_port(const struct server *server);

struct server_page {
	char *text; /* NULL: none, which is served as 503 */
	size_t length;
};

/* What is served from here on; the texts are the server's then. */
void server_publish(struct server *server, struct server_page text, struct server_page open_metrics);

#endif
