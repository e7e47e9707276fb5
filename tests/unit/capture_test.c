/* SPDX-License-Identifier: BSD-2-Clause */
/* What a capture guarantees: everything comes back, and nothing wrong does. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "stream/capture_reader.h"
#include "stream/capture_writer.h"
#include "stream/record.h"

static char directory[] = "/tmp/capture_test.XXXXXX";
static char path[64];

static void setup(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/capture.hdt", directory);
}

static void teardown(void)
{
	unlink(path);
	rmdir(directory);
}

TestSuite(capture, .init = setup, .fini = teardown, .timeout = 60);

static struct free_event free_make(uint64_t address)
{
	return (struct free_event){
		.event = {.time_ns = address, .size = sizeof(struct free_event), .kind = EVENT_FREE},
		.address = address,
	};
}

/* A capture of `count` frees, as chunks of `per_chunk`. */
static void frees_write(uint64_t count, uint64_t per_chunk)
{
	struct capture_writer *writer;

	cr_assert_eq(capture_writer_open(path, &writer), 0);
	for (uint64_t i = 0; i < count; i++) {
		struct free_event event = free_make(i + 1);

		cr_assert_eq(capture_writer_append(writer, &event.event), 0);
		if ((i + 1) % per_chunk == 0)
			cr_assert_eq(capture_writer_flush(writer), 0);
	}
	cr_assert_eq(capture_writer_close(writer), 0);
}

/* Reads to the end; how many records, all of which must be frees in their order. */
static uint64_t frees_read(int *end, struct capture_damage *damage)
{
	struct capture_reader *reader;
	const struct event *record;
	uint64_t count = 0;

	*end = capture_reader_open(path, &reader, damage);
	if (*end)
		return 0;
	while ((*end = capture_reader_next(reader, &record)) == 1) {
		count++;
		cr_assert_eq(record->kind, EVENT_FREE);
		cr_assert_eq(((const struct free_event *)record)->address, count);
	}
	*damage = *capture_reader_damage(reader);
	capture_reader_close(reader);
	return count;
}

static uint8_t *file_load(size_t *size)
{
	FILE *file = fopen(path, "rb");
	struct stat status;
	uint8_t *bytes;

	cr_assert_not_null(file);
	cr_assert_eq(fstat(fileno(file), &status), 0);
	*size = (size_t)status.st_size;
	bytes = malloc(*size + 1);
	cr_assert_eq(fread(bytes, 1, *size, file), *size);
	fclose(file);
	return bytes;
}

static void file_store(const void *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");

	cr_assert_not_null(file);
	cr_assert_eq(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

/* A file with one chunk, whose checksums are right, around any decompressed bytes. */
static void chunk_store(const void *records, size_t size, uint64_t record_count, uint32_t claimed_size)
{
	struct capture_header header = {.version = CAPTURE_VERSION, .header_size = sizeof(header)};
	size_t bound = ZSTD_compressBound(size);
	uint8_t *bytes = malloc(sizeof(header) + sizeof(struct capture_chunk) + bound);
	uint8_t *compressed = bytes + sizeof(header) + sizeof(struct capture_chunk);
	size_t compressed_size = ZSTD_compress(compressed, bound, records, size, 1);
	struct capture_chunk chunk = {
		.magic = CAPTURE_CHUNK_MAGIC,
		.compressed_size = (uint32_t)compressed_size,
		.size = claimed_size,
		.record_count = record_count,
		.checksum = XXH3_64bits(compressed, compressed_size),
	};

	memcpy(header.magic, CAPTURE_MAGIC, sizeof(header.magic));
	header.checksum = XXH3_64bits(&header, offsetof(struct capture_header, checksum));
	chunk.header_checksum = XXH3_64bits(&chunk, offsetof(struct capture_chunk, header_checksum));
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), &chunk, sizeof(chunk));
	file_store(bytes, sizeof(header) + sizeof(chunk) + compressed_size);
	free(bytes);
}

