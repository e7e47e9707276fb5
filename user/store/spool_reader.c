/* SPDX-License-Identifier: BSD-2-Clause */
/* The reading side of a spool: nothing in a segment is believed before its checksums and rows are right. */
#include "store/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "containers/containers.h"

struct segment {
	int fd;
	uint64_t offset, size; /* of the file */
	uint8_t *compressed;   /* stb_ds */
};

static bool name_is_segment(const char *name)
{
	size_t length = strlen(name), suffix = strlen(SPOOL_SUFFIX);

	return *name != '.' && length > suffix && !strcmp(name + length - suffix, SPOOL_SUFFIX);
}

static int name_compare(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

int spool_list(const char *folder, char ***names)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;

	*names = NULL;
	if (!entries)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(entries))) {
		char *name = name_is_segment(entry->d_name) ? strdup(entry->d_name) : NULL;

		if (name)
			arrput(*names, name);
	}
	closedir(entries);
	if (*names)
		qsort(*names, arrlenu(*names), sizeof(**names), name_compare);
	return 0;
}

/* Returns 0, -EBADMSG when the file ends before, or an errno. */
static int bytes_read(struct segment *segment, void *bytes, size_t length)
{
	ssize_t count = pread(segment->fd, bytes, length, (off_t)segment->offset);

	if (count < 0)
		return -errno;
	return (size_t)count == length ? 0 : -EBADMSG;
}

static int header_read(struct segment *segment)
{
	struct spool_header header;
	struct stat status;
	int error;

	if (fstat(segment->fd, &status))
		return -errno;
	segment->size = (uint64_t)status.st_size;
	error = bytes_read(segment, &header, sizeof(header));
	if (error)
		return error;
	if (memcmp(header.magic, SPOOL_MAGIC, sizeof(header.magic)) ||
		header.checksum != XXH3_64bits(&header, offsetof(struct spool_header, checksum)))
		return -EBADMSG;
	segment->offset = sizeof(header);
	return header.version == SPOOL_VERSION && header.schema_version == STORE_SCHEMA_VERSION ? 0 : -EPROTONOSUPPORT;
}

int segment_open_descriptor(int fd, struct segment **result)
{
	struct segment *segment = calloc(1, sizeof(*segment));
	int error = -ENOMEM;

	*result = NULL;
	if (!segment) {
		close(fd);
		return error;
	}
	segment->fd = fd;
	error = header_read(segment);
	if (error)
		segment_close(segment);
	else
		*result = segment;
	return error;
}

/* Another reader may have removed the file between its being opened and its being locked. */
static int segment_lock(int fd)
{
	struct stat status;

	if (flock(fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(fd, &status))
		return -errno;
	return status.st_nlink ? 0 : -ENOENT;
}

int segment_open(const char *folder, const char *name, struct segment **result)
{
	char *path;
	int fd, error;

	*result = NULL;
	if (asprintf(&path, "%s/%s", folder, name) < 0)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	error = fd < 0 ? -errno : segment_lock(fd);
	if (!error)
		error = segment_open_descriptor(fd, result);
	else if (fd >= 0)
		close(fd);
	free(path);
	return error;
}

static bool frame_is_right(const struct spool_frame *frame)
{
	return frame->magic == SPOOL_FRAME_MAGIC && frame->table < TABLES && frame->size <= BATCH_BYTES_MAX &&
	       frame->rows && frame->rows <= frame->size &&
	       frame->compressed_size <= ZSTD_compressBound(BATCH_BYTES_MAX) &&
	       frame->header_checksum == XXH3_64bits(frame, offsetof(struct spool_frame, header_checksum));
}

static int rows_read(struct segment *segment, const struct spool_frame *frame, struct batch *batch)
{
	int error;

	arrsetlen(segment->compressed, frame->compressed_size);
	error = bytes_read(segment, segment->compressed, frame->compressed_size);
	if (error)
		return error;
	if (frame->checksum != XXH3_64bits(segment->compressed, frame->compressed_size))
		return -EBADMSG;
	batch->table = (enum table_id)frame->table;
	batch->rows = frame->rows;
	arrsetlen(batch->bytes, frame->size);
	if (ZSTD_decompress(batch->bytes, frame->size, segment->compressed, frame->compressed_size) != frame->size ||
		!rows_check(batch->table, batch->rows, batch->bytes, frame->size))
		return -EBADMSG;
	segment->offset += frame->compressed_size;
	return 0;
}

/*
 * A frame whose rows are not there in full, or a file that was made longer but not filled, was being written when its
 * writer, or the machine, ended: it was never acknowledged.
 */
static bool frame_is_unfinished(const struct segment *segment, const struct spool_frame *frame)
{
	static const struct spool_frame zero;

	if (!memcmp(frame, &zero, sizeof(zero)))
		return true;
	return frame_is_right(frame) && segment->offset + sizeof(*frame) + frame->compressed_size >= segment->size;
}

int segment_next(struct segment *segment, struct batch *batch)
{
	uint64_t begin = segment->offset;
	struct spool_frame frame = {.magic = SPOOL_FRAME_MAGIC};
	int error;

	*batch = (struct batch){0};
	if (segment->size - segment->offset < sizeof(frame))
		return 0;
	error = bytes_read(segment, &frame, sizeof(frame));
	if (!error && !frame_is_right(&frame))
		error = -EBADMSG;
	if (!error) {
		segment->offset += sizeof(frame);
		error = rows_read(segment, &frame, batch);
	}
	if (!error)
		return 1;
	batch_clear(batch);
	segment->offset = begin;
	return error == -EBADMSG && frame_is_unfinished(segment, &frame) ? 0 : error;
}

uint64_t segment_offset(const struct segment *segment)
{
	return segment->offset;
}

uint64_t segment_unfinished(const struct segment *segment)
{
	return segment->size - segment->offset;
}

int spool_remove(const char *folder, const char *name)
{
	char *path;
	int error;

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		return -ENOMEM;
	error = unlink(path) ? -errno : 0;
	free(path);
	return error;
}

int spool_set_aside(const char *folder, const char *name)
{
	char *from = NULL, *to = NULL;
	int error = -ENOMEM;

	if (asprintf(&from, "%s/%s", folder, name) < 0)
		return error;
	if (asprintf(&to, "%s" SPOOL_DAMAGED_SUFFIX, from) >= 0) {
		error = rename(from, to) ? -errno : 0;
		free(to);
	}
	free(from);
	return error;
}

void segment_close(struct segment *segment)
{
	if (!segment)
		return;
	close(segment->fd);
	arrfree(segment->compressed);
	free(segment);
}
