// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which processes are traced: targets, and candidates, which are children of
 * targets that do not train yet. What is probed in them is in probing.c.
 */
#include "record/session.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "containers/containers.h"
#include "target/tree.h"

static void target_free(struct session *session, struct target *target)
{
	target_forget_image(session, target);
	process_close(&target->process);
	arrfree(target->links);
	arrfree(target->host_links);
	arrfree(target->hooks);
	arrfree(target->fork_children);
	arrfree(target->guessed_names);
	free(target);
}

static int target_new(pid_t pid, struct target **out)
{
	struct target *target = calloc(1, sizeof(*target));
	int error;

	*out = NULL;
	if (!target)
		return -ENOMEM;
	target->parent = -1;
	error = process_open(pid, &target->process);
	if (error) {
		free(target);
		return error;
	}
	*out = target;
	return 0;
}

static int target_enlist(struct session *session, struct target *target)
{
	struct target *gone;

	if (arrlen(session->targets) >= PROGRAM_TARGETS_MAX) {
		gone = target_place_find(session, target->parent);
		if (!gone || tracer_target_reset(session->tracer, gone->index)) {
			session->refused++;
			return -ENOSPC;
		}
		target->index = gone->index;
		session->targets[target->index] = target;
		target_free(session, gone);
		return 0;
	}
	target->index = (uint16_t)arrlen(session->targets);
	arrput(session->targets, target);
	return 0;
}

int target_add(struct session *session, pid_t pid, struct target **out)
{
	struct target *target;
	int error = target_new(pid, &target);

	if (error)
		return error;
	error = target_enlist(session, target);
	if (error) {
		target_free(session, target);
		return error;
	}
	*out = target;
	return 0;
}

int candidate_add(struct session *session, pid_t pid, int32_t parent)
{
	struct target *target;
	int error = target_new(pid, &target);

	if (error)
		return error;
	target->candidate = true;
	target->parent = parent;
	target->scan_time_ns = monotonic_ns();
	target->scanned = true; /* whatever it maps from now on is new */
	arrput(session->candidates, target);
	return 0;
}

struct target *target_find(struct session *session, pid_t pid)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		if (session->targets[index]->process.pid == pid && !session->targets[index]->ended)
			return session->targets[index];
	for (ptrdiff_t index = 0; index < arrlen(session->candidates); index++)
		if (session->candidates[index]->process.pid == pid)
			return session->candidates[index];
	return NULL;
}

void targets_free(struct session *session)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		target_free(session, session->targets[index]);
	arrfree(session->targets);
	for (ptrdiff_t index = 0; index < arrlen(session->candidates); index++)
		target_free(session, session->candidates[index]);
	arrfree(session->candidates);
	for (ptrdiff_t index = 0; index < arrlen(session->libraries); index++) {
		library_plan_free(session->libraries[index].plan);
		free(session->libraries[index].plan);
	}
	arrfree(session->libraries);
	arrfree(session->guess.plans);
	arrfree(session->guess.names);
	symbol_files_free(session);
}

static void candidate_remove(struct session *session, const struct target *candidate)
{
	for (ptrdiff_t index = 0; index < arrlen(session->candidates); index++)
		if (session->candidates[index] == candidate)
			arrdel(session->candidates, index);
}

static const struct mapped_file *torch_file(const struct mapped_file *files)
{
	for (ptrdiff_t index = 0; index < arrlen(files); index++)
		if (library_role_of(files[index].path) == LIBRARY_TORCH_CPU)
			return &files[index];
	return NULL;
}

static bool may_train(const struct mapped_file *files)
{
	for (ptrdiff_t index = 0; index < arrlen(files); index++)
		if (library_makes_target(library_role_of(files[index].path)))
			return true;
	return torch_file(files) != NULL;
}

bool candidate_take(struct session *session, struct target *candidate)
{
	candidate_remove(session, candidate);
	candidate->candidate = false;
	process_refresh(&candidate->process);
	if ((candidate->forked && python_is_loader(session->targets[candidate->parent], candidate)) ||
		target_enlist(session, candidate)) {
		target_free(session, candidate);
		return false;
	}
	target_scan(session, candidate);
	return true;
}

