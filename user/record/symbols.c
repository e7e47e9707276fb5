// SPDX-License-Identifier: BSD-2-Clause
/*
 * Places in native code: who called a driver or a library, and which kernels were launched.
 * Each address is looked up once in the symbol table of the file that is mapped
 * there. Where a driver's function returns to, a probe is set the first time, so
 * that the next call from there is seen to return.
 */
#include "record/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "containers/containers.h"
#include "symbol/demangle.h"
#include "symbol/elf.h"
#include "symbol/entry.h"

/* Each is a link of its own, and detaching takes some 20 ms a link. */
#define RETURN_PROBES_MAX 64

/* Each is open, and takes memory: a recording that stays would have those of every image that ever ran. */
#define SYMBOL_FILES_KEPT 64

/* The functions of a file in order of their addresses. */
struct symbol_file {
	uint64_t device, inode;
	struct elf_file *elf;              /* NULL: it cannot be read */
	const struct elf_symbol **symbols; /* stb_ds */
};

static int symbol_compare(const void *left, const void *right)
{
	const struct elf_symbol *a = *(const struct elf_symbol *const *)left;
	const struct elf_symbol *b = *(const struct elf_symbol *const *)right;

	return (a->address > b->address) - (a->address < b->address);
}

static struct symbol_file *symbol_file_of(struct session *session, pid_t pid, const struct mapped_file *file)
{
	struct symbol_file fresh = {.device = file->device, .inode = file->inode};
	const struct elf_symbol *symbols;
	size_t count;
	int fd;

	for (ptrdiff_t index = 0; index < arrlen(session->symbol_files); index++)
		if (session->symbol_files[index].device == file->device &&
			session->symbol_files[index].inode == file->inode)
			return &session->symbol_files[index];
	fd = mapped_file_open(pid, file);
	if (fd >= 0 && elf_file_open(fd, &fresh.elf))
		fresh.elf = NULL;
	if (fd >= 0)
		close(fd);
	symbols = fresh.elf ? elf_file_symbols(fresh.elf, &count) : NULL;
	for (size_t index = 0; symbols && index < count; index++)
		if (symbols[index].kind == ELF_FUNCTION)
			arrput(fresh.symbols, &symbols[index]);
	if (fresh.symbols)
		qsort(fresh.symbols, arrlenu(fresh.symbols), sizeof(*fresh.symbols), symbol_compare);
	arrput(session->symbol_files, fresh);
	return &arrlast(session->symbol_files);
}

const struct elf_file *symbol_elf_of(struct session *session, pid_t pid, const struct mapped_file *file)
{
	return symbol_file_of(session, pid, file)->elf;
}

