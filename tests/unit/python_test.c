/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts, code objects and lines, compared with what CPython says itself: a
 * Python process (python_truth.py) tells its own facts, and stays alive while
 * the same is read out of its memory. HDTRACE_TEST_PYTHON names another
 * interpreter than /usr/bin/python3.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "python/code.h"
#include "python/debug_offsets.h"
#include "python/location.h"
#include "python/threads.h"
#include "python/utf8.h"

/* --- a Python process that tells the truth ------------------------------------- */

struct truth {
	pid_t pid;
	FILE *facts;
	int release; /* closing it lets the process end */
	struct python_layout layout;
	uint64_t runtime, code_type;
	char *line;
	size_t line_size;
};

static char *truth_next(struct truth *truth)
{
	ssize_t length = getline(&truth->line, &truth->line_size, truth->facts);

	cr_assert_gt(length, 0, "the Python process ended early");
	truth->line[length - 1] = 0;
	return truth->line;
}

static void truth_exec(int facts, int release)
{
	const char *python = getenv("HDTRACE_TEST_PYTHON");
	char *arguments[3] = {0}, *file = strdup(__FILE__);

	dup2(release, STDIN_FILENO);
	dup2(facts, STDOUT_FILENO);
	arguments[0] = (char *)(python ? python : "/usr/bin/python3");
	if (asprintf(&arguments[1], "%s/python_truth.py", dirname(file)) < 0)
		_exit(126);
	execv(arguments[0], arguments);
	_exit(127);
}

static void truth_start(struct truth *truth)
{
	unsigned int major, minor;
	int facts[2], release[2];

	*truth = (struct truth){0};
	cr_assert_eq(pipe2(facts, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(release, O_CLOEXEC), 0);
	truth->pid = fork();
	if (truth->pid == 0)
		truth_exec(facts[1], release[0]);
	close(facts[1]);
	close(release[0]);
	truth->release = release[1];
	truth->facts = fdopen(facts[0], "r");
	if (getline(&truth->line, &truth->line_size, truth->facts) < 0)
		cr_skip_test("no Python interpreter here");
	cr_assert_eq(sscanf(truth->line, "V %u %u", &major, &minor), 2);
	cr_assert_not_null(python_layout_find(major, minor), "CPython %u.%u has no layout", major, minor);
	truth->layout = *python_layout_find(major, minor);
	cr_assert_eq(sscanf(truth_next(truth), "R %" SCNx64 " %" SCNx64, &truth->runtime, &truth->code_type), 2);
}

static void truth_end(struct truth *truth)
{
	close(truth->release);
	fclose(truth->facts);
	waitpid(truth->pid, NULL, 0);
	free(truth->line);
}

static int process_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct truth *truth = context;
	struct iovec local = {buffer, length}, remote = {(void *)(uintptr_t)address, length};
	ssize_t count = process_vm_readv(truth->pid, &local, 1, &remote, 1, 0);

	return count < 0 ? -errno : (size_t)count == length ? 0 : -EFAULT;
}

static uint64_t pointer_at(struct truth *truth, uint64_t address)
{
	uint64_t value = 0;

	cr_assert_eq(process_read(truth, address, &value, sizeof(value)), 0, "reading %" PRIx64, address);
	return value;
}

/* The next word of a line; texts were written in hexadecimal. */
static void text_compare(char **position, const char *text)
{
	char *word = strsep(position, " ");
	size_t length = strcmp(word, "-") == 0 ? 0 : strlen(word) / 2;

	cr_assert_eq(strlen(text), length, "%s against %s", text, word);
	for (size_t i = 0; i < length; i++) {
		unsigned int byte;

		cr_assert_eq(sscanf(word + 2 * i, "%2x", &byte), 1);
		cr_assert_eq((uint8_t)text[i], byte, "%s against %s", text, word);
	}
}

static void lines_compare(const struct python_code *code, char *expected)
{
	char *word;
	uint64_t unit = 0;
	uint32_t line;

	strsep(&expected, " ");
	for (; (word = strsep(&expected, " ")); unit++) {
		int error = location_line(
			code->table_format, code->table, code->table_length, code->first_line, 2 * unit, &line);

		if (strcmp(word, "-") == 0)
			cr_assert_eq(error, -ENOENT);
		else
			cr_assert(error == 0 && line == strtoul(word, NULL, 10), "%s, unit %" PRIu64 ": %d %u, not %s",
				code->qualified_name, unit, error, line, word);
	}
	cr_assert_gt(unit, 0);
	cr_assert_eq(
		location_line(code->table_format, code->table, code->table_length, code->first_line, 2 * unit, &line),
		code->table_format == LOCATION_FORMAT_309 ? 0 : -ENOENT, "past the last instruction");
}

