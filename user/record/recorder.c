// SPDX-License-Identifier: BSD-2-Clause
/*
 * The loop of a recording: records from the ring go into the capture, new
 * libraries get their probes, and the trace ends at the first of its reasons.
 */
#include "record/recorder.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "containers/containers.h"
#include "record/command.h"
#include "record/session.h"
#include "record/window.h"
#include "record/words.h"
#include "target/watch.h"

#define NANOSECONDS 1000000000ull
#define POLL_MILLISECONDS 20
/* A killed recorder loses at most so much: the capture's last chunk. */
#define FLUSH_NANOSECONDS NANOSECONDS
#define PROGRESS_NANOSECONDS (NANOSECONDS / 2)
/* Where perf events are forbidden, maps are read again and again instead. */
#define RESCAN_NANOSECONDS (NANOSECONDS / 20)

/* So long a child that forked may take to exec. */
#define FORK_NANOSECONDS (NANOSECONDS / 50)

/* Planning races with a target that is importing its libraries, and reading with one that fills the ring. */
#define RECORDER_NICE (-10)

struct recorder {
	struct session session;
	struct record_result *result;
	struct watch *watch; /* NULL: not allowed here */
	int epoll, signals;
	struct command_setting usual; /* how a command that is started is to find itself */
	uint64_t start, last_flush, last_progress, last_rescan;
	struct window_state window;
	bool out_of_memory; /* some allocator of a device was */
	bool progress;      /* a terminal shows it */
};

static const char *const end_reasons[] = {
	[RECORD_END_EXIT] = "exit",
	[RECORD_END_DURATION] = "duration",
	[RECORD_END_STEPS] = "steps",
	[RECORD_END_SIGNAL] = "interrupt",
	[RECORD_END_CAPTURE] = "capture",
	[RECORD_END_OUT_OF_MEMORY] = "out_of_memory",
	[RECORD_END_SINK] = "interrupt",
};

/* --- records ---------------------------------------------------------------------- */

/* A child that execs leaves what it had of its parent. */
static void forked_forget(struct session *session, pid_t pid)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++) {
		pid_t *forked = session->targets[index]->fork_children;

		for (ptrdiff_t child = arrlen(forked) - 1; child >= 0; child--)
			if (forked[child] == pid)
				arrdelswap(forked, child);
	}
}

static void forked_keep(struct session *session, pid_t parent, pid_t pid)
{
	struct target *target = target_find(session, parent);

	if (target && target->announced && !target->ended)
		arrput(target->fork_children, pid);
}

/* Does a child of it that does not exec have PyTorch? */
static bool forks_torch(struct session *session, pid_t parent)
{
	const struct target *target = target_find(session, parent);

	if (!target || target->ahead)
		return false;
	return target->candidate ? target->forked : target->announced && !target->ended;
}

/* Launchers and loaders of data run operators too, but neither of these. */
static bool record_trains(const struct event *record)
{
	return record->kind == EVENT_GRADIENT || record->kind == EVENT_COLLECTIVE ||
	       record->kind == EVENT_LIBRARY_COLLECTIVE ||
	       (record->kind == EVENT_OPERATOR && record->flags & EVENT_BACKWARD);
}

/* Ranges of the profiler, with their stacks, for a sink that counts steps: reports of that level have neither. */
static void range_tell(struct session *session, struct target *target, const struct invoked_event *record)
{
	const struct record_sink *sink = session->options->sink;
	struct operator_buffer translated;
	const struct event *range = target->announced ? invoked_translate(session, target, record, &translated) : NULL;

	if (!range || !sink || !sink->take)
		return;
	codes_keep(session, target, range);
	sink->take(sink->context, range);
}

