/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole files: one that cannot be written is told by its reason, and leaves nothing. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "report/output.h"
#include "store_records.h"

/* The last write fails, or one long before it, of which stdio keeps no reason. */
Test(output, that_finds_no_room_says_so, .timeout = 20)
{
	static const size_t sizes[] = {100001, 1 << 20};
	struct rlimit limit = {100000, RLIM_INFINITY};
	char *folder = folder_new(), *path = path_in(folder, "report");

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	for (size_t index = 0; index < sizeof(sizes) / sizeof(sizes[0]); index++) {
		struct output output;

		cr_assert(eq(int, output_open(&output, path), 0));
		for (size_t byte = 0; byte < sizes[index]; byte++)
			fputc('x', output.file);
		cr_expect(eq(int, output_commit(&output), -EFBIG), "of %zu bytes", sizes[index]);
	}
	cr_expect(eq(int, rmdir(folder), 0), "something is left");
	free(folder);
	free(path);
}
