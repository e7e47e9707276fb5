/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan for an interpreter: which CPython a file has, which layout holds, and what is refused. */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <hdtrace/event.h>

#include "containers/containers.h"
#include "elf_image.h"
#include "probe/plan.h"
#include "python/debug_offsets.h"

/* --- made-up debug offsets ------------------------------------------------------- */

#define WORDS (DEBUG_OFFSETS_SIZE / sizeof(uint64_t))

/* Where the words of one version are that a test changes. */
struct words {
	unsigned int minor;
	size_t threads_head, code, owner, localsplus, table, first_line, ascii_data;
};

static const struct words words_313 = {13, 9, 30, 33, 32, 38, 39, 70};
static const struct words words_314 = {14, 9, 33, 36, 35, 43, 44, 80};

/* Offsets of an interpreter, those of the table: every word, by the structure's own order. */
static void offsets_make(uint64_t *offsets, unsigned int minor, bool free_threaded)
{
	const struct python_layout *layout = python_layout_find(3, minor);
	unsigned int new = minor >= 14; /* words that came with 3.14, so far */

	memset(offsets, 0, DEBUG_OFFSETS_SIZE);
	memcpy(offsets, "xdebugpy", 8);
	offsets[1] = 3ull << 24 | minor << 16 | 7 << 8 | 0xf0;
	offsets[2] = free_threaded;
	offsets[5] = layout->runtime.interpreters_head;
	offsets[8] = layout->interpreter.next;
	offsets[9] = layout->interpreter.threads_head;
	offsets[21 + 3 * new] = layout->thread.next;
	offsets[23 + 3 * new] = layout->thread.frame_steps[0];
	offsets[24 + 3 * new] = layout->thread.thread_id;
	offsets[29 + 3 * new] = layout->frame.previous;
	offsets[30 + 3 * new] = layout->frame.code;
	offsets[31 + 3 * new] = layout->frame.instruction;
	offsets[32 + 3 * new] = layout->frame.localsplus;
	offsets[33 + 3 * new] = layout->frame.owner;
	offsets[35 + 5 * new] = layout->code.file;
	offsets[36 + 5 * new] = layout->code.name;
	offsets[37 + 5 * new] = layout->code.qualified_name;
	offsets[38 + 5 * new] = layout->code.table;
	offsets[39 + 5 * new] = layout->code.first_line;
	offsets[43 + 5 * new] = layout->code.instructions;
	offsets[45 + 6 * new] = layout->object_type;
	offsets[47 + 6 * new] = layout->type.name;
	offsets[49 + 6 * new] = layout->type.flags;
	offsets[65 + 10 * new] = layout->bytes.length;
	offsets[66 + 10 * new] = layout->bytes.data;
	offsets[68 + 10 * new] = layout->text.state;
	offsets[69 + 10 * new] = layout->text.length;
	offsets[70 + 10 * new] = layout->text.ascii_data;
}

static int offsets_read(
	const uint64_t *offsets, unsigned int minor, struct python_layout *layout, struct debug_offsets *found)
{
	*layout = *python_layout_find(3, minor);
	return debug_offsets_read(offsets, DEBUG_OFFSETS_SIZE, layout, found);
}

static void offsets_follow(const struct words *words)
{
	uint64_t offsets[WORDS];
	struct python_layout layout, table = *python_layout_find(3, words->minor);
	struct debug_offsets found;

	offsets_make(offsets, words->minor, false);
	cr_assert_eq(offsets_read(offsets, words->minor, &layout, &found), 0);
	cr_assert_eq(found.different, 0);
	cr_assert_eq(memcmp(&layout, &table, sizeof(layout)), 0);
	offsets[words->threads_head] += 16;
	offsets[words->first_line] += 4;
	offsets[words->ascii_data] += 8;
	cr_assert_eq(offsets_read(offsets, words->minor, &layout, &found), 0);
	cr_assert_eq(found.different, 3);
	cr_assert_eq(layout.interpreter.threads_head, table.interpreter.threads_head + 16);
	cr_assert_eq(layout.code.first_line, table.code.first_line + 4);
	cr_assert_eq(layout.text.ascii_data, table.text.ascii_data + 8);
	cr_assert_eq(layout.text.compact_data, table.text.compact_data + 8, "the longer kind moves with it");
	cr_assert_eq(layout.frame.tag_mask, table.frame.tag_mask, "what they leave out is the table's");
}

Test(debug_offsets, go_before_the_table)
{
	offsets_follow(&words_313);
	offsets_follow(&words_314);
}

Test(debug_offsets, of_a_free_threaded_build_are_told_and_not_followed)
{
	uint64_t offsets[WORDS];
	struct python_layout layout;
	struct debug_offsets found;

	offsets_make(offsets, 13, true);
	offsets[words_313.code] = UINT64_MAX;
	cr_assert_eq(offsets_read(offsets, 13, &layout, &found), 0);
	cr_assert(found.free_threaded);
}

