/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's parts by themselves: configuration, metrics, growth, records, the endpoint. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config.h"
#include "agent/growth.h"
#include "agent/journal.h"
#include "agent/metrics.h"
#include "agent/server.h"
#include "containers/containers.h"
#include "live/live.h"
#include "store_records.h"
#include "stream/capture_writer.h"

#define SECOND 1000000000ull
#define MEBIBYTE (1ull << 20)

/* --- configuration --------------------------------------------------------------------- */

static char *written(const char *text)
{
	static char path[] = "/tmp/hdtrace-agent-XXXXXX";
	FILE *file;
	int fd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	file = fdopen(fd, "w");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
	return path;
}

static int config_of(const char *text, struct agent_config *config, char fault[CONFIG_FAULT_BYTES])
{
	char *path = written(text);
	int error = agent_config_read(path, config, fault);

	unlink(path);
	return error;
}

Test(agent_config, the_file_that_comes_with_hdtrace_has_the_usual_values)
{
	struct agent_config given, usual;
	char fault[CONFIG_FAULT_BYTES];

	cr_assert_eq(agent_config_read("packaging/agent/agent.conf", &given, fault), 0, "%s", fault);
	cr_assert_eq(config_of("", &usual, fault), 0);
	cr_assert_str_eq(given.address, usual.address);
	cr_assert_str_eq(given.store, usual.store);
	cr_assert_str_eq(given.captures, usual.captures);
	cr_assert_eq(given.port, usual.port);
	cr_assert_eq(given.interval, usual.interval);
	cr_assert_eq(given.period, usual.period);
	cr_assert_eq(given.ring_bytes, usual.ring_bytes);
	cr_assert_eq(given.quota_bytes, usual.quota_bytes);
	cr_assert_eq(given.age, usual.age);
	cr_assert_eq(given.pause, usual.pause);
	cr_assert_eq(given.peak_percent, usual.peak_percent);
	cr_assert_eq(given.out_of_memory, usual.out_of_memory);
	cr_assert_eq(given.ranks, usual.ranks);
	agent_config_clear(&given);
	agent_config_clear(&usual);
}

Test(agent_config, values_have_units)
{
	struct agent_config config;
	char fault[CONFIG_FAULT_BYTES];

	cr_assert_eq(config_of("[agent]\ninterval=2m\nring-size = 1M ; of 4K pages\n[captures]\nage=3d\non-peak = 80%\n"
			       "on-out-of-memory = no\n",
			     &config, fault),
		0, "%s", fault);
	cr_assert_eq(config.interval, 120);
	cr_assert_eq(config.ring_bytes, MEBIBYTE);
	cr_assert_eq(config.age, 3 * 86400.0);
	cr_assert_eq(config.peak_percent, 80);
	cr_assert_eq(config.out_of_memory, false);
	agent_config_clear(&config);
}

Test(agent_config, each_fault_is_told_with_its_line_and_reason)
{
	static const struct {
		const char *text, *told;
	} cases[] = {
		{"[agent]\n\nintervall = 5\n", ":3: there is no setting intervall in [agent]"},
		{"[agnet]\ninterval = 5\n", ":2: there is no section [agnet]"},
		{"[agent]\ninterval = soon\n", ":2: interval is a time"},
		{"[agent]\ninterval = 5 parsecs\n", ":2: interval is a time"},
		{"[agent]\ninterval = -1\n", ":2: interval is a time"},
		{"[agent]\ninterval =\n",
			":2: interval is a time as 30s, 5m, 2h or 14d, within its bounds, not nothing"},
		{"[agent]\nring-size = 3000000\n", "power of two"},
		{"[agent]\nsteps = perhaps\n", ":2: steps is yes or no, not perhaps"},
		{"[agent]\nsteps = yes\nsteps = no\n", ":3: steps is given twice"},
		{"[metrics]\nport = 65536\n", ":2: port is a whole number"},
		{"[metrics]\nport = 80.5\n", ":2: port is a whole number"},
		{"[metrics]\naddress = localhost\n", "is an address"},
		{"[metrics]\naddress = 0.0.0.0\n", "needs certificate, key and token"},
		{"[metrics]\naddress = ::\ncertificate = /c\nkey = /k\n", "needs certificate, key and token"},
		{"[metrics]\ncertificate = /c\n", "go together"},
		{"[captures]\non-peak = 101%\n", ":2: on-peak is a percentage"},
		{"[captures]\nfolder = captures\n", "is a path from / on"},
		{"[captures]\nquota = 2 bananas\n", ":2: quota is a size"},
		{"what is this\n", ":1: "},
		{"[agent\ninterval = 5\n", ":1: "},
	};

	for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
		struct agent_config config;
		char fault[CONFIG_FAULT_BYTES];

		cr_expect_neq(config_of(cases[index].text, &config, fault), 0, "%s", cases[index].text);
		cr_expect(strstr(fault, cases[index].told), "%s: told %s, not %s", cases[index].text, fault,
			cases[index].told);
		agent_config_clear(&config);
	}
}

