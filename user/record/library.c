// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the handles of a library of collectives mean in a target: types of
 * elements, reduce operations, the communicator of all. Those of Open MPI are
 * objects. A program that names them in its own code has copies of them
 * (R_X86_64_COPY), which then count for the library too: they are looked for
 * there first.
 */
#include "record/session.h"

#include <errno.h>
#include <string.h>

#include "containers/containers.h"
#include "probe/library_calls.h"
#include "probe/library_handles.h"
#include "symbol/elf.h"

/* A file of the target and how far it is from its own addresses. */
struct loaded_file {
	const struct elf_file *elf; /* NULL: it is not there */
	uint64_t bias;
};

static struct loaded_file loaded_file_of(const struct elf_file *elf, const struct mapped_file *file)
{
	struct loaded_file loaded = {.elf = elf};
	uint64_t start;

	if (!elf || elf_file_code_address(elf, file->offset, &start))
		return (struct loaded_file){0};
	loaded.bias = file->start - start;
	return loaded;
}

static struct loaded_file program_of(
	struct session *session, const struct target *target, const struct mapped_file *files)
{
	for (ptrdiff_t index = 0; target->process.executable && index < arrlen(files); index++)
		if (!strcmp(files[index].path, target->process.executable))
			return loaded_file_of(
				symbol_elf_of(session, target->process.pid, &files[index]), &files[index]);
	return (struct loaded_file){0};
}

/* Not by the path that its probes were set with, which its loader may have told: the program has another name for it.
 */
static const struct mapped_file *library_mapped(const struct mapped_file *files)
{
	for (ptrdiff_t index = 0; index < arrlen(files); index++)
		if (library_role_of(files[index].path) == LIBRARY_MPI)
			return &files[index];
	return NULL;
}

/* Address of an object in the target, 0: it has none. */
static uint64_t object_of(const struct loaded_file *loaded, const char *name)
{
	const struct elf_symbol *symbol = loaded->elf ? elf_file_symbol(loaded->elf, name) : NULL;

	return symbol && symbol->kind == ELF_OBJECT ? symbol->address + loaded->bias : 0;
}

/* What its launcher says of the communicator of all; nothing where it was another library's launcher. */
static struct communicator_place world_of(const struct target *target)
{
	struct communicator_place place = {-1, -1};
	struct identity identity;

	identity_read(&target->process, &identity);
	if (!identity.rank_source || !strcmp(identity.rank_source, "RANK") || !strcmp(identity.rank_source, "RANK_ID"))
		return place;
	place.rank = identity.rank;
	place.size = identity.world_size;
	return place;
}

static int handle_take(
	struct session *session, struct target *target, const struct library_handle *handle, uint64_t value)
{
	struct communicator_place place = {0, 1};

	if (handle->kind == HANDLE_TYPE || handle->kind == HANDLE_OPERATION) {
		hmput(target->handles, value, handle);
		return 0;
	}
	if (handle->kind == HANDLE_WORLD)
		place = world_of(target);
	return place.rank < 0 ? 0 : tracer_communicator_set(session->tracer, target->index, value, &place);
}

int library_handles_read(struct session *session, struct target *target, const struct mapped_file *files)
{
	const struct library_plan *plan = target->libraries[LIBRARY_MPI];
	const struct mapped_file *file = plan ? library_mapped(files) : NULL;
	struct loaded_file library = {0}, program = {0};
	const struct library_handle *handles;
	size_t count;
	int error = 0;

	if (!file || target->handles_read)
		return 0;
	target->handles_read = true;
	if (plan->open_mpi) {
		process_refresh(&target->process); /* its exec may not have been told yet */
		library = loaded_file_of(plan->elf, file);
		program = program_of(session, target, files);
		/* Without it there is no knowing which of the two objects counts. */
		if (!program.elf)
			return 0;
	}
	handles = library_handles(plan->open_mpi ? HANDLES_OPEN_MPI : HANDLES_MPICH, &count);
	for (size_t index = 0; !error && index < count; index++) {
		uint64_t value = handles[index].number;

		if (plan->open_mpi) {
			value = object_of(&program, handles[index].symbol);
			value = value ? value : object_of(&library, handles[index].symbol);
		}
		if (value)
			error = handle_take(session, target, &handles[index], value);
	}
	return error;
}

void library_handles_forget(struct target *target)
{
	hmfree(target->handles);
	target->handles_read = false;
}

static enum handle_family family_of(const struct target *target, uint8_t layer)
{
	const struct library_plan *mpi = target->libraries[LIBRARY_MPI];

	if (layer == LAYER_HCCL)
		return HANDLES_HCCL;
	if (layer != LAYER_MPI)
		return HANDLES_NCCL;
	return mpi && mpi->open_mpi ? HANDLES_OPEN_MPI : HANDLES_MPICH;
}

static const struct library_handle *handle_find(
	const struct target *target, enum handle_family family, enum handle_kind kind, uint64_t value)
{
	struct library_handle const *found;
	ptrdiff_t at;

	if (family != HANDLES_OPEN_MPI)
		return library_handle_find(family, kind, value);
	at = hmgeti(((struct target *)target)->handles, value);
	found = at >= 0 ? target->handles[at].value : NULL;
	return found && found->kind == kind ? found : NULL;
}

static void type_fill(
	const struct target *target, enum handle_family family, uint64_t handle, uint8_t *element, uint8_t *bytes)
{
	const struct library_handle *found = handle_find(target, family, HANDLE_TYPE, handle);

	*element = found ? found->meaning : ELEMENT_UNKNOWN;
	*bytes = found ? found->bytes : family == HANDLES_MPICH ? library_mpich_bytes(handle) : 0;
}

const struct event *library_translate(
	const struct target *target, const struct library_collective_event *record, struct library_buffer *buffer)
{
	enum handle_family family;
	const struct library_handle *operation;

	if (record->event.size < sizeof(*record) || record->event.size > sizeof(*buffer))
		return NULL;
	memcpy(buffer, record, record->event.size);
	family = family_of(target, record->layer);
	if (record->kind != COLLECTIVE_BARRIER) {
		type_fill(target, family, record->input_type, &buffer->head.input_element,
			&buffer->head.input_element_bytes);
		type_fill(target, family, record->output_type, &buffer->head.output_element,
			&buffer->head.output_element_bytes);
	}
	if (record->operation_ == COLLECTIVE_NO_OPERATION)
		return &buffer->head.event;
	operation = handle_find(target, family, HANDLE_OPERATION, record->operation);
	if (operation)
		buffer->head.operation_ = operation->meaning;
	else if (family == HANDLES_OPEN_MPI && !hmlen(target->handles))
		buffer->head.operation_ = COLLECTIVE_NO_OPERATION; /* which those of the library are is not known */
	return &buffer->head.event;
}
