// SPDX-License-Identifier: BSD-2-Clause
/*
 * The ranks of one job side by side: peaks, steps, collectives, who kept others
 * waiting, and what was never finished. Everything that is about one rank alone
 * stands in that rank's own report.
 */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "findings_json.h"
#include "job_json.h"
#include "output.h"
#include "text.h"

#define SCHEMA_VERSION 1
#define LATEST_MAX 20

static const char *const rank_sources[] = {
	[RANK_OF_LAUNCHER] = "launcher", [RANK_OF_COMMUNICATOR] = "communicator", [RANK_OF_ORDER] = "order"};

static const struct collective *last_of(const struct rank *rank)
{
	return arrlenu(rank->collectives) ? &rank->collectives[arrlenu(rank->collectives) - 1] : NULL;
}

static void put_place(struct json *json, const char *key, const struct stack *stack)
{
	const struct frame *leaf = stack_leaf(stack);
	char *text;

	if (!leaf || asprintf(&text, "%s:%u", leaf->file, leaf->line) < 0) {
		json_put_text(json, key, NULL);
		return;
	}
	json_put_text(json, key, text);
	free(text);
}

struct sums {
	uint64_t bytes, wait_ns, host_wait_ns, came_last, small;
};

static struct sums sums_of(const struct rank *rank)
{
	struct sums sums = {0};

	for (size_t i = 0; i < arrlenu(rank->collectives); i++) {
		const struct collective *collective = &rank->collectives[i];
		uint64_t waited = collective_host_wait(rank, collective);

		sums.bytes += collective->input_bytes == COUNT_UNKNOWN ? 0 : collective->input_bytes;
		sums.wait_ns += collective->wait_ns;
		sums.host_wait_ns += waited == UINT64_MAX ? 0 : waited;
		sums.small += collective_is_small(collective);
		sums.came_last += collective->matched_ranks && collective->last_rank == rank->rank;
	}
	return sums;
}

/* Of all steps: the sum of what exists only for communication, and the highest total of it. */
static void put_communication(struct json *json, const struct rank *rank)
{
	uint64_t bytes = 0, peak = 0;

	for (size_t i = 0; i < arrlenu(rank->steps); i++) {
		bytes += rank->steps[i].communication_bytes;
		if (rank->steps[i].communication_peak_bytes > peak)
			peak = rank->steps[i].communication_peak_bytes;
	}
	json_put_unsigned(json, "communication_bytes", bytes);
	json_put_unsigned(json, "communication_peak_bytes", peak);
}

static void put_member(struct json *json, const char *key, yajl_val tree)
{
	const char *path[] = {key, NULL};

	json_put_tree(json, key, tree ? yajl_tree_get(tree, path, yajl_t_any) : NULL);
}

static void put_rank(struct json *json, const struct rank *rank)
{
	yajl_val target = rank->target_json ? yajl_tree_parse(rank->target_json, NULL, 0) : NULL;
	yajl_val end = rank->end_json ? yajl_tree_parse(rank->end_json, NULL, 0) : NULL;
	struct sums sums = sums_of(rank);

	json_object(json);
	json_put_unsigned(json, "came_last", sums.came_last);
	json_put_unsigned(json, "capture", rank->capture);
	json_put_signed(json, "clock_offset_ns", rank->clock_offset_ns);
	json_put_unsigned(json, "collective_bytes", sums.bytes);
	json_put_unsigned(json, "collectives", arrlenu(rank->collectives));
	put_communication(json, rank);
	json_put_unsigned(json, "host_wait_ns", sums.host_wait_ns);
	put_member(json, "namespace_pid", target);
	json_put_unsigned(json, "peak_bytes", rank->peak_bytes);
	put_member(json, "pid", target);
	put_member(json, "python_stack", end);
	json_put_signed(json, "rank", rank->rank);
	json_put_text(json, "rank_source", rank_sources[rank->rank_source]);
	json_put_unsigned(json, "small_collectives", sums.small);
	json_put_unsigned(json, "steps", rank->step_count);
	json_put_unsigned(json, "wait_ns", sums.wait_ns);
	json_object_end(json);
	yajl_tree_free(target);
	yajl_tree_free(end);
}

static void put_collective(struct json *json, const struct rank *rank, const struct collective *collective)
{
	json_object(json);
	json_put_signed(json, "absent_rank", collective->absent_rank);
	json_put_unsigned(json, "communicator", collective->group);
	json_put_text(json, "kind", collective_kind_name(collective));
	json_put_signed(json, "last_rank", collective->last_rank);
	json_put_text(json, "layer", collective_layer_name(collective->layer));
	put_place(json, "line", &rank->stacks[collective->stack]);
	json_put_signed(json, "rank", rank->rank);
	json_put_unsigned(json, "sequence", collective->sequence);
	json_put_unsigned(json, "skew_ns", collective->skew_ns);
	json_object_end(json);
}

/* What one rank of a job began; collectives are those that it saw first. */
struct seen {
	const struct rank *rank;
	const struct collective *collective;
};

