// SPDX-License-Identifier: BSD-2-Clause
/* The families of metrics as tables, and the one way in which a series is written. */
#include "agent/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/budget.h"
#include "audit/capture_records.h"
#include "containers/containers.h"
#include "python/utf8.h"

#define SECOND_NS 1e9
#define LABELS_BYTES 512

/* One rank and, below it, one of its devices. */
struct row {
	const struct metrics_source *source;
	const struct live_rank *rank;
	const struct live_device *device; /* NULL: of the rank */
	size_t device_index;
};

enum metric_type { METRIC_GAUGE, METRIC_COUNTER };

/* A value that is not known is NAN, and has no series. */
struct family {
	const char *name; /* of a counter: without _total */
	const char *help;
	double (*value)(const struct row *row);
	enum metric_type type;
	bool sums; /* values of several ranks add up */
};

/* One series for each part. */
struct part_family {
	const char *name, *help, *label;
	size_t count;
	const char *(*part_name)(size_t part);
	double (*value)(const struct row *row, size_t part);
};

struct agent_family {
	const char *name;
	enum metric_type type;
	const char *help;
	double (*value)(const struct agent_figures *figures);
};

static double known(uint64_t number)
{
	return number == LIVE_UNKNOWN ? NAN : (double)number;
}

/* --- of devices ------------------------------------------------------------------------- */

#define DEVICE_VALUE(name, expression)                                                                                 \
	static double name(const struct row *row)                                                                      \
	{                                                                                                              \
		const struct live_device *device = row->device;                                                        \
		return expression;                                                                                     \
	}

DEVICE_VALUE(device_allocated, (double)device->bytes)
DEVICE_VALUE(device_peak, (double)device->peak_bytes)
DEVICE_VALUE(device_reserved, device->has_totals ? (double)device->reserved_bytes : NAN)
DEVICE_VALUE(device_reserved_peak, device->has_totals ? (double)device->reserved_peak_bytes : NAN)
DEVICE_VALUE(device_size, known(device->size_bytes))
DEVICE_VALUE(device_headroom, known(live_headroom(device)))
DEVICE_VALUE(device_segments, device_is_host(device->type) ? NAN : (double)device->segments)
DEVICE_VALUE(device_segment_bytes, device_is_host(device->type) ? NAN : (double)device->segment_bytes)
DEVICE_VALUE(device_idle, known(device->idle_bytes))
DEVICE_VALUE(device_allocations, (double)device->allocations)
DEVICE_VALUE(device_allocated_sum, (double)device->allocated_bytes)
DEVICE_VALUE(device_frees, (double)device->frees)
DEVICE_VALUE(device_freed_sum, (double)device->freed_bytes)
DEVICE_VALUE(device_out_of_memories, (double)device->out_of_memories)

/* Of what the allocator holds, the part that no block has. */
static double device_fragmentation(const struct row *row)
{
	const struct live_device *device = row->device;

	if (!device->has_totals || !device->reserved_bytes || device->bytes > device->reserved_bytes)
		return NAN;
	return 1 - (double)device->bytes / (double)device->reserved_bytes;
}

static double device_growth(const struct row *row)
{
	double rate;

	return growth_rate(row->source->growth, row->rank, row->device_index, &rate) ? rate : NAN;
}

static const struct family device_families[] = {
	{"hdtrace_memory_allocated_bytes", "Bytes that the job's blocks have now.", device_allocated, METRIC_GAUGE,
		true},
	{"hdtrace_memory_allocated_peak_bytes", "Highest allocated bytes since the rank is traced.", device_peak,
		METRIC_GAUGE, true},
	{"hdtrace_memory_reserved_bytes", "Bytes that the allocator of the device holds.", device_reserved,
		METRIC_GAUGE, true},
	{"hdtrace_memory_reserved_peak_bytes", "Highest reserved bytes since the rank is traced.", device_reserved_peak,
		METRIC_GAUGE, true},
	{"hdtrace_memory_headroom_bytes", "Memory of the device that the allocator does not hold.", device_headroom,
		METRIC_GAUGE, false},
	{"hdtrace_memory_device_size_bytes", "Memory of the device.", device_size, METRIC_GAUGE, false},
	{"hdtrace_memory_fragmentation_ratio", "Part of the reserved bytes that no block has.", device_fragmentation,
		METRIC_GAUGE, false},
	{"hdtrace_memory_segment_bytes", "Bytes that drivers gave since the rank is traced.", device_segment_bytes,
		METRIC_GAUGE, true},
	{"hdtrace_memory_segments", "Pieces of memory that drivers gave since the rank is traced.", device_segments,
		METRIC_GAUGE, true},
	{"hdtrace_memory_idle_bytes", "Bytes of tensors that nothing used for a whole step.", device_idle, METRIC_GAUGE,
		true},
	{"hdtrace_memory_growth_bytes_per_hour",
		"Slope of the highest allocated bytes of each interval, over the last hour at most.", device_growth,
		METRIC_GAUGE, true},
	{"hdtrace_allocations", "Blocks that were allocated.", device_allocations, METRIC_COUNTER, true},
	{"hdtrace_allocated_bytes", "Bytes that were allocated.", device_allocated_sum, METRIC_COUNTER, true},
	{"hdtrace_frees", "Blocks that were freed.", device_frees, METRIC_COUNTER, true},
	{"hdtrace_freed_bytes", "Bytes that were freed.", device_freed_sum, METRIC_COUNTER, true},
	{"hdtrace_out_of_memory", "Times that the allocator found no memory.", device_out_of_memories, METRIC_COUNTER,
		true},
};

