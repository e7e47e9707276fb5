/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two kinds of store have to do, and what they share; only for the files of this room. */
#ifndef HDTRACE_STORE_BACKEND_H
#define HDTRACE_STORE_BACKEND_H

#include "store/place.h"
#include "store/store.h"

struct backend {
	int (*open)(struct store *store);
	void (*close)(struct store *store);
	int (*init)(struct store *store);
	int (*put)(struct store *store, const struct batch *batch);
	int (*query)(struct store *store, const char *sql, const struct parameter *parameters, size_t count,
		struct result *result);
	/* Rows of table, column and type, in order; and of the schema's version. */
	const char *columns_query, *version_query;
	const char *text_type, *number_type, *optional_type;
};

struct store {
	struct store_place place;
	const struct backend *backend;
	void *state; /* the backend's */
	const volatile sig_atomic_t *stop;
	char fault[STORE_FAULT_BYTES];
};

extern const struct backend sqlite_backend, clickhouse_backend;

static inline bool store_is_stopped(const struct store *store)
{
	return store->stop && *store->stop;
}

/* Sets the fault's text and returns `error`. */
int store_fail(struct store *store, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns `error`; when nobody said what is wrong, the fault's text is that of the errno. */
int store_result(struct store *store, int error);

/* What creates the schema: statements, stb_ds, each to be freed. */
char **schema_sqlite(void);
char **schema_clickhouse(const struct store_place *place);
void texts_free(char **texts); /* stb_ds */

/* The type of a column as the backend calls it. */
const char *column_type_name(const struct backend *backend, const struct column *column);
/* "run, rank, device" of all columns, or of the key's. To be freed. */
char *columns_text(const struct table *table, bool key_only);

#endif