static void record_handle(void *context, const struct event *record, size_t size)
{
	struct recorder *recorder = context;
	struct session *session = &recorder->session;
	struct operator_buffer translated;
	struct library_buffer completed;
	struct segment_event given;
	struct target *target;

	if (size < sizeof(*record) || record->target >= arrlen(session->targets))
		return;
	target = session->targets[record->target];
	session->records++;
	session->bytes += size;
	target->received++;
	if (record->kind == EVENT_SEGMENT && target == session->guess.root) {
		record = guess_translate(session, (const void *)record, &given);
		if (!record)
			return;
		target = session->targets[record->target];
	}
	if (target->ended)
		return;
	if (record->kind == EVENT_CODE) {
		code_take(session, target, (const void *)record, size);
		return;
	}
	if (record->kind == EVENT_KERNEL_NAME) {
		kernel_name_keep(session, target, (const void *)record, size);
		return;
	}
	if (record->kind == EVENT_INFERENCE) {
		target_use_plain(session, target, record->time_ns);
		return;
	}
	if (record->kind == EVENT_INVOKED && session->options->level == LEVEL_LITE) {
		range_tell(session, target, (const void *)record);
		return;
	}
	/* One of the first: a started job loads PyTorch after its probes are set. */
	if (record->kind == EVENT_OPERATOR) {
		if (!target_torch_check(session, target))
			return;
		boxed_probe(session, target);
	}
	if (record->kind == EVENT_INVOKED)
		record = invoked_translate(session, target, (const void *)record, &translated);
	else if (record->kind == EVENT_LIBRARY_COLLECTIVE)
		record = library_translate(target, (const void *)record, &completed);
	if (!record)
		return;
	if (!target->trained && record_trains(record)) {
		target->trained = true;
		forked_forget(session, target->process.pid);
	}
	if (record->flags & EVENT_STACK) {
		codes_keep(session, target, record);
		objects_meet(session, target, record);
	}
	if (record->kind == EVENT_FINALIZE)
		objects_walk_end(session, target);
	symbols_keep(session, target, record);
	owners_keep(session, target, record->time_ns);
	session_keep(session, target, record);
	peak_follow(target, record);
	/* What held the memory goes with the frames that the exception leaves. */
	if (record->kind == EVENT_OUT_OF_MEMORY)
		objects_walk_now(session, target);
	if (record->kind == EVENT_FINALIZE)
		target_end(session, target, "finalize");
	/* The report is of this moment, however fast the job goes on to its end. */
	if (record->kind == EVENT_OUT_OF_MEMORY && session->options->until_oom) {
		recorder->out_of_memory = true;
		owners_keep(session, target, UINT64_MAX);
		target_end(session, target, end_reasons[RECORD_END_OUT_OF_MEMORY]);
	}
}

static void marker_keep(struct session *session, struct target *target, uint16_t kind)
{
	struct event marker = {
		.time_ns = monotonic_ns(),
		.size = sizeof(marker),
		.thread_id = (uint32_t)target->process.pid,
		.kind = kind,
		.target = target->index,
	};

	if (target->announced && !target->ended)
		session_keep(session, target, &marker);
}

/* --- life of targets ---------------------------------------------------------------- */

static void target_execed(struct recorder *recorder, struct target *target)
{
	struct session *session = &recorder->session;

	if (target->ahead) {
		process_refresh(&target->process);
		target->maps_stale = true; /* it may be another one than was awaited */
		if (target->guessed && !target_is_awaited(target))
			return;
		target->ahead = false;
		if (!target_describe(session, target))
			target->maps_stale = true;
		return;
	}
	if (!target->candidate) {
		tracer_read(session->tracer);
		if (target->announced && target->received) {
			/* What was traced belongs to the old image; the new one is another trace. */
			marker_keep(session, target, EVENT_EXEC);
			target_end(session, target, "exec");
			candidate_add(session, target->process.pid, target->index);
			return;
		}
		target->announced = false;
		target_forget_image(session, target);
	}
	process_refresh(&target->process);
	target->forked = false;
	target->maps_stale = true;
}

/* A child that forked has all of its parent, unless it execs, which is soon. */
static void child_follow(struct session *session, pid_t parent, pid_t pid)
{
	int32_t family = family_find(session, parent);

	if (family < 0)
		return;
	forked_keep(session, parent, pid);
	if (!candidate_add(session, pid, family))
		arrlast(session->candidates)->forked = forks_torch(session, parent);
}

