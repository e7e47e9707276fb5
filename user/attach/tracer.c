// SPDX-License-Identifier: BSD-2-Clause
/*
 * The BPF programs by libbpf. libbpf's own messages are kept back: its caller
 * hears the reason in words that a person can act on, and the detail on request.
 */
#include "attach/tracer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "hdtrace.skel.h"
#include "attach/detacher.h"
#include "containers/containers.h"

/* Wake the reader when so much of the ring waits; it polls besides. */
#define WAKE_FRACTION 4

#define LOG_BYTES 2048
#define FD_PATH_MAX 32

/* Hook descriptions that nobody has any more. */
struct hook_range {
	uint32_t first, count;
};

struct tracer {
	struct tracer_options options;
	struct hdtrace_bpf *skeleton;
	struct ring_buffer *ring;
	struct bpf_link **links; /* stb_ds; NULL where detached */
	struct detacher *detacher;
	uint32_t hook_count;
	struct hook_range *free_hooks; /* stb_ds: below hook_count */
	int statistics_fd;
};

/* The last warning of libbpf, for messages. */
static char libbpf_log[LOG_BYTES];

static int libbpf_print(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN)
		vsnprintf(libbpf_log, sizeof(libbpf_log), format, arguments);
	return 0;
}

static struct bpf_program *program_of(const struct tracer *tracer, enum program_kind kind)
{
	switch (kind) {
	case PROGRAM_OPERATOR:
		return tracer->skeleton->progs.operator_hit;
	case PROGRAM_INVOKED:
		return tracer->skeleton->progs.operator_invoked;
	case PROGRAM_THROWN:
		return tracer->skeleton->progs.exception_thrown;
	case PROGRAM_ALLOCATED:
		return tracer->skeleton->progs.memory_allocated;
	case PROGRAM_FREED:
		return tracer->skeleton->progs.memory_freed;
	case PROGRAM_RESIZED:
		return tracer->skeleton->progs.storage_resized;
	case PROGRAM_DEVICE:
		return tracer->skeleton->progs.device_reported;
	case PROGRAM_REQUESTED:
		return tracer->skeleton->progs.device_requested;
	case PROGRAM_CALLED:
		return tracer->skeleton->progs.segment_called;
	case PROGRAM_RETURNED:
		return tracer->skeleton->progs.segment_returned;
	case PROGRAM_ENDED:
		return tracer->skeleton->progs.function_ended;
	case PROGRAM_EXHAUSTED:
		return tracer->skeleton->progs.memory_exhausted;
	case PROGRAM_SOUGHT:
		return tracer->skeleton->progs.kernel_sought;
	case PROGRAM_LAUNCHED:
		return tracer->skeleton->progs.kernel_launched;
	case PROGRAM_NODE:
		return tracer->skeleton->progs.node_entered;
	case PROGRAM_GRADIENT:
		return tracer->skeleton->progs.gradient_accumulated;
	case PROGRAM_COLLECTIVE:
		return tracer->skeleton->progs.collective_begun;
	case PROGRAM_BUCKET:
		return tracer->skeleton->progs.bucket_reduced;
	case PROGRAM_WORK:
		return tracer->skeleton->progs.work_noted;
	case PROGRAM_LIBRARY:
		return tracer->skeleton->progs.library_called;
	case PROGRAM_LIBRARY_NOTED:
		return tracer->skeleton->progs.library_noted;
	case PROGRAM_LIBRARY_RETURNED:
		return tracer->skeleton->progs.library_returned;
	case PROGRAM_FINALIZED:
		return tracer->skeleton->progs.interpreter_finalized;
	case PROGRAMS:
		break;
	}
	return NULL;
}

static char *message_of(int error)
{
	const char *advice = "run `hdtrace doctor` to see what is missing";
	char *text = NULL;

	switch (-error) {
	case EPERM:
	case EACCES:
		advice = geteuid() ? "run hdtrace as root (sudo)"
		                   : "this root may not load BPF programs: a container without CAP_BPF and "
		                     "CAP_PERFMON, or "
		                     "kernel lockdown; see `hdtrace doctor`";
		break;
	case ENOMEM:
		advice = "the ring does not fit into memory: give a smaller --ring-size";
		break;
	case ESRCH:
	case ENOENT:
		advice = "the kernel has no BTF (/sys/kernel/btf/vmlinux): hdtrace needs a kernel with "
			 "CONFIG_DEBUG_INFO_BTF";
		break;
	case EINVAL:
	case EOPNOTSUPP:
		advice = "the kernel is too old: hdtrace needs 6.6 or later (uprobe_multi); see `hdtrace doctor`";
		break;
	}
	libbpf_log[strcspn(libbpf_log, "\n")] = '\0';
	if (asprintf(&text, "cannot load the BPF programs (%s): %s%s%s", strerror(-error), advice,
		    *libbpf_log ? "; libbpf says: " : "", libbpf_log) < 0)
		return NULL;
	return text;
}

