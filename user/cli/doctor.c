// SPDX-License-Identifier: BSD-2-Clause
/*
 * `hdtrace doctor`: every condition that tracing needs, one line each, with the
 * reason and the remedy where it does not hold.
 */
#include <argp.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <yajl/yajl_gen.h>

#include "attach/tracer.h"
#include "cli/cli.h"
#include "containers/containers.h"
#include "probe/device_calls.h"
#include "probe/library_calls.h"
#include "probe/plan.h"
#include "python/threads.h"
#include "target/maps.h"
#include "target/memory.h"
#include "target/process.h"
#include "target/watch.h"

#define KERNEL_MAJOR 6 /* uprobe_multi came with 6.6 */
#define KERNEL_MINOR 6
#define TEST_RING_SIZE (1u << 20)
#define NAME_COLUMNS 22                   /* CAP_CHECKPOINT_RESTORE */
#define KIB_FOR_RING (256 << 10)          /* the default ring four times over */
#define INITIAL_PID_NAMESPACE 0xeffffffcu /* PROC_PID_INIT_INO of the kernel's linux/proc_ns.h */

enum verdict { GOOD, NOTE, BAD };

struct check {
	enum verdict verdict;
	char *name, *text, *remedy;
};

struct doctor {
	struct check *checks; /* stb_ds */
	pid_t pid;
	bool json;
};

static void check_add(struct doctor *doctor, enum verdict verdict, const char *name, const char *remedy,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

static void check_add(
	struct doctor *doctor, enum verdict verdict, const char *name, const char *remedy, const char *format, ...)
{
	struct check check = {.verdict = verdict};
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&check.text, format, arguments) < 0)
		check.text = NULL;
	va_end(arguments);
	check.name = strdup(name);
	check.remedy = verdict != GOOD && remedy ? strdup(remedy) : NULL;
	arrput(doctor->checks, check);
}

/* First line of a small file, without its end; empty when it cannot be read. */
static const char *line_read(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");

	line[0] = '\0';
	if (file) {
		if (!fgets(line, (int)size, file))
			line[0] = '\0';
		fclose(file);
	}
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* --- this machine ------------------------------------------------------------------ */

static void check_kernel(struct doctor *doctor)
{
	int major = 0, minor = 0;
	struct utsname system;

	uname(&system);
	sscanf(system.release, "%d.%d", &major, &minor);
	check_add(doctor, major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR) ? GOOD : BAD,
		"kernel", "hdtrace needs Linux 6.6 or later, for probes on many functions at once", "Linux %s",
		system.release);
	check_add(doctor, strcmp(system.machine, "x86_64") ? BAD : GOOD, "machine", "only x86_64 jobs can be traced",
		"%s", system.machine);
}

static void check_btf(struct doctor *doctor)
{
	struct stat status;

	if (stat("/sys/kernel/btf/vmlinux", &status))
		check_add(doctor, BAD, "BTF", "use a kernel built with CONFIG_DEBUG_INFO_BTF=y", "%s",
			"/sys/kernel/btf/vmlinux is missing");
	else
		check_add(doctor, GOOD, "BTF", NULL, "%lld bytes", (long long)status.st_size);
}

static void check_lockdown(struct doctor *doctor)
{
	char line[128];
	bool closed = strstr(line_read("/sys/kernel/security/lockdown", line, sizeof(line)), "[confidentiality]");

	check_add(doctor, closed ? BAD : GOOD, "lockdown",
		"boot with lockdown=integrity or none: confidentiality mode forbids BPF programs to read memory", "%s",
		*line ? line : "none");
}

static void check_capabilities(struct doctor *doctor)
{
	static const struct {
		int bit, or_bit;
		const char *name, *why;
	} needed[] = {
		{CAP_BPF, CAP_SYS_ADMIN, "CAP_BPF", "load programs"},
		{CAP_PERFMON, CAP_SYS_ADMIN, "CAP_PERFMON", "set probes, be told of new mappings"},
		{CAP_SYS_PTRACE, CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "read names from the job's memory"},
		{CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, "CAP_DAC_READ_SEARCH", "look into the jobs of other users"},
		{CAP_CHECKPOINT_RESTORE, CAP_SYS_ADMIN, "CAP_CHECKPOINT_RESTORE",
			"open the files that a job has mapped"},
	};
	unsigned long long effective = 0;
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &effective) == 1)
			break;
	if (file)
		fclose(file);
	for (size_t index = 0; index < sizeof(needed) / sizeof(needed[0]); index++)
		check_add(doctor, (effective >> needed[index].bit | effective >> needed[index].or_bit) & 1 ? GOOD : BAD,
			needed[index].name,
			geteuid() ? "run hdtrace as root (sudo)" : "give it to this container or service",
			"capability to %s", needed[index].why);
}

