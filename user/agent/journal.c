// SPDX-License-Identifier: BSD-2-Clause
/* From the live accounting to records of the audit store: periods, what was held in them, memory that ran out. */
#include "agent/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "agent/metrics.h"
#include "audit/capture_records.h"
#include "containers/containers.h"
#include "target/process.h"

#define SECOND_NS 1000000000
#define MICROSECOND_NS 1000
#define HOLDERS 10
#define USER_BYTES 64
#define MODEL_BYTES 128
#define SOURCE_AGENT "agent"
#define FAMILY_JOB "job_of_pid_"

/* A line or module, and what it held. */
struct holder {
	char *name;
	uint64_t bytes, blocks;
};

/* A device in the period that goes on. */
struct device_period {
	uint64_t peak_bytes, reserved_peak_bytes, idle_bytes;
	uint64_t category_bytes[LIVE_CATEGORIES]; /* at the look at which most was held */
	uint64_t look_bytes;                      /* held then */
	uint64_t out_of_memories;                 /* since the rank is traced, when the period began */
	uint64_t out_of_memories_told;            /* of which there is a record */
	struct holder *holders[LIVE_TABLES];      /* stb_ds; of the device that matters, at that look */
	const char *phase;
	char line[LIVE_TEXT_BYTES];
};

struct entry {
	uint16_t target;
	uint64_t start_time_ns; /* with the target: which rank */
	char run[JOURNAL_RUN_BYTES];
	char user[USER_BYTES], model[MODEL_BYTES];
	bool known;                             /* the run has a record */
	bool closed;                            /* its rank has ended, and that is told */
	int64_t rank_start_ns, period_start_ns; /* CLOCK_REALTIME */
	uint64_t period_start_monotonic_ns;
	uint32_t steps; /* when the period began */
	struct device_period devices[LIVE_DEVICES_MAX];
};

struct journal {
	const char *node;
	struct entry **entries; /* stb_ds */
};

/* One call of journal_look. */
struct putting {
	struct journal *journal;
	struct live *live;
	struct spool *spool;
	struct journal_time now;
	int count, error;
};

struct journal *journal_new(const char *node)
{
	struct journal *journal = calloc(1, sizeof(*journal));

	if (journal)
		journal->node = node;
	return journal;
}

static void holders_free(struct device_period *period)
{
	for (int table = 0; table < LIVE_TABLES; table++) {
		for (size_t index = 0; index < arrlenu(period->holders[table]); index++)
			free(period->holders[table][index].name);
		arrfree(period->holders[table]);
	}
}

static void entry_free(struct entry *entry)
{
	for (size_t device = 0; device < LIVE_DEVICES_MAX; device++)
		holders_free(&entry->devices[device]);
	free(entry);
}

void journal_free(struct journal *journal)
{
	if (!journal)
		return;
	for (size_t index = 0; index < arrlenu(journal->entries); index++)
		entry_free(journal->entries[index]);
	arrfree(journal->entries);
	free(journal);
}

static void put(struct putting *putting, enum table_id table, const void *record)
{
	int error = putting->spool ? spool_put(putting->spool, table, record) : 0;

	if (error && !putting->error)
		putting->error = error;
	putting->count += !error;
}

/* --- who it is ---------------------------------------------------------------------------- */

/* Is it a name that a launcher gave, the same on every machine of the job? */
static bool job_is_launchers(const struct live_rank *rank)
{
	return *rank->job && strncmp(rank->job, FAMILY_JOB, strlen(FAMILY_JOB)) != 0;
}

void journal_run(const struct journal *journal, const struct live_rank *rank, char run[JOURNAL_RUN_BYTES])
{
	pid_t pid = *rank->job && !job_is_launchers(rank) ? atoi(rank->job + strlen(FAMILY_JOB)) : rank->pid;
	char *seed;
	int length;

	if (job_is_launchers(rank))
		length = asprintf(&seed, "job|%s", rank->job);
	else
		length = asprintf(&seed, "process|%s|%d|%" PRIu64, journal->node, pid, process_start_ticks(pid));
	if (length < 0)
		seed = NULL;
	snprintf(run, JOURNAL_RUN_BYTES, "%016llx", (unsigned long long)(seed ? XXH3_64bits(seed, strlen(seed)) : 0));
	free(seed);
}

/* The name of the account, else its number. */
static void user_read(pid_t pid, char user[USER_BYTES])
{
	struct passwd account, *found = NULL;
	char path[32], room[1024];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	user[0] = '\0';
	if (stat(path, &status))
		return;
	snprintf(user, USER_BYTES, "%u", status.st_uid);
	if (!getpwuid_r(status.st_uid, &account, room, sizeof(room), &found) && found)
		snprintf(user, USER_BYTES, "%s", found->pw_name);
}

