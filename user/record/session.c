// SPDX-License-Identifier: BSD-2-Clause
/* What goes into the capture beside the events: how it was made, of whom, and what was lost. */
#include "record/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "containers/containers.h"
#include "target/tree.h"

static void message_send(const struct session *session, const char *format, va_list arguments)
{
	const struct record_sink *sink = session->options->sink;
	char *message;

	if (vasprintf(&message, format, arguments) < 0)
		return;
	if (sink && sink->tell)
		sink->tell(sink->context, message);
	else
		fprintf(stderr, "hdtrace: %s\n", message);
	free(message);
}

void session_tell(const struct session *session, const char *format, ...)
{
	va_list arguments;

	if (session->options->quiet)
		return;
	va_start(arguments, format);
	message_send(session, format, arguments);
	va_end(arguments);
}

void session_warn(const struct session *session, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	message_send(session, format, arguments);
	va_end(arguments);
}

void capture_check(struct session *session, struct target *target, int error)
{
	if (!error)
		return;
	if (target)
		target->lost_capture++;
	/* A record that breaks its bounds is lost, the next one can be written. */
	if (!session->capture_error && error != -EBADMSG && error != -E2BIG) {
		session->capture_error = error;
		session_warn(session, "cannot write %s: %s; the trace ends, what was written until now is reported",
			session->options->capture_path, strerror(-error));
	}
}

void session_keep(struct session *session, struct target *target, const struct event *record)
{
	capture_check(session, target, capture_writer_append(session->capture, record));
}

void session_keep_code(struct session *session, struct target *target, const struct python_code *code)
{
	struct capture_code kept = {
		.code = code->address,
		.first_instruction = code->first_instruction,
		.first_line = code->first_line,
		.table_format = code->table_format,
		.file = code->file,
		.name = code->name,
		.qualified_name = code->qualified_name,
		.table = code->table,
		.table_length = code->table_length,
	};

	capture_check(session, target, capture_writer_code(session->capture, target->index, &kept));
}

static void target_keep_losses(struct session *session, struct target *target)
{
	struct event_counters counters;

	if (!target->announced || tracer_counters(session->tracer, target->index, &counters))
		return;
	counters.received = target->received;
	counters.lost[LOSS_CODE] += target->lost_code;
	counters.lost[LOSS_CAPTURE] += target->lost_capture;
	capture_check(session, NULL, capture_writer_loss(session->capture, target->index, &counters));
}

void session_keep_losses(struct session *session)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		target_keep_losses(session, session->targets[index]);
}

/* --- JSON records ------------------------------------------------------------ */

static yajl_gen json_begin(void)
{
	yajl_gen json = yajl_gen_alloc(NULL);

	if (json)
		yajl_gen_map_open(json);
	return json;
}

static void json_key(yajl_gen json, const char *key)
{
	yajl_gen_string(json, (const unsigned char *)key, strlen(key));
}

static void json_text(yajl_gen json, const char *key, const char *text)
{
	json_key(json, key);
	if (text)
		yajl_gen_string(json, (const unsigned char *)text, strlen(text));
	else
		yajl_gen_null(json);
}

static void json_number(yajl_gen json, const char *key, long long number)
{
	json_key(json, key);
	yajl_gen_integer(json, number);
}

static void json_flag(yajl_gen json, const char *key, bool flag)
{
	json_key(json, key);
	yajl_gen_bool(json, flag);
}

static int json_keep(struct session *session, yajl_gen json, uint16_t kind, struct target *target)
{
	const unsigned char *text;
	size_t length;
	int error;

	if (!json)
		return -ENOMEM;
	yajl_gen_map_close(json);
	error = yajl_gen_get_buf(json, &text, &length) == yajl_gen_status_ok ? 0 : -ENOMEM;
	if (!error)
		error = capture_writer_text(session->capture, kind, target ? target->index : 0, (const char *)text);
	yajl_gen_free(json);
	capture_check(session, target, error);
	return error;
}

static const char *level_name(const struct session *session)
{
	return session->options->level == LEVEL_LITE ? "lite" : "full";
}

static int session_describe(struct session *session)
{
	yajl_gen json = json_begin();
	struct utsname system;

	if (!json)
		return -ENOMEM;
	uname(&system);
	json_text(json, "hdtrace_version", HDTRACE_VERSION);
	json_text(json, "host", system.nodename);
	json_text(json, "kernel", system.release);
	json_text(json, "machine", system.machine);
	json_text(json, "level", level_name(session));
	json_number(json, "ring_size", (long long)session->options->ring_size);
	return json_keep(session, json, CAPTURE_SESSION, NULL);
}