/* Of processes outside of its pid namespace hdtrace knows nothing; in it all is as on a machine. */
static void check_pid_namespace(struct doctor *doctor)
{
	struct stat status;
	bool inside = !stat("/proc/self/ns/pid", &status) && status.st_ino != INITIAL_PID_NAMESPACE;

	check_add(doctor, inside ? NOTE : GOOD, "process ids",
		"start this container with the pid namespace of the host (hostPID: true, --pid=host)", "%s",
		inside ? "those of a container: only jobs in it are found" : "those of this machine");
}

static void check_paranoia(struct doctor *doctor)
{
	struct watch *watch;
	int error = watch_open(&watch);
	char line[32];

	line_read("/proc/sys/kernel/perf_event_paranoid", line, sizeof(line));
	check_add(doctor, error ? NOTE : GOOD, "perf events",
		"libraries that are loaded later are found by polling, up to 50 ms late; root or CAP_PERFMON avoids it",
		"perf_event_paranoid is %s%s%s", *line ? line : "unknown", error ? ": " : "",
		error ? strerror(-error) : "");
	watch_close(watch);
	line_read("/proc/sys/kernel/unprivileged_bpf_disabled", line, sizeof(line));
	check_add(doctor, GOOD, "unprivileged BPF", NULL,
		"unprivileged_bpf_disabled is %s (root may load programs all the same)", *line ? line : "unknown");
}

static void check_programs(struct doctor *doctor)
{
	struct tracer_options options = {.ring_size = TEST_RING_SIZE};
	struct tracer *tracer;
	char *message;
	int error = tracer_open(&options, &tracer, &message);

	check_add(doctor, error ? BAD : GOOD, "BPF programs", message, "%s",
		error ? "cannot be loaded" : "loaded and verified by this kernel");
	free(message);
	if (!error)
		tracer_close(tracer);
}

static void check_memory(struct doctor *doctor)
{
	long long available = 0;
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lld", &available) == 1)
			break;
	if (file)
		fclose(file);
	check_add(doctor, available < KIB_FOR_RING ? NOTE : GOOD, "memory",
		"the 64 MiB ring may not fit: give a smaller --ring-size", "%lld MiB available", available >> 10);
}

/* --- one process ---------------------------------------------------------------------- */

static bool is_planned(const struct library_plan *plan, enum program_kind program)
{
	for (ptrdiff_t index = 0; index < arrlen(plan->points); index++)
		if (plan->points[index].program == program)
			return true;
	return false;
}

/*
 * How many of the functions of the catalogue are there; which are not stands in
 * the findings, and so do those that are found by their pattern.
 */
static void check_symbols(struct doctor *doctor, const struct library_plan *plan)
{
	size_t row_count, usdt_count, wanted = 0, found = 0;
	const struct catalogue_row *rows = catalogue_rows(&row_count);
	const struct catalogue_usdt *usdt_rows = catalogue_usdt(&usdt_count);

	for (size_t index = 0; index < row_count; index++) {
		if (rows[index].library != plan->role)
			continue;
		wanted++;
		found += is_planned(plan, rows[index].program);
	}
	for (size_t index = 0; index < usdt_count; index++) {
		if (usdt_rows[index].library != plan->role)
			continue;
		wanted++;
		found += is_planned(plan, usdt_rows[index].program);
	}
	if (wanted)
		check_add(doctor, found == wanted ? GOOD : NOTE, library_role_name(plan->role),
			"the lines below tell which are missing, and what is not reported without them",
			"%zu of %zu symbols found", found, wanted);
}

static void check_findings(struct doctor *doctor, const struct library_plan *plan)
{
	for (ptrdiff_t index = 0; index < arrlen(plan->findings); index++) {
		const struct plan_finding *finding = &plan->findings[index];

		check_add(doctor,
			finding->good    ? GOOD
			: finding->fatal ? BAD
					 : NOTE,
			library_role_name(plan->role), finding->remedy, "%s", finding->what);
	}
}

static int process_read(void *context, uint64_t address, void *buffer, size_t length)
{
	const struct doctor *doctor = context;

	return memory_read(doctor->pid, address, buffer, length);
}

/* Is the interpreter, as it lives in the process, what its file says? */
static void check_threads(struct doctor *doctor, const struct library_plan *plan, const struct mapped_file *file)
{
	uint64_t bias;
	uint32_t slot;
	int error;

	if (!plan->python || library_plan_bias(plan, file->start, file->offset, &bias))
		return;
	error = python_threads_find(
		&(struct python_image){
			.layout = plan->python,
			.read = process_read,
			.context = doctor,
			.runtime = bias + plan->python_runtime,
			.code_type = bias + plan->python_types.code,
		},
		&slot);
	if (error)
		check_add(doctor, NOTE, library_role_name(plan->role), "Python stacks, files and lines are left out",
			"%s", python_threads_error(error));
	else
		check_add(doctor, GOOD, library_role_name(plan->role), NULL,
			"threads have their state at %#x from the thread pointer", slot);
}