static struct entry *entry_find(const struct journal *journal, const struct live_rank *rank)
{
	for (size_t index = 0; index < arrlenu(journal->entries); index++)
		if (journal->entries[index]->target == rank->target &&
			journal->entries[index]->start_time_ns == rank->start_time_ns)
			return journal->entries[index];
	return NULL;
}

static int64_t real_ns(const struct putting *putting, uint64_t monotonic_ns)
{
	return putting->now.real_ns - (int64_t)(putting->now.monotonic_ns - monotonic_ns);
}

static struct entry *entry_new(const struct putting *putting, const struct live_rank *rank)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->target = rank->target;
	entry->start_time_ns = rank->start_time_ns;
	entry->rank_start_ns = entry->period_start_ns = real_ns(putting, rank->start_time_ns);
	entry->period_start_monotonic_ns = rank->start_time_ns;
	journal_run(putting->journal, rank, entry->run);
	user_read(rank->pid, entry->user);
	arrput(putting->journal->entries, entry);
	return entry;
}

/* --- records ---------------------------------------------------------------------------------- */

/* The class of the root module is the first part of every module's name. */
static void model_read(const struct putting *putting, size_t index, struct entry *entry)
{
	struct live_place place;

	if (*entry->model || !live_top(putting->live, index, LIVE_MODULES, &place, 1) || !place.name)
		return;
	snprintf(entry->model, sizeof(entry->model), "%.*s", (int)strcspn(place.name, "."), place.name);
}

static void put_run(struct putting *putting, const struct live_rank *rank, struct entry *entry)
{
	char *program = program_name(rank->command);
	struct run_record record = {
		.run = entry->run,
		.job = program ? program : "",
		.user = entry->user,
		.model = entry->model,
		.instance = rank->job,
		.command = rank->command,
		.source = SOURCE_AGENT,
		.hdtrace_version = HDTRACE_VERSION,
		.world_size = RECORD_UNKNOWN,
		.start_time = entry->rank_start_ns / SECOND_NS,
	};

	for (size_t group = 0; group < rank->group_count; group++)
		if (rank->groups[group].size > record.world_size)
			record.world_size = rank->groups[group].size;
	put(putting, TABLE_RUN, &record);
	free(program);
}

static void put_rank(struct putting *putting, const struct live_rank *rank, const struct entry *entry)
{
	struct rank_record record = {
		.run = entry->run,
		.node = putting->journal->node,
		.rank = metrics_rank(rank),
		.pid = rank->pid,
		.start_time = entry->rank_start_ns / SECOND_NS,
		.end_time = putting->now.real_ns / SECOND_NS,
		.steps = rank->steps,
		.complete = !rank->lost,
		.lost_events = (int64_t)rank->lost,
	};

	put(putting, TABLE_RANK, &record);
}

static void put_holder(struct putting *putting, const struct live_rank *rank, const struct entry *entry,
	struct holder_record *record, const char *kind, const struct holder *holder)
{
	record->run = entry->run;
	record->rank = metrics_rank(rank);
	record->kind = kind;
	record->name = holder->name;
	record->bytes = (int64_t)holder->bytes;
	record->blocks = (int64_t)holder->blocks;
	put(putting, TABLE_HOLDER, record);
	record->place++;
}

/* `record` says of which device and moment. */
static void put_holders(struct putting *putting, const struct live_rank *rank, const struct entry *entry,
	const struct device_period *period, struct holder_record record)
{
	static const char *const kinds[LIVE_TABLES] = {[LIVE_MODULES] = "module", [LIVE_LINES] = "line"};

	for (int table = 0; table < LIVE_TABLES; table++) {
		record.place = 0;
		for (size_t index = 0; index < arrlenu(period->holders[table]); index++)
			put_holder(putting, rank, entry, &record, kinds[table], &period->holders[table][index]);
	}
	record.place = 0;
	for (size_t category = 0; category < LIVE_CATEGORIES; category++) {
		struct holder holder = {
			.name = (char *)live_category_name(category), .bytes = period->category_bytes[category]};

		if (holder.bytes)
			put_holder(putting, rank, entry, &record, "category", &holder);
	}
}

static int64_t optional(uint64_t number)
{
	return number == LIVE_UNKNOWN ? RECORD_UNKNOWN : (int64_t)number;
}