static int skew_compare(const void *left, const void *right)
{
	const struct collective *a = ((const struct seen *)left)->collective;
	const struct collective *b = ((const struct seen *)right)->collective;

	if (a->skew_ns != b->skew_ns)
		return a->skew_ns > b->skew_ns ? -1 : 1;
	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static void put_seen(struct json *json, const char *key, const struct seen *seen, size_t count)
{
	if (!json_list(json, key, count))
		return;
	for (size_t i = 0; i < count; i++)
		put_collective(json, seen[i].rank, seen[i].collective);
	json_array_end(json);
}

/* Those that the last rank began: each matched one is told once. */
static void put_latest(struct json *json, const struct rank *const *ranks, size_t count)
{
	struct seen *seen = NULL;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < arrlenu(ranks[i]->collectives); j++) {
			struct seen one = {ranks[i], &ranks[i]->collectives[j]};

			if (one.collective->matched_ranks > 1 && one.collective->last_rank == ranks[i]->rank)
				arrput(seen, one);
		}
	if (seen)
		qsort(seen, arrlenu(seen), sizeof(*seen), skew_compare);
	put_seen(json, "latest", seen, arrlenu(seen) < LATEST_MAX ? arrlenu(seen) : LATEST_MAX);
	arrfree(seen);
}

static void put_differing(struct json *json, const struct rank *const *ranks, size_t count)
{
	struct seen *seen = NULL;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < arrlenu(ranks[i]->collectives); j++)
			if (ranks[i]->collectives[j].differs && arrlenu(seen) < LATEST_MAX) {
				struct seen one = {ranks[i], &ranks[i]->collectives[j]};

				arrput(seen, one);
			}
	put_seen(json, "differing", seen, arrlenu(seen));
	arrfree(seen);
}

/* What a rank began last, and another one of its group never. */
static void put_unfinished(struct json *json, const struct rank *const *ranks, size_t count)
{
	struct seen *seen = NULL;

	for (size_t i = 0; i < count; i++) {
		struct seen one = {ranks[i], last_of(ranks[i])};

		if (one.collective && one.collective->absent_rank != RANK_UNKNOWN)
			arrput(seen, one);
	}
	put_seen(json, "unfinished", seen, arrlenu(seen));
	arrfree(seen);
}

static void put_peaks(struct json *json, const struct rank *const *ranks, size_t count)
{
	const struct rank *highest = ranks[0], *lowest = ranks[0];

	for (size_t i = 1; i < count; i++) {
		highest = ranks[i]->peak_bytes > highest->peak_bytes ? ranks[i] : highest;
		lowest = ranks[i]->peak_bytes < lowest->peak_bytes ? ranks[i] : lowest;
	}
	json_key(json, "peak");
	json_object(json);
	json_put_unsigned(json, "bytes", highest->peak_bytes);
	json_put_unsigned(json, "lowest_bytes", lowest->peak_bytes);
	json_put_signed(json, "lowest_rank", lowest->rank);
	json_put_signed(json, "rank", highest->rank);
	json_object_end(json);
}

void put_job(struct json *json, const struct rank *const *ranks, size_t count, const struct finding *findings)
{
	json_object(json);
	put_differing(json, ranks, count);
	put_findings_of_job(json, findings, ranks[0]->job);
	json_put_text(json, "job", *ranks[0]->job ? ranks[0]->job : NULL);
	put_latest(json, ranks, count);
	put_peaks(json, ranks, count);
	json_key(json, "ranks");
	json_array(json);
	for (size_t i = 0; i < count; i++)
		put_rank(json, ranks[i]);
	json_array_end(json);
	json_put_unsigned(json, "schema_version", SCHEMA_VERSION);
	put_unfinished(json, ranks, count);
	json_object_end(json);
}

int report_job_json(
	const struct rank *const *ranks, size_t count, const struct report_options *options, const char *path)
{
	struct output output = {0};
	struct json json = {0};
	int error;

	error = output_open(&output, path);
	if (error)
		return error;
	error = json_begin(&json, output.file);
	if (!error) {
		put_job(&json, ranks, count, options ? options->findings : NULL);
		error = json_end(&json);
	}
	if (!error)
		error = output_commit(&output);
	output_discard(&output);
	return error;
}

int report_job_summary(const struct rank *const *ranks, size_t count, FILE *out)
{
	const struct rank *highest = ranks[0];

	for (size_t i = 1; i < count; i++)
		highest = ranks[i]->peak_bytes > highest->peak_bytes ? ranks[i] : highest;
	fprintf(out, "job  %s%s%zu ranks, highest peak on rank %d\n", ranks[0]->job, *ranks[0]->job ? "  " : "", count,
		highest->rank);
	for (size_t i = 0; i < count; i++) {
		struct sums sums = sums_of(ranks[i]);
		const struct collective *last = last_of(ranks[i]);

		if (!last)
			continue;
		fprintf(out, "  rank %d began %zu collectives, came last to %llu, waited %.1f ms for others\n",
			ranks[i]->rank, (size_t)arrlenu(ranks[i]->collectives), (unsigned long long)sums.came_last,
			(double)sums.wait_ns / 1e6);
		if (last->absent_rank != RANK_UNKNOWN)
			fprintf(out, "  rank %d began %s %u, rank %d never did\n", ranks[i]->rank,
				collective_kind_name(last), last->sequence, last->absent_rank);
	}
	fputc('\n', out);
	return ferror(out) ? -EIO : 0;
}
