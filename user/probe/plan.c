// SPDX-License-Identifier: BSD-2-Clause
/* The plan for one library file. */
#include "probe/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdtrace/capture.h>

#include "containers/containers.h"
#include "probe/collective_calls.h"
#include "probe/device_calls.h"
#include "probe/library_calls.h"
#include "probe/library_handles.h"
#include "probe/operator_hooks.h"
#include "probe/python_plan.h"
#include "probe/usdt.h"
#include "symbol/elf.h"
#include "symbol/entry.h"
#include "symbol/function_ends.h"
#include "torch/call_sites.h"
#include "torch/operators.h"

#define CALL_BYTES 5 /* call rel32 */
#define BUCKET_SYMBOL "_ZN4c10d7Reducer17all_reduce_bucketE"
#define KEYS_SYMBOL "_ZN3c104impl26raw_local_dispatch_key_setE"
#define UNDEFINED_TENSOR_SYMBOL "_ZN3c1019UndefinedTensorImpl10_singletonE"
#define TENSOR_CLASS_SYMBOL "THPVariableClass"
#define COPY_SLICES_SYMBOL "_ZTVN5torch8autograd10CopySlicesE"
#define CLASS_TABLE_HEAD 16 /* Itanium C++ ABI: objects point behind the offset to top and the type */
#define UNDEFINED_TABLE_SYMBOL "_ZTVN3c1019UndefinedTensorImplE"

void plan_find(struct library_plan *plan, bool good, bool fatal, const char *remedy, const char *format, ...)
{
	struct plan_finding finding = {.good = good, .fatal = fatal};
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&finding.what, format, arguments) < 0)
		finding.what = NULL;
	va_end(arguments);
	if (!finding.what)
		return;
	finding.remedy = remedy ? strdup(remedy) : NULL;
	arrput(plan->findings, finding);
}

/* --- catalogue ------------------------------------------------------------------ */

/* A C++ function is named up to its parameters, whose types differ between versions. */
static const struct elf_symbol *function_find(const struct elf_file *file, const char *name)
{
	size_t count;
	const struct elf_symbol *symbols = elf_file_symbols_prefix(file, name, &count);

	if (strncmp(name, "_Z", strlen("_Z")))
		return elf_file_symbol(file, name);
	for (size_t index = 0; index < count; index++)
		if (symbols[index].kind == ELF_FUNCTION)
			return &symbols[index];
	return NULL;
}

static int row_plan(struct library_plan *plan, const struct catalogue_row *row)
{
	const struct elf_symbol *symbol = function_find(plan->elf, row->symbol);
	struct plan_point point = {.program = row->program, .full_only = row->full_only};
	struct entry_place place;
	int error;

	if (!symbol) {
		plan_find(plan, false, row->needed, row->without, "%s is missing", row->readable);
		return 0;
	}
	error = entry_find(plan->elf, symbol->address, symbol->size, &place);
	if (!error)
		error = elf_file_offset(plan->elf, symbol->address + place.offset, &point.offset);
	if (error)
		return error;
	point.shift = place.stack_bytes;
	arrput(plan->points, point);
	if (place.emulated)
		plan_find(plan, true, false, NULL, "%s at +%u, an emulated instruction", row->readable, place.offset);
	else
		plan_find(plan, false, false, "its hits cost some 35 times more", "%s: %s", row->readable,
			entry_reason_text((enum entry_reason)place.reason));
	return 0;
}

static int usdt_point_plan(struct library_plan *plan, const struct catalogue_usdt *row, const struct elf_usdt *usdt)
{
	struct plan_point point = {.program = row->program, .full_only = true, .described = true};
	uint64_t address;
	int error = usdt_place_find(plan->elf, usdt, &address);

	if (!error)
		error = elf_file_offset(plan->elf, address, &point.offset);
	for (int value = 0; !error && value < USDT_MALLOC_VALUES; value++)
		error = usdt_operand_parse(
			usdt->arguments, row->arguments[value], &point.description.malloc_values[value]);
	if (!error)
		arrput(plan->points, point);
	return error;
}

