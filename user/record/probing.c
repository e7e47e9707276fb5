// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finding what a target has mapped, planning each library once, and setting the
 * probes. Nothing is probed before the allocator and the operators are both
 * there, so that the first operator finds everything in place.
 */
#include "record/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "containers/containers.h"
#include "probe/device_calls.h"
#include "probe/library_calls.h"

/* Plans that a recording that stays has of files which nobody may map any more. */
#define LIBRARIES_KEPT 64

/* --- libraries ------------------------------------------------------------------ */

void findings_tell(const struct session *session, struct library_plan *plan, const char *path)
{
	/* A python program whose interpreter is in a library of its own has nothing to say. */
	if (plan->role == LIBRARY_PYTHON && !plan->python_runtime)
		return;
	for (; plan->findings_told < arrlen(plan->findings); plan->findings_told++) {
		const struct plan_finding *finding = &plan->findings[plan->findings_told];

		if (!finding->good || session->options->verbose)
			session_tell(session, "%s (build-id %s): %s%s%s", path,
				plan->build_id ? plan->build_id : "none", finding->what, finding->remedy ? "; " : "",
				finding->remedy ? finding->remedy : "");
	}
}

static int64_t changed_ns(const struct stat *status)
{
	return status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec;
}

/* Numbers of inodes are given out again: is it still the file that was planned? */
static bool library_is_same(const struct planned_library *library, const struct stat *status)
{
	return library->size == status->st_size && library->changed_ns == changed_ns(status);
}

static struct planned_library *library_known(struct session *session, const struct mapped_file *file)
{
	for (ptrdiff_t index = 0; index < arrlen(session->libraries); index++)
		if (session->libraries[index].device == file->device && session->libraries[index].inode == file->inode)
			return &session->libraries[index];
	return NULL;
}

static int library_plan_new(struct session *session, int fd, enum library_role role, struct planned_library library,
	struct planned_library **new)
{
	int error;

	if (session->options->stay && arrlen(session->libraries) > LIBRARIES_KEPT)
		libraries_reclaim(session);
	library.plan = calloc(1, sizeof(*library.plan));
	if (!library.plan)
		return -ENOMEM;
	error = library_plan_make(fd, role, library.plan);
	if (error) {
		library_plan_free(library.plan);
		free(library.plan);
		return error;
	}
	arrput(session->libraries, library);
	*new = &arrlast(session->libraries);
	return 0;
}

/* The plan for a mapped file, made once for each inode; `found` is valid until the next call. */
static int library_plan_of(struct session *session, pid_t pid, const struct mapped_file *file, enum library_role role,
	struct planned_library **found)
{
	struct planned_library library = {.device = file->device, .inode = file->inode, .first_hook = {-1, -1, -1}};
	struct stat status;
	int fd = mapped_file_open(pid, file), error;

	*found = NULL;
	if (fd < 0)
		return fd;
	error = fstat(fd, &status) ? -errno : 0;
	if (error)
		goto cleanup;
	*found = library_known(session, file);
	if (*found && library_is_same(*found, &status))
		goto cleanup;
	/* Targets of the older file still have its plan; nobody else finds it. */
	if (*found)
		(*found)->device = (*found)->inode = 0;
	library.size = status.st_size;
	library.changed_ns = changed_ns(&status);
	*found = NULL;
	error = library_plan_new(session, fd, role, library, found);
cleanup:
	close(fd);
	return error;
}

static int library_take(
	struct session *session, struct target *target, const struct mapped_file *file, enum library_role role)
{
	struct planned_library *library;
	int error = library_plan_of(session, target->process.pid, file, role, &library);

	if (error == -EPERM || error == -EACCES)
		return error;
	/* A process that has gone says nothing about the file: the next one with it will. */
	if (error && error != -ENOENT && error != -ESRCH)
		session_tell(session, "%s: cannot be read as a library: %s", file->path, strerror(-error));
	if (!error)
		findings_tell(session, library->plan, file->path);
	/* Nothing to probe there. */
	if (error || (role == LIBRARY_PYTHON && !library->plan->python_runtime))
		return 0;
	error = library_plan_bias(library->plan, file->start, file->offset, &target->bias[role]);
	if (error)
		return error;
	target->libraries[role] = library->plan;
	free(target->library_paths[role]);
	target->library_paths[role] = strdup(file->path);
	return target->library_paths[role] ? 0 : -ENOMEM;
}

/* --- settings ------------------------------------------------------------------- */

