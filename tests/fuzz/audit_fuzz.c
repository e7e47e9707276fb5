/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `hdtrace audit` and `hdtrace store` read from others: answers of a server,
 * files of queries, CSVs of dry runs, values on the command line. The first byte chooses.
 *
 * clang -fsanitize=fuzzer,address,undefined.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/prediction.h"
#include "audit/query.h"
#include "audit/table_output.h"
#include "audit/value.h"
#include "containers/containers.h"
#include "store/tsv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was read is also written, in every form. */
static void answer_look(const char *text, size_t size)
{
	struct query query = {.name = "query", .title = "title"};
	struct result result = {0};
	char *written = NULL;
	size_t length;

	if (tsv_parse(text, size, &result)) {
		if (result.names || result.cells)
			abort();
		return;
	}
	if (arrlenu(result.names) != arrlenu(result.numbers) || arrlenu(result.cells) % arrlenu(result.names))
		abort();
	for (int format = ANSWER_TABLE; format <= ANSWER_CSV; format++) {
		FILE *out = open_memstream(&written, &length);

		(void)answer_write(out, (enum answer_format)format, &query, NULL, &result, 10);
		fclose(out);
		free(written);
	}
	result_clear(&result);
}

static void query_look(const char *text, size_t size)
{
	char fault[QUERY_FAULT_BYTES] = "";
	struct query query = {.name = strdup("query")};
	const char *given[] = {text};

	if (!query_parse(text, size, &query, fault)) {
		struct parameter *values = query_values(&query, given, 1, 1800000000, fault);

		arrfree(values);
		values = query_values(&query, NULL, 0, 1800000000, fault);
		arrfree(values);
	} else if (!*fault) {
		abort();
	}
	query_clear(&query);
}

static void prediction_look(const char *text, size_t size)
{
	FILE *file = size ? fmemopen((void *)text, size, "r") : NULL;
	int64_t peak;

	if (!file)
		return;
	if (!prediction_read(file, &peak) && peak < 0)
		abort();
	fclose(file);
}

static void value_look(const char *text)
{
	int64_t number;

	if (value_size(text, &number) && number < 0)
		abort();
	value_time(text, 1800000000, &number);
	value_number(text, &number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		answer_look((const char *)data + 1, size - 1);
		break;
	case 1:
		query_look(text, strlen(text));
		break;
	case 2:
		prediction_look(text, strlen(text));
		break;
	case 3:
		value_look(text);
		break;
	}
	free(text);
	return 0;
}
