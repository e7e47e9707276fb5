/* SPDX-License-Identifier: BSD-2-Clause */
/* What is read about a process: its maps, its environment, whether it is there. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "containers/containers.h"
#include "target/identity.h"
#include "target/maps.h"
#include "target/memory.h"
#include "target/process.h"
#include "target/tree.h"

/* --- maps ------------------------------------------------------------------------ */

static struct mapped_file *parse(const char *text, ptrdiff_t count)
{
	struct mapped_file *files;

	cr_assert_eq(maps_parse(text, &files), 0);
	cr_assert_eq(arrlen(files), count, "%td files in: %s", arrlen(files), text);
	return files;
}

Test(maps, are_the_executable_files_of_a_process)
{
	struct mapped_file *files =
		parse("55e4d6c00000-55e4d6c22000 r--p 00000000 fe:01 1311 /usr/bin/cat\n"
		      "55e4d6c22000-55e4d6c44000 r-xp 00002000 fe:01 1311                       /usr/bin/cat\n"
		      "7ffcf9b3f000-7ffcf9b60000 rw-p 00000000 00:00 0                          [stack]\n"
		      "7f0000000000-7f0000010000 rw-p 00000000 00:00 0\n"
		      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
		      "7f1000000000-7f1000010000 r-xs 0000a000 103:0b 77 /opt/with space/libc10.so (deleted)\n",
			2);

	cr_assert_eq(files[0].device, makedev(0xfe, 1));
	cr_assert_eq(files[0].inode, 1311);
	cr_assert_eq(files[0].start, 0x55e4d6c22000);
	cr_assert_eq(files[0].end, 0x55e4d6c44000);
	cr_assert_eq(files[0].offset, 0x2000);
	cr_assert_str_eq(files[0].path, "/usr/bin/cat");
	cr_assert_eq(files[1].device, makedev(0x103, 0xb));
	cr_assert_str_eq(files[1].path, "/opt/with space/libc10.so (deleted)");
	maps_free(files);
}

Test(maps, name_a_file_once_by_its_first_executable_segment)
{
	struct mapped_file *files = parse("1000-2000 r-xp 00000000 fe:01 5 /a\n"
					  "3000-4000 r-xp 00001000 fe:01 5 /a\n"
					  "5000-6000 r-xp 00000000 fe:02 5 /b\n"
					  "7000-8000 r-xp 00000000 fe:01 5 /another name of a\n",
		2);

	cr_assert_eq(files[0].start, 0x1000);
	cr_assert_str_eq(files[1].path, "/b");
	maps_free(files);
}