/* One word is `value`: the offsets are refused, and the layout stays. */
static void offsets_refused(size_t word, uint64_t value, int error)
{
	uint64_t offsets[WORDS];
	struct python_layout layout;
	struct debug_offsets found;

	offsets_make(offsets, 14, false);
	offsets[words_314.threads_head] += 8;
	offsets[word] = value;
	cr_assert_eq(offsets_read(offsets, 14, &layout, &found), error, "word %zu is %#zx", word, (size_t)value);
	cr_assert_eq(memcmp(&layout, python_layout_find(3, 14), sizeof(layout)), 0);
}

Test(debug_offsets, that_cannot_be_are_refused)
{
	offsets_refused(0, 0, -ENOENT);
	offsets_refused(1, 0x030d07f0, -EBADMSG); /* of 3.13 */
	offsets_refused(words_314.threads_head, UINT64_MAX, -EBADMSG);
	offsets_refused(words_314.threads_head, 7345, -EBADMSG);
	offsets_refused(words_314.code, 96, -EBADMSG);       /* farther than a frame is read */
	offsets_refused(words_314.localsplus, 76, -EBADMSG); /* not aligned */
	offsets_refused(words_314.table, CODE_OBJECT_BYTES, -EBADMSG);
	offsets_refused(words_314.ascii_data, 4096, -EBADMSG);
}

Test(debug_offsets, are_looked_for_where_they_can_be)
{
	struct python_layout layout = *python_layout_find(3, 12);
	uint64_t offsets[WORDS];
	struct debug_offsets found;

	offsets_make(offsets, 13, false);
	cr_assert_eq(debug_offsets_read(offsets, sizeof(offsets), &layout, &found), -ENOENT, "before 3.13");
	layout = *python_layout_find(3, 13);
	cr_assert_eq(debug_offsets_read(offsets, sizeof(offsets) - 1, &layout, &found), -ENOENT, "cut off");
}

Test(python_layout, fits_what_the_programs_read_at_once)
{
	for (unsigned int i = 0; python_layout_at(i); i++) {
		const struct python_layout *layout = python_layout_at(i);
		const uint32_t fields[] = {layout->code.file, layout->code.name, layout->code.qualified_name,
			layout->code.table, layout->code.first_line};

		for (size_t j = 0; j < sizeof(fields) / sizeof(*fields); j++)
			cr_assert_leq(fields[j] / 8 * 8 + 8, CODE_OBJECT_BYTES, "3.%u", layout->minor);
	}
}

/* --- made-up interpreters --------------------------------------------------------- */

#define SYMBOLS_MAX 16

struct interpreter {
	struct image image;
	Elf64_Sym symbols[SYMBOLS_MAX];
	size_t symbol_count;
	char strings[256];
	size_t strings_size;
};

static void symbol_add(struct interpreter *interpreter, const char *name, uint64_t address)
{
	interpreter->symbols[interpreter->symbol_count++] = (Elf64_Sym){
		.st_name = (uint32_t)interpreter->strings_size,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
		.st_shndx = 1,
		.st_value = address,
	};
	strcpy(interpreter->strings + interpreter->strings_size, name);
	interpreter->strings_size += strlen(name) + 1;
}

/* An interpreter of this Py_Version, 0: it exports none, with these first bytes of _PyRuntime. */
static void interpreter_begin(struct interpreter *interpreter, uint64_t version, const uint64_t *runtime)
{
	static const uint64_t nothing[WORDS];
	uint16_t section;

	*interpreter = (struct interpreter){.symbol_count = 1, .strings_size = 1};
	image_begin(&interpreter->image);
	section = image_section(
		&interpreter->image, ".data", SHT_PROGBITS, runtime ? runtime : nothing, DEBUG_OFFSETS_SIZE, 0);
	symbol_add(interpreter, "_PyRuntime", interpreter->image.sections[section].sh_addr);
	section = image_section(&interpreter->image, ".rodata", SHT_PROGBITS, &version, sizeof(version), 0);
	symbol_add(interpreter, "PyCode_Type", interpreter->image.sections[section].sh_addr);
	symbol_add(interpreter, "PyUnicode_Type", interpreter->image.sections[section].sh_addr);
	symbol_add(interpreter, "PyBytes_Type", interpreter->image.sections[section].sh_addr);
	if (version)
		symbol_add(interpreter, "Py_Version", interpreter->image.sections[section].sh_addr);
}

static void interpreter_plan(struct interpreter *interpreter, struct library_plan *plan)
{
	int fd;

	image_symbols(&interpreter->image, ".dynsym", SHT_DYNSYM, interpreter->symbols, interpreter->symbol_count,
		interpreter->strings, interpreter->strings_size);
	fd = image_finish(&interpreter->image);
	cr_assert_eq(library_plan_make(fd, LIBRARY_PYTHON, plan), 0);
	close(fd);
}

