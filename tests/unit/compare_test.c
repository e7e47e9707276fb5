/* SPDX-License-Identifier: BSD-2-Clause */
/* CSV files that are right and wrong, what they say of a peak, and two runs side by side. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"
#include "compare/csv.h"
#include "containers/containers.h"

#define HEADER_22                                                                                                      \
	"start_time_stamp,end_time_stamp,start_plot_time_stamp,end_plot_time_stamp,device_addr,stream_id,pool_type,"   \
	"size,actual_used_memory,actual_peak_memory,file_name,line_num,type,producer_task,task_name,node_name,"        \
	"graph_name,user_tasks,last_user_task,python_stack,is_persistent,is_small\r\n"
#define HEADER_20                                                                                                      \
	"start_time_stamp,end_time_stamp,device_addr,stream_id,pool_type,size,actual_used_memory,actual_peak_memory,"  \
	"file_name,line_num,type,producer_task,task_name,node_name,graph_name,user_tasks,last_user_task,"              \
	"python_stack,is_persistent,is_small,\n"
#define HEADER_14                                                                                                      \
	"start_time_stamp,end_time_stamp,device_addr,stream_id,pool_type,size,file_name,line_num,type,producer_task,"  \
	"task_name,node_name,graph_name,user_tasks\n"
#define FOREVER "9223372036854775807"

static FILE *file_of(const char *text)
{
	FILE *file = fmemopen((void *)text, strlen(text), "r");

	cr_assert(ne(ptr, file, NULL));
	return file;
}

/* --- rows ------------------------------------------------------------------------------------------ */

Test(csv, has_fields_as_pythons_csv_writes_them)
{
	FILE *file = file_of("a,\"b,\"\"c\"\"\",\r\n\r\n\"two\nlines\",d\"e,\nlast");
	struct csv csv;

	csv_open(&csv, file);
	cr_assert(eq(int, csv_next(&csv), 1));
	cr_expect(eq(sz, csv_count(&csv), 3));
	cr_expect(eq(str, (char *)csv_field(&csv, 1), "b,\"c\""));
	cr_expect(eq(str, (char *)csv_field(&csv, 2), ""));
	cr_assert(eq(int, csv_next(&csv), 1), "an empty line is no row");
	cr_expect(eq(u64, csv.line, 3));
	cr_expect(eq(str, (char *)csv_field(&csv, 0), "two\nlines"));
	cr_expect(eq(str, (char *)csv_field(&csv, 1), "d\"e"));
	cr_assert(eq(int, csv_next(&csv), 1));
	cr_expect(eq(u64, csv.line, 5));
	cr_expect(eq(str, (char *)csv_field(&csv, 0), "last"));
	cr_expect(eq(str, (char *)csv_field(&csv, 7), ""));
	cr_expect(eq(int, csv_next(&csv), 0));
	csv_close(&csv);
	fclose(file);
}

Test(csv, that_is_none_is_refused_with_its_place)
{
	static const struct {
		const char *text, *reason;
		uint64_t line;
		size_t field;
	} CASES[] = {
		{"a\nb,\"c", "not closed", 2, 2},
		{"a\n\"b\"c", "behind the closing quote", 2, 1},
		{"a,b\rc", "carriage return", 1, 2},
	};

	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		FILE *file = file_of(CASES[i].text);
		struct csv csv;
		int got;

		csv_open(&csv, file);
		do
			got = csv_next(&csv);
		while (got > 0);
		cr_assert(eq(int, got, -EBADMSG), "%s", CASES[i].text);
		cr_expect(strstr(csv.reason, CASES[i].reason) != NULL, "%s", csv.reason);
		cr_expect(eq(u64, csv.line, CASES[i].line));
		cr_expect(eq(sz, csv.field, CASES[i].field));
		csv_close(&csv);
		fclose(file);
	}
}

Test(csv, numbers_are_whole_and_nothing_else)
{
	static const char *const WRONG[] = {
		"", " 1", "1 ", "+1", "1.0", "0x1", "-", "1e3", "9223372036854775808", "nan"};
	int64_t number;

	for (size_t i = 0; i < sizeof(WRONG) / sizeof(*WRONG); i++)
		cr_expect(not(csv_number(WRONG[i], &number)), "\"%s\"", WRONG[i]);
	cr_expect(csv_number(FOREVER, &number));
	cr_expect(eq(i64, number, INT64_MAX));
	cr_expect(csv_number("-1", &number));
	cr_expect(eq(i64, number, -1));
}

/* --- usage ------------------------------------------------------------------------------------------ */

