/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture reader and the replay over hostile captures. The first byte
 * chooses: the rest is a whole file, or the records of one chunk, around which
 * right checksums are put, so that the fuzzer gets past them.
 *
 * clang -fsanitize=fuzzer,address,undefined; corpus: any captures.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "replay/replay.h"
#include "stream/capture_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A model that only looks at what it is given, so that the sanitizers see every read. */
struct model {
	uint64_t sum;
};

static void look(struct model *model, const void *bytes, size_t length)
{
	model->sum += XXH3_64bits(bytes, length);
}

int model_target(struct model *model, uint16_t target, int32_t rank, bool from_start, const char *json)
{
	look(model, json, strlen(json));
	if (rank < RANK_UNKNOWN)
		abort();
	model->sum += target + from_start;
	return 0;
}

int model_family(struct model *model, uint16_t target, int32_t parent, bool forked, const char *job)
{
	look(model, job, strlen(job));
	if (parent < -1 || strchr(job, '/'))
		abort();
	model->sum += target + forked;
	return 0;
}

int model_operator_name(struct model *model, uint16_t target, uint16_t index, const char *name, uint32_t flags)
{
	look(model, name, strlen(name));
	model->sum += target + index + flags;
	return 0;
}

int model_symbol(
	struct model *model, uint16_t target, uint64_t address, const char *library, const char *name, uint32_t offset)
{
	look(model, library, strlen(library));
	look(model, name, strlen(name));
	model->sum += target + address + offset;
	return 0;
}

int model_stack(struct model *model, uint16_t target, uint64_t identity, const struct frame *frames, size_t frame_count,
	bool cut)
{
	if (frame_count > EVENT_FRAMES_MAX || !identity)
		abort();
	for (size_t i = 0; i < frame_count; i++) {
		look(model, frames[i].file, strlen(frames[i].file));
		look(model, frames[i].function, strlen(frames[i].function));
	}
	model->sum += target + cut;
	return 0;
}

/* Follows the counts of a record as a model would. */
int model_module(struct model *model, uint16_t target, uint64_t object, const char *name)
{
	look(model, name, strlen(name));
	model->sum += target + object;
	return 0;
}

int model_owner(struct model *model, uint16_t target, uint64_t time_ns, unsigned int kind,
	const struct tensor_argument *storage, const char *name)
{
	look(model, name, strlen(name));
	look(model, storage, sizeof(*storage));
	model->sum += target + time_ns + kind;
	return 0;
}

int model_event(struct model *model, const struct event *event)
{
	look(model, event, event->size);
	if (event->kind == EVENT_OPERATOR) {
		const struct operator_event *operator_ = (const struct operator_event *)event;

		look(model, operator_ + 1,
			operator_->tensor_count * sizeof(struct tensor_argument) +
				operator_->frame_count * sizeof(struct python_frame));
	} else if (event->kind == EVENT_TENSORS) {
		const struct tensors_event *tensors = (const struct tensors_event *)event;

		look(model, tensors + 1, tensors->tensor_count * sizeof(struct tensor_argument));
	} else if (event->kind == EVENT_GRADIENT) {
		look(model, event, sizeof(struct gradient_event));
	}
	return 0;
}

void model_element_type(
	struct model *model, uint16_t target, const struct tensor_argument *storage, uint8_t element_type)
{
	(void)model;
	(void)target;
	(void)storage;
	(void)element_type;
}

int model_capture(struct model *model, int64_t real_offset_ns)
{
	(void)model;
	(void)real_offset_ns;
	return 0;
}

int model_window(struct model *model, uint64_t since_ns, uint64_t dropped_records, uint64_t dropped_bytes)
{
	model->sum += since_ns + dropped_records + dropped_bytes;
	return 0;
}

int model_loss(struct model *model, uint16_t target, const struct event_counters *counters)
{
	look(model, counters, sizeof(*counters));
	model->sum += target;
	return 0;
}

int model_end(struct model *model, uint16_t target, const char *json)
{
	look(model, json, strlen(json));
	model->sum += target;
	return 0;
}

static void header_make(struct capture_header *header)
{
	*header = (struct capture_header){.version = CAPTURE_VERSION, .header_size = sizeof(*header)};
	memcpy(header->magic, CAPTURE_MAGIC, sizeof(header->magic));
	header->checksum = XXH3_64bits(header, offsetof(struct capture_header, checksum));
}

/* How many records a chunk must say it has: as many as can be stepped over. */
static uint64_t records_count(const uint8_t *records, size_t size)
{
	uint64_t count = 0;

	for (size_t at = 0; size - at >= sizeof(struct event); count++) {
		struct event event;

		memcpy(&event, records + at, sizeof(event));
		if (event.size < sizeof(event) || event.size > size - at)
			break;
		at += event.size;
	}
	return count;
}

static void chunk_write(int fd, const uint8_t *records, size_t size)
{
	struct capture_header header;
	size_t bound = ZSTD_compressBound(size);
	uint8_t *compressed = malloc(bound);
	size_t compressed_size = ZSTD_compress(compressed, bound, records, size, 1);
	struct capture_chunk chunk = {
		.magic = CAPTURE_CHUNK_MAGIC,
		.compressed_size = (uint32_t)compressed_size,
		.size = (uint32_t)size,
		.record_count = records_count(records, size),
		.checksum = XXH3_64bits(compressed, compressed_size),
	};

	header_make(&header);
	chunk.header_checksum = XXH3_64bits(&chunk, offsetof(struct capture_chunk, header_checksum));
	if (write(fd, &header, sizeof(header)) < 0 || write(fd, &chunk, sizeof(chunk)) < 0 ||
		write(fd, compressed, compressed_size) < 0)
		abort();
	free(compressed);
}

static void capture_replay(int fd)
{
	struct model model = {0};
	struct replay *replay = replay_new(&model);
	struct capture_damage damage;
	struct capture_reader *reader;
	const struct event *record;
	uint64_t records = 0;

	if (capture_reader_open_descriptor(fd, &reader, &damage) == 0) {
		int state;

		while ((state = capture_reader_next(reader, &record)) == 1) {
			records++;
			if (replay_record(replay, record))
				abort(); /* the reader checked it already */
		}
		damage = *capture_reader_damage(reader);
		if (damage.records != records + capture_reader_skipped(reader) || (state < 0 && damage.complete) ||
			(damage.complete && damage.truncated))
			abort();
		capture_reader_close(reader);
	}
	replay_free(replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd;

	if (size < 1)
		return 0;
	fd = memfd_create("capture", MFD_CLOEXEC);
	if (fd < 0)
		abort();
	if (data[0] & 1)
		chunk_write(fd, data + 1, size - 1);
	else if (write(fd, data + 1, size - 1) < 0)
		abort();
	lseek(fd, 0, SEEK_SET);
	capture_replay(fd);
	return 0;
}
