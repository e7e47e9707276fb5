/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries and their parameters, predictions, answers, and the records that a trace becomes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>

#include "audit/capture_records.h"
#include "audit/prediction.h"
#include "audit/query.h"
#include "audit/table_output.h"
#include "audit/value.h"
#include "model_events.h"
#include "store_records.h"

/* --- values ---------------------------------------------------------------------------- */

Test(value, of_a_size_has_a_unit)
{
	static const char *const wrong[] = {"", "G", "-1G", "1X", "1Gx", "99999999P", "nan"};
	int64_t bytes = -1;

	cr_expect(value_size("40G", &bytes) && bytes == 40ll << 30);
	cr_expect(value_size("1.5GiB", &bytes) && bytes == 3ll << 29);
	cr_expect(value_size("512", &bytes) && bytes == 512);
	cr_expect(value_size("2kB", &bytes) && bytes == 2048);
	bytes = -1;
	for (size_t index = 0; index < sizeof(wrong) / sizeof(wrong[0]); index++)
		cr_expect(eq(int, value_size(wrong[index], &bytes), 0), "%s", wrong[index]);
	cr_expect(eq(i64, bytes, -1));
}

Test(value, of_a_time_is_a_date_or_before_now)
{
	static const char *const wrong[] = {"-7", "-d", "-7dd", "2026-13-40", "", "x", "-99999999999999999w"};
	int64_t now = 1800000000, time = -1;

	cr_expect(value_time("now", now, &time) && time == now);
	cr_expect(value_time("-7d", now, &time) && time == now - 7 * 86400);
	cr_expect(value_time("-90m", now, &time) && time == now - 5400);
	cr_expect(value_time("2026-11-30", now, &time) && time == 1795996800);
	cr_expect(value_time("2026-11-30T01:30", now, &time) && time == 1795996800 + 5400);
	cr_expect(value_time("1700000000", now, &time) && time == 1700000000);
	time = -1;
	for (size_t index = 0; index < sizeof(wrong) / sizeof(wrong[0]); index++)
		cr_expect(eq(int, value_time(wrong[index], now, &time), 0), "%s", wrong[index]);
	cr_expect(eq(i64, time, -1));
}

/* --- query files ------------------------------------------------------------------------- */

static int parse(const char *text, struct query *query, char fault[QUERY_FAULT_BYTES])
{
	*query = (struct query){.name = strdup("test")};
	return query_parse(text, strlen(text), query, fault);
}

Test(query, tells_what_it_is_and_its_parameters)
{
	char fault[QUERY_FAULT_BYTES];
	struct query query;

	cr_assert(eq(int,
		parse("-- title: All of it\n-- about: a\n-- about: b\n-- parameter: since time = -7d: from when\n"
		      "-- parameter: job text = : which\n-- parameter: size size: how large\nSELECT 1\n",
			&query, fault),
		0));
	cr_expect(eq(str, query.title, "All of it"));
	cr_expect(eq(str, query.about, "a\nb\n"));
	cr_assert(eq(sz, arrlenu(query.parameters), 3));
	cr_expect(eq(str, query.parameters[0].fallback, "-7d"));
	cr_expect(eq(int, query.parameters[0].type, QUERY_TIME));
	cr_expect(eq(str, query.parameters[1].fallback, ""));
	cr_expect(eq(ptr, query.parameters[2].fallback, NULL));
	cr_expect(eq(str, query.parameters[2].meaning, "how large"));
	query_clear(&query);
}

Test(query, that_is_wrong_is_refused_with_its_line)
{
	static const char *const wrong[] = {"SELECT 1\n", "-- title:\n", "-- title: x\n-- parameter: a\n",
		"-- title: x\n-- parameter: a what: b\n", "-- title: x\n-- parameter: 1a text: b\n",
		"-- title: x\n-- parameter: a;b text: b\n",
		"-- title: x\n-- parameter: a text: b\n-- parameter: a text: b\n"};
	char fault[QUERY_FAULT_BYTES];
	struct query query;

	for (size_t index = 0; index < sizeof(wrong) / sizeof(wrong[0]); index++) {
		*fault = 0;
		cr_expect(eq(int, parse(wrong[index], &query, fault), -EBADMSG), "%s", wrong[index]);
		cr_expect(ne(str, fault, ""));
		query_clear(&query);
	}
}

