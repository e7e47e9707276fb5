// SPDX-License-Identifier: BSD-2-Clause
/*
 * Usage of a rank from its CSV files. The files are somebody else's: what they
 * must have is checked row by row, and the first fault ends the reading, with
 * its line and column.
 */
#include "usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "csv.h"
#include "findings/words.h"

enum column {
	COLUMN_START,
	COLUMN_END,
	COLUMN_SIZE,
	COLUMN_USED,
	COLUMN_PEAK,
	COLUMN_FILE,
	COLUMN_LINE,
	COLUMN_TYPE,
	COLUMN_NODE,
	COLUMN_GRAPH,
	COLUMNS
};

static const struct {
	const char *name;
	bool needed, number;
} COLUMN_OF[COLUMNS] = {
	[COLUMN_START] = {"start_time_stamp", true, true},
	[COLUMN_END] = {"end_time_stamp", true, true},
	[COLUMN_SIZE] = {"size", true, true},
	/* The oldest files of MindSpore are without these two. */
	[COLUMN_USED] = {"actual_used_memory", false, true},
	[COLUMN_PEAK] = {"actual_peak_memory", false, true},
	[COLUMN_FILE] = {"file_name", true, false},
	[COLUMN_LINE] = {"line_num", true, true},
	[COLUMN_TYPE] = {"type", true, false},
	[COLUMN_NODE] = {"node_name", true, false},
	[COLUMN_GRAPH] = {"graph_name", true, false},
};

/* Of the steps CSV; all are needed. */
static const char *const STEP_COLUMNS[] = {"complete", "duration_ns", "peak_bytes"};
#define STEP_COLUMN_COUNT (sizeof(STEP_COLUMNS) / sizeof(*STEP_COLUMNS))

#define NO_COLUMN SIZE_MAX

/* A row, its texts as indices into names. */
struct row {
	int64_t start, end;
	uint64_t bytes;
	uint32_t names[USAGE_GROUPS];
};

struct table {
	struct csv csv;
	size_t places[COLUMNS]; /* of the columns in the file */
	size_t width;           /* fields of the header */
	struct row *rows;       /* stb_ds */
	struct {
		char *key;
		uint32_t value;
	} * index;           /* stb_ds map of strings, which it owns */
	uint64_t peak, used; /* highest of the columns */
	int64_t used_at;     /* start of the row with the highest use */
	bool has_used;
	struct usage_error *error;
};

/* --- faults ------------------------------------------------------------------------------------- */

static int fault(struct usage_error *error, uint64_t line, char *text)
{
	error->line = line;
	error->text = text;
	return -EBADMSG;
}

static int csv_fault(const struct csv *csv, int code, struct usage_error *error)
{
	return code == -EBADMSG ? fault(error, csv->line, sentence("column %zu: %s", csv->field, csv->reason)) : code;
}

/* Where a column of the header is, NO_COLUMN. */
static size_t place_of(const struct csv *csv, const char *name)
{
	for (size_t i = 0; i < csv_count(csv); i++)
		if (!strcmp(csv_field(csv, i), name))
			return i;
	return NO_COLUMN;
}

/* The row with the names of columns. */
static int header_read(struct csv *csv, struct usage_error *error)
{
	int got = csv_next(csv);

	if (got < 0)
		return csv_fault(csv, got, error);
	return got ? 0 : fault(error, 1, sentence("the file is empty; a CSV with a header is wanted"));
}

/* As many fields as the header, but for an empty one behind a comma at the end of the line. */
static int width_check(const struct csv *csv, size_t width, struct usage_error *error)
{
	size_t count = csv_count(csv);

	if (count == width || (count == width + 1 && !*csv_field(csv, width)))
		return 0;
	return fault(error, csv->line,
		sentence("column %zu: the row has %zu fields, the header %zu", count < width ? count : width, count,
			width));
}

static int number_read(
	const struct csv *csv, size_t place, const char *name, bool needed, int64_t *number, struct usage_error *error)
{
	const char *text = csv_field(csv, place);

	*number = 0;
	if (csv_number(text, number) || (!needed && !*text))
		return 0;
	return fault(error, csv->line, sentence("column %s: \"%.40s\" is no whole number", name, text));
}

/* --- rows ----------------------------------------------------------------------------------------- */

