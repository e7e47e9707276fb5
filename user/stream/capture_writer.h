/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a capture (hdtrace/capture.h). Records are copied into a buffer and
 * leave it compressed and checksummed, about a MiB at a time or when flushed,
 * each chunk by one write. The file has its final name from the start, so that
 * a writer that is killed leaves a capture which is readable up to its last
 * whole chunk.
 *
 * Not for several threads at once. Functions return 0 or a negative errno.
 * After a failed write (no space, I/O error) the half-written chunk is cut off
 * again, and every later call returns the same error and writes nothing: the
 * caller counts what it could not keep as LOSS_CAPTURE.
 */
#ifndef HDTRACE_STREAM_CAPTURE_WRITER_H
#define HDTRACE_STREAM_CAPTURE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include <hdtrace/capture.h>

struct capture_writer;

/* A Python code object as CAPTURE_CODE keeps it. Strings are UTF-8; nothing is owned. */
struct capture_code {
	uint64_t code;              /* address of the code object */
	uint64_t first_instruction; /* address of its first instruction */
	uint32_t first_line;
	uint32_t table_format; /* code_record.table_format */
	const char *file, *name, *qualified_name;
	const void *table;
	size_t table_length; /* bytes */
};

/*
 * Creates the capture at `path`, atomically in place of an older one. -EISDIR,
 * -EEXIST: something other than a regular file is there, and is left alone.
 */
int capture_writer_open(const char *path, struct capture_writer **writer);

/*
 * A writer without a file: it makes and checks records, for those that observe it, and keeps none.
 * capture_writer_bytes is 0 then.
 */
int capture_writer_fileless(struct capture_writer **writer);

/*
 * From now on `observe` sees each record as it is kept, of whatever function: one that follows the capture while it is
 * written gets just what a reader of the file will get. `record` is valid during the call only. -ENOSPC: there are
 * CAPTURE_OBSERVERS_MAX already.
 */
#define CAPTURE_OBSERVERS_MAX 4
int capture_writer_observe(
	struct capture_writer *writer, void (*observe)(void *context, const struct event *record), void *context);

/* Copies a record of any kind; -EBADMSG, and nothing kept, when it breaks the bounds of record.h. */
int capture_writer_append(struct capture_writer *writer, const struct event *record);

/* `kind`: CAPTURE_SESSION, CAPTURE_TARGET, CAPTURE_END. -E2BIG: longer than a record may be. */
int capture_writer_text(struct capture_writer *writer, uint16_t kind, uint16_t target, const char *json);
/* The name of the operators `index` of `target`; `flags` are enum operator_flag. */
int capture_writer_operator(
	struct capture_writer *writer, uint16_t target, uint16_t index, const char *name, uint32_t flags);
/* What lies at an address of native code: base name of the file, function ("": unknown), offset in it. */
int capture_writer_symbol(struct capture_writer *writer, uint16_t target, uint64_t address, const char *library,
	const char *name, uint32_t offset);
/* The name of a module; `time_ns`: when it was read. */
int capture_writer_module(
	struct capture_writer *writer, uint16_t target, uint64_t time_ns, uint64_t object, const char *name);
/* What held a storage at that time. */
int capture_writer_owner(struct capture_writer *writer, uint16_t target, uint64_t time_ns, enum owner_kind kind,
	const struct tensor_argument *storage, uint8_t element_type, const char *name);
int capture_writer_code(struct capture_writer *writer, uint16_t target, const struct capture_code *code);
int capture_writer_loss(struct capture_writer *writer, uint16_t target, const struct event_counters *counters);

/* Writes what is buffered, as a chunk of its own; nothing when nothing is buffered. */
int capture_writer_flush(struct capture_writer *writer);

/* Bytes of whole chunks in the file. */
uint64_t capture_writer_bytes(const struct capture_writer *writer);

/*
 * A draft is a writer whose file waits, without a name where the file system knows such files, to take the place of the
 * capture at `path`. `header` is that capture's. capture_writer_close removes a draft.
 */
int capture_writer_draft(const char *path, const struct capture_header *header, struct capture_writer **draft);

/* The descriptor of its file, for a process that closes all others. */
int capture_writer_descriptor(const struct capture_writer *writer);

/* How far a draft has come, where another process wrote to its file. */
struct capture_progress {
	uint64_t bytes;
	uint32_t chunks;
};
struct capture_progress capture_writer_progress(const struct capture_writer *writer);
void capture_writer_resume(struct capture_writer *draft, struct capture_progress progress);

/*
 * Flushes, and copies the whole chunks of the capture `fd` from the offset `from`, where one begins, up to `end`.
 * -EBADMSG: no chunk begins there.
 */
int capture_writer_copy(struct capture_writer *writer, int fd, uint64_t from, uint64_t end);

/*
 * The draft gets the chunks that `writer` has written from the offset `from` on, and its file the place of the
 * writer's, which goes on in it. The draft is closed in any case; after an error everything is as before.
 */
int capture_writer_replace(struct capture_writer *writer, struct capture_writer *draft, uint64_t from);

/* Flushes, closes and frees, also after an error, which it returns. Accepts NULL. */
int capture_writer_close(struct capture_writer *writer);

#endif
