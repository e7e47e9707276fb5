// SPDX-License-Identifier: BSD-2-Clause
/*
 * The line of progress.h. Parts that tell nothing while they run would let it stand
 * still, so a thread of its own writes it, and takes a part for as long as its share
 * says, but never for done before it is.
 */
#include "cli/progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "report/report.h"

#define PERIOD_NS 250000000
#define QUIET_SECONDS 1.0
/* Before so much is done, its time says little. */
#define TELLING_SHARE 0.02
/* A part that is not done is taken for this much of it at most. */
#define PART_MOST 0.97
#define LINE_COLUMNS 60

static struct {
	bool shown, hidden, drawn, ending;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	double begin, part_begin;      /* seconds */
	double shares[PROGRESS_PARTS]; /* of the whole */
	enum progress_part part;
	double part_done; /* as it was told, 0 to 1 */
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static double now(void)
{
	return (double)monotonic_ns() / CLOCK_SECOND;
}

double progress_left(double done, double seconds)
{
	return done < TELLING_SHARE ? -1 : seconds * (1 - done) / done;
}

const char *progress_text(double done, double left, char text[PROGRESS_TEXT])
{
	int seconds = (int)(left + 0.5);

	if (left < 0)
		snprintf(text, PROGRESS_TEXT, "hdtrace: reports %2.0f %%", 100 * done);
	else if (seconds < 100)
		snprintf(text, PROGRESS_TEXT, "hdtrace: reports %2.0f %%, about %d s left", 100 * done, seconds);
	else
		snprintf(text, PROGRESS_TEXT, "hdtrace: reports %2.0f %%, about %d min left", 100 * done,
			(seconds + 30) / 60);
	return text;
}

/* How much of the whole is done, by what was told and, inside a part, by the time that the parts before it took. */
static double done_now(double time)
{
	double before = 0, share = progress.shares[progress.part], inside = progress.part_done, guess;

	for (int part = 0; part < (int)progress.part; part++)
		before += progress.shares[part];
	if (before > 0 && share > 0) {
		guess = (time - progress.part_begin) / ((progress.part_begin - progress.begin) / before * share);
		inside = guess > inside && inside < PART_MOST ? guess : inside;
		if (inside > PART_MOST && progress.part_done < PART_MOST)
			inside = PART_MOST;
	}
	return before + share * inside;
}

static void line_draw(void)
{
	double time = now(), done = done_now(time);
	char text[PROGRESS_TEXT];

	if (progress.hidden || time - progress.begin < QUIET_SECONDS)
		return;
	progress_text(done, progress_left(done, time - progress.begin), text);
	fprintf(stderr, "\r%-*s", LINE_COLUMNS, text);
	fflush(stderr);
	progress.drawn = true;
}

/* By spaces: every terminal has them. */
static void line_erase(void)
{
	if (progress.drawn)
		fprintf(stderr, "\r%*s\r", LINE_COLUMNS, "");
	fflush(stderr);
	progress.drawn = false;
}

static void *line_keep(void *context)
{
	(void)context;
	pthread_mutex_lock(&progress.lock);
	while (!progress.ending) {
		struct timespec until;

		line_draw();
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += PERIOD_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&progress.wake, &progress.lock, &until);
	}
	line_erase();
	pthread_mutex_unlock(&progress.lock);
	return NULL;
}

/* Processor time on a capture of three million records, made by tests/bench/report_bench.c. */
static void shares_set(unsigned int formats)
{
	static const double read = 1.0, finish = 0.6, csv = 1.8, json = 4.0, html = 1.3, other = 1.0;
	double ranks = (formats & REPORT_CSV ? csv : 0) + (formats & REPORT_JSON ? json : 0);
	double jobs = formats & REPORT_HTML ? html : 0, all;

	/* Other formats are written for jobs, or quickly. */
	jobs += formats & ~(unsigned int)(REPORT_CSV | REPORT_JSON | REPORT_HTML) ? other : 0;
	all = read + finish + ranks + jobs;

	progress.shares[PROGRESS_READ] = read / all;
	progress.shares[PROGRESS_FINISH] = finish / all;
	progress.shares[PROGRESS_RANKS] = ranks / all;
	progress.shares[PROGRESS_JOBS] = jobs / all;
}

void progress_begin(unsigned int formats, bool shown)
{
	if (!shown || progress.shown || !isatty(STDERR_FILENO))
		return;
	progress.begin = progress.part_begin = now();
	progress.part = PROGRESS_READ;
	progress.part_done = 0;
	progress.ending = progress.hidden = progress.drawn = false;
	shares_set(formats);
	progress.shown = !pthread_create(&progress.thread, NULL, line_keep, NULL);
}

void progress_tell(enum progress_part part, uint64_t done, uint64_t all)
{
	if (!progress.shown)
		return;
	pthread_mutex_lock(&progress.lock);
	if (part != progress.part)
		progress.part_begin = now();
	progress.part = part;
	progress.part_done = all ? (double)done / (double)all : 1;
	if (progress.part_done > 1)
		progress.part_done = 1;
	pthread_mutex_unlock(&progress.lock);
}

void progress_hide(void)
{
	if (!progress.shown)
		return;
	pthread_mutex_lock(&progress.lock);
	progress.hidden = true;
	line_erase();
	pthread_mutex_unlock(&progress.lock);
}

void progress_show(void)
{
	if (!progress.shown)
		return;
	fflush(stdout);
	pthread_mutex_lock(&progress.lock);
	progress.hidden = false;
	pthread_mutex_unlock(&progress.lock);
}

void progress_end(void)
{
	if (!progress.shown)
		return;
	pthread_mutex_lock(&progress.lock);
	progress.ending = true;
	pthread_cond_signal(&progress.wake);
	pthread_mutex_unlock(&progress.lock);
	pthread_join(progress.thread, NULL);
	progress.shown = false;
}