static int columns_find(struct table *table)
{
	for (int i = 0; i < COLUMNS; i++) {
		table->places[i] = place_of(&table->csv, COLUMN_OF[i].name);
		if (table->places[i] == NO_COLUMN && COLUMN_OF[i].needed)
			return fault(table->error, table->csv.line,
				sentence("column %s is missing: this is no memory CSV (rank_N_memory.csv)",
					COLUMN_OF[i].name));
	}
	table->width = csv_count(&table->csv);
	return 0;
}

static uint32_t name_index(struct table *table, const char *name)
{
	ptrdiff_t at = shgeti(table->index, name);
	uint32_t index = (uint32_t)shlenu(table->index);

	if (at >= 0)
		return table->index[at].value;
	shput(table->index, name, index);
	return index;
}

static void names_read(struct table *table, int64_t line, struct row *row)
{
	const struct csv *csv = &table->csv;
	const char *file = csv_field(csv, table->places[COLUMN_FILE]);
	char *place = *file || line ? sentence("%s:%lld", file, (long long)line) : sentence("%s", "");

	row->names[USAGE_CATEGORY] = name_index(table, csv_field(csv, table->places[COLUMN_TYPE]));
	row->names[USAGE_MODULE] = name_index(table, csv_field(csv, table->places[COLUMN_GRAPH]));
	row->names[USAGE_OPERATOR] = name_index(table, csv_field(csv, table->places[COLUMN_NODE]));
	row->names[USAGE_LINE] = name_index(table, place);
	arrfree(place);
}

static int row_check(const struct table *table, const int64_t numbers[COLUMNS])
{
	if (numbers[COLUMN_SIZE] < 0 || numbers[COLUMN_USED] < 0 || numbers[COLUMN_PEAK] < 0)
		return fault(table->error, table->csv.line,
			sentence("column %s: fewer than 0 bytes", numbers[COLUMN_SIZE] < 0   ? "size"
								  : numbers[COLUMN_USED] < 0 ? "actual_used_memory"
											     : "actual_peak_memory"));
	/* -1: what MindSpore has set aside for the whole graph. */
	if (numbers[COLUMN_START] < -1)
		return fault(table->error, table->csv.line, sentence("column start_time_stamp: a time before 0"));
	return 0;
}

static int row_take(struct table *table)
{
	int64_t numbers[COLUMNS] = {0};
	struct row row = {0};
	int error = width_check(&table->csv, table->width, table->error);

	for (int i = 0; !error && i < COLUMNS; i++)
		if (COLUMN_OF[i].number && table->places[i] != NO_COLUMN)
			error = number_read(&table->csv, table->places[i], COLUMN_OF[i].name,
				COLUMN_OF[i].needed && i != COLUMN_LINE, &numbers[i], table->error);
	if (!error)
		error = row_check(table, numbers);
	if (error)
		return error;
	row.start = numbers[COLUMN_START];
	row.end = numbers[COLUMN_END];
	row.bytes = (uint64_t)numbers[COLUMN_SIZE];
	names_read(table, numbers[COLUMN_LINE], &row);
	arrput(table->rows, row);
	if ((uint64_t)numbers[COLUMN_PEAK] > table->peak)
		table->peak = (uint64_t)numbers[COLUMN_PEAK];
	if ((uint64_t)numbers[COLUMN_USED] > table->used) {
		table->used = (uint64_t)numbers[COLUMN_USED];
		table->used_at = row.start;
		table->has_used = true;
	}
	return 0;
}

/* --- the peak --------------------------------------------------------------------------------------- */

/* A block comes or goes. */
struct edge {
	int64_t time;
	uint64_t bytes;
	bool is_end;
};

static int edge_compare(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	/* What goes at a time and what comes then do not meet. */
	return (int)b->is_end - (int)a->is_end;
}

/* When most bytes of rows are alive. */
static int64_t sizes_peak(const struct row *rows, uint64_t *bytes)
{
	struct edge *edges = NULL;
	uint64_t now = 0;
	int64_t when = 0;

	*bytes = 0;
	for (size_t i = 0; i < arrlenu(rows); i++) {
		struct edge begin = {rows[i].start, rows[i].bytes, false}, end = {rows[i].end, rows[i].bytes, true};

		if (rows[i].start < 0 || rows[i].end <= rows[i].start)
			continue;
		arrput(edges, begin);
		arrput(edges, end);
	}
	if (edges)
		qsort(edges, arrlenu(edges), sizeof(*edges), edge_compare);
	for (size_t i = 0; i < arrlenu(edges); i++) {
		now = edges[i].is_end ? now - edges[i].bytes : now + edges[i].bytes;
		if (!edges[i].is_end && now > *bytes) {
			*bytes = now;
			when = edges[i].time;
		}
	}
	arrfree(edges);
	return when;
}