static void watch_handle(void *context, const struct watch_event *event)
{
	struct recorder *recorder = context;
	struct session *session = &recorder->session;
	struct target *target = target_find(session, event->pid);

	switch (event->kind) {
	case WATCH_MAPPED:
		if (!target && session->options->stay && library_role_of(event->name) == LIBRARY_TORCH_CPU &&
			!candidate_add(session, event->pid, -1))
			target = arrlast(session->candidates);
		/* Once a target is probed, only a library that has something to probe is of interest. */
		if (target && (!target->announced || library_role_of(event->name) != LIBRARY_NONE))
			target->maps_stale = true;
		break;
	case WATCH_EXEC:
		forked_forget(session, event->pid);
		if (target && event->time_ns > target->image_time_ns)
			target_execed(recorder, target);
		else if (target)
			target->forked = false;
		break;
	case WATCH_FORKED:
		if (!target)
			child_follow(session, event->parent, event->pid);
		break;
	case WATCH_LOST:
		recorder->last_rescan = 0;
		break;
	}
}

/* What a probed target may still map are the libraries of devices: there is no hurry. */
static bool rescan_is_due(const struct target *target, uint64_t now)
{
	return now - target->scan_time_ns > (target->announced ? NANOSECONDS : RESCAN_NANOSECONDS);
}

/* One that forked is given the time to exec instead; then it is not looked at for what it maps, but for what it has. */
static bool candidate_is_due(const struct target *candidate, uint64_t now, bool all)
{
	if (candidate->forked)
		return now - candidate->scan_time_ns > FORK_NANOSECONDS;
	return all || candidate->maps_stale;
}

static void maps_rescan(struct recorder *recorder)
{
	struct session *session = &recorder->session;
	uint64_t now = monotonic_ns();
	bool all = (!recorder->watch || !recorder->last_rescan) && now - recorder->last_rescan > RESCAN_NANOSECONDS;

	if (all)
		recorder->last_rescan = now;
	/* First: a new one may be about to do something. */
	for (ptrdiff_t index = arrlen(session->candidates) - 1; index >= 0; index--)
		if (candidate_is_due(session->candidates[index], now, all))
			candidate_scan(session, session->candidates[index]);
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++) {
		struct target *target = session->targets[index];
		int error;

		if (target->ended || !(target->maps_stale || (all && rescan_is_due(target, now))))
			continue;
		error = target_scan(session, target);
		if (error && !session->capture_error && error != -ESRCH && process_is_alive(&target->process))
			session_tell(session, "pid %d: cannot set probes: %s", target->process.pid, strerror(-error));
	}
}

static void candidates_drop_dead(struct session *session)
{
	for (ptrdiff_t index = arrlen(session->candidates) - 1; index >= 0; index--) {
		struct target *candidate = session->candidates[index];

		if (process_is_alive(&candidate->process))
			continue;
		process_close(&candidate->process);
		free(candidate);
		arrdel(session->candidates, index);
	}
}

/* Returns whether any process is left to trace. */
static bool targets_check(struct recorder *recorder)
{
	struct session *session = &recorder->session;
	bool left = false;

	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++) {
		struct target *target = session->targets[index];

		if (target->ended)
			continue;
		if (process_is_alive(&target->process)) {
			left = true;
			continue;
		}
		tracer_read(session->tracer); /* a dead process sends nothing more */
		owners_keep(session, target, UINT64_MAX);
		marker_keep(session, target, EVENT_EXIT);
		target_end(session, target, "exit");
		/* Each hit of another target passes by all links of a place. Those of a guess are for others too. */
		if (target != session->guess.root)
			target_forget_image(session, target);
	}
	candidates_drop_dead(session);
	return left || arrlen(session->candidates) || session->options->stay;
}

/* --- set-up ---------------------------------------------------------------------------------- */

static const char *open_advice(int error)
{
	switch (-error) {
	case ESRCH:
		return "there is no such process; see `ps -ef`";
	case ENOTSUP:
		return "this is a thread, give the pid of its process";
	case EPERM:
	case EACCES:
		return geteuid() ? "no permission; run hdtrace as root (sudo)"
		                 : "no permission, though this is root; `hdtrace doctor` tells which capability is "
		                   "missing";
	case EDEADLK:
		return "this is hdtrace itself";
	case ENOEXEC:
		return "this is a kernel thread, no job";
	case ENOSPC:
		return "too many processes for one hdtrace";
	}
	return strerror(-error);
}

