/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a store is, read from its URL. */
#ifndef HDTRACE_STORE_PLACE_H
#define HDTRACE_STORE_PLACE_H

#include <stdbool.h>

struct store_place {
	bool is_server; /* ClickHouse; else a file of SQLite */
	char *path;     /* of the file */
	char *address;  /* "http://host:8123" */
	char *database, *user, *password;
	char *cluster; /* "": none */
	bool replicated;
	char *name; /* the URL without a password */
};

/* Returns NULL, or why the URL is none; place_clear in any case. The password may come from HDTRACE_STORE_PASSWORD. */
const char *place_parse(const char *url, struct store_place *place);
void place_clear(struct store_place *place);

#endif