static struct usage usage_read(const char *text)
{
	struct usage usage = {0};
	struct usage_error error = {0};
	FILE *file = file_of(text);
	int result = usage_of_csv(file, &usage, &error);

	cr_assert(eq(int, result, 0), "line %llu, %s", (unsigned long long)error.line, error.text ? error.text : "");
	fclose(file);
	return usage;
}

static uint64_t amount_of(const struct usage *usage, enum usage_group group, const char *name)
{
	for (size_t i = 0; i < arrlenu(usage->groups[group]); i++)
		if (!strcmp(usage->groups[group][i].name, name))
			return usage->groups[group][i].bytes;
	return 0;
}

static const char WHOLE[] = HEADER_22
	"0," FOREVER ",0.5,,0xf0,0,P,100,100,100,m.py,3,Parameter,0,initialization,dry_run.seed_external,,{},,,1,1\r\n"
	"1,3,1.5,3.5,0xf1,0,P,50,150,150,\"a,b.py\",7,Activation,1,forward,aten.mm.default,M.a,{2},2,,0,1\r\n"
	"2," FOREVER ",2.5,,0xf2,0,P,30,180,200,m.py,9,Gradient,2,backward,aten.mm.default,M.b,{},,,1,1\r\n"
	"3,4,3.5,4.5,0xf3,0,P,10,140,200,m.py,9,Temp,3,backward,aten.add.Tensor,M.b,{},,,0,1\r\n";

Test(usage, of_a_csv_is_that_of_the_row_with_most_in_use)
{
	struct usage usage = usage_read(WHOLE);

	cr_expect(eq(u64, usage.peak_bytes, 200), "the peak of its column, which counts more than rows");
	cr_expect(eq(u64, usage.block_bytes, 180));
	cr_expect(eq(u64, amount_of(&usage, USAGE_CATEGORY, "Activation"), 50));
	cr_expect(eq(u64, amount_of(&usage, USAGE_CATEGORY, "Temp"), 0));
	cr_expect(eq(u64, amount_of(&usage, USAGE_OPERATOR, "aten.mm.default"), 80));
	cr_expect(eq(u64, amount_of(&usage, USAGE_MODULE, ""), 100));
	cr_expect(eq(u64, amount_of(&usage, USAGE_LINE, "a,b.py:7"), 50));
	cr_expect(eq(int, usage.has_steps, false));
	usage_clear(&usage);
}

Test(usage, of_mindspores_files_is_read_by_the_names_of_columns)
{
	struct usage usage = usage_read(
		HEADER_20 "-1,-1,0x1,0,Somas,900,1000,1000,,0,Somas,,,,,{},,,1,0,\n"
			  "1,5,0x2,0,Pool,40,1100,1100,net.py,2,Weight,8,Default/mm,mm,graph0,{9},9,,0,1,\n");

	cr_expect(eq(u64, usage.peak_bytes, 1100));
	cr_expect(eq(u64, amount_of(&usage, USAGE_CATEGORY, "Weight"), 40));
	usage_clear(&usage);

	/* Without totals those of sizes: what goes at a time and what comes then do not meet. */
	usage = usage_read(HEADER_14 "1,4,0x1,0,P,40,a.py,1,Weight,1,t,mm,g,{2-}\n"
				     "4,6,0x2,0,P,30,a.py,2,Kernel,4,t,add,g,{5-}\n"
				     "5,6,0x3,0,P,5,a.py,3,Kernel,5,t,add,g,{}\n");
	cr_expect(eq(u64, usage.peak_bytes, 40));
	cr_expect(eq(u64, usage.block_bytes, 40));
	usage_clear(&usage);
}

Test(usage, of_a_wrong_csv_is_refused_with_line_and_column)
{
	static const struct {
		const char *text, *wanted;
		uint64_t line;
	} CASES[] = {
		{"\n", "empty", 1},
		{"step,complete\n0,1\n", "start_time_stamp is missing", 1},
		{HEADER_14 "1,4,0x1,0,P,4x,a.py,1,W,1,t,mm,g,{}\n", "column size: \"4x\"", 2},
		{HEADER_14 "1,4,0x1,0,P,40,a.py,1,W,1,t,mm,g,{}\n1,4,0x1\n", "column 3: the row has 3 fields", 3},
		{HEADER_14 "1,4,0x1,0,P,40,a.py,1,W,1,t,mm,g,{},x\n", "15 fields, the header 14", 2},
		{HEADER_14 "1,4,0x1,0,P,-4,a.py,1,W,1,t,mm,g,{}\n", "column size: fewer than 0", 2},
		{HEADER_14 "-7,4,0x1,0,P,4,a.py,1,W,1,t,mm,g,{}\n", "start_time_stamp: a time before 0", 2},
		{HEADER_14 ",4,0x1,0,P,4,a.py,1,W,1,t,mm,g,{}\n", "column start_time_stamp: \"\"", 2},
	};

	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		struct usage usage = {0};
		struct usage_error error = {0};
		FILE *file = file_of(CASES[i].text);

		cr_assert(eq(int, usage_of_csv(file, &usage, &error), -EBADMSG), "%s", CASES[i].text);
		cr_expect(strstr(error.text, CASES[i].wanted) != NULL, "%s", error.text);
		cr_expect(eq(u64, error.line, CASES[i].line), "%s", error.text);
		usage_error_clear(&error);
		usage_clear(&usage);
		fclose(file);
	}
}