void candidate_scan(struct session *session, struct target *candidate)
{
	uint64_t now = monotonic_ns();
	struct mapped_file *files;
	bool trains;

	candidate->maps_stale = false;
	if (maps_read(candidate->process.pid, &files))
		return;
	trains = may_train(files);
	maps_free(files);
	if (!trains)
		return;
	/* An exec before that need not have been told yet: what was looked at is there since. */
	if (!candidate->forked)
		candidate->image_time_ns = now;
	candidate_take(session, candidate);
}

/* --- families --------------------------------------------------------------------- */

#define GENERATIONS_MAX 64

int32_t family_find(struct session *session, pid_t pid)
{
	const struct target *target = target_find(session, pid);

	if (!target)
		return -1;
	return target->candidate ? target->parent : target->index;
}

/* Libraries lie elsewhere after each exec: where PyTorch is at its parent's place, there was none. */
static bool is_fork_of(const struct target *parent, const struct mapped_file *torch)
{
	uint64_t bias;

	return parent->libraries[LIBRARY_TORCH_CPU] &&
	       !library_plan_bias(parent->libraries[LIBRARY_TORCH_CPU], torch->start, torch->offset, &bias) &&
	       bias == parent->bias[LIBRARY_TORCH_CPU];
}

/* A process that is there already. Of no family, only one that has PyTorch is of interest. */
static void child_add(struct session *session, pid_t pid, int32_t parent)
{
	const struct mapped_file *torch;
	struct mapped_file *files;
	struct target *child;

	if (pid == getpid() || maps_read(pid, &files))
		return;
	torch = torch_file(files);
	if ((torch || parent >= 0) && !candidate_add(session, pid, parent)) {
		child = arrlast(session->candidates);
		child->scanned = false;
		child->forked = torch && parent >= 0 && is_fork_of(session->targets[parent], torch);
		if (child->forked)
			arrput(session->targets[parent]->fork_children, pid);
		candidate_scan(session, child);
	}
	maps_free(files);
}

static void descendants_add(struct session *session, const struct process_entry *entries, pid_t pid, int32_t parent,
	unsigned int generation)
{
	for (ptrdiff_t index = 0; index < arrlen(entries); index++) {
		struct target *known = target_find(session, entries[index].pid);
		int32_t family;

		if (entries[index].parent != pid || generation == GENERATIONS_MAX)
			continue;
		if (!known)
			child_add(session, entries[index].pid, parent);
		else if (known->parent < 0 && parent >= 0)
			known->parent = parent;
		family = family_find(session, entries[index].pid);
		descendants_add(session, entries, entries[index].pid, family < 0 ? parent : family, generation + 1);
	}
}

int children_add(struct session *session, pid_t pid, int32_t parent)
{
	struct process_entry *entries;
	int error = processes_read(&entries);

	if (!error)
		descendants_add(session, entries, pid, parent, 0);
	arrfree(entries);
	return error;
}

void link_drop(struct session *session, struct target *target, int link)
{
	for (ptrdiff_t index = arrlen(target->links); index-- > 0;)
		if (target->links[index] == link) {
			arrdelswap(target->links, index);
			tracer_detach(session->tracer, link);
		}
}

void links_drop(struct session *session, int **links)
{
	for (ptrdiff_t index = 0; index < arrlen(*links); index++)
		tracer_detach(session->tracer, (*links)[index]);
	if (*links)
		arrsetlen(*links, 0);
}

void target_forget_image(struct session *session, struct target *target)
{
	links_drop(session, &target->links);
	links_drop(session, &target->host_links);
	for (ptrdiff_t index = 0; index < arrlen(target->hooks); index++)
		tracer_hooks_remove(session->tracer, target->hooks[index], 1);
	arrsetlen(target->hooks, 0);
	codes_forget(target);
	objects_forget(target);
	inputs_forget(target);
	peak_forget(target);
	invoked_forget(target);
	symbols_forget(target);
	symbol_files_trim(session);
	library_handles_forget(target);
	for (int role = 0; role < LIBRARY_ROLES; role++) {
		target->libraries[role] = NULL;
		free(target->library_paths[role]);
		target->library_paths[role] = NULL;
		target->probed[role] = target->boxed_probed[role] = false;
	}
	target->driver_inode = 0;
	target->torch_ready = false;
	target->torch_checked = target->torch_refused = false;
	target->scanned = true; /* whatever the new image maps is new */
}
