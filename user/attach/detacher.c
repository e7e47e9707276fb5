// SPDX-License-Identifier: BSD-2-Clause
#include "attach/detacher.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include <bpf/libbpf.h>
#include "containers/containers.h"

/* So many links wait together: they do not work, so the number of cores does not matter. */
#define THREADS_MAX 32

struct detacher {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct bpf_link **waiting; /* stb_ds, not taken by a thread yet */
	unsigned int closing;      /* taken, and not closed yet */
	bool ends;
	pthread_t threads[THREADS_MAX];
	unsigned int thread_count;
};

static void *links_close(void *context)
{
	struct detacher *detacher = context;

	pthread_mutex_lock(&detacher->lock);
	for (;;) {
		while (!arrlenu(detacher->waiting) && !detacher->ends)
			pthread_cond_wait(&detacher->changed, &detacher->lock);
		if (!arrlenu(detacher->waiting))
			break;
		struct bpf_link *link = arrpop(detacher->waiting);

		detacher->closing++;
		pthread_mutex_unlock(&detacher->lock);
		bpf_link__destroy(link);
		pthread_mutex_lock(&detacher->lock);
		detacher->closing--;
		pthread_cond_broadcast(&detacher->changed);
	}
	pthread_mutex_unlock(&detacher->lock);
	return NULL;
}

struct detacher *detacher_new(void)
{
	struct detacher *detacher = calloc(1, sizeof(*detacher));

	if (!detacher)
		return NULL;
	pthread_mutex_init(&detacher->lock, NULL);
	pthread_cond_init(&detacher->changed, NULL);
	return detacher;
}

/* One more, which takes no signals; false when there is none to be had. */
static bool thread_add(struct detacher *detacher)
{
	sigset_t all, before;
	int error;

	if (detacher->thread_count == THREADS_MAX)
		return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&detacher->threads[detacher->thread_count], NULL, links_close, detacher);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	detacher->thread_count += !error;
	return !error;
}

void detacher_put(struct detacher *detacher, struct bpf_link *link)
{
	pthread_mutex_lock(&detacher->lock);
	arrput(detacher->waiting, link);
	if (detacher->closing + arrlenu(detacher->waiting) > detacher->thread_count && !thread_add(detacher) &&
		!detacher->thread_count)
		bpf_link__destroy(arrpop(detacher->waiting));
	pthread_cond_broadcast(&detacher->changed);
	pthread_mutex_unlock(&detacher->lock);
}

void detacher_wait(struct detacher *detacher)
{
	pthread_mutex_lock(&detacher->lock);
	while (arrlenu(detacher->waiting) || detacher->closing)
		pthread_cond_wait(&detacher->changed, &detacher->lock);
	pthread_mutex_unlock(&detacher->lock);
}

void detacher_free(struct detacher *detacher)
{
	if (!detacher)
		return;
	detacher_wait(detacher);
	pthread_mutex_lock(&detacher->lock);
	detacher->ends = true;
	pthread_cond_broadcast(&detacher->changed);
	pthread_mutex_unlock(&detacher->lock);
	for (unsigned int index = 0; index < detacher->thread_count; index++)
		pthread_join(detacher->threads[index], NULL);
	pthread_cond_destroy(&detacher->changed);
	pthread_mutex_destroy(&detacher->lock);
	arrfree(detacher->waiting);
	free(detacher);
}