Test(query, gets_the_values_that_are_given_and_the_others_by_default)
{
	static const char *const given[] = {"size=1K", "job=a=b", "size=2K"};
	static const char *const unknown[] = {"nothing=1"}, *const bad[] = {"size=much"};
	char fault[QUERY_FAULT_BYTES];
	struct parameter *values;
	struct query query;

	parse("-- title: x\n-- parameter: size size: s\n-- parameter: job text = : j\n-- parameter: since time = -1s: "
	      "t\n",
		&query, fault);
	values = query_values(&query, given, 3, 100, fault);
	cr_assert(eq(sz, arrlenu(values), 4));
	cr_expect(eq(i64, values[1].number, 2048));
	cr_expect(eq(str, (char *)values[2].text, "a=b"));
	cr_expect(eq(i64, values[3].number, 99));
	arrfree(values);
	cr_expect(eq(ptr, query_values(&query, NULL, 0, 100, fault), NULL));
	cr_expect(eq(ptr, query_values(&query, unknown, 1, 100, fault), NULL));
	cr_expect(eq(ptr, query_values(&query, bad, 1, 100, fault), NULL));
	query_clear(&query);
}

/* Each "(SELECT NAME FROM parameter)" is of a parameter: without one, NAME could be a column of the table around. */
static void check_declared(const struct query *query, const struct parameter *values)
{
	static const char before[] = "(SELECT ", after[] = " FROM parameter)";
	const char *at = query->sql;

	while ((at = strstr(at, after))) {
		const char *name = at;
		bool is_declared = false;

		while (strncmp(name, before, strlen(before)) != 0)
			name--;
		name += strlen(before);
		for (size_t place = 0; place < arrlenu(values); place++)
			is_declared |= strlen(values[place].name) == (size_t)(at - name) &&
			               !strncmp(name, values[place].name, (size_t)(at - name));
		cr_expect(is_declared, "%s: %.40s", query->name, name);
		at++;
	}
}

/* Every query that is installed runs on an empty store, and uses no parameter that it does not declare. */
Test(query, that_is_installed_runs)
{
	static const char *const folders[] = {"/nowhere", "queries"};
	static const char *const given[] = {"old=1", "new=2"}, *const size[] = {"device=40G"};
	char fault[QUERY_FAULT_BYTES] = "", *folder = folder_new();
	struct query *queries = queries_read(folders, 2, fault);
	struct store *store = store_new(folder);

	cr_expect(eq(str, fault, ""));
	cr_expect(ge(sz, arrlenu(queries), 10));
	for (size_t index = 0; index < arrlenu(queries); index++) {
		const char *name = queries[index].name;
		bool has_versions = !strcmp(name, "regression-version"), has_size = !strcmp(name, "capacity");
		struct parameter *values = query_values(&queries[index], has_size ? size : given,
			has_versions ? 2
			: has_size   ? 1
				     : 0,
			1800000000, fault);
		struct result result = {0};

		cr_assert(ne(ptr, values, NULL), "%s: %s", name, fault);
		cr_expect(eq(int, store_query(store, queries[index].sql, values, arrlenu(values), &result), 0),
			"%s: %s", name, store_fault(store));
		cr_expect(gt(sz, arrlenu(result.names), 3), "%s", name);
		cr_expect(eq(sz, arrlenu(result.cells), 0), "%s", name);
		check_declared(&queries[index], values);
		result_clear(&result);
		arrfree(values);
	}
	queries_free(queries);
	store_close(store);
	folder_remove(folder);
}

/* --- predictions ----------------------------------------------------------------------------- */

static int predict(const char *text, int64_t *peak)
{
	FILE *file = fmemopen((char *)text, strlen(text), "r");
	int error = prediction_read(file, peak);

	fclose(file);
	return error;
}

Test(prediction, is_the_highest_of_its_column)
{
	int64_t peak;

	cr_expect(eq(int, predict("a,actual_peak_memory,b\r\n\"x,\"\"y\nz\",100,\r\n,300,1\r\n,200,\r\n", &peak), 0));
	cr_expect(eq(i64, peak, 300));
	cr_expect(eq(int, predict("actual_peak_memory\n7", &peak), 0));
	cr_expect(eq(i64, peak, 7));
	cr_expect(eq(int, predict("actual_peak_memory\n\n", &peak), -EBADMSG));
	cr_expect(eq(int, predict("actual_peak_memory\n-7\n", &peak), -EBADMSG));
	cr_expect(eq(int, predict("a,b\n1,2\n", &peak), -EBADMSG));
	cr_expect(eq(int, predict("actual_peak_memory,b\n1,\"2\n", &peak), -EBADMSG));
}

Test(prediction, has_the_rank_of_its_file)
{
	cr_expect(eq(int, prediction_rank("x/rank_12_memory.csv"), 12));
	cr_expect(eq(int, prediction_rank("rank_0_memory.csv"), 0));
	cr_expect(eq(int, prediction_rank("rank_1_memory.csv.gz"), -1));
	cr_expect(eq(int, prediction_rank("rank_x_memory.csv"), -1));
	cr_expect(eq(int, prediction_rank("rank_-1_memory.csv"), -1));
	cr_expect(eq(int, prediction_rank("other.csv"), -1));
}