static double category_value(const struct row *row, size_t part)
{
	return (double)row->device->category_bytes[part];
}

static double phase_value(const struct row *row, size_t part)
{
	return (double)row->device->phase_bytes[part];
}

static const struct part_family part_families[] = {
	{"hdtrace_memory_category_bytes", "Allocated bytes by category.", "category", LIVE_CATEGORIES,
		live_category_name, category_value},
	{"hdtrace_memory_phase_bytes", "Allocated bytes by the phase in which they were allocated.", "phase",
		LIVE_PHASES, live_phase_name, phase_value},
};

/* --- of ranks ------------------------------------------------------------------------------- */

static double rank_steps(const struct row *row)
{
	return row->rank->steps_known ? (double)row->rank->steps : NAN;
}

static double rank_step_seconds(const struct row *row)
{
	return known(live_step_ns(row->rank)) / SECOND_NS;
}

static double rank_collectives(const struct row *row)
{
	return (double)row->rank->collectives;
}

static double rank_collective_bytes(const struct row *row)
{
	return (double)row->rank->collective_bytes;
}

static double rank_wait_seconds(const struct row *row)
{
	return (double)row->rank->collective_wait_ns / SECOND_NS;
}

static double rank_waits(const struct row *row)
{
	return row->rank->wait.waits;
}

/* Where the host's blocks are not always followed. */
static double rank_followed(const struct row *row)
{
	const struct live_rank *rank = row->rank;
	double traced = (double)(row->source->now_ns - rank->start_time_ns), away = (double)rank->host_away_ns;

	if (row->source->now_ns <= rank->start_time_ns)
		return NAN;
	if (rank->host_away)
		away += (double)(row->source->now_ns - rank->host_away_since_ns);
	return away < traced ? 1 - away / traced : 0;
}

static double rank_events(const struct row *row)
{
	return (double)row->rank->events;
}

static double rank_lost(const struct row *row)
{
	return (double)row->rank->lost;
}

static const struct family rank_families[] = {
	{"hdtrace_steps", "Optimizer steps that were completed.", rank_steps, METRIC_COUNTER, true},
	{"hdtrace_step_duration_seconds", "Median of the last steps.", rank_step_seconds, METRIC_GAUGE, false},
	{"hdtrace_collectives", "Collectives that were begun.", rank_collectives, METRIC_COUNTER, true},
	{"hdtrace_collective_bytes", "Bytes of the inputs of collectives.", rank_collective_bytes, METRIC_COUNTER,
		true},
	{"hdtrace_collective_wait_seconds", "Time for which the rank was there before the last rank.",
		rank_wait_seconds, METRIC_COUNTER, true},
	{"hdtrace_collective_waiting", "1 while others have not begun the collective that this rank is in.", rank_waits,
		METRIC_GAUGE, true},
	{"hdtrace_host_followed_ratio", "Part of the time in which every block of the host was seen.", rank_followed,
		METRIC_GAUGE, false},
	{"hdtrace_events", "Events that were seen.", rank_events, METRIC_COUNTER, true},
	{"hdtrace_events_lost", "Events that were not: figures may be wrong.", rank_lost, METRIC_COUNTER, true},
};

/* --- of the agent --------------------------------------------------------------------------- */