static int usdt_plan(struct library_plan *plan, const struct catalogue_usdt *row)
{
	struct elf_usdt usdt;
	size_t position = 0, found = 0;
	int error, next;

	while ((next = elf_file_usdt(plan->elf, &position, &usdt)) > 0) {
		if (strcmp(usdt.provider, row->provider) || strcmp(usdt.name, row->name))
			continue;
		error = usdt_point_plan(plan, row, &usdt);
		if (error == -ENOTSUP || error == -ENOENT)
			plan_find(plan, false, false, row->without, "USDT %s:%s cannot be used: %s", row->provider,
				row->name, usdt.arguments);
		else if (error)
			return error;
		else
			plan_find(plan, true, false, NULL, "USDT %s:%s", row->provider, row->name);
		found++;
	}
	if (!found)
		plan_find(plan, false, false, row->without, "there is no USDT %s:%s", row->provider, row->name);
	return next;
}

/* --- functions of devices --------------------------------------------------------- */

static int call_plan(struct library_plan *plan, const struct device_call *call, const struct elf_symbol *symbol)
{
	struct plan_point point = {
		.program = call->program,
		.full_only = call->program != PROGRAM_CALLED,
		.described = true,
		.name = call->symbol,
	};
	struct entry_place place;
	int error = entry_find(plan->elf, symbol->address, symbol->size, &place);

	if (!error)
		error = elf_file_offset(plan->elf, symbol->address + place.offset, &point.offset);
	if (error)
		return error;
	point.description.stack_adjust = (int16_t)place.stack_bytes;
	if (call->program == PROGRAM_CALLED)
		point.description.segment = call->call;
	else
		point.description.kernel = call->kernel;
	arrput(plan->points, point);
	return 0;
}

/* Libraries whose calls of a runtime are seen to return from the first one on. */
static bool calls_devices(enum library_role role)
{
	return role == LIBRARY_C10_CUDA || role == LIBRARY_TORCH_CUDA || role == LIBRARY_CALLER;
}

static int return_plan(struct library_plan *plan, enum program_kind program, uint64_t address)
{
	struct plan_point point = {.program = program};
	int error = return_find(plan->elf, address, &point.shift);

	if (!error)
		error = elf_file_offset(plan->elf, address + point.shift, &point.offset);
	if (!error)
		arrput(plan->points, point);
	return error;
}

/* Behind each call of these functions of other files. */
static int calls_plan(struct library_plan *plan, enum program_kind program, const char *const *names, const char *what)
{
	struct call_site *sites;
	int error = call_sites_find_imports(plan->elf, names, arrlenu(names), &sites);

	if (error)
		return error == -ENOMEM ? error : 0;
	for (size_t index = 0; !error && index < arrlenu(sites); index++)
		error = return_plan(plan, program, sites[index].address + CALL_BYTES);
	plan_find(plan, true, false, NULL, "%zu calls for %s", arrlenu(sites), what);
	arrfree(sites);
	return error;
}

/* Of a function that gives memory. Without them the first calls are known less well. */
static int returns_plan(struct library_plan *plan)
{
	size_t count;
	const struct device_call *calls = device_calls(&count);
	const char **names = NULL;
	int error;

	for (size_t index = 0; index < count; index++)
		if (calls[index].program == PROGRAM_CALLED && device_call_has_result(&calls[index]))
			arrput(names, calls[index].symbol);
	error = calls_plan(plan, PROGRAM_RETURNED, names, "memory of devices");
	arrfree(names);
	return error;
}

/* Of a function that tells something of a communicator. */
static int communicator_returns_plan(struct library_plan *plan)
{
	const char **names = NULL;
	int error;

	for (int role = 0; role < LIBRARY_ROLES; role++) {
		size_t count;
		const struct library_function *functions = library_functions((enum library_role)role, &count);

		/* Two libraries of one interface have the same names. */
		for (size_t index = 0; role != LIBRARY_RCCL && index < count; index++)
			if (library_call_has_result(&functions[index].call))
				arrput(names, functions[index].symbol);
	}
	error = calls_plan(plan, PROGRAM_LIBRARY_RETURNED, names, "communicators");
	arrfree(names);
	return error;
}

/* Functions may share their ends. */
static bool point_is_planned(const struct library_plan *plan, const struct plan_point *point)
{
	for (size_t index = 0; index < arrlenu(plan->points); index++)
		if (plan->points[index].program == point->program && plan->points[index].offset == point->offset)
			return true;
	return false;
}

/*
 * An instruction that returns is single-stepped, which takes some 16 us: only where a call is rare and takes long
 * itself. Pools give memory in a microsecond, and which device is current is said before every other operator.
 */
