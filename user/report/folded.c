/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks with bytes, one line each, as programs that draw flame graphs read
 * them: frames from the root to the leaf with ';' between them, the operator
 * last, a space and the bytes. Bytes are those that a block has in the totals of
 * its device. Of several devices, the outermost frame is the device.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>

#include "containers/containers.h"
#include "holders.h"
#include "output.h"
#include "text.h"

/* Blocks that are one line: of the same operator and stack, on the same device. */
struct line_key {
	uint32_t stack, name, device;
};

struct lines {
	struct {
		struct line_key key;
		uint64_t value; /* bytes */
	} * list;               /* stb_ds map: in order of first use */
};

static bool is_at_peak(const struct rank *rank, const struct block *block)
{
	return block_alive_at(block, rank->devices[block->device].peak_order);
}

static bool is_allocated(const struct rank *rank, const struct block *block)
{
	(void)rank;
	return !block->preexisting;
}

static void lines_find(
	const struct rank *rank, bool (*is_counted)(const struct rank *, const struct block *), struct lines *lines)
{
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		struct line_key key = {block_stack_shown(rank, block), block->name, block->device};
		uint64_t bytes = is_counted(rank, block) ? block_held_bytes(block) : 0;
		ptrdiff_t at;

		if (!bytes)
			continue;
		at = hmgeti(lines->list, key);
		bytes += at < 0 ? 0 : lines->list[at].value;
		hmput(lines->list, key, bytes);
	}
}

/* "function (file:line)"; a ';' would be two frames. */
static char *append_frame(char *text, const struct frame *frame)
{
	char line[16];

	text = text_append_replaced(text, frame->function, ";", ',');
	text = text_append_replaced(text, " (", "", ' ');
	text = text_append_replaced(text, frame->file, ";", ',');
	snprintf(line, sizeof(line), ":%u);", frame->line);
	return text_append_replaced(text, line, "", ' ');
}

static size_t devices_reported(const struct rank *rank)
{
	size_t count = 0;

	for (size_t i = 0; i < arrlenu(rank->devices); i++)
		count += rank->devices[i].reported;
	return count;
}

static char *text_of_line(const struct rank *rank, const struct line_key *key, bool several_devices)
{
	const struct stack *stack = &rank->stacks[key->stack];
	char *text = NULL;

	if (several_devices) {
		text = text_append_replaced(text, rank->devices[key->device].name, "", ' ');
		arrput(text, ';');
	}
	for (uint32_t frame = 0; frame < stack->frame_count; frame++)
		text = append_frame(text, &stack->frames[frame]);
	text = text_append_replaced(text, rank->operator_names[key->name], ";", ',');
	arrput(text, '\0');
	return text;
}

/* Stacks that differ in objects alone are one text. */
static void lines_write(FILE *file, const struct rank *rank, const struct lines *lines)
{
	bool several = devices_reported(rank) > 1;
	struct {
		char *key;
		uint64_t value;
	} *texts = NULL;

	sh_new_strdup(texts);
	for (size_t i = 0; i < hmlenu(lines->list); i++) {
		char *text = text_of_line(rank, &lines->list[i].key, several);
		ptrdiff_t at = shgeti(texts, text);
		uint64_t bytes = lines->list[i].value + (at < 0 ? 0 : texts[at].value);

		shput(texts, text, bytes);
		arrfree(text);
	}
	for (size_t i = 0; i < shlenu(texts); i++)
		fprintf(file, "%s %" PRIu64 "\n", texts[i].key, texts[i].value);
	shfree(texts);
}

static int folded_write(
	const struct rank *rank, bool (*is_counted)(const struct rank *, const struct block *), const char *path)
{
	struct lines lines = {0};
	struct output output;
	int error;

	if (!report_has_data(rank))
		return -ENODATA;
	error = output_open(&output, path);
	if (error)
		return error;
	lines_find(rank, is_counted, &lines);
	lines_write(output.file, rank, &lines);
	hmfree(lines.list);
	return output_commit(&output);
}

int report_folded_peak(const struct rank *rank, const struct report_options *options, const char *path)
{
	(void)options;
	return folded_write(rank, is_at_peak, path);
}

int report_folded_allocated(const struct rank *rank, const struct report_options *options, const char *path)
{
	(void)options;
	return folded_write(rank, is_allocated, path);
}