/* Reads the code object that a C line tells of, and compares it; its lines come with the next line. */
static void code_compare(struct truth *truth)
{
	char *position = truth->line + 2;
	uint64_t address = strtoull(strsep(&position, " "), NULL, 16);
	struct python_types types = {0};
	struct python_code code;
	int error = python_code_read(&truth->layout, &types, process_read, truth, address, &code);

	cr_assert_eq(error, 0, "reading %" PRIx64 ": %s", address, strerror(-error));
	cr_assert_eq(code.address, address);
	cr_assert_eq(code.first_line, strtoul(strsep(&position, " "), NULL, 10));
	text_compare(&position, code.file);
	text_compare(&position, code.name);
	text_compare(&position, code.qualified_name);
	cr_assert_eq(python_code_same(&truth->layout, process_read, truth, &code), 1);
	lines_compare(&code, truth_next(truth));
	python_code_clear(&code);
}

TestSuite(python, .timeout = 120);

Test(python, code_objects_and_all_their_lines_are_those_that_cpython_tells)
{
	struct truth truth;
	unsigned int count = 0;

	truth_start(&truth);
	while (truth_next(&truth)[0] != '.') {
		if (truth.line[0] == 'C') {
			code_compare(&truth);
			count++;
		}
	}
	cr_assert_gt(count, 1000);
	truth_end(&truth);
}

/* The next frame of Python code from `frame` on; 0: none. */
static uint64_t frame_skip(struct truth *truth, uint64_t frame)
{
	const struct python_layout *layout = &truth->layout;

	while (frame && layout->frame.owner_skip) {
		uint8_t owner;

		cr_assert_eq(process_read(truth, frame + layout->frame.owner, &owner, 1), 0);
		if (owner < layout->frame.owner_skip)
			break;
		frame = pointer_at(truth, frame + layout->frame.previous);
	}
	return frame;
}

struct frame_fact {
	uint64_t code, self;
	uint32_t line;
};

static void frame_compare(struct truth *truth, uint64_t frame, const struct frame_fact *fact)
{
	const struct python_layout *layout = &truth->layout;
	uint64_t address = pointer_at(truth, frame + layout->frame.code) & ~layout->frame.tag_mask;
	uint64_t instruction = pointer_at(truth, frame + layout->frame.instruction);
	uint64_t self = pointer_at(truth, frame + layout->frame.localsplus) & ~layout->frame.tag_mask;
	struct python_types types = {0};
	struct python_code code;
	uint32_t line;

	cr_assert_eq(address, fact->code);
	cr_assert_eq(python_code_read(layout, &types, process_read, truth, address, &code), 0);
	if (layout->frame.index_unit)
		instruction = address + (uint32_t)instruction * layout->frame.index_unit;
	cr_assert_geq(instruction, code.first_instruction);
	cr_assert_eq(location_line(code.table_format, code.table, code.table_length, code.first_line,
			     instruction - code.first_instruction, &line),
		0);
	cr_assert_eq(line, fact->line, "%s: %u, not %u", code.name, line, fact->line);
	if (fact->self)
		cr_assert_eq(self, fact->self);
	python_code_clear(&code);
}

#define FRAME_FACTS 7

static uint64_t innermost_frame(struct truth *truth, uint64_t state)
{
	for (unsigned int step = 0; step < truth->layout.thread.frame_step_count; step++)
		state = pointer_at(truth, state + truth->layout.thread.frame_steps[step]);
	return state;
}

/* The thread states, by the slot that was found, and the layout with it. */
static void threads_compare(struct truth *truth, const uint64_t *states, const uint64_t *pointers, unsigned int count)
{
	struct python_image image = {&truth->layout, process_read, truth, truth->runtime, truth->code_type};
	uint32_t slot;

	cr_assert_eq(python_threads_find(&image, &slot), 0);
	for (unsigned int i = 0; i < count; i++)
		cr_assert_eq(pointer_at(truth, pointers[i] + slot), states[i], "thread %u", i);
	image.code_type += sizeof(uint64_t);
	cr_assert_eq(python_threads_find(&image, &slot), -EBADMSG, "code objects of another type");
}