/* --- records of a trace -------------------------------------------------------------------------- */

static void check_program(const char *command, const char *name)
{
	char *found = program_name(command);

	cr_expect(eq(str, found, (char *)name), "%s", command);
	free(found);
}

Test(capture_records, call_a_job_by_its_program)
{
	check_program("/usr/bin/python3 -u /home/eva/train.py --lr 3", "train.py");
	check_program("python3 -m torch.distributed.run x", "torch.distributed.run");
	check_program("/opt/bin/trainer --x", "trainer");
	check_program("", "");
}

/* The records of a small trace in a store. Twice the same capture is once in it. */
Test(capture_records, are_what_the_model_says)
{
	struct capture_origin origin = {
		.node = "node7", .start_real_ns = 1700000000000000000, .real_offset_ns = 1700000000000000000};
	struct run_choice choice = {.version = "v1", .capacity_bytes = 1 << 30};
	static const char *const untold[] = {
		"SELECT count(*) FROM run WHERE run = 'watched'",
		"SELECT count(*) FROM rank WHERE run = 'watched'",
		"SELECT count(*) FROM period WHERE run = 'watched'",
		"SELECT count(*) FROM holder WHERE run = 'watched'",
	};
	char *folder = folder_new(), *spool_folder = path_in(folder, "spool");
	struct store *store = store_new(folder);
	struct drain_options options = {0};
	struct trace trace = trace_new(true, false);
	struct drain_result result;
	const struct rank *rank;
	struct spool *spool;

	make(&trace, OP_EMPTY, 0x1000, 4 << 20);
	make(&trace, OP_EMPTY, 0x2000, 2 << 20);
	release(&trace, 0, 0x2000);
	make(&trace, OP_EMPTY, 0x3000, 1 << 20);
	rank = trace_finish(&trace);
	cr_assert(eq(int, spool_open(spool_folder, 1 << 20, &spool), 0));
	for (int round = 0; round < 2; round++) {
		cr_assert(eq(int, capture_records_put(spool, &rank, 1, &origin, &choice), 0));
		cr_assert(eq(int, spool_commit(spool), 0));
		spool_seal(spool);
	}
	cr_assert(eq(int, spool_drain(spool_folder, store, &options, &result), 0), "%s", store_fault(store));
	cr_expect(
		eq(i64, store_number(store, "SELECT count(*) FROM runs WHERE version = 'v1' AND length(run) = 16"), 1));
	cr_expect(eq(i64, store_number(store, "SELECT count(*) FROM ranks WHERE node = 'node7' AND rank = 0"), 1));
	cr_expect(eq(i64, store_number(store, "SELECT count(*) FROM periods"), 1));
	cr_expect(eq(i64, store_number(store, "SELECT peak_bytes FROM periods"), 6 << 20));
	cr_expect(eq(i64, store_number(store, "SELECT end_bytes FROM periods"), 5 << 20));
	cr_expect(eq(i64, store_number(store, "SELECT capacity_bytes FROM periods"), 1 << 30));
	cr_expect(eq(i64, store_number(store, "SELECT start_time FROM periods"), 1700000000));
	cr_expect(
		eq(i64, store_number(store, "SELECT bytes FROM blocks WHERE place = 0 AND moment = 'peak'"), 4 << 20));
	cr_expect(eq(i64, store_number(store, "SELECT count(*) FROM blocks"), 2));
	cr_expect(eq(i64, store_number(store, "SELECT sum(bytes) FROM holders WHERE kind = 'line'"), 6 << 20));
	/* Of a run that somebody else tells of, only what he cannot see. */
	choice.run = "watched";
	choice.part = true;
	cr_assert(eq(int, capture_records_put(spool, &rank, 1, &origin, &choice), 0));
	cr_assert(eq(int, spool_commit(spool), 0));
	spool_seal(spool);
	cr_assert(eq(int, spool_drain(spool_folder, store, &options, &result), 0), "%s", store_fault(store));
	cr_expect(eq(i64, store_number(store, "SELECT count(*) FROM block WHERE run = 'watched'"), 2));
	cr_expect(ge(i64, store_number(store, "SELECT count(*) FROM finding WHERE run = 'watched'"), 1));
	for (size_t table = 0; table < sizeof(untold) / sizeof(untold[0]); table++)
		cr_expect(eq(i64, store_number(store, untold[table]), 0), "%s", untold[table]);
	spool_close(spool);
	store_close(store);
	model_free(trace.model);
	free(spool_folder);
	folder_remove(folder);
}
