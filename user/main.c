// SPDX-License-Identifier: BSD-2-Clause
/* hdtrace: which verb was asked for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct verb verbs[] = {
	{"record", verb_record, "trace running processes: -p PID (the verb may be left out)"},
	{"run", verb_run, "start a command and trace it from its first instruction"},
	{"top", verb_top, "watch what running processes hold: -p PID"},
	{"agent", verb_agent, "follow all training processes of this machine: metrics, records, captures"},
	{"report", verb_report, "make the reports of a capture again"},
	{"explain", verb_explain, "what stands out in a trace, in words; does it fit elsewhere?"},
	{"store", verb_store, "put what was traced into the audit store, which one machine or a fleet has"},
	{"audit", verb_audit, "questions to the audit store: who wastes, who is near the limit, what changed"},
	{"diff", verb_diff, "what differs between two runs; was a dry run right?"},
	{"doctor", verb_doctor, "can hdtrace work here, and on this process?"},
};

#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static void help_print(FILE *out)
{
	fputs("hdtrace: explain the memory of a running training job, from outside\n\n", out);
	fputs("  hdtrace -p PID [-o FOLDER] [-d SECONDS | --steps N]\n\n", out);
	for (size_t index = 0; index < VERB_COUNT; index++)
		fprintf(out, "  hdtrace %-8s %s\n", verbs[index].name, verbs[index].summary);
	fputs("\n`hdtrace VERB --help` lists a verb's options; the manual is hdtrace(8).\n", out);
}

/* A file that is opened later must not become standard output. */
static void standard_descriptors_open(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int verb_dispatch(int argc, char **argv)
{
	if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help_print(argc < 2 ? stderr : stdout);
		return argc < 2 ? STATUS_USAGE : STATUS_COMPLETE;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("hdtrace " HDTRACE_VERSION);
		return STATUS_COMPLETE;
	}
	for (size_t index = 0; index < VERB_COUNT; index++)
		if (!strcmp(argv[1], verbs[index].name))
			return verbs[index].run(argc - 1, argv + 1);
	if (argv[1][0] == '-')
		return verb_record(argc, argv);
	fprintf(stderr, "hdtrace: there is no verb %s; `hdtrace --help` lists them\n", argv[1]);
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	int status;

	standard_descriptors_open();
	status = verb_dispatch(argc, argv);
	/* A reader that has seen enough (EPIPE) is no failure. */
	if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		fprintf(stderr, "hdtrace: cannot write to standard output: %s\n", strerror(errno));
		return status == STATUS_COMPLETE || status == STATUS_LOST ? STATUS_FAILED : status;
	}
	return status;
}
