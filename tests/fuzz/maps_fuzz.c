/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text as /proc/PID/maps: a target chooses the paths in it. What is found is well-formed, and each file once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "probe/catalogue.h"
#include "target/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void files_check(const struct mapped_file *files)
{
	for (ptrdiff_t index = 0; index < arrlen(files); index++) {
		if (!files[index].inode || files[index].end <= files[index].start || strchr(files[index].path, '\n'))
			abort();
		if (library_role_of(files[index].path) >= LIBRARY_ROLES)
			abort();
		for (ptrdiff_t before = 0; before < index; before++)
			if (files[before].device == files[index].device && files[before].inode == files[index].inode)
				abort();
	}
}

/* A mapping that is appended to any text is found, unless that text has the same file. */
static void text_use(char *text, size_t size)
{
	static const char last[] = "\n1000-2000 r-xp 00000000 fe:01 18446744073709551615 /the last";
	struct mapped_file *files;

	if (maps_parse(text, &files))
		abort();
	files_check(files);
	maps_free(files);
	memcpy(text + size, last, sizeof(last));
	if (maps_parse(text, &files))
		abort();
	if (strlen(text) == size + sizeof(last) - 1 && !arrlen(files))
		abort();
	maps_free(files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { ROOM = 128 };
	char *text = malloc(size + ROOM);

	memcpy(text, data, size);
	text[size] = '\0';
	text_use(text, size);
	free(text);
	return 0;
}