Test(usage, has_medians_of_complete_steps)
{
	FILE *file = file_of(
		"step,complete,duration_ns,peak_bytes\r\n0,1,900,30\r\n1,1,100,10\r\n2,1,200,20\r\n3,0,7,99\r\n");
	struct usage usage = {0};
	struct usage_error error = {0};

	cr_assert(eq(int, usage_add_steps_csv(file, &usage, &error), 0));
	cr_expect(eq(u32, usage.steps, 3));
	cr_expect(eq(u64, usage.step_ns, 200));
	cr_expect(eq(u64, usage.step_peak_bytes, 20));
	fclose(file);
}

/* --- two runs ----------------------------------------------------------------------------------------- */

static void usage_add(struct usage **side, int32_t rank, uint64_t peak, uint64_t parameters, uint64_t others)
{
	struct usage usage = {.rank = rank, .peak_bytes = peak};
	struct amounts amounts = {0};

	amounts_add(&amounts, "Parameter", parameters, 1);
	if (others)
		amounts_add(&amounts, "Other", others, 2);
	usage.groups[USAGE_CATEGORY] = amounts_end(&amounts);
	arrput(*side, usage);
}

static void side_free(struct usage *side)
{
	for (size_t i = 0; i < arrlenu(side); i++)
		usage_clear(&side[i]);
	arrfree(side);
}

Test(comparison, merges_names_and_tells_ranks_of_one_side)
{
	struct usage *first = NULL, *second = NULL;
	struct comparison comparison;
	const struct difference *differences;

	usage_add(&first, 0, 100, 60, 40);
	usage_add(&first, 2, 100, 60, 40);
	usage_add(&second, 0, 104, 104, 0);
	usage_add(&second, 1, 104, 104, 0);
	comparison_make(&comparison, first, second);
	cr_assert(eq(sz, arrlenu(comparison.ranks), 1));
	cr_expect(eq(i32, comparison.only_first[0]->rank, 2));
	cr_expect(eq(i32, comparison.only_second[0]->rank, 1));
	differences = comparison.ranks[0].groups[USAGE_CATEGORY];
	cr_assert(eq(sz, arrlenu(differences), 2));
	cr_expect(eq(str, (char *)differences[0].name, "Parameter"), "44 more");
	cr_expect(eq(str, (char *)differences[1].name, "Other"));
	cr_expect(eq(u64, differences[1].second_bytes, 0));
	cr_expect(eq(i64, bytes_change(40, 0), -40));
	comparison_clear(&comparison);
	side_free(first);
	side_free(second);
}

Test(comparison, accepts_a_dry_run_within_five_percent_of_the_live_peak)
{
	static const struct {
		uint64_t dry, live;
		bool accepted;
	} CASES[] = {
		{95, 100, true}, {105, 100, true}, {94, 100, false}, {106, 100, false}, {1, 0, false}, {0, 0, true}};

	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		struct usage *dry = NULL, *live = NULL;
		struct comparison comparison;

		usage_add(&dry, 0, CASES[i].dry, 1, 0);
		usage_add(&live, 0, CASES[i].live, 1, 0);
		usage_add(&live, 1, CASES[i].live, 1, 0);
		comparison_make(&comparison, dry, live);
		cr_expect(eq(int, comparison_accepts(&comparison, ACCEPTED_PERCENT), CASES[i].accepted), "%llu %llu",
			(unsigned long long)CASES[i].dry, (unsigned long long)CASES[i].live);
		comparison_clear(&comparison);
		/* A rank of the dry run that the live one does not have was not judged. */
		comparison_make(&comparison, live, dry);
		cr_expect(not(comparison_accepts(&comparison, ACCEPTED_PERCENT)));
		comparison_clear(&comparison);
		side_free(dry);
		side_free(live);
	}
}
