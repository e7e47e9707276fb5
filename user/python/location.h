/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an instruction to its line: the location table of a code object
 * (co_linetable), as CPython has written it since 3.11 and describes it in
 * Objects/locations.md of its sources. Only lines are decoded, columns are
 * stepped over.
 */
#ifndef HDTRACE_PYTHON_LOCATION_H
#define HDTRACE_PYTHON_LOCATION_H

#include <stddef.h>
#include <stdint.h>

/* code_record.table_format of what is decoded here. */
#define LOCATION_FORMAT_311 311

/*
 * The line of the instruction `offset` bytes behind the first one, into *line.
 * -ENOENT: the table has no line for it (instructions that the compiler made
 * up, offsets past the end); -EBADMSG: the table breaks its format before it;
 * -EPROTONOSUPPORT: an unknown format. Reads only `length` bytes, each once.
 */
int location_line(
	uint32_t format, const uint8_t *table, size_t length, uint32_t first_line, uint64_t offset, uint32_t *line);

#endif
