// SPDX-License-Identifier: BSD-2-Clause
/*
 * The operator hooks of a target. The sparse set does not see operators in
 * inference mode, which skip the levels of autograd; a target that uses it gets
 * the plain set: from the start where its program says so, else when it happens.
 */
#include "record/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "target/memory.h"

#define INFERENCE_WORD "inference_mode"

struct planned_library *library_of(struct session *session, const struct target *target, enum library_role role)
{
	for (ptrdiff_t index = 0; target->libraries[role] && index < arrlen(session->libraries); index++)
		if (session->libraries[index].plan == target->libraries[role])
			return &session->libraries[index];
	return NULL;
}

struct planned_library *torch_of(struct session *session, const struct target *target)
{
	return library_of(session, target, LIBRARY_TORCH_CPU);
}

static int hook_set_use(struct session *session, struct target *target, enum hook_set_kind set)
{
	struct library_plan *plan = torch_of(session, target)->plan;
	int error = set == HOOK_SET_PLAIN && plan->torch ? plain_hooks_plan(plan) : 0;

	findings_tell(session, plan, target->library_paths[LIBRARY_TORCH_CPU]);
	if (!error)
		target->hook_set = set;
	return error;
}

int hook_set_choose(struct session *session, struct target *target)
{
	const struct library_plan *plan = target->libraries[LIBRARY_TORCH_CPU];
	bool plain =
		session->options->hooks == HOOKS_PLAIN || !arrlen(plan->sets[HOOK_SET_SPARSE].hooks) ||
		(session->options->hooks == HOOKS_AUTO && process_program_mentions(&target->process, INFERENCE_WORD));

	/* The programs look for inference mode where they follow the other set. */
	target->settings.plain = plain || session->options->blocks_only;
	if (session->options->blocks_only)
		return 0;
	return hook_set_use(session, target, plain ? HOOK_SET_PLAIN : HOOK_SET_SPARSE);
}

int target_memory_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct target *target = context;

	return memory_read(target->process.pid, address, buffer, length);
}

bool target_torch_check(struct session *session, struct target *target)
{
	const struct library_plan *torch_cpu = target->libraries[LIBRARY_TORCH_CPU];
	const struct library_plan *c10 = target->libraries[LIBRARY_C10];
	struct torch_image image;
	const char *fault;

	if (target->torch_checked || !torch_cpu->torch)
		return !target->torch_refused;
	target->torch_checked = true;
	image = torch_plan_image(torch_cpu, target->bias[LIBRARY_TORCH_CPU], c10, target->bias[LIBRARY_C10]);
	image.read = target_memory_read;
	image.context = target;
	fault = torch_live_fault(&image);
	/* Of a process that has ended meanwhile nothing can be read: its records are all that is left. */
	if (!fault || !process_is_alive(&target->process))
		return true;
	session_tell(session,
		"pid %d: PyTorch is not laid out as expected: %s; operators, users and phases are left out, "
		"blocks of the allocator remain",
		target->process.pid, fault);
	target->torch_refused = true;
	if (target->announced) {
		link_drop(session, target, target->operator_link);
		target_describe(session, target);
	}
	return false;
}

int hook_set_probe(struct session *session, struct target *target, const struct mapped_file *file,
	enum library_role role, enum hook_set_kind kind)
{
	struct planned_library *library = library_of(session, target, role);
	const struct hook_set *set = &library->plan->sets[kind];
	size_t count = arrlenu(set->hooks), used = 0;
	uint64_t *cookies, *offsets;
	int *first, link;

	if (!count)
		return -ENOENT;
	first = &library->first_hook[kind];
	if (*first < 0)
		*first = tracer_hooks_add(session->tracer, set->hooks, count);
	if (*first == -ENOSPC && session->options->stay) {
		libraries_reclaim(session);
		library = library_of(session, target, role);
		first = &library->first_hook[kind];
		*first = tracer_hooks_add(session->tracer, set->hooks, count);
	}
	if (*first < 0)
		return *first;
	cookies = malloc(2 * count * sizeof(*cookies));
	if (!cookies)
		return -ENOMEM;
	offsets = cookies + count;
	for (size_t index = 0; index < count; index++) {
		if ((set->hooks[index].flags & HOOK_FULL_ONLY) && session->options->level != LEVEL_FULL)
			continue;
		offsets[used] = set->offsets[index];
		cookies[used++] = COOKIE(target->index, (uint32_t)*first + (uint32_t)index);
	}
	link = probes_set(session, target, file, PROGRAM_OPERATOR, offsets, cookies, used);
	free(cookies);
	return link;
}

int operators_probe(struct session *session, struct target *target, const struct mapped_file *file)
{
	const struct library_plan *plan = target->libraries[LIBRARY_TORCH_CPU];
	int link;

	if (!arrlen(plan->sets[target->hook_set].hooks) || target->torch_refused || session->options->blocks_only)
		return 0;
	link = hook_set_probe(session, target, file, LIBRARY_TORCH_CPU, target->hook_set);
	if (link < 0)
		return link;
	target->operator_link = link;
	return 0;
}

static int plain_attach(struct session *session, struct target *target)
{
	const struct mapped_file *file;
	struct mapped_file *files;
	int error = maps_read(target->process.pid, &files);

	if (error)
		return error;
	file = library_file_of(files, target, LIBRARY_TORCH_CPU);
	error = file ? hook_set_use(session, target, HOOK_SET_PLAIN) : -ENOENT;
	if (!error)
		error = operators_probe(session, target, file);
	maps_free(files);
	return error;
}

void target_use_plain(struct session *session, struct target *target, uint64_t since_ns)
{
	int sparse_link = target->operator_link, error;

	if (target->hook_set == HOOK_SET_PLAIN || session->options->blocks_only ||
		session->options->hooks != HOOKS_AUTO)
		return;
	error = plain_attach(session, target);
	if (error) {
		target->hook_set = HOOK_SET_SPARSE;
		session_tell(session, "pid %d entered inference mode, whose operators are not seen: %s",
			target->process.pid, strerror(-error));
		return;
	}
	/* Threads go over to the plain set one by one, where no operator is alive. */
	target->settings.plain = 1;
	tracer_target_set(session->tracer, target->index, &target->settings);
	target->inference_gap_ns = monotonic_ns() - since_ns;
	target_describe(session, target);
	link_drop(session, target, sparse_link);
	session_tell(session,
		"pid %d entered inference mode: operators of its first %.0f ms may be missing, none after them",
		target->process.pid, (double)target->inference_gap_ns / 1e6);
}
