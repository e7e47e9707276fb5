/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store in ClickHouse, over its HTTP interface. Rows go as compressed
 * RowBinary, one request a batch, which the server takes as a whole; the values
 * that a query depends on go as a table beside it, so that none is ever part of
 * its text.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <zlib.h>

#include "containers/containers.h"
#include "store/backend.h"
#include "store/tsv.h"

#define CONNECT_SECONDS 10L
/* A server that sends and takes nothing for so long is given up; a query may think for as long. */
#define SILENCE_SECONDS 120L
#define ANSWER_BYTES_MAX (256u << 20)
#define FAULT_SHOWN 300
#define HTTP_OK 200
#define HTTP_SERVER_ERROR 500
#define GZIP_WINDOW (15 + 16) /* of zlib: the largest window, with gzip's header */
#define GZIP_MEMORY 8

/* Numbers of errors, from ClickHouse's ErrorCodes.cpp. */
enum clickhouse_error {
	UNKNOWN_TABLE = 60,
	UNKNOWN_DATABASE = 81,
	TIMEOUT_EXCEEDED = 159,
	QUOTA_EXPIRED = 201,
	TOO_MANY_QUERIES = 202,
	SOCKET_TIMEOUT = 209,
	NETWORK_ERROR = 210,
	MEMORY_LIMIT = 241,
	TABLE_IS_READ_ONLY = 242,
	NOT_ENOUGH_SPACE = 243,
	TOO_MANY_PARTS = 252,
	ALL_TRIES_FAILED = 279,
	TOO_FEW_REPLICAS = 285,
	UNKNOWN_INSERT_STATUS = 319,
	DATABASE_NOT_READY = 999, /* its keeper */
};

/* That may be gone later. */
static const int passing[] = {TIMEOUT_EXCEEDED, QUOTA_EXPIRED, TOO_MANY_QUERIES, SOCKET_TIMEOUT, NETWORK_ERROR,
	MEMORY_LIMIT, TABLE_IS_READ_ONLY, NOT_ENOUGH_SPACE, TOO_MANY_PARTS, ALL_TRIES_FAILED, TOO_FEW_REPLICAS,
	UNKNOWN_INSERT_STATUS, DATABASE_NOT_READY};

struct clickhouse_state {
	CURL *curl;
	struct curl_slist *headers, *gzip_headers;
	char *answer; /* stb_ds */
	bool is_too_long;
};

static size_t answer_take(char *bytes, size_t size, size_t count, void *context)
{
	struct clickhouse_state *state = context;
	size_t length = size * count;

	if (arrlenu(state->answer) + length > ANSWER_BYTES_MAX) {
		state->is_too_long = true;
		return 0;
	}
	if (length > 0)
		memcpy(arraddnptr(state->answer, length), bytes, length);
	return length;
}

static bool header_add(struct curl_slist **headers, const char *name, const char *value)
{
	struct curl_slist *longer;
	char *text;

	if (!*value)
		return true;
	if (asprintf(&text, "%s: %s", name, value) < 0)
		return false;
	longer = curl_slist_append(*headers, text);
	free(text);
	if (longer)
		*headers = longer;
	return longer != NULL;
}

/* Asked by libcurl while it waits, once a second or more often; not 0 ends the request. */
static int request_goes_on(void *context, curl_off_t down, curl_off_t got, curl_off_t up, curl_off_t sent)
{
	(void)down;
	(void)got;
	(void)up;
	(void)sent;
	return store_is_stopped(context);
}

static void clickhouse_close(struct store *store)
{
	struct clickhouse_state *state = store->state;

	if (!state)
		return;
	curl_easy_cleanup(state->curl);
	curl_slist_free_all(state->headers);
	curl_slist_free_all(state->gzip_headers);
	arrfree(state->answer);
	free(state);
}

