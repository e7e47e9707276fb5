// SPDX-License-Identifier: BSD-2-Clause
/* When a full capture is made, the process that makes it, and what is kept of them on disk. */
#include "agent/captures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/journal.h"
#include "agent/metrics.h"
#include "base/folder.h"
#include "containers/containers.h"

#define SECOND_NS 1000000000ull
#define HOUR_NS (3600 * SECOND_NS)
/* The kernel ends a process that does not end by itself. */
#define PATIENCE_SECONDS 60
#define TIDY_NS (60 * SECOND_NS)
#define NAME_BYTES 160
#define UNFINISHED ".part"
#define UNSTORED ".not-in-the-store"
#define OPEN_FOLDERS 16
#define BLOCK_BYTES 512 /* of st_blocks: stat(3type) */

/* What of a rank is remembered, as long as it lives. */
struct memory {
	uint16_t target;
	uint64_t start_time_ns;
	bool seen, asked;
	uint64_t last_ns;         /* when its last capture was begun, 0: never */
	uint64_t out_of_memories; /* at the last look */
};

/* A capture on disk. */
struct folder {
	char *path;
	int64_t time; /* seconds of CLOCK_REALTIME */
	uint64_t bytes;
};

struct captures {
	const struct agent_config *config;
	struct memory *memories;                /* stb_ds */
	uint64_t begun_ns[CAPTURES_HOURLY_MAX]; /* of the last ones, number n at n % CAPTURES_HOURLY_MAX */
	uint64_t begun, refused, bytes, tidied_ns;
	pid_t process; /* that makes one, 0: none does */
	uint64_t process_ns;
	char *path, *unfinished; /* of that */
	char run[JOURNAL_RUN_BYTES];
	pid_t adding; /* that gives one to the store, 0: none */
	char *added;  /* which one */
};

/* --- on disk --------------------------------------------------------------------------- */

static uint64_t tree_bytes;

static int bytes_add(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)path;
	(void)place;
	if (type == FTW_F)
		tree_bytes += (uint64_t)status->st_blocks * BLOCK_BYTES;
	return 0;
}

static uint64_t folder_bytes(const char *path)
{
	tree_bytes = 0;
	nftw(path, bytes_add, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT);
	return tree_bytes;
}

static int entry_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

static void folder_remove(const char *path)
{
	if (nftw(path, entry_remove, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT))
		fprintf(stderr, "hdtrace: cannot remove %s: %s\n", path, strerror(errno));
}

static int folder_compare(const void *left, const void *right)
{
	const struct folder *a = left, *b = right;

	return (a->time > b->time) - (a->time < b->time);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && !strcmp(text + length - tail, end);
}

/* Those that are whole, oldest first; what an earlier agent left behind is removed. stb_ds. */
static struct folder *folders_list(const struct captures *captures)
{
	struct folder *folders = NULL;
	DIR *directory = opendir(captures->config->captures);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		struct folder folder = {0};
		struct stat status;

		if (entry->d_name[0] == '.' ||
			asprintf(&folder.path, "%s/%s", captures->config->captures, entry->d_name) < 0)
			continue;
		if (lstat(folder.path, &status) || !S_ISDIR(status.st_mode) ||
			(captures->unfinished && !strcmp(folder.path, captures->unfinished))) {
			free(folder.path);
		} else if (ends_with(folder.path, UNFINISHED)) {
			folder_remove(folder.path);
			free(folder.path);
		} else {
			folder.time = status.st_mtime;
			folder.bytes = folder_bytes(folder.path);
			arrput(folders, folder);
		}
	}
	if (directory)
		closedir(directory);
	if (folders)
		qsort(folders, arrlenu(folders), sizeof(*folders), folder_compare);
	return folders;
}

/* The oldest go while there are too many bytes, and those that are too old. */
static void tidy(struct captures *captures)
{
	struct folder *folders = folders_list(captures);
	uint64_t bytes = 0;

	for (size_t index = 0; index < arrlenu(folders); index++)
		bytes += folders[index].bytes;
	for (size_t index = 0; index < arrlenu(folders); index++) {
		bool old = (double)(time(NULL) - folders[index].time) > captures->config->age;

		if (old || bytes > captures->config->quota_bytes) {
			folder_remove(folders[index].path);
			bytes -= folders[index].bytes;
		}
		free(folders[index].path);
	}
	arrfree(folders);
	captures->bytes = bytes;
}

