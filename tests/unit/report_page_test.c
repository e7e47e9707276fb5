/* SPDX-License-Identifier: BSD-2-Clause */
/* What the page is made of: places of blocks that do not overlap, and columns that come out as they went in. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "containers/containers.h"
#include "report/layout.h"
#include "report/page_data.h"

/* --- places ------------------------------------------------------------------------------ */

static struct rank *rank_new(size_t devices)
{
	struct rank *rank = calloc(1, sizeof(*rank));

	cr_assert(ne(ptr, rank, NULL));
	arrzero(rank->devices, devices);
	return rank;
}

static void rank_free(struct rank *rank)
{
	arrfree(rank->devices);
	arrfree(rank->blocks);
	free(rank);
}

/* Alive from one order to another, UINT32_MAX: for ever. */
static void block_add(struct rank *rank, uint32_t from, uint32_t until, uint64_t bytes, uint8_t device)
{
	struct block block = {.first_order = from,
		.last_order = until,
		.bytes = bytes,
		.device = device,
		.persistent = until == UINT32_MAX};

	arrput(rank->blocks, block);
}

static bool lives_meet(const struct block *a, const struct block *b)
{
	return a->device == b->device && a->first_order < b->last_order && b->first_order < a->last_order;
}

Test(places, are_the_lowest_that_are_free)
{
	struct rank *rank = rank_new(1);
	uint64_t *places;

	block_add(rank, 1, 10, 100, 0);
	block_add(rank, 2, 4, 50, 0);
	block_add(rank, 3, UINT32_MAX, 200, 0);
	block_add(rank, 5, 9, 60, 0);    /* too large for what the second left */
	block_add(rank, 6, 8, 30, 0);    /* fits into it */
	block_add(rank, 7, 20, 20, 0);   /* fills it */
	block_add(rank, 11, 20, 130, 0); /* what the first and the fifth left, in one piece */
	places = layout_places(rank);
	cr_expect(eq(u64, places[0], 0));
	cr_expect(eq(u64, places[1], 100));
	cr_expect(eq(u64, places[2], 150));
	cr_expect(eq(u64, places[3], 350));
	cr_expect(eq(u64, places[4], 100));
	cr_expect(eq(u64, places[5], 130));
	cr_expect(eq(u64, places[6], 0));
	arrfree(places);
	rank_free(rank);
}

Test(places, of_devices_are_apart)
{
	struct rank *rank = rank_new(2);
	uint64_t *places;

	block_add(rank, 1, 5, 100, 0);
	block_add(rank, 2, 6, 100, 1);
	places = layout_places(rank);
	cr_expect(eq(u64, places[0], 0));
	cr_expect(eq(u64, places[1], 0));
	arrfree(places);
	rank_free(rank);
}

Test(places, of_blocks_that_meet_do_not_overlap)
{
	struct rank *rank = rank_new(2);
	uint64_t *places, top = 0, alive = 0;

	srand(7);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t life = 1 + (uint32_t)rand() % (i % 10 ? 60 : 2000);

		block_add(rank, 2 * i + 1, i % 50 ? 2 * i + 1 + 2 * life : UINT32_MAX, (uint64_t)(rand() % 100),
			i % 3 == 0);
		alive += rank->blocks[i].bytes;
	}
	places = layout_places(rank);
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *a = &rank->blocks[i];

		top = places[i] + a->bytes > top ? places[i] + a->bytes : top;
		for (size_t j = 0; j < i; j++) {
			const struct block *b = &rank->blocks[j];

			if (lives_meet(a, b) && a->bytes && b->bytes)
				cr_assert(places[i] + a->bytes <= places[j] || places[j] + b->bytes <= places[i],
					"blocks %zu and %zu overlap", i, j);
		}
	}
	cr_expect(top < alive / 4, "places reach %llu, all blocks together have %llu", (unsigned long long)top,
		(unsigned long long)alive);
	arrfree(places);
	rank_free(rank);
}

/* --- columns ------------------------------------------------------------------------------- */

static uint8_t *base64_bytes(const char *text, size_t length)
{
	static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t *bytes = NULL;
	uint32_t bits = 0;

	cr_assert(eq(sz, length % 4, 0));
	for (size_t i = 0; i < length; i++) {
		const char *digit = text[i] == '=' ? DIGITS : strchr(DIGITS, text[i]);

		cr_assert(ne(ptr, (void *)digit, NULL), "%c is no digit of base64", text[i]);
		bits = bits << 6 | (uint32_t)(digit - DIGITS);
		if (i % 4 == 3) {
			arrput(bytes, (uint8_t)(bits >> 16));
			arrput(bytes, (uint8_t)(bits >> 8));
			arrput(bytes, (uint8_t)bits);
		}
	}
	for (size_t i = length; i && text[i - 1] == '='; i--)
		(void)arrpop(bytes);
	return bytes;
}

