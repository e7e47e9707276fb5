/* SPDX-License-Identifier: BSD-2-Clause */
/* The writing side of a spool; see spool.h for what it promises. */
#include "store/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "containers/containers.h"

#define FOLDER_MODE 0700
#define FILE_MODE 0600
/* A segment that is larger is ended: what is to be sent again after a failure. */
#define SEGMENT_BYTES (4u << 20)
/* Records that may wait for a commit. */
#define PENDING_BYTES (16u << 20)
#define COMPRESSION_LEVEL 1
/* Segments without a name yet, of writers that were killed, are removed when they are so old. */
#define DRAFT_PREFIX ".draft-"
#define DRAFT_SECONDS 3600

struct spool {
	char *folder;
	int folder_fd;
	uint64_t limit;
	struct batch open[TABLES]; /* the last batch of each table */
	struct batch *full;        /* stb_ds */
	size_t pending;            /* bytes of all */
	int fd;                    /* of the segment, -1: none */
	uint64_t size;             /* of what is acknowledged in it */
	uint64_t number;           /* of segments that were begun */
	uint8_t *frames;           /* stb_ds: what a commit writes */
};

int spool_open(const char *folder, uint64_t limit, struct spool **result)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	int error = -ENOMEM;

	*result = NULL;
	if (!spool)
		return error;
	spool->fd = spool->folder_fd = -1;
	spool->limit = limit;
	spool->folder = strdup(folder);
	for (int table = 0; table < TABLES; table++)
		spool->open[table].table = (enum table_id)table;
	if (!spool->folder)
		goto cleanup;
	error = mkdir(folder, FOLDER_MODE) && errno != EEXIST ? -errno : 0;
	if (!error)
		spool->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!error && spool->folder_fd < 0)
		error = -errno;
	if (error)
		goto cleanup;
	*result = spool;
	return 0;
cleanup:
	spool_close(spool);
	return error;
}

void spool_discard(struct spool *spool)
{
	for (int table = 0; table < TABLES; table++)
		batch_clear(&spool->open[table]);
	for (size_t index = 0; index < arrlenu(spool->full); index++)
		batch_clear(&spool->full[index]);
	arrfree(spool->full);
	spool->pending = 0;
}

void spool_seal(struct spool *spool)
{
	if (spool->fd >= 0)
		close(spool->fd);
	spool->fd = -1;
}

void spool_close(struct spool *spool)
{
	if (!spool)
		return;
	spool_discard(spool);
	spool_seal(spool);
	if (spool->folder_fd >= 0)
		close(spool->folder_fd);
	arrfree(spool->frames);
	free(spool->folder);
	free(spool);
}

int spool_put(struct spool *spool, enum table_id table, const void *record)
{
	struct batch *batch = &spool->open[table];
	size_t before = arrlenu(batch->bytes);

	if (spool->pending >= PENDING_BYTES)
		return -ENOBUFS;
	batch_add(batch, record);
	spool->pending += arrlenu(batch->bytes) - before;
	if (arrlenu(batch->bytes) < BATCH_BYTES)
		return 0;
	arrput(spool->full, *batch);
	*batch = (struct batch){.table = table};
	return 0;
}

/* --- segments ------------------------------------------------------------------- */

/* Bytes of all segments of the folder; leftovers of writers that were killed are removed. */
static uint64_t folder_bytes(const struct spool *spool)
{
	DIR *folder = opendir(spool->folder);
	uint64_t bytes = 0;
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		struct stat status;

		if (fstatat(spool->folder_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode))
			continue;
		if (!strncmp(entry->d_name, DRAFT_PREFIX, strlen(DRAFT_PREFIX)) &&
			status.st_mtime + DRAFT_SECONDS < time(NULL))
			unlinkat(spool->folder_fd, entry->d_name, 0);
		else
			bytes += (uint64_t)status.st_size;
	}
	if (folder)
		closedir(folder);
	return bytes;
}

static int bytes_write(int fd, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	while (length) {
		ssize_t count = write(fd, at, length);

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return count < 0 ? -errno : -EIO;
		at += count;
		length -= (size_t)count;
	}
	return 0;
}