/* --- the process ------------------------------------------------------------------------- */

/* The child's side, in which only what signal-safety(7) lists may be called: another thread may have had the heap
 * locked. */
static void program_become(char *const arguments[], bool dies_with_agent, pid_t agent)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dies_with_agent && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != agent))
		_exit(EXIT_FAILURE);
	dup2(null, STDOUT_FILENO);
	execv("/proc/self/exe", arguments);
	_exit(EXIT_FAILURE);
}

/* What dies with the agent goes on in nobody's name if that is killed, beside what the next agent begins. 0: failed. */
static pid_t program_start(char *const arguments[], bool dies_with_agent)
{
	pid_t agent = getpid(), process = fork();

	if (!process)
		program_become(arguments, dies_with_agent, agent);
	if (process < 0)
		fprintf(stderr, "hdtrace: cannot start a capture: %s\n", strerror(errno));
	return process < 0 ? 0 : process;
}

/* A name that a person can read, of characters that every shell leaves alone. */
static void capture_name(
	const struct captures *captures, const struct live_rank *rank, const char *reason, char name[NAME_BYTES])
{
	time_t now = time(NULL);
	struct tm calendar;
	char when[32];

	gmtime_r(&now, &calendar);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &calendar);
	snprintf(name, NAME_BYTES, "%s-%s-rank_%d-%d-%s", when, captures->run, metrics_rank(rank), rank->pid, reason);
}

static bool paths_fill(struct captures *captures, const char *name)
{
	free(captures->path);
	free(captures->unfinished);
	captures->path = captures->unfinished = NULL;
	if (asprintf(&captures->path, "%s/%s", captures->config->captures, name) < 0)
		captures->path = NULL;
	else if (asprintf(&captures->unfinished, "%s" UNFINISHED, captures->path) < 0)
		captures->unfinished = NULL;
	return captures->unfinished != NULL;
}

static void capture_begin(struct captures *captures, const struct live_rank *rank, struct memory *memory,
	const char *reason, const struct captures_run *run, uint64_t now_ns)
{
	char name[NAME_BYTES], pid[16], steps[24], seconds[32];

	int error = folder_make(captures->config->captures, NULL);

	if (error) {
		fprintf(stderr, "hdtrace: no capture of pid %d: %s: %s\n", rank->pid, captures->config->captures,
			strerror(-error));
		memory->last_ns = now_ns;
		memory->asked = false;
		return;
	}
	run->name(run->context, rank, captures->run);
	capture_name(captures, rank, reason, name);
	if (!paths_fill(captures, name))
		return;
	snprintf(pid, sizeof(pid), "%d", rank->pid);
	snprintf(steps, sizeof(steps), "%" PRIu64, captures->config->capture_steps);
	snprintf(seconds, sizeof(seconds), "%.3f", captures->config->capture_seconds);
	captures->process = program_start((char *[]){"hdtrace", "record", "-q", "-p", pid, "--steps", steps, "-d",
						  seconds, "--level", "full", "-o", captures->unfinished, NULL},
		true);
	if (!captures->process)
		return;
	captures->process_ns = now_ns;
	captures->begun_ns[captures->begun++ % CAPTURES_HOURLY_MAX] = now_ns;
	memory->last_ns = now_ns;
	memory->asked = false;
	fprintf(stderr, "hdtrace: full capture of pid %d (%s): %s\n", rank->pid, reason, captures->path);
}

/* --- into the store -------------------------------------------------------------------------- */

/* A file in a capture that is not in the store yet, with its run. To be freed. */
static char *mark_path(const char *folder)
{
	char *path;

	return asprintf(&path, "%s/" UNSTORED, folder) < 0 ? NULL : path;
}

static void mark_write(const struct captures *captures, const char *folder)
{
	char *path = *captures->config->store ? mark_path(folder) : NULL;
	FILE *file = path ? fopen(path, "we") : NULL;

	if (file) {
		fprintf(file, "%s\n", captures->run);
		fclose(file);
	}
	free(path);
}

static void mark_remove(const char *folder)
{
	char *path = mark_path(folder);

	if (path)
		unlink(path);
	free(path);
}