/* What an element holds, inflated; `head`: its tag. */
static uint8_t *element_read(const char *text, char head[256])
{
	const char *begin = strchr(text, '>'), *end = strstr(text, "</script>");
	uint8_t *packed, *bytes = NULL;
	uLongf length = 1 << 20;

	cr_assert(begin && end && begin < end && begin - text < 256);
	snprintf(head, 256, "%.*s", (int)(begin - text + 1), text);
	packed = base64_bytes(begin + 1, (size_t)(end - begin - 1));
	arrsetlen(bytes, length);
	cr_assert(eq(int, uncompress(bytes, &length, packed, arrlenu(packed)), Z_OK));
	arrsetlen(bytes, length);
	arrfree(packed);
	return bytes;
}

static char *column_write(const uint64_t *values, size_t count, enum page_coding coding)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);

	cr_assert(ne(ptr, file, NULL));
	cr_assert(eq(int, page_column(file, "rank-0", "a.b", values, count, coding), 0));
	fclose(file);
	return text;
}

static uint64_t planes_value(const uint8_t *bytes, size_t count, size_t width, size_t index)
{
	uint64_t value = 0;

	for (size_t place = 0; place < width; place++)
		value |= (uint64_t)bytes[place * count + index] << (8 * place);
	return value;
}

Test(columns, have_as_many_planes_as_the_largest_number_needs)
{
	static const uint64_t values[] = {0, 255, 256, 0x123456789a, 7};
	char head[256], *text = column_write(values, 5, PAGE_PLAIN);
	uint8_t *bytes = element_read(text, head);

	cr_expect(eq(str, head,
		"<script type=\"application/octet-stream\" data-scope=\"rank-0\" data-name=\"a.b\" data-count=\"5\""
		" data-bytes=\"5\" data-coding=\"plain\">"));
	cr_assert(eq(sz, arrlenu(bytes), 25));
	for (size_t i = 0; i < 5; i++)
		cr_expect(eq(u64, planes_value(bytes, 5, 5, i), values[i]));
	arrfree(bytes);
	free(text);
}

Test(columns, of_differences_have_their_sign_in_the_lowest_bit)
{
	static const uint64_t values[] = {1000, 1003, 1001, 1001, 0};
	static const uint64_t coded[] = {2000, 6, 3, 0, 2001};
	char head[256], *text = column_write(values, 5, PAGE_DELTA);
	uint8_t *bytes = element_read(text, head);

	cr_assert(eq(sz, arrlenu(bytes), 10));
	for (size_t i = 0; i < 5; i++)
		cr_expect(eq(u64, planes_value(bytes, 5, 2, i), coded[i]));
	arrfree(bytes);
	free(text);
}

Test(columns, of_many_numbers_come_through_in_pieces)
{
	enum { COUNT = 200000 };
	uint64_t *values = NULL;
	uint8_t *bytes;
	char head[256], *text;

	srand(3);
	for (size_t i = 0; i < COUNT; i++)
		arrput(values, (uint64_t)rand() & 0xffffff);
	text = column_write(values, COUNT, PAGE_PLAIN);
	bytes = element_read(text, head);
	cr_assert(eq(sz, arrlenu(bytes), 3 * COUNT));
	for (size_t i = 0; i < COUNT; i++)
		cr_assert(eq(u64, planes_value(bytes, COUNT, 3, i), values[i]));
	arrfree(bytes);
	arrfree(values);
	free(text);
}

Test(columns, without_numbers_and_beyond_what_a_page_counts)
{
	static const uint64_t values[] = {UINT64_MAX};
	char head[256], *text = column_write(values, 0, PAGE_DELTA);
	uint8_t *bytes = element_read(text, head);

	cr_expect(eq(sz, arrlenu(bytes), 0));
	arrfree(bytes);
	free(text);
	text = column_write(values, 1, PAGE_PLAIN);
	bytes = element_read(text, head);
	cr_assert(eq(sz, arrlenu(bytes), 7));
	cr_expect(eq(u64, planes_value(bytes, 1, 7, 0), PAGE_NUMBER_MAX));
	arrfree(bytes);
	free(text);
}
