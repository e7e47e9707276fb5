/* SPDX-License-Identifier: BSD-2-Clause */
/* The reading side of a capture; see capture_reader.h. */
#include "stream/capture_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "stream/record.h"

/* A header of a later minor format may be longer, not endless. */
#define HEADER_SIZE_MAX 4096

enum { READER_MORE = 1, READER_END = 0 };

struct capture_reader {
	int fd;
	int state; /* READER_MORE, or what capture_reader_next returns for ever */
	struct capture_header header;
	uint64_t offset; /* in the file */
	uint64_t chunk;  /* where the last one began */
	uint32_t sequence;
	uint16_t first_target;
	uint8_t *compressed;
	size_t compressed_capacity;
	uint8_t *records;
	size_t records_capacity;
	size_t size, position; /* in records */
	uint64_t skipped;
	ZSTD_DCtx *decompressor;
	struct capture_damage damage;
};

/* Reads up to `length` bytes, less only at the end of the file; their number or a negative errno. */
static ssize_t input_read(struct capture_reader *reader, void *buffer, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t count = read(reader->fd, (uint8_t *)buffer + done, length - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	return (ssize_t)done;
}

/* Ends the reading: sets what every later call returns, and why. */
static int reader_stop(struct capture_reader *reader, int state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int reader_stop(struct capture_reader *reader, int state, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reader->damage.reason, sizeof(reader->damage.reason), format, arguments);
	va_end(arguments);
	reader->damage.offset = reader->offset;
	reader->state = state;
	return state;
}

static int reader_truncated(struct capture_reader *reader, const char *what)
{
	reader->damage.truncated = true;
	return reader_stop(reader, READER_END, "the file ends inside %s", what);
}

static int reader_failed(struct capture_reader *reader, int error)
{
	return reader_stop(reader, error, "read: %s", strerror(-error));
}

/* Makes *buffer hold at least `size` bytes; what was in it is lost. */
static int buffer_grow(uint8_t **buffer, size_t *capacity, size_t size)
{
	if (size <= *capacity)
		return 0;
	free(*buffer);
	*capacity = 0;
	*buffer = malloc(size);
	if (!*buffer)
		return -ENOMEM;
	*capacity = size;
	return 0;
}

/* What a longer header appends is for readers that know it. */
static int header_skip(struct capture_reader *reader, size_t length)
{
	uint8_t rest[HEADER_SIZE_MAX];
	ssize_t count = input_read(reader, rest, length);

	if (count < 0)
		return reader_failed(reader, (int)count);
	if ((size_t)count < length)
		return reader_stop(reader, -EBADMSG, "the file ends inside its header");
	return 0;
}

static int header_read(struct capture_reader *reader)
{
	struct capture_header *header = &reader->header;
	ssize_t count = input_read(reader, header, sizeof(*header));
	int error;

	if (count < 0)
		return reader_failed(reader, (int)count);
	if ((size_t)count < sizeof(*header))
		return reader_stop(reader, -EBADMSG, "not a capture: shorter than a header");
	if (memcmp(header->magic, CAPTURE_MAGIC, sizeof(header->magic)) != 0)
		return reader_stop(reader, -EBADMSG, "not a capture: wrong magic");
	if (header->version != CAPTURE_VERSION)
		return reader_stop(reader, -EPROTONOSUPPORT, "format version %u, but only version %u is known here",
			header->version, CAPTURE_VERSION);
	if (header->checksum != XXH3_64bits(header, offsetof(struct capture_header, checksum)))
		return reader_stop(reader, -EBADMSG, "damaged header: wrong checksum");
	if (header->header_size < sizeof(*header) || header->header_size > HEADER_SIZE_MAX)
		return reader_stop(reader, -EBADMSG, "damaged header: illegal size %u", header->header_size);
	error = header_skip(reader, header->header_size - sizeof(*header));
	if (error)
		return error;
	reader->offset = header->header_size;
	return 0;
}

static const char *chunk_check(const struct capture_reader *reader, const struct capture_chunk *chunk)
{
	if (chunk->magic != CAPTURE_CHUNK_MAGIC)
		return "no chunk begins here";
	if (chunk->header_checksum != XXH3_64bits(chunk, offsetof(struct capture_chunk, header_checksum)))
		return "chunk header: wrong checksum";
	if (chunk->sequence != reader->sequence)
		return "chunk out of sequence";
	if (chunk->size < sizeof(struct event) || chunk->size > CAPTURE_CHUNK_MAX)
		return "chunk header: illegal size";
	if (!chunk->compressed_size || chunk->compressed_size > ZSTD_compressBound(CAPTURE_CHUNK_MAX))
		return "chunk header: illegal compressed size";
	if (chunk->record_count > chunk->size / sizeof(struct event))
		return "chunk header: more records than fit";
	return NULL;
}

/* Every record of the decompressed chunk is checked here, so that giving them out is only a step. */
static const char *records_check(const struct capture_reader *reader, const struct capture_chunk *chunk)
{
	uint64_t count = 0;

	for (size_t position = 0; position < chunk->size; count++) {
		const struct event *record = (const struct event *)(reader->records + position);
		const char *wrong = record_check(record, chunk->size - position);

		if (wrong)
			return wrong;
		position += record->size;
	}
	return count == chunk->record_count ? NULL : "chunk holds another number of records than it says";
}

static int chunk_decompress(struct capture_reader *reader, const struct capture_chunk *chunk)
{
	const char *wrong;
	size_t size;

	if (chunk->checksum != XXH3_64bits(reader->compressed, chunk->compressed_size))
		return reader_stop(reader, -EBADMSG, "chunk %u: wrong checksum", chunk->sequence);
	if (buffer_grow(&reader->records, &reader->records_capacity, chunk->size))
		return reader_failed(reader, -ENOMEM);
	size = ZSTD_decompressDCtx(
		reader->decompressor, reader->records, chunk->size, reader->compressed, chunk->compressed_size);
	if (ZSTD_isError(size))
		return reader_stop(reader, -EBADMSG, "chunk %u: %s", chunk->sequence, ZSTD_getErrorName(size));
	if (size != chunk->size)
		return reader_stop(reader, -EBADMSG, "chunk %u: another size than it says", chunk->sequence);
	wrong = records_check(reader, chunk);
	if (wrong)
		return reader_stop(reader, -EBADMSG, "chunk %u: %s", chunk->sequence, wrong);
	return 0;
}

/* Loads the next chunk: READER_MORE, READER_END or a negative errno. */
static int chunk_read(struct capture_reader *reader)
{
	struct capture_chunk chunk;
	const char *wrong;
	ssize_t count = input_read(reader, &chunk, sizeof(chunk));
	int error;

	reader->size = reader->position = 0;
	if (count < 0)
		return reader_failed(reader, (int)count);
	if (count == 0) {
		reader->damage.complete = true;
		return reader_stop(reader, READER_END, "%s", "");
	}
	if ((size_t)count < sizeof(chunk))
		return reader_truncated(reader, "a chunk header");
	wrong = chunk_check(reader, &chunk);
	if (wrong)
		return reader_stop(reader, -EBADMSG, "chunk %u: %s", reader->sequence, wrong);
	if (buffer_grow(&reader->compressed, &reader->compressed_capacity, chunk.compressed_size))
		return reader_failed(reader, -ENOMEM);
	count = input_read(reader, reader->compressed, chunk.compressed_size);
	if (count < 0)
		return reader_failed(reader, (int)count);
	if ((size_t)count < chunk.compressed_size)
		return reader_truncated(reader, "a chunk");
	error = chunk_decompress(reader, &chunk);
	if (error)
		return error;
	reader->chunk = reader->offset;
	reader->offset += sizeof(chunk) + chunk.compressed_size;
	reader->sequence++;
	reader->size = chunk.size;
	return READER_MORE;
}

int capture_reader_open_descriptor(int fd, struct capture_reader **result, struct capture_damage *damage)
{
	struct capture_reader *reader = calloc(1, sizeof(*reader));
	int error = -ENOMEM;

	*result = NULL;
	if (damage)
		*damage = (struct capture_damage){.reason = "out of memory"};
	if (!reader) {
		close(fd);
		return error;
	}
	reader->fd = fd;
	reader->state = READER_MORE;
	reader->decompressor = ZSTD_createDCtx();
	if (!reader->decompressor)
		goto cleanup;
	error = header_read(reader);
	if (damage)
		*damage = reader->damage;
	if (error)
		goto cleanup;
	*result = reader;
	reader = NULL;
cleanup:
	capture_reader_close(reader);
	return error;
}

int capture_reader_open(const char *path, struct capture_reader **reader, struct capture_damage *damage)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return capture_reader_open_descriptor(fd, reader, damage);
	fd = -errno;
	*reader = NULL;
	if (damage) {
		*damage = (struct capture_damage){0};
		snprintf(damage->reason, sizeof(damage->reason), "open: %s", strerror(-fd));
	}
	return fd;
}

