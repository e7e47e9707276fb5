/* SPDX-License-Identifier: BSD-2-Clause */
/* Words for segments, shared by the formats; and their part of the JSON. */
#ifndef HDTRACE_REPORT_SEGMENTS_H
#define HDTRACE_REPORT_SEGMENTS_H

#include "json_writer.h"
#include "model/model.h"

#define SEGMENT_CALLER_BYTES 512

/* "cuda:0"; "" when it is not known. */
const char *segment_device_name(const struct rank *rank, uint8_t device);
/* "device", "managed", "pinned", "registered", "array", "imported" */
const char *segment_memory_name(const struct segment *segment);
/* "libnccl.so.2!ncclCommInitRank+0x1c", or less when less is known; cut to fit. */
const char *segment_caller(const struct rank *rank, uint64_t address, char text[SEGMENT_CALLER_BYTES]);

/* The operator that found no memory, NULL: none. */
const char *exhausted_name(const struct rank *rank, const struct out_of_memory *exhausted);

/* Members of `live`, with their keys: "kernels", "out_of_memory", "segments". */
void put_kernels(struct json *json, const struct rank *rank);
void put_out_of_memories(struct json *json, const struct rank *rank);
void put_segments(struct json *json, const struct rank *rank);

#endif