/* The plan of a mapped library, in `plan`; what keeps it from being made is told. False: of no interest. */
static bool library_plan(
	struct doctor *doctor, const struct mapped_file *file, enum library_role role, struct library_plan *plan)
{
	int fd = mapped_file_open(doctor->pid, file);
	int error = fd < 0 ? fd : library_plan_make(fd, role, plan);

	if (fd >= 0)
		close(fd);
	if (error)
		check_add(doctor, BAD, library_role_name(role), "is the file damaged?", "%s: %s", file->path,
			strerror(-error));
	if (!error && (role != LIBRARY_PYTHON || plan->python_runtime))
		return true;
	library_plan_free(plan);
	return false;
}

static void check_library(struct doctor *doctor, const struct mapped_file *file, const struct library_plan *plan)
{
	check_add(doctor, GOOD, library_role_name(plan->role), NULL, "%s, build-id %s", file->path,
		*plan->build_id ? plan->build_id : "none");
	check_symbols(doctor, plan);
	check_findings(doctor, plan);
	check_threads(doctor, plan, file);
}

/* Layouts and operators of PyTorch, and whether it lives in the process as its files say. */
static void check_torch(struct doctor *doctor, struct library_plan plans[], const struct mapped_file *const mapped[])
{
	struct library_plan *torch_cpu = &plans[LIBRARY_TORCH_CPU];
	const struct library_plan *c10 = &plans[LIBRARY_C10];
	const struct mapped_file *torch_file = mapped[LIBRARY_TORCH_CPU], *c10_file = mapped[LIBRARY_C10];
	int error = torch_plan_make(torch_cpu, c10, true);
	uint64_t torch_bias, c10_bias;
	struct torch_image image;
	const char *fault;

	if (error)
		check_add(doctor, BAD, library_role_name(LIBRARY_TORCH_CPU), "is the file damaged?",
			"its operators cannot be read: %s", strerror(-error));
	if (error || !torch_cpu->torch ||
		library_plan_bias(torch_cpu, torch_file->start, torch_file->offset, &torch_bias) ||
		library_plan_bias(c10, c10_file->start, c10_file->offset, &c10_bias))
		return;
	image = torch_plan_image(torch_cpu, torch_bias, c10, c10_bias);
	image.read = process_read;
	image.context = doctor;
	fault = torch_live_fault(&image);
	check_add(doctor, fault ? BAD : GOOD, library_role_name(LIBRARY_TORCH_CPU),
		"is it still loading? else operators are left out, and blocks of the allocator remain", "%s",
		fault ? fault : "a tensor and the thread's keys are where its files say");
}

static void check_libraries(struct doctor *doctor)
{
	static const char *const without[LIBRARY_ROLES] = {
		[LIBRARY_C10] = "no PyTorch here yet? hdtrace waits for it to be loaded",
		[LIBRARY_TORCH_CPU] =
			"no PyTorch here yet? hdtrace waits for it; a launcher never loads it: give a rank's pid",
		[LIBRARY_TORCH_PYTHON] = "profiler ranges show up as aten.empty",
		[LIBRARY_STDCXX] = "operators that raise are counted as if they ran",
		[LIBRARY_PYTHON] = "Python stacks, files and lines are left out",
	};
	struct library_plan plans[LIBRARY_ROLES] = {0};
	const struct mapped_file *mapped[LIBRARY_ROLES] = {NULL};
	bool needed = true; /* PyTorch: without it, only what uses devices or joins collectives by itself is traced */
	struct mapped_file *files;
	int error = maps_read(doctor->pid, &files);

	if (error) {
		check_add(doctor, BAD, "maps", geteuid() ? "run hdtrace as root (sudo)" : NULL, "cannot be read: %s",
			strerror(-error));
		return;
	}
	for (ptrdiff_t index = 0; index < arrlen(files); index++) {
		enum library_role role = library_role_of(files[index].path);

		if (role != LIBRARY_NONE && !mapped[role] && library_plan(doctor, &files[index], role, &plans[role]))
			mapped[role] = &files[index];
	}
	if (mapped[LIBRARY_TORCH_CPU] && mapped[LIBRARY_C10])
		check_torch(doctor, plans, mapped);
	for (int role = LIBRARY_NONE + 1; role < LIBRARY_ROLES; role++)
		if (mapped[role] && (library_is_of_devices((enum library_role)role) ||
					    library_is_of_collectives((enum library_role)role)))
			needed = false;
	for (int role = LIBRARY_NONE + 1; role < LIBRARY_ROLES; role++) {
		if (mapped[role])
			check_library(doctor, mapped[role], &plans[role]);
		else if (without[role])
			check_add(doctor, needed && (role == LIBRARY_C10 || role == LIBRARY_TORCH_CPU) ? BAD : NOTE,
				library_role_name((enum library_role)role), without[role], "%s", "not mapped");
		library_plan_free(&plans[role]);
	}
	maps_free(files);
}