Test(python, threads_and_frames_found_from_outside_are_those_of_the_process)
{
	struct frame_fact facts[FRAME_FACTS + 1];
	uint64_t states[2], pointers[2], frame;
	unsigned int count = 0, threads = 0;
	struct truth truth;

	truth_start(&truth);
	while (truth_next(&truth)[0] != '.') {
		if (truth.line[0] == 'T') {
			cr_assert_lt(threads, 2);
			cr_assert_eq(
				sscanf(truth.line, "T %" SCNx64 " %" SCNx64, &states[threads], &pointers[threads]), 2);
			threads++;
		}
		if (truth.line[0] != 'F')
			continue;
		cr_assert_lt(count, FRAME_FACTS);
		cr_assert_eq(sscanf(truth.line, "F %" SCNx64 " %u %" SCNx64, &facts[count].code, &facts[count].line,
				     &facts[count].self),
			3);
		count++;
	}
	cr_assert_geq(count, 5);
	cr_assert_eq(threads, 2);
	threads_compare(&truth, states, pointers, threads);
	frame = innermost_frame(&truth, states[0]);
	for (unsigned int i = 0; i < count; i++) {
		frame = frame_skip(&truth, frame);
		cr_assert_neq(frame, 0);
		frame_compare(&truth, frame, &facts[i]);
		frame = pointer_at(&truth, frame + truth.layout.frame.previous);
	}
	cr_assert_eq(frame_skip(&truth, frame), 0, "no frame beyond the outermost");
	truth_end(&truth);
}

/* The interpreter's own offsets, where it has them, say what the table says. */
Test(python, debug_offsets_agree_with_the_table)
{
	uint8_t bytes[DEBUG_OFFSETS_SIZE];
	struct python_layout layout;
	struct debug_offsets found;
	struct truth truth;
	int error;

	truth_start(&truth);
	layout = truth.layout;
	while (truth_next(&truth)[0] != '.')
		;
	cr_assert_eq(process_read(&truth, truth.runtime, bytes, sizeof(bytes)), 0);
	error = debug_offsets_read(bytes, sizeof(bytes), &layout, &found);
	cr_assert_eq(error, layout.minor < 13 ? -ENOENT : 0);
	cr_assert(!found.free_threaded);
	cr_assert_eq(found.different, 0);
	cr_assert_eq(memcmp(&layout, &truth.layout, sizeof(layout)), 0);
	truth_end(&truth);
}

/* --- code objects in made-up memory ---------------------------------------------- */

/* A little memory, by the 3.11 layout, with one good code object in it. */
#define MEMORY_BASE 0x10000u
#define MEMORY_SIZE 0x4000u
enum place {
	CODE = 0x0000,
	CODE_CONSTANTS = 0x0018,
	CODE_TYPE = 0x0400,
	TEXT_TYPE = 0x0800,
	BYTES_TYPE = 0x0c00,
	TYPE_NAME = 0x1000,
	FILE_TEXT = 0x1100,
	NAME_TEXT = 0x1200,
	QUALIFIED_TEXT = 0x1300,
	TABLE_BYTES = 0x1400,
};

struct memory {
	uint8_t bytes[MEMORY_SIZE];
	unsigned int reads;
	unsigned int dies_after; /* so many reads another object is there, 0: never */
};

static int memory_read(void *context, uint64_t address, void *buffer, size_t length)
{
	struct memory *memory = context;

	if (memory->reads++ == memory->dies_after && memory->dies_after)
		memory->bytes[CODE_CONSTANTS] ^= 1;
	if (address < MEMORY_BASE || length > MEMORY_SIZE || address - MEMORY_BASE > MEMORY_SIZE - length)
		return -EFAULT;
	memcpy(buffer, memory->bytes + (address - MEMORY_BASE), length);
	return 0;
}

static void put64(struct memory *memory, uint32_t place, uint64_t value)
{
	memcpy(memory->bytes + place, &value, sizeof(value));
}

#define STATE_OF(kind, ascii) ((kind) << 2 | 1u << 5 | (ascii) << 6 | 1u << 7)

static void put_text(
	struct memory *memory, uint32_t place, unsigned int kind, unsigned int ascii, const void *data, size_t length)
{
	uint32_t state = STATE_OF(kind, ascii);

	put64(memory, place + 8, MEMORY_BASE + TEXT_TYPE);
	put64(memory, place + 16, length);
	memcpy(memory->bytes + place + 32, &state, sizeof(state));
	memcpy(memory->bytes + place + (ascii ? 48 : 72), data, length * kind);
}