Test(maps, pass_over_lines_that_are_not_well_formed)
{
	static const char *const texts[] = {"", "\n\n\n", "garbage", "1000-2000", "1000-2000 r-xp", "1000-2000 r\n",
		"1000-2000 r-xp 0 fe:01\n5 /the inode is on the next line\n", "2000-1000 r-xp 0 fe:01 5 /backwards\n",
		"1000-1000 r-xp 0 fe:01 5 /empty\n", "1000-2000 r-xp 0 fe:01 0 /no inode\n",
		"1000-2000 rw-p 0 fe:01 5 /no code\n", "zz-2000 r-xp 0 fe:01 5 /no number\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		maps_free(parse(texts[i], 0));
}

Test(maps, need_neither_a_path_nor_a_last_line_end)
{
	struct mapped_file *files = parse("1000-2000 r-xp 0 fe:01 5", 1);

	cr_assert_str_eq(files[0].path, "");
	maps_free(files);
}

/* The kernel allows 65530 mappings; a target may have them all. */
Test(maps, of_many_mappings_take_no_long_time, .timeout = 20)
{
	enum { MAPPINGS = 65536, LINE = 96 };
	char *text = malloc((size_t)MAPPINGS * LINE), *at = text;

	for (unsigned int i = 0; i < MAPPINGS; i++)
		at += sprintf(at, "%x-%x r-xp 00000000 fe:01 %u /usr/lib/some/folder/library.so.1\n", 0x1000 * (i + 1),
			0x1000 * (i + 2), i % 100 + 1);
	maps_free(parse(text, 100));
	free(text);
}

Test(maps, of_this_process_have_this_program)
{
	struct mapped_file *files;
	struct stat program, opened;
	bool found = false;

	cr_assert_eq(stat("/proc/self/exe", &program), 0);
	cr_assert_eq(maps_read(getpid(), &files), 0);
	for (ptrdiff_t index = 0; index < arrlen(files); index++) {
		int fd;

		if (files[index].inode != program.st_ino)
			continue;
		found = true;
		fd = mapped_file_open(getpid(), &files[index]);
		if (fd == -EPERM || fd == -EACCES)
			continue; /* only root may */
		cr_assert_geq(fd, 0, "%s", strerror(-fd));
		cr_assert_eq(fstat(fd, &opened), 0);
		cr_assert_eq(opened.st_ino, program.st_ino);
		close(fd);
	}
	cr_assert(found);
	maps_free(files);
}

Test(maps, a_file_is_opened_where_its_mapping_has_changed_since)
{
	struct mapped_file *files;
	int fd = -ENOENT;

	cr_assert_eq(maps_read(getpid(), &files), 0);
	cr_assert_gt(arrlen(files), 0);
	files[0].end += 1 << 20;
	fd = mapped_file_open(getpid(), &files[0]);
	if (fd != -EPERM && fd != -EACCES)
		cr_assert_geq(fd, 0, "%s", strerror(-fd));
	close(fd);
	files[0].inode++;
	fd = mapped_file_open(getpid(), &files[0]);
	cr_assert(fd == -ENOENT || fd == -EPERM || fd == -EACCES);
	maps_free(files);
}

Test(maps, of_no_process_are_refused)
{
	struct mapped_file *files;

	cr_assert_eq(maps_read(-1, &files), -ENOENT);
	cr_assert_null(files);
}

/* --- environment --------------------------------------------------------------------- */

/* NUL-separated, as /proc/PID/environ; proc_read sets another NUL behind. */
#define ENVIRONMENT(text) ((struct process){.environment = (char[]){text}, .environment_size = sizeof(text) - 1})

Test(environment, has_the_values_of_its_variables)
{
	struct process process = ENVIRONMENT("HOME=/root\0RANK=3\0EMPTY=\0RANK2=4\0A=b=c\0RANK=7");

	cr_assert_str_eq(process_environment(&process, "HOME"), "/root");
	cr_assert_str_eq(process_environment(&process, "RANK"), "3", "the first one counts");
	cr_assert_str_eq(process_environment(&process, "RANK2"), "4");
	cr_assert_str_eq(process_environment(&process, "EMPTY"), "");
	cr_assert_str_eq(process_environment(&process, "A"), "b=c");
	cr_assert_null(process_environment(&process, "RAN"));
	cr_assert_null(process_environment(&process, "root"));
	cr_assert_null(process_environment(&process, "ABSENT"));
}

Test(environment, may_be_missing_or_strange)
{
	struct process none = {0}, strange = ENVIRONMENT("=value\0\0no equal sign\0LAST=unended");

	cr_assert_null(process_environment(&none, "RANK"));
	cr_assert_null(process_environment(&strange, "RANK"));
	cr_assert_str_eq(process_environment(&strange, "LAST"), "unended");
}

Test(environment, numbers_are_whole_and_not_negative)
{
	struct process process = ENVIRONMENT("ZERO=0\0RANK=12\0NEGATIVE=-1\0TEXT=abc\0TAIL=3x\0EMPTY=\0"
					     "LARGE=99999999999999999999\0FRACTION=1.5");
	static const char *const no_numbers[] = {"NEGATIVE", "TEXT", "TAIL", "EMPTY", "LARGE", "FRACTION", "ABSENT"};
	long value = 77;

	cr_assert(process_environment_number(&process, "ZERO", &value));
	cr_assert_eq(value, 0);
	cr_assert(process_environment_number(&process, "RANK", &value));
	cr_assert_eq(value, 12);
	for (size_t i = 0; i < sizeof(no_numbers) / sizeof(no_numbers[0]); i++)
		cr_assert_not(process_environment_number(&process, no_numbers[i], &value), "%s", no_numbers[i]);
}

/* --- processes ------------------------------------------------------------------------- */

Test(process, says_what_it_runs_and_for_whom)
{
	struct process process;
	char program[4096];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	cr_assert_gt(length, 0);
	program[length] = '\0';
	cr_assert_eq(process_open(getpid(), &process), 0);
	cr_assert_eq(process.pid, getpid());
	cr_assert_eq(process.uid, geteuid());
	cr_assert_str_eq(process.executable, program);
	cr_assert_gt(strlen(process.command), 0);
	cr_assert_not_null(process_environment(&process, "PATH"));
	cr_assert(process_is_alive(&process));
	process_close(&process);
	process_close(&process);
}

Test(process, is_read_again_after_an_exec_and_noticed_when_it_ends)
{
	struct process process;
	int ready[2], status;
	pid_t child;
	char byte;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		dup2(ready[1], STDOUT_FILENO);
		execle("/bin/sh", "sh", "-c", "echo; read line", (char *)NULL, (char *[]){(char[]){"RANK=5"}, NULL});
		_exit(127);
	}
	cr_assert_eq(process_open(child, &process), 0);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	cr_assert_eq(process_refresh(&process), 0);
	cr_assert_str_eq(process.command, "sh -c echo; read line");
	cr_assert_str_eq(process_environment(&process, "RANK"), "5");
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_not(process_is_alive(&process));
	cr_assert_eq(process_refresh(&process), -ESRCH);
	cr_assert_null(process_environment(&process, "RANK"), "nothing of the dead process remains");
	process_close(&process);
	cr_assert_eq(process_open(child, &process), -ESRCH);
}

