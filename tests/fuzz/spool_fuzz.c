/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader of spools over hostile segments. The first byte chooses: the rest
 * is a whole file, or the rows of one frame of some table, around which right
 * checksums are put, so that the fuzzer gets past them.
 *
 * clang -fsanitize=fuzzer,address,undefined; corpus: any segments.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "containers/containers.h"
#include "store/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int fd, const void *bytes, size_t size)
{
	if (write(fd, bytes, size) != (ssize_t)size)
		abort();
}

/* As many rows as can be stepped over are said to be there, and one more where the input asks for that. */
static uint32_t rows_count(enum table_id table, const uint8_t *rows, size_t size)
{
	struct row_cursor cursor = {rows, rows + size};
	struct row_value value;
	uint32_t count = 0;

	while (cursor.at < cursor.end) {
		for (size_t index = 0; index < tables[table].column_count; index++)
			if (!row_value_next(&cursor, &tables[table].columns[index], &value))
				return count;
		count++;
	}
	return count;
}

static void frame_write(int fd, enum table_id table, bool one_more, const uint8_t *rows, size_t size)
{
	struct spool_header header = {.version = SPOOL_VERSION, .schema_version = STORE_SCHEMA_VERSION};
	size_t bound = ZSTD_compressBound(size);
	uint8_t *compressed = malloc(bound);
	struct spool_frame frame = {
		.magic = SPOOL_FRAME_MAGIC,
		.table = table,
		.rows = rows_count(table, rows, size) + one_more,
		.size = (uint32_t)size,
		.compressed_size = (uint32_t)ZSTD_compress(compressed, bound, rows, size, 1),
	};

	memcpy(header.magic, SPOOL_MAGIC, sizeof(header.magic));
	header.checksum = XXH3_64bits(&header, offsetof(struct spool_header, checksum));
	frame.checksum = XXH3_64bits(compressed, frame.compressed_size);
	frame.header_checksum = XXH3_64bits(&frame, offsetof(struct spool_frame, header_checksum));
	put(fd, &header, sizeof(header));
	put(fd, &frame, sizeof(frame));
	put(fd, compressed, frame.compressed_size);
	free(compressed);
}

/* Rows that are given out are whole. */
static void rows_look(const struct batch *batch)
{
	struct row_cursor cursor = {batch->bytes, batch->bytes + arrlenu(batch->bytes)};
	struct row_value value;
	uint64_t sum = 0;

	if (!batch->rows || batch->table >= TABLES)
		abort();
	for (uint32_t row = 0; row < batch->rows; row++)
		for (size_t index = 0; index < tables[batch->table].column_count; index++) {
			if (!row_value_next(&cursor, &tables[batch->table].columns[index], &value))
				abort();
			sum += XXH3_64bits(value.text, value.length) + (uint64_t)value.number;
		}
	if (cursor.at != cursor.end || sum == 1)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct segment *segment;
	struct batch batch;
	uint64_t offset = 0;
	int fd, state = 1;

	if (size < 2)
		return 0;
	fd = memfd_create("segment", MFD_CLOEXEC);
	if (fd < 0)
		abort();
	if (data[0] & 1)
		frame_write(fd, data[1] % TABLES, data[0] & 2, data + 2, size - 2);
	else
		put(fd, data + 1, size - 1);
	if (segment_open_descriptor(fd, &segment))
		return 0;
	while ((state = segment_next(segment, &batch)) == 1) {
		rows_look(&batch);
		batch_clear(&batch);
		if (segment_offset(segment) <= offset)
			abort();
		offset = segment_offset(segment);
	}
	if (batch.bytes || (state && state != -EBADMSG))
		abort();
	segment_close(segment);
	return 0;
}
