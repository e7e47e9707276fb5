/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a capture (hdtrace/capture.h), trusting nothing in it: a chunk is used
 * only when its checksums, its sizes, the number of its records and the bounds
 * of every record (record.h) are right, and memory stays below a few times
 * CAPTURE_CHUNK_MAX whatever the file claims.
 *
 * Reading stops at the first damage; what came before it is good. A capture
 * that merely ends inside a chunk (its writer was killed, or is still writing)
 * is told apart from one that is wrong in the middle.
 */
#ifndef HDTRACE_STREAM_CAPTURE_READER_H
#define HDTRACE_STREAM_CAPTURE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include <hdtrace/capture.h>

#define CAPTURE_REASON_SIZE 128

/* How far a capture could be read. */
struct capture_damage {
	uint64_t offset;                  /* in the file, of the chunk that could not be used; its end when complete */
	char reason[CAPTURE_REASON_SIZE]; /* what is wrong there, one line; empty when complete */
	bool complete;                    /* the file was read to its end, which is the end of a chunk */
	bool truncated;                   /* only the tail is missing; nothing in the file contradicts itself */
	uint64_t records;                 /* given out before, unknown kinds included */
};

struct capture_reader;

/*
 * Opens a capture and checks its header. On failure *reader is NULL and
 * `damage` (may be NULL) tells why: -EBADMSG not a capture or a damaged header,
 * -EPROTONOSUPPORT made in a format version that is not known here, else the
 * errno of opening or reading.
 */
int capture_reader_open(const char *path, struct capture_reader **reader, struct capture_damage *damage);

/* The same on a descriptor, from its present position; it is owned by the reader, also on failure. */
int capture_reader_open_descriptor(int fd, struct capture_reader **reader, struct capture_damage *damage);

/* When the capture was opened for writing: start_time_ns, start_real_time_ns. */
const struct capture_header *capture_reader_header(const struct capture_reader *reader);

/* Targets of the records that follow are numbered from here on, not from 0: of captures that are read together. */
void capture_reader_number_targets(struct capture_reader *reader, uint16_t first);

/*
 * The next record of a known kind, valid until the next call. 1: a record;
 * 0: the end, whole or truncated; -EBADMSG: damage; else the errno of reading.
 * After anything but 1 it keeps returning the same.
 */
int capture_reader_next(struct capture_reader *reader, const struct event **record);

/* Where in the file the chunk begins that the last record came from. */
uint64_t capture_reader_chunk(const struct capture_reader *reader);

/* Records of unknown kinds that were passed over. */
uint64_t capture_reader_skipped(const struct capture_reader *reader);

/* Final once capture_reader_next has returned something other than 1. */
const struct capture_damage *capture_reader_damage(const struct capture_reader *reader);

void capture_reader_close(struct capture_reader *reader); /* accepts NULL */

#endif