const struct capture_header *capture_reader_header(const struct capture_reader *reader)
{
	return &reader->header;
}

void capture_reader_number_targets(struct capture_reader *reader, uint16_t first)
{
	reader->first_target = first;
}

int capture_reader_next(struct capture_reader *reader, const struct event **record)
{
	while (reader->state == READER_MORE) {
		while (reader->position < reader->size) {
			struct event *next = (struct event *)(reader->records + reader->position);

			if (next->target > UINT16_MAX - reader->first_target)
				return reader_stop(reader, -EBADMSG, "a target of number %u", next->target);
			next->target = (uint16_t)(next->target + reader->first_target);
			reader->position += next->size;
			reader->damage.records++;
			if (record_known(next)) {
				*record = next;
				return READER_MORE;
			}
			reader->skipped++;
		}
		chunk_read(reader);
	}
	return reader->state;
}

uint64_t capture_reader_chunk(const struct capture_reader *reader)
{
	return reader->chunk;
}

uint64_t capture_reader_skipped(const struct capture_reader *reader)
{
	return reader->skipped;
}

const struct capture_damage *capture_reader_damage(const struct capture_reader *reader)
{
	return &reader->damage;
}

void capture_reader_close(struct capture_reader *reader)
{
	if (!reader)
		return;
	close(reader->fd);
	ZSTD_freeDCtx(reader->decompressor);
	free(reader->compressed);
	free(reader->records);
	free(reader);
}
