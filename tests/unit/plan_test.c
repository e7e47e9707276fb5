/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan for the libraries of Debian 12: which probes, where, and what a person hears about them. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <hdtrace/event.h>

#include "containers/containers.h"
#include "elf_image.h"
#include "probe/operator_hooks.h"
#include "probe/plan.h"
#include "roots.h"
#include "torch/operators.h"

#define TORCH_C10 "/usr/lib/x86_64-linux-gnu/libc10.so.1.13"
#define PYTHON "/usr/bin/python3.11"

Test(roles, follow_from_file_names)
{
	static const struct {
		const char *path;
		enum library_role role;
	} roles[] = {{"/usr/lib/libtorch_cpu.so", LIBRARY_TORCH_CPU},
		{"/usr/lib/libtorch_cpu.so.1.13", LIBRARY_TORCH_CPU}, {"/a b/libc10.so.1.13 (deleted)", LIBRARY_C10},
		{"libc10.so", LIBRARY_C10}, {"/x/libtorch_python.so.1.13", LIBRARY_TORCH_PYTHON},
		{"/usr/bin/python3.11", LIBRARY_PYTHON}, {"/usr/lib/libpython3.11.so.1.0", LIBRARY_PYTHON},
		{"/usr/lib/libtorch.so.1.13", LIBRARY_NONE}, {"/usr/lib/libc10_cuda.so", LIBRARY_C10_CUDA},
		{"/libtorch_cuda.so.2.6", LIBRARY_TORCH_CUDA}, {"/libtorch_cuda_linalg.so", LIBRARY_NONE},
		{"/libtorch_cpu.so/libm.so.6", LIBRARY_NONE}, {"/usr/lib/libc.so.6", LIBRARY_NONE}, {"", LIBRARY_NONE},
		{"/", LIBRARY_NONE}};

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		cr_assert_eq(library_role_of(roles[i].path), roles[i].role, "%s", roles[i].path);
}

static void plan_open(struct library_plan *plan, const char *path, enum library_role role)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s is missing", path);
	cr_assert_eq(library_plan_make(fd, role, plan), 0);
	close(fd);
}

/* The whole plan of libtorch_cpu in a root ("" is this machine); skips the test where there is none. */
static void torch_plan_open(struct library_plan *plan, const char *root)
{
	char *torch_cpu = root_library(root, "libtorch_cpu"), *libc10 = root_library(root, "libc10");
	struct library_plan c10;

	if (!torch_cpu || !libc10)
		cr_skip_test("no PyTorch in the root %s: scripts/test-root makes it", root);
	plan_open(plan, torch_cpu, LIBRARY_TORCH_CPU);
	plan_open(&c10, libc10, LIBRARY_C10);
	cr_assert_eq(torch_plan_make(plan, &c10, true), 0);
	library_plan_free(&c10);
	free(torch_cpu);
	free(libc10);
}

/* Instructions that the kernel emulates, by their first bytes (arch/x86/kernel/uprobes.c). */
static bool is_emulated(const struct elf_file *file, uint64_t offset)
{
	uint64_t address;
	uint8_t code[2];

	cr_assert_eq(elf_file_address(file, offset, &address), 0);
	cr_assert_eq(elf_file_read(file, address, code, sizeof(code)), sizeof(code));
	if (code[0] == 0x41) /* a prefix of push: %r8 to %r15 */
		return code[1] >= 0x50 && code[1] <= 0x57;
	return (code[0] >= 0x50 && code[0] <= 0x57) || code[0] == 0x90 || code[0] == 0xe8 || code[0] == 0xe9 ||
	       code[0] == 0xeb || (code[0] >= 0x70 && code[0] <= 0x7f) ||
	       (code[0] == 0x0f && (code[1] >= 0x80 && code[1] <= 0x8f));
}

