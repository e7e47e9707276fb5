/* SPDX-License-Identifier: BSD-2-Clause */
/* Words of the command line that are more than a name or a number; paths of outputs. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/size.h"
#include "cli/cli.h"

Test(size, is_a_number_and_a_unit_of_1024)
{
	static const struct {
		const char *text;
		uint64_t size;
	} sizes[] = {{"0", 0}, {"1", 1}, {"4096", 4096}, {"1K", 1024}, {"64M", 64ull << 20}, {"2G", 2ull << 30},
		{"16777215G", 16777215ull << 30}, {"18446744073709551615", UINT64_MAX}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t size = 0;

		cr_assert(size_parse(sizes[i].text, &size), "%s", sizes[i].text);
		cr_assert_eq(size, sizes[i].size, "%s", sizes[i].text);
	}
}

Test(size, is_nothing_else)
{
	static const char *const texts[] = {"", "K", "-1", "-1K", "abc", "1T", "1KB", "1k", "1 K", "1.5M", "0x10",
		"18446744073709551616", "18014398509481984K", "99999999999G"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint64_t size = 77;

		cr_assert_not(size_parse(texts[i], &size), "%s", texts[i]);
		cr_assert_eq(size, 77, "%s", texts[i]);
	}
}

Test(formats, are_a_list_of_names)
{
	unsigned int formats;

	cr_assert(formats_parse("csv", &formats));
	cr_assert_eq(formats, REPORT_CSV);
	cr_assert(formats_parse("json", &formats));
	cr_assert_eq(formats, REPORT_JSON);
	cr_assert(formats_parse("json,csv", &formats));
	cr_assert_eq(formats, REPORT_CSV | REPORT_JSON);
	cr_assert(formats_parse("html", &formats));
	cr_assert_eq(formats, REPORT_HTML);
	cr_assert(formats_parse("csv,json,html", &formats));
	cr_assert_eq(formats, REPORT_DEFAULT);
	cr_assert(formats_parse("folded,sqlite", &formats));
	cr_assert_eq(formats, REPORT_FOLDED | REPORT_SQLITE);
	cr_assert(formats_parse("all", &formats));
	cr_assert_eq(formats, REPORT_DEFAULT | REPORT_SNAPSHOT | REPORT_PERFETTO | REPORT_FOLDED | REPORT_SQLITE);
	cr_assert(formats_parse("csv,csv", &formats));
	cr_assert_eq(formats, REPORT_CSV);
}

Test(formats, that_are_unknown_are_refused)
{
	static const char *const texts[] = {
		"", ",", "htm", "csv,pdf", "csvx", "cs", "CSV", "csv json", ",csv", "csv,,json"};
	unsigned int formats;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_assert_not(formats_parse(texts[i], &formats), "%s", texts[i]);
}

Test(folder, is_made_with_its_parents_and_nothing_is_left_of_a_failure)
{
	char top[] = "/tmp/options_test.XXXXXX", *deep, *file, *below;
	struct stat status;
	size_t made = 77;

	cr_assert_not_null(mkdtemp(top));
	deep = path_join(top, "a/b//c");
	file = path_join(top, "file");
	below = path_join(file, "below");
	cr_assert_eq(folder_make(deep, &made), 0);
	cr_assert_eq(folder_make(deep, NULL), 0, "it is there already");
	cr_assert_eq(stat(deep, &status), 0);
	cr_assert(S_ISDIR(status.st_mode));
	folder_unmake(deep, made);
	cr_assert_eq(stat(deep, &status), -1);
	close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	cr_assert_eq(folder_make(file, NULL), -ENOTDIR);
	cr_assert_eq(folder_make(below, NULL), -ENOTDIR);
	cr_assert_eq(folder_make("/proc/none", NULL), -ENOENT);
	cr_assert_eq(unlink(file), 0);
	cr_assert_eq(rmdir(top), 0, "nothing else is there");
	free(deep);
	free(file);
	free(below);
}

Test(folder, is_unmade_as_far_as_it_was_made_and_is_empty)
{
	char top[] = "/tmp/options_test.XXXXXX", *deep, *half, *file;
	size_t made;

	cr_assert_not_null(mkdtemp(top));
	deep = path_join(top, "a/b//c/");
	half = path_join(top, "a/b");
	file = path_join(top, "a/file");
	cr_assert_eq(folder_make(deep, &made), 0);
	folder_unmake(deep, made);
	cr_assert_eq(access(top, F_OK), 0, "what was there before stays");
	cr_assert_neq(access(half, F_OK), 0);
	cr_assert_eq(folder_make(half, &made), 0);
	close(creat(file, 0600));
	folder_unmake(half, made);
	cr_assert_neq(access(half, F_OK), 0);
	cr_assert_eq(access(file, F_OK), 0, "a folder with something in it stays");
	cr_assert_eq(folder_make(top, &made), 0);
	folder_unmake(top, made);
	cr_assert_eq(access(file, F_OK), 0, "nothing was made");
	unlink(file);
	*strrchr(file, '/') = '\0';
	rmdir(file);
	cr_assert_eq(rmdir(top), 0, "nothing else is left");
	free(deep);
	free(half);
	free(file);
}
