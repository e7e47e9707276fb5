/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON into a file as Python's json.dump with indent 2 writes it: two spaces,
 * ASCII only, a line feed at the end. Sorting keys is the caller's part. Errors
 * are kept and given by json_end.
 */
#ifndef HDTRACE_REPORT_JSON_WRITER_H
#define HDTRACE_REPORT_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <yajl/yajl_gen.h>
#include <yajl/yajl_tree.h>

struct json {
	yajl_gen generator;
	FILE *file;
	char *buffer;     /* stb_ds: not yet in the file */
	char *text;       /* stb_ds: the last string, escaped */
	bool foreign_key; /* the key being written has more than ASCII */
	bool failed;
};

int json_begin(struct json *json, FILE *file);
int json_end(struct json *json);

void json_object(struct json *json);
void json_object_end(struct json *json);
void json_array(struct json *json);
void json_array_end(struct json *json);
void json_key(struct json *json, const char *key);
void json_text(struct json *json, const char *text); /* NULL: null */
void json_signed(struct json *json, int64_t value);
void json_unsigned(struct json *json, uint64_t value);
void json_double(struct json *json, double value);
void json_boolean(struct json *json, bool value);
void json_null(struct json *json);
/* A value that is JSON already. */
void json_raw(struct json *json, const char *text, size_t length);

/* "key": [ — false, and the array is whole, when it is to have no elements; else json_array_end ends it. */
bool json_list(struct json *json, const char *key, size_t count);
/* "key": value, for the values above. */
void json_put_text(struct json *json, const char *key, const char *text);
void json_put_signed(struct json *json, const char *key, int64_t value);
void json_put_unsigned(struct json *json, const char *key, uint64_t value);
/* null where it is not known. */
void json_put_unsigned_if(struct json *json, const char *key, bool known, uint64_t value);
/* Any value of a parsed text, keys sorted; NULL and what is nested too deeply: null. */
void json_put_tree(struct json *json, const char *key, yajl_val value);

#endif