static bool ends_are_worth_it(const struct device_call *call)
{
	return call->program == PROGRAM_SOUGHT ||
	       (call->program == PROGRAM_CALLED && call->call.action && !call->call.pooled);
}

/* Where a function that gives or takes memory goes back: what it came to is known for every caller. */
static int ends_plan(struct library_plan *plan, const struct function_starts *starts, const struct elf_symbol *symbol,
	size_t *incomplete)
{
	struct plan_point point = {.program = PROGRAM_ENDED};
	bool complete;
	uint64_t *ends;
	int error = function_ends_find(plan->elf, starts, symbol->address, symbol->size, &ends, &complete);

	for (size_t index = 0; !error && index < arrlenu(ends); index++) {
		error = elf_file_offset(plan->elf, ends[index], &point.offset);
		if (!error && !point_is_planned(plan, &point))
			arrput(plan->points, point);
	}
	*incomplete += !complete;
	arrfree(ends);
	return error;
}

/* Functions of a role, which a program may have in its own file. */
static int device_calls_plan(struct library_plan *plan, enum library_role role)
{
	size_t count, wanted = 0, found = 0, incomplete = 0;
	const struct device_call *calls = device_calls(&count);
	struct function_starts starts = {0};
	int error = 0;

	for (size_t index = 0; !error && index < count; index++) {
		const struct elf_symbol *symbol;

		if (calls[index].library != role)
			continue;
		wanted++;
		symbol = function_find(plan->elf, calls[index].symbol);
		if (!symbol)
			continue;
		/* Without them jumps to other functions are not followed. */
		if (!found++ && function_starts_load(plan->elf, &starts) == -ENOMEM)
			error = -ENOMEM;
		if (!error)
			error = call_plan(plan, &calls[index], symbol);
		if (!error && ends_are_worth_it(&calls[index]))
			error = ends_plan(plan, &starts, symbol, &incomplete);
	}
	function_starts_free(&starts);
	if (wanted && (found || role == plan->role))
		plan_find(plan, found > 0, false, found ? NULL : "what the driver gives is not seen",
			"%zu of %zu functions for memory and kernels; a call of those that are rare takes some 16 us "
			"longer, "
			"since where it returns is probed (%zu have ends that are not known)",
			found, wanted, incomplete);
	return error;
}

/* --- collectives ------------------------------------------------------------------ */

static int collective_plan(struct library_plan *plan, const char *name, enum program_kind program,
	const struct collective_call *call, const char *operator_, bool *found)
{
	struct plan_point point = {.program = program, .described = true, .name = operator_};
	const struct elf_symbol *symbol = function_find(plan->elf, name);
	struct entry_place place;
	int error;

	*found = symbol != NULL;
	if (!symbol)
		return 0;
	error = entry_find(plan->elf, symbol->address, symbol->size, &place);
	if (!error)
		error = elf_file_offset(plan->elf, symbol->address + place.offset, &point.offset);
	if (error)
		return error;
	point.description.stack_adjust = (int16_t)place.stack_bytes;
	point.description.collective = *call;
	arrput(plan->points, point);
	return 0;
}

static int collective_class_plan(struct library_plan *plan, const char *class_name)
{
	char symbol[COLLECTIVE_SYMBOL_BYTES];
	size_t count, found = 0;
	const struct collective_method *methods = collective_methods(&count);
	int error = 0;

	for (size_t index = 0; !error && index < count; index++) {
		bool there;

		collective_symbol(class_name, methods[index].name, symbol);
		error = collective_plan(
			plan, symbol, PROGRAM_COLLECTIVE, &methods[index].call, methods[index].operator_, &there);
		found += there;
	}
	if (found)
		plan_find(plan, true, false, NULL, "%zu collectives of %s", found, class_name);
	return error;
}

static int works_plan(struct library_plan *plan)
{
	size_t count;
	const struct work_function *works = work_functions(&count);
	int error = 0;
	bool found;

	for (size_t index = 0; !error && index < count; index++)
		if (works[index].library == plan->role)
			error = collective_plan(
				plan, works[index].symbol, PROGRAM_WORK, &works[index].call, NULL, &found);
	return error;
}

