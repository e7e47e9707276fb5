/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records on their way to a store: a folder of segments, which only grow, and
 * are removed when the store has all that is in them.
 *
 * A record is acknowledged when spool_commit has returned 0: then it is on disk,
 * and is not lost whatever ends this process, or the machine. What was not
 * acknowledged may be there or not: put it in again. A record that reaches the
 * store twice is there once, by its key, so nobody needs to remember how far
 * they came. Several processes may write to one folder, and empty it.
 *
 * A segment is a spool_header, then frames: each a spool_frame and compressed
 * rows (row.h) of one table. Its writer has it locked (flock); when that lock is
 * free the segment is complete, but for a last frame that was being written.
 */
#ifndef HDTRACE_STORE_SPOOL_H
#define HDTRACE_STORE_SPOOL_H

#include "store/row.h"

#define SPOOL_MAGIC "HDTSPOOL"
#define SPOOL_VERSION 1
#define SPOOL_FRAME_MAGIC 0x4d415246u /* "FRAM" */
#define SPOOL_SUFFIX ".spool"
#define SPOOL_DAMAGED_SUFFIX ".damaged"
#define SPOOL_BYTES_DEFAULT (256ull << 20)

struct spool_header {
	char magic[8];
	uint32_t version;
	uint32_t schema_version; /* STORE_SCHEMA_VERSION of its rows */
	uint64_t checksum;       /* XXH3-64 of the bytes before it */
};

struct spool_frame {
	uint32_t magic;
	uint32_t table; /* enum table_id */
	uint32_t rows;
	uint32_t size;            /* of the rows, decompressed */
	uint32_t compressed_size; /* zstd */
	uint32_t reserved;
	uint64_t checksum;        /* XXH3-64 of the compressed bytes */
	uint64_t header_checksum; /* XXH3-64 of the fields before it */
};

/* --- writing ---------------------------------------------------------------------- */

struct spool;

/*
 * `limit`: bytes that all segments of the folder may have together. The folder
 * is made if it is not there. Returns 0 or a negative errno.
 */
int spool_open(const char *folder, uint64_t limit, struct spool **spool);

/* Takes a copy of a record of the table, in memory. -ENOBUFS: as much waits for spool_commit as may. */
int spool_put(struct spool *spool, enum table_id table, const void *record);

/*
 * Acknowledge all that was put in. -EDQUOT: the folder is full; another negative errno: it cannot be written (-ENOSPC).
 * Then nothing of it is acknowledged, and it still waits: commit again, or spool_discard.
 */
int spool_commit(struct spool *spool);
void spool_discard(struct spool *spool);

/* What is committed may be sent from here on: the segment is ended, and the next commit begins another. */
void spool_seal(struct spool *spool);

/* What was not committed is gone. Accepts NULL. */
void spool_close(struct spool *spool);

/* --- reading ---------------------------------------------------------------------- */

/* Names of the segments, oldest first; stb_ds, each to be freed. Returns 0 or a negative errno; no folder: none. */
int spool_list(const char *folder, char ***names);

struct segment;

/*
 * Lock a segment and read its header. -EAGAIN: its writer, or another reader, has it; -ENOENT: it is gone; -EBADMSG: it
 * is none; -EPROTONOSUPPORT: of another version.
 */
int segment_open(const char *folder, const char *name, struct segment **segment);
/* The same of a file that is open, for tests; it is the segment's then, also on failure. */
int segment_open_descriptor(int fd, struct segment **segment);

/*
 * The next rows; batch->bytes is the caller's to clear. 1: there are some; 0: the end, or a last frame that was never
 * acknowledged; -EBADMSG: damage, nothing behind it can be read; else an errno.
 */
int segment_next(struct segment *segment, struct batch *batch);

/* Where reading is, in bytes: after -EBADMSG, of the damage. */
uint64_t segment_offset(const struct segment *segment);
/* Once segment_next has returned 0: bytes at the end that were never acknowledged. */
uint64_t segment_unfinished(const struct segment *segment);

void segment_close(struct segment *segment); /* accepts NULL */

/* Remove a segment, or give it another name so that a person can look at it; while it is locked, or has no header. */
int spool_remove(const char *folder, const char *name);
int spool_set_aside(const char *folder, const char *name);

#endif
