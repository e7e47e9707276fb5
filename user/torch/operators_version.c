/* SPDX-License-Identifier: BSD-2-Clause */
/* Which PyTorch a library is of, by what the library itself says. */
#include "torch/operators.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "torch/operators_schema.h"

#define VERSION_PART_MAX 999  /* of major and minor */
#define VERSION_LENGTH_MAX 64 /* bytes of a whole version text: 2.14.1+cu128.git1234567 */

struct version {
	unsigned int major, minor;
};

static bool number_take(const char **at, unsigned int *number)
{
	const char *first = *at;

	for (*number = 0; **at >= '0' && **at <= '9' && *number <= VERSION_PART_MAX; ++*at)
		*number = *number * 10 + (unsigned int)(**at - '0');
	return *at > first && *number <= VERSION_PART_MAX;
}

/* Reads MAJOR.MINOR and what may follow them. */
static bool version_parse(const char *text, struct version *out)
{
	if (!number_take(&text, &out->major) || *text++ != '.' || !number_take(&text, &out->minor))
		return false;
	return *text == '\0' || *text == '.';
}

static bool version_of_soname(const char *soname, struct version *out)
{
	const char *suffix = strstr(soname, ".so.");

	if (strncmp(soname, "libtorch", strlen("libtorch")) && strncmp(soname, "libc10", strlen("libc10")))
		return false;
	return suffix && version_parse(suffix + strlen(".so."), out);
}

/* caffe2::GetBuildOptions names its options; the version is the string behind the name. */
static int version_visit(void *context, const char *piece, size_t size, size_t fresh)
{
	static const char option[] = "\0TORCH_VERSION"; /* with the NUL before and behind */
	const char *at = piece, *end = piece + size;

	(void)fresh;
	while ((at = memmem(at, (size_t)(end - at), option, sizeof(option)))) {
		const char *text = at + sizeof(option);
		size_t room = (size_t)(end - text);

		if (memchr(text, 0, room < VERSION_LENGTH_MAX ? room : VERSION_LENGTH_MAX) &&
			version_parse(text, context))
			return 1;
		at = text;
	}
	return 0;
}

int torch_version(const struct elf_file *library, unsigned int *major, unsigned int *minor)
{
	struct version version;
	int found = version_of_soname(elf_file_soname(library), &version);

	if (!found)
		found = section_visit(library, ".rodata", version_visit, &version);
	if (found < 0)
		return found;
	if (!found)
		return -ENOENT;
	*major = version.major;
	*minor = version.minor;
	return 0;
}
