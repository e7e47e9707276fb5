/* SPDX-License-Identifier: BSD-2-Clause */
/* Folders, and records that are told apart by a number, for the tests of the store. */
#ifndef HDTRACE_TEST_STORE_RECORDS_H
#define HDTRACE_TEST_STORE_RECORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "containers/containers.h"
#include "store/drain.h"
#include "store/spool.h"

#define NUMBERED_RUN "0123456789abcdef"

/* A new folder, to be freed; it is removed with folder_remove. */
static inline char *folder_new(void)
{
	char *path = strdup("/tmp/hdtrace-store-XXXXXX");

	return mkdtemp(path);
}

static inline void folder_remove(char *path)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	if (system(command))
		abort();
	free(path);
}

static inline char *path_in(const char *folder, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		abort();
	return path;
}

/* A step whose key and contents follow from the number. */
static inline struct step_record step_numbered(int64_t number)
{
	return (struct step_record){
		.run = NUMBERED_RUN,
		.rank = number % 8,
		.start_time = 1700000000 + number,
		.step = number,
		.complete = 1,
		.duration_us = 1000 + number,
		.peak_bytes = number << 20,
	};
}

/* One number of the store; -1: it failed. */
static inline int64_t store_number(struct store *store, const char *sql)
{
	struct result result = {0};
	int64_t number = -1;

	if (!store_query(store, sql, NULL, 0, &result) && arrlenu(result.cells) && result.cells[0])
		number = strtoll(result.cells[0], NULL, 10);
	result_clear(&result);
	return number;
}

/* A store of SQLite in a folder. */
static inline struct store *store_new(const char *folder)
{
	char *path = path_in(folder, "audit.db"), fault[STORE_FAULT_BYTES];
	struct store *store = NULL;

	if (store_open(path, &store, fault) || store_init(store))
		abort();
	free(path);
	return store;
}

#endif