/* The step counter reads along what goes into the capture. */
static void step_counter_take(void *context, const struct event *record)
{
	struct session *session = context;
	int error = session->steps_error ? session->steps_error : replay_record(session->replay, record);

	if (!error || session->steps_error)
		return;
	session->steps_error = error;
	session_tell(session, "steps can no longer be counted (%s): end the trace by an interrupt", strerror(-error));
}

/* Open the capture, unless it is, and describe the session in it (CAPTURE_SESSION); what goes wrong is told. */
static int session_capture_open(struct session *session)
{
	const struct record_sink *sink = session->options->sink;
	const char *path = session->options->capture_path;
	int error;

	if (session->capture)
		return 0;
	error = path ? capture_writer_open(path, &session->capture) : capture_writer_fileless(&session->capture);
	if (error) {
		session_warn(session, "cannot create %s: %s; choose another folder with -o", path ? path : "a writer",
			strerror(-error));
		session->capture_error = error;
		return error;
	}
	if (session->replay)
		capture_writer_observe(session->capture, step_counter_take, session);
	if (sink && sink->take)
		capture_writer_observe(session->capture, sink->take, sink->context);
	return session_describe(session);
}

static void json_version(yajl_gen json, const char *key, const struct library_plan *plan)
{
	char text[32]; /* two ints and a dot */

	snprintf(text, sizeof(text), "%d.%d", plan ? plan->version_major : 0, plan ? plan->version_minor : 0);
	json_text(json, key, plan && plan->version_major ? text : NULL);
}

static void json_place(yajl_gen json, const char *key, int32_t number)
{
	json_key(json, key);
	if (number == IDENTITY_UNKNOWN)
		yajl_gen_null(json);
	else
		yajl_gen_integer(json, number);
}

static void json_identity(yajl_gen json, const struct session *session, const struct identity *identity)
{
	const char *order = session->options->command ? "order of start" : "order of pid";

	json_place(json, "rank", identity->rank);
	json_text(json, "rank_source", identity->rank_source ? identity->rank_source : order);
	json_place(json, "world_size", identity->world_size);
	json_text(json, "world_size_source", identity->world_size_source);
	json_place(json, "local_rank", identity->local_rank);
	json_text(json, "local_rank_source", identity->local_rank_source);
	json_text(json, "job", *identity->job ? identity->job : NULL);
	json_text(json, "job_source", identity->job_source);
	json_text(json, "identity_fault", *identity->fault ? identity->fault : NULL);
}

/* Who is started by one and the same process is of one job. */
static void job_of_family(const struct session *session, struct target *target)
{
	const struct target *first = session->targets[target->parent];

	while (first->parent >= 0)
		first = session->targets[first->parent];
	snprintf(target->identity.job, sizeof(target->identity.job), "job_of_pid_%d", first->process.pid);
	target->identity.job_source = "launcher";
}

/* Read again with each description: an exec may bring another environment. */
static void identity_take(const struct session *session, struct target *target)
{
	bool first = !target->announced;

	identity_read(&target->process, &target->identity);
	if (!*target->identity.job && target->parent >= 0)
		job_of_family(session, target);
	if (first && *target->identity.fault)
		session_tell(session, "pid %d: %s", target->process.pid, target->identity.fault);
}

/* Settings of allocators and devices, those that are set. */
static void json_environment(yajl_gen json, const struct process *process)
{
	static const char *const names[] = {"ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
		"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
		"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NPU_ALLOC_CONF"};

	json_key(json, "environment");
	yajl_gen_map_open(json);
	for (size_t index = 0; index < sizeof(names) / sizeof(names[0]); index++) {
		const char *value = process_environment(process, names[index]);

		if (value)
			json_text(json, names[index], value);
	}
	yajl_gen_map_close(json);
}

/*
 * The back end of the allocator of devices, by its settings; NULL: there is none.
 * Format: PyTorch's notes on CUDA semantics, "option:value,…".
 */
static void json_device_allocator(yajl_gen json, const struct target *target)
{
	static const char option[] = "backend:";
	const char *settings = process_environment(&target->process, "PYTORCH_CUDA_ALLOC_CONF");
	const char *backend = settings ? strstr(settings, option) : NULL;

	json_key(json, "device_allocator");
	if (!target->libraries[LIBRARY_C10_CUDA]) {
		yajl_gen_null(json);
		return;
	}
	backend = backend ? backend + strlen(option) : "native";
	yajl_gen_string(json, (const unsigned char *)backend, strcspn(backend, ","));
}

static void json_libraries(yajl_gen json, const struct target *target)
{
	json_key(json, "libraries");
	yajl_gen_array_open(json);
	for (int role = LIBRARY_NONE + 1; role < LIBRARY_ROLES; role++) {
		if (!target->libraries[role])
			continue;
		yajl_gen_map_open(json);
		json_text(json, "role", library_role_name((enum library_role)role));
		json_text(json, "path", target->library_paths[role]);
		json_text(json, "build_id", target->libraries[role]->build_id);
		yajl_gen_map_close(json);
	}
	yajl_gen_array_close(json);
}

