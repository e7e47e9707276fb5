// SPDX-License-Identifier: BSD-2-Clause
/* Samples of what devices hold, and the slope of the line through them, by the estimator of Theil and Sen. */
#include "agent/growth.h"

#include <stdlib.h>

#include "containers/containers.h"

#define HOUR_NS 3600e9

/* The samples of one device of one rank; sample n at n % GROWTH_SAMPLES. */
struct series {
	uint64_t start_time_ns; /* of the rank: with its target, who it is */
	uint16_t target, device;
	bool seen;
	uint64_t highest, begun_ns; /* of the interval that goes on */
	uint64_t count;
	uint64_t bytes[GROWTH_SAMPLES], time_ns[GROWTH_SAMPLES];
	double bytes_per_hour; /* with the last sample */
};

struct growth {
	uint64_t interval_ns;
	struct series **series; /* stb_ds */
};

struct growth *growth_new(uint64_t interval_ns)
{
	struct growth *growth = calloc(1, sizeof(*growth));

	if (growth)
		growth->interval_ns = interval_ns;
	return growth;
}

void growth_free(struct growth *growth)
{
	if (!growth)
		return;
	for (size_t index = 0; index < arrlenu(growth->series); index++)
		free(growth->series[index]);
	arrfree(growth->series);
	free(growth);
}

static struct series *series_find(const struct growth *growth, const struct live_rank *rank, size_t device)
{
	for (size_t index = 0; index < arrlenu(growth->series); index++) {
		struct series *series = growth->series[index];

		if (series->target == rank->target && series->start_time_ns == rank->start_time_ns &&
			series->device == device)
			return series;
	}
	return NULL;
}

static struct series *series_new(struct growth *growth, const struct live_rank *rank, size_t device, uint64_t now_ns)
{
	struct series *series = calloc(1, sizeof(*series));

	if (!series)
		return NULL;
	series->target = rank->target;
	series->start_time_ns = rank->start_time_ns;
	series->device = (uint16_t)device;
	series->begun_ns = now_ns;
	arrput(growth->series, series);
	return series;
}

static int number_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* The median of the slopes between any two samples: what a job builds up when it begins, in a few of them, is no
 * growth. */
static double slope(const struct series *series)
{
	double slopes[GROWTH_SAMPLES * (GROWTH_SAMPLES - 1) / 2];
	size_t samples = series->count < GROWTH_SAMPLES ? (size_t)series->count : GROWTH_SAMPLES, count = 0;

	for (size_t left = 0; left < samples; left++)
		for (size_t right = 0; right < left; right++) {
			double hours = (double)(int64_t)(series->time_ns[left] - series->time_ns[right]) / HOUR_NS;
			double bytes = (double)(int64_t)(series->bytes[left] - series->bytes[right]);

			if (series->time_ns[left] != series->time_ns[right])
				slopes[count++] = bytes / hours;
		}
	if (!count)
		return 0;
	qsort(slopes, count, sizeof(slopes[0]), number_compare);
	return (slopes[(count - 1) / 2] + slopes[count / 2]) / 2;
}

static void sample_take(struct growth *growth, struct series *series, uint64_t bytes, uint64_t now_ns)
{
	uint64_t at = series->count % GROWTH_SAMPLES;

	series->seen = true;
	if (bytes > series->highest)
		series->highest = bytes;
	if (now_ns - series->begun_ns < growth->interval_ns)
		return;
	series->bytes[at] = series->highest;
	series->time_ns[at] = now_ns;
	series->count++;
	series->highest = bytes;
	series->begun_ns = now_ns;
	series->bytes_per_hour = slope(series);
}

void growth_look(struct growth *growth, const struct live *live, uint64_t now_ns)
{
	for (size_t index = 0; index < arrlenu(growth->series); index++)
		growth->series[index]->seen = false;
	for (size_t index = 0; index < live_rank_count(live); index++) {
		const struct live_rank *rank = live_rank_at(live, index);

		for (size_t device = 0; !rank->ended && device < rank->device_count; device++) {
			struct series *series = series_find(growth, rank, device);

			if (!series)
				series = series_new(growth, rank, device, now_ns);
			if (series)
				sample_take(growth, series, rank->devices[device].look_peak_bytes, now_ns);
		}
	}
	for (size_t index = arrlenu(growth->series); index-- > 0;)
		if (!growth->series[index]->seen) {
			free(growth->series[index]);
			arrdelswap(growth->series, index);
		}
}

bool growth_rate(const struct growth *growth, const struct live_rank *rank, size_t device, double *bytes_per_hour)
{
	const struct series *series = series_find(growth, rank, device);

	if (!series || series->count < GROWTH_SAMPLES_MIN)
		return false;
	*bytes_per_hour = series->bytes_per_hour;
	return true;
}