#define AGENT_VALUE(name, expression)                                                                                  \
	static double name(const struct agent_figures *figures)                                                        \
	{                                                                                                              \
		return expression;                                                                                     \
	}

AGENT_VALUE(agent_processor, (double)figures->cost.processor_ns / SECOND_NS)
AGENT_VALUE(agent_memory, (double)figures->cost.memory_bytes)
AGENT_VALUE(agent_overhead, (double)figures->cost.records *BUDGET_HIT_SECONDS)
AGENT_VALUE(agent_spool_bytes, (double)figures->spool_bytes)
AGENT_VALUE(agent_spool_segments, (double)figures->spool_segments)
AGENT_VALUE(agent_records, (double)figures->records)
AGENT_VALUE(agent_records_held, (double)figures->records_held)
AGENT_VALUE(agent_records_lost, (double)figures->records_lost)
AGENT_VALUE(agent_store_failures, (double)figures->store_failures)
AGENT_VALUE(agent_store_works, figures->store_works)
AGENT_VALUE(agent_captures, (double)figures->captures)
AGENT_VALUE(agent_captures_refused, (double)figures->captures_refused)
AGENT_VALUE(agent_capture_bytes, (double)figures->capture_bytes)
AGENT_VALUE(agent_refused, (double)figures->cost.refused)
AGENT_VALUE(agent_configuration_works, figures->configuration_works)