static void hooks_check(const struct library_plan *plan, enum hook_set_kind kind)
{
	const struct hook_set *set = &plan->sets[kind];

	cr_assert_eq(arrlen(set->hooks), arrlen(set->offsets));
	for (ptrdiff_t i = 0; i < arrlen(set->hooks); i++) {
		const struct hook_description *hook = &set->hooks[i];
		const char *name = plan->operator_names[hook->operator_];

		cr_assert_lt(hook->operator_, arrlen(plan->operator_names));
		cr_assert(is_emulated(plan->elf, set->offsets[i]), "%s", name);
		cr_assert_leq(hook->argument_count, HOOK_ARGUMENTS_MAX);
		cr_assert_eq(hook->keys_register == HOOK_NO_KEYS, hook->hook == HOOK_CALL, "%s", name);
		if (hook->flags & HOOK_CALL_SITE)
			cr_assert_eq(hook->stack_adjust, -8, "%s", name);
		else
			cr_assert_geq(hook->stack_adjust, 0, "%s", name);
		for (int argument = 0; argument < hook->argument_count; argument++)
			cr_assert(hook->arguments[argument].kind >= ARGUMENT_TENSOR &&
					  hook->arguments[argument].kind <= ARGUMENT_OPTIONAL_TENSOR_LIST,
				"%s", name);
	}
}

/* For each operator: how many hooks of a kind it has. */
static size_t *hooks_count(const struct library_plan *plan, enum hook_set_kind set, enum operator_hook kind)
{
	size_t *counts = NULL;

	arrzero(counts, arrlenu(plan->operator_names));
	for (ptrdiff_t i = 0; i < arrlen(plan->sets[set].hooks); i++)
		counts[plan->sets[set].hooks[i].operator_] += plan->sets[set].hooks[i].hook == kind;
	return counts;
}

static bool finding_has(const struct library_plan *plan, bool good, const char *part)
{
	for (ptrdiff_t i = 0; i < arrlen(plan->findings); i++)
		if (plan->findings[i].good == good && strstr(plan->findings[i].what, part))
			return true;
	return false;
}

static void findings_check(const struct library_plan *plan)
{
	for (ptrdiff_t i = 0; i < arrlen(plan->findings); i++) {
		cr_assert(plan->findings[i].good, "%s", plan->findings[i].what);
		cr_assert_null(plan->findings[i].remedy);
	}
}

static void plain_hooks_check(const char *root)
{
	struct torch_operators *operators;
	struct library_plan plan;
	size_t *calls, *redispatches;

	torch_plan_open(&plan, root);
	cr_assert_eq(plain_hooks_plan(&plan), 0);
	cr_assert_eq(plain_hooks_plan(&plan), 0, "again");
	hooks_check(&plan, HOOK_SET_PLAIN);
	findings_check(&plan);
	cr_assert(finding_has(&plan, true, "PyTorch"));
	cr_assert_eq(operators_find(plan.elf, &operators), 0);
	calls = hooks_count(&plan, HOOK_SET_PLAIN, HOOK_CALL);
	redispatches = hooks_count(&plan, HOOK_SET_PLAIN, HOOK_REDISPATCH);
	for (size_t i = 0; i < operators->count; i++) {
		bool composite = operators->operators[i].flags & TORCH_COMPOSITE;

		cr_assert_str_eq(plan.operator_names[i], operators->operators[i].name);
		cr_assert_eq(calls[i], composite ? 0 : 1, "%s", operators->operators[i].name);
		cr_assert_eq(redispatches[i], 1, "%s", operators->operators[i].name);
	}
	arrfree(calls);
	arrfree(redispatches);
	torch_operators_free(operators);
	library_plan_free(&plan);
}

static void sparse_hooks_check(const char *root)
{
	struct torch_operators *operators;
	struct library_plan plan;
	size_t *calls, *redispatches, sites = 0;

	torch_plan_open(&plan, root);
	hooks_check(&plan, HOOK_SET_SPARSE);
	findings_check(&plan);
	cr_assert_eq(operators_find(plan.elf, &operators), 0);
	calls = hooks_count(&plan, HOOK_SET_SPARSE, HOOK_CALL);
	redispatches = hooks_count(&plan, HOOK_SET_SPARSE, HOOK_REDISPATCH);
	for (size_t i = 0; i < operators->count; i++) {
		bool composite = operators->operators[i].flags & TORCH_COMPOSITE;

		if (composite)
			cr_assert_eq(calls[i], 0, "%s", operators->operators[i].name);
		else
			cr_assert_gt(calls[i] + redispatches[i], 0, "%s", operators->operators[i].name);
	}
	for (ptrdiff_t i = 0; i < arrlen(plan.sets[HOOK_SET_SPARSE].hooks); i++)
		sites += (plan.sets[HOOK_SET_SPARSE].hooks[i].flags & HOOK_CALL_SITE) != 0;
	cr_assert_gt(sites, operators->count / 2, "%zu call sites", sites);
	cr_assert_eq(arrlen(plan.sets[HOOK_SET_PLAIN].hooks), 0, "made without need");
	cr_assert_lt(arrlenu(plan.sets[HOOK_SET_SPARSE].hooks), 2 * operators->count - operators->composite,
		"%td hooks: not fewer than the plain ones", arrlen(plan.sets[HOOK_SET_SPARSE].hooks));
	arrfree(calls);
	arrfree(redispatches);
	torch_operators_free(operators);
	library_plan_free(&plan);
}