/* Every process is looked at before the first is probed: all or none. */
static int pids_open(struct session *session)
{
	for (int index = 0; index < session->options->pid_count; index++) {
		pid_t pid = session->options->pids[index];
		struct target *target;
		int error = pid == getpid() ? -EDEADLK : target_add(session, pid, &target);

		if (!error && !process_has_memory(&target->process))
			error = -ENOEXEC;
		if (error) {
			fprintf(stderr, "hdtrace: pid %d: %s\n", pid, open_advice(error));
			return error;
		}
	}
	return 0;
}

/* A launcher need not have PyTorch, when those that it launched have. */
static int wait_for_torch(struct session *session, const struct target *target)
{
	char *command, **words = NULL;
	int error;

	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		if (session->targets[index]->parent == target->index)
			return 0;
	if (target->announced)
		return 0;
	session_tell(session, "pid %d (%s) has not loaded PyTorch (no libtorch_cpu and libc10 mapped); waiting for it",
		target->process.pid, target->process.command);
	command = strndup(target->process.command, strcspn(target->process.command, " "));
	if (!command)
		return -ENOMEM;
	arrput(words, command);
	error = torch_plan_ahead(session, words);
	words_free(words);
	return error;
}

static int pids_add(struct session *session)
{
	int error = pids_open(session);
	ptrdiff_t given = arrlen(session->targets);

	for (ptrdiff_t index = 0; !error && index < given; index++) {
		struct target *target = session->targets[index];
		pid_t pid = target->process.pid;

		error = target_scan(session, target);
		if (error == -ESRCH || (error && !process_is_alive(&target->process))) {
			session_tell(session, "pid %d has just ended", pid);
			error = 0;
			continue;
		}
		if (error && !session->capture_error)
			fprintf(stderr, "hdtrace: pid %d: %s\n", pid, open_advice(error));
		if (error)
			return error;
		error = children_add(session, pid, target->index);
		if (!error)
			error = wait_for_torch(session, target);
	}
	if (!error && session->options->all_pids)
		error = children_add(session, 0, -1);
	if (!error && !arrlen(session->targets) && !session->options->stay) {
		fprintf(stderr, "hdtrace: no process has loaded PyTorch (no libtorch_cpu mapped); start the job first, "
				"or use `hdtrace run`\n");
		return -ESRCH;
	}
	return error;
}

static int interest_add(struct recorder *recorder, int fd)
{
	struct epoll_event interest = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(recorder->epoll, EPOLL_CTL_ADD, fd, &interest) ? -errno : 0;
}

static int descriptors_open(struct recorder *recorder)
{
	const struct record_sink *sink = recorder->session.options->sink;
	sigset_t handled;
	int error;

	sigemptyset(&handled);
	for (const int *number = sink ? sink->signals : NULL; number && *number; number++)
		sigaddset(&handled, *number);
	sigaddset(&handled, SIGINT);
	sigaddset(&handled, SIGTERM);
	sigaddset(&handled, SIGCHLD);
	sigprocmask(SIG_BLOCK, &handled, &recorder->usual.mask);
	recorder->signals = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
	recorder->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (recorder->signals < 0 || recorder->epoll < 0)
		return -errno;
	error = interest_add(recorder, recorder->signals);
	if (!error)
		error = interest_add(recorder, tracer_descriptor(recorder->session.tracer));
	if (!error && !watch_open(&recorder->watch))
		error = interest_add(recorder, watch_descriptor(recorder->watch));
	return error;
}

static int step_counter_open(struct session *session)
{
	static const struct model_options defaults;

	if (!session->options->steps)
		return 0;
	session->model = model_new(&defaults);
	session->replay = session->model ? replay_new(session->model) : NULL;
	return session->replay ? 0 : -ENOMEM;
}

/* Each rank takes some twenty descriptors: one for itself, one for each program that is attached to a library of it. */
static void files_allow(struct recorder *recorder)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &recorder->usual.files);
	files = recorder->usual.files;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

