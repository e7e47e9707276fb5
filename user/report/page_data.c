/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Columns of numbers for the page: as few bytes a number as the largest one
 * needs, all lowest bytes first, then all second ones, and so on, since bytes of
 * one place are alike and deflate finds that; then base64.
 */
#include "page_data.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "containers/containers.h"

#define COMPRESSION_LEVEL 5     /* higher ones take much longer for a few per cent */
#define OUTPUT_BYTES (3u << 14) /* a multiple of three: base64 of each piece joins that of the next */

/* From bytes to base64 of their deflated form, in a file. */
struct packer {
	FILE *file;
	z_stream stream;
	uint8_t output[OUTPUT_BYTES];
	char text[OUTPUT_BYTES / 3 * 4];
};

static void base64_write(struct packer *packer, size_t count)
{
	static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t written = 0;

	for (size_t at = 0; at < count; at += 3) {
		size_t rest = count - at;
		uint32_t bits = (uint32_t)packer->output[at] << 16;

		if (rest > 1)
			bits |= (uint32_t)packer->output[at + 1] << 8;
		if (rest > 2)
			bits |= packer->output[at + 2];
		packer->text[written++] = DIGITS[bits >> 18];
		packer->text[written++] = DIGITS[bits >> 12 & 63];
		packer->text[written++] = '=';
		packer->text[written++] = '=';
		if (rest > 1)
			packer->text[written - 2] = DIGITS[bits >> 6 & 63];
		if (rest > 2)
			packer->text[written - 1] = DIGITS[bits & 63];
	}
	fwrite_unlocked(packer->text, 1, written, packer->file);
}

static int packer_open(struct packer *packer, FILE *file)
{
	memset(&packer->stream, 0, sizeof(packer->stream));
	packer->file = file;
	if (deflateInit(&packer->stream, COMPRESSION_LEVEL) != Z_OK)
		return -ENOMEM;
	packer->stream.next_out = packer->output;
	packer->stream.avail_out = OUTPUT_BYTES;
	return 0;
}

static void packer_add(struct packer *packer, const void *bytes, size_t count, bool last)
{
	int status;

	/* zlib takes no const, and changes nothing. */
	packer->stream.next_in = (Bytef *)(uintptr_t)bytes;
	packer->stream.avail_in = (uInt)count;
	do {
		status = deflate(&packer->stream, last ? Z_FINISH : Z_NO_FLUSH);
		if (packer->stream.avail_out && status != Z_STREAM_END)
			continue;
		base64_write(packer, OUTPUT_BYTES - packer->stream.avail_out);
		packer->stream.next_out = packer->output;
		packer->stream.avail_out = OUTPUT_BYTES;
	} while (last ? status != Z_STREAM_END : packer->stream.avail_in > 0);
}

/* --- elements --------------------------------------------------------------------------- */

static void element_begin(FILE *file, const char *scope, const char *name, size_t count)
{
	fprintf(file, "<script type=\"application/octet-stream\" data-scope=\"%s\" data-name=\"%s\" data-count=\"%zu\"",
		scope, name, count);
}

static void element_end(FILE *file)
{
	fputs("</script>\n", file);
}

/* The difference with its sign in the lowest bit: small whichever way it goes. */
static uint64_t zigzag(uint64_t value, uint64_t before)
{
	return value >= before ? (value - before) << 1 : ((before - value) << 1) - 1;
}

static uint64_t *numbers_code(const uint64_t *values, size_t count, enum page_coding coding, uint64_t *largest)
{
	uint64_t *coded = NULL, before = 0;

	*largest = 0;
	arrzero(coded, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t value = values[i] < PAGE_NUMBER_MAX ? values[i] : PAGE_NUMBER_MAX;

		coded[i] = coding == PAGE_DELTA ? zigzag(value, before) : value;
		before = value;
		*largest = coded[i] > *largest ? coded[i] : *largest;
	}
	return coded;
}

static unsigned int bytes_needed(uint64_t largest)
{
	unsigned int bytes = 1;

	while (bytes < sizeof(largest) && largest >> (8 * bytes))
		bytes++;
	return bytes;
}

/* All bytes of one place, the lowest first. */
static void planes_pack(struct packer *packer, const uint64_t *coded, size_t count, unsigned int bytes)
{
	uint8_t *plane = NULL;

	arrzero(plane, count);
	for (unsigned int place = 0; place < bytes; place++) {
		for (size_t i = 0; i < count; i++)
			plane[i] = (uint8_t)(coded[i] >> (8 * place));
		packer_add(packer, plane, count, place + 1 == bytes);
	}
	arrfree(plane);
}

int page_column(
	FILE *file, const char *scope, const char *name, const uint64_t *values, size_t count, enum page_coding coding)
{
	struct packer packer;
	uint64_t largest, *coded;
	unsigned int bytes;
	int error = packer_open(&packer, file);

	if (error)
		return error;
	coded = numbers_code(values, count, coding, &largest);
	bytes = bytes_needed(largest);
	element_begin(file, scope, name, count);
	fprintf(file, " data-bytes=\"%u\" data-coding=\"%s\">", bytes, coding == PAGE_DELTA ? "delta" : "plain");
	planes_pack(&packer, coded, count, bytes);
	element_end(file);
	deflateEnd(&packer.stream);
	arrfree(coded);
	return 0;
}

int page_text(FILE *file, const char *scope, const char *name, const char *text, size_t length)
{
	struct packer packer;
	int error = packer_open(&packer, file);

	if (error)
		return error;
	element_begin(file, scope, name, length);
	fputs(" data-coding=\"text\">", file);
	packer_add(&packer, text, length, true);
	element_end(file);
	deflateEnd(&packer.stream);
	return 0;
}