static struct memory *memory_make(void)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	uint32_t line = 10;

	put64(memory, CODE + 8, MEMORY_BASE + CODE_TYPE);
	put64(memory, CODE + 112, MEMORY_BASE + FILE_TEXT);
	put64(memory, CODE + 120, MEMORY_BASE + NAME_TEXT);
	put64(memory, CODE + 128, MEMORY_BASE + QUALIFIED_TEXT);
	put64(memory, CODE + 136, MEMORY_BASE + TABLE_BYTES);
	memcpy(memory->bytes + CODE + 72, &line, sizeof(line));
	put64(memory, CODE_TYPE + 24, MEMORY_BASE + TYPE_NAME);
	memcpy(memory->bytes + TYPE_NAME, "code", 5);
	put64(memory, TEXT_TYPE + 168, 1u << 28);
	put64(memory, BYTES_TYPE + 168, 1u << 27);
	put_text(memory, FILE_TEXT, 1, 1, "a.py", 4);
	put_text(memory, NAME_TEXT, 1, 1, "f", 1);
	put_text(memory, QUALIFIED_TEXT, 1, 1, "C.f", 3);
	put64(memory, TABLE_BYTES + 8, MEMORY_BASE + BYTES_TYPE);
	put64(memory, TABLE_BYTES + 16, 2);
	memory->bytes[TABLE_BYTES + 32] = 0x80;
	return memory;
}

static int memory_code(struct memory *memory, struct python_code *code)
{
	struct python_types types = {0};

	return python_code_read(python_layout_find(3, 11), &types, memory_read, memory, MEMORY_BASE + CODE, code);
}

static void refused(struct memory *memory, int error, const char *what)
{
	struct python_code code;

	cr_assert_eq(memory_code(memory, &code), error, "%s", what);
	cr_assert(!code.file && !code.name && !code.qualified_name && !code.table);
	free(memory);
}

Test(python_code, is_read_with_strings_of_every_width)
{
	struct memory *memory = memory_make();
	uint16_t wide[] = {'a', 0x444, 0xd800, 0xffff};
	uint32_t widest[] = {0x10400, 0x110000, 0};
	struct python_code code;

	put_text(memory, FILE_TEXT, 1, 0, "\xe9", 1);
	put_text(memory, NAME_TEXT, 2, 0, wide, 4);
	put_text(memory, QUALIFIED_TEXT, 4, 0, widest, 3);
	cr_assert_eq(memory_code(memory, &code), 0);
	cr_assert_str_eq(code.file, "\u00e9");
	cr_assert_str_eq(code.name, "a\u0444\ufffd\uffff");
	cr_assert_str_eq(code.qualified_name, "\U00010400\ufffd\ufffd");
	cr_assert_eq(code.first_instruction, MEMORY_BASE + CODE + 184);
	cr_assert_eq(code.table_length, 2);
	python_code_clear(&code);
	python_code_clear(&code);
	free(memory);
}

Test(python_code, needs_no_type_that_was_seen_before)
{
	struct memory *memory = memory_make();
	struct python_types types = {0};
	struct python_code code;

	for (unsigned int reads = 0; reads < 2; reads++) {
		cr_assert_eq(python_code_read(
				     python_layout_find(3, 11), &types, memory_read, memory, MEMORY_BASE + CODE, &code),
			0);
		cr_assert_str_eq(code.qualified_name, "C.f");
		python_code_clear(&code);
		/* The process is gone, and its types with it. */
		memset(memory->bytes + CODE_TYPE, 0, FILE_TEXT - CODE_TYPE);
	}
	free(memory);
}

Test(python_code, of_another_type_is_refused)
{
	struct memory *memory = memory_make();

	memcpy(memory->bytes + TYPE_NAME, "cell", 5);
	refused(memory, -EBADMSG, "not a code object");
	memory = memory_make();
	memcpy(memory->bytes + TYPE_NAME, "coder", 6);
	refused(memory, -EBADMSG, "a longer name");
	memory = memory_make();
	put64(memory, TEXT_TYPE + 168, 0);
	refused(memory, -EBADMSG, "a name that is no string");
	memory = memory_make();
	put64(memory, BYTES_TYPE + 168, 0);
	refused(memory, -EBADMSG, "a table that is no bytes");
	memory = memory_make();
	memory->bytes[NAME_TEXT + 32] = 3 << 2 | 1 << 5;
	refused(memory, -EBADMSG, "a kind that does not exist");
	memory = memory_make();
	memory->bytes[NAME_TEXT + 32] = 1 << 2 | 1 << 6;
	refused(memory, -EBADMSG, "a string in two pieces");
}