static void check_process(struct doctor *doctor)
{
	struct process process;
	int error = process_open(doctor->pid, &process);

	if (error) {
		check_add(doctor, BAD, "process",
			error == -ESRCH ? "see `ps -ef` for the right one" : "run hdtrace as root (sudo)", "pid %d: %s",
			doctor->pid,
			error == -ENOTSUP ? "this is a thread, give the pid of its process" : strerror(-error));
		return;
	}
	check_add(doctor, GOOD, "process", NULL, "pid %d, uid %u: %s", doctor->pid, process.uid, process.command);
	process_close(&process);
	check_libraries(doctor);
}

/* --- telling ----------------------------------------------------------------------------- */

static void text_print(const struct doctor *doctor)
{
	static const char *const marks[] = {[GOOD] = "ok  ", [NOTE] = "note", [BAD] = "FAIL"};

	for (ptrdiff_t index = 0; index < arrlen(doctor->checks); index++) {
		const struct check *check = &doctor->checks[index];

		printf("%s  %-*s %s\n", marks[check->verdict], NAME_COLUMNS, check->name, check->text);
		if (check->remedy)
			printf("      %-*s -> %s\n", NAME_COLUMNS, "", check->remedy);
	}
}

static void json_pair(yajl_gen json, const char *key, const char *text)
{
	yajl_gen_string(json, (const unsigned char *)key, strlen(key));
	if (text)
		yajl_gen_string(json, (const unsigned char *)text, strlen(text));
	else
		yajl_gen_null(json);
}

static void json_print(const struct doctor *doctor)
{
	static const char *const verdicts[] = {[GOOD] = "ok", [NOTE] = "note", [BAD] = "fail"};
	yajl_gen json = yajl_gen_alloc(NULL);
	const unsigned char *text;
	size_t length;

	if (!json)
		return;
	yajl_gen_config(json, yajl_gen_beautify, 1);
	yajl_gen_array_open(json);
	for (ptrdiff_t index = 0; index < arrlen(doctor->checks); index++) {
		const struct check *check = &doctor->checks[index];

		yajl_gen_map_open(json);
		json_pair(json, "name", check->name);
		json_pair(json, "status", verdicts[check->verdict]);
		json_pair(json, "text", check->text);
		json_pair(json, "remedy", check->remedy);
		yajl_gen_map_close(json);
	}
	yajl_gen_array_close(json);
	if (yajl_gen_get_buf(json, &text, &length) == yajl_gen_status_ok)
		fwrite(text, 1, length, stdout);
	yajl_gen_free(json);
}

static int checks_close(struct doctor *doctor)
{
	int status = STATUS_COMPLETE;

	for (ptrdiff_t index = 0; index < arrlen(doctor->checks); index++) {
		if (doctor->checks[index].verdict == BAD)
			status = STATUS_FAILED;
		free(doctor->checks[index].name);
		free(doctor->checks[index].text);
		free(doctor->checks[index].remedy);
	}
	arrfree(doctor->checks);
	return status;
}

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct doctor *doctor = state->input;
	char *end;

	switch (key) {
	case 'p':
		doctor->pid = (pid_t)strtol(text, &end, 10);
		if (end == text || *end || doctor->pid <= 0)
			argp_error(state, "-p takes a process id, not %s", text);
		return 0;
	case 'j':
		doctor->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument %s", text);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int verb_doctor(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"pid", 'p', "PID", 0, "look at this process too", 0},
		{"json", 'j', NULL, 0, "print JSON", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.doc = "Tell whether hdtrace can work on this machine, and on a process.",
	};
	struct doctor doctor = {0};

	argv[0] = "hdtrace doctor";
	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &doctor))
		return STATUS_USAGE;
	check_kernel(&doctor);
	check_btf(&doctor);
	check_lockdown(&doctor);
	check_capabilities(&doctor);
	check_pid_namespace(&doctor);
	check_paranoia(&doctor);
	check_programs(&doctor);
	check_memory(&doctor);
	if (doctor.pid)
		check_process(&doctor);
	if (doctor.json)
		json_print(&doctor);
	else
		text_print(&doctor);
	return checks_close(&doctor);
}