/* The function that an address of the file lies in, NULL: none that has a name. */
static const struct elf_symbol *function_at(const struct symbol_file *file, uint64_t address)
{
	size_t low = 0, high = arrlenu(file->symbols);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (file->symbols[middle]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* A return address may be the end of the function: the call was its last instruction. */
	if (!low || (file->symbols[low - 1]->size &&
			    address - file->symbols[low - 1]->address > file->symbols[low - 1]->size))
		return NULL;
	return file->symbols[low - 1];
}

/* --- maps ------------------------------------------------------------------------- */

static const struct mapped_file *file_at(const struct mapped_file *files, uint64_t address)
{
	for (ptrdiff_t index = 0; index < arrlen(files); index++)
		if (address >= files[index].start && address < files[index].end)
			return &files[index];
	return NULL;
}

/* What is mapped there; maps are read again when something new must be. */
static const struct mapped_file *target_file_at(struct target *target, uint64_t address)
{
	const struct mapped_file *file = file_at(target->files, address);

	if (file)
		return file;
	maps_free(target->files);
	target->files = NULL;
	if (maps_read(target->process.pid, &target->files))
		return NULL;
	return file_at(target->files, address);
}

/* --- symbols ------------------------------------------------------------------------ */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns whether the address was new. */
static bool symbol_keep(struct session *session, struct target *target, uint64_t address)
{
	const struct elf_symbol *function = NULL;
	const struct mapped_file *mapped;
	struct symbol_file *file;
	uint64_t start = 0, at = 0;
	char *name = NULL;

	if (!address || hmgeti(target->symbols, address) >= 0)
		return false;
	hmput(target->symbols, address, false);
	mapped = target_file_at(target, address);
	if (!mapped)
		return true;
	file = symbol_file_of(session, target->process.pid, mapped);
	if (file->elf && !elf_file_code_address(file->elf, mapped->offset, &start)) {
		at = address - mapped->start + start;
		function = function_at(file, at);
	}
	if (function)
		name = demangle_symbol(function->name);
	capture_check(session, target,
		capture_writer_symbol(session->capture, target->index, address, base_name(mapped->path),
			name ? name : "", function ? (uint32_t)(at - function->address) : 0));
	free(name);
	return true;
}

/* Whoever calls a library for collectives asks it for communicators too: its next calls are seen to return. */
static void library_caller_keep(struct session *session, struct target *target, uint64_t address)
{
	const struct mapped_file *file = symbol_keep(session, target, address) ? target_file_at(target, address) : NULL;
	int error = file ? caller_probe(session, target, file) : 0;

	if (error)
		session_tell(session, "pid %d: calls of %s are not seen to return: %s", target->process.pid, file->path,
			strerror(-error));
}

void kernel_name_keep(struct session *session, struct target *target, const struct kernel_event *record, size_t size)
{
	char text[KERNEL_NAME_BYTES], *name;

	if (size < sizeof(*record) || !target->announced)
		return;
	snprintf(text, sizeof(text), "%.*s", (int)sizeof(record->name) - 1, record->name);
	name = demangle_symbol(text);
	hmput(target->symbols, record->function, false);
	capture_check(session, target,
		capture_writer_symbol(session->capture, target->index, record->function, "", name ? name : text, 0));
	free(name);
}

/* --- returns -------------------------------------------------------------------------- */

static void return_probe(struct session *session, struct target *target, uint64_t address)
{
	uint64_t cookie, offset, start;
	const struct mapped_file *file;
	const struct symbol_file *symbols;
	ptrdiff_t at = hmgeti(target->symbols, address);
	uint32_t shift = 0;

	if (at < 0 || target->symbols[at].value || target->return_probes == RETURN_PROBES_MAX)
		return;
	target->symbols[at].value = true;
	file = target_file_at(target, address);
	if (!file)
		return;
	symbols = symbol_file_of(session, target->process.pid, file);
	if (symbols->elf && !elf_file_code_address(symbols->elf, file->offset, &start))
		return_find(symbols->elf, address - file->start + start, &shift);
	offset = address - file->start + file->offset + shift;
	/* What a guess sees is under its target, behind the call too. */
	cookie = COOKIE(session->guess.root ? session->guess.root->index : target->index, shift);
	if (probes_set(session, target, file, PROGRAM_RETURNED, &offset, &cookie, 1) >= 0)
		target->return_probes++;
}

static bool is_settled(const struct segment_event *event)
{
	return event->result == SEGMENT_RETURNED || event->result == SEGMENT_REFUSED || event->action == SEGMENT_FREE ||
	       event->action == SEGMENT_RELEASE || event->action == SEGMENT_UNMAP ||
	       event->action == SEGMENT_UNREGISTER;
}

void symbols_keep(struct session *session, struct target *target, const struct event *record)
{
	if (record->kind == EVENT_SEGMENT && record->size >= sizeof(struct segment_event)) {
		const struct segment_event *segment = (const void *)record;

		symbol_keep(session, target, segment->caller);
		if (!is_settled(segment))
			return_probe(session, target, segment->caller);
	} else if (record->kind == EVENT_LAUNCH && record->size >= sizeof(struct launch_event)) {
		symbol_keep(session, target, ((const struct launch_event *)record)->function);
	} else if (record->kind == EVENT_LIBRARY_COLLECTIVE &&
		   record->size >= sizeof(struct library_collective_event)) {
		library_caller_keep(session, target, ((const struct library_collective_event *)record)->caller);
	}
}

void symbols_forget(struct target *target)
{
	hmfree(target->symbols);
	hmfree(target->callers);
	maps_free(target->files);
	target->files = NULL;
	target->return_probes = 0;
}

void symbol_files_trim(struct session *session)
{
	if (session->options->stay && arrlen(session->symbol_files) > SYMBOL_FILES_KEPT)
		symbol_files_free(session);
}

void symbol_files_free(struct session *session)
{
	for (ptrdiff_t index = 0; index < arrlen(session->symbol_files); index++) {
		elf_file_close(session->symbol_files[index].elf);
		arrfree(session->symbol_files[index].symbols);
	}
	arrfree(session->symbol_files);
}