static int recorder_open(struct recorder *recorder)
{
	struct session *session = &recorder->session;
	const struct record_options *options = session->options;
	struct tracer_options tracing = {.ring_size = options->ring_size,
		.handle = record_handle,
		.context = recorder,
		.statistics = options->statistics};
	char *message;
	int error = tracer_open(&tracing, &session->tracer, &message);

	if (error) {
		fprintf(stderr, "hdtrace: %s\n", message ? message : strerror(-error));
		free(message);
		return error;
	}
	files_allow(recorder);
	recorder->usual.nice = recorder->window.nice = getpriority(PRIO_PROCESS, 0);
	setpriority(PRIO_PROCESS, 0, RECORDER_NICE); /* may be forbidden: then it is a little later */
	error = step_counter_open(session);
	if (!error)
		error = descriptors_open(recorder);
	if (error)
		fprintf(stderr, "hdtrace: cannot start: %s\n", strerror(-error));
	return error;
}

/* --- the loop ---------------------------------------------------------------------------------- */

static bool signals_read(struct recorder *recorder)
{
	const struct record_sink *sink = recorder->session.options->sink;
	struct signalfd_siginfo info;
	bool stop = false;

	while (read(recorder->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			command_reap(recorder->result);
			continue;
		}
		if (info.ssi_signo != SIGINT && info.ssi_signo != SIGTERM) {
			stop |= sink->signalled && sink->signalled(sink->context, (int)info.ssi_signo);
			continue;
		}
		recorder->result->signal = (int)info.ssi_signo;
		/* We stand in the command's place: what ends us is meant for it too. */
		if (info.ssi_signo == SIGTERM && recorder->result->command_pid && !recorder->result->command_ended)
			kill(recorder->result->command_pid, SIGTERM);
		stop = true;
	}
	return stop;
}

static void progress_show(struct recorder *recorder, uint64_t now)
{
	const struct session *session = &recorder->session;

	if (!recorder->progress || now - recorder->last_progress < PROGRESS_NANOSECONDS)
		return;
	recorder->last_progress = now;
	fprintf(stderr, "\rhdtrace: %.1f s, %llu events, %.1f MiB captured ", (double)(now - recorder->start) / 1e9,
		(unsigned long long)session->records,
		session->capture ? (double)capture_writer_bytes(session->capture) / (1 << 20) : 0.0);
}

static void losses_flush(struct recorder *recorder, uint64_t now)
{
	if (now - recorder->last_flush < FLUSH_NANOSECONDS)
		return;
	recorder->last_flush = now;
	session_keep_losses(&recorder->session);
	if (recorder->session.capture)
		capture_writer_flush(recorder->session.capture);
}

/* All events until `read_ns` are in the capture. */
static void objects_read_on(struct session *session, uint64_t read_ns)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++) {
		owners_keep(session, session->targets[index], read_ns);
		boxed_probe_started(session, session->targets[index]);
		objects_follow(session, session->targets[index]);
	}
}

/* What holds the storages that are left. */
static void objects_read_last(struct session *session)
{
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		objects_walk_last(session, session->targets[index]);
	tracer_read(session->tracer);
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		owners_keep(session, session->targets[index], UINT64_MAX);
}

static bool limit_reached(struct recorder *recorder, uint64_t now)
{
	const struct session *session = &recorder->session;
	const struct record_options *options = session->options;

	if (options->duration > 0 && (double)(now - recorder->start) >= options->duration * 1e9) {
		recorder->result->end = RECORD_END_DURATION;
		return true;
	}
	if (recorder->out_of_memory) {
		recorder->result->end = RECORD_END_OUT_OF_MEMORY;
		return true;
	}
	if (options->steps && model_steps(session->model) >= options->steps) {
		recorder->result->end = RECORD_END_STEPS;
		return true;
	}
	return false;
}

static bool sink_ticks(struct recorder *recorder, uint64_t read_ns)
{
	const struct record_sink *sink = recorder->session.options->sink;
	struct recording recording = {&recorder->session, read_ns};

	return sink && sink->tick && sink->tick(sink->context, &recording);
}

