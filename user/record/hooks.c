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

#define INFERENCE_WORD "inference_mode"

void hook_set_choose(const struct session *session, struct target *target)
{
	const struct library_plan *plan = target->libraries[LIBRARY_TORCH_CPU];

	target->hook_set = HOOK_SET_SPARSE;
	if (session->options->hooks == HOOKS_PLAIN || !arrlen(plan->sets[HOOK_SET_SPARSE].hooks))
		target->hook_set = HOOK_SET_PLAIN;
	else if (session->options->hooks == HOOKS_AUTO && process_program_mentions(&target->process, INFERENCE_WORD))
		target->hook_set = HOOK_SET_PLAIN;
	target->settings.plain = target->hook_set == HOOK_SET_PLAIN;
}

int operators_probe(struct session *session, struct target *target, const struct mapped_file *file)
{
	struct planned_library *library = library_plan_of(session, target->process.pid, file, LIBRARY_TORCH_CPU);
	const struct hook_set *set;
	uint64_t *cookies, *offsets;
	size_t count, used = 0;
	int *first, link, error;

	if (!library || !library->plan->torch)
		return library ? 0 : -ENOENT;
	error = target->hook_set == HOOK_SET_PLAIN ? plain_hooks_plan(library->plan) : 0;
	set = &library->plan->sets[target->hook_set];
	count = arrlenu(set->hooks);
	if (error || !count)
		return error;
	first = &library->first_hook[target->hook_set];
	if (*first < 0)
		*first = tracer_hooks_add(session->tracer, set->hooks, count);
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
	target->hook_set = HOOK_SET_PLAIN;
	error = file ? operators_probe(session, target, file) : -ENOENT;
	maps_free(files);
	return error;
}

void target_use_plain(struct session *session, struct target *target, uint64_t since_ns)
{
	int sparse_link = target->operator_link, error;

	if (target->hook_set == HOOK_SET_PLAIN || session->options->hooks != HOOKS_AUTO)
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
	target->inference_gap_ns = monotonic_now() - since_ns;
	target_describe(session, target);
	tracer_detach(session->tracer, sparse_link);
	session_tell(session,
		"pid %d entered inference mode: operators of its first %.0f ms may be missing, none after them",
		target->process.pid, (double)target->inference_gap_ns / 1e6);
}