static void settings_of_torch(struct target *target)
{
	const struct library_plan *plan = target->libraries[LIBRARY_TORCH_CPU];
	const struct torch_layout *layout = plan->torch;
	struct target_settings *settings = &target->settings;

	if (!layout)
		return;
	settings->keys_got = plan->keys_got ? target->bias[LIBRARY_TORCH_CPU] + plan->keys_got : 0;
	settings->keys_backend = layout->keys_backend;
	settings->keys_autograd = layout->keys_autograd;
	settings->keys_included_default = layout->keys_included_default;
	settings->keys_inplace = layout->keys_inplace;
	settings->keys_fallback = layout->keys_fallback;
	settings->keys_excluded_default = layout->keys_excluded_default;
	settings->tensor_storage = layout->tensor_storage;
	settings->tensor_elements = layout->tensor_elements;
	settings->storage_data = layout->storage_data;
	settings->storage_bytes = layout->storage_bytes - layout->storage_data;
	settings->optional_value = layout->optional_value;
	settings->optional_flag = layout->optional_flag;
	settings->accumulate_variable = layout->accumulate_variable;
	settings->operator_definition = layout->operator_definition;
	settings->definition_name = layout->definition_name;
}

/* How the nodes of autograd's graph are told: for full reports only. */
static void settings_of_nodes(const struct session *session, struct target *target)
{
	const struct library_plan *plan = target->libraries[LIBRARY_TORCH_CPU];
	uint64_t bias = target->bias[LIBRARY_TORCH_CPU];
	struct target_settings *settings = &target->settings;

	if (!plan->nodes.thread_offset || session->options->level != LEVEL_FULL)
		return;
	settings->node_counter_got = bias + plan->nodes.counter.got;
	settings->node_counter_offset = plan->nodes.counter.offset;
	settings->thread_number_got = bias + plan->nodes.thread.got;
	settings->thread_number_offset = plan->nodes.thread.offset;
	settings->node_sequence = plan->nodes.sequence_offset;
	settings->node_thread = plan->nodes.thread_offset;
	settings->late_node_class = plan->copy_slices ? bias + plan->copy_slices : 0;
}

static void code_find(
	const struct target *target, const struct mapped_file *files, enum library_role role, __u64 *start, __u64 *end)
{
	const struct mapped_file *file = target->libraries[role] ? library_file_of(files, target, role) : NULL;

	*start = file ? file->start : 0;
	*end = file ? file->end : 0;
}

/* Where the code lies by which memory is told apart. */
static void settings_of_code(struct target *target, const struct mapped_file *files)
{
	struct target_settings *settings = &target->settings;

	code_find(target, files, LIBRARY_TORCH_CPU, &settings->tensor_code_start, &settings->tensor_code_end);
	code_find(target, files, LIBRARY_TORCH_CUDA, &settings->device_code_start, &settings->device_code_end);
}

/* --- probes --------------------------------------------------------------------- */

int probes_set(struct session *session, struct target *target, const struct mapped_file *file,
	enum program_kind program, const uint64_t *offsets, const uint64_t *cookies, size_t count)
{
	pid_t pid = guess_is_for_all(session, program) ? -1 : target->process.pid;
	int fd = mapped_file_open(target->process.pid, file), link;

	if (fd < 0)
		return fd;
	link = tracer_attach(session->tracer, program, pid, fd, offsets, cookies, count);
	close(fd);
	if (link < 0)
		return link;
	if (program_is_of_host(program))
		arrput(target->host_links, link);
	else
		arrput(target->links, link);
	return link;
}

static bool point_is_wanted(const struct session *session, const struct plan_point *point)
{
	const struct device_choice *devices = &session->options->devices;

	if (point->full_only && session->options->level != LEVEL_FULL)
		return session->options->steps_told && point->program == PROGRAM_INVOKED;
	switch (point->program) {
	case PROGRAM_ALLOCATED:
	case PROGRAM_FREED:
		return device_choice_has_cpu(devices);
	/* One hit more for each block, of which it tells who asked for it. */
	case PROGRAM_REQUESTED:
		return !session->options->blocks_only && device_choice_has_accelerator(devices);
	case PROGRAM_DEVICE:
	case PROGRAM_CALLED:
	case PROGRAM_RETURNED:
	case PROGRAM_ENDED:
	case PROGRAM_EXHAUSTED:
	case PROGRAM_LAUNCHED:
	case PROGRAM_SOUGHT:
		return device_choice_has_accelerator(devices);
	default:
		return true;
	}
}

static int point_cookie(
	struct session *session, struct target *target, const struct plan_point *point, uint64_t *cookie)
{
	struct hook_description description = point->description;
	int name = 0, hook;