static int64_t period_end_ns(const struct putting *putting, const struct entry *entry)
{
	return entry->period_start_ns + (int64_t)(putting->now.monotonic_ns - entry->period_start_monotonic_ns);
}

static void put_period(struct putting *putting, const struct live_rank *rank, const struct entry *entry, size_t index)
{
	const struct live_device *device = &rank->devices[index];
	const struct device_period *period = &entry->devices[index];
	const uint64_t *categories = period->category_bytes;
	uint64_t step_ns = live_step_ns(rank);
	struct period_record record = {
		.run = entry->run,
		.device = device->name,
		.node = putting->journal->node,
		.rank = metrics_rank(rank),
		.start_time = entry->period_start_ns / SECOND_NS,
		.end_time = period_end_ns(putting, entry) / SECOND_NS,
		.capacity_bytes = optional(device->size_bytes),
		.peak_bytes = (int64_t)period->peak_bytes,
		.end_bytes = (int64_t)device->bytes,
		.reserved_peak_bytes = device->has_totals ? (int64_t)period->reserved_peak_bytes : RECORD_UNKNOWN,
		.reserved_bytes = device->has_totals ? (int64_t)device->reserved_bytes : RECORD_UNKNOWN,
		.dead_bytes = optional(period->idle_bytes),
		.parameter_bytes = (int64_t)categories[CATEGORY_PARAMETER],
		.buffer_bytes = (int64_t)categories[CATEGORY_BUFFER],
		.gradient_bytes = (int64_t)categories[CATEGORY_GRADIENT],
		.activation_bytes = (int64_t)categories[CATEGORY_ACTIVATION],
		.temp_bytes = (int64_t)categories[CATEGORY_TEMP],
		.optstate_bytes = (int64_t)categories[CATEGORY_OPTSTATE],
		.other_bytes = (int64_t)(categories[CATEGORY_OTHER] + categories[LIVE_CATEGORIES - 1]),
		.workspace_bytes = (int64_t)categories[CATEGORY_WORKSPACE],
		.steps = rank->steps_known ? rank->steps - entry->steps : 0,
		.step_time_us = step_ns == LIVE_UNKNOWN ? RECORD_UNKNOWN : (int64_t)(step_ns / MICROSECOND_NS),
		.out_of_memories = (int64_t)(device->out_of_memories - period->out_of_memories),
		.peak_phase = period->phase,
		.peak_line = period->line,
	};

	put(putting, TABLE_PERIOD, &record);
	put_holders(putting, rank, entry, period,
		(struct holder_record){.device = device->name, .moment = MOMENT_PEAK, .time = record.start_time});
}

static void put_out_of_memory(
	struct putting *putting, const struct live_rank *rank, const struct entry *entry, size_t index)
{
	const struct live_device *device = &rank->devices[index];
	int64_t time_ns = real_ns(putting, device->out_of_memory_time_ns);
	struct oom_record record = {
		.run = entry->run,
		.device = device->name,
		.node = putting->journal->node,
		.phase = rank->phase_known ? live_phase_name(rank->phase) : NULL,
		.line = *device->out_of_memory_line ? device->out_of_memory_line : rank->line,
		.rank = metrics_rank(rank),
		.time = time_ns / SECOND_NS,
		.microsecond = time_ns % SECOND_NS / MICROSECOND_NS,
		.asked_bytes = (int64_t)device->out_of_memory_bytes,
		.allocated_bytes = (int64_t)device->bytes,
		.reserved_bytes = device->has_totals ? (int64_t)device->reserved_bytes : RECORD_UNKNOWN,
		.largest_gap_bytes = RECORD_UNKNOWN,
		.capacity_bytes = optional(device->size_bytes),
	};

	put(putting, TABLE_OOM, &record);
	put_holders(putting, rank, entry, &entry->devices[index],
		(struct holder_record){.device = device->name,
			.moment = MOMENT_OUT_OF_MEMORY,
			.time = record.time,
			.microsecond = record.microsecond});
}

/* --- looks ----------------------------------------------------------------------------------------- */

static void holders_read(const struct putting *putting, size_t rank_index, struct device_period *period)
{
	holders_free(period);
	for (int table = 0; table < LIVE_TABLES; table++) {
		struct live_place places[HOLDERS];
		size_t count = live_top(putting->live, rank_index, (enum live_table)table, places, HOLDERS);

		for (size_t index = 0; index < count; index++) {
			struct holder holder = {.name = strdup(places[index].name ? places[index].name : "others"),
				.bytes = places[index].bytes,
				.blocks = places[index].blocks};

			arrput(period->holders[table], holder);
		}
	}
}