Test(python_code, with_unreasonable_lengths_is_refused)
{
	struct memory *memory = memory_make();

	put64(memory, FILE_TEXT + 16, PYTHON_TEXT_MAX + 1);
	refused(memory, -E2BIG, "a long file name");
	memory = memory_make();
	put64(memory, FILE_TEXT + 16, UINT64_MAX);
	refused(memory, -E2BIG, "a negative length");
	memory = memory_make();
	put64(memory, TABLE_BYTES + 16, PYTHON_TABLE_MAX + 1);
	refused(memory, -E2BIG, "a long table");
	memory = memory_make();
	put64(memory, CODE + 120, UINT64_MAX - 4);
	refused(memory, -EBADMSG, "an address at the end of all memory");
	memory = memory_make();
	put64(memory, CODE + 120, 0);
	refused(memory, -EBADMSG, "no name");
	memory = memory_make();
	put64(memory, CODE + 120, 0x7fff00000000);
	refused(memory, -EFAULT, "an unmapped name");
}

Test(python_code, that_dies_while_it_is_read_is_refused)
{
	for (unsigned int reads = 1; reads < 12; reads++) {
		struct memory *memory = memory_make();

		memory->dies_after = reads;
		refused(memory, -ESTALE, "what was read may be of two objects");
	}
}

Test(python_code, at_a_used_again_address_is_noticed_by_one_read)
{
	static const uint32_t fields[] = {8, 16, 24, 32, 40, 48, 72, 112, 120, 128, 136};
	struct memory *memory = memory_make();
	const struct python_layout *layout = python_layout_find(3, 11);
	struct python_code code;

	cr_assert_eq(memory_code(memory, &code), 0);
	memory->reads = 0;
	cr_assert_eq(python_code_same(layout, memory_read, memory, &code), 1);
	cr_assert_eq(memory->reads, 1);
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		memory->bytes[CODE + fields[i]] ^= 1;
		cr_assert_eq(python_code_same(layout, memory_read, memory, &code), 0, "field at %u", fields[i]);
		memory->bytes[CODE + fields[i]] ^= 1;
	}
	memory->bytes[CODE + 0] ^= 1;   /* reference count */
	memory->bytes[CODE + 184] ^= 1; /* instructions specialise themselves */
	cr_assert_eq(python_code_same(layout, memory_read, memory, &code), 1);
	code.address = 8;
	cr_assert_eq(python_code_same(layout, memory_read, memory, &code), -EFAULT);
	python_code_clear(&code);
	free(memory);
}

Test(python_layout, is_known_for_these_versions_only)
{
	for (unsigned int i = 0; python_layout_at(i); i++) {
		const struct python_layout *layout = python_layout_at(i);

		cr_assert_eq(python_layout_find(layout->major, layout->minor), layout);
		cr_assert_geq(layout->thread.frame_step_count, 1);
		cr_assert_leq(layout->thread.frame_step_count, PYTHON_FRAME_STEPS_MAX);
	}
	cr_assert_not_null(python_layout_find(3, 11));
	cr_assert_null(python_layout_find(3, 8));
	cr_assert_null(python_layout_find(2, 11));
	cr_assert_null(python_layout_find(3, 99));
}

/* --- the location table ------------------------------------------------------------ */

static int line_by(uint32_t format, const char *table, size_t length, uint64_t offset)
{
	uint32_t line;
	int error = location_line(format, (const uint8_t *)table, length, 100, offset, &line);

	return error ? error : (int)line;
}

static int line_of(const char *table, size_t length, uint64_t offset)
{
	return line_by(LOCATION_FORMAT_311, table, length, offset);
}

Test(location, of_3_9_says_where_the_next_line_begins)
{
	/* +1 at 6, -4 at 14, +300 in three pairs at 14 + 255 + 5 */
	static const char table[] = "\x06\x01"
				    "\x08\xfc"
				    "\xff\x00"
				    "\x05\x7f"
				    "\x00\x7f"
				    "\x00\x2e";
	size_t length = sizeof(table) - 1;

	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, 0), 100);
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, 4), 100);
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, 6), 101);
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, 12), 101);
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, 14), 97);
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, 272), 97);
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, 274), 397);
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, length, UINT64_MAX), 397, "the last line has no end");
	cr_assert_eq(line_by(LOCATION_FORMAT_309, "", 0, 2), 100, "code of one line has no table");
	cr_assert_eq(line_by(LOCATION_FORMAT_309, table, 3, 40), 101, "half a pair says nothing");
	cr_assert_eq(line_by(LOCATION_FORMAT_309, "\x00\x80", 2, 0), -EBADMSG, "a line below 0");
}