Test(agent_config, a_file_that_is_not_there_is_told_by_name)
{
	struct agent_config config;
	char fault[CONFIG_FAULT_BYTES];

	cr_assert_neq(agent_config_read("/nowhere/agent.conf", &config, fault), 0);
	cr_assert(strstr(fault, "/nowhere/agent.conf: No such file"), "%s", fault);
	agent_config_clear(&config);
}

Test(agent_config, loopback_is_told_from_what_others_reach)
{
	cr_expect(address_is_loopback("127.0.0.1"));
	cr_expect(address_is_loopback("127.9.9.9"));
	cr_expect(address_is_loopback("::1"));
	cr_expect(!address_is_loopback("10.0.0.1"));
	cr_expect(!address_is_loopback("::"));
	cr_expect(!address_is_loopback("0.0.0.0"));
	cr_expect(!address_is_loopback("localhost"));
}

/* --- a live accounting of hand-made records ------------------------------------------------ */

static struct live *live;
static struct capture_writer *writer;
static struct growth *growth;
static uint64_t now;

static void observe(void *context, const struct event *record)
{
	(void)context;
	live_take(live, record);
}

static void begin(void)
{
	live = live_new(NULL);
	growth = growth_new(SECOND);
	cr_assert_eq(capture_writer_fileless(&writer), 0);
	cr_assert_eq(capture_writer_observe(writer, observe, NULL), 0);
	now = SECOND;
}

static void end(void)
{
	live_free(live);
	growth_free(growth);
	capture_writer_close(writer);
}

static void target(uint16_t index, const char *json)
{
	cr_assert_eq(capture_writer_text(writer, CAPTURE_TARGET, index, json), 0);
}

/* The allocator's words: what it has given out and what it holds. */
static void device_allocate(uint16_t index, uint64_t address, uint64_t bytes, uint64_t allocated, uint64_t reserved)
{
	struct device_allocate_event event = {
		.event = {.time_ns = now += 10,
			.size = sizeof(event),
			.thread_id = 1,
			.kind = EVENT_DEVICE_ALLOCATE,
			.target = index,
			.flags = EVENT_UNGUARDED},
		.address = address,
		.bytes = bytes,
		.allocated = allocated,
		.reserved = reserved,
		.device_type = DEVICE_CUDA,
	};

	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
}

/* --- metrics -------------------------------------------------------------------------------- */

TestSuite(agent_metrics, .init = begin, .fini = end);

static char *text_of(size_t ranks, bool open_metrics)
{
	static const struct agent_figures figures = {.store_works = true, .configuration_works = true};
	struct metrics_source source = {.live = live,
		.growth = growth,
		.node = "node \"a\"\\\n",
		.figures = &figures,
		.ranks = ranks,
		.now_ns = now};
	size_t length;
	char *text;

	live_refresh(live);
	text = metrics_text(&source, open_metrics, &length);
	cr_assert(text);
	cr_assert_eq(strlen(text), length);
	return text;
}

