/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The summary that is printed when a trace has ended: how much, when, who, and
 * what was alive then. At most 100 columns, so names and paths are shortened in
 * front, where they say least.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "findings/words.h"
#include "findings_text.h"
#include "holders.h"
#include "segments.h"
#include "text.h"

/* Columns of the table; with the others and their gaps they make 100. */
#define NAME_COLUMNS 27
#define PLACE_COLUMNS 29
#define LINE_COLUMNS 78
#define NANOSECONDS 1e9
#define NANOSECONDS_OF_MILLISECOND 1e6

/* file:line, in an allocated text. */
static char *place_of(const struct stack *stack)
{
	const struct frame *leaf = stack_line(stack);
	char *text;

	if (!leaf)
		return strdup("(no Python frame)");
	return asprintf(&text, "%s:%u", leaf->file, leaf->line) < 0 ? NULL : text;
}

static int write_place(FILE *out, const char *title, const struct stack *stack)
{
	char *place = place_of(stack);

	if (!place)
		return -ENOMEM;
	fprintf(out, "\n  %-10s", title);
	text_write_columns(out, place, LINE_COLUMNS, false);
	free(place);
	return 0;
}

static int write_peak(FILE *out, const struct rank *rank, const struct device *device)
{
	const struct operator_run *run = device->peak_run == UINT32_MAX ? NULL : &rank->runs[device->peak_run];
	bool is_cpu = device->type == DEVICE_CPU;
	char size[SIZE_TEXT_BYTES];
	int error;

	fprintf(out, "rank %d  %s%speak %s at %.3f s", rank->rank, is_cpu ? "" : device->name, is_cpu ? "" : "  ",
		size_format(size, device->peak_bytes),
		(double)(device->peak_time_ns - rank->first_time_ns) / NANOSECONDS);
	if (!run) {
		fputs(", outside operators\n", out);
		return 0;
	}
	if (run->task != TASK_NONE)
		fprintf(out, ", task %" PRId64, run->task);
	fprintf(out, ", %s, step %u\n", phase_name(run->phase), run->step);
	fputs("  operator  ", out);
	text_write_columns(out, rank->operator_names[run->name], LINE_COLUMNS, false);
	error = write_place(out, "line", &rank->stacks[run->stack]);
	if (!error && run->forward != RUN_NONE)
		error = write_place(out, "forward", run_origin(rank, run));
	if (*run->module) {
		fputs("\n  module    ", out);
		text_write_columns(out, run->module, LINE_COLUMNS, false);
	}
	putc('\n', out);
	return error;
}

static void write_categories(FILE *out, const struct device *device)
{
	char size[SIZE_TEXT_BYTES];

	fputs("\nby category at the peak\n", out);
	for (int category = 0; category < CATEGORIES; category++) {
		uint64_t bytes = device->peak.category[category];

		if (!bytes)
			continue;
		fprintf(out, "  %-10s %12s  %5.1f %%\n", category_name(category), size_format(size, bytes),
			100.0 * (double)bytes / (double)device->peak.total);
	}
	if (device->remainder_bytes)
		fprintf(out, "  %s of Other are older and in no block that is known\n",
			size_format(size, device->remainder_bytes));
	if (device->outside_peak_bytes && device->type != DEVICE_PINNED)
		fprintf(out, "  at most %s more outside the allocator of blocks\n",
			size_format(size, device->outside_peak_bytes));
	if (device->has_totals)
		fprintf(out, "  of %s that the allocator held at most\n",
			size_format(size, device->reserved_peak_bytes));
}

static int write_block(FILE *out, const struct rank *rank, const struct block *block)
{
	char size[SIZE_TEXT_BYTES], *place;

	/* What is older than the trace has no line, but may have a name. */
	place = block->preexisting && *block->owner ? strdup(block->owner)
	                                            : place_of(run_origin(rank, &rank->runs[block->producer]));
	if (!place)
		return -ENOMEM;
	fprintf(out, "  %10s  %-10s  %-14s  ", size_format(size, block->bytes), category_name(block->category),
		phase_name(block->phase));
	text_write_columns(out, rank->operator_names[block->name], NAME_COLUMNS, true);
	fputs("  ", out);
	text_write_columns(out, place, PLACE_COLUMNS, false);
	putc('\n', out);
	free(place);
	return 0;
}

static int write_blocks(FILE *out, const struct rank *rank, const struct holders *holders)
{
	int error = 0;

	for (size_t i = 0; i < holders->largest_count && !error; i++)
		error = write_block(out, rank, holders->largest[i]);
	return error;
}

static int write_largest(FILE *out, const struct rank *rank, uint8_t device)
{
	struct holders holders;
	int error = 0;

	holders_find(rank, device, rank->devices[device].peak_order, &holders);
	if (holders.largest_count) {
		fputs("\nlargest blocks at the peak\n", out);
		error = write_blocks(out, rank, &holders);
	}
	holders_free(&holders);
	return error;
}

static int write_exhausted(FILE *out, const struct rank *rank, const struct out_of_memory *exhausted)
{
	const char *name = exhausted_name(rank, exhausted);
	char asked[SIZE_TEXT_BYTES], allocated[SIZE_TEXT_BYTES], reserved[SIZE_TEXT_BYTES], gap[SIZE_TEXT_BYTES],
		*place;
	struct holders holders;
	int error;

	place = place_of(&rank->stacks[exhausted->stack]);
	if (!place)
		return -ENOMEM;
	fprintf(out, "\nrank %d  %s  out of memory at %.3f s: %s asked for, %s allocated of %s held", rank->rank,
		segment_device_name(rank, exhausted->device),
		(double)(exhausted->time_ns - rank->first_time_ns) / NANOSECONDS, size_format(asked, exhausted->bytes),
		size_format(allocated, exhausted->allocated_bytes), size_format(reserved, exhausted->reserved_bytes));
	if (exhausted->largest_gap != UINT64_MAX)
		fprintf(out, "\n  largest free piece in it %s", size_format(gap, exhausted->largest_gap));
	fputs("\n  ", out);
	text_write_columns(out, name ? name : "outside operators", NAME_COLUMNS, false);
	fputs("  ", out);
	text_write_columns(out, place, LINE_COLUMNS - NAME_COLUMNS, false);
	fputs("\nlargest blocks then\n", out);
	free(place);
	holders_find(rank, exhausted->device, exhausted->order, &holders);
	error = write_blocks(out, rank, &holders);
	holders_free(&holders);
	return error;
}

