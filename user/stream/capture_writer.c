/* SPDX-License-Identifier: BSD-2-Clause */
/* The writing side of a capture; see capture_writer.h. */
#include "stream/capture_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "base/clock.h"
#include "stream/record.h"

/* Records of one chunk; the largest record fits. Larger chunks compress no better, smaller ones worse. */
#define CHUNK_SIZE CAPTURE_RECORD_MAX
/* The fastest level of the format proper: the recorder shares the machine with the job. */
#define COMPRESSION_LEVEL 1
/* Random temporary names that may all be taken before giving up. */
#define TEMPORARY_ATTEMPTS 16

struct capture_writer {
	int fd;
	int error; /* of the first failed write */
	char *path;
	bool published;  /* the file has that name */
	char *temporary; /* until then: a name that it has, NULL: none */
	uint32_t sequence;
	uint64_t file_size;    /* end of the last whole chunk */
	uint64_t record_count; /* in the buffer */
	size_t used;
	uint8_t *records;
	uint8_t *output; /* struct capture_chunk, then the compressed records */
	size_t output_size;
	ZSTD_CCtx *compressor;
	bool fileless;
	struct {
		void (*observe)(void *context, const struct event *record);
		void *context;
	} observers[CAPTURE_OBSERVERS_MAX];
	size_t observer_count;
};

/* Writes all of it, or cuts the file back to its last whole chunk and remembers why. */
static int output_write(struct capture_writer *writer, const void *data, size_t length)
{
	const uint8_t *bytes = data;
	size_t written = 0;

	while (written < length) {
		ssize_t count = write(writer->fd, bytes + written, length - written);

		if (count > 0) {
			written += (size_t)count;
			continue;
		}
		if (count < 0 && errno == EINTR)
			continue;
		writer->error = count < 0 ? -errno : -EIO;
		if (ftruncate(writer->fd, (off_t)writer->file_size) == 0)
			(void)lseek(writer->fd, 0, SEEK_END);
		return writer->error;
	}
	writer->file_size += length;
	return 0;
}

static int header_write(struct capture_writer *writer, uint64_t start_time_ns, uint64_t start_real_time_ns)
{
	struct capture_header header = {
		.version = CAPTURE_VERSION,
		.header_size = sizeof(header),
		.start_time_ns = start_time_ns,
		.start_real_time_ns = start_real_time_ns,
	};

	memcpy(header.magic, CAPTURE_MAGIC, sizeof(header.magic));
	header.checksum = XXH3_64bits(&header, offsetof(struct capture_header, checksum));
	return output_write(writer, &header, sizeof(header));
}

/* Only a regular file, or a link that is replaced as such, may give way to a capture. */
static int path_check(const char *path)
{
	struct stat status;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	return S_ISREG(status.st_mode) || S_ISLNK(status.st_mode) ? 0 : -EEXIST;
}

/* "PATH.0123456789abcdef", to be freed; NULL: no memory, or no random number. */
static char *temporary_name(const char *path)
{
	uint64_t number;
	char *name;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return NULL;
	return asprintf(&name, "%s.%016" PRIx64, path, number) < 0 ? NULL : name;
}

/* Calls `make` with new names beside the writer's path until one is free, which writer->temporary is then. */
static int temporary_make(struct capture_writer *writer, int (*make)(struct capture_writer *writer, const char *name))
{
	int error = -EEXIST;

	for (int attempt = 0; attempt < TEMPORARY_ATTEMPTS && error == -EEXIST; attempt++) {
		char *name = temporary_name(writer->path);

		error = name ? make(writer, name) : -ENOMEM;
		if (!error)
			writer->temporary = name;
		else
			free(name);
	}
	return error;
}

static int file_create(struct capture_writer *writer, const char *name)
{
	writer->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return writer->fd < 0 ? -errno : 0;
}