Test(capture, gives_back_every_kind_of_record_unchanged)
{
	static const uint8_t table[] = {0x80, 0x00, 0xff};
	struct capture_code code = {.code = 0x1000,
		.first_instruction = 0x10b8,
		.first_line = 7,
		.table_format = 311,
		.file = "/job/train.py",
		.name = "step",
		.qualified_name = "Loop.step",
		.table = table,
		.table_length = sizeof(table)};
	struct event_counters counters = {.produced = 10, .lost = {[LOSS_STACK] = 3}};
	struct free_event event = free_make(1);
	struct capture_writer *writer;
	struct capture_reader *reader;
	const struct event *record;

	event.event.target = 3;
	cr_assert_eq(capture_writer_open(path, &writer), 0);
	cr_assert_eq(capture_writer_text(writer, CAPTURE_SESSION, 0, "{\"a\":1}"), 0);
	cr_assert_eq(capture_writer_text(writer, CAPTURE_TARGET, 3, "{}"), 0);
	cr_assert_eq(capture_writer_operator(writer, 3, 42, "aten.add.Tensor", OPERATOR_LIFT), 0);
	cr_assert_eq(capture_writer_code(writer, 3, &code), 0);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
	cr_assert_eq(capture_writer_loss(writer, 3, &counters), 0);
	cr_assert_eq(capture_writer_text(writer, CAPTURE_END, 3, "12345678"), 0);
	cr_assert_eq(capture_writer_close(writer), 0);

	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_gt(capture_reader_header(reader)->start_real_time_ns, 0);
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_eq(record->kind, CAPTURE_SESSION);
	cr_assert_eq(((const struct text_record *)record)->length, 7);
	cr_assert_arr_eq(((const struct text_record *)record)->text, "{\"a\":1}", 8);
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_eq(record->kind, CAPTURE_TARGET);
	cr_assert_eq(record->target, 3);
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_eq(record->kind, CAPTURE_OPERATOR);
	cr_assert_eq(record->operator_, 42);
	cr_assert_eq(((const struct operator_record *)record)->flags, OPERATOR_LIFT);
	cr_assert_arr_eq(((const struct operator_record *)record)->name, "aten.add.Tensor", 16);
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_eq(record->kind, CAPTURE_CODE);
	cr_assert_eq(((const struct code_record *)record)->first_instruction, 0x10b8);
	cr_assert_eq(((const struct code_record *)record)->table_length, 3);
	cr_assert_arr_eq(((const struct code_record *)record)->bytes, "/job/train.pystepLoop.step\x80\x00\xff", 29);
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_arr_eq(record, &event, sizeof(event));
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_eq(record->kind, CAPTURE_LOSS);
	cr_assert_arr_eq(&((const struct loss_record *)record)->counters, &counters, sizeof(counters));
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_eq(record->kind, CAPTURE_END);
	cr_assert_eq(record->size, sizeof(struct text_record) + 8);
	cr_assert_eq(capture_reader_next(reader, &record), 0);
	cr_assert_eq(capture_reader_next(reader, &record), 0);
	cr_assert(capture_reader_damage(reader)->complete);
	cr_assert_eq(capture_reader_damage(reader)->records, 7);
	capture_reader_close(reader);
}

Test(capture, keeps_the_order_over_many_chunks)
{
	struct capture_damage damage;
	struct stat status;
	int end;

	frees_write(200000, UINT64_MAX); /* 6.4 MB: chunks break where they must */
	cr_assert_eq(frees_read(&end, &damage), 200000);
	cr_assert_eq(end, 0);
	cr_assert(damage.complete && !damage.truncated);
	cr_assert_eq(stat(path, &status), 0);
	cr_assert_eq(damage.offset, (uint64_t)status.st_size);
}

Test(capture, without_records_is_complete)
{
	struct capture_damage damage;
	int end;

	frees_write(0, 1);
	cr_assert_eq(frees_read(&end, &damage), 0);
	cr_assert_eq(end, 0);
	cr_assert(damage.complete);
}

Test(capture, takes_records_up_to_the_largest_and_refuses_larger_texts)
{
	char *text = malloc(2 * CAPTURE_RECORD_MAX);
	struct capture_writer *writer;
	struct capture_reader *reader;
	const struct event *record;

	memset(text, 'x', 2 * CAPTURE_RECORD_MAX - 1);
	text[2 * CAPTURE_RECORD_MAX - 1] = 0;
	cr_assert_eq(capture_writer_open(path, &writer), 0);
	cr_assert_eq(capture_writer_text(writer, CAPTURE_TARGET, 0, text), -E2BIG);
	text[CAPTURE_RECORD_MAX - sizeof(struct text_record) - RECORD_ALIGNMENT] = 0;
	cr_assert_eq(capture_writer_text(writer, CAPTURE_TARGET, 0, text), 0);
	cr_assert_eq(capture_writer_close(writer), 0);
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	cr_assert_eq(capture_reader_next(reader, &record), 1);
	cr_assert_eq(((const struct text_record *)record)->length, strlen(text));
	capture_reader_close(reader);
	free(text);
}

