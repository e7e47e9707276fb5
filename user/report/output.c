/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing of whole files: into a new file of a random name in the same folder,
 * which is renamed when everything is in it. Readers never see half a report,
 * and nothing in the folder is written through.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_MODE 0666               /* less the umask */
#define OUTPUT_BUFFER_BYTES (1u << 16) /* stays in the processor's cache */
/* 64 random bits do not meet twice, unless somebody keeps making such names. */
#define OUTPUT_ATTEMPTS 16

static int output_name(struct output *output)
{
	const char *name = strrchr(output->path, '/');
	size_t folder = name ? (size_t)(name - output->path) + 1 : 0;
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	free(output->temporary);
	output->temporary = NULL;
	if (asprintf(&output->temporary, "%.*s.%s.%016llx.tmp", (int)folder, output->path, output->path + folder,
		    (unsigned long long)random) < 0) {
		output->temporary = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int output_create(struct output *output)
{
	int descriptor = -1, error = 0;

	for (int i = 0; i < OUTPUT_ATTEMPTS && descriptor < 0; i++) {
		error = output_name(output);
		if (error)
			return error;
		descriptor = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, OUTPUT_MODE);
		if (descriptor < 0 && errno != EEXIST)
			return -errno;
	}
	if (descriptor < 0)
		return -EEXIST;
	output->file = fdopen(descriptor, "w");
	if (!output->file) {
		error = -errno;
		close(descriptor);
		unlink(output->temporary);
		return error;
	}
	setvbuf(output->file, NULL, _IOFBF, OUTPUT_BUFFER_BYTES);
	return 0;
}

static void output_clear(struct output *output)
{
	free(output->path);
	free(output->temporary);
	memset(output, 0, sizeof(*output));
}

int output_open(struct output *output, const char *path)
{
	int error;

	memset(output, 0, sizeof(*output));
	output->path = strdup(path);
	if (!output->path)
		return -ENOMEM;
	error = output_create(output);
	if (error)
		output_clear(output);
	return error;
}

/* Why nothing could be written into a file, which stdio has forgotten: the next write says it, or the one after half a
 * write. */
static int failure_of(int descriptor)
{
	static const char again[OUTPUT_BUFFER_BYTES];

	for (int i = 0; i < 2; i++)
		if (write(descriptor, again, sizeof(again)) < 0)
			return -errno;
	return -EIO;
}

int output_commit(struct output *output)
{
	int error = 0;

	if (fflush(output->file))
		error = -errno;
	else if (ferror(output->file))
		error = failure_of(fileno(output->file));
	if (fclose(output->file) && !error)
		error = -errno;
	output->file = NULL;
	if (!error && rename(output->temporary, output->path))
		error = -errno;
	if (error)
		unlink(output->temporary);
	output_clear(output);
	return error;
}

void output_discard(struct output *output)
{
	if (output->file) {
		fclose(output->file);
		unlink(output->temporary);
	}
	output_clear(output);
}