/* Who asks stands in headers, where no log of requests shows it. */
static bool headers_make(const struct store_place *place, struct curl_slist **headers, bool is_gzip)
{
	return header_add(headers, "X-ClickHouse-User", place->user) &&
	       header_add(headers, "X-ClickHouse-Key", place->password) &&
	       header_add(headers, "Content-Encoding", is_gzip ? "gzip" : "") &&
	       /* No pause to ask whether the body is wanted. */
	       (*headers = curl_slist_append(*headers, "Expect:")) != NULL;
}

static int clickhouse_open(struct store *store)
{
	struct clickhouse_state *state = calloc(1, sizeof(*state));

	store->state = state;
	if (!state || curl_global_init(CURL_GLOBAL_DEFAULT))
		return store_fail(store, -ENOMEM, "no memory");
	state->curl = curl_easy_init();
	if (!state->curl || !headers_make(&store->place, &state->headers, false) ||
		!headers_make(&store->place, &state->gzip_headers, true))
		return store_fail(store, -ENOMEM, "no memory");
	curl_easy_setopt(state->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(state->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(state->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(state->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	curl_easy_setopt(state->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(state->curl, CURLOPT_LOW_SPEED_TIME, SILENCE_SECONDS);
	curl_easy_setopt(state->curl, CURLOPT_WRITEFUNCTION, answer_take);
	curl_easy_setopt(state->curl, CURLOPT_WRITEDATA, state);
	curl_easy_setopt(state->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(state->curl, CURLOPT_XFERINFOFUNCTION, request_goes_on);
	curl_easy_setopt(state->curl, CURLOPT_XFERINFODATA, store);
	return 0;
}

/* --- requests ----------------------------------------------------------------------- */

static bool error_passes(int code, long status)
{
	for (size_t index = 0; index < sizeof(passing) / sizeof(passing[0]); index++)
		if (passing[index] == code)
			return true;
	return !code && status >= HTTP_SERVER_ERROR;
}

/* What the server says stands in the answer: "Code: 60, e.displayText() = …". */
static int answer_fail(struct store *store, long status)
{
	struct clickhouse_state *state = store->state;
	static const char mark[] = "Code: ";
	const char *code_text;
	int code;

	arrput(state->answer, 0);
	code_text = strstr(state->answer, mark);
	code = code_text ? (int)strtol(code_text + strlen(mark), NULL, 10) : 0;
	for (char *at = state->answer; *at; at++)
		if ((unsigned char)*at < ' ')
			*at = ' ';
	if (code == UNKNOWN_TABLE || code == UNKNOWN_DATABASE)
		return store_fail(store, -ENOENT, "%s: there is no store yet: run `hdtrace store init` with this URL",
			store_name(store));
	return store_fail(store, error_passes(code, status) ? -EAGAIN : -EPROTO, "%s: %.*s", store_name(store),
		FAULT_SHOWN, *state->answer ? state->answer : "the server refused it without a reason");
}

/* Sends what is set up, to `address`. The answer is in the state. */
static int request_perform(struct store *store, const char *address)
{
	struct clickhouse_state *state = store->state;
	CURLcode code;
	long status = 0;

	arrsetlen(state->answer, 0);
	state->is_too_long = false;
	curl_easy_setopt(state->curl, CURLOPT_URL, address);
	code = curl_easy_perform(state->curl);
	if (state->is_too_long)
		return store_fail(store, -E2BIG, "%s: the answer is longer than %u MiB: ask for less",
			store_name(store), ANSWER_BYTES_MAX >> 20);
	if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_UNSUPPORTED_PROTOCOL)
		return store_fail(store, -EPROTO, "%s: %s", store_name(store), curl_easy_strerror(code));
	if (code == CURLE_ABORTED_BY_CALLBACK)
		return store_fail(store, -EINTR, "interrupted");
	if (code)
		return store_fail(store, -EAGAIN, "%s: %s", store_name(store), curl_easy_strerror(code));
	curl_easy_getinfo(state->curl, CURLINFO_RESPONSE_CODE, &status);
	return status == HTTP_OK ? 0 : answer_fail(store, status);
}

/* "http://host:8123/?database=…&SETTINGS&query=…", to be freed. */
static char *address_make(const struct store *store, bool with_database, const char *settings, const char *sql)
{
	struct clickhouse_state *state = store->state;
	char *query = sql ? curl_easy_escape(state->curl, sql, 0) : NULL, *address = NULL;

	if ((sql && !query) || asprintf(&address, "%s/?%s%s%s%s%s", store->place.address,
				       with_database ? "database=" : "", with_database ? store->place.database : "",
				       settings, query ? "&query=" : "", query ? query : "") < 0)
		address = NULL;
	curl_free(query);
	return address;
}

/* POST a body to a statement. */
static int post(struct store *store, const char *address, const void *body, size_t length, bool is_gzip)
{
	struct clickhouse_state *state = store->state;

	if (!address)
		return store_fail(store, -ENOMEM, "no memory");
	curl_easy_setopt(state->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(state->curl, CURLOPT_HTTPHEADER, is_gzip ? state->gzip_headers : state->headers);
	curl_easy_setopt(state->curl, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(state->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
	return request_perform(store, address);
}

static int statement_run(struct store *store, const char *sql, bool with_database)
{
	char *address = address_make(store, with_database, "", NULL);
	int error = post(store, address, sql, strlen(sql), false);

	free(address);
	return error;
}

static int clickhouse_init(struct store *store)
{
	struct result result = {0};
	char **statements, *create;
	int error;

	/* Who may not create databases is given one. */
	if (asprintf(&create, "CREATE DATABASE IF NOT EXISTS %s", store->place.database) < 0)
		return store_fail(store, -ENOMEM, "no memory");
	error = statement_run(store, create, false);
	free(create);
	if (error == -EAGAIN)
		return error;
	error = store->backend->query(store, store->backend->version_query, NULL, 0, &result);
	result_clear(&result);
	if (error != -ENOENT)
		return error; /* what is there is judged by store_check */
	error = 0;
	statements = schema_clickhouse(&store->place);
	for (size_t index = 0; !error && index < arrlenu(statements); index++)
		error = statement_run(store, statements[index], true);
	texts_free(statements);
	return error;
}

/* --- rows in ------------------------------------------------------------------------ */

/* gzip, which every server takes; stb_ds, NULL: no memory. */
static uint8_t *compress_bytes(const uint8_t *bytes, size_t length)
{
	z_stream stream = {0};
	uint8_t *out = NULL;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
		return NULL;
	arrsetlen(out, deflateBound(&stream, length));
	stream.next_in = (uint8_t *)bytes;
	stream.avail_in = (uInt)length;
	stream.next_out = out;
	stream.avail_out = (uInt)arrlenu(out);
	if (deflate(&stream, Z_FINISH) == Z_STREAM_END)
		arrsetlen(out, stream.total_out);
	else
		arrfree(out);
	deflateEnd(&stream);
	return out;
}

static int clickhouse_put(struct store *store, const struct batch *batch)
{
	const struct table *table = &tables[batch->table];
	char *columns = columns_text(table, false), *sql = NULL, *address = NULL;
	uint8_t *body = compress_bytes(batch->bytes, arrlenu(batch->bytes));
	int error;

	if (columns && asprintf(&sql, "INSERT INTO %s (%s) FORMAT RowBinary", table->name, columns) >= 0)
		/* Of a cluster: not before the shards have it. */
		address = address_make(store, true, "&insert_distributed_sync=1", sql);
	error = body ? post(store, address, body, arrlenu(body), true) : store_fail(store, -ENOMEM, "no memory");
	if (!error && arrlenu(((struct clickhouse_state *)store->state)->answer))
		error = answer_fail(store, HTTP_OK);
	free(columns);
	free(sql);
	free(address);
	arrfree(body);
	return error;
}

/* --- queries ------------------------------------------------------------------------ */

/* Values as one line, names and types as ClickHouse wants to be told of them. */
static int parameters_make(const struct parameter *parameters, size_t count, char **structure, char **line)
{
	size_t structure_length, line_length;
	FILE *structure_out = open_memstream(structure, &structure_length),
	     *line_out = open_memstream(line, &line_length);

	for (size_t index = 0; structure_out && line_out && index < count; index++) {
		const struct parameter *parameter = &parameters[index];
		bool is_text = parameter->type == COLUMN_TEXT;

		fprintf(structure_out, "%s%s %s", index ? "," : "", parameter->name, is_text ? "String" : "Int64");
		if (index)
			fputc('\t', line_out);
		if (is_text)
			tsv_write(line_out, parameter->text);
		else
			fprintf(line_out, "%lld", (long long)parameter->number);
	}
	if (line_out)
		fputc('\n', line_out);
	if (structure_out)
		fclose(structure_out);
	if (line_out)
		fclose(line_out);
	return *structure && *line ? 0 : -ENOMEM;
}

static bool part_add(curl_mime *form, const char *name, const char *data, bool is_file)
{
	curl_mimepart *part = curl_mime_addpart(form);

	return part && !curl_mime_name(part, name) && !curl_mime_data(part, data, CURL_ZERO_TERMINATED) &&
	       (!is_file || !curl_mime_filename(part, name));
}

/* The statement as a part of a form, and the parameters, if there are any, as a file of it. */
static int form_send(struct store *store, const char *address, const char *sql, const char *line)
{
	struct clickhouse_state *state = store->state;
	curl_mime *form = curl_mime_init(state->curl);
	int error;

	if (!form || !address || !part_add(form, "query", sql, false) ||
		(line && !part_add(form, "parameter", line, true))) {
		curl_mime_free(form);
		return store_fail(store, -ENOMEM, "no memory");
	}
	curl_easy_setopt(state->curl, CURLOPT_HTTPHEADER, state->headers);
	curl_easy_setopt(state->curl, CURLOPT_MIMEPOST, form);
	error = request_perform(store, address);
	curl_easy_setopt(state->curl, CURLOPT_MIMEPOST, NULL);
	curl_mime_free(form);
	return error;
}

/* Only reads; an answer comes when it is whole; a join has all rows that match, also in old versions. */
#define QUERY_SETTINGS                                                                                                 \
	"&readonly=2&wait_end_of_query=1&buffer_size=1048576&join_default_strictness=ALL"                              \
	"&default_format=TabSeparatedWithNamesAndTypes"

static int clickhouse_query(
	struct store *store, const char *sql, const struct parameter *parameters, size_t count, struct result *result)
{
	struct clickhouse_state *state = store->state;
	char *structure = NULL, *line = NULL, *settings = NULL, *escaped = NULL, *address = NULL;
	int error = count ? parameters_make(parameters, count, &structure, &line) : 0;

	if (!error && count) {
		escaped = curl_easy_escape(state->curl, structure, 0);
		if (!escaped || asprintf(&settings, QUERY_SETTINGS "&parameter_structure=%s", escaped) < 0)
			settings = NULL;
	}
	if (!error && (settings || !count))
		address = address_make(store, true, settings ? settings : QUERY_SETTINGS, NULL);
	error = address ? form_send(store, address, sql, line) : store_fail(store, -ENOMEM, "no memory");
	if (!error && tsv_parse(state->answer, arrlenu(state->answer), result))
		error = store_fail(
			store, -EPROTO, "%s: the answer is no table: is this ClickHouse?", store_name(store));
	free(structure);
	free(line);
	free(settings);
	free(address);
	curl_free(escaped);
	return error;
}

const struct backend clickhouse_backend = {
	.open = clickhouse_open,
	.close = clickhouse_close,
	.init = clickhouse_init,
	.put = clickhouse_put,
	.query = clickhouse_query,
	.columns_query = "SELECT table, name, type FROM system.columns WHERE database = currentDatabase()",
	.version_query = "SELECT max(version) AS version FROM hdtrace_schema",
	.text_type = "String",
	.number_type = "Int64",
	.optional_type = "Nullable(Int64)",
};