static void has_line(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	cr_expect(at && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n', "no line %s in\n%s", line, text);
}

#define NODE "{node=\"node \\\"a\\\"\\\\\\n\""

Test(agent_metrics, a_rank_has_its_series_with_escaped_labels)
{
	char *text;

	target(0, "{\"pid\": 7, \"rank\": 3, \"job\": \"job_x\", \"command\": \"python3 train.py\", \"level\": "
		  "\"lite\"}");
	device_allocate(0, 0x1000, MEBIBYTE, MEBIBYTE, 4 * MEBIBYTE);
	text = text_of(10, false);
	has_line(text, "# TYPE hdtrace_memory_allocated_bytes gauge");
	has_line(text, "hdtrace_memory_allocated_bytes" NODE ",job=\"job_x\",rank=\"3\",device=\"cuda:0\"} 1048576");
	has_line(text, "hdtrace_memory_reserved_bytes" NODE ",job=\"job_x\",rank=\"3\",device=\"cuda:0\"} 4194304");
	has_line(text, "hdtrace_memory_fragmentation_ratio" NODE ",job=\"job_x\",rank=\"3\",device=\"cuda:0\"} 0.75");
	has_line(text, "# TYPE hdtrace_allocated_bytes_total counter");
	has_line(text, "hdtrace_allocated_bytes_total" NODE ",job=\"job_x\",rank=\"3\",device=\"cuda:0\"} 1048576");
	has_line(text, "hdtrace_agent_ranks" NODE "} 1");
	cr_expect(!strstr(text, "hdtrace_memory_headroom_bytes{"), "headroom without the size of the device");
	cr_expect(!strstr(text, "# EOF"));
	free(text);
	live_device_size(live, 0, DEVICE_CUDA, 0, 10 * MEBIBYTE);
	text = text_of(10, false);
	has_line(text, "hdtrace_memory_headroom_bytes" NODE ",job=\"job_x\",rank=\"3\",device=\"cuda:0\"} 6291456");
	free(text);
}

Test(agent_metrics, open_metrics_have_families_without_total_and_an_end)
{
	char *text;

	target(0, "{\"pid\": 7, \"rank\": 0, \"command\": \"python3 -u /a/train.py --x\", \"level\": \"lite\"}");
	device_allocate(0, 0x1000, MEBIBYTE, MEBIBYTE, MEBIBYTE);
	text = text_of(10, true);
	has_line(text, "# TYPE hdtrace_allocated_bytes counter");
	has_line(
		text, "hdtrace_allocated_bytes_total" NODE ",job=\"train.py:7\",rank=\"0\",device=\"cuda:0\"} 1048576");
	cr_expect_str_eq(text + strlen(text) - strlen("# EOF\n"), "# EOF\n");
	free(text);
}

Test(agent_metrics, ranks_without_series_of_their_own_are_summed_up)
{
	char *text;

	for (uint16_t index = 0; index < 5; index++) {
		char json[128];

		snprintf(json, sizeof(json), "{\"pid\": %u, \"rank\": %u, \"job\": \"job_x\", \"level\": \"lite\"}",
			index + 10, index);
		target(index, json);
		device_allocate(index, 0x1000, MEBIBYTE, MEBIBYTE, MEBIBYTE);
	}
	text = text_of(2, false);
	has_line(text, "hdtrace_memory_allocated_bytes" NODE ",job=\"job_x\",rank=\"1\",device=\"cuda:0\"} 1048576");
	cr_expect(!strstr(text, "rank=\"2\""), "%s", text);
	has_line(text,
		"hdtrace_memory_allocated_bytes" NODE ",job=\"_other\",rank=\"_other\",device=\"cuda:0\"} 3145728");
	has_line(text, "hdtrace_agent_ranks" NODE "} 5");
	cr_expect(!strstr(text, "hdtrace_memory_fragmentation_ratio" NODE ",job=\"_other\""), "a sum of ratios");
	free(text);
}

Test(agent_metrics, no_series_is_there_twice)
{
	char *text;

	/* The same rank of the same job: an older start that has not ended. */
	for (uint16_t index = 0; index < 2; index++) {
		target(index, "{\"pid\": 10, \"rank\": 0, \"job\": \"job_x\", \"level\": \"lite\"}");
		device_allocate(index, 0x1000, MEBIBYTE, MEBIBYTE, MEBIBYTE);
	}
	text = text_of(10, false);
	for (char *line = strtok(strdup(text), "\n"); line; line = strtok(NULL, "\n")) {
		char *series = strndup(line, strcspn(line, "}") + 1), *first;

		if (*line == '#')
			continue;
		first = strstr(text, series);
		cr_expect(!strstr(first + 1, series), "twice: %s", series);
		free(series);
	}
	free(text);
}

Test(agent_metrics, a_rank_that_ended_keeps_its_counters_for_a_while)
{
	char *text;

	target(0, "{\"pid\": 7, \"rank\": 3, \"job\": \"job_x\", \"level\": \"lite\"}");
	device_allocate(0, 0x1000, MEBIBYTE, MEBIBYTE, MEBIBYTE);
	cr_assert_eq(capture_writer_text(writer, CAPTURE_END, 0, "{}"), 0);
	text = text_of(10, false);
	has_line(text, "hdtrace_allocated_bytes_total" NODE ",job=\"job_x\",rank=\"3\",device=\"cuda:0\"} 1048576");
	cr_expect(!strstr(text, "hdtrace_memory_allocated_bytes{"), "it holds nothing any more");
	has_line(text, "hdtrace_agent_ranks" NODE "} 0");
	free(text);
	now += METRICS_REST_NS;
	text = text_of(10, false);
	cr_expect(!strstr(text, "job_x"), "%s", text);
	free(text);
}

/* --- growth ------------------------------------------------------------------------------------ */

TestSuite(agent_growth, .init = begin, .fini = end);

static void look_with(uint64_t allocated, uint64_t at)
{
	device_allocate(0, 0x1000 + allocated, MEBIBYTE, allocated, allocated);
	live_refresh(live);
	growth_look(growth, live, at);
}

Test(agent_growth, the_slope_of_what_grows_steadily_is_found)
{
	double rate;

	target(0, "{\"pid\": 7, \"rank\": 0, \"level\": \"lite\"}");
	for (uint64_t second = 0; second < 100; second++) {
		look_with((10 + second) * MEBIBYTE, second * SECOND);
		if (second < 4)
			cr_expect(
				!growth_rate(growth, live_rank_at(live, 0), 0, &rate), "known after %d s", (int)second);
	}
	cr_assert(growth_rate(growth, live_rank_at(live, 0), 0, &rate));
	cr_expect_float_eq(rate, 3600.0 * MEBIBYTE, 0.02 * 3600.0 * MEBIBYTE, "%f", rate);
}

Test(agent_growth, what_rises_and_falls_with_each_step_does_not_grow)
{
	double rate;

	target(0, "{\"pid\": 7, \"rank\": 0, \"level\": \"lite\"}");
	for (uint64_t look = 0; look < 500; look++)
		look_with((10 + look % 10) * MEBIBYTE, look * SECOND / 10);
	cr_assert(growth_rate(growth, live_rank_at(live, 0), 0, &rate));
	cr_expect_float_eq(rate, 0, 60.0 * MEBIBYTE, "%f", rate);
}

/* A fifth of the time a job only begins: what it holds then, and that it holds more later, is no growth. */
Test(agent_growth, what_a_job_builds_up_when_it_begins_does_not_count)
{
	double rate;

	target(0, "{\"pid\": 7, \"rank\": 0, \"level\": \"lite\"}");
	for (uint64_t second = 0; second < 50; second++)
		look_with((second < 10 ? second : 10000) * MEBIBYTE, second * SECOND);
	cr_assert(growth_rate(growth, live_rank_at(live, 0), 0, &rate));
	cr_expect_float_eq(rate, 0, 1.0 * MEBIBYTE, "%f", rate);
}

/* --- the journal ------------------------------------------------------------------------------- */

TestSuite(agent_journal, .init = begin, .fini = end);

/* A clock that is set back by a year, then on by two: periods are as long as they were, one after the other. */
Test(agent_journal, whose_clock_is_set_keeps_its_periods)
{
	static const int64_t clocks[] = {1700000000, 1700000000 - 31536000, 1700000000 + 31536000};
	char *folder = folder_new(), *spool_folder = path_in(folder, "spool");
	struct store *store = store_new(folder);
	struct journal *journal = journal_new("here");
	struct drain_options options = {0};
	struct drain_result result;
	struct spool *spool;
	uint64_t start;

	cr_assert_eq(spool_open(spool_folder, 1 << 20, &spool), 0);
	target(0, "{\"pid\": 7, \"rank\": 0, \"job\": \"job_x\", \"level\": \"lite\"}");
	device_allocate(0, 0x1000, MEBIBYTE, MEBIBYTE, MEBIBYTE);
	live_refresh(live);
	start = live_rank_at(live, 0)->start_time_ns;
	for (uint64_t second = 0; second <= 60; second++) {
		struct journal_time when = {
			(clocks[second / 21] + (int64_t)second) * (int64_t)SECOND, start + second * SECOND};

		live_refresh(live);
		cr_assert_geq(journal_look(journal, live, spool, when, 10 * SECOND), 0);
	}
	cr_assert_eq(spool_commit(spool), 0);
	spool_close(spool);
	cr_assert_eq(spool_drain(spool_folder, store, &options, &result), 0, "%s", store_fault(store));
	cr_expect_eq(store_number(store, "SELECT count(*) FROM period"), 6);
	cr_expect_eq(
		store_number(store, "SELECT count(*) FROM period WHERE end_time - start_time BETWEEN 9 AND 11"), 6);
	cr_expect_geq(store_number(store, "SELECT count(*) FROM period WHERE start_time < 1690000000"), 2);
	cr_expect_geq(store_number(store, "SELECT count(*) FROM period WHERE start_time > 1710000000"), 1);
	journal_free(journal);
	store_close(store);
	free(spool_folder);
	folder_remove(folder);
}

/* --- the endpoint -------------------------------------------------------------------------------- */

Test(agent_server, what_cannot_be_listened_on_is_told)
{
	struct server_options options = {.address = "192.0.2.1", .port = 9, .certificate = "", .key = "", .token = ""};
	char fault[SERVER_FAULT_BYTES];
	struct server *server;

	cr_assert_neq(server_start(&options, &server, fault), 0);
	cr_assert(strstr(fault, "cannot listen on 192.0.2.1, port 9: "), "%s", fault);
	options.token = "/nowhere/token";
	cr_assert_neq(server_start(&options, &server, fault), 0);
	cr_assert(strstr(fault, "cannot read /nowhere/token: No such file"), "%s", fault);
	options.token = written("short\n");
	cr_assert_neq(server_start(&options, &server, fault), 0);
	cr_assert(strstr(fault, "fewer than 16 characters"), "%s", fault);
	unlink(options.token);
}
