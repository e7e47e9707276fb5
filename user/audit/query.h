/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ready queries: each is a file NAME.sql in a folder, SQL that both kinds of
 * store understand, after comments that tell what it is:
 *
 *     -- title: One line
 *     -- about: More lines, any number
 *     -- parameter: NAME TYPE [= [DEFAULT]]: what it means
 *
 * TYPE is text, number, size (40G) or time (-7d, 2026-11-30, now). One without
 * "=" must be given. The SQL finds the values in a table `parameter` of one row.
 */
#ifndef HDTRACE_AUDIT_QUERY_H
#define HDTRACE_AUDIT_QUERY_H

#include "store/store.h"

#define QUERY_SUFFIX ".sql"
#define QUERY_FAULT_BYTES 256

enum query_type { QUERY_TEXT, QUERY_NUMBER, QUERY_SIZE, QUERY_TIME };

struct query_parameter {
	char *name, *meaning;
	char *fallback; /* NULL: it must be given */
	enum query_type type;
};

struct query {
	char *name, *path;
	char *title, *about;                /* about: lines, each ended; "" */
	struct query_parameter *parameters; /* stb_ds */
	char *sql;                          /* the whole file */
};

/*
 * Read a query's text, `length` bytes that are ended by a NUL. Returns 0, or -EBADMSG with what is wrong in which line.
 * Free with query_clear in any case.
 */
int query_parse(const char *text, size_t length, struct query *query, char fault[QUERY_FAULT_BYTES]);
void query_clear(struct query *query);

/*
 * All queries of folders, by name; of one name the first counts. Folders that are not there are passed over, files
 * that are no query are told to `fault` (the last one). stb_ds.
 */
struct query *queries_read(const char *const *folders, size_t count, char fault[QUERY_FAULT_BYTES]);
void queries_free(struct query *queries);

/*
 * The values of its parameters, of "NAME=VALUE" texts and defaults: stb_ds, texts are borrowed. `now`: Unix time. NULL
 * with the fault when one is wrong or missing.
 */
struct parameter *query_values(
	const struct query *query, const char *const *given, size_t count, int64_t now, char fault[QUERY_FAULT_BYTES]);

const char *query_type_name(enum query_type type);

#endif