static const struct agent_family agent_families[] = {
	{"hdtrace_agent_cpu_seconds", METRIC_COUNTER, "Processor time of the agent.", agent_processor},
	{"hdtrace_agent_resident_memory_bytes", METRIC_GAUGE, "Memory of the agent.", agent_memory},
	{"hdtrace_agent_overhead_seconds", METRIC_COUNTER,
		"Time that probes cost the jobs: an estimate, events times a measured cost.", agent_overhead},
	{"hdtrace_agent_spool_bytes", METRIC_GAUGE, "Records on disk that wait for the store.", agent_spool_bytes},
	{"hdtrace_agent_spool_segments", METRIC_GAUGE, "Files that they are in.", agent_spool_segments},
	{"hdtrace_agent_records", METRIC_COUNTER, "Records that were written for the store.", agent_records},
	{"hdtrace_agent_records_held", METRIC_GAUGE, "Records in memory that wait for room on disk.",
		agent_records_held},
	{"hdtrace_agent_records_lost", METRIC_COUNTER, "Records that found no room on disk in time.",
		agent_records_lost},
	{"hdtrace_agent_store_failures", METRIC_COUNTER, "Times that the store did not take records.",
		agent_store_failures},
	{"hdtrace_agent_store_up", METRIC_GAUGE, "1: the store took what it was given last.", agent_store_works},
	{"hdtrace_agent_captures", METRIC_COUNTER, "Full captures that were begun.", agent_captures},
	{"hdtrace_agent_captures_refused", METRIC_COUNTER, "Full captures that a limit forbade.",
		agent_captures_refused},
	{"hdtrace_agent_capture_bytes", METRIC_GAUGE, "Full captures on disk.", agent_capture_bytes},
	{"hdtrace_agent_targets_refused", METRIC_COUNTER, "Processes that could not be traced for want of room.",
		agent_refused},
	{"hdtrace_agent_configuration_valid", METRIC_GAUGE, "0: the file as it is now was refused.",
		agent_configuration_works},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- text --------------------------------------------------------------------------------------- */

/* Who has series of its own, in live's order. */
struct named_rank {
	const struct live_rank *rank;
	char *job;
	bool other; /* summed up */
	bool ended; /* only its counters are told */
};

struct writer {
	FILE *file;
	const struct metrics_source *source;
	bool open_metrics;
	struct named_rank *ranks; /* stb_ds */
};

char *metrics_job(const struct live_rank *rank)
{
	static const char family[] = "job_of_pid_";
	char *program, *text;
	int length;

	if (*rank->job && strncmp(rank->job, family, strlen(family)))
		return strdup(rank->job);
	program = program_name(rank->command);
	if (!program)
		return NULL;
	if (*rank->job)
		length = asprintf(&text, "%s:%s", program, rank->job + strlen(family));
	else
		length = asprintf(&text, "%s:%d", program, rank->pid);
	free(program);
	return length < 0 ? NULL : text;
}

int32_t metrics_rank(const struct live_rank *rank)
{
	return rank->rank_source == RANK_OF_ORDER && !*rank->job ? 0 : rank->rank;
}

bool metrics_shows(const struct live_rank *rank)
{
	return rank->is_rank && rank->device_count;
}

/* Backslash, quote and line feed are escaped; what is no UTF-8 was replaced. */
static void label_write(FILE *file, const char *name, const char *value)
{
	char *text = utf8_sanitize(value, strlen(value));

	fprintf(file, "%s=\"", name);
	for (const char *at = text ? text : ""; *at; at++) {
		if (*at == '\n')
			fputs("\\n", file);
		else if (*at == '\\' || *at == '"')
			fprintf(file, "\\%c", *at);
		else
			fputc(*at, file);
	}
	fputc('"', file);
	free(text);
}

static void head_write(const struct writer *writer, const char *name, enum metric_type type, const char *help)
{
	const char *suffix = type == METRIC_COUNTER && !writer->open_metrics ? "_total" : "";

	fprintf(writer->file, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
		type == METRIC_COUNTER ? "counter" : "gauge");
}

static void name_write(const struct writer *writer, const char *name, enum metric_type type)
{
	fprintf(writer->file, "%s%s{", name, type == METRIC_COUNTER ? "_total" : "");
	label_write(writer->file, "node", writer->source->node);
}

static void value_write(const struct writer *writer, double value)
{
	/* Integers up to 2^53 stand there in full. */
	fprintf(writer->file, "} %.17g\n", value);
}

static void rank_labels_write(const struct writer *writer, const struct named_rank *named, const char *device)
{
	char number[16];

	fputc(',', writer->file);
	label_write(writer->file, "job", named ? named->job : METRICS_OTHER);
	fputc(',', writer->file);
	if (named)
		snprintf(number, sizeof(number), "%d", metrics_rank(named->rank));
	label_write(writer->file, "rank", named ? number : METRICS_OTHER);
	if (device) {
		fputc(',', writer->file);
		label_write(writer->file, "device", device);
	}
}

static void family_of_ranks_write(const struct writer *writer, const struct family *family)
{
	double others = NAN;

	head_write(writer, family->name, family->type, family->help);
	for (size_t index = 0; index < arrlenu(writer->ranks); index++) {
		const struct named_rank *named = &writer->ranks[index];
		struct row row = {.source = writer->source, .rank = named->rank};
		double value = family->value(&row);

		if (isnan(value) || (named->ended && family->type != METRIC_COUNTER))
			continue;
		if (named->other) {
			others = isnan(others) ? value : others + value;
			continue;
		}
		name_write(writer, family->name, family->type);
		rank_labels_write(writer, named, NULL);
		value_write(writer, value);
	}
	if (isnan(others) || !family->sums)
		return;
	name_write(writer, family->name, family->type);
	rank_labels_write(writer, NULL, NULL);
	value_write(writer, others);
}

/* Sums by the name of the device. */
struct device_sum {
	char *key;
	double value;
};

/* One series of each device; `label` and `part` name a part of it, or are NULL. */
static void devices_write(const struct writer *writer, const char *name, enum metric_type type, bool sums,
	double (*value_of)(const struct row *row, const void *context), const void *context, const char *label,
	const char *part)
{
	struct device_sum *others = NULL;

	sh_new_strdup(others);
	for (size_t index = 0; index < arrlenu(writer->ranks); index++) {
		const struct named_rank *named = &writer->ranks[index];

		for (size_t device = 0; device < named->rank->device_count; device++) {
			const struct live_device *one = &named->rank->devices[device];
			struct row row = {writer->source, named->rank, one, device};
			double value = value_of(&row, context);

			if (isnan(value) || (named->ended && type != METRIC_COUNTER))
				continue;
			if (named->other) {
				ptrdiff_t at = shgeti(others, one->name);

				shput(others, one->name, (at < 0 ? 0 : others[at].value) + value);
				continue;
			}
			name_write(writer, name, type);
			rank_labels_write(writer, named, one->name);
			if (label) {
				fputc(',', writer->file);
				label_write(writer->file, label, part);
			}
			value_write(writer, value);
		}
	}
	for (ptrdiff_t index = 0; sums && index < shlen(others); index++) {
		name_write(writer, name, type);
		rank_labels_write(writer, NULL, others[index].key);
		if (label) {
			fputc(',', writer->file);
			label_write(writer->file, label, part);
		}
		value_write(writer, others[index].value);
	}
	shfree(others);
}

static double family_value(const struct row *row, const void *context)
{
	return ((const struct family *)context)->value(row);
}

struct part {
	const struct part_family *family;
	size_t index;
};

static double part_value(const struct row *row, const void *context)
{
	const struct part *part = context;

	return part->family->value(row, part->index);
}

static void part_family_write(const struct writer *writer, const struct part_family *family)
{
	head_write(writer, family->name, METRIC_GAUGE, family->help);
	for (size_t index = 0; index < family->count; index++) {
		struct part part = {family, index};

		devices_write(writer, family->name, METRIC_GAUGE, true, part_value, &part, family->label,
			family->part_name(index));
	}
}

static void agent_write(const struct writer *writer)
{
	size_t alive = 0;

	for (size_t index = 0; index < arrlenu(writer->ranks); index++)
		alive += !writer->ranks[index].ended;
	head_write(writer, "hdtrace_agent_build_info", METRIC_GAUGE, "Version of the agent.");
	name_write(writer, "hdtrace_agent_build_info", METRIC_GAUGE);
	fputc(',', writer->file);
	label_write(writer->file, "version", HDTRACE_VERSION);
	value_write(writer, 1);
	head_write(writer, "hdtrace_agent_ranks", METRIC_GAUGE, "Ranks that are traced now.");
	name_write(writer, "hdtrace_agent_ranks", METRIC_GAUGE);
	value_write(writer, (double)alive);
	for (size_t index = 0; index < COUNT(agent_families); index++) {
		const struct agent_family *family = &agent_families[index];

		head_write(writer, family->name, family->type, family->help);
		name_write(writer, family->name, family->type);
		value_write(writer, family->value(writer->source->figures));
	}
}

/* Two ranks with one name cannot both have a series of it. */
static bool is_named(const struct named_rank *ranks, const char *job, int32_t rank)
{
	for (size_t index = 0; index < arrlenu(ranks); index++)
		if (!ranks[index].other && metrics_rank(ranks[index].rank) == rank && !strcmp(ranks[index].job, job))
			return true;
	return false;
}

static bool rests(const struct metrics_source *source, const struct live_rank *rank)
{
	return source->now_ns - rank->last_time_ns < METRICS_REST_NS;
}

/* Those that live, or those that ended a while ago; of the latter none that has a name of another. */
static void ranks_add(const struct metrics_source *source, bool ended, size_t *own, struct named_rank **ranks)
{
	for (size_t index = 0; index < live_rank_count(source->live); index++) {
		const struct live_rank *rank = live_rank_at(source->live, index);
		struct named_rank named = {.rank = rank, .ended = ended};
		bool twice;

		if (rank->ended != ended || !metrics_shows(rank) || (ended && !rests(source, rank)))
			continue;
		named.job = metrics_job(rank);
		twice = named.job && is_named(*ranks, named.job, metrics_rank(rank));
		named.other = !named.job || *own == source->ranks || twice;
		if (ended && named.other) {
			free(named.job);
			continue;
		}
		*own += !named.other;
		arrput(*ranks, named);
	}
}

static struct named_rank *ranks_name(const struct metrics_source *source)
{
	struct named_rank *ranks = NULL;
	size_t own = 0;

	ranks_add(source, false, &own, &ranks);
	ranks_add(source, true, &own, &ranks);
	return ranks;
}

char *metrics_text(const struct metrics_source *source, bool open_metrics, size_t *length)
{
	struct writer writer = {.source = source, .open_metrics = open_metrics};
	char *text = NULL;
	bool failed;

	writer.file = open_memstream(&text, length);
	if (!writer.file)
		return NULL;
	writer.ranks = ranks_name(source);
	for (size_t index = 0; index < COUNT(device_families); index++) {
		const struct family *family = &device_families[index];

		head_write(&writer, family->name, family->type, family->help);
		devices_write(&writer, family->name, family->type, family->sums, family_value, family, NULL, NULL);
	}
	for (size_t index = 0; index < COUNT(part_families); index++)
		part_family_write(&writer, &part_families[index]);
	for (size_t index = 0; index < COUNT(rank_families); index++)
		family_of_ranks_write(&writer, &rank_families[index]);
	agent_write(&writer);
	if (open_metrics)
		fputs("# EOF\n", writer.file);
	for (size_t index = 0; index < arrlenu(writer.ranks); index++)
		free(writer.ranks[index].job);
	arrfree(writer.ranks);
	failed = ferror(writer.file);
	if (!fclose(writer.file) && !failed)
		return text;
	free(text);
	return NULL;
}
