/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands out in a job, in words: the peak and who makes it, memory that is
 * held for nothing, that grows, that lies in pieces, that differs between ranks.
 * Pure functions of finished ranks; nothing is said without numbers that show
 * it. docs/findings.md tells of each kind what it rests on, from when on it is
 * told, and when it is wrong.
 */
#ifndef HDTRACE_FINDINGS_H
#define HDTRACE_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/* In the order in which they are told where they weigh the same. */
enum finding_kind {
	FINDING_OUT_OF_MEMORY,
	FINDING_UNFINISHED,
	FINDING_FIT,
	FINDING_GROWTH,
	FINDING_DEAD,
	FINDING_LOGITS,
	FINDING_GRADIENTS,
	FINDING_OPTIMIZER,
	FINDING_RECOMPUTE,
	FINDING_IDLE,
	FINDING_FRAGMENTATION,
	FINDING_IMBALANCE,
	FINDING_PEAK,
	FINDING_KINDS
};

enum finding_severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_CRITICAL };
enum finding_confidence { CONFIDENCE_LOW, CONFIDENCE_MEDIUM, CONFIDENCE_HIGH };

/* What a piece of evidence is about. */
enum evidence_kind {
	EVIDENCE_BLOCK,
	EVIDENCE_CATEGORY,
	EVIDENCE_COLLECTIVE,
	EVIDENCE_LINE,
	EVIDENCE_MODULE,
	EVIDENCE_RANK,
};

#define BLOCK_NONE SIZE_MAX
#define SAVES_UNKNOWN UINT64_MAX

struct evidence {
	enum evidence_kind kind;
	char *name;           /* "train.py:12", "Model.layers.1", "rank 3"; stb_ds */
	const char *holder;   /* what Python held it by, "": not known */
	size_t block;         /* of a block: its row */
	uint64_t bytes;       /* of a rank: its peak */
	uint64_t blocks;      /* 0: not counted */
	uint64_t byte_tasks;  /* bytes × tasks that they were held for nothing */
	uint64_t saves_bytes; /* by which the peak would be lower without it; SAVES_UNKNOWN */
};

/* One more number of a finding, for tools. The name belongs to the program. */
struct finding_number {
	const char *name;
	uint64_t value;
};

struct finding {
	enum finding_kind kind;
	enum finding_severity severity;
	enum finding_confidence confidence;
	const struct rank *rank;        /* NULL: of the job */
	const char *job;                /* its name */
	const struct device *device;    /* NULL: of none */
	char *id;                       /* "dead-0-cuda:1": the same in each report of the same job */
	uint64_t bytes;                 /* what it is about */
	uint64_t saves_bytes;           /* by which the peak of the device would be lower; SAVES_UNKNOWN */
	char *text, *advice;            /* sentences; all texts are stb_ds arrays */
	struct evidence *evidence;      /* stb_ds, what weighs most first */
	struct finding_number *numbers; /* stb_ds, by name */
};

struct finding_options {
	uint64_t device_bytes; /* does the job fit on such devices? 0: not asked */
};

/*
 * The findings of ranks (by job and rank, as the model has them), those that
 * weigh most first: an stb_ds array, to be given to findings_free. Texts and
 * ranks of the model are referred to.
 */
struct finding *findings_find(const struct rank *const *ranks, size_t count, const struct finding_options *options);
void findings_free(struct finding *findings);

const char *finding_kind_name(enum finding_kind kind);             /* "out_of_memory" */
const char *finding_severity_name(enum finding_severity severity); /* "warning" */
const char *finding_confidence_name(enum finding_confidence confidence);
const char *evidence_kind_name(enum evidence_kind kind);

/* Is it about this rank, or of its job? */
bool finding_concerns(const struct finding *finding, const struct rank *rank);

#endif