Test(location, of_3_10_says_where_its_line_ends)
{
	/* 6 bytes +1, 10 without a line, 254 and 46 of +5, an empty range, 4 of +200 in two pairs */
	static const char table[] = "\x06\x01"
				    "\x0a\x80"
				    "\xfe\x05"
				    "\x2e\x00"
				    "\x00\x7f"
				    "\x04\x49";
	size_t length = sizeof(table) - 1;

	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 0), 101);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 4), 101);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 6), -ENOENT);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 14), -ENOENT);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 16), 106);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 314), 106);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 316), 306);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, 320), -ENOENT, "past the end");
	cr_assert_eq(line_by(LOCATION_FORMAT_310, table, length, UINT64_MAX), -ENOENT);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, "", 0, 0), -ENOENT);
	cr_assert_eq(line_by(LOCATION_FORMAT_310, "\x02\x9b", 2, 0), -EBADMSG, "a line below 0");
}

Test(location, follows_each_form_of_entry)
{
	/* short, one-line +2, no columns -3, none, long +70 */
	static const char table[] = "\x81\x00"
				    "\xe0\x01\x02"
				    "\xe8\x07"
				    "\xf9"
				    "\xf0\x4c\x02\x00\x01\x02";
	size_t length = sizeof(table) - 1;

	cr_assert_eq(line_of(table, length, 0), 100);
	cr_assert_eq(line_of(table, length, 2), 100, "a run of two units");
	cr_assert_eq(line_of(table, length, 3), 100, "the middle of a unit");
	cr_assert_eq(line_of(table, length, 4), 102);
	cr_assert_eq(line_of(table, length, 6), 99);
	cr_assert_eq(line_of(table, length, 8), -ENOENT);
	cr_assert_eq(line_of(table, length, 10), -ENOENT);
	cr_assert_eq(line_of(table, length, 12), 99 + 70);
	cr_assert_eq(line_of(table, length, 14), -ENOENT, "past the end");
	cr_assert_eq(line_of(table, length, UINT64_MAX), -ENOENT);
}

Test(location, damage_is_told_but_only_where_it_is)
{
	uint32_t line;

	cr_assert_eq(line_of("", 0, 0), -ENOENT);
	cr_assert_eq(line_of("\x00\x00", 2, 0), -EBADMSG, "no entry begins here");
	cr_assert_eq(line_of("\x80", 1, 0), -EBADMSG, "cut off");
	cr_assert_eq(line_of("\xe8\x7f", 2, 0), -EBADMSG, "a number without end");
	cr_assert_eq(line_of("\xe8\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x01", 9, 0), -EBADMSG, "a number too long");
	cr_assert_eq(line_of("\x80\x80", 2, 0), -EBADMSG, "an entry inside an entry");
	cr_assert_eq(line_of("\xe8\x4d\x06", 3, 0), -EBADMSG, "a line below 0");
	cr_assert_eq(line_of("\x80\x00\x00", 3, 0), 100, "good before the damage");
	cr_assert_eq(line_of("\x80\x00\x00", 3, 2), -EBADMSG);
	cr_assert_eq(location_line(308, (const uint8_t *)"\x80\x00", 2, 1, 0, &line), -EPROTONOSUPPORT);
}

/* --- UTF-8 ----------------------------------------------------------------------- */

static void sanitized(const char *text, size_t length, const char *expected)
{
	char *result = utf8_sanitize(text, length);

	cr_assert_str_eq(result, expected);
	free(result);
}

Test(utf8, valid_text_stays_and_the_rest_is_replaced)
{
	sanitized("", 0, "");
	sanitized("a\u00e9\u0444\U00010400\U0010ffff", 13, "a\u00e9\u0444\U00010400\U0010ffff");
	sanitized("a\0b", 3, "a\ufffdb");
	sanitized("\xff"
		  "a",
		2, "\ufffda");
	sanitized("\xc3", 1, "\ufffd");
	sanitized("\xc0\xaf", 2, "\ufffd\ufffd");                     /* overlong */
	sanitized("\xe0\x80\xaf", 3, "\ufffd\ufffd\ufffd");           /* overlong */
	sanitized("\xed\xa0\x80", 3, "\ufffd\ufffd\ufffd");           /* surrogate */
	sanitized("\xf4\x90\x80\x80", 4, "\ufffd\ufffd\ufffd\ufffd"); /* past the last */
}