static void device_look(const struct putting *putting, size_t rank_index, struct entry *entry, size_t index)
{
	const struct live_rank *rank = live_rank_at(putting->live, rank_index);
	const struct live_device *device = &rank->devices[index];
	struct device_period *period = &entry->devices[index];

	if (device->look_peak_bytes > period->peak_bytes)
		period->peak_bytes = device->look_peak_bytes;
	if (device->has_totals && device->reserved_bytes > period->reserved_peak_bytes)
		period->reserved_peak_bytes = device->reserved_bytes;
	if (device->bytes < period->look_bytes || (!device->bytes && period->look_bytes))
		return;
	period->look_bytes = device->bytes;
	period->idle_bytes = device->idle_bytes;
	memcpy(period->category_bytes, device->category_bytes, sizeof(period->category_bytes));
	period->phase = rank->phase_known ? live_phase_name(rank->phase) : NULL;
	snprintf(period->line, sizeof(period->line), "%s", rank->line);
	/* Names are of the device that matters only. */
	if (!rank->ended && device == live_device_main(rank))
		holders_read(putting, rank_index, period);
}

/* Where the last one ended, unless somebody has set the clock since. */
static void period_begin(const struct putting *putting, const struct live_rank *rank, struct entry *entry)
{
	int64_t end_ns = period_end_ns(putting, entry);

	entry->period_start_ns = llabs(putting->now.real_ns - end_ns) < SECOND_NS ? end_ns : putting->now.real_ns;
	entry->period_start_monotonic_ns = putting->now.monotonic_ns;
	entry->steps = rank->steps;
	for (size_t index = 0; index < rank->device_count; index++) {
		struct device_period *period = &entry->devices[index];
		uint64_t told = period->out_of_memories_told;

		holders_free(period);
		*period = (struct device_period){
			.out_of_memories = rank->devices[index].out_of_memories, .out_of_memories_told = told};
	}
}

static void period_end(struct putting *putting, const struct live_rank *rank, struct entry *entry)
{
	put_run(putting, rank, entry);
	put_rank(putting, rank, entry);
	for (size_t index = 0; index < rank->device_count; index++)
		put_period(putting, rank, entry, index);
	period_begin(putting, rank, entry);
}

static void rank_look(struct putting *putting, size_t index, uint64_t period_ns)
{
	const struct live_rank *rank = live_rank_at(putting->live, index);
	struct entry *entry = entry_find(putting->journal, rank);

	/* It may have begun and ended between two looks. */
	if (!entry)
		entry = entry_new(putting, rank);
	if (!entry || entry->closed)
		return;
	model_read(putting, index, entry);
	for (size_t device = 0; device < rank->device_count; device++)
		device_look(putting, index, entry, device);
	/* There from the first look on, however the agent ends. */
	if (!entry->known) {
		entry->known = true;
		put_run(putting, rank, entry);
		put_rank(putting, rank, entry);
	}
	for (size_t device = 0; device < rank->device_count; device++)
		if (rank->devices[device].out_of_memories > entry->devices[device].out_of_memories_told) {
			put_out_of_memory(putting, rank, entry, device);
			entry->devices[device].out_of_memories_told = rank->devices[device].out_of_memories;
		}
	entry->closed = rank->ended;
	if (rank->ended || putting->now.monotonic_ns - entry->period_start_monotonic_ns >= period_ns)
		period_end(putting, rank, entry);
}

/* Live forgets those that ended in time. */
static void entries_drop(struct journal *journal, const struct live *live)
{
	for (size_t index = arrlenu(journal->entries); index-- > 0;) {
		struct entry *entry = journal->entries[index];
		bool there = false;

		for (size_t rank = 0; rank < live_rank_count(live) && !there; rank++)
			there = entry_find(journal, live_rank_at(live, rank)) == entry;
		if (!there) {
			entry_free(entry);
			arrdelswap(journal->entries, index);
		}
	}
}

int journal_look(
	struct journal *journal, struct live *live, struct spool *spool, struct journal_time now, uint64_t period_ns)
{
	struct putting putting = {.journal = journal, .live = live, .spool = spool, .now = now};

	for (size_t index = 0; index < live_rank_count(live); index++)
		if (metrics_shows(live_rank_at(live, index)))
			rank_look(&putting, index, period_ns);
	entries_drop(journal, live);
	return putting.error ? putting.error : putting.count;
}

int journal_end(struct journal *journal, struct live *live, struct spool *spool, struct journal_time now)
{
	return journal_look(journal, live, spool, now, 0);
}
