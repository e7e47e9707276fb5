// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace store`: the audit store is created, filled from captures, and looked at. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "base/folder.h"
#include "audit/capture_records.h"
#include "audit/prediction.h"
#include "cli/cli.h"
#include "containers/containers.h"
#include "store/drain.h"
#include "store/spool.h"

#define PATIENCE_SECONDS 30.0

enum option_key {
	KEY_STORE = 256,
	KEY_SPOOL,
	KEY_SPOOL_SIZE,
	KEY_PATIENCE,
	KEY_RUN,
	KEY_PART,
	KEY_JOB,
	KEY_USER,
	KEY_MODEL,
	KEY_VERSION_LABEL,
	KEY_CAPACITY,
	KEY_RANK
};

struct arguments {
	const char *store, *spool;
	uint64_t spool_bytes;
	double patience;
	struct run_choice choice;
	int rank; /* of a prediction, -1: by the name of the file */
	bool quiet;
	const char **inputs; /* stb_ds */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;
	char *end;

	switch (key) {
	case KEY_STORE:
		arguments->store = text;
		return 0;
	case KEY_SPOOL:
		arguments->spool = text;
		return 0;
	case KEY_SPOOL_SIZE:
		if (!size_parse(text, &arguments->spool_bytes) || !arguments->spool_bytes)
			argp_error(state, "--spool-size is a size as 256M, not %s", text);
		return 0;
	case KEY_PATIENCE:
		arguments->patience = strtod(text, &end);
		if (end == text || *end || !(arguments->patience >= 0))
			argp_error(state, "--patience is a number of seconds, not %s", text);
		return 0;
	case KEY_RUN:
		arguments->choice.run = text;
		return 0;
	case KEY_PART:
		arguments->choice.part = true;
		return 0;
	case KEY_JOB:
		arguments->choice.job = text;
		return 0;
	case KEY_USER:
		arguments->choice.user = text;
		return 0;
	case KEY_MODEL:
		arguments->choice.model = text;
		return 0;
	case KEY_VERSION_LABEL:
		arguments->choice.version = text;
		return 0;
	case KEY_CAPACITY:
		if (!size_parse(text, &arguments->choice.capacity_bytes) || !arguments->choice.capacity_bytes)
			argp_error(state, "--capacity is the memory of a device as 80G, not %s", text);
		return 0;
	case KEY_RANK:
		arguments->rank = (int)strtol(text, &end, 10);
		if (end == text || *end || arguments->rank < 0)
			argp_error(state, "--rank is a number from 0 on, not %s", text);
		return 0;
	case 'q':
		arguments->quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		arrput(arguments->inputs, text);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- from the spool into the store ------------------------------------------------------ */

static void drain_tell(const struct arguments *arguments, const struct drain_result *result, const char *folder)
{
	if (result->unfinished_bytes)
		fprintf(stderr,
			"hdtrace: %" PRIu64 " bytes at the ends of segments were never acknowledged; left out\n",
			result->unfinished_bytes);
	if (result->damaged)
		fprintf(stderr,
			"hdtrace: %" PRIu64 " segments are damaged: what is before the damage is in the store; "
			"see %s/*" SPOOL_DAMAGED_SUFFIX "\n",
			result->damaged, folder);
	if (!arguments->quiet)
		printf("%" PRIu64 " records are in the store\n", result->records);
}

/* Returns an exit status. */
static int spool_send(const struct arguments *arguments, struct store *store, const char *folder)
{
	struct drain_options options = {.patience_seconds = arguments->patience, .stop = &interrupted};
	struct drain_result result = {0};
	struct spool_state state = {0};
	int error = store_check(store);

	if (!error || error == -EAGAIN)
		error = spool_drain(folder, store, &options, &result);
	if (error) {
		fprintf(stderr, "hdtrace: %s\n", interrupted ? "interrupted" : store_fault(store));
		spool_state_read(folder, &state);
		if (state.segments)
			fprintf(stderr,
				"hdtrace: nothing is lost: %" PRIu64
				" bytes wait in %s; `hdtrace store flush` sends them\n",
				state.bytes, folder);
		return STATUS_FAILED;
	}
	drain_tell(arguments, &result, folder);
	return result.damaged ? STATUS_LOST : STATUS_COMPLETE;
}

/* --- captures -------------------------------------------------------------------------------- */

/* Ranks come by job. */
static int ranks_put(struct spool *spool, const struct rank *const *ranks, size_t count,
	const struct capture_origin *origins, const struct run_choice *choice)
{
	size_t first = 0;
	int error = 0;

	for (size_t index = 1; !error && index <= count; index++) {
		if (index < count && !strcmp(ranks[index]->job, ranks[first]->job))
			continue;
		error = capture_records_put(spool, ranks + first, index - first, origins, choice);
		first = index;
	}
	return error ? error : spool_commit(spool);
}

/* Returns an exit status. */
static int captures_put(struct spool *spool, const struct arguments *arguments)
{
	char **paths = captures_name(arguments->inputs, arrlenu(arguments->inputs));
	struct capture_origin *origins = paths ? origins_read((const char *const *)paths, arrlenu(paths)) : NULL;
	int status = STATUS_FAILED, error;
	struct model *model = paths ? captures_read((const char *const *)paths, arrlenu(paths), NULL, &status) : NULL;
	const struct rank **ranks = model ? model_ranks(model) : NULL;

	if (model) {
		error = ranks_put(spool, ranks, arrlenu(ranks), origins, &arguments->choice);
		if (error) {
			fprintf(stderr, "hdtrace: the spool cannot take the records: %s\n", strerror(-error));
			status = STATUS_FAILED;
		}
	}
	arrfree(ranks);
	model_free(model);
	origins_free(origins);
	captures_free(paths);
	return status;
}

/* --- predictions -------------------------------------------------------------------------------- */

static int prediction_put(struct spool *spool, const struct arguments *arguments, const char *path)
{
	struct prediction_record record = {
		.job = arguments->choice.job,
		.version = arguments->choice.version,
		.model = arguments->choice.model,
		.rank = arguments->rank >= 0 ? arguments->rank : prediction_rank(path),
		.time = time(NULL),
	};
	FILE *file = record.rank >= 0 ? fopen(path, "re") : NULL;
	int error = -EINVAL;

	if (record.rank < 0) {
		fprintf(stderr, "hdtrace: of which rank is %s? say it with --rank\n", path);
		return error;
	}
	if (!file) {
		error = -errno;
		fprintf(stderr, "hdtrace: cannot read %s: %s\n", path, strerror(errno));
		return error;
	}
	error = prediction_read(file, &record.peak_bytes);
	fclose(file);
	if (error)
		fprintf(stderr, "hdtrace: %s is no memory CSV: give the rank_N_memory.csv of a dry run\n", path);
	return error ? error : spool_put(spool, TABLE_PREDICTION, &record);
}

static int predictions_put(struct spool *spool, const struct arguments *arguments)
{
	int error = 0;

	for (size_t index = 0; !error && index < arrlenu(arguments->inputs); index++)
		error = prediction_put(spool, arguments, arguments->inputs[index]);
	return error ? error : spool_commit(spool);
}

/* --- verbs of the verb ---------------------------------------------------------------------------- */

static int do_init(const struct arguments *arguments, struct store *store, const char *folder)
{
	int error = store_init(store);

	(void)folder;
	if (error)
		fprintf(stderr, "hdtrace: %s\n", store_fault(store));
	else if (!arguments->quiet)
		printf("%s is a store of version %d\n", store_name(store), STORE_SCHEMA_VERSION);
	return error ? STATUS_FAILED : STATUS_COMPLETE;
}

/* A spool to write to; what goes wrong is told. */
static struct spool *spool_begin(const struct arguments *arguments, const char *folder)
{
	struct spool *spool = NULL;
	int error = folder_make(folder, NULL);

	if (!error)
		error = spool_open(folder, arguments->spool_bytes, &spool);
	if (error)
		fprintf(stderr, "hdtrace: cannot use the spool %s: %s; choose another folder with --spool\n", folder,
			strerror(-error));
	return spool;
}

static int do_add(const struct arguments *arguments, struct store *store, const char *folder)
{
	struct spool *spool = spool_begin(arguments, folder);
	int status = spool ? captures_put(spool, arguments) : STATUS_FAILED, sent;

	spool_close(spool);
	if (status == STATUS_FAILED)
		return status;
	sent = spool_send(arguments, store, folder);
	return sent == STATUS_COMPLETE ? status : sent;
}

static int do_predict(const struct arguments *arguments, struct store *store, const char *folder)
{
	struct spool *spool = spool_begin(arguments, folder);
	int error = spool ? predictions_put(spool, arguments) : -EIO;

	spool_close(spool);
	return error ? STATUS_FAILED : spool_send(arguments, store, folder);
}

static int do_flush(const struct arguments *arguments, struct store *store, const char *folder)
{
	return spool_send(arguments, store, folder);
}

static int do_status(const struct arguments *arguments, struct store *store, const char *folder)
{
	struct spool_state state;
	int error = spool_state_read(folder, &state);

	(void)arguments;
	printf("spool    %s\n", folder);
	if (error)
		printf("         cannot be read: %s\n", strerror(-error));
	else
		printf("         %" PRIu64 " bytes in %" PRIu64 " segments wait, %" PRIu64 " segments are damaged\n",
			state.bytes, state.segments, state.damaged);
	printf("store    %s\n", store_name(store));
	error = store_check(store);
	if (error) {
		printf("         %s\n", store_fault(store));
		return STATUS_FAILED;
	}
	for (int table = 0; !error && table < TABLES; table++) {
		struct result result = {0};
		char sql[64];

		snprintf(sql, sizeof(sql), "SELECT count(*) AS records FROM %ss", tables[table].name);
		error = store_query(store, sql, NULL, 0, &result);
		if (!error)
			printf("         %12s %s\n", arrlenu(result.cells) ? result.cells[0] : "0", tables[table].name);
		result_clear(&result);
	}
	if (error)
		fprintf(stderr, "hdtrace: %s\n", store_fault(store));
	return error ? STATUS_FAILED : STATUS_COMPLETE;
}

static const struct action {
	const char *name;
	int (*run)(const struct arguments *arguments, struct store *store, const char *folder);
	bool has_inputs, needs_job;
	const char *summary;
} actions[] = {
	{"init", do_init, false, false, "create the store: [URL]"},
	{"add", do_add, true, false, "put captures, or the folders of traces, into it"},
	{"predict", do_predict, true, true, "put in the memory CSVs of a dry run: --job NAME rank_N_memory.csv..."},
	{"flush", do_flush, false, false, "send what waits in the spool"},
	{"status", do_status, false, false, "what is in the store and in the spool"},
};

#define ACTION_COUNT (sizeof(actions) / sizeof(actions[0]))

static const struct action *action_find(const char *name)
{
	for (size_t index = 0; name && index < ACTION_COUNT; index++)
		if (!strcmp(actions[index].name, name))
			return &actions[index];
	return NULL;
}

static void usage_print(FILE *out)
{
	fputs("hdtrace store: the store of what was traced, for `hdtrace audit`\n\n", out);
	for (size_t index = 0; index < ACTION_COUNT; index++)
		fprintf(out, "  hdtrace store %-8s %s\n", actions[index].name, actions[index].summary);
	fputs("\n`hdtrace store ACTION --help` lists the options.\n", out);
}

static int action_run(const struct action *action, struct arguments *arguments)
{
	char fault[STORE_FAULT_BYTES];
	struct store *store;
	char *folder;
	int status = STATUS_FAILED;

	if (store_open(arguments->store, &store, fault)) {
		fprintf(stderr, "hdtrace: the store %s: %s\n", arguments->store, fault);
		return STATUS_USAGE;
	}
	folder = store_spool_folder(store, arguments->spool);
	if (folder)
		status = action->run(arguments, store, folder);
	free(folder);
	store_close(store);
	return status;
}

static const char *environment_or(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

/* What the arguments of an action are not right in, NULL: nothing. */
static const char *arguments_wrong(const struct action *action, struct arguments *arguments)
{
	size_t count = arrlenu(arguments->inputs);

	if (action->has_inputs && !count)
		return "which files? name captures, folders of traces, or for predict CSVs of dry runs";
	if (arguments->choice.part && !arguments->choice.run)
		return "--part is of which run? say it with --run";
	if (action->needs_job && !arguments->choice.job)
		return "of which job? say it with --job, as its runs are called in the store";
	if (action->run == do_init && count == 1)
		arguments->store = arguments->inputs[0];
	else if (!action->has_inputs && count)
		return "this action takes no files";
	return NULL;
}

int verb_store(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"store", KEY_STORE, "URL", 0,
			"a file, or http://[USER@]HOST:PORT/DATABASE of ClickHouse (" STORE_DEFAULT ")", 0},
		{"spool", KEY_SPOOL, "FOLDER", 0, "where records wait for the store (" SPOOL_DEFAULT ")", 0},
		{"spool-size", KEY_SPOOL_SIZE, "BYTES", 0, "how much may wait there (256M)", 0},
		{"patience", KEY_PATIENCE, "SECONDS", 0, "how long a store that does not answer is tried (30)", 0},
		{"run", KEY_RUN, "NAME", 0, "put captures that are added one by one into one run", 0},
		{"part", KEY_PART, NULL, 0,
			"with --run: of a run that an agent watches, only steps, findings and blocks, which it does "
			"not see",
			0},
		{"job", KEY_JOB, "NAME", 0, "name of the job (its program)", 0},
		{"user", KEY_USER, "NAME", 0, "whose job it is (whose process it was)", 0},
		{"model", KEY_MODEL, "NAME", 0, "name of the model (its class)", 0},
		{"version", KEY_VERSION_LABEL, "TEXT", 0,
			"version of the job, for comparisons: a commit, a configuration", 0},
		{"capacity", KEY_CAPACITY, "BYTES", 0, "memory of each device: 80G", 0},
		{"rank", KEY_RANK, "N", 0, "rank of a prediction (by the name of its file)", 0},
		{"quiet", 'q', NULL, 0, "print errors only", 0},
		{0},
	};
	static const struct argp argp = {.options = options, .parser = option_parse, .args_doc = "[FILE...]"};
	const struct action *action = action_find(argc > 1 ? argv[1] : NULL);
	bool is_help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"));
	struct arguments arguments = {
		.store = environment_or("HDTRACE_STORE", STORE_DEFAULT),
		.spool = environment_or("HDTRACE_SPOOL", SPOOL_DEFAULT),
		.spool_bytes = SPOOL_BYTES_DEFAULT,
		.patience = PATIENCE_SECONDS,
		.rank = -1,
	};
	const char *wrong;
	char name[32];
	int status = STATUS_USAGE;

	if (!action) {
		usage_print(is_help ? stdout : stderr);
		return is_help ? STATUS_COMPLETE : STATUS_USAGE;
	}
	snprintf(name, sizeof(name), "hdtrace store %s", action->name);
	argv[1] = name;
	argp_err_exit_status = STATUS_USAGE;
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_interrupt);
	if (argp_parse(&argp, argc - 1, argv + 1, 0, NULL, &arguments))
		goto cleanup;
	wrong = arguments_wrong(action, &arguments);
	if (wrong)
		fprintf(stderr, "%s: %s\n", name, wrong);
	else
		status = action_run(action, &arguments);
cleanup:
	arrfree(arguments.inputs);
	return status;
}
