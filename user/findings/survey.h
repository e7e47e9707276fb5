/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the findings of a rank are made from, worked out once: lines of blocks,
 * when each was used last, the bytes of a device over time, and what its peak
 * would be without some of them. Inside of this room only.
 */
#ifndef HDTRACE_FINDINGS_SURVEY_H
#define HDTRACE_FINDINGS_SURVEY_H

#include "findings.h"

/* Less of the peak is not worth a word; so much is a warning. */
#define SHARE_TOLD 0.01
#define SHARE_WARNING 0.05
#define EVIDENCE_SHOWN 5

/* A rank. Orders are those of block_alive_at. */
struct survey {
	const struct rank *rank;
	bool users_known;        /* what operators use was looked at (not at level lite) */
	bool surely;             /* nothing was lost */
	uint32_t *run_of_task;   /* stb_ds: index into rank.runs, RUN_NONE */
	char **lines;            /* stb_ds: their names */
	uint32_t *line_of_stack; /* stb_ds: index into lines, LINE_NONE: the stack is empty */
	uint32_t line_of_older[CATEGORIES], line_of_remainder; /* of blocks that are older than the trace */
	uint32_t line_none;
	uint32_t *step_ends; /* stb_ds: in orders, where the first operator behind each step begins */
	bool *claimed;       /* stb_ds: blocks of which a more telling finding speaks */
};

#define LINE_NONE UINT32_MAX

/* One of its devices. */
struct scene {
	struct survey *survey;
	const struct rank *rank;
	const struct device *device;
	uint8_t index;       /* of the device */
	uint64_t *totals;    /* stb_ds: bytes after so many of rank.changes */
	uint64_t peak_bytes; /* the highest of them */
	uint32_t peak_order; /* where */
};

/* Bytes that need not have been there, [from, until) in orders. */
struct gap {
	uint32_t from, until;
	uint64_t bytes;
};

void survey_open(struct survey *survey, const struct rank *rank);
void survey_close(struct survey *survey);
void scene_open(struct scene *scene, struct survey *survey, uint8_t device);
void scene_close(struct scene *scene);

/* The line of the job that a block comes from: an index into survey.lines. */
uint32_t survey_line(const struct survey *survey, const struct block *block);
/* The run of a task, NULL when it is none. */
const struct operator_run *survey_run(const struct survey *survey, int64_t task);
/* From this order on nothing used the block any more. What an optimizer's step used last nobody can let go before its
 * end. */
uint32_t survey_unused_from(const struct survey *survey, const struct block *block);
/* Tasks that a block was held after its last use; 0 for one that stays. */
uint64_t survey_held_tasks(const struct survey *survey, const struct block *block);

/* A finding speaks of these rows, `rows`: stb_ds. */
void survey_claim(struct survey *survey, const size_t *rows);

/* By how much the peak would be lower without these bytes. `gaps`: stb_ds. */
uint64_t scene_saves(const struct scene *scene, const struct gap *gaps);
/* Worth a word: so many bytes of the peak. */
bool scene_is_told(const struct scene *scene, uint64_t bytes);
enum finding_severity scene_severity(const struct scene *scene, uint64_t saves);

/* Sums by what blocks have in common, in the order in which they showed up: an index is an element of `of`. */
struct tally {
	struct share *shares; /* stb_ds */
	struct {
		uint32_t key;
		size_t value;
	} * index; /* stb_ds map */
};

struct share {
	uint32_t key;
	uint64_t bytes, blocks, byte_tasks;
	uint64_t largest_bytes; /* of the block that names the holder */
	const char *holder;
};

void tally_add(struct tally *tally, uint32_t key, const struct block *block, uint64_t bytes, uint64_t byte_tasks);
void tally_free(struct tally *tally);
/* What weighs most first: by byte_tasks where there are any, else by bytes. Returns how many are worth telling. */
size_t tally_sort(struct tally *tally);
/* A share of a tally of lines as evidence. */
struct evidence *share_tell(const struct share *share, const struct survey *survey, struct finding *finding);
/* All of these that are worth telling; the tally is freed. */
void tally_tell_lines(struct tally *tally, const struct survey *survey, struct finding *finding);

/* A new finding of a device, at the end of the list. Its texts are to be filled in. */
struct finding *finding_add(struct finding **findings, enum finding_kind kind, const struct scene *scene);
void finding_number(struct finding *finding, const char *name, uint64_t value);
struct evidence *finding_evidence(struct finding *finding, enum evidence_kind kind, char *name, uint64_t bytes);

/* The finders, each in a file of its own. They append to the list. */
void find_out_of_memory(struct scene *scene, struct finding **findings);
void find_fragmentation(struct scene *scene, struct finding **findings);
void find_fit(struct scene *scene, uint64_t device_bytes, struct finding **findings);
void find_growth(struct scene *scene, struct finding **findings);
void find_logits(struct scene *scene, struct finding **findings);
void find_gradients(struct scene *scene, struct finding **findings);
void find_optimizer(struct scene *scene, struct finding **findings);
void find_dead(struct scene *scene, struct finding **findings); /* of what is not claimed */
void find_idle(struct scene *scene, struct finding **findings); /* likewise */
void find_recompute(struct scene *scene, struct finding **findings);
void find_peak(struct scene *scene, struct finding **findings); /* last: its advice rests on the others */
void find_imbalance(const struct rank *const *ranks, size_t count, struct finding **findings);
void find_unfinished(const struct rank *const *ranks, size_t count, struct finding **findings);

#endif