/* A library without torch.distributed has none of them, which is no fault. */
static int collectives_plan(struct library_plan *plan)
{
	static const struct collective_call none;
	enum library_role library;
	const char *class_name;
	bool found;
	int error = 0;

	for (size_t index = 0; !error && (class_name = collective_class(index, &library)); index++)
		if (library == plan->role)
			error = collective_class_plan(plan, class_name);
	if (!error && plan->role == LIBRARY_TORCH_CPU)
		error = collective_plan(plan, BUCKET_SYMBOL, PROGRAM_BUCKET, &none, NULL, &found);
	return error ? error : works_plan(plan);
}

/* --- libraries of collectives ------------------------------------------------------ */

struct code_range {
	uint64_t start, end;
};

/* Two names of one function are one point. */
static bool point_is_known(const struct library_plan *plan, uint64_t offset)
{
	for (ptrdiff_t index = 0; index < arrlen(plan->points); index++)
		if (plan->points[index].offset == offset)
			return true;
	return false;
}

static int library_function_plan(struct library_plan *plan, const struct library_function *function,
	const struct library_variant *variant, const struct code_range *code)
{
	struct plan_point point = {
		.program = library_program(&function->call), .described = true, .name = function->symbol};
	struct library_call *call = &point.description.library;
	const struct elf_symbol *symbol;
	struct entry_place place;
	char *name;
	int error;

	if (asprintf(&name, "%s%s%s", variant->before, function->symbol, variant->behind) < 0)
		return -ENOMEM;
	symbol = elf_file_symbol(plan->elf, name);
	free(name);
	if (!symbol || symbol->kind != ELF_FUNCTION)
		return 0;
	error = entry_find(plan->elf, symbol->address, symbol->size, &place);
	if (!error)
		error = elf_file_offset(plan->elf, symbol->address + place.offset, &point.offset);
	if (error || point_is_known(plan, point.offset))
		return error;
	point.description.stack_adjust = (int16_t)place.stack_bytes;
	*call = function->call;
	call->layer = (uint8_t)library_layer(plan->role);
	call->width |= variant->width;
	if (plan->role == LIBRARY_MPI && !plan->open_mpi)
		call->width |= LIBRARY_INT_TYPES | LIBRARY_INT_HANDLES;
	if (symbol->address >= code->start && symbol->address + place.offset < code->end) {
		call->code_before = (uint32_t)(symbol->address + place.offset - code->start);
		call->code_after = (uint32_t)(code->end - symbol->address - place.offset);
	}
	arrput(plan->points, point);
	return 0;
}

static int library_functions_plan(struct library_plan *plan)
{
	struct elf_range text = {0};
	struct code_range code;
	const struct library_variant *variant;
	size_t count;
	const struct library_function *functions = library_functions(plan->role, &count);
	int error = 0;

	if (!count)
		return 0;
	/* Without it no call is taken for one of the library itself. */
	if (elf_file_section(plan->elf, ".text", &text) || text.size > UINT32_MAX)
		plan_find(plan, false, false, "calls that the library itself makes are counted too",
			"its code cannot be told");
	code = (struct code_range){text.address, text.address + text.size};
	plan->open_mpi = elf_file_symbol(plan->elf, OPEN_MPI_SYMBOL) != NULL;
	for (size_t number = 0; !error && (variant = library_variant(plan->role, number)); number++)
		for (size_t index = 0; !error && index < count; index++)
			if (!variant->only_collective || functions[index].call.action == LIBRARY_COLLECTIVE ||
				functions[index].call.action == LIBRARY_PREPARE)
				error = library_function_plan(plan, &functions[index], variant, &code);
	plan_find(plan, arrlen(plan->points) > 0, false, arrlen(plan->points) ? NULL : "its collectives are not seen",
		"%td functions for collectives and communicators", arrlen(plan->points));
	return error;
}

static int catalogue_plan(struct library_plan *plan)
{
	const struct catalogue_usdt *usdt_rows;
	const struct catalogue_row *rows;
	size_t count;
	int error = 0;

	rows = catalogue_rows(&count);
	for (size_t index = 0; !error && index < count; index++)
		if (rows[index].library == plan->role)
			error = row_plan(plan, &rows[index]);
	usdt_rows = catalogue_usdt(&count);
	for (size_t index = 0; !error && index < count; index++)
		if (usdt_rows[index].library == plan->role)
			error = usdt_plan(plan, &usdt_rows[index]);
	if (!error && calls_devices(plan->role))
		error = returns_plan(plan);
	if (!error)
		error = collectives_plan(plan);
	if (!error && plan->role == LIBRARY_CALLER)
		error = communicator_returns_plan(plan);
	if (!error)
		error = library_functions_plan(plan);
	/* NVIDIA's runtime is linked into programs by default. */
	if (!error && plan->role == LIBRARY_CALLER)
		error = device_calls_plan(plan, LIBRARY_CUDA_RUNTIME);
	return error ? error : device_calls_plan(plan, plan->role);
}

