/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compacting captures of any well-formed records, cut at any chunk: the result
 * must be a whole capture, whose window comes through unchanged, and must give
 * itself when it is compacted again with nothing before the cut.
 *
 * The input is a list of commands of eight bytes, as in model_fuzz.c: a kind, a
 * depth, and numbers that addresses and sizes are made of, few, so that they meet.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stream/capture_reader.h"
#include "stream/capture_writer.h"
#include "stream/record.h"
#include "window/window.h"

#define COMMAND_BYTES 8
#define RECORD_BYTES 512
#define RECORDS_MAX 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void folder_remove(void)
{
	char *slash = strrchr(path, '/');

	unlink(path);
	*slash = '\0';
	rmdir(path);
}

static void folder_make(void)
{
	char folder[] = "/tmp/window_fuzz.XXXXXX";

	if (path[0])
		return;
	require(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/capture.hdt", folder);
	atexit(folder_remove);
}

/* A record of the kind that a command names, its fields made of the command's bytes; NULL: it breaks its bounds. */
static const struct event *record_make(const uint8_t *command, uint64_t number, uint64_t room[RECORD_BYTES / 8])
{
	struct event event = {.time_ns = number + 1,
		.size = RECORD_BYTES,
		.thread_id = 1 + (command[1] >> 7),
		.kind = command[0] & 0x80 ? CAPTURE_SESSION + command[0] % 11 : command[0] % EVENT_KERNEL_KINDS,
		.target = command[1] >> 5 == 7,
		.operator_ = command[2] & 3,
		.depth = command[1] & 3,
		.flags = command[3]};
	uint8_t *bytes = (uint8_t *)room;

	memset(room, 0, RECORD_BYTES);
	memcpy(room, &event, sizeof(event));
	for (size_t i = sizeof(event); i < RECORD_BYTES; i += 8) {
		bytes[i] = command[4 + (i / 8) % 4] & 7;
		bytes[i + 1] = command[4 + (i / 8 + 1) % 4] & 0x10;
	}
	/* Texts and lists of lengths that fit are rare otherwise. */
	if (event.kind == CAPTURE_TARGET)
		memcpy(bytes + sizeof(event), "\x13\0\0\0\0\0\0\0{\"from_start\":true}", 8 + 19);
	return record_check((const struct event *)room, RECORD_BYTES) ? NULL : (const struct event *)room;
}

static void capture_make(const uint8_t *data, size_t size)
{
	struct capture_writer *writer;
	uint64_t room[RECORD_BYTES / 8];

	require(!capture_writer_open(path, &writer));
	capture_writer_text(writer, CAPTURE_TARGET, 0, "{}");
	for (uint64_t i = 0; i < RECORDS_MAX && size >= COMMAND_BYTES;
		i++, data += COMMAND_BYTES, size -= COMMAND_BYTES) {
		const struct event *record = record_make(data, i, room);

		if (record)
			require(!capture_writer_append(writer, record));
		if (data[7] & 0x80)
			capture_writer_flush(writer);
	}
	require(!capture_writer_close(writer));
}

static uint64_t records_sum(const char *name, uint64_t since, uint64_t *all)
{
	struct capture_reader *reader;
	const struct event *record;
	uint64_t after = 0;

	*all = 0;
	require(!capture_reader_open(name, &reader, NULL));
	while (capture_reader_next(reader, &record) == 1) {
		++*all;
		after += capture_reader_chunk(reader) >= since;
	}
	require(capture_reader_damage(reader)->complete);
	capture_reader_close(reader);
	return after;
}

static uint64_t file_size(void)
{
	struct stat status;

	require(!stat(path, &status));
	return (uint64_t)status.st_size;
}

/* The capture with about the last `tail` bytes as its window in its own place. */
static void compact(uint64_t tail)
{
	struct capture_reader *reader;
	struct capture_writer *draft, *writer;
	uint64_t end;

	require(!capture_reader_open(path, &reader, NULL));
	require(!capture_writer_draft(path, capture_reader_header(reader), &draft));
	capture_reader_close(reader);
	require(!window_compact(path, file_size(), tail, draft, &end));
	require(!capture_writer_open(path, &writer));
	require(!capture_writer_replace(writer, draft, sizeof(struct capture_header)));
	require(!capture_writer_close(writer));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t tail, all, kept, window;

	if (!size)
		return 0;
	folder_make();
	capture_make(data + 1, size - 1);
	tail = file_size() * data[0] / 256;
	window = records_sum(path, file_size() - tail, &all);
	compact(tail);
	records_sum(path, 0, &kept);
	require(kept >= window && kept <= all + 1);
	compact(0);
	records_sum(path, 0, &window);
	require(window <= kept + 1);
	return 0;
}