Test(plain_hooks, stand_at_every_call_and_redispatch, .timeout = 120)
{
	plain_hooks_check("");
}

Test(plain_hooks, stand_at_every_call_and_redispatch_of_the_cuda_build, .timeout = 120)
{
	plain_hooks_check("cuda");
}

Test(plain_hooks, stand_at_every_call_and_redispatch_of_the_latest_version, .timeout = 120)
{
	plain_hooks_check("latest");
}

Test(sparse_hooks, are_fewer_and_miss_no_operator, .timeout = 120)
{
	sparse_hooks_check("");
}

Test(sparse_hooks, are_fewer_and_miss_no_operator_of_the_cuda_build, .timeout = 120)
{
	sparse_hooks_check("cuda");
}

Test(sparse_hooks, are_fewer_and_miss_no_operator_of_the_latest_version, .timeout = 120)
{
	sparse_hooks_check("latest");
}

Test(plan, of_the_allocator_needs_the_functions_of_the_cpus)
{
	struct library_plan plan;

	plan_open(&plan, TORCH_C10, LIBRARY_C10);
	findings_check(&plan);
	cr_assert_eq(arrlen(plan.points), 4);
	for (ptrdiff_t i = 0; i < arrlen(plan.points); i++)
		cr_assert(is_emulated(plan.elf, plan.points[i].offset));
	cr_assert_eq(strlen(plan.build_id), 40);
	library_plan_free(&plan);
	plan_open(&plan, PYTHON, LIBRARY_C10);
	cr_assert_eq(arrlen(plan.points), 0);
	cr_assert(finding_has(&plan, false, "ProfiledCPUMemoryReporter::New is missing"));
	for (ptrdiff_t i = 0; i < arrlen(plan.findings); i++)
		cr_assert(
			plan.findings[i].remedy && plan.findings[i].fatal == !strstr(plan.findings[i].what, "report"));
	library_plan_free(&plan);
}

Test(plan, of_the_interpreter_knows_its_version)
{
	struct library_plan plan;

	plan_open(&plan, PYTHON, LIBRARY_PYTHON);
	findings_check(&plan);
	cr_assert_eq(plan.version_major, 3);
	cr_assert_eq(plan.version_minor, 11);
	cr_assert_not_null(plan.python);
	cr_assert_neq(plan.python_runtime, 0);
	library_plan_free(&plan);
}

static int plan_of_image(struct image *image, enum library_role role, struct library_plan *plan)
{
	int fd = image_finish(image);
	int error = library_plan_make(fd, role, plan);

	close(fd);
	return error;
}

Test(plan, refuses_an_unknown_version_by_its_name)
{
	static const char option[] = "x\0TORCH_VERSION\0"
				     "9.99.1\0y";
	struct library_plan plan, c10;
	struct image image;

	image_begin(&image);
	image_section(&image, ".rodata", SHT_PROGBITS, option, sizeof(option), 0);
	cr_assert_eq(plan_of_image(&image, LIBRARY_TORCH_CPU, &plan), 0);
	plan_open(&c10, TORCH_C10, LIBRARY_C10);
	cr_assert_eq(torch_plan_make(&plan, &c10, true), 0);
	library_plan_free(&c10);
	cr_assert_null(plan.torch);
	cr_assert(finding_has(&plan, false, "PyTorch 9.99 is unknown"));
	library_plan_free(&plan);
}

