// SPDX-License-Identifier: BSD-2-Clause
/* The agent's loop: a sink of a recording without a capture; what is done at each look. */
#include "agent/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/captures.h"
#include "agent/follower.h"
#include "agent/growth.h"
#include "agent/journal.h"
#include "agent/metrics.h"
#include "agent/privileges.h"
#include "agent/sender.h"
#include "agent/server.h"
#include "base/clock.h"
#include "base/folder.h"
#include "containers/containers.h"
#include "live/live.h"
#include "record/recorder.h"
#include "target/accelerator.h"

#define SECOND_NS 1000000000
#define NODE_BYTES 256
/* A look must see each that has ended: none is forgotten before. */
#define ENDED_MAX 4096
#define BLOCKS_MAX 200000

struct agent {
	const struct agent_options *options;
	struct agent_config *config;
	char node[NODE_BYTES];
	struct live *live;
	struct growth *growth;
	struct follower *follower;
	struct journal *journal;
	struct captures *captures;
	struct server *server; /* NULL: none is wanted */
	struct spool *spool;   /* NULL: there is no store */
	struct sender *sender; /* likewise */
	char *spool_folder;
	bool spool_told; /* that it does not work */
	struct agent_figures figures;
	uint64_t look_ns;
	size_t trimmed_at; /* ranks that were known when memory was given back */
	bool reload;
};

static struct journal_time time_now(void)
{
	return (struct journal_time){clock_ns(CLOCK_REALTIME), monotonic_ns()};
}

/* --- what a configuration makes ---------------------------------------------------------- */

static int node_fill(struct agent *agent)
{
	if (*agent->config->node) {
		snprintf(agent->node, sizeof(agent->node), "%s", agent->config->node);
		return 0;
	}
	if (gethostname(agent->node, sizeof(agent->node)))
		return -errno;
	agent->node[sizeof(agent->node) - 1] = '\0';
	return 0;
}

static int port_tell(const struct agent *agent)
{
	FILE *file = agent->options->port_path ? fopen(agent->options->port_path, "we") : NULL;

	if (!agent->options->port_path)
		return 0;
	if (!file || fprintf(file, "%u\n", server_port(agent->server)) < 0 || fclose(file)) {
		fprintf(stderr, "hdtrace: cannot write %s: %s\n", agent->options->port_path, strerror(errno));
		return -EIO;
	}
	return 0;
}

static int server_begin(const struct agent_config *config, struct server **server)
{
	struct server_options options = {
		.address = config->address,
		.port = (uint16_t)config->port,
		.certificate = config->certificate,
		.key = config->key,
		.token = config->token,
	};
	char fault[SERVER_FAULT_BYTES];
	int error;

	*server = NULL;
	if (!*config->address)
		return 0;
	error = server_start(&options, server, fault);
	if (error)
		fprintf(stderr, "hdtrace: %s\n", fault);
	return error;
}

static void store_end(struct agent *agent)
{
	if (agent->figures.records_held)
		fprintf(stderr, "hdtrace: %" PRIu64 " records are lost: %s has no room\n", agent->figures.records_held,
			agent->spool_folder);
	agent->figures.records_lost += agent->figures.records_held;
	agent->figures.records_held = 0;
	agent->spool_told = false;
	spool_close(agent->spool);
	sender_stop(agent->sender);
	free(agent->spool_folder);
	agent->spool = NULL;
	agent->sender = NULL;
	agent->spool_folder = NULL;
}

static int store_begin(struct agent *agent)
{
	const struct agent_config *config = agent->config;
	char fault[STORE_FAULT_BYTES];
	struct store *store;
	int error;

	if (!*config->store)
		return 0;
	error = store_open(config->store, &store, fault);
	if (error) {
		fprintf(stderr, "hdtrace: %s\n", fault);
		return error;
	}
	agent->spool_folder = store_spool_folder(store, config->spool);
	store_close(store);
	error = agent->spool_folder ? folder_make(agent->spool_folder, NULL) : -ENOMEM;
	if (!error)
		error = spool_open(agent->spool_folder, config->spool_bytes, &agent->spool);
	if (error) {
		fprintf(stderr, "hdtrace: cannot write to the spool %s: %s\n", config->spool, strerror(-error));
		return error;
	}
	error = sender_start(config->store, agent->spool_folder, &agent->sender, fault);
	if (error)
		fprintf(stderr, "hdtrace: %s\n", fault);
	return error;
}

/* --- a new configuration ------------------------------------------------------------------- */

static bool texts_differ(const char *left, const char *right)
{
	return strcmp(left, right) != 0;
}

/* What the tracer was started with stays. */
static void fixed_tell(const struct agent_config *old, const struct agent_config *new)
{
	if (old->ring_bytes != new->ring_bytes || old->owners != new->owners || old->steps != new->steps ||
		old->growth_interval < new->growth_interval || old->growth_interval > new->growth_interval)
		fputs("hdtrace: ring-size, growth-interval, owners and steps in [agent] change when the agent is "
		      "started again\n",
			stderr);
}

