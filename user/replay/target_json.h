/* SPDX-License-Identifier: BSD-2-Clause */
/* The few facts that the model needs from the JSON object that describes a target. */
#ifndef HDTRACE_REPLAY_TARGET_JSON_H
#define HDTRACE_REPLAY_TARGET_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARGET_RANK_UNKNOWN (-1)
#define TARGET_JOB_BYTES 80
#define TARGET_COMMAND_BYTES 256

struct target_facts {
	int32_t rank;                       /* TARGET_RANK_UNKNOWN when absent, null or out of range */
	int32_t pid;                        /* likewise */
	int32_t parent;                     /* index of the target that started it, TARGET_RANK_UNKNOWN likewise */
	bool from_start;                    /* false when absent */
	bool forked;                        /* likewise */
	bool lite;                          /* "level" is "lite" */
	char command[TARGET_COMMAND_BYTES]; /* cut to this room, "" when absent */
	char job[TARGET_JOB_BYTES];         /* "" when absent, null, too long, or no name of a folder */
};

/*
 * Reads "rank", "pid" and "parent" (numbers), "from_start" and "forked" (booleans),
 * "job", "level" and "command" (texts) of the outermost object; others, nested ones too, are ignored. Any size and
 * depth of JSON is safe. 0; -EBADMSG: not one JSON object (*facts holds the defaults); -ENOMEM.
 */
int target_json_read(const char *json, size_t length, struct target_facts *facts);

#endif