static void *thread_open(void *result)
{
	struct process process;

	*(int *)result = process_open((pid_t)syscall(SYS_gettid), &process);
	return NULL;
}

Test(process, is_not_one_of_its_threads)
{
	pthread_t thread;
	int result = 0;

	cr_assert_eq(pthread_create(&thread, NULL, thread_open, &result), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(result, -ENOTSUP);
}

/* --- memory ---------------------------------------------------------------------------- */

Test(memory, is_read_whole_or_not_at_all)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), copy[8];

	cr_assert_neq(pages, MAP_FAILED);
	memcpy(pages + page - 8, "contents", 8);
	cr_assert_eq(munmap(pages + page, page), 0);
	cr_assert_eq(memory_read(getpid(), (uintptr_t)(pages + page - 8), copy, 8), 0);
	cr_assert_arr_eq(copy, "contents", 8);
	cr_assert_eq(memory_read(getpid(), (uintptr_t)(pages + page - 4), copy, 8), -EFAULT, "half of it is there");
	cr_assert_eq(memory_read(getpid(), 0, copy, 8), -EFAULT);
}

/* --- identity ---------------------------------------------------------------------- */

static struct identity identity_of(const char *environment, size_t size)
{
	struct process process = {.environment = (char *)environment, .environment_size = size};
	struct identity identity;

	identity_read(&process, &identity);
	return identity;
}

#define IDENTITY(environment) identity_of(environment, sizeof(environment))

Test(identity, is_what_each_launcher_says)
{
	const struct identity identities[] = {
		IDENTITY("RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1"),
		IDENTITY("OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_SIZE=8\0OMPI_COMM_WORLD_LOCAL_RANK=1"),
		IDENTITY("PMI_RANK=3\0PMI_SIZE=8\0MPI_LOCALRANKID=1"),
		IDENTITY("SLURM_PROCID=3\0SLURM_NTASKS=8\0SLURM_LOCALID=1"),
	};
	static const char *const sources[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		cr_assert_eq(identities[i].rank, 3, "%s", sources[i]);
		cr_assert_eq(identities[i].world_size, 8, "%s", sources[i]);
		cr_assert_eq(identities[i].local_rank, 1, "%s", sources[i]);
		cr_assert_str_eq(identities[i].rank_source, sources[i]);
		cr_assert_str_eq(identities[i].fault, "");
	}
}

Test(identity, of_mindspore_and_pmix)
{
	cr_assert_eq(IDENTITY("RANK_ID=2\0RANK_SIZE=4").rank, 2);
	cr_assert_eq(IDENTITY("RANK_ID=2\0RANK_SIZE=4").world_size, 4);
	cr_assert_eq(IDENTITY("PMIX_RANK=5").rank, 5);
	cr_assert_eq(IDENTITY("PMIX_RANK=5").world_size, IDENTITY_UNKNOWN);
}

Test(identity, is_unknown_without_a_launcher)
{
	struct identity identity = IDENTITY("PATH=/bin\0LOCAL_RANKS=4");

	cr_assert_eq(identity.rank, IDENTITY_UNKNOWN);
	cr_assert_null(identity.rank_source);
	cr_assert_str_eq(identity.job, "");
	cr_assert_str_eq(identity.fault, "");
}

