// SPDX-License-Identifier: BSD-2-Clause
/* The HTTP server (libmicrohttpd): limits, the token, and which text a client gets. */
#include "agent/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A scraper has one connection; whoever opens more, or says nothing, loses them. */
#define CONNECTIONS_MAX 64
#define CONNECTIONS_OF_ADDRESS_MAX 16
#define TIMEOUT_SECONDS 10
#define REQUEST_BYTES 16384
#define FILE_BYTES_MAX 65536
#define TOKEN_BYTES_MIN 16

#define TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPEN_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TYPE_PLAIN "text/plain; charset=utf-8"

struct server {
	struct MHD_Daemon *daemon;
	pthread_mutex_t lock; /* of the pages */
	struct server_page text, open_metrics;
	char *certificate, *key, *token; /* NULL: none */
};

/* --- answers ---------------------------------------------------------------------------- */

static enum MHD_Result answer(
	struct MHD_Connection *connection, unsigned int status, const char *type, char *text, size_t length)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result result;

	if (!response) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_line(struct MHD_Connection *connection, unsigned int status, const char *line)
{
	char *text = strdup(line);

	return text ? answer(connection, status, TYPE_PLAIN, text, strlen(text)) : MHD_NO;
}

/* Takes as long whatever the text is, so that it cannot be guessed letter by letter. */
static bool texts_equal(const char *given, const char *wanted)
{
	size_t given_length = strlen(given), length = strlen(wanted);
	unsigned char difference = given_length != length;

	for (size_t index = 0; index < length; index++)
		difference |= (unsigned char)(wanted[index] ^ (index < given_length ? given[index] : 0));
	return !difference;
}

static bool is_allowed(const struct server *server, struct MHD_Connection *connection)
{
	static const char scheme[] = "Bearer ";
	const char *header;

	if (!server->token)
		return true;
	header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	return header && !strncasecmp(header, scheme, strlen(scheme)) &&
	       texts_equal(header + strlen(scheme), server->token);
}

static bool wants_open_metrics(struct MHD_Connection *connection)
{
	const char *accepted = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

	return accepted && strstr(accepted, "application/openmetrics-text");
}

static enum MHD_Result answer_metrics(struct server *server, struct MHD_Connection *connection)
{
	bool open = wants_open_metrics(connection);
	const struct server_page *page = open ? &server->open_metrics : &server->text;
	char *copy = NULL;
	size_t length;

	pthread_mutex_lock(&server->lock);
	length = page->length;
	if (page->text)
		copy = malloc(length + 1);
	if (copy)
		memcpy(copy, page->text, length);
	pthread_mutex_unlock(&server->lock);
	if (!copy)
		return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "nothing was seen yet\n");
	return answer(connection, MHD_HTTP_OK, open ? TYPE_OPEN_METRICS : TYPE_TEXT, copy, length);
}

static enum MHD_Result request_handle(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size, void **state)
{
	struct server *server = context;

	(void)version;
	(void)upload;
	/* First without, then with the body, which nobody wants. */
	if (!*state) {
		*state = server;
		return MHD_YES;
	}
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	if (!strcmp(url, "/health"))
		return answer_line(connection, MHD_HTTP_OK, "ok\n");
	if (!is_allowed(server, connection))
		return answer_line(
			connection, MHD_HTTP_UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN\n");
	if (!strcmp(url, "/metrics"))
		return answer_metrics(server, connection);
	return answer_line(connection, MHD_HTTP_NOT_FOUND, "there are /metrics and /health\n");
}

/* --- begin and end -------------------------------------------------------------------------- */

static int file_read(const char *path, char **text)
{
	FILE *file = fopen(path, "re");
	size_t length;
	int error = 0;

	if (!file)
		return -errno;
	*text = calloc(1, FILE_BYTES_MAX + 1);
	length = *text ? fread(*text, 1, FILE_BYTES_MAX + 1, file) : 0;
	if (!*text)
		error = -ENOMEM;
	else if (ferror(file))
		error = -EIO;
	else if (length > FILE_BYTES_MAX)
		error = -EFBIG;
	fclose(file);
	return error;
}

/* A file of the options that is not "". */
static int option_read(const char *path, char **text, char fault[SERVER_FAULT_BYTES])
{
	int error = *path ? file_read(path, text) : 0;

	if (error)
		snprintf(fault, SERVER_FAULT_BYTES, "cannot read %s: %s", path, strerror(-error));
	return error;
}

static int token_check(struct server *server, const char *path, char fault[SERVER_FAULT_BYTES])
{
	if (!server->token)
		return 0;
	server->token[strcspn(server->token, "\r\n")] = '\0';
	if (strlen(server->token) >= TOKEN_BYTES_MIN)
		return 0;
	snprintf(fault, SERVER_FAULT_BYTES, "the token in %s has fewer than %d characters", path, TOKEN_BYTES_MIN);
	return -EINVAL;
}

static int files_read(struct server *server, const struct server_options *options, char fault[SERVER_FAULT_BYTES])
{
	int error = option_read(options->certificate, &server->certificate, fault);

	if (!error)
		error = option_read(options->key, &server->key, fault);
	if (!error)
		error = option_read(options->token, &server->token, fault);
	return error ? error : token_check(server, options->token, fault);
}

static bool address_fill(const struct server_options *options, struct sockaddr_storage *storage)
{
	struct sockaddr_in *four = (struct sockaddr_in *)storage;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)storage;