/* --- PyTorch ----------------------------------------------------------------------- */

#define WITHOUT_LAYOUT "operators, users and phases are left out; blocks of the allocator remain"

static const char *source_text(enum layout_source source)
{
	switch (source) {
	case LAYOUT_CHECKED:
		return "derived from the library, as measured on this version";
	case LAYOUT_DERIVED:
		return "derived from the library";
	case LAYOUT_TABLE:
		return "as measured on this version, since the library's code is not as expected";
	}
	return "";
}

/* Why there is no layout: `error` of torch_layout_make, about `item`. */
static int layout_refuse(struct library_plan *plan, int error, const char *item)
{
	char *remedy = NULL;

	if (asprintf(&remedy, WITHOUT_LAYOUT " (known: PyTorch %s)", torch_layout_versions()) < 0)
		return -ENOMEM;
	if (error == -ENOTSUP)
		plan_find(plan, false, true, remedy, "PyTorch %d.%d is unknown", plan->version_major,
			plan->version_minor);
	else
		plan_find(plan, false, true, WITHOUT_LAYOUT,
			error == -ENODATA ? "PyTorch %d.%d: the layout of its %s cannot be told"
					  : "PyTorch %d.%d: its %s are not laid out as in that version",
			plan->version_major, plan->version_minor, item);
	free(remedy);
	return 0;
}

static int layout_plan(struct library_plan *plan, const struct library_plan *c10)
{
	struct torch_derived derived;
	struct torch_layout layout;
	unsigned int major, minor;
	const char *item;
	int source;

	if (torch_version(plan->elf, &major, &minor)) {
		plan_find(plan, false, true, WITHOUT_LAYOUT, "the PyTorch version cannot be told");
		return 0;
	}
	plan->version_major = (int)major;
	plan->version_minor = (int)minor;
	torch_derive(c10->elf, plan->elf, &derived);
	source = torch_layout_make(major, minor, &derived, &layout, &item);
	if (source < 0)
		return layout_refuse(plan, source, item);
	plan->torch = malloc(sizeof(*plan->torch));
	if (!plan->torch)
		return -ENOMEM;
	*plan->torch = layout;
	plan_find(plan, true, false, NULL, "PyTorch %u.%u, layouts %s", major, minor,
		source_text((enum layout_source)source));
	if (!layout.accumulate_variable)
		plan_find(plan, false, false, "no categories Gradient and Parameter",
			"the layout of AccumulateGrad cannot be told");
	return 0;
}

static void layout_tell(struct library_plan *plan)
{
	const struct torch_layout *layout = plan->torch;

	plan_find(plan, true, false, NULL,
		"a tensor's storage at +%u, its bytes at +%u, AccumulateGrad's variable at +%u, BackendSelect is key "
		"%d, "
		"ADInplaceOrView %d, the value of an optional at +%u",
		layout->tensor_storage, layout->storage_bytes, layout->accumulate_variable,
		__builtin_ctzll(layout->keys_backend + 1), __builtin_ctzll(layout->keys_inplace),
		layout->optional_value);
}

static uint64_t object_address(const struct elf_file *file, const char *name)
{
	const struct elf_symbol *symbol = elf_file_symbol(file, name);

	return symbol ? symbol->address : 0;
}

static void nodes_plan(struct library_plan *torch_cpu)
{
	uint64_t table = object_address(torch_cpu->elf, COPY_SLICES_SYMBOL);

	torch_derive_nodes(torch_cpu->elf, &torch_cpu->nodes);
	torch_cpu->copy_slices = table ? table + CLASS_TABLE_HEAD : 0;
	if (torch_cpu->nodes.thread_offset >= NODE_SPAN)
		torch_cpu->nodes = (struct torch_nodes){0};
	if (!torch_cpu->nodes.thread_offset)
		plan_find(torch_cpu, false, false, "operators of backward passes have no module and no forward stack",
			"how autograd numbers its nodes cannot be told");
}