static int file_link(struct capture_writer *writer, const char *name)
{
	char file[sizeof("/proc/self/fd/") + 10]; /* digits of an int */

	snprintf(file, sizeof(file), "/proc/self/fd/%d", writer->fd);
	return linkat(AT_FDCWD, file, AT_FDCWD, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* A file without a name, of which nothing is left when its writer is killed; where there are none, one beside the path.
 */
static int file_open(struct capture_writer *writer)
{
	const char *slash = strrchr(writer->path, '/');
	char *folder = slash ? strndup(writer->path, (size_t)(slash - writer->path) + 1) : strdup(".");

	if (!folder)
		return -ENOMEM;
	writer->fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0644);
	free(folder);
	return writer->fd < 0 ? temporary_make(writer, file_create) : 0;
}

static void writer_free(struct capture_writer *writer)
{
	if (!writer)
		return;
	ZSTD_freeCCtx(writer->compressor);
	free(writer->records);
	free(writer->output);
	free(writer->path);
	free(writer->temporary);
	free(writer);
}

/* Closes a writer, and removes its file if it has no final name yet. */
static void draft_remove(struct capture_writer *writer)
{
	if (writer->temporary)
		unlink(writer->temporary);
	if (writer->fd >= 0)
		close(writer->fd);
	writer_free(writer);
}

static struct capture_writer *writer_new(void)
{
	struct capture_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	writer->fd = -1;
	writer->output_size = sizeof(struct capture_chunk) + ZSTD_compressBound(CHUNK_SIZE);
	writer->records = malloc(CHUNK_SIZE);
	writer->output = malloc(writer->output_size);
	writer->compressor = ZSTD_createCCtx();
	if (!writer->records || !writer->output || !writer->compressor ||
		ZSTD_isError(ZSTD_CCtx_setParameter(writer->compressor, ZSTD_c_compressionLevel, COMPRESSION_LEVEL))) {
		writer_free(writer);
		return NULL;
	}
	return writer;
}

/* A writer of a new file beside `path`. */
static int draft_make(
	const char *path, uint64_t start_time_ns, uint64_t start_real_time_ns, struct capture_writer **result)
{
	struct capture_writer *writer = writer_new();
	int error = -ENOMEM;

	*result = NULL;
	if (!writer)
		return error;
	writer->path = strdup(path);
	if (!writer->path)
		goto cleanup;
	error = file_open(writer);
	if (!error)
		error = header_write(writer, start_time_ns, start_real_time_ns);
	if (error)
		goto cleanup;
	*result = writer;
	writer = NULL;
cleanup:
	if (writer)
		draft_remove(writer);
	return error;
}

/* The draft's file gets its final name. */
static int draft_publish(struct capture_writer *writer)
{
	int error = writer->temporary ? 0 : temporary_make(writer, file_link);

	if (error)
		return error;
	if (rename(writer->temporary, writer->path) < 0)
		return -errno;
	free(writer->temporary);
	writer->temporary = NULL;
	writer->published = true;
	return 0;
}

int capture_writer_open(const char *path, struct capture_writer **result)
{
	int error = path_check(path);

	*result = NULL;
	if (error)
		return error;
	error = draft_make(path, monotonic_ns(), (uint64_t)clock_ns(CLOCK_REALTIME), result);
	if (!error)
		error = draft_publish(*result);
	if (error && *result) {
		draft_remove(*result);
		*result = NULL;
	}
	return error;
}

int capture_writer_fileless(struct capture_writer **result)
{
	struct capture_writer *writer = calloc(1, sizeof(*writer));

	*result = NULL;
	if (!writer)
		return -ENOMEM;
	writer->fd = -1;
	writer->fileless = true;
	writer->records = malloc(CHUNK_SIZE);
	if (!writer->records) {
		writer_free(writer);
		return -ENOMEM;
	}
	*result = writer;
	return 0;
}

int capture_writer_draft(const char *path, const struct capture_header *header, struct capture_writer **draft)
{
	return draft_make(path, header->start_time_ns, header->start_real_time_ns, draft);
}

int capture_writer_flush(struct capture_writer *writer)
{
	struct capture_chunk chunk = {
		.magic = CAPTURE_CHUNK_MAGIC,
		.sequence = writer->sequence,
		.size = (uint32_t)writer->used,
		.record_count = writer->record_count,
	};
	uint8_t *compressed = writer->output + sizeof(chunk);
	size_t size;

	if (writer->error || !writer->used)
		return writer->error;
	size = ZSTD_compress2(
		writer->compressor, compressed, writer->output_size - sizeof(chunk), writer->records, writer->used);
	if (ZSTD_isError(size)) {
		writer->error = -EIO;
		return writer->error;
	}
	chunk.compressed_size = (uint32_t)size;
	chunk.checksum = XXH3_64bits(compressed, size);
	chunk.header_checksum = XXH3_64bits(&chunk, offsetof(struct capture_chunk, header_checksum));
	memcpy(writer->output, &chunk, sizeof(chunk));
	writer->sequence++;
	writer->used = 0;
	writer->record_count = 0;
	return output_write(writer, writer->output, sizeof(chunk) + size);
}

/* Room for a record of `size` bytes at the end of the buffer, for record_commit. */
static int record_reserve(struct capture_writer *writer, size_t size, void **room)
{
	if (writer->error)
		return writer->error;
	if (writer->used + size > CHUNK_SIZE) {
		int error = capture_writer_flush(writer);

		if (error)
			return error;
	}
	*room = writer->records + writer->used;
	return 0;
}

static void record_commit(struct capture_writer *writer, size_t size)
{
	for (size_t i = 0; i < writer->observer_count; i++)
		writer->observers[i].observe(
			writer->observers[i].context, (const void *)(writer->records + writer->used));
	if (writer->fileless)
		return;
	writer->used += size;
	writer->record_count++;
}

int capture_writer_observe(
	struct capture_writer *writer, void (*observe)(void *context, const struct event *record), void *context)
{
	if (writer->observer_count == CAPTURE_OBSERVERS_MAX)
		return -ENOSPC;
	writer->observers[writer->observer_count].observe = observe;
	writer->observers[writer->observer_count++].context = context;
	return 0;
}

int capture_writer_append(struct capture_writer *writer, const struct event *record)
{
	void *room;
	int error;

	if (record_check(record, CAPTURE_RECORD_MAX))
		return -EBADMSG;
	error = record_reserve(writer, record->size, &room);
	if (error)
		return error;
	memcpy(room, record, record->size);
	record_commit(writer, record->size);
	return 0;
}

/*
 * Reserves a record of `header` and `payload` bytes that is made here: zeroed,
 * with its common part filled in; `payload` is rounded up to the alignment.
 */
static int record_begin(
	struct capture_writer *writer, uint16_t kind, uint16_t target, size_t header, size_t payload, void **record)
{
	struct event event = {.time_ns = monotonic_ns(), .kind = kind, .target = target};
	size_t size;
	int error;

	if (payload > CAPTURE_RECORD_MAX - header - RECORD_ALIGNMENT)
		return -E2BIG;
	size = (header + payload + RECORD_ALIGNMENT - 1) / RECORD_ALIGNMENT * RECORD_ALIGNMENT;
	error = record_reserve(writer, size, record);
	if (error)
		return error;
	event.size = (uint32_t)size;
	memset(*record, 0, size);
	memcpy(*record, &event, sizeof(event));
	return 0;
}

int capture_writer_text(struct capture_writer *writer, uint16_t kind, uint16_t target, const char *json)
{
	size_t length = strlen(json);
	void *room;
	struct text_record *record;
	int error = record_begin(writer, kind, target, sizeof(*record), length, &room);

	if (error)
		return error;
	record = room;
	record->length = (uint32_t)length;
	memcpy(record->text, json, length);
	record_commit(writer, record->event.size);
	return 0;
}

int capture_writer_operator(
	struct capture_writer *writer, uint16_t target, uint16_t index, const char *name, uint32_t flags)
{
	size_t length = strlen(name);
	void *room;
	struct operator_record *record;
	int error = record_begin(writer, CAPTURE_OPERATOR, target, sizeof(*record), length, &room);

	if (error)
		return error;
	record = room;
	record->event.operator_ = index;
	record->length = (uint32_t)length;
	record->flags = flags;
	memcpy(record->name, name, length);
	record_commit(writer, record->event.size);
	return 0;
}

int capture_writer_symbol(struct capture_writer *writer, uint16_t target, uint64_t address, const char *library,
	const char *name, uint32_t offset)
{
	/* Names of templates have no bound. */
	size_t library_length = strnlen(library, UINT16_MAX), name_length = strnlen(name, UINT16_MAX);
	struct symbol_record *record;
	void *room;
	int error = record_begin(writer, CAPTURE_SYMBOL, target, sizeof(*record), library_length + name_length, &room);

	if (error)
		return error;
	record = room;
	record->address = address;
	record->offset = offset;
	record->library_length = (uint16_t)library_length;
	record->name_length = (uint16_t)name_length;
	memcpy(record->bytes, library, library_length);
	memcpy(record->bytes + library_length, name, name_length);
	record_commit(writer, record->event.size);
	return 0;
}

int capture_writer_module(
	struct capture_writer *writer, uint16_t target, uint64_t time_ns, uint64_t object, const char *name)
{
	size_t length = strnlen(name, UINT16_MAX);
	struct module_record *record;
	void *room;
	int error = record_begin(writer, CAPTURE_MODULE, target, sizeof(*record), length, &room);

	if (error)
		return error;
	record = room;
	record->event.time_ns = time_ns;
	record->object = object;
	record->length = (uint32_t)length;
	memcpy(record->name, name, length);
	record_commit(writer, record->event.size);
	return 0;
}

int capture_writer_owner(struct capture_writer *writer, uint16_t target, uint64_t time_ns, enum owner_kind kind,
	const struct tensor_argument *storage, uint8_t element_type, const char *name)
{
	size_t length = strnlen(name, UINT16_MAX);
	struct owner_record *record;
	void *room;
	int error = record_begin(writer, CAPTURE_OWNER, target, sizeof(*record), length, &room);

	if (error)
		return error;
	record = room;
	record->event.time_ns = time_ns;
	record->storage = *storage;
	record->kind = (uint8_t)kind;
	record->element_type = element_type;
	record->length = (uint32_t)length;
	memcpy(record->name, name, length);
	record_commit(writer, record->event.size);
	return 0;
}

static bool code_fits(const struct capture_code *code, const size_t lengths[3])
{
	return lengths[0] <= CAPTURE_RECORD_MAX && lengths[1] <= CAPTURE_RECORD_MAX &&
	       lengths[2] <= CAPTURE_RECORD_MAX && code->table_length <= CAPTURE_RECORD_MAX;
}

int capture_writer_code(struct capture_writer *writer, uint16_t target, const struct capture_code *code)
{
	const char *strings[3] = {code->file, code->name, code->qualified_name};
	size_t lengths[3] = {strlen(strings[0]), strlen(strings[1]), strlen(strings[2])};
	struct code_record *record;
	char *bytes;
	void *room;
	int error;

	if (!code_fits(code, lengths))
		return -E2BIG;
	error = record_begin(writer, CAPTURE_CODE, target, sizeof(*record),
		lengths[0] + lengths[1] + lengths[2] + code->table_length, &room);
	if (error)
		return error;
	record = room;
	record->code = code->code;
	record->first_instruction = code->first_instruction;
	record->first_line = code->first_line;
	record->table_format = code->table_format;
	record->file_length = (uint32_t)lengths[0];
	record->name_length = (uint32_t)lengths[1];
	record->qualified_length = (uint32_t)lengths[2];
	record->table_length = (uint32_t)code->table_length;
	bytes = record->bytes;
	for (int i = 0; i < 3; i++)
		bytes = mempcpy(bytes, strings[i], lengths[i]);
	if (code->table_length)
		memcpy(bytes, code->table, code->table_length);
	record_commit(writer, record->event.size);
	return 0;
}

int capture_writer_loss(struct capture_writer *writer, uint16_t target, const struct event_counters *counters)
{
	void *room;
	struct loss_record *record;
	int error = record_begin(writer, CAPTURE_LOSS, target, sizeof(*record), 0, &room);

	if (error)
		return error;
	record = room;
	record->counters = *counters;
	record_commit(writer, record->event.size);
	return 0;
}

uint64_t capture_writer_bytes(const struct capture_writer *writer)
{
	return writer->file_size;
}

int capture_writer_descriptor(const struct capture_writer *writer)
{
	return writer->fd;
}

struct capture_progress capture_writer_progress(const struct capture_writer *writer)
{
	return (struct capture_progress){.bytes = writer->file_size, .chunks = writer->sequence};
}

void capture_writer_resume(struct capture_writer *draft, struct capture_progress progress)
{
	draft->file_size = progress.bytes;
	draft->sequence = progress.chunks;
}

static int input_read(int fd, void *buffer, size_t length, uint64_t offset)
{
	ssize_t count = pread(fd, buffer, length, (off_t)offset);

	if (count < 0)
		return -errno;
	return (size_t)count == length ? 0 : -EBADMSG;
}

/* The chunk at *offset gets this file's next number, and *offset that of the one behind it. */
static int chunk_copy(struct capture_writer *writer, int fd, uint64_t *offset)
{
	struct capture_chunk *chunk = (struct capture_chunk *)writer->output;
	size_t size;
	int error = input_read(fd, chunk, sizeof(*chunk), *offset);

	if (error)
		return error;
	if (chunk->magic != CAPTURE_CHUNK_MAGIC || chunk->compressed_size > writer->output_size - sizeof(*chunk))
		return -EBADMSG;
	size = sizeof(*chunk) + chunk->compressed_size;
	error = input_read(fd, chunk + 1, chunk->compressed_size, *offset + sizeof(*chunk));
	if (error)
		return error;
	chunk->sequence = writer->sequence++;
	chunk->header_checksum = XXH3_64bits(chunk, offsetof(struct capture_chunk, header_checksum));
	*offset += size;
	return output_write(writer, writer->output, size);
}

int capture_writer_copy(struct capture_writer *writer, int fd, uint64_t from, uint64_t end)
{
	int error = capture_writer_flush(writer);

	while (!error && from < end)
		error = chunk_copy(writer, fd, &from);
	return error;
}

int capture_writer_replace(struct capture_writer *writer, struct capture_writer *draft, uint64_t from)
{
	int error = writer->error, old;

	if (!error)
		error = capture_writer_copy(draft, writer->fd, from, writer->file_size);
	if (!error)
		error = draft_publish(draft);
	if (!error) {
		old = writer->fd;
		writer->fd = draft->fd;
		draft->fd = old;
		writer->file_size = draft->file_size;
		writer->sequence = draft->sequence;
	}
	draft_remove(draft);
	return error;
}

int capture_writer_close(struct capture_writer *writer)
{
	int error;

	if (!writer)
		return 0;
	if (!writer->published) {
		draft_remove(writer);
		return 0;
	}
	error = capture_writer_flush(writer);
	if (close(writer->fd) < 0 && !error && errno != EINTR)
		error = -errno;
	writer_free(writer);
	return error;
}