static bool mark_read(const char *folder, char run[JOURNAL_RUN_BYTES])
{
	char *path = mark_path(folder);
	FILE *file = path ? fopen(path, "re") : NULL;
	bool is_read = file && fgets(run, JOURNAL_RUN_BYTES, file) && strlen(run) == JOURNAL_RUN_BYTES - 1;

	if (file)
		fclose(file);
	free(path);
	return is_read;
}

/* What was found is given to the store, under the run that the agent knows. */
static void store_add(struct captures *captures, const char *folder, char *run)
{
	if (!*captures->config->store)
		return;
	free(captures->added);
	captures->added = strdup(folder);
	if (captures->added)
		captures->adding = program_start(
			(char *[]){"hdtrace", "store", "add", "-q", "--store", captures->config->store, "--spool",
				captures->config->spool, "--run", run, "--part", captures->added, NULL},
			false);
}

/* One that was not given to the store because somebody was killed: once more, not again and again. */
static void leftover_add(struct captures *captures)
{
	struct folder *folders = folders_list(captures);
	char run[JOURNAL_RUN_BYTES];

	for (size_t index = 0; index < arrlenu(folders); index++) {
		if (!captures->adding && mark_read(folders[index].path, run)) {
			mark_remove(folders[index].path);
			store_add(captures, folders[index].path, run);
		}
		free(folders[index].path);
	}
	arrfree(folders);
}

/* Who ended by himself has put all into the spool, or said why not. */
static void adding_reap(struct captures *captures, int options)
{
	int status;

	if (!captures->adding || waitpid(captures->adding, &status, options) != captures->adding)
		return;
	captures->adding = 0;
	if (WIFEXITED(status))
		mark_remove(captures->added);
}

static void capture_finish(struct captures *captures)
{
	mark_write(captures, captures->unfinished);
	if (rename(captures->unfinished, captures->path))
		fprintf(stderr, "hdtrace: no capture came of %s: %s\n", captures->path,
			errno == ENOENT ? "its process had nothing to record" : strerror(errno));
	free(captures->unfinished);
	captures->unfinished = NULL;
}

