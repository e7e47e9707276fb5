/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Target descriptions, read as a stream: a tree would be freed by recursion,
 * which a capture made to harm could drive through the stack.
 */
#include "replay/target_json.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include <yajl/yajl_parse.h>

enum wanted {
	WANTED_NONE,
	WANTED_RANK,
	WANTED_PARENT,
	WANTED_FROM_START,
	WANTED_FORKED,
	WANTED_JOB,
	WANTED_PID,
	WANTED_LEVEL,
	WANTED_COMMAND
};

struct parse {
	struct target_facts *facts;
	size_t depth;       /* open objects and arrays */
	bool is_object;     /* the outermost value is one */
	enum wanted wanted; /* whose value comes next, at depth 1 */
};

/* Values are wanted only directly in the outermost object, after their key. */
static enum wanted value_wanted(struct parse *parse)
{
	enum wanted wanted = parse->depth == 1 ? parse->wanted : WANTED_NONE;

	parse->wanted = WANTED_NONE;
	return wanted;
}

static int on_null(void *context)
{
	value_wanted(context);
	return 1;
}

static int on_boolean(void *context, int value)
{
	struct parse *parse = context;

	enum wanted wanted = value_wanted(parse);

	if (wanted == WANTED_FROM_START)
		parse->facts->from_start = value != 0;
	else if (wanted == WANTED_FORKED)
		parse->facts->forked = value != 0;
	return 1;
}

static int on_integer(void *context, long long value)
{
	struct parse *parse = context;

	enum wanted wanted = value_wanted(parse);
	int32_t number = value >= 0 && value <= INT32_MAX ? (int32_t)value : TARGET_RANK_UNKNOWN;

	if (wanted == WANTED_RANK)
		parse->facts->rank = number;
	else if (wanted == WANTED_PARENT)
		parse->facts->parent = number;
	else if (wanted == WANTED_PID)
		parse->facts->pid = number;
	return 1;
}

static int on_double(void *context, double value)
{
	(void)value;
	return on_null(context);
}

/* The report makes a folder of it: nothing else may come in that way. */
static bool job_is_folder(const unsigned char *text, size_t length)
{
	static const char prefix[] = "job_";

	if (length >= TARGET_JOB_BYTES || length < strlen(prefix) || memcmp(text, prefix, strlen(prefix)) != 0)
		return false;
	for (size_t index = 0; index < length; index++)
		if (!isalnum(text[index]) && (!text[index] || !strchr("._-", text[index])))
			return false;
	return true;
}

static bool key_is(const unsigned char *key, size_t length, const char *name)
{
	return length == strlen(name) && memcmp(key, name, length) == 0;
}

static int on_string(void *context, const unsigned char *text, size_t length)
{
	struct parse *parse = context;
	enum wanted wanted = value_wanted(parse);

	if (wanted == WANTED_JOB && job_is_folder(text, length)) {
		memcpy(parse->facts->job, text, length);
		parse->facts->job[length] = '\0';
	} else if (wanted == WANTED_LEVEL) {
		parse->facts->lite = key_is(text, length, "lite");
	} else if (wanted == WANTED_COMMAND) {
		length = length < TARGET_COMMAND_BYTES ? length : TARGET_COMMAND_BYTES - 1;
		memcpy(parse->facts->command, text, length);
		parse->facts->command[length] = '\0';
	}
	return 1;
}

static int on_open(struct parse *parse, bool is_object)
{
	if (parse->depth == 0)
		parse->is_object = is_object;
	parse->depth++;
	parse->wanted = WANTED_NONE;
	return 1;
}

static int on_open_object(void *context)
{
	return on_open(context, true);
}

static int on_open_array(void *context)
{
	return on_open(context, false);
}

static int on_close(void *context)
{
	struct parse *parse = context;

	parse->depth--;
	parse->wanted = WANTED_NONE;
	return 1;
}

static const struct {
	const char *name;
	enum wanted wanted;
} wanted_keys[] = {{"rank", WANTED_RANK}, {"parent", WANTED_PARENT}, {"from_start", WANTED_FROM_START},
	{"forked", WANTED_FORKED}, {"job", WANTED_JOB}, {"pid", WANTED_PID}, {"level", WANTED_LEVEL},
	{"command", WANTED_COMMAND}};

static int on_key(void *context, const unsigned char *key, size_t length)
{
	struct parse *parse = context;

	parse->wanted = WANTED_NONE;
	for (size_t index = 0; parse->depth == 1 && index < sizeof(wanted_keys) / sizeof(wanted_keys[0]); index++)
		if (key_is(key, length, wanted_keys[index].name))
			parse->wanted = wanted_keys[index].wanted;
	return 1;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_integer = on_integer,
	.yajl_double = on_double,
	.yajl_string = on_string,
	.yajl_start_map = on_open_object,
	.yajl_map_key = on_key,
	.yajl_end_map = on_close,
	.yajl_start_array = on_open_array,
	.yajl_end_array = on_close,
};

int target_json_read(const char *json, size_t length, struct target_facts *facts)
{
	static const struct target_facts nothing = {
		.rank = TARGET_RANK_UNKNOWN, .pid = TARGET_RANK_UNKNOWN, .parent = TARGET_RANK_UNKNOWN};
	struct parse parse = {.facts = facts};
	yajl_handle handle = yajl_alloc(&callbacks, NULL, &parse);
	yajl_status status;

	*facts = nothing;
	if (!handle)
		return -ENOMEM;
	status = yajl_parse(handle, (const unsigned char *)json, length);
	if (status == yajl_status_ok)
		status = yajl_complete_parse(handle);
	yajl_free(handle);
	if (status == yajl_status_ok && parse.is_object)
		return 0;
	*facts = nothing;
	return -EBADMSG;
}