static void table_sum(struct table *table, struct usage *usage)
{
	struct amounts amounts[USAGE_GROUPS] = {0};
	const char **names = NULL;
	uint64_t bytes;
	int64_t when = sizes_peak(table->rows, &bytes);

	arrzero(names, shlenu(table->index));
	for (size_t i = 0; i < shlenu(table->index); i++)
		names[table->index[i].value] = table->index[i].key;
	when = table->has_used ? table->used_at : when;
	usage->peak_bytes = table->peak ? table->peak : table->used ? table->used : bytes;
	for (size_t i = 0; i < arrlenu(table->rows); i++) {
		const struct row *row = &table->rows[i];

		if (row->start > when || row->end <= when)
			continue;
		for (int group = 0; group < USAGE_GROUPS; group++)
			amounts_add(&amounts[group], names[row->names[group]], row->bytes, 1);
		if (__builtin_add_overflow(usage->block_bytes, row->bytes, &usage->block_bytes))
			usage->block_bytes = UINT64_MAX;
	}
	for (int group = 0; group < USAGE_GROUPS; group++)
		usage->groups[group] = amounts_end(&amounts[group]);
	arrfree(names);
}

int usage_of_csv(FILE *file, struct usage *usage, struct usage_error *error)
{
	struct table table = {.error = error};
	int got;

	csv_open(&table.csv, file);
	sh_new_arena(table.index);
	got = header_read(&table.csv, error);
	if (!got)
		got = columns_find(&table);
	while (!got) {
		int next = csv_next(&table.csv);

		if (next <= 0) {
			got = next < 0 ? csv_fault(&table.csv, next, error) : 0;
			break;
		}
		got = row_take(&table);
	}
	if (!got)
		table_sum(&table, usage);
	csv_close(&table.csv);
	arrfree(table.rows);
	shfree(table.index);
	return got;
}

/* --- steps -------------------------------------------------------------------------------------------- */

static int step_take(const struct csv *csv, const size_t places[STEP_COLUMN_COUNT], uint64_t **times, uint64_t **peaks,
	struct usage_error *error)
{
	int64_t numbers[STEP_COLUMN_COUNT];

	for (size_t i = 0; i < STEP_COLUMN_COUNT; i++) {
		int code = number_read(csv, places[i], STEP_COLUMNS[i], true, &numbers[i], error);

		if (code)
			return code;
		if (numbers[i] < 0)
			return fault(error, csv->line, sentence("column %s: less than 0", STEP_COLUMNS[i]));
	}
	if (!numbers[0])
		return 0;
	arrput(*times, (uint64_t)numbers[1]);
	arrput(*peaks, (uint64_t)numbers[2]);
	return 0;
}

int usage_add_steps_csv(FILE *file, struct usage *usage, struct usage_error *error)
{
	size_t places[STEP_COLUMN_COUNT], width;
	uint64_t *times = NULL, *peaks = NULL;
	struct csv csv;
	int got;

	csv_open(&csv, file);
	got = header_read(&csv, error);
	width = csv_count(&csv);
	for (size_t i = 0; !got && i < STEP_COLUMN_COUNT; i++) {
		places[i] = place_of(&csv, STEP_COLUMNS[i]);
		if (places[i] == NO_COLUMN)
			got = fault(error, csv.line,
				sentence("column %s is missing: this is no steps CSV", STEP_COLUMNS[i]));
	}
	while (!got) {
		int next = csv_next(&csv);

		if (next <= 0) {
			got = next < 0 ? csv_fault(&csv, next, error) : 0;
			break;
		}
		got = width_check(&csv, width, error);
		if (!got)
			got = step_take(&csv, places, &times, &peaks, error);
	}
	if (!got) {
		usage->has_steps = true;
		usage->steps = (uint32_t)arrlenu(times);
		usage->step_ns = usage_median(times);
		usage->step_peak_bytes = usage_median(peaks);
	}
	csv_close(&csv);
	arrfree(times);
	arrfree(peaks);
	return got;
}
