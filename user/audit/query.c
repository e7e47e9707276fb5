/* SPDX-License-Identifier: BSD-2-Clause */
/* Query files: their heads, and the values that their parameters get. */
#include "audit/query.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/value.h"
#include "containers/containers.h"

#define QUERY_BYTES_MAX 65536
#define PARAMETERS_MAX 32

static const char *const type_names[] = {
	[QUERY_TEXT] = "text", [QUERY_NUMBER] = "number", [QUERY_SIZE] = "size", [QUERY_TIME] = "time"};

const char *query_type_name(enum query_type type)
{
	return type_names[type];
}

void query_clear(struct query *query)
{
	for (size_t index = 0; index < arrlenu(query->parameters); index++) {
		free(query->parameters[index].name);
		free(query->parameters[index].meaning);
		free(query->parameters[index].fallback);
	}
	arrfree(query->parameters);
	free(query->name);
	free(query->path);
	free(query->title);
	free(query->about);
	free(query->sql);
	*query = (struct query){0};
}

/* --- heads --------------------------------------------------------------------------- */

/* A part of a line, without blanks around it. */
struct part {
	const char *at;
	size_t length;
};

static struct part part_trim(const char *at, const char *end)
{
	while (at < end && isspace((unsigned char)*at))
		at++;
	while (end > at && isspace((unsigned char)end[-1]))
		end--;
	return (struct part){at, (size_t)(end - at)};
}

static char *part_copy(struct part part)
{
	return strndup(part.at, part.length);
}

static bool part_is_word(struct part part)
{
	if (!part.length || isdigit((unsigned char)*part.at))
		return false;
	for (size_t index = 0; index < part.length; index++)
		if (!isalnum((unsigned char)part.at[index]) && part.at[index] != '_')
			return false;
	return true;
}

static bool type_parse(struct part part, enum query_type *type)
{
	for (int index = 0; index <= QUERY_TIME; index++)
		if (strlen(type_names[index]) == part.length && !strncmp(type_names[index], part.at, part.length)) {
			*type = (enum query_type)index;
			return true;
		}
	return false;
}

/* "NAME TYPE [= [DEFAULT]]: MEANING". Returns what is wrong, NULL: nothing. */
static const char *parameter_parse(struct part line, struct query *query)
{
	const char *end = line.at + line.length, *colon = memchr(line.at, ':', line.length);
	const char *head_end = colon ? colon : end;
	const char *equals = memchr(line.at, '=', (size_t)(head_end - line.at));
	struct part head = part_trim(line.at, equals ? equals : head_end), name, type;
	const char *blank = memchr(head.at, ' ', head.length);
	struct query_parameter parameter = {0};

	if (!colon || !blank)
		return "a parameter is NAME TYPE = DEFAULT: MEANING";
	name = part_trim(head.at, blank);
	type = part_trim(blank, head.at + head.length);
	if (!part_is_word(name))
		return "the name of a parameter is made of letters, digits and _";
	if (!type_parse(type, &parameter.type))
		return "the type of a parameter is text, number, size or time";
	for (size_t index = 0; index < arrlenu(query->parameters); index++)
		if (strlen(query->parameters[index].name) == name.length &&
			!strncmp(query->parameters[index].name, name.at, name.length))
			return "a parameter has the name of another one";
	if (arrlenu(query->parameters) == PARAMETERS_MAX)
		return "it has too many parameters";
	parameter.name = part_copy(name);
	parameter.meaning = part_copy(part_trim(colon + 1, end));
	parameter.fallback = equals ? part_copy(part_trim(equals + 1, colon)) : NULL;
	arrput(query->parameters, parameter);
	return NULL;
}

/* What stands behind "-- KEY:" in a line. */
static bool head_is(struct part line, const char *key, struct part *rest)
{
	size_t length = strlen(key);

	if (line.length < length || strncmp(line.at, key, length) != 0)
		return false;
	*rest = part_trim(line.at + length, line.at + line.length);
	return true;
}

static void about_add(struct query *query, struct part line)
{
	char *longer;

	if (asprintf(&longer, "%s%.*s\n", query->about, (int)line.length, line.at) < 0)
		return;
	free(query->about);
	query->about = longer;
}

static const char *line_parse(struct part line, struct query *query)
{
	struct part rest;

	if (head_is(line, "-- title:", &rest)) {
		free(query->title);
		query->title = part_copy(rest);
	} else if (head_is(line, "-- about:", &rest)) {
		about_add(query, rest);
	} else if (head_is(line, "-- parameter:", &rest)) {
		return parameter_parse(rest, query);
	}
	return NULL;
}

int query_parse(const char *text, size_t length, struct query *query, char fault[QUERY_FAULT_BYTES])
{
	const char *end = text + length, *wrong = NULL;
	int number = 0;

	query->about = strdup("");
	query->sql = strndup(text, length);
	if (!query->about || !query->sql)
		return -ENOMEM;
	if (strlen(query->sql) != length)
		wrong = "it is no text";
	while (!wrong && text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *line_end = newline ? newline : end;

		number++;
		wrong = line_parse(part_trim(text, line_end), query);
		text = line_end + 1;
	}
	if (!wrong && (!query->title || !*query->title))
		wrong = "it has no title: -- title: WHAT IT TELLS";
	if (!wrong)
		return 0;
	snprintf(fault, QUERY_FAULT_BYTES, "line %d: %s", number, wrong);
	return -EBADMSG;
}

/* --- folders -------------------------------------------------------------------------- */