/* 2.6 has other layouts than the libc10 of 1.13: blocks can be told, operators cannot. */
Test(plan, refuses_a_library_that_is_not_laid_out_as_its_version)
{
	static const char option[] = "x\0TORCH_VERSION\0"
				     "2.6.0\0y";
	struct library_plan plan, c10;
	struct image image;

	image_begin(&image);
	image_section(&image, ".rodata", SHT_PROGBITS, option, sizeof(option), 0);
	cr_assert_eq(plan_of_image(&image, LIBRARY_TORCH_CPU, &plan), 0);
	plan_open(&c10, TORCH_C10, LIBRARY_C10);
	cr_assert_eq(torch_plan_make(&plan, &c10, true), 0);
	cr_assert_eq(torch_plan_make(&plan, &c10, true), 0, "again");
	library_plan_free(&c10);
	cr_assert_null(plan.torch);
	cr_assert(finding_has(&plan, false, "not laid out as in that version"));
	library_plan_free(&plan);
}

Test(plan, of_another_machine_says_so)
{
	struct library_plan plan;
	struct image image;

	image_begin(&image);
	image.header.e_machine = EM_AARCH64;
	cr_assert_eq(plan_of_image(&image, LIBRARY_TORCH_CPU, &plan), 0);
	cr_assert(finding_has(&plan, false, "another machine"));
	cr_assert_eq(torch_plan_make(&plan, &plan, true), 0);
	cr_assert_null(plan.torch);
	library_plan_free(&plan);
}

Test(plan, of_no_elf_file_fails)
{
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	struct library_plan plan;

	cr_assert_eq(library_plan_make(fd, LIBRARY_C10, &plan), -ENOEXEC);
	library_plan_free(&plan);
	close(fd);
}

Test(plan, bias_is_the_way_from_the_file_to_the_process)
{
	struct library_plan plan;
	struct image image;
	uint64_t bias;

	image_begin(&image);
	cr_assert_eq(plan_of_image(&image, LIBRARY_C10, &plan), 0);
	cr_assert_eq(library_plan_bias(&plan, 0x7f0000000000, 0, &bias), 0);
	cr_assert_eq(bias, 0x7f0000000000 - IMAGE_BASE);
	cr_assert_eq(library_plan_bias(&plan, 0x7f0000000000, 1ull << 40, &bias), -ENOENT);
	library_plan_free(&plan);
}

static const struct plan_point *point_of(const struct library_plan *plan, enum program_kind program)
{
	for (ptrdiff_t i = 0; i < arrlen(plan->points); i++)
		if (plan->points[i].program == program)
			return &plan->points[i];
	return NULL;
}

/* The allocator of devices tells of its blocks by libc10; its own library has a USDT point, libtorch_cuda a resize. */
Test(plan, of_the_libraries_of_devices)
{
	char *c10_cuda = root_library("cuda", "libc10_cuda"), *torch_cuda = root_library("cuda", "libtorch_cuda");
	const struct usdt_operand *values;
	const struct plan_point *point;
	struct library_plan plan;

	if (!c10_cuda || !torch_cuda)
		cr_skip_test("there is no root cuda");
	plan_open(&plan, c10_cuda, LIBRARY_C10_CUDA);
	findings_check(&plan);
	point = point_of(&plan, PROGRAM_REQUESTED);
	cr_assert(point && point->described && point->full_only);
	cr_assert(is_emulated(plan.elf, point->offset));
	values = point->description.malloc_values;
	cr_assert_not_null(point_of(&plan, PROGRAM_RETURNED)); /* cudaMalloc */
	cr_assert_neq(values[USDT_MALLOC_POINTER].register_, values[USDT_MALLOC_BYTES].register_);
	library_plan_free(&plan);
	plan_open(&plan, torch_cuda, LIBRARY_TORCH_CUDA);
	findings_check(&plan);
	cr_assert_not_null(point_of(&plan, PROGRAM_RESIZED));
	cr_assert_not_null(point_of(&plan, PROGRAM_RETURNED)); /* cudaMalloc */
	library_plan_free(&plan);
	plan_open(&plan, PYTHON, LIBRARY_C10_CUDA);
	cr_assert(finding_has(&plan, false, "there is no USDT pytorch:malloc"));
	library_plan_free(&plan);
	free(c10_cuda);
	free(torch_cuda);
}
