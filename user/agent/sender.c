// SPDX-License-Identifier: BSD-2-Clause
/* The sending thread: it drains the spool when it is woken, and later again when the store did not take all. */
#include "agent/sender.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/drain.h"

/* After a failure: twice as long each time, up to the second. */
#define PAUSE_MIN_SECONDS 2
#define PAUSE_MAX_SECONDS 300
#define PAUSE_IDLE_SECONDS 60
/* For what is on its way when it is to end; the rest waits for the next agent. */
#define END_SECONDS 3

struct sender {
	pthread_t thread;
	pthread_mutex_t lock; /* of what stands below */
	pthread_cond_t changed;
	bool woken, ending;
	struct sender_figures figures;

	/* The thread's own. */
	struct store *store;
	char *folder;
	bool told;                  /* that the store does not work */
	volatile sig_atomic_t stop; /* of a drain */
};

/* Returns whether the store took all, or would have: who is interrupted knows nothing against it. */
static bool send_all(struct sender *sender)
{
	struct drain_options options = {.stop = &sender->stop};
	struct drain_result result;
	int error = store_init(sender->store);

	if (!error)
		error = spool_drain(sender->folder, sender->store, &options, &result);
	if (error == -EINTR)
		return true;
	if (error && !sender->told)
		fprintf(stderr, "hdtrace: %s; records wait in %s\n", store_fault(sender->store), sender->folder);
	if (!error && sender->told)
		fprintf(stderr, "hdtrace: %s takes records again\n", store_name(sender->store));
	sender->told = error != 0;
	return !error;
}

static void figures_update(struct sender *sender, bool works)
{
	struct spool_state state = {0};

	spool_state_read(sender->folder, &state);
	pthread_mutex_lock(&sender->lock);
	sender->figures.works = works;
	sender->figures.failures += !works;
	sender->figures.spool_bytes = state.bytes;
	sender->figures.spool_segments = state.segments;
	pthread_mutex_unlock(&sender->lock);
}

/* Until somebody wakes it, or so long; after a failure no one wakes it earlier. Returns false at the end. */
static bool wait_for_work(struct sender *sender, time_t seconds, bool patient)
{
	struct timespec until;
	bool ending;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	pthread_mutex_lock(&sender->lock);
	while (!sender->ending && (patient || !sender->woken) &&
		pthread_cond_timedwait(&sender->changed, &sender->lock, &until) != ETIMEDOUT)
		;
	sender->woken = false;
	ending = sender->ending;
	pthread_mutex_unlock(&sender->lock);
	return !ending;
}

static void *sender_run(void *context)
{
	struct sender *sender = context;
	time_t pause = PAUSE_MIN_SECONDS;
	bool works;

	do {
		works = send_all(sender);
		figures_update(sender, works);
		pause = works ? PAUSE_MIN_SECONDS : pause * 2 < PAUSE_MAX_SECONDS ? pause * 2 : PAUSE_MAX_SECONDS;
	} while (wait_for_work(sender, works ? PAUSE_IDLE_SECONDS : pause, !works));
	/* What was given to the spool at the end, if the store is there. */
	if (works)
		send_all(sender);
	return NULL;
}

static int thread_start(struct sender *sender)
{
	pthread_condattr_t attributes;
	sigset_t all, before;
	int error;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&sender->lock, NULL);
	pthread_cond_init(&sender->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	/* Signals are for the thread that traces. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&sender->thread, NULL, sender_run, sender);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

static void sender_free(struct sender *sender)
{
	store_close(sender->store);
	free(sender->folder);
	free(sender);
}

int sender_start(const char *url, const char *spool_folder, struct sender **out, char fault[STORE_FAULT_BYTES])
{
	struct sender *sender = calloc(1, sizeof(*sender));
	int error;

	*out = NULL;
	fault[0] = '\0';
	if (!sender) {
		snprintf(fault, STORE_FAULT_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	error = store_open(url, &sender->store, fault);
	if (!error) {
		store_stop_by(sender->store, &sender->stop);
		sender->folder = strdup(spool_folder);
		error = sender->folder ? thread_start(sender) : -ENOMEM;
		if (error)
			snprintf(fault, STORE_FAULT_BYTES, "%s", strerror(-error));
	}
	if (error)
		sender_free(sender);
	else
		*out = sender;
	return error;
}

void sender_stop(struct sender *sender)
{
	struct timespec until;

	if (!sender)
		return;
	pthread_mutex_lock(&sender->lock);
	sender->ending = true;
	pthread_cond_signal(&sender->changed);
	pthread_mutex_unlock(&sender->lock);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_SECONDS;
	if (pthread_clockjoin_np(sender->thread, NULL, CLOCK_MONOTONIC, &until)) {
		sender->stop = 1;
		pthread_join(sender->thread, NULL);
	}
	pthread_cond_destroy(&sender->changed);
	pthread_mutex_destroy(&sender->lock);
	sender_free(sender);
}

void sender_wake(struct sender *sender)
{
	pthread_mutex_lock(&sender->lock);
	sender->woken = true;
	pthread_cond_signal(&sender->changed);
	pthread_mutex_unlock(&sender->lock);
}

void sender_figures(struct sender *sender, struct sender_figures *figures)
{
	pthread_mutex_lock(&sender->lock);
	*figures = sender->figures;
	pthread_mutex_unlock(&sender->lock);
}