static int ring_handle(void *context, void *data, size_t size)
{
	const struct tracer *tracer = context;

	tracer->options.handle(tracer->options.context, data, size);
	return 0;
}

int tracer_open(const struct tracer_options *options, struct tracer **out, char **message)
{
	struct tracer *tracer = calloc(1, sizeof(*tracer));
	int error;

	*out = NULL;
	*message = NULL;
	if (!tracer)
		return -ENOMEM;
	tracer->options = *options;
	tracer->statistics_fd = -1;
	libbpf_set_print(libbpf_print);
	tracer->detacher = detacher_new();
	if (!tracer->detacher) {
		error = -ENOMEM;
		goto cleanup;
	}
	tracer->skeleton = hdtrace_bpf__open();
	if (!tracer->skeleton) {
		error = -errno;
		goto cleanup;
	}
	error = bpf_map__set_max_entries(tracer->skeleton->maps.events, (uint32_t)options->ring_size);
	if (error)
		goto cleanup;
	tracer->skeleton->rodata->wake_bytes = (uint32_t)(options->ring_size / WAKE_FRACTION);
	tracer->skeleton->rodata->count_hooks = options->statistics;
	error = hdtrace_bpf__load(tracer->skeleton);
	if (error)
		goto cleanup;
	if (options->statistics)
		tracer->statistics_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	tracer->ring = ring_buffer__new(bpf_map__fd(tracer->skeleton->maps.events), ring_handle, tracer, NULL);
	if (!tracer->ring) {
		error = -errno;
		goto cleanup;
	}
	*out = tracer;
	return 0;
cleanup:
	*message = message_of(error);
	tracer_close(tracer);
	return error;
}

void tracer_close(struct tracer *tracer)
{
	if (!tracer)
		return;
	for (int link = 0; link < (int)arrlen(tracer->links); link++)
		tracer_detach(tracer, link);
	detacher_free(tracer->detacher);
	arrfree(tracer->links);
	arrfree(tracer->free_hooks);
	ring_buffer__free(tracer->ring);
	if (tracer->statistics_fd >= 0)
		close(tracer->statistics_fd);
	hdtrace_bpf__destroy(tracer->skeleton);
	free(tracer);
}

int tracer_descriptor(const struct tracer *tracer)
{
	return ring_buffer__epoll_fd(tracer->ring);
}

int tracer_read(struct tracer *tracer)
{
	int count = ring_buffer__consume(tracer->ring);

	return count < 0 ? count : 0;
}

/* Reserve a run of descriptions, where one was given back if there is room: the first place, or -ENOSPC. */
static int hooks_find(struct tracer *tracer, size_t count)
{
	uint32_t first = tracer->hook_count;

	for (size_t index = 0; index < arrlenu(tracer->free_hooks); index++) {
		struct hook_range *range = &tracer->free_hooks[index];

		if (range->count < count)
			continue;
		first = range->first;
		range->first += (uint32_t)count;
		range->count -= (uint32_t)count;
		if (!range->count)
			arrdelswap(tracer->free_hooks, index);
		return (int)first;
	}
	if (count > PROGRAM_HOOKS_MAX - first)
		return -ENOSPC;
	tracer->hook_count += (uint32_t)count;
	return (int)first;
}

int tracer_hooks_add(struct tracer *tracer, const struct hook_description *descriptions, size_t count)
{
	int map = bpf_map__fd(tracer->skeleton->maps.hooks);
	int first = hooks_find(tracer, count);

	if (first < 0)
		return first;
	for (size_t index = 0; index < count; index++) {
		uint32_t key = (uint32_t)first + (uint32_t)index;

		if (bpf_map_update_elem(map, &key, &descriptions[index], BPF_ANY)) {
			int error = -errno;

			tracer_hooks_remove(tracer, first, count);
			return error;
		}
	}
	return first;
}