	if (point->name)
		name = target_name_add(session, target, point->name, 0);
	if (name < 0)
		return name;
	if (point->name && guess_is_for_all(session, point->program)) {
		struct guessed_name guessed = {(uint16_t)name, point->name};

		arrput(session->guess.names, guessed);
	}
	description.operator_ = (uint16_t)name;
	if (!point->described) {
		*cookie = COOKIE(target->index, (int)point->shift);
		return 0;
	}
	hook = tracer_hooks_add(session->tracer, &description, 1);
	if (hook < 0)
		return hook;
	arrput(target->hooks, hook);
	*cookie = COOKIE(target->index, hook);
	return 0;
}

int points_probe_program(struct session *session, struct target *target, const struct mapped_file *file,
	const struct library_plan *plan, enum program_kind program)
{
	uint64_t *offsets = NULL, *cookies = NULL, cookie = 0;
	int error = 0;

	if (guess_has(session, plan, program))
		return 0;
	for (ptrdiff_t index = 0; !error && index < arrlen(plan->points); index++) {
		const struct plan_point *point = &plan->points[index];

		if (point->program != program || !point_is_wanted(session, point))
			continue;
		error = point_cookie(session, target, point, &cookie);
		arrput(offsets, point->offset);
		arrput(cookies, cookie);
	}
	if (!error && offsets)
		error = probes_set(session, target, file, program, offsets, cookies, arrlenu(offsets));
	arrfree(offsets);
	arrfree(cookies);
	return error < 0 ? error : 0;
}

static int points_probe(
	struct session *session, struct target *target, const struct mapped_file *file, const struct library_plan *plan)
{
	int error = 0;

	for (int program = 0; !error && program < PROGRAMS; program++)
		error = points_probe_program(session, target, file, plan, program);
	if (session->guess.laying)
		arrput(session->guess.plans, plan);
	return error;
}

const struct mapped_file *library_file_of(
	const struct mapped_file *files, const struct target *target, enum library_role role)
{
	for (ptrdiff_t index = 0; index < arrlen(files); index++)
		if (library_role_of(files[index].path) == role &&
			!strcmp(files[index].path, target->library_paths[role]))
			return &files[index];
	return NULL;
}

/* Operators before the allocators: a block is then rarely without its operator. */
static const enum library_role probe_order[] = {LIBRARY_TORCH_CPU, LIBRARY_TORCH_PYTHON, LIBRARY_TORCH_CUDA,
	LIBRARY_STDCXX, LIBRARY_C10, LIBRARY_C10_CUDA, LIBRARY_CUDA_RUNTIME, LIBRARY_CUDA, LIBRARY_HIP, LIBRARY_ASCEND,
	LIBRARY_LEVEL_ZERO, LIBRARY_NCCL, LIBRARY_RCCL, LIBRARY_HCCL, LIBRARY_MPI, LIBRARY_PYTHON};

static int library_probe(
	struct session *session, struct target *target, const struct mapped_file *files, enum library_role role)
{
	const struct mapped_file *file = target->libraries[role] ? library_file_of(files, target, role) : NULL;
	int error = 0;

	if (!file || target->probed[role])
		return 0;
	target->probed[role] = true;
	if (role == LIBRARY_CUDA && file->inode == target->driver_inode)
		return 0; /* driver_ahead.c was there */
	if (role == LIBRARY_TORCH_CPU)
		error = operators_probe(session, target, file);
	return error ? error : points_probe(session, target, file, target->libraries[role]);
}

bool library_makes_target(enum library_role role)
{
	return library_is_of_devices(role) || library_is_of_collectives(role);
}

/* PyTorch's own only once all of them are there: the loader may be in the midst of mapping them. */
static bool library_may_be_probed(const struct target *target, enum library_role role)
{
	return target->torch_ready || library_makes_target(role);
}

static int libraries_probe(struct session *session, struct target *target, const struct mapped_file *files)
{
	int error = 0;

	for (size_t index = 0; !error && index < sizeof(probe_order) / sizeof(probe_order[0]); index++)
		if (library_may_be_probed(target, probe_order[index]))
			error = library_probe(session, target, files, probe_order[index]);
	return error;
}