/* The last one: what was told before was dealt with. */
static int write_out_of_memory(FILE *out, const struct rank *rank)
{
	size_t count = arrlenu(rank->out_of_memories);
	int error = count ? write_exhausted(out, rank, &rank->out_of_memories[count - 1]) : 0;

	if (!error && rank->out_of_memory_count > 1)
		fprintf(out, "  the last of %" PRIu64 " times (JSON: live.out_of_memory)\n", rank->out_of_memory_count);
	return error;
}

static int duration_compare(const void *left, const void *right)
{
	uint64_t a = step_duration(*(const struct step *const *)left),
		 b = step_duration(*(const struct step *const *)right);

	return (a > b) - (a < b);
}

/* The complete step of median duration, NULL: none was completed. */
static const struct step *step_median(const struct rank *rank)
{
	const struct step **order = NULL, *median = NULL;

	for (size_t i = 0; i < arrlenu(rank->steps); i++)
		if (rank->steps[i].complete && step_duration(&rank->steps[i]))
			arrput(order, &rank->steps[i]);
	if (arrlenu(order)) {
		qsort(order, arrlenu(order), sizeof(*order), duration_compare);
		median = order[arrlenu(order) / 2];
	}
	arrfree(order);
	return median;
}

static void write_step(FILE *out, const struct rank *rank)
{
	const struct step *step = step_median(rank);
	const char *separator = "";

	if (!step)
		return;
	fprintf(out, "step        %.1f ms (median): ", (double)step_duration(step) / NANOSECONDS_OF_MILLISECOND);
	for (int phase = 0; phase < PHASES; phase++) {
		if (!step->phase_ns[phase])
			continue;
		fprintf(out, "%s%s %.0f %%", separator, phase_name((enum phase)phase),
			100.0 * (double)step->phase_ns[phase] / (double)step_duration(step));
		separator = ", ";
	}
	putc('\n', out);
}

static void write_counts(FILE *out, const struct rank *rank)
{
	char size[SIZE_TEXT_BYTES];
	uint64_t bytes = 0, blocks = 0, lost = 0;

	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		if (!rank->blocks[i].persistent)
			continue;
		bytes += rank->blocks[i].bytes;
		blocks++;
	}
	for (int reason = 0; reason < LOSS_REASONS; reason++)
		lost += rank->loss.lost[reason];
	fprintf(out, "\npersistent  %s in %" PRIu64 " blocks of %zu\n", size_format(size, bytes), blocks,
		(size_t)arrlenu(rank->blocks));
	fprintf(out, "tasks       %" PRId64 " in %u steps, from %" PRIu64 " events\n", rank->task_count,
		rank->step_count, rank->event_count);
	write_step(out, rank);
	if (rank->window.since_ns)
		fprintf(out, "window      the last %.1f s; %" PRIu64 " older records were dropped\n",
			(double)(rank->last_time_ns - rank->window.since_ns) / 1e9, rank->window.dropped_records);
	if (lost || rank->reused_addresses)
		fprintf(out, "lost        %" PRIu64 " events, %" PRIu64 " frees not seen: the report is incomplete\n",
			lost, rank->reused_addresses);
	else
		fputs("lost        nothing\n", out);
}

/* At the end of how many steps the blocks of a device do not add up to what its allocator says. */
static void write_differences(FILE *out, const struct device *device)
{
	char size[SIZE_TEXT_BYTES];
	uint64_t most = 0;
	size_t steps = 0;

	for (size_t i = 0; i < arrlenu(device->balances); i++) {
		int64_t difference = balance_difference(&device->balances[i]);
		uint64_t bytes = difference < 0 ? -(uint64_t)difference : (uint64_t)difference;

		steps += bytes > 0;
		most = bytes > most ? bytes : most;
	}
	if (steps)
		fprintf(out,
			"\nblocks and the allocator's total differ in %zu of %zu steps, by %s at most (JSON: "
			"live.devices)\n",
			steps, (size_t)arrlenu(device->balances), size_format(size, most));
}

static int write_device(FILE *out, const struct rank *rank, uint8_t index)
{
	const struct device *device = &rank->devices[index];
	int error = write_peak(out, rank, device);

	if (error)
		return error;
	write_categories(out, device);
	write_differences(out, device);
	return write_largest(out, rank, index);
}

int report_summary(const struct rank *rank, const struct report_options *options, FILE *out)
{
	bool several = false;
	int error;

	if (!report_has_data(rank)) {
		fprintf(out, "rank %d  no memory was observed in %" PRIu64 " events\n", rank->rank, rank->event_count);
		return ferror(out) ? -EIO : 0;
	}
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		if (!rank->devices[i].peak_bytes)
			continue;
		if (several)
			putc('\n', out);
		error = write_device(out, rank, (uint8_t)i);
		if (error)
			return error;
		several = true;
	}
	error = write_out_of_memory(out, rank);
	if (error)
		return error;
	findings_write_short(out, options ? options->findings : NULL, rank);
	write_counts(out, rank);
	return ferror(out) ? -EIO : 0;
}