static bool plan_says(const struct library_plan *plan, bool good, const char *text)
{
	for (ptrdiff_t i = 0; i < arrlen(plan->findings); i++)
		if (plan->findings[i].good == good && strstr(plan->findings[i].what, text))
			return true;
	return false;
}

/* The version is planned, by what the finding says. */
static void planned(struct interpreter *interpreter, unsigned int minor, const char *text)
{
	struct library_plan plan;

	interpreter_plan(interpreter, &plan);
	cr_assert_not_null(plan.python, "3.%u", minor);
	cr_assert_eq(plan.python->minor, minor);
	cr_assert_eq((unsigned int)plan.version_minor, minor);
	cr_assert_neq(plan.python_runtime, 0);
	cr_assert(plan.python_types.code && plan.python_types.text && plan.python_types.bytes);
	cr_assert(plan_says(&plan, true, text), "3.%u", minor);
	library_plan_free(&plan);
}

static void refused(struct interpreter *interpreter, const char *text)
{
	struct library_plan plan;

	interpreter_plan(interpreter, &plan);
	cr_assert_null(plan.python, "%s", text);
	cr_assert(plan_says(&plan, false, text), "%s", text);
	for (ptrdiff_t i = 0; i < arrlen(plan.findings); i++)
		cr_assert(plan.findings[i].good || (plan.findings[i].remedy && !plan.findings[i].fatal));
	library_plan_free(&plan);
}

#define VERSION(minor, micro) (3ull << 24 | (minor) << 16 | (micro) << 8 | 0xf0)

Test(python_plan, tells_versions_before_3_11_by_their_functions)
{
	struct interpreter interpreter;

	interpreter_begin(&interpreter, 0, NULL);
	symbol_add(&interpreter, "PyFrame_GetBack", IMAGE_BASE);
	planned(&interpreter, 9, "CPython 3.9, layout by the table");
	interpreter_begin(&interpreter, 0, NULL);
	symbol_add(&interpreter, "PyFrame_GetBack", IMAGE_BASE);
	symbol_add(&interpreter, "PyIter_Send", IMAGE_BASE);
	planned(&interpreter, 10, "CPython 3.10, layout by the table");
	interpreter_begin(&interpreter, 0, NULL);
	refused(&interpreter, "older than 3.9");
}

Test(python_plan, takes_the_debug_offsets_since_3_13)
{
	struct interpreter interpreter;
	uint64_t offsets[WORDS];

	interpreter_begin(&interpreter, VERSION(12, 3), NULL);
	planned(&interpreter, 12, "CPython 3.12.3, layout by the table");
	offsets_make(offsets, 13, false);
	interpreter_begin(&interpreter, VERSION(13, 7), offsets);
	planned(&interpreter, 13, "CPython 3.13.7, layout by its debug offsets, the table agrees");
	offsets[words_313.threads_head] += 8;
	interpreter_begin(&interpreter, VERSION(13, 7), offsets);
	planned(&interpreter, 13, "CPython 3.13.7, layout by its debug offsets; 1 ");
}

Test(python_plan, refuses_builds_with_other_layouts_by_name)
{
	struct interpreter interpreter;
	uint64_t offsets[WORDS];

	interpreter_begin(&interpreter, VERSION(11, 2), NULL);
	symbol_add(&interpreter, "_Py_NegativeRefcount", IMAGE_BASE);
	refused(&interpreter, "CPython 3.11.2 is a debug build");
	offsets_make(offsets, 14, true);
	interpreter_begin(&interpreter, VERSION(14, 0), offsets);
	refused(&interpreter, "CPython 3.14.0 is a free-threaded build");
	offsets_make(offsets, 14, false);
	offsets[words_314.code] = 1ull << 40;
	interpreter_begin(&interpreter, VERSION(14, 0), offsets);
	refused(&interpreter, "CPython 3.14.0 has no debug offsets that make sense");
	interpreter_begin(&interpreter, VERSION(14, 0), NULL);
	refused(&interpreter, "CPython 3.14.0 has no debug offsets that make sense");
	interpreter_begin(&interpreter, 0x030e00b2, NULL);
	refused(&interpreter, "CPython 3.14.0 is a pre-release");
	interpreter_begin(&interpreter, VERSION(15, 0), NULL);
	refused(&interpreter, "CPython 3.15.0 is unknown (known: 3.9 to 3.14)");
}

Test(python_plan, of_a_file_without_an_interpreter_says_nothing)
{
	struct library_plan plan;
	struct image image;
	int fd;

	image_begin(&image);
	fd = image_finish(&image);
	cr_assert_eq(library_plan_make(fd, LIBRARY_PYTHON, &plan), 0);
	cr_assert_eq(plan.python_runtime, 0);
	cr_assert(!plan_says(&plan, false, "CPython") && !plan_says(&plan, true, "CPython"));
	library_plan_free(&plan);
	close(fd);
}