static int target_probe(struct session *session, struct target *target, const struct mapped_file *files)
{
	int error;

	target->attach_time_ns = monotonic_ns();
	process_refresh(&target->process); /* right after an exec its environment was not there yet */
	target->settings.level = (uint16_t)session->options->level;
	settings_of_torch(target);
	settings_of_nodes(session, target);
	python_settings(session, target);
	settings_of_code(target, files);
	error = hook_set_choose(session, target);
	if (error)
		return error;
	if (!target->from_start)
		target_torch_check(session, target);
	/*
	 * In the middle of a job the programs look away until all probes are there: what runs meanwhile would be a
	 * wrong sequence of operators. A job that is still loading PyTorch runs none.
	 */
	target->settings.ready = target->from_start;
	target->settings.attached = !target->from_start;
	error = tracer_target_set(session->tracer, target->index, &target->settings);
	if (!error)
		error = target_describe(session, target);
	if (!error)
		error = libraries_probe(session, target, files);
	if (!error && !target->from_start)
		boxed_probe(session, target);
	target->settings.ready = true;
	if (!error)
		error = tracer_target_set(session->tracer, target->index, &target->settings);
	return error;
}

/* Layouts and operators of PyTorch: known once both of its libraries are there. */
static int torch_plan_take(struct session *session, struct target *target)
{
	struct library_plan *plan = torch_of(session, target)->plan;
	int error = torch_plan_make(plan, target->libraries[LIBRARY_C10], !session->options->blocks_only);

	findings_tell(session, plan, target->library_paths[LIBRARY_TORCH_CPU]);
	if (error)
		session_tell(session, "%s: its operators cannot be read: %s", target->library_paths[LIBRARY_TORCH_CPU],
			strerror(-error));
	return error;
}

/* Libraries that came when the target was probed already: those of devices are mapped after PyTorch's own. */
static int target_probe_more(struct session *session, struct target *target, const struct mapped_file *files)
{
	bool more = false;
	int error;

	for (int role = 0; role < LIBRARY_ROLES; role++)
		more |= target->libraries[role] && !target->probed[role] &&
		        library_may_be_probed(target, (enum library_role)role);
	if (!more)
		return 0;
	settings_of_code(target, files);
	error = tracer_target_set(session->tracer, target->index, &target->settings);
	if (!error)
		error = target_describe(session, target);
	if (!error)
		error = libraries_probe(session, target, files);
	if (!error && target->torch_checked)
		boxed_probe(session, target);
	return error;
}

static bool is_plan_of(const struct session *session, const struct library_plan *plan, const struct mapped_file *file)
{
	for (ptrdiff_t index = 0; index < arrlen(session->libraries); index++)
		if (session->libraries[index].plan == plan && session->libraries[index].inode == file->inode)
			return true;
	return false;
}

/* Where another file of a role is mapped than was guessed, that is taken. */
static void guess_correct(
	const struct session *session, struct target *target, const struct mapped_file *files, enum library_role role)
{
	bool mapped = false;

	for (ptrdiff_t index = 0; index < arrlen(files); index++) {
		if (library_role_of(files[index].path) != role)
			continue;
		if (is_plan_of(session, target->libraries[role], &files[index]))
			return;
		mapped = true;
	}
	if (mapped) {
		target->libraries[role] = NULL;
		target->probed[role] = false;
	}
}

static int libraries_find(struct session *session, struct target *target, const struct mapped_file *files)
{
	int error = 0;

	for (ptrdiff_t index = 0; !error && index < arrlen(files); index++) {
		enum library_role role = library_role_of(files[index].path);

		if (target->guessed && library_makes_target(role) && target->libraries[role])
			guess_correct(session, target, files, role);
		if (role != LIBRARY_NONE && !target->libraries[role])
			error = library_take(session, target, &files[index], role);
	}
	return error;
}

static bool has_library(const struct target *target, bool (*wanted)(enum library_role role))
{
	bool found = false;

	for (int role = 0; role < LIBRARY_ROLES; role++)
		found |= wanted((enum library_role)role) && target->libraries[role];
	return found;
}

int caller_probe(struct session *session, struct target *target, const struct mapped_file *file)
{
	struct planned_library *library;
	int error;

	if (library_role_of(file->path) != LIBRARY_NONE || hmgeti(target->callers, file->inode) >= 0)
		return 0;
	hmput(target->callers, file->inode, true);
	error = library_plan_of(session, target->process.pid, file, LIBRARY_CALLER, &library);
	if (error)
		return 0;
	findings_tell(session, library->plan, file->path);
	return points_probe(session, target, file, library->plan);
}

/*
 * The program and its libraries call those of devices and collectives, where there
 * is no PyTorch to do it. A Python process may be about to load it: there is no time to look at
 * the many files that it maps, unless it joins a job of MPI first.
 */
static int callers_probe(struct session *session, struct target *target, const struct mapped_file *files)
{
	int error = 0;

	if (target->libraries[LIBRARY_TORCH_CPU] || target->libraries[LIBRARY_C10] ||
		(target->libraries[LIBRARY_PYTHON] && !has_library(target, library_is_of_collectives)))
		return 0;
	for (ptrdiff_t index = 0; !error && index < arrlen(files); index++)
		error = caller_probe(session, target, &files[index]);
	return error;
}