static void process_reap(struct captures *captures, uint64_t now_ns)
{
	int status;

	adding_reap(captures, WNOHANG);
	if (!captures->process)
		return;
	if (waitpid(captures->process, &status, WNOHANG) != captures->process) {
		if (now_ns - captures->process_ns >
			(uint64_t)((captures->config->capture_seconds + PATIENCE_SECONDS) * (double)SECOND_NS))
			kill(captures->process, SIGKILL);
		return;
	}
	captures->process = 0;
	captures->tidied_ns = 0;
	if (!captures->unfinished)
		return;
	capture_finish(captures);
	/* It has said why. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE) {
		fprintf(stderr, "hdtrace: the capture %s is not whole\n", captures->path);
		mark_remove(captures->path);
		return;
	}
	store_add(captures, captures->path, captures->run);
}

/* --- when -------------------------------------------------------------------------------------- */

static struct memory *memory_of(struct captures *captures, const struct live_rank *rank)
{
	struct memory memory = {.target = rank->target, .start_time_ns = rank->start_time_ns};

	for (size_t index = 0; index < arrlenu(captures->memories); index++)
		if (captures->memories[index].target == rank->target &&
			captures->memories[index].start_time_ns == rank->start_time_ns)
			return &captures->memories[index];
	arrput(captures->memories, memory);
	return &arrlast(captures->memories);
}

static uint64_t out_of_memories(const struct live_rank *rank)
{
	uint64_t count = 0;

	for (size_t device = 0; device < rank->device_count; device++)
		count += rank->devices[device].out_of_memories;
	return count;
}

static bool is_nearly_full(const struct live_rank *rank, double percent)
{
	for (size_t index = 0; index < rank->device_count; index++) {
		const struct live_device *device = &rank->devices[index];
		uint64_t used = device->has_totals ? device->reserved_bytes : device->bytes;

		if (device->size_bytes != LIVE_UNKNOWN && device->size_bytes &&
			100.0 * (double)used / (double)device->size_bytes >= percent)
			return true;
	}
	return false;
}

static bool grows(const struct live_rank *rank, const struct growth *growth, uint64_t bytes_per_hour)
{
	double rate;

	for (size_t device = 0; device < rank->device_count; device++)
		if (growth_rate(growth, rank, device, &rate) && rate >= (double)bytes_per_hour)
			return true;
	return false;
}

/* Why a capture of it should be made now; NULL: it should not. */
static const char *reason_of(const struct agent_config *config, const struct live_rank *rank, struct memory *memory,
	const struct growth *growth)
{
	uint64_t count = out_of_memories(rank);
	bool ran_out = count > memory->out_of_memories;

	memory->out_of_memories = count;
	if (memory->asked)
		return "asked";
	if (ran_out && config->out_of_memory)
		return "out-of-memory";
	if (config->peak_percent > 0 && is_nearly_full(rank, config->peak_percent))
		return "peak";
	if (config->growth_bytes && grows(rank, growth, config->growth_bytes))
		return "growth";
	return NULL;
}

/* Of those begun in the last hour there may be so many. */
static bool hour_is_full(const struct captures *captures, uint64_t now_ns)
{
	uint64_t count = 0, known = captures->begun;

	if (known > CAPTURES_HOURLY_MAX)
		known = CAPTURES_HOURLY_MAX;
	for (uint64_t index = 0; index < known; index++)
		count += now_ns - captures->begun_ns[index] < HOUR_NS;
	return count >= captures->config->per_hour;
}

static bool rank_pauses(const struct captures *captures, const struct memory *memory, uint64_t now_ns)
{
	return memory->last_ns && now_ns - memory->last_ns < (uint64_t)(captures->config->pause * (double)SECOND_NS);
}

static void ranks_look(struct captures *captures, const struct live *live, const struct growth *growth,
	const struct captures_run *run, uint64_t now_ns)
{
	for (size_t index = 0; index < arrlenu(captures->memories); index++)
		captures->memories[index].seen = false;
	for (size_t index = 0; index < live_rank_count(live); index++) {
		const struct live_rank *rank = live_rank_at(live, index);
		struct memory *memory;
		const char *reason;

		if (rank->ended || !metrics_shows(rank))
			continue;
		memory = memory_of(captures, rank);
		memory->seen = true;
		reason = reason_of(captures->config, rank, memory, growth);
		/* The one before is to be in the store first. */
		if (!reason || captures->process || captures->adding)
			continue;
		/* Its reason lasts: counted once for each pause. */
		if (rank_pauses(captures, memory, now_ns) && !memory->asked)
			continue;
		if (hour_is_full(captures, now_ns)) {
			captures->refused++;
			memory->last_ns = now_ns;
			memory->asked = false;
			continue;
		}
		capture_begin(captures, rank, memory, reason, run, now_ns);
	}
	for (size_t index = arrlenu(captures->memories); index-- > 0;)
		if (!captures->memories[index].seen)
			arrdelswap(captures->memories, index);
}

void captures_look(struct captures *captures, const struct live *live, const struct growth *growth,
	const struct captures_run *run, uint64_t now_ns)
{
	process_reap(captures, now_ns);
	if (!*captures->config->captures)
		return;
	if (!captures->process && (!captures->tidied_ns || now_ns - captures->tidied_ns > TIDY_NS)) {
		tidy(captures);
		if (!captures->adding)
			leftover_add(captures);
		captures->tidied_ns = now_ns;
	}
	ranks_look(captures, live, growth, run, now_ns);
}

void captures_ask(struct captures *captures)
{
	for (size_t index = 0; index < arrlenu(captures->memories); index++)
		captures->memories[index].asked = true;
}

void captures_figures(const struct captures *captures, struct captures_figures *figures)
{
	*figures = (struct captures_figures){
		.begun = captures->begun,
		.refused = captures->refused,
		.bytes = captures->bytes,
	};
}

struct captures *captures_new(const struct agent_config *config)
{
	struct captures *captures = calloc(1, sizeof(*captures));

	if (captures)
		captures->config = config;
	return captures;
}

void captures_configure(struct captures *captures, const struct agent_config *config)
{
	captures->config = config;
}

void captures_stop(struct captures *captures)
{
	if (!captures)
		return;
	if (captures->process) {
		kill(captures->process, SIGINT);
		waitpid(captures->process, NULL, 0);
		if (captures->unfinished)
			capture_finish(captures);
	}
	/* It need not wait for a store that is away: what it has not given to the spool yet the next agent will. */
	if (captures->adding) {
		kill(captures->adding, SIGINT);
		waitpid(captures->adding, NULL, 0);
	}
	arrfree(captures->memories);
	free(captures->path);
	free(captures->unfinished);
	free(captures->added);
	free(captures);
}
