/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the records of a capture to the calls of the model: keeps code objects,
 * turns stacks into frames with files and lines, and hands everything else on,
 * in order. Works on a whole file or on single records as they come, with the
 * same result. Neither calls model_finish: that is the caller's, when nothing
 * more comes.
 *
 * Records of targets that no CAPTURE_TARGET announced are dropped and counted.
 */
#ifndef HDTRACE_REPLAY_REPLAY_H
#define HDTRACE_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <hdtrace/capture.h>

#include "model/model.h"
#include "stream/capture_reader.h"

struct replay_counts {
	uint64_t records;         /* taken, of all kinds */
	uint64_t events;          /* of them, from the kernel side */
	uint64_t stacks;          /* definitions that came with events */
	uint64_t frames_unknown;  /* frames in them without a known code object */
	uint64_t codes;           /* code objects */
	uint64_t codes_refused;   /* not kept: too many (code_table.h) */
	uint64_t without_target;  /* records dropped: their target was not announced */
	uint64_t targets;         /* announced */
	uint64_t targets_unnamed; /* of them, whose description was no JSON object: it counts as {} */
	uint64_t targets_ended;   /* of them, whose trace ended in an orderly way */
};

struct replay;

struct replay *replay_new(struct model *model); /* NULL: no memory. The model stays the caller's. */
void replay_free(struct replay *replay);        /* accepts NULL */

/*
 * Takes the next record. -EBADMSG: it breaks its bounds (stream/record.h) and
 * was not used; otherwise 0, -ENOMEM, or what the model returned, after which
 * neither may be used further.
 */
int replay_record(struct replay *replay, const struct event *record);

const struct replay_counts *replay_counts(const struct replay *replay);

struct replay_result {
	bool complete; /* the whole file was read, and every target in it ended in an orderly way */
	struct capture_damage damage;
	struct replay_counts counts;
	uint64_t skipped;             /* records of kinds that are not known here */
	struct capture_header header; /* zero when it could not be read */
	char *session;                /* JSON text or NULL */
};

/*
 * Feeds a capture to the model, beside those that it was fed before. 0 also for a damaged or cut-off capture, whose
 * beginning the model has then: result->complete and ->damage tell. Errors are
 * those of capture_reader_open (->damage.reason has the text), of reading, and
 * of replay_record. The result is filled in any case; replay_result_clear frees it.
 */
int replay_file(const char *path, struct model *model, struct replay_result *result);

/* The same; `tell` is called now and then with how many of how many bytes of the file were read. */
int replay_file_telling(const char *path, struct model *model, struct replay_result *result,
	void (*tell)(void *context, uint64_t done, uint64_t all), void *context);

void replay_result_clear(struct replay_result *result);

#endif