static void recorder_loop(struct recorder *recorder)
{
	struct session *session = &recorder->session;
	struct epoll_event ready;

	recorder->start = recorder->last_flush = recorder->last_rescan = monotonic_ns();
	for (;;) {
		uint64_t now, read_ns;

		if (epoll_wait(recorder->epoll, &ready, 1, POLL_MILLISECONDS) == 1)
			session->wake_ups += ready.data.fd == tracer_descriptor(session->tracer);
		read_ns = monotonic_ns();
		tracer_read(session->tracer);
		objects_read_on(session, read_ns);
		if (recorder->watch)
			watch_read(recorder->watch, watch_handle, recorder);
		maps_rescan(recorder);
		now = monotonic_ns();
		if (signals_read(recorder)) {
			recorder->result->end = RECORD_END_SIGNAL;
			break;
		}
		if (limit_reached(recorder, now))
			break;
		if (session->capture_error) {
			recorder->result->end = RECORD_END_CAPTURE;
			break;
		}
		if (!targets_check(recorder)) {
			recorder->result->end = RECORD_END_EXIT;
			break;
		}
		if (sink_ticks(recorder, read_ns)) {
			recorder->result->end = RECORD_END_SINK;
			break;
		}
		losses_flush(recorder, now);
		window_keep(session, &recorder->window);
		progress_show(recorder, now);
	}
	if (recorder->progress)
		fputc('\n', stderr);
}

static void targets_finish(struct recorder *recorder)
{
	struct session *session = &recorder->session;

	tracer_read(session->tracer);
	objects_read_last(session);
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		target_quiet(session, session->targets[index]);
	inputs_wait(session);
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		target_end(session, session->targets[index], end_reasons[recorder->result->end]);
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		target_forget_image(session, session->targets[index]);
	tracer_detach_wait(session->tracer);
	/* What came while the probes went away is counted, so that the sums are right, but not kept. */
	tracer_read(session->tracer);
	session_keep_losses(session);
	for (ptrdiff_t index = 0; index < arrlen(session->targets); index++)
		recorder->result->targets += session->targets[index]->announced;
}

static void recorder_close(struct recorder *recorder)
{
	struct session *session = &recorder->session;

	setpriority(PRIO_PROCESS, 0, recorder->usual.nice); /* reports are in no hurry */
	window_close(&recorder->window);
	targets_free(session);
	tracer_close(session->tracer);
	watch_close(recorder->watch);
	replay_free(session->replay);
	model_free(session->model);
	if (session->capture && capture_writer_close(session->capture) && !session->capture_error)
		fprintf(stderr, "hdtrace: the end of %s could not be written\n", session->options->capture_path);
	if (recorder->epoll >= 0)
		close(recorder->epoll);
	if (recorder->signals < 0)
		return;
	/* From here on an interrupt is one of the reports; what came until now was one of the trace. */
	signals_read(recorder);
	close(recorder->signals);
	if (!session->options->command)
		sigprocmask(SIG_SETMASK, &recorder->usual.mask, NULL);
}

int recorder_run(const struct record_options *options, struct record_result *result)
{
	struct recorder recorder = {
		.session.options = options,
		.result = result,
		.epoll = -1,
		.signals = -1,
		.progress = !options->quiet && !options->command && options->capture_path && isatty(STDERR_FILENO),
	};
	int error, go = -1;

	memset(result, 0, sizeof(*result));
	/* Who reads the messages may go; the trace goes on. */
	recorder.usual.pipe_handler = signal(SIGPIPE, SIG_IGN);
	error = recorder_open(&recorder);
	if (!error && options->command)
		error = command_start(options->command, &recorder.usual, &result->command_pid, &go);
	if (!error && options->command) {
		struct target *target;

		error = target_add(&recorder.session, result->command_pid, &target);
		if (!error) {
			target->scanned = true; /* its image will be another one */
			char **words = command_words(options->command);

			error = target_probe_ahead(&recorder.session, target, words);
			if (!error)
				error = torch_plan_ahead(&recorder.session, words);
			words_free(words);
		}
		if (!error && write(go, "g", 1) != 1)
			error = -errno;
	} else if (!error) {
		error = pids_add(&recorder.session);
	}
	if (!error) {
		recorder_loop(&recorder);
		targets_finish(&recorder);
		statistics_tell(&recorder.session);
	}
	if (go >= 0)
		close(go);
	recorder_close(&recorder);
	return error;
}