	*storage = (struct sockaddr_storage){0};
	if (inet_pton(AF_INET, options->address, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(options->port);
		return true;
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(options->port);
	return inet_pton(AF_INET6, options->address, &six->sin6_addr) == 1;
}

/* Its messages are those of clients' faults: nothing for a log. */
static void message_drop(void *context, const char *format, va_list values)
{
	(void)context;
	(void)format;
	(void)values;
}

static int daemon_start(struct server *server, const struct server_options *options, char fault[SERVER_FAULT_BYTES])
{
	struct sockaddr_storage address;
	sigset_t all, before;
	int error;
	unsigned int flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, server->certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, server->key},
		{MHD_OPTION_END, 0, NULL},
	};

	if (!address_fill(options, &address)) {
		snprintf(fault, SERVER_FAULT_BYTES, "%s is no address", options->address);
		return -EINVAL;
	}
	if (address.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	if (server->certificate)
		flags |= MHD_USE_TLS;
	else
		tls[0].option = MHD_OPTION_END;
	/* Signals are for the thread that traces. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = 0;
	server->daemon = MHD_start_daemon(flags, options->port, NULL, NULL, request_handle, server,
		MHD_OPTION_EXTERNAL_LOGGER, message_drop, NULL, MHD_OPTION_SOCK_ADDR, &address,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		(unsigned int)CONNECTIONS_OF_ADDRESS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)TIMEOUT_SECONDS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	error = server->daemon ? 0 : errno ? -errno : -EINVAL;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		snprintf(fault, SERVER_FAULT_BYTES, "cannot listen on %s, port %u: %s", options->address, options->port,
			error == -EINVAL ? "the certificate or its key is not usable" : strerror(-error));
	return error;
}

int server_start(const struct server_options *options, struct server **out, char fault[SERVER_FAULT_BYTES])
{
	struct server *server = calloc(1, sizeof(*server));
	int error;

	*out = NULL;
	if (!server) {
		snprintf(fault, SERVER_FAULT_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	pthread_mutex_init(&server->lock, NULL);
	error = files_read(server, options, fault);
	if (!error)
		error = daemon_start(server, options, fault);
	if (error)
		server_stop(server);
	else
		*out = server;
	return error;
}

void server_stop(struct server *server)
{
	if (!server)
		return;
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	pthread_mutex_destroy(&server->lock);
	free(server->text.text);
	free(server->open_metrics.text);
	free(server->certificate);
	free(server->key);
	free(server->token);
	free(server);
}

uint16_t server_port(const struct server *server)
{
	return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void server_publish(struct server *server, struct server_page text, struct server_page open_metrics)
{
	struct server_page old[2];

	pthread_mutex_lock(&server->lock);
	old[0] = server->text;
	old[1] = server->open_metrics;
	server->text = text;
	server->open_metrics = open_metrics;
	pthread_mutex_unlock(&server->lock);
	free(old[0].text);
	free(old[1].text);
}