static int torch_plan(struct library_plan *torch_cpu, const struct library_plan *c10, bool operators)
{
	int error = layout_plan(torch_cpu, c10);

	if (error || !torch_cpu->torch)
		return error;
	if (elf_file_tls_got(torch_cpu->elf, KEYS_SYMBOL, &torch_cpu->keys_got))
		plan_find(torch_cpu, false, false, "a few operators may be mistaken for parts of others",
			"the thread's dispatch keys cannot be found");
	nodes_plan(torch_cpu);
	torch_cpu->dispatcher = torch_derive_dispatcher(torch_cpu->elf);
	error = operators ? operator_hooks_plan(torch_cpu) : 0;
	if (error == -ENOENT) {
		plan_find(torch_cpu, false, true, "nothing can be told about operators", "no at::_ops functions");
		return 0;
	}
	if (!error)
		layout_tell(torch_cpu);
	return error;
}

int torch_plan_make(struct library_plan *torch_cpu, const struct library_plan *c10, bool operators)
{
	if (!torch_cpu->torch_planned && elf_file_machine(torch_cpu->elf) == ELF_MACHINE_X86_64) {
		torch_cpu->torch_planned = true;
		torch_cpu->torch_error = torch_plan(torch_cpu, c10, operators);
	}
	return torch_cpu->torch_error;
}

/* --- PyTorch in a process ------------------------------------------------------------ */

static void c10_plan(struct library_plan *plan)
{
	plan->undefined_tensor = object_address(plan->elf, UNDEFINED_TENSOR_SYMBOL);
	plan->undefined_table = object_address(plan->elf, UNDEFINED_TABLE_SYMBOL);
}

static uint64_t moved(uint64_t address, uint64_t bias)
{
	return address ? address + bias : 0;
}

struct torch_image torch_plan_image(const struct library_plan *torch_cpu, uint64_t torch_cpu_bias,
	const struct library_plan *c10, uint64_t c10_bias)
{
	return (struct torch_image){
		.layout = torch_cpu->torch,
		.undefined_tensor = moved(c10->undefined_tensor, c10_bias),
		.undefined_table = moved(c10->undefined_table, c10_bias),
		.keys_got = moved(torch_cpu->keys_got, torch_cpu_bias),
	};
}

/* --- all ------------------------------------------------------------------------------ */

int library_plan_make(int fd, enum library_role role, struct library_plan *plan)
{
	int error;

	memset(plan, 0, sizeof(*plan));
	plan->role = role;
	error = elf_file_open(fd, &plan->elf);
	if (error)
		return error;
	plan->build_id = strdup(elf_file_build_id(plan->elf));
	if (elf_file_machine(plan->elf) != ELF_MACHINE_X86_64) {
		plan_find(plan, false, true, "only x86_64 targets can be traced",
			"this is a library for another machine");
		return 0;
	}
	if (role == LIBRARY_C10)
		c10_plan(plan);
	else if (role == LIBRARY_TORCH_PYTHON)
		plan->tensor_class = object_address(plan->elf, TENSOR_CLASS_SYMBOL);
	else if (role == LIBRARY_PYTHON)
		error = python_plan(plan);
	return error ? error : catalogue_plan(plan);
}

void library_plan_free(struct library_plan *plan)
{
	if (!plan)
		return;
	for (ptrdiff_t index = 0; index < arrlen(plan->findings); index++) {
		free(plan->findings[index].what);
		free(plan->findings[index].remedy);
	}
	arrfree(plan->findings);
	for (ptrdiff_t index = 0; index < arrlen(plan->operator_names); index++)
		free(plan->operator_names[index]);
	arrfree(plan->operator_names);
	arrfree(plan->operator_flags);
	arrfree(plan->boxed);
	for (int set = 0; set < HOOK_SETS; set++) {
		arrfree(plan->sets[set].hooks);
		arrfree(plan->sets[set].offsets);
	}
	arrfree(plan->points);
	free(plan->torch);
	free(plan->python);
	elf_file_close(plan->elf);
	free(plan->build_id);
	memset(plan, 0, sizeof(*plan));
}

int library_plan_bias(const struct library_plan *plan, uint64_t mapped_at, uint64_t mapped_offset, uint64_t *bias)
{
	uint64_t address;
	int error = elf_file_code_address(plan->elf, mapped_offset, &address);

	if (error)
		return error;
	*bias = mapped_at - address;
	return 0;
}