/* With the same port: the old one must go first. Files may have changed under their names. */
static int server_change(struct agent *agent, const struct agent_config *new)
{
	int error;

	server_stop(agent->server);
	error = server_begin(new, &agent->server);
	if (error)
		server_begin(agent->config, &agent->server);
	return error;
}

static void reload(struct agent *agent)
{
	struct agent_config *new = calloc(1, sizeof(*new)), old;
	char fault[CONFIG_FAULT_BYTES];
	int error = new ? agent_config_read(agent->options->config_path, new, fault) : -ENOMEM;

	if (!new)
		return;
	if (error)
		fprintf(stderr, "hdtrace: %s; the configuration stays as it was\n", fault);
	else
		error = server_change(agent, new);
	agent->figures.configuration_works = !error;
	if (error) {
		agent_config_clear(new);
		free(new);
		return;
	}
	old = *agent->config;
	*agent->config = *new;
	free(new);
	fixed_tell(&old, agent->config);
	node_fill(agent);
	captures_configure(agent->captures, agent->config);
	if (texts_differ(old.store, agent->config->store) || texts_differ(old.spool, agent->config->spool) ||
		old.spool_bytes != agent->config->spool_bytes) {
		store_end(agent);
		if (store_begin(agent))
			store_end(agent);
	}
	agent_config_clear(&old);
	fprintf(stderr, "hdtrace: %s was read again\n", agent->options->config_path);
}

/* --- looks -------------------------------------------------------------------------------------- */

static void sizes_tell(const struct agent *agent, const struct live_rank *rank)
{
	for (size_t index = 0; index < rank->device_count; index++) {
		const struct live_device *device = &rank->devices[index];
		uint64_t bytes;

		if (device->size_bytes != LIVE_UNKNOWN || device_is_host(device->type))
			continue;
		bytes = accelerator_bytes(device->type);
		bytes = bytes ? bytes : agent->config->device_bytes;
		if (bytes)
			live_device_size(agent->live, rank->target, device->type, device->index, bytes);
	}
}

/* What no record tells: where the main thread stands, and how large devices are. */
static void outside_read(const struct agent *agent, struct recording *recording)
{
	for (size_t index = 0; index < live_rank_count(agent->live); index++) {
		const struct live_rank *rank = live_rank_at(agent->live, index);
		struct frame *frames;

		if (rank->ended)
			continue;
		sizes_tell(agent, rank);
		frames = recording_stand(recording, rank->target);
		live_stand(agent->live, rank->target, frames, arrlenu(frames));
		recording_stand_free(frames);
	}
}

/* What was put into the spool and is not committed will not be. */
static void records_lose(struct agent *agent, uint64_t more)
{
	agent->figures.records_lost += agent->figures.records_held + more;
	agent->figures.records_held = 0;
	spool_discard(agent->spool);
}

/* Committed and on their way; or held until there is room on disk, and lost when too many are. */
static void records_commit(struct agent *agent, int count)
{
	struct agent_figures *figures = &agent->figures;
	int error;

	if (!agent->spool)
		return;
	figures->records_held += count > 0 ? (uint64_t)count : 0;
	if (!figures->records_held && count >= 0)
		return;
	error = spool_commit(agent->spool);
	if (error && !agent->spool_told)
		fprintf(stderr, "hdtrace: records cannot be kept in %s yet: %s\n", agent->spool_folder,
			strerror(-error));
	if (!error && agent->spool_told)
		fprintf(stderr, "hdtrace: records are kept in %s again\n", agent->spool_folder);
	agent->spool_told = error != 0;
	if (!error) {
		figures->records += figures->records_held;
		figures->records_held = 0;
		spool_seal(agent->spool);
		sender_wake(agent->sender);
	}
	/* Some of this look found no place in memory. */
	if (count < 0)
		records_lose(agent, 1);
}

static void figures_update(struct agent *agent, const struct recording *recording)
{
	struct captures_figures captures;
	struct sender_figures sender = {.works = true};

	recording_cost(recording, &agent->figures.cost);
	captures_figures(agent->captures, &captures);
	agent->figures.captures = captures.begun;
	agent->figures.captures_refused = captures.refused;
	agent->figures.capture_bytes = captures.bytes;
	if (agent->sender)
		sender_figures(agent->sender, &sender);
	agent->figures.store_works = sender.works;
	agent->figures.store_failures = sender.failures;
	agent->figures.spool_bytes = sender.spool_bytes;
	agent->figures.spool_segments = sender.spool_segments;
}

static void metrics_publish(const struct agent *agent)
{
	struct metrics_source source = {
		.live = agent->live,
		.growth = agent->growth,
		.node = agent->node,
		.figures = &agent->figures,
		.ranks = agent->config->ranks,
		.now_ns = monotonic_ns(),
	};
	struct server_page text, open_metrics;

	if (!agent->server)
		return;
	text.text = metrics_text(&source, false, &text.length);
	open_metrics.text = metrics_text(&source, true, &open_metrics.length);
	server_publish(agent->server, text, open_metrics);
}

