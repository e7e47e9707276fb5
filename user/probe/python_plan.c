// SPDX-License-Identifier: BSD-2-Clause
/*
 * The CPython in a file: a library of its own or linked into a program; both
 * export the same symbols. Its version and the kind of build are told by them,
 * the layout by its debug offsets where it has them, else by the table.
 */
#include "probe/python_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/operator_hooks.h"
#include "python/debug_offsets.h"
#include "symbol/elf.h"

#define WITHOUT_PYTHON "Python stacks, files and lines are left out; operators and blocks remain"

/* PY_RELEASE_LEVEL in the version number, Py_Version: 0xMMmmpprs. */
#define RELEASE_CANDIDATE 0xcu

struct python_version {
	unsigned int major, minor, micro, level; /* level 0: only major and minor are known */
};

static bool exports(const struct library_plan *plan, const char *symbol)
{
	return elf_file_symbol(plan->elf, symbol) != NULL;
}

static bool version_read(const struct library_plan *plan, struct python_version *version)
{
	const struct elf_symbol *symbol = elf_file_symbol(plan->elf, "Py_Version");
	uint64_t number;

	*version = (struct python_version){.major = 3};
	if (symbol) { /* since 3.11 */
		if (elf_file_read(plan->elf, symbol->address, &number, sizeof(number)) != sizeof(number))
			return false;
		version->major = (unsigned int)(number >> 24) & 0xff;
		version->minor = (unsigned int)(number >> 16) & 0xff;
		version->micro = (unsigned int)(number >> 8) & 0xff;
		version->level = (unsigned int)(number >> 4) & 0xf;
		return true;
	}
	/* Functions of the stable ABI that came with these versions. */
	version->minor = exports(plan, "PyIter_Send") ? 10 : exports(plan, "PyFrame_GetBack") ? 9 : 0;
	return version->minor;
}

/* Why no layout of the table can hold for this build; NULL: it can. */
static const char *build_refusal(const struct library_plan *plan, const struct python_version *version)
{
	if (exports(plan, "_Py_NegativeRefcount"))
		return "a debug build, whose objects are laid out differently";
	if (version->level && version->level < RELEASE_CANDIDATE)
		return "a pre-release, whose layout may be any";
	return NULL;
}

/* By the debug offsets, or as the table has it. */
static int layout_fill(struct library_plan *plan, const struct python_layout *row, const char *name)
{
	struct python_layout layout = *row;
	uint8_t runtime[DEBUG_OFFSETS_SIZE];
	struct debug_offsets found;
	int error = -ENOENT;

	if (elf_file_read(plan->elf, plan->python_runtime, runtime, sizeof(runtime)) == sizeof(runtime))
		error = debug_offsets_read(runtime, sizeof(runtime), &layout, &found);
	if (error == -EBADMSG || (error && row->minor >= DEBUG_OFFSETS_SINCE)) {
		plan_find(plan, false, false, WITHOUT_PYTHON, "%s has no debug offsets that make sense", name);
		return 0;
	}
	if (!error && found.free_threaded) {
		plan_find(plan, false, false, WITHOUT_PYTHON,
			"%s is a free-threaded build, whose objects are laid out differently", name);
		return 0;
	}
	plan->python = malloc(sizeof(*plan->python));
	if (!plan->python)
		return -ENOMEM;
	*plan->python = layout;
	if (error)
		plan_find(plan, true, false, NULL, "%s, layout by the table", name);
	else if (found.different)
		plan_find(
			plan, true, false, NULL, "%s, layout by its debug offsets; %u are new", name, found.different);
	else
		plan_find(plan, true, false, NULL, "%s, layout by its debug offsets, the table agrees", name);
	return 0;
}

static bool types_find(struct library_plan *plan)
{
	const struct elf_symbol *code = elf_file_symbol(plan->elf, "PyCode_Type");
	const struct elf_symbol *text = elf_file_symbol(plan->elf, "PyUnicode_Type");
	const struct elf_symbol *bytes = elf_file_symbol(plan->elf, "PyBytes_Type");

	if (!code || !text || !bytes)
		return false;
	plan->python_types = (struct python_types){code->address, text->address, bytes->address};
	return true;
}

static int layout_plan(struct library_plan *plan, const struct python_version *version, const char *name)
{
	const struct python_layout *row = python_layout_find(version->major, version->minor);
	const char *refusal = build_refusal(plan, version);

	if (!row || !types_find(plan)) {
		plan_find(plan, false, false, WITHOUT_PYTHON, "%s is unknown (known: 3.9 to 3.14)", name);
		return 0;
	}
	if (refusal) {
		plan_find(plan, false, false, WITHOUT_PYTHON, "%s is %s", name, refusal);
		return 0;
	}
	return layout_fill(plan, row, name);
}

int python_plan(struct library_plan *plan)
{
	const struct elf_symbol *runtime = elf_file_symbol(plan->elf, "_PyRuntime");
	struct python_version version;
	char *name;
	int error;

	if (!runtime)
		return 0; /* a program whose interpreter is elsewhere */
	plan->python_runtime = runtime->address;
	if (!version_read(plan, &version)) {
		plan_find(plan, false, false, WITHOUT_PYTHON, "this CPython is older than 3.9");
		return 0;
	}
	plan->version_major = (int)version.major;
	plan->version_minor = (int)version.minor;
	if (version.level)
		error = asprintf(&name, "CPython %u.%u.%u", version.major, version.minor, version.micro);
	else
		error = asprintf(&name, "CPython %u.%u", version.major, version.minor);
	if (error < 0)
		return -ENOMEM;
	error = layout_plan(plan, &version, name);
	free(name);
	return error;
}