Test(capture, refuses_a_record_that_breaks_its_bounds_and_goes_on)
{
	struct capture_damage damage;
	struct free_event event = free_make(1);
	struct capture_writer *writer;
	int end;

	cr_assert_eq(capture_writer_open(path, &writer), 0);
	event.event.size = 12;
	cr_assert_eq(capture_writer_append(writer, &event.event), -EBADMSG);
	event.event.size = sizeof(struct event); /* smaller than a free */
	cr_assert_eq(capture_writer_append(writer, &event.event), -EBADMSG);
	event.event.size = sizeof(event);
	cr_assert_eq(capture_writer_append(writer, &event.event), 0);
	cr_assert_eq(capture_writer_close(writer), 0);
	cr_assert_eq(frees_read(&end, &damage), 1);
	cr_assert(damage.complete);
}

Test(capture, replaces_an_older_one_only_as_a_whole)
{
	struct capture_writer *writer;
	struct capture_damage damage;
	int before, end;

	frees_write(5, 5);
	before = open(path, O_RDONLY);
	cr_assert_eq(capture_writer_open(path, &writer), 0);
	cr_assert_eq(frees_read(&end, &damage), 0, "the new capture is readable from its first moment");
	cr_assert(damage.complete);
	cr_assert_gt(lseek(before, 0, SEEK_END), (off_t)sizeof(struct capture_header), "an open old one stays whole");
	close(before);
	cr_assert_eq(capture_writer_close(writer), 0);
}

Test(capture, leaves_alone_what_is_not_a_regular_file)
{
	struct capture_writer *writer;
	struct stat status;

	cr_assert_eq(capture_writer_open(directory, &writer), -EISDIR);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(capture_writer_open(path, &writer), -EEXIST);
	cr_assert_eq(stat(path, &status), 0);
	cr_assert(S_ISFIFO(status.st_mode));
	cr_assert_eq(capture_writer_open("/no/such/place/capture.hdt", &writer), -ENOENT);
	cr_assert_null(writer);
}

Test(capture, of_a_killed_writer_is_readable_up_to_its_last_flush)
{
	struct capture_damage damage;
	int end;
	pid_t child = fork();

	if (child == 0) {
		struct capture_writer *writer;

		if (capture_writer_open(path, &writer))
			_exit(1);
		for (uint64_t i = 1; i <= 150; i++) {
			struct free_event event = free_make(i);

			capture_writer_append(writer, &event.event);
			if (i == 100)
				capture_writer_flush(writer);
		}
		raise(SIGKILL);
	}
	cr_assert_eq(waitpid(child, &end, 0), child);
	cr_assert(WIFSIGNALED(end));
	cr_assert_eq(frees_read(&end, &damage), 100);
	cr_assert_eq(end, 0);
	cr_assert(damage.complete, "a file that ends after a chunk has no torn tail");
}

Test(capture, cut_anywhere_gives_its_whole_chunks_and_says_that_the_tail_is_missing)
{
	size_t size, ends[4];
	uint8_t *bytes;

	frees_write(30, 10);
	bytes = file_load(&size);
	ends[0] = sizeof(struct capture_header);
	for (int i = 0; i < 3; i++) {
		struct capture_chunk chunk;

		memcpy(&chunk, bytes + ends[i], sizeof(chunk));
		ends[i + 1] = ends[i] + sizeof(chunk) + chunk.compressed_size;
	}
	cr_assert_eq(ends[3], size);
	for (size_t cut = 0; cut < size; cut++) {
		struct capture_damage damage;
		int chunks = 0, end;
		uint64_t count;

		cr_assert_eq(truncate(path, 0), 0);
		file_store(bytes, cut);
		count = frees_read(&end, &damage);
		if (cut < ends[0]) {
			cr_assert_eq(end, -EBADMSG);
			continue;
		}
		while (chunks < 3 && ends[chunks + 1] <= cut)
			chunks++;
		cr_assert_eq(end, 0);
		cr_assert_eq(count, 10u * (unsigned)chunks);
		cr_assert_eq(damage.offset, ends[chunks]);
		cr_assert_eq(damage.complete, cut == ends[chunks]);
		cr_assert_eq(damage.truncated, cut != ends[chunks]);
		cr_assert_eq(damage.truncated, damage.reason[0] != 0);
	}
	free(bytes);
}