Test(identity, out_of_range_is_told_by_name_and_not_used)
{
	struct identity identity = IDENTITY("RANK=8\0WORLD_SIZE=8");

	cr_assert_eq(identity.rank, IDENTITY_UNKNOWN);
	cr_assert_str_eq(identity.fault, "RANK is 8, which is not below WORLD_SIZE, 8; it is not used");
	identity = IDENTITY("RANK=-1\0WORLD_SIZE=8");
	cr_assert_eq(identity.rank, IDENTITY_UNKNOWN);
	cr_assert_str_eq(identity.fault, "RANK is -1, which is not a number from 0 on; it is not used");
	identity = IDENTITY("RANK=0\0WORLD_SIZE=0");
	cr_assert_eq(identity.rank, 0);
	cr_assert_str_eq(identity.fault, "WORLD_SIZE is 0, which is not a number from 1 on; it is not used");
	identity = IDENTITY("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=x");
	cr_assert_eq(identity.local_rank, IDENTITY_UNKNOWN);
	cr_assert_str_eq(identity.fault, "LOCAL_RANK is x, which is not a number from 0 on; it is not used");
}

Test(identity, names_a_job_as_a_folder)
{
	cr_assert_str_eq(IDENTITY("TORCHELASTIC_RUN_ID=../a b").job, "job_.._a_b");
	cr_assert_str_eq(IDENTITY("TORCHELASTIC_RUN_ID=none\0SLURM_JOB_ID=17").job, "job_17");
	cr_assert_str_eq(IDENTITY("SLURM_JOB_ID=17").job_source, "SLURM_JOB_ID");
	cr_assert_str_eq(IDENTITY("MASTER_PORT=29500").job, "job_29500");
}

Test(identity, names_a_job_by_its_pod)
{
	static const char uid[] = "0f8fad5b-d9cb-469f-a165-70867728950e";
	static const char environment[] = "MASTER_ADDR=localhost\0MASTER_PORT=29500";
	static const char elsewhere[] = "MASTER_ADDR=job-master-0\0MASTER_PORT=29500";
	struct process process = {.environment = (char *)environment, .environment_size = sizeof(environment)};
	struct identity identity;

	process_pod_find("0::/kubepods/burstable/pod0f8fad5b-d9cb-469f-a165-70867728950e/abc\n", process.pod);
	cr_assert_str_eq(process.pod, uid);
	process_pod_find(
		"0::/kubepods.slice/kubepods-pod0f8fad5b_d9cb_469f_a165_70867728950e.slice/cri-1.scope\n", process.pod);
	cr_assert_str_eq(process.pod, uid);
	identity_read(&process, &identity);
	cr_assert_str_eq(identity.job, "job_0f8fad5b-d9cb-469f-a165-70867728950e");
	cr_assert_str_eq(identity.job_source, "pod");
	process.environment = (char *)elsewhere;
	process.environment_size = sizeof(elsewhere);
	identity_read(&process, &identity);
	cr_assert_str_eq(identity.job_source, "MASTER_PORT");
	process_pod_find("0::/user.slice/pod0f8fad5b-d9cb\n", process.pod);
	cr_assert_str_eq(process.pod, "");
	process_pod_find("0::/tripod0f8fad5b-d9cb-469f-a165-70867728950e\n", process.pod);
	cr_assert_str_eq(process.pod, "");
	process_pod_find("", process.pod);
	cr_assert_str_eq(process.pod, "");
}

/* --- tree -------------------------------------------------------------------------- */

Test(tree, has_every_process_with_its_parent)
{
	pid_t child = fork();
	struct process_entry *entries;
	bool found = false;

	if (!child) {
		pause();
		_exit(0);
	}
	cr_assert_eq(processes_read(&entries), 0);
	for (ptrdiff_t i = 0; i < arrlen(entries); i++) {
		found |= entries[i].pid == child && entries[i].parent == getpid();
		cr_assert(!i || entries[i - 1].pid < entries[i].pid);
	}
	cr_assert(found);
	cr_assert_eq(process_namespace_pid(child), child);
	arrfree(entries);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A name may look like the fields behind it. */
Test(process, is_told_from_another_one_of_its_number_by_when_it_was_started)
{
	uint64_t mine = process_start_ticks(getpid()), child;
	pid_t pid;
	int hold[2];

	cr_assert_eq(pipe(hold), 0);
	usleep(2 * 1000000 / (useconds_t)sysconf(_SC_CLK_TCK));
	pid = fork();
	if (pid == 0) {
		char byte;

		prctl(PR_SET_NAME, "a) R 1 1 1 1");
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0);
	}
	close(hold[0]);
	child = process_start_ticks(pid);
	cr_expect_gt(mine, 0);
	cr_expect_gt(child, mine);
	cr_expect_lt(child, mine + 3600 * (uint64_t)sysconf(_SC_CLK_TCK));
	close(hold[1]);
	waitpid(pid, NULL, 0);
	cr_expect_eq(process_start_ticks(pid), 0);
}
