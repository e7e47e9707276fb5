// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace audit`: ready questions to the audit store. */
#include <argp.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"
#include "audit/query.h"
#include "audit/table_output.h"
#include "cli/cli.h"
#include "containers/containers.h"

#define QUERIES_ADMINISTRATOR "/etc/hdtrace/queries"
/* Beside the program: where it is installed, and in the source tree. */
#define QUERIES_INSTALLED "../share/hdtrace/queries"
#define QUERIES_SOURCE "../queries"
#define LIMIT_DEFAULT 50

enum option_key { KEY_STORE = 256, KEY_FORMAT_OF_ANSWER, KEY_LIMIT, KEY_QUERIES, KEY_SHOW };

struct arguments {
	const char *store, *name;
	enum answer_format format;
	size_t limit;
	bool limit_is_given, show;
	char **folders;     /* stb_ds */
	const char **given; /* stb_ds: NAME=VALUE */
};

static error_t argument_take(char *text, struct arguments *arguments, struct argp_state *state)
{
	if (!arguments->name)
		arguments->name = text;
	else if (strchr(text, '='))
		arrput(arguments->given, text);
	else
		argp_error(state, "%s is no parameter: they are given as NAME=VALUE", text);
	return 0;
}

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	static const char *const formats[] = {[ANSWER_TABLE] = "table", [ANSWER_JSON] = "json", [ANSWER_CSV] = "csv"};
	struct arguments *arguments = state->input;
	char *end;

	switch (key) {
	case KEY_STORE:
		arguments->store = text;
		return 0;
	case KEY_FORMAT_OF_ANSWER:
		for (int format = 0; format <= ANSWER_CSV; format++)
			if (!strcmp(text, formats[format])) {
				arguments->format = (enum answer_format)format;
				return 0;
			}
		argp_error(state, "--format is table, json or csv, not %s", text);
		return 0;
	case KEY_LIMIT:
		arguments->limit = strtoul(text, &end, 10);
		arguments->limit_is_given = true;
		if (!isdigit((unsigned char)*text) || *end)
			argp_error(state, "--limit is a number of rows, 0 for all, not %s", text);
		return 0;
	case KEY_QUERIES:
		arrput(arguments->folders, strdup(text));
		return 0;
	case KEY_SHOW:
		arguments->show = true;
		return 0;
	case ARGP_KEY_ARG:
		return argument_take(text, arguments, state);
	}
	return ARGP_ERR_UNKNOWN;
}

/* A folder beside the program, to be freed. */
static char *folder_beside(const char *relative)
{
	char program[4096], *slash;
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length <= 0)
		return NULL;
	program[length] = 0;
	slash = strrchr(program, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	return path_join(program, relative);
}

static void folders_add(struct arguments *arguments)
{
	char *folders[] = {
		strdup(QUERIES_ADMINISTRATOR), folder_beside(QUERIES_INSTALLED), folder_beside(QUERIES_SOURCE)};

	for (size_t index = 0; index < sizeof(folders) / sizeof(folders[0]); index++)
		if (folders[index])
			arrput(arguments->folders, folders[index]);
}

static const struct query *query_find(const struct query *queries, const char *name)
{
	for (size_t index = 0; index < arrlenu(queries); index++)
		if (!strcmp(queries[index].name, name))
			return &queries[index];
	return NULL;
}

static void queries_list(const struct query *queries)
{
	for (size_t index = 0; index < arrlenu(queries); index++) {
		const struct query *query = &queries[index];

		printf("%s\n    %s\n", query->name, query->title);
		for (size_t place = 0; place < arrlenu(query->parameters); place++) {
			const struct query_parameter *parameter = &query->parameters[place];

			printf("      %s=%s  %s, %s%s%s\n", parameter->name,
				parameter->fallback ? parameter->fallback : "…", query_type_name(parameter->type),
				parameter->meaning, parameter->fallback ? "" : ", must be given", "");
		}
	}
}

static int query_run(const struct arguments *arguments, const struct query *query)
{
	char fault[QUERY_FAULT_BYTES], store_reason[STORE_FAULT_BYTES];
	struct parameter *values =
		query_values(query, arguments->given, arrlenu(arguments->given), (int64_t)time(NULL), fault);
	size_t limit =
		arguments->limit_is_given || arguments->format != ANSWER_TABLE ? arguments->limit : LIMIT_DEFAULT;
	struct result result = {0};
	struct store *store = NULL;
	int error;

	if (!values) {
		fprintf(stderr, "hdtrace audit: %s\n", fault);
		return STATUS_USAGE;
	}
	if (store_open(arguments->store, &store, store_reason)) {
		fprintf(stderr, "hdtrace: the store %s: %s\n", arguments->store, store_reason);
		arrfree(values);
		return STATUS_USAGE;
	}
	error = store_check(store);
	if (!error)
		error = store_query(store, query->sql, values, arrlenu(values), &result);
	if (error)
		fprintf(stderr, "hdtrace: %s\n", store_fault(store));
	else
		error = answer_write(stdout, arguments->format, query, values, &result, limit);
	result_clear(&result);
	store_close(store);
	arrfree(values);
	return error ? STATUS_FAILED : STATUS_COMPLETE;
}

static int audit_run(const struct arguments *arguments)
{
	char fault[QUERY_FAULT_BYTES] = "";
	struct query *queries =
		queries_read((const char *const *)arguments->folders, arrlenu(arguments->folders), fault);
	const struct query *query = arguments->name ? query_find(queries, arguments->name) : NULL;
	int status = STATUS_COMPLETE;

	if (*fault)
		fprintf(stderr, "hdtrace: a query is left out: %s\n", fault);
	if (arguments->name && !query) {
		fprintf(stderr, "hdtrace: there is no query %s; `hdtrace audit` lists them\n", arguments->name);
		status = STATUS_USAGE;
	} else if (!query) {
		queries_list(queries);
	} else if (arguments->show) {
		printf("-- %s\n%s", query->path, query->sql);
	} else {
		status = query_run(arguments, query);
	}
	queries_free(queries);
	return status;
}

int verb_audit(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"store", KEY_STORE, "URL", 0,
			"a file, or http://[USER@]HOST:PORT/DATABASE of ClickHouse (" STORE_DEFAULT ")", 0},
		{"format", KEY_FORMAT_OF_ANSWER, "NAME", 0, "table (default), json or csv", 0},
		{"limit", KEY_LIMIT, "ROWS", 0, "at most so many rows, 0: all (table: 50, else all)", 0},
		{"queries", KEY_QUERIES, "FOLDER", 0, "a folder of more queries, each a file NAME.sql", 0},
		{"show", KEY_SHOW, NULL, 0, "print the query itself", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.args_doc = "[QUERY [NAME=VALUE...]]",
		.doc = "Ask the audit store. Without a query, list those that there are.",
	};
	const char *store = getenv("HDTRACE_STORE");
	struct arguments arguments = {.store = store && *store ? store : STORE_DEFAULT};
	int status = STATUS_USAGE;

	argv[0] = "hdtrace audit";
	argp_err_exit_status = STATUS_USAGE;
	if (!argp_parse(&argp, argc, argv, 0, NULL, &arguments)) {
		folders_add(&arguments);
		status = audit_run(&arguments);
	}
	for (size_t index = 0; index < arrlenu(arguments.folders); index++)
		free(arguments.folders[index]);
	arrfree(arguments.folders);
	arrfree(arguments.given);
	return status;
}