/* The text of a file, and its length without the NUL behind it; to be freed. NULL with errno. */
static char *text_read(const char *path, size_t *length)
{
	FILE *file = fopen(path, "re");
	char *text = file ? malloc(QUERY_BYTES_MAX + 1) : NULL;

	if (text) {
		*length = fread(text, 1, QUERY_BYTES_MAX + 1, file);
		if (*length > QUERY_BYTES_MAX || ferror(file)) {
			free(text);
			text = NULL;
			errno = ferror(file) ? EIO : E2BIG;
		} else {
			text[*length] = 0;
		}
	}
	if (file)
		fclose(file);
	return text;
}

static int query_read(const char *path, struct query *query, char fault[QUERY_FAULT_BYTES])
{
	char reason[QUERY_FAULT_BYTES] = "";
	size_t length = 0;
	char *text = text_read(path, &length);
	int error = text ? query_parse(text, length, query, reason) : -errno;

	if (error)
		snprintf(fault, QUERY_FAULT_BYTES, "%.150s: %.90s", path, *reason ? reason : strerror(-error));
	free(text);
	return error;
}

/* NAME of NAME.sql, to be freed; NULL of any other. */
static char *query_name(const char *file)
{
	size_t length = strlen(file), suffix = strlen(QUERY_SUFFIX);

	if (*file == '.' || length <= suffix || strcmp(file + length - suffix, QUERY_SUFFIX) != 0)
		return NULL;
	return strndup(file, length - suffix);
}

static bool is_known(const struct query *queries, const char *name)
{
	for (size_t index = 0; index < arrlenu(queries); index++)
		if (!strcmp(queries[index].name, name))
			return true;
	return false;
}

static void query_add(struct query **queries, const char *folder, const char *file, char fault[QUERY_FAULT_BYTES])
{
	struct query query = {.name = query_name(file)};

	if (!query.name || is_known(*queries, query.name) || asprintf(&query.path, "%s/%s", folder, file) < 0) {
		free(query.name);
		return;
	}
	if (query_read(query.path, &query, fault))
		query_clear(&query);
	else
		arrput(*queries, query);
}

static int query_compare(const void *left, const void *right)
{
	return strcmp(((const struct query *)left)->name, ((const struct query *)right)->name);
}

struct query *queries_read(const char *const *folders, size_t count, char fault[QUERY_FAULT_BYTES])
{
	struct query *queries = NULL;

	for (size_t index = 0; index < count; index++) {
		DIR *entries = opendir(folders[index]);
		struct dirent *entry;

		while (entries && (entry = readdir(entries)))
			query_add(&queries, folders[index], entry->d_name, fault);
		if (entries)
			closedir(entries);
	}
	if (queries)
		qsort(queries, arrlenu(queries), sizeof(*queries), query_compare);
	return queries;
}

void queries_free(struct query *queries)
{
	for (size_t index = 0; index < arrlenu(queries); index++)
		query_clear(&queries[index]);
	arrfree(queries);
}

/* --- values ------------------------------------------------------------------------------ */

static const char *value_given(const char *name, const char *const *given, size_t count)
{
	size_t length = strlen(name);

	for (size_t index = count; index > 0; index--)
		if (!strncmp(given[index - 1], name, length) && given[index - 1][length] == '=')
			return given[index - 1] + length + 1;
	return NULL;
}

static bool parameter_is_known(const struct query *query, const char *given)
{
	for (size_t index = 0; index < arrlenu(query->parameters); index++)
		if (value_given(query->parameters[index].name, &given, 1))
			return true;
	return false;
}

/* Returns what is expected, NULL: the value is right. */
static const char *value_take(enum query_type type, const char *text, int64_t now, struct parameter *parameter)
{
	switch (type) {
	case QUERY_TEXT:
		parameter->type = COLUMN_TEXT;
		parameter->text = text;
		return NULL;
	case QUERY_NUMBER:
		return value_number(text, &parameter->number) ? NULL : "a whole number";
	case QUERY_SIZE:
		return value_size(text, &parameter->number) ? NULL : "a size as 512M, 40G or 1.5T";
	case QUERY_TIME:
		return value_time(text, now, &parameter->number)
		               ? NULL
		               : "a time as -7d, -12h, now, 2026-11-30 or 2026-11-30T12:00";
	}
	return "something else";
}

struct parameter *query_values(
	const struct query *query, const char *const *given, size_t count, int64_t now, char fault[QUERY_FAULT_BYTES])
{
	struct parameter *values = NULL;

	for (size_t index = 0; index < count; index++)
		if (!parameter_is_known(query, given[index])) {
			snprintf(fault, QUERY_FAULT_BYTES, "%s has no parameter as in %.100s", query->name,
				given[index]);
			return NULL;
		}
	/* An empty table has no row, and this one is to have one. */
	arrput(values, ((struct parameter){.name = "now_time", .type = COLUMN_NUMBER, .number = now}));
	for (size_t index = 0; index < arrlenu(query->parameters); index++) {
		const struct query_parameter *parameter = &query->parameters[index];
		const char *text = value_given(parameter->name, given, count), *wanted;
		struct parameter value = {.name = parameter->name, .type = COLUMN_NUMBER};

		text = text ? text : parameter->fallback;
		wanted = text ? value_take(parameter->type, text, now, &value) : "to be given";
		if (wanted) {
			snprintf(fault, QUERY_FAULT_BYTES, "%s (%.80s) has to be %s%s%.60s", parameter->name,
				parameter->meaning, wanted, text ? ", not " : "", text ? text : "");
			arrfree(values);
			return NULL;
		}
		arrput(values, value);
	}
	return values;
}