void tracer_hooks_remove(struct tracer *tracer, int first, size_t count)
{
	struct hook_range range = {(uint32_t)first, (uint32_t)count};

	if (first >= 0 && count)
		arrput(tracer->free_hooks, range);
}

int tracer_target_reset(struct tracer *tracer, uint32_t target)
{
	int cpus = libbpf_num_possible_cpus(), error = 0;
	struct event_counters *values;

	if (cpus < 0)
		return cpus;
	values = calloc((size_t)cpus, sizeof(*values));
	if (!values)
		return -ENOMEM;
	if (bpf_map_update_elem(bpf_map__fd(tracer->skeleton->maps.counters), &target, values, BPF_ANY))
		error = -errno;
	free(values);
	return error;
}

int tracer_target_set(struct tracer *tracer, uint32_t target, const struct target_settings *settings)
{
	if (target >= PROGRAM_TARGETS_MAX)
		return -ENOSPC;
	return bpf_map_update_elem(bpf_map__fd(tracer->skeleton->maps.targets), &target, settings, BPF_ANY) ? -errno
	                                                                                                    : 0;
}

int tracer_communicator_set(
	struct tracer *tracer, uint32_t target, uint64_t handle, const struct communicator_place *place)
{
	struct communicator_key key = {.target = target, .handle = handle};

	return bpf_map_update_elem(bpf_map__fd(tracer->skeleton->maps.communicators), &key, place, BPF_ANY) ? -errno
	                                                                                                    : 0;
}

int tracer_attach(struct tracer *tracer, enum program_kind program, pid_t pid, int fd, const uint64_t *offsets,
	const uint64_t *cookies, size_t count)
{
	LIBBPF_OPTS(
		bpf_uprobe_multi_opts, options, .offsets = offsets, .cookies = (const __u64 *)cookies, .cnt = count);
	char path[FD_PATH_MAX];
	struct bpf_link *link;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	link = bpf_program__attach_uprobe_multi(program_of(tracer, program), pid, path, NULL, &options);
	if (!link)
		return -errno;
	for (int free_slot = 0; free_slot < (int)arrlen(tracer->links); free_slot++)
		if (!tracer->links[free_slot]) {
			tracer->links[free_slot] = link;
			return free_slot;
		}
	arrput(tracer->links, link);
	return (int)arrlen(tracer->links) - 1;
}

void tracer_detach(struct tracer *tracer, int link)
{
	if (link < 0 || link >= arrlen(tracer->links) || !tracer->links[link])
		return;
	detacher_put(tracer->detacher, tracer->links[link]);
	tracer->links[link] = NULL;
}

void tracer_detach_wait(struct tracer *tracer)
{
	detacher_wait(tracer->detacher);
}

int tracer_counters(const struct tracer *tracer, uint32_t target, struct event_counters *counters)
{
	int cpus = libbpf_num_possible_cpus(), error = 0;
	struct event_counters *values;

	memset(counters, 0, sizeof(*counters));
	if (cpus < 0)
		return cpus;
	values = calloc((size_t)cpus, sizeof(*values));
	if (!values)
		return -ENOMEM;
	if (bpf_map_lookup_elem(bpf_map__fd(tracer->skeleton->maps.counters), &target, values)) {
		error = -errno;
		goto cleanup;
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		counters->produced += values[cpu].produced;
		for (int reason = 0; reason < LOSS_REASONS; reason++)
			counters->lost[reason] += values[cpu].lost[reason];
	}
cleanup:
	free(values);
	return error;
}

int tracer_hook_counters(const struct tracer *tracer, uint32_t first, size_t count, struct hook_counters *counters)
{
	int map = bpf_map__fd(tracer->skeleton->maps.hook_hits);

	for (size_t index = 0; index < count; index++) {
		uint32_t key = first + (uint32_t)index;

		if (bpf_map_lookup_elem(map, &key, &counters[index]))
			return -errno;
	}
	return 0;
}

int tracer_statistics(const struct tracer *tracer, struct program_statistics statistics[PROGRAMS])
{
	for (int kind = 0; kind < PROGRAMS; kind++) {
		struct bpf_program *program = program_of(tracer, (enum program_kind)kind);
		struct bpf_prog_info info = {0};
		uint32_t size = sizeof(info);

		if (bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size))
			return -errno;
		statistics[kind].name = bpf_program__name(program);
		statistics[kind].runs = info.run_cnt;
		statistics[kind].nanoseconds = info.run_time_ns;
	}
	return 0;
}
