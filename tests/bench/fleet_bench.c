/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fleet's worth of records, from a spool into a store: how fast they go, and how much of the store they take.
 *
 *     fleet_bench STORE SPOOL RANKS HOURS
 *
 * Each rank has what an agent writes: every ten minutes a period with its step time, every hour what holds the
 * peak and its largest blocks, and one step in ten minutes in detail. Jobs have 64 ranks on 8 nodes. In job 0 every
 * rank leaks, in job 1 one rank needs more than the others, in job 2 one rank runs out of memory.
 *
 * Prints a line of JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "containers/containers.h"
#include "store/drain.h"
#include "store/spool.h"

#define JOB_RANKS 64
#define NODE_RANKS 8
#define MODELS 7
#define USERS 23
#define HOUR 3600
#define PERIOD 600
#define HOLDERS 10
#define BLOCKS 10
#define START_TIME 1790000000
#define LEAK_BYTES_PER_PERIOD (8 << 20)
#define MEBIBYTE (1ll << 20)
#define DEVICE_BYTES (80ll << 30)
#define SPOOL_LIMIT (4ull << 30)
#define LINES 40

struct fleet {
	struct store *store;
	struct spool *spool;
	const char *folder;
	uint64_t random;
	uint64_t records;
	double write_seconds, send_seconds;
};

/* Of one rank at one time. */
struct moment {
	int64_t job, rank, time;
	char run[17], node[24];
};

static double clock_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "fleet_bench: %s: %s\n", what, why);
	exit(1);
}

/* The same numbers each time (Marsaglia's xorshift). */
static int64_t random_below(struct fleet *fleet, int64_t limit)
{
	fleet->random ^= fleet->random << 13;
	fleet->random ^= fleet->random >> 7;
	fleet->random ^= fleet->random << 17;
	return (int64_t)(fleet->random % (uint64_t)limit);
}

static void put(struct fleet *fleet, enum table_id table, const void *record)
{
	int error = spool_put(fleet->spool, table, record);

	if (error == -ENOBUFS) {
		error = spool_commit(fleet->spool);
		error = error ? error : spool_put(fleet->spool, table, record);
	}
	if (error)
		fail("the spool", strerror(-error));
	fleet->records++;
}

static void put_run(struct fleet *fleet, int64_t job, int64_t ranks)
{
	char run[17], name[32], user[16], model[16];
	struct run_record record = {.run = run,
		.job = name,
		.user = user,
		.model = model,
		.version = "1",
		.source = "agent",
		.command = "python3 train.py",
		.torch_version = "2.6",
		.hdtrace_version = "bench",
		.world_size = ranks,
		.start_time = START_TIME};

	snprintf(run, sizeof(run), "%016" PRIx64, (uint64_t)job * 0x9e3779b97f4a7c15u);
	snprintf(name, sizeof(name), "job%" PRId64, job);
	snprintf(user, sizeof(user), "user%" PRId64, job % USERS);
	snprintf(model, sizeof(model), "Model%" PRId64, job % MODELS);
	put(fleet, TABLE_RUN, &record);
}

static int64_t peak_of(const struct moment *moment)
{
	int64_t peak = (30 + moment->job % 40) << 30;

	if (moment->job == 0)
		peak += (moment->time - START_TIME) / PERIOD * LEAK_BYTES_PER_PERIOD;
	if (moment->job == 1 && moment->rank % JOB_RANKS == 5)
		peak += 10ll << 30;
	return peak;
}

static void put_period(struct fleet *fleet, const struct moment *moment)
{
	int64_t noise = random_below(fleet, 16 * MEBIBYTE), peak = peak_of(moment) + noise;
	struct period_record record = {.run = moment->run,
		.device = "cuda:0",
		.node = moment->node,
		.rank = moment->rank % JOB_RANKS,
		.start_time = moment->time,
		.end_time = moment->time + PERIOD,
		.capacity_bytes = DEVICE_BYTES,
		.peak_bytes = peak,
		.end_bytes = peak / 2 + random_below(fleet, 4096),
		.reserved_peak_bytes = peak + peak / 16,
		.reserved_bytes = peak + peak / 16,
		.dead_bytes = peak / 50 + noise,
		.parameter_bytes = peak / 8,
		.gradient_bytes = peak / 8,
		.optstate_bytes = peak / 4,
		.activation_bytes = peak / 2 - noise,
		.temp_bytes = noise / 2,
		.other_bytes = noise / 2,
		.workspace_bytes = 8 * MEBIBYTE,
		.steps = 600,
		.step_time_us = 1000000 + random_below(fleet, 20000),
		.peak_phase = "backward",
		.peak_operator = "aten.mm.default",
		.peak_line = "/home/eva/project/train.py:118"};

	/* A leak shows in what is left at the end too. */
	if (moment->job == 0)
		record.end_bytes = peak / 2 + (moment->time - START_TIME) / PERIOD * LEAK_BYTES_PER_PERIOD;
	put(fleet, TABLE_PERIOD, &record);
}

static void put_step(struct fleet *fleet, const struct moment *moment)
{
	int64_t peak = peak_of(moment), duration = 1000000 + random_below(fleet, 20000);
	struct step_record record = {.run = moment->run,
		.rank = moment->rank % JOB_RANKS,
		.start_time = moment->time,
		.step = (moment->time - START_TIME),
		.complete = 1,
		.duration_us = duration,
		.forward_us = duration / 3,
		.backward_us = duration / 2,
		.optimizer_us = duration / 10,
		.wait_us = random_below(fleet, 30000),
		.peak_bytes = peak,
		.end_bytes = peak / 2,
		.allocated_bytes = peak * 20,
		.operators = 12000,
		.collectives = 70,
		.collective_bytes = 3ll << 30};

	put(fleet, TABLE_STEP, &record);
}