struct library_plan *library_plan_ahead(struct session *session, const char *path, enum library_role role)
{
	struct mapped_file file = {.path = (char *)path};
	struct planned_library *library;
	struct stat status;

	if (stat(path, &status))
		return NULL;
	file.device = status.st_dev;
	file.inode = status.st_ino;
	return library_plan_of(session, 0, &file, role, &library) ? NULL : library->plan;
}

int library_probe_ahead(
	struct session *session, struct target *target, const struct mapped_file *file, enum library_role role)
{
	struct planned_library *library;
	int error = library_plan_of(session, target->process.pid, file, role, &library);

	if (error)
		return 0; /* it is looked at again when it is mapped */
	findings_tell(session, library->plan, file->path);
	target->libraries[role] = library->plan;
	target->library_paths[role] = strdup(file->path);
	if (!target->library_paths[role])
		return -ENOMEM;
	target->probed[role] = true;
	target->ahead = target->from_start = true;
	if (!target->announced) {
		target->settings.level = (uint16_t)session->options->level;
		target->settings.family = session->guess.laying ? (uint32_t)target->process.pid : 0;
		target->settings.ready = true;
		error = tracer_target_set(session->tracer, target->index, &target->settings);
		if (!error)
			error = target_describe(session, target);
	}
	return error ? error : points_probe(session, target, file, target->libraries[role]);
}

int library_probe_unmapped(
	struct session *session, struct target *target, const struct mapped_file *file, enum library_role role)
{
	struct planned_library *library;
	int error = library_plan_of(session, target->process.pid, file, role, &library);

	if (error)
		return 0; /* it is looked at again when it is mapped */
	error = points_probe(session, target, file, library->plan);
	elf_file_release(library->plan->elf);
	return error;
}

static bool has_pytorch(const struct target *target)
{
	return target->libraries[LIBRARY_TORCH_CPU] && target->libraries[LIBRARY_C10];
}

/* A program that uses devices or libraries of collectives without PyTorch, or before it loads it. */
static int target_probe_alone(struct session *session, struct target *target, const struct mapped_file *files)
{
	int error;

	target->attach_time_ns = monotonic_ns();
	target->settings.level = (uint16_t)session->options->level;
	target->settings.ready = true;
	/* It imported the library itself; of PyTorch, which brings its own, no operator may be near. */
	if (has_library(target, library_is_of_collectives) && !target->libraries[LIBRARY_TORCH_CPU])
		python_settings(session, target);
	error = tracer_target_set(session->tracer, target->index, &target->settings);
	if (!error)
		error = target_describe(session, target);
	/*
	 * What tells of communicators when a call returns has time: the files of callers are many, and other ranks
	 * may wait to be probed. Memory may be given right away.
	 */
	if (!error && has_library(target, library_is_of_devices))
		error = callers_probe(session, target, files);
	else
		target->maps_stale = true;
	return error ? error : libraries_probe(session, target, files);
}

/* What probes need of them is planned: the next process that maps them takes it from there. */
static void libraries_rest(const struct target *target)
{
	for (int role = 0; role < LIBRARY_ROLES; role++)
		if (target->libraries[role] && target->probed[role])
			elf_file_release(target->libraries[role]->elf);
}

int target_scan(struct session *session, struct target *target)
{
	bool first = !target->scanned;
	struct mapped_file *files;
	int error;

	target->maps_stale = false;
	if (target->ended)
		return 0;
	error = maps_read(target->process.pid, &files);
	if (error)
		return error;
	target->scan_time_ns = monotonic_ns();
	error = libraries_find(session, target, files);
	target->scanned = true;
	if (!error)
		error = library_handles_read(session, target, files);
	if (!error && has_pytorch(target) && !target->torch_ready) {
		target->torch_ready = true;
		target->from_start = !first;
		error = torch_plan_take(session, target);
		if (!error)
			error = target_probe(session, target, files);
	} else if (!error && target->announced) {
		error = callers_probe(session, target, files);
		if (!error)
			error = target_probe_more(session, target, files);
	} else if (!error && has_library(target, library_makes_target)) {
		target->from_start = !first;
		error = target_probe_alone(session, target, files);
	}
	/* The loader may have mapped PyTorch's own libraries for devices after the others. */
	if (!error)
		error = driver_probe_ahead(session, target);
	libraries_rest(target);
	maps_free(files);
	return error;
}