int target_name_add(struct session *session, struct target *target, const char *name, uint32_t flags)
{
	uint32_t index = EXTRA_NAMES_FIRST + target->extra_names;
	int error;

	if (index > UINT16_MAX)
		return -ENOSPC;
	error = capture_writer_operator(session->capture, target->index, (uint16_t)index, name, flags);
	capture_check(session, target, error);
	target->extra_names++;
	return error ? error : (int)index;
}

int target_describe(struct session *session, struct target *target)
{
	const struct library_plan *torch = target->libraries[LIBRARY_TORCH_CPU];
	int error = session_capture_open(session);
	yajl_gen json = error ? NULL : json_begin();
	struct utsname system;

	if (!json)
		return error ? error : -ENOMEM;
	uname(&system);
	identity_take(session, target);
	json_number(json, "pid", target->process.pid);
	json_number(json, "namespace_pid", process_namespace_pid(target->process.pid));
	json_number(json, "uid", target->process.uid);
	json_text(json, "command", target->process.command);
	json_text(json, "executable", target->process.executable);
	json_text(json, "kernel_version", system.release);
	json_identity(json, session, &target->identity);
	if (target->parent >= 0)
		json_number(json, "parent", target->parent);
	json_flag(json, "forked", target->forked);
	json_environment(json, &target->process);
	json_device_allocator(json, target);
	json_flag(json, "from_start", target->from_start);
	json_number(json, "attach_time_ns", (long long)target->attach_time_ns);
	json_text(json, "level", level_name(session));
	json_text(json, "hooks", target->hook_set == HOOK_SET_SPARSE ? "sparse" : "plain");
	json_number(
		json, "hook_count", torch && !target->torch_refused ? arrlen(torch->sets[target->hook_set].hooks) : 0);
	json_number(json, "inference_gap_ns", (long long)target->inference_gap_ns);
	json_version(json, "torch_version", torch);
	json_version(json, "python_version", target->libraries[LIBRARY_PYTHON]);
	if (target->libraries[LIBRARY_PYTHON])
		json_flag(json, "python_stacks", target->settings.python_thread_slot != 0);
	json_libraries(json, target);
	error = json_keep(session, json, CAPTURE_TARGET, target);
	for (ptrdiff_t name = 0; torch && !error && name < arrlen(torch->operator_names); name++)
		error = capture_writer_operator(session->capture, target->index, (uint16_t)name,
			torch->operator_names[name], torch->operator_flags[name]);
	/* Now, so that whatever becomes of us, the events that follow can be read. */
	if (!error)
		error = capture_writer_flush(session->capture);
	capture_check(session, NULL, error);
	target->announced = !error;
	return error;
}

/* What tells most of a rank that hangs. */
static void json_stand(yajl_gen json, struct target *target)
{
	struct frame *frames = python_stand(target);

	json_key(json, "python_stack");
	yajl_gen_array_open(json);
	for (ptrdiff_t index = 0; index < arrlen(frames); index++) {
		const struct frame *frame = &frames[index];
		char *text;

		if (asprintf(&text, "%s:%u %s", frame->file, frame->line, frame->function) < 0)
			continue;
		yajl_gen_string(json, (const unsigned char *)text, strlen(text));
		free(text);
	}
	yajl_gen_array_close(json);
	recording_stand_free(frames);
}

void target_quiet(struct session *session, struct target *target)
{
	if (target->end_time_ns)
		return;
	target->end_time_ns = monotonic_ns();
	target->settings.ready = false;
	if (target->announced)
		tracer_target_set(session->tracer, target->index, &target->settings);
}

void target_end(struct session *session, struct target *target, const char *reason)
{
	yajl_gen json;
	bool alive;

	if (target->ended)
		return;
	target_quiet(session, target);
	target->ended = true;
	/* Before the end, so that a capture with an end has the losses too. */
	target_keep_losses(session, target);
	alive = process_is_alive(&target->process) && strcmp(reason, "finalize") != 0;
	json = target->announced ? json_begin() : NULL;
	if (!json)
		return;
	json_text(json, "reason", reason);
	json_number(json, "time_ns", (long long)target->end_time_ns);
	json_number(json, "forked_children", arrlen(target->fork_children));
	if (objects_whole(target) >= 0)
		json_flag(json, "objects_whole", objects_whole(target));
	inputs_put(json, target);
	if (alive)
		json_stand(json, target);
	json_keep(session, json, CAPTURE_END, target);
}