static void put_holders(struct fleet *fleet, const struct moment *moment, const char *what, int64_t microsecond)
{
	int64_t peak = peak_of(moment);
	char line[64], module[64], owner[64];

	for (int64_t place = 0; place < HOLDERS; place++) {
		struct holder_record holder = {.run = moment->run,
			.device = "cuda:0",
			.moment = what,
			.kind = "line",
			.name = line,
			.rank = moment->rank % JOB_RANKS,
			.time = moment->time,
			.microsecond = microsecond,
			.place = place,
			.bytes = peak / (place + 2) + random_below(fleet, 100000),
			.blocks = 10 + place};

		snprintf(
			line, sizeof(line), "/home/eva/project/model.py:%" PRId64, 100 + (moment->job + place) % LINES);
		put(fleet, TABLE_HOLDER, &holder);
	}
	for (int64_t place = 0; place < BLOCKS; place++) {
		struct block_record block = {.run = moment->run,
			.device = "cuda:0",
			.moment = what,
			.category = "Activation",
			.phase = "forward",
			.operator_ = "aten.mm.default",
			.line = line,
			.module = module,
			.owner = owner,
			.rank = moment->rank % JOB_RANKS,
			.time = moment->time,
			.microsecond = microsecond,
			.place = place,
			.bytes = 512 * MEBIBYTE - place * MEBIBYTE,
			.age_us = random_below(fleet, 1000000)};

		snprintf(
			line, sizeof(line), "/home/eva/project/model.py:%" PRId64, 100 + (moment->job + place) % LINES);
		snprintf(module, sizeof(module), "Model.layers.%" PRId64 ".mlp", place);
		snprintf(owner, sizeof(owner), "Model.layers.%" PRId64 ".mlp.weight", place);
		put(fleet, TABLE_BLOCK, &block);
	}
}

static void put_out_of_memory(struct fleet *fleet, const struct moment *moment)
{
	struct oom_record record = {.run = moment->run,
		.device = "cuda:0",
		.node = moment->node,
		.operator_ = "aten.mm.default",
		.phase = "forward",
		.line = "/home/eva/project/model.py:101",
		.rank = moment->rank % JOB_RANKS,
		.time = moment->time,
		.microsecond = 77,
		.asked_bytes = 2ll << 30,
		.allocated_bytes = 79ll << 30,
		.reserved_bytes = 79ll << 30,
		.largest_gap_bytes = 1 << 20,
		.capacity_bytes = DEVICE_BYTES};

	put(fleet, TABLE_OOM, &record);
	put_holders(fleet, moment, MOMENT_OUT_OF_MEMORY, record.microsecond);
}

static void put_hour(struct fleet *fleet, int64_t rank, int64_t hour)
{
	struct moment moment = {.job = rank / JOB_RANKS, .rank = rank, .time = START_TIME + hour * HOUR};

	snprintf(moment.run, sizeof(moment.run), "%016" PRIx64, (uint64_t)moment.job * 0x9e3779b97f4a7c15u);
	snprintf(moment.node, sizeof(moment.node), "node%05" PRId64, rank / NODE_RANKS);
	put_holders(fleet, &moment, MOMENT_PEAK, 0);
	if (moment.job == 2 && rank % JOB_RANKS == 3 && hour == 1)
		put_out_of_memory(fleet, &moment);
	for (; moment.time < START_TIME + (hour + 1) * HOUR; moment.time += PERIOD) {
		put_period(fleet, &moment);
		put_step(fleet, &moment);
	}
}

static void send(struct fleet *fleet)
{
	struct drain_options options = {.patience_seconds = 60};
	struct drain_result result;
	double start = clock_now();

	spool_seal(fleet->spool);
	if (spool_drain(fleet->folder, fleet->store, &options, &result))
		fail("the store", store_fault(fleet->store));
	fleet->send_seconds += clock_now() - start;
}

static void commit(struct fleet *fleet)
{
	int error = spool_commit(fleet->spool);

	if (error)
		fail("the spool", strerror(-error));
}

int main(int argc, char **argv)
{
	struct fleet fleet = {.random = 88172645463325252u};
	int64_t ranks = argc == 5 ? atoll(argv[3]) : 0, hours = argc == 5 ? atoll(argv[4]) : 0;
	char fault[STORE_FAULT_BYTES];
	double start;

	if (ranks <= 0 || hours <= 0)
		fail("usage", "fleet_bench STORE SPOOL RANKS HOURS");
	fleet.folder = argv[2];
	if (store_open(argv[1], &fleet.store, fault))
		fail(argv[1], fault);
	if (store_init(fleet.store))
		fail(argv[1], store_fault(fleet.store));
	if (spool_open(fleet.folder, SPOOL_LIMIT, &fleet.spool))
		fail(fleet.folder, "no spool");
	for (int64_t job = 0; job * JOB_RANKS < ranks; job++)
		put_run(&fleet, job, ranks - job * JOB_RANKS < JOB_RANKS ? ranks - job * JOB_RANKS : JOB_RANKS);
	for (int64_t hour = 0; hour < hours; hour++) {
		start = clock_now();
		for (int64_t rank = 0; rank < ranks; rank++)
			put_hour(&fleet, rank, hour);
		commit(&fleet);
		fleet.write_seconds += clock_now() - start;
		send(&fleet);
	}
	printf("{\"records\": %" PRIu64 ", \"write_seconds\": %.3f, \"send_seconds\": %.3f}\n", fleet.records,
		fleet.write_seconds, fleet.send_seconds);
	spool_close(fleet.spool);
	store_close(fleet.store);
	return 0;
}
