/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs of the command line, one file each, and what they share. */
#ifndef HDTRACE_CLI_H
#define HDTRACE_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/recorder.h"
#include "report/report.h"

/* Exit status of every verb; `run` gives the command's own unless the trace itself failed. */
enum exit_status { STATUS_COMPLETE = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_LOST = 3, STATUS_REFUSED = 4 };

/* argv[0] is the verb. Each returns an exit status. */
int verb_record(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_explain(int argc, char **argv);
int verb_diff(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_store(int argc, char **argv);
int verb_audit(int argc, char **argv);
int verb_top(int argc, char **argv);
int verb_agent(int argc, char **argv);

/* The capture's name in an output folder. */
#define CAPTURE_NAME "capture.hdt"

struct output_options {
	unsigned int formats; /* enum report_format */
	bool all_blocks;
	struct device_choice devices;
	bool quiet;
	bool summary_to_stderr;
	struct report_options report;
};

/* Paths of captures that may be named by their folders: stb_ds, to be given to captures_free. NULL: one is not there,
 * which was told. */
char **captures_name(const char *const *inputs, size_t count);
void captures_free(char **paths);

/*
 * A finished model with at least one rank, of one capture or of several that ranks of the same jobs are in. NULL when
 * there is none, which was told. *status: STATUS_COMPLETE, STATUS_LOST, or STATUS_FAILED with NULL.
 */
struct model *captures_read(
	const char *const *captures, size_t count, const struct model_options *options, int *status);

/* Its ranks, by job and rank: stb_ds. */
const struct rank **model_ranks(const struct model *model);

/*
 * Make all reports of captures below `folder` and print the summary: of one, or of several that ranks of the same jobs
 * are in. Returns an exit status; what went wrong was told.
 */
int outputs_write(const char *const *captures, size_t count, const char *folder, const struct output_options *options);

/* Parse "csv,json", or "all", into a mask. Returns false for an unknown name. */
bool formats_parse(const char *text, unsigned int *formats);

/* Keys of the options that every verb with reports has; a verb's own keys start at KEY_VERB. */
enum output_key { KEY_ALL_BLOCKS = 256, KEY_DEVICE, KEY_POOL_NAME, KEY_FORMAT, KEY_CSV_LAYOUT, KEY_VERB };

/*
 * An argp parser's part for those options; ends the program with a message for
 * a bad value. Returns ARGP_ERR_UNKNOWN for any other key.
 */
error_t output_option_parse(int key, char *text, struct output_options *options, const struct argp_state *state);

/* An argp parser's help_filter for those options: which formats there are. */
char *output_help_filter(int key, const char *text, void *input);

/* targets.c: options of verbs that trace. What is wrong ends the program with a message. */
#define RING_SIZE_DEFAULT (64ull << 20) /* a fast job fills 60 MB in a second; 8 MiB lost events */
/* A number above 0; returns false when it is none. */
bool number_parse(const char *text, double *number);
error_t pids_parse(const char *text, struct record_options *options, struct argp_state *state);
/* In ascending order, which is that of ranks when nothing says more, and each once. */
void pids_sort(struct record_options *options);
error_t level_parse(const char *text, struct record_options *options, struct argp_state *state);
error_t ring_size_parse(const char *text, struct record_options *options, struct argp_state *state);

#endif