static int header_write(int fd)
{
	struct spool_header header = {.version = SPOOL_VERSION, .schema_version = STORE_SCHEMA_VERSION};

	memcpy(header.magic, SPOOL_MAGIC, sizeof(header.magic));
	header.checksum = XXH3_64bits(&header, offsetof(struct spool_header, checksum));
	return bytes_write(fd, &header, sizeof(header));
}

/* A draft becomes a segment with a lock on it: before it has its name no reader finds it. */
static int draft_publish(struct spool *spool, int fd, const char *draft, const char *name)
{
	int error = flock(fd, LOCK_EX | LOCK_NB) ? -errno : header_write(fd);

	if (!error && renameat(spool->folder_fd, draft, spool->folder_fd, name))
		error = -errno;
	if (!error && fsync(spool->folder_fd))
		error = -errno;
	return error;
}

static int segment_begin(struct spool *spool)
{
	struct timespec now = {0};
	char name[96], draft[112];
	int fd, error;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(name, sizeof(name), "%012" PRIx64 "-%08lx-%x-%" PRIx64 SPOOL_SUFFIX, (uint64_t)now.tv_sec, now.tv_nsec,
		(unsigned int)getpid(), spool->number++);
	snprintf(draft, sizeof(draft), DRAFT_PREFIX "%s", name);
	fd = openat(spool->folder_fd, draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return -errno;
	error = draft_publish(spool, fd, draft, name);
	if (error) {
		unlinkat(spool->folder_fd, draft, 0);
		unlinkat(spool->folder_fd, name, 0);
		close(fd);
		return error;
	}
	spool->fd = fd;
	spool->size = sizeof(struct spool_header);
	return 0;
}

/* --- commits --------------------------------------------------------------------- */

static int frame_append(struct spool *spool, const struct batch *batch)
{
	struct spool_frame frame = {
		.magic = SPOOL_FRAME_MAGIC,
		.table = batch->table,
		.rows = batch->rows,
		.size = (uint32_t)arrlenu(batch->bytes),
	};
	size_t at = arrlenu(spool->frames), bound = ZSTD_compressBound(frame.size), size;
	uint8_t *room = arraddnptr(spool->frames, sizeof(frame) + bound);

	size = ZSTD_compress(room + sizeof(frame), bound, batch->bytes, frame.size, COMPRESSION_LEVEL);
	if (ZSTD_isError(size))
		return -ENOMEM;
	frame.compressed_size = (uint32_t)size;
	frame.checksum = XXH3_64bits(room + sizeof(frame), size);
	frame.header_checksum = XXH3_64bits(&frame, offsetof(struct spool_frame, header_checksum));
	memcpy(room, &frame, sizeof(frame));
	arrsetlen(spool->frames, at + sizeof(frame) + size);
	return 0;
}

static int frames_make(struct spool *spool)
{
	int error = 0;

	arrsetlen(spool->frames, 0);
	for (size_t index = 0; !error && index < arrlenu(spool->full); index++)
		error = frame_append(spool, &spool->full[index]);
	for (int table = 0; !error && table < TABLES; table++)
		if (spool->open[table].rows)
			error = frame_append(spool, &spool->open[table]);
	return error;
}

/*
 * On disk, or the segment is what it was. When that cannot be restored either, the segment is ended: a reader stops
 * where its last acknowledged frame does.
 */
static int frames_write(struct spool *spool)
{
	int error = bytes_write(spool->fd, spool->frames, arrlenu(spool->frames));

	if (!error && fdatasync(spool->fd))
		error = -errno;
	if (!error) {
		spool->size += arrlenu(spool->frames);
		return 0;
	}
	if (ftruncate(spool->fd, (off_t)spool->size) || lseek(spool->fd, 0, SEEK_END) < 0)
		spool_seal(spool);
	return error;
}

int spool_commit(struct spool *spool)
{
	int error;

	if (!spool->pending)
		return 0;
	error = frames_make(spool);
	if (error)
		return error;
	if (folder_bytes(spool) + sizeof(struct spool_header) + arrlenu(spool->frames) > spool->limit)
		return -EDQUOT;
	if (spool->fd >= 0 && spool->size > SEGMENT_BYTES)
		spool_seal(spool);
	if (spool->fd < 0)
		error = segment_begin(spool);
	if (!error)
		error = frames_write(spool);
	if (!error)
		spool_discard(spool);
	return error;
}