static void run_name(void *context, const struct live_rank *rank, char *run)
{
	const struct agent *agent = context;

	journal_run(agent->journal, rank, run);
}

/* Planning a library takes tens of MB for a moment. */
static void memory_trim(struct agent *agent)
{
	size_t count = live_rank_count(agent->live);

	if (count != agent->trimmed_at)
		malloc_trim(0);
	agent->trimmed_at = count;
}

static void look(struct agent *agent, struct recording *recording)
{
	struct captures_run run = {run_name, agent};
	struct journal_time now = time_now();

	outside_read(agent, recording);
	live_refresh(agent->live);
	growth_look(agent->growth, agent->live, now.monotonic_ns);
	records_commit(agent, journal_look(agent->journal, agent->live, agent->spool, now,
				      (uint64_t)(agent->config->period * SECOND_NS)));
	captures_look(agent->captures, agent->live, agent->growth, &run, now.monotonic_ns);
	memory_trim(agent);
	figures_update(agent, recording);
	metrics_publish(agent);
	agent->look_ns = now.monotonic_ns;
}

static bool tick(void *context, struct recording *recording)
{
	struct agent *agent = context;
	uint64_t now_ns = monotonic_ns();

	if (agent->reload) {
		agent->reload = false;
		reload(agent);
		agent->look_ns = 0;
	}
	follower_tick(agent->follower, agent->live, recording, agent->config->host_percent / 100);
	if (!agent->look_ns || now_ns - agent->look_ns >= (uint64_t)(agent->config->interval * SECOND_NS))
		look(agent, recording);
	return false;
}

static bool signalled(void *context, int number)
{
	struct agent *agent = context;

	if (number == SIGHUP)
		agent->reload = true;
	else if (number == SIGUSR1)
		captures_ask(agent->captures);
	return number == SIGINT || number == SIGTERM;
}

static void record_take(void *context, const struct event *record)
{
	const struct agent *agent = context;

	live_take(agent->live, record);
}

/* --- begin and end -------------------------------------------------------------------------------- */

static int agent_begin(struct agent *agent)
{
	struct live_limits limits = {.blocks = BLOCKS_MAX, .places = 1024, .threads = 64, .ended = ENDED_MAX};
	int error = node_fill(agent);

	if (error)
		return error;
	agent->live = live_new(&limits);
	agent->growth = growth_new((uint64_t)(agent->config->growth_interval * SECOND_NS));
	agent->follower = follower_new(agent->config->owners);
	agent->journal = journal_new(agent->node);
	agent->captures = captures_new(agent->config);
	if (!agent->live || !agent->growth || !agent->follower || !agent->journal || !agent->captures)
		return -ENOMEM;
	error = server_begin(agent->config, &agent->server);
	if (!error && agent->server)
		error = port_tell(agent);
	return error ? error : store_begin(agent);
}

static void agent_end(struct agent *agent)
{
	if (agent->journal && agent->live) {
		live_refresh(agent->live);
		records_commit(agent, journal_end(agent->journal, agent->live, agent->spool, time_now()));
	}
	server_stop(agent->server);
	captures_stop(agent->captures);
	store_end(agent);
	journal_free(agent->journal);
	growth_free(agent->growth);
	follower_free(agent->follower);
	live_free(agent->live);
}

/* From here on they wait until the recording takes them; who started us may have had them ignored. */
static void signals_hold(const int *signals)
{
	sigset_t held;

	sigemptyset(&held);
	for (; *signals; signals++) {
		signal(*signals, SIG_DFL);
		sigaddset(&held, *signals);
	}
	sigprocmask(SIG_BLOCK, &held, NULL);
}

int agent_run(const struct agent_options *options, struct agent_config *config)
{
	static const int signals[] = {SIGHUP, SIGUSR1, SIGINT, SIGTERM, 0};
	struct agent agent = {.options = options, .config = config, .figures.configuration_works = true};
	struct record_sink sink = {
		.context = &agent,
		.take = record_take,
		.tick = tick,
		.signals = signals,
		.signalled = signalled,
	};
	struct record_options record = {
		.sink = &sink,
		.level = LEVEL_LITE,
		.ring_size = config->ring_bytes,
		.owners = config->owners,
		.steps_told = config->steps,
		.blocks_only = true,
		.all_pids = true,
		.stay = true,
		.quiet = true,
	};
	struct record_result result;
	int error;

	signals_hold(signals);
	error = privileges_drop();
	if (error)
		fprintf(stderr, "hdtrace: capabilities cannot be given up: %s\n", strerror(-error));
	else
		error = agent_begin(&agent);
	if (!error)
		error = recorder_run(&record, &result);
	agent_end(&agent);
	return error;
}
