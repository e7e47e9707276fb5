/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The audit store: SQLite in a file, or ClickHouse over HTTP. Both have the
 * tables of table.h and, for each, a view with the run's job, user, model and
 * version beside its columns: queries are of the views, which are the same in
 * both.
 *
 * Functions return 0 or a negative errno; store_fault then says in one line
 * what is wrong and what to do.
 */
#ifndef HDTRACE_STORE_STORE_H
#define HDTRACE_STORE_STORE_H

#include <signal.h>

#include "store/row.h"

#define STORE_DEFAULT "/var/lib/hdtrace/audit.db"
#define SPOOL_DEFAULT "/var/lib/hdtrace/spool"
#define STORE_FAULT_BYTES 512

struct store;

/*
 * `url`: a path or sqlite:PATH; http[s]://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?cluster=NAME[&replicated=1]], or
 * clickhouse:// for http. `fault` gets the reason of a failure. The server is not spoken to yet.
 */
int store_open(const char *url, struct store **store, char fault[STORE_FAULT_BYTES]);
void store_close(struct store *store); /* accepts NULL */

/* From when it becomes 1 nothing waits for a store that does not answer: -EINTR. NULL: never. */
void store_stop_by(struct store *store, const volatile sig_atomic_t *stop);

/* What it was opened with, without a password. */
const char *store_name(const struct store *store);
const char *store_fault(const struct store *store);
/* The folder below `root` in which records wait for this store and for no other; to be freed, NULL: no memory. */
char *store_spool_folder(const struct store *store, const char *root);

/* Create what is not there yet. -EPROTO: there is another schema. */
int store_init(struct store *store);

/* Is it there, with the tables as they are here? -EPROTO: not; -ENOENT: there is none. */
int store_check(struct store *store);

/*
 * Rows of one table; those whose key is there already take their place. All of them are kept when it returns 0.
 * -EAGAIN: it may work later.
 */
int store_put(struct store *store, const struct batch *batch);

struct parameter {
	const char *name;
	enum column_type type;
	const char *text; /* of a text */
	int64_t number;
};

/* Rows of a query; cells are texts, NULL: the value is unknown. */
struct result {
	char **names;  /* stb_ds */
	bool *numbers; /* stb_ds: the column holds numbers */
	char **cells;  /* stb_ds, row by row */
};

/* Parameters are the columns of a table `parameter` with one row, for this query only. */
int store_query(
	struct store *store, const char *sql, const struct parameter *parameters, size_t count, struct result *result);
void result_clear(struct result *result);

#endif