Test(capture, with_any_flipped_byte_never_gives_a_wrong_record)
{
	size_t size;
	uint8_t *bytes;

	frees_write(30, 10);
	bytes = file_load(&size);
	for (size_t at = 0; at < size; at++) {
		struct capture_damage damage;
		int end;
		uint64_t count;

		bytes[at] ^= 0x41;
		file_store(bytes, size);
		bytes[at] ^= 0x41;
		count = frees_read(&end, &damage);
		cr_assert_lt(end, 0, "byte %zu: the damage was not seen", at);
		cr_assert_eq(count % 10, 0);
		cr_assert(!damage.complete && !damage.truncated);
		cr_assert_neq(damage.reason[0], 0);
	}
	free(bytes);
}

Test(capture, of_another_version_is_refused_with_a_reason)
{
	struct capture_reader *reader;
	struct capture_damage damage;
	struct capture_header *header;
	size_t size;
	uint8_t *bytes;

	frees_write(1, 1);
	bytes = file_load(&size);
	header = (struct capture_header *)bytes;
	header->version = 9;
	header->checksum = XXH3_64bits(header, offsetof(struct capture_header, checksum));
	file_store(bytes, size);
	cr_assert_eq(capture_reader_open(path, &reader, &damage), -EPROTONOSUPPORT);
	cr_assert_null(reader);
	cr_assert_not_null(strstr(damage.reason, "version 9"));
	free(bytes);
}

Test(capture, may_have_a_longer_header)
{
	struct capture_damage damage;
	struct capture_header *header;
	size_t size;
	uint8_t *bytes, *longer;
	int end;

	frees_write(3, 3);
	bytes = file_load(&size);
	longer = calloc(1, size + 16);
	header = (struct capture_header *)bytes;
	header->header_size += 16;
	header->checksum = XXH3_64bits(header, offsetof(struct capture_header, checksum));
	memcpy(longer, bytes, sizeof(*header));
	memcpy(longer + sizeof(*header) + 16, bytes + sizeof(*header), size - sizeof(*header));
	file_store(longer, size + 16);
	cr_assert_eq(frees_read(&end, &damage), 3);
	cr_assert(damage.complete);
	free(bytes);
	free(longer);
}

Test(capture, with_a_repeated_chunk_is_damaged)
{
	struct capture_damage damage;
	size_t size;
	uint8_t *bytes, *twice;
	int end;

	frees_write(10, 10);
	bytes = file_load(&size);
	twice = malloc(2 * size);
	memcpy(twice, bytes, size);
	memcpy(twice + size, bytes + sizeof(struct capture_header), size - sizeof(struct capture_header));
	file_store(twice, 2 * size - sizeof(struct capture_header));
	cr_assert_eq(frees_read(&end, &damage), 10);
	cr_assert_eq(end, -EBADMSG);
	free(bytes);
	free(twice);
}

Test(capture, that_decompresses_to_more_than_it_says_is_refused)
{
	size_t bomb_size = 64u << 20;
	void *bomb = calloc(1, bomb_size);
	struct capture_damage damage;
	int end;

	chunk_store(bomb, bomb_size, 1, 4096); /* lies about its size */
	frees_read(&end, &damage);
	cr_assert_eq(end, -EBADMSG);
	chunk_store(bomb, bomb_size, 1, (uint32_t)bomb_size); /* admits it */
	frees_read(&end, &damage);
	cr_assert_eq(end, -EBADMSG);
	cr_assert_not_null(strstr(damage.reason, "illegal size"));
	free(bomb);
}

Test(capture, with_another_number_of_records_than_it_says_is_refused)
{
	struct free_event events[2] = {free_make(1), free_make(2)};
	struct capture_damage damage;
	int end;

	chunk_store(events, sizeof(events), 2, sizeof(events));
	cr_assert_eq(frees_read(&end, &damage), 2);
	cr_assert_eq(end, 0);
	chunk_store(events, sizeof(events), 1, sizeof(events));
	cr_assert_eq(frees_read(&end, &damage), 0);
	cr_assert_eq(end, -EBADMSG);
}

