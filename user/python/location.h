/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an instruction to its line: the location table of a code object, in
 * each of the formats that CPython has written: co_lnotab until 3.9,
 * co_linetable of 3.10 (PEP 626), co_linetable since 3.11. They are described in
 * Objects/lnotab_notes.txt and Objects/locations.md of its sources. Only lines
 * are decoded, columns are stepped over.
 */
#ifndef HDTRACE_PYTHON_LOCATION_H
#define HDTRACE_PYTHON_LOCATION_H

#include <stddef.h>
#include <stdint.h>

/* code_record.table_format of what is decoded here. */
#define LOCATION_FORMAT_309 309
#define LOCATION_FORMAT_310 310
#define LOCATION_FORMAT_311 311

/*
 * The line of the instruction `offset` bytes behind the first one, into *line.
 * -ENOENT: the table has no line for it (instructions that the compiler made
 * up, offsets past the end; format 309 has a line for every offset); -EBADMSG: the table breaks its format before it;
 * -EPROTONOSUPPORT: an unknown format. Reads only `length` bytes, each once.
 */
int location_line(
	uint32_t format, const uint8_t *table, size_t length, uint32_t first_line, uint64_t offset, uint32_t *line);

#endif
