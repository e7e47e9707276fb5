/* SPDX-License-Identifier: BSD-2-Clause */
/* URLs of stores, taken apart by libcurl. */
#include "store/place.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#define PORT_HTTP "8123"
#define PORT_HTTPS "8443"
#define DATABASE_DEFAULT "hdtrace"

/* Names stand in SQL as they are, so they are words. */
static bool is_word(const char *text)
{
	if (isdigit((unsigned char)*text))
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && *text != '_')
			return false;
	return true;
}

/* A part of the URL, decoded, to be freed; "" when it has none; NULL: no memory. */
static char *part_of(CURLU *url, CURLUPart part)
{
	char *text = NULL, *copy;

	if (curl_url_get(url, part, &text, CURLU_URLDECODE) || !text)
		return strdup("");
	copy = strdup(text);
	curl_free(text);
	return copy;
}

/* "cluster=NAME&replicated=1". Returns false for anything else. */
static bool options_parse(char *query, struct store_place *place)
{
	char *rest = NULL;

	for (char *option = strtok_r(query, "&", &rest); option; option = strtok_r(NULL, "&", &rest)) {
		if (!strncmp(option, "cluster=", strlen("cluster="))) {
			free(place->cluster);
			place->cluster = strdup(option + strlen("cluster="));
		} else if (!strcmp(option, "replicated=1")) {
			place->replicated = true;
		} else {
			return false;
		}
	}
	return place->cluster && is_word(place->cluster);
}

static const char *server_take(CURLU *url, struct store_place *place)
{
	char *scheme = part_of(url, CURLUPART_SCHEME), *host = part_of(url, CURLUPART_HOST);
	char *port = part_of(url, CURLUPART_PORT), *path = part_of(url, CURLUPART_PATH);
	char *query = part_of(url, CURLUPART_QUERY);
	const char *password = getenv("HDTRACE_STORE_PASSWORD"), *fault = NULL;
	bool is_secure = scheme && !strcmp(scheme, "https");

	place->user = part_of(url, CURLUPART_USER);
	place->password = part_of(url, CURLUPART_PASSWORD);
	if (password && place->password && !*place->password) {
		free(place->password);
		place->password = strdup(password);
	}
	place->database = strdup(path && path[0] && path[1] ? path + 1 : DATABASE_DEFAULT);
	if (!scheme || !host || !port || !query || !place->database || !place->user || !place->password)
		fault = "no memory";
	else if (asprintf(&place->address, "%s://%s:%s", scheme, host,
			 *port       ? port
			 : is_secure ? PORT_HTTPS
				     : PORT_HTTP) < 0 ||
		 asprintf(&place->name, "%s/%s", place->address, place->database) < 0)
		fault = "no memory";
	else if (!*host)
		fault = "the URL has no host";
	else if (!is_word(place->database))
		fault = "the name of the database is not made of letters, digits and _";
	else if (!options_parse(query, place))
		fault = "behind ? only cluster=NAME and replicated=1 may stand";
	free(scheme);
	free(host);
	free(port);
	free(path);
	free(query);
	return fault;
}

static const char *server_parse(const char *text, struct store_place *place)
{
	CURLU *url = curl_url();
	const char *fault;

	if (!url)
		return "no memory";
	place->is_server = true;
	place->cluster = strdup("");
	if (curl_url_set(url, CURLUPART_URL, text, 0))
		fault = "it is no URL of the form http://USER:PASSWORD@HOST:PORT/DATABASE";
	else
		fault = server_take(url, place);
	curl_url_cleanup(url);
	return fault;
}

static const char *scheme_rest(const char *url, const char *scheme)
{
	return strncmp(url, scheme, strlen(scheme)) ? NULL : url + strlen(scheme);
}

const char *place_parse(const char *url, struct store_place *place)
{
	const char *rest = scheme_rest(url, "clickhouse://"), *path;
	const char *fault;
	char *text;

	*place = (struct store_place){0};
	if (rest) {
		if (asprintf(&text, "http://%s", rest) < 0)
			return "no memory";
		fault = server_parse(text, place);
		free(text);
		return fault;
	}
	if (scheme_rest(url, "http://") || scheme_rest(url, "https://"))
		return server_parse(url, place);
	path = scheme_rest(url, "sqlite:");
	path = path ? path : url;
	path = scheme_rest(path, "//") ? path + 2 : path;
	if (!*path || (path == url && strstr(url, "://")))
		return "a store is a file, or http://HOST:PORT/DATABASE of ClickHouse";
	place->path = strdup(path);
	place->name = strdup(path);
	return place->path && place->name ? NULL : "no memory";
}

void place_clear(struct store_place *place)
{
	free(place->path);
	free(place->address);
	free(place->database);
	free(place->user);
	free(place->password);
	free(place->cluster);
	free(place->name);
	*place = (struct store_place){0};
}