Test(capture, passes_over_kinds_it_does_not_know)
{
	struct free_event events[3] = {free_make(1), free_make(99), free_make(2)};
	struct capture_reader *reader;
	const struct event *record;
	struct capture_damage damage;
	int end;

	events[1].event.kind = 4000;
	chunk_store(events, sizeof(events), 3, sizeof(events));
	cr_assert_eq(frees_read(&end, &damage), 2);
	cr_assert(damage.complete);
	cr_assert_eq(damage.records, 3);
	cr_assert_eq(capture_reader_open(path, &reader, NULL), 0);
	while (capture_reader_next(reader, &record) == 1)
		;
	cr_assert_eq(capture_reader_skipped(reader), 1);
	capture_reader_close(reader);
}

static const char *check(void *record)
{
	return record_check(record, 256);
}

Test(record, counts_must_fit_into_the_record)
{
	union {
		uint8_t bytes[256];
		struct operator_event operator_;
		struct tensors_event tensors;
		struct allocate_event allocate;
		struct text_record text;
		struct operator_record name;
		struct code_record code;
		struct event event;
	} record = {0};

	record.operator_ = (struct operator_event){
		.event = {.kind = EVENT_OPERATOR, .size = 56 + 16 + 24}, .tensor_count = 1, .frame_count = 1};
	cr_assert_null(check(&record));
	record.operator_.frame_count = 2;
	cr_assert_not_null(check(&record));
	record.operator_.frame_count = 0;
	record.operator_.tensor_count = EVENT_TENSORS_MAX + 1;
	record.event.size = 256;
	cr_assert_not_null(check(&record));

	record.tensors = (struct tensors_event){.event = {.kind = EVENT_TENSORS, .size = 32 + 16}, .tensor_count = 2};
	cr_assert_not_null(check(&record));
	record.allocate = (struct allocate_event){.event = {.kind = EVENT_ALLOCATE, .size = 56}, .frame_count = 1};
	cr_assert_not_null(check(&record));

	memset(&record, 0, sizeof(record));
	record.text = (struct text_record){.event = {.kind = CAPTURE_TARGET, .size = 40}, .length = 8};
	cr_assert_not_null(check(&record), "a text holds no NUL");
	memcpy(record.text.text, "12345678", 8);
	cr_assert_null(check(&record));
	record.text.length = 9;
	cr_assert_not_null(check(&record));
	record.text.length = UINT32_MAX;
	cr_assert_not_null(check(&record));

	memset(&record, 'a', sizeof(record));
	record.code = (struct code_record){.event = {.kind = CAPTURE_CODE, .size = 80},
		.file_length = 8,
		.name_length = 4,
		.qualified_length = 2,
		.table_length = 2};
	cr_assert_null(check(&record));
	record.code.table_length = 3;
	cr_assert_not_null(check(&record));
	record.code.table_length = 0;
	record.code.file_length = UINT32_MAX; /* sums must not wrap */
	cr_assert_not_null(check(&record));

	record.event = (struct event){.kind = EVENT_EXIT, .size = 264};
	cr_assert_not_null(check(&record), "beyond what is there");
}

Test(capture, that_cannot_be_written_says_so_once_and_for_ever_and_stays_readable)
{
	struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
	struct capture_writer *writer;
	struct capture_damage damage;
	struct stat status;
	uint64_t kept = 0;
	int error = 0, end;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(capture_writer_open(path, &writer), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (uint64_t i = 1; i < 100000 && !error; i++) {
		struct free_event event = free_make(i);

		error = capture_writer_append(writer, &event.event);
		if (!error && i % 500 == 0) {
			error = capture_writer_flush(writer);
			kept = error ? kept : i;
		}
	}
	cr_assert_eq(error, -EFBIG);
	cr_assert_eq(capture_writer_loss(writer, 0, &(struct event_counters){0}), -EFBIG);
	cr_assert_eq(capture_writer_flush(writer), -EFBIG);
	cr_assert_eq(stat(path, &status), 0);
	cr_assert_eq((uint64_t)status.st_size, capture_writer_bytes(writer));
	cr_assert_eq(capture_writer_close(writer), -EFBIG);
	cr_assert_gt(kept, 0);
	cr_assert_eq(frees_read(&end, &damage), kept);
	cr_assert(damage.complete, "the torn chunk was cut off again");
}
