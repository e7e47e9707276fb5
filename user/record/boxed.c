// SPDX-License-Identifier: BSD-2-Clause
/*
 * Operators that come to a backend's kernel with their arguments on a stack, past all
 * that has a symbol: those that a class of tensors calls when it is asked for another
 * one (__torch_dispatch__, DTensor), and scripts. Where these kernels are, the
 * dispatcher of the process says, when PyTorch is loaded.
 */
#include "record/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "symbol/entry.h"
#include "symbol/section.h"
#include "target/memory.h"
#include "torch/dispatcher.h"

/* A kernel in the process, and whose it is. */
struct boxed_kernel {
	uint64_t address;
	const struct hook_description *description;
};

static const enum library_role roles[] = {LIBRARY_TORCH_CPU, LIBRARY_TORCH_CUDA};

#define ROLES (sizeof(roles) / sizeof(roles[0]))

static int name_compare(const void *key, const void *name)
{
	return strcmp(key, *(char *const *)name);
}

/* As its hook is to be described; NULL: it is none of at::_ops, or only made of others. */
static const struct hook_description *description_find(const struct library_plan *torch_cpu, const char *name)
{
	char **found = torch_cpu->operator_names
	                       ? bsearch(name, torch_cpu->operator_names, arrlenu(torch_cpu->operator_names),
					 sizeof(*torch_cpu->operator_names), name_compare)
	                       : NULL;
	const struct hook_description *description;

	if (!found || arrlenu(torch_cpu->boxed) != arrlenu(torch_cpu->operator_names))
		return NULL;
	description = &torch_cpu->boxed[found - torch_cpu->operator_names];
	return description->hook == HOOK_BOXED ? description : NULL;
}

static int kernel_compare(const void *a, const void *b)
{
	const struct boxed_kernel *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->description < right->description ? -1 : left->description > right->description;
}

static struct boxed_kernel *kernels_find(
	const struct library_plan *torch_cpu, const struct dispatcher_operator *operators)
{
	struct boxed_kernel *kernels = NULL;

	for (ptrdiff_t index = 0; index < arrlen(operators); index++) {
		struct boxed_kernel kernel = {.description = description_find(torch_cpu, operators[index].name)};

		for (int device = 0; kernel.description && device < DISPATCHER_DEVICES; device++) {
			kernel.address = operators[index].kernels[device];
			if (kernel.address)
				arrput(kernels, kernel);
		}
	}
	if (kernels)
		qsort(kernels, arrlenu(kernels), sizeof(*kernels), kernel_compare);
	return kernels;
}

static int kernel_hook(struct library_plan *plan, uint64_t bias, const struct boxed_kernel *kernel)
{
	struct hook_description description = *kernel->description;
	uint64_t address = kernel->address - bias, offset;
	struct entry_place place;
	int error = entry_find(plan->elf, address, 0, &place);

	if (!error)
		error = elf_file_offset(plan->elf, address + place.offset, &offset);
	if (error)
		return error;
	description.stack_adjust = (int16_t)place.stack_bytes;
	arrput(plan->sets[HOOK_SET_BOXED].hooks, description);
	arrput(plan->sets[HOOK_SET_BOXED].offsets, offset);
	return 0;
}

/*
 * What several operators share does not tell which of them runs. The process says where kernels are, and its word is
 * not trusted: others that map the file get these probes too, and one inside an instruction would end them.
 */
static int set_fill(
	struct library_plan *plan, uint64_t bias, struct dispatcher_code code, const struct boxed_kernel *kernels)
{
	size_t count = arrlenu(kernels), next;
	struct function_starts starts;
	int error = function_starts_load(plan->elf, &starts);

	for (size_t first = 0; !error && first < count; first = next) {
		bool shared = false;

		for (next = first + 1; next < count && kernels[next].address == kernels[first].address; next++)
			shared |= kernels[next].description != kernels[first].description;
		if (!shared && kernels[first].address >= code.start && kernels[first].address < code.end &&
			function_starts_at(&starts, kernels[first].address - bias))
			error = kernel_hook(plan, bias, &kernels[first]);
	}
	function_starts_free(&starts);
	return error;
}

static int sets_make(struct session *session, struct target *target, const struct dispatcher_image *image)
{
	const struct library_plan *torch_cpu = target->libraries[LIBRARY_TORCH_CPU];
	struct dispatcher_operator *operators;
	struct boxed_kernel *kernels;
	int error = dispatcher_read(image, &operators);

	if (error)
		return error;
	kernels = kernels_find(torch_cpu, operators);
	for (size_t index = 0; !error && index < ROLES; index++) {
		struct planned_library *library = library_of(session, target, roles[index]);

		if (library && !arrlen(library->plan->sets[HOOK_SET_BOXED].hooks))
			error = set_fill(library->plan, target->bias[roles[index]], image->code[index], kernels);
	}
	arrfree(kernels);
	dispatcher_free(operators);
	return error;
}

static bool is_due(const struct target *target, enum library_role role)
{
	return target->libraries[role] && !target->boxed_probed[role];
}

static int boxed_attach(struct session *session, struct target *target)
{
	const struct library_plan *torch_cpu = target->libraries[LIBRARY_TORCH_CPU];
	struct dispatcher_image image = {.read = target_memory_read,
		.context = target,
		.dispatcher = target->bias[LIBRARY_TORCH_CPU] + torch_cpu->dispatcher};
	const struct mapped_file *files[ROLES] = {NULL};
	struct mapped_file *mapped;
	bool unknown = false;
	int error = maps_read(target->process.pid, &mapped);

	if (error)
		return error;
	for (size_t index = 0; index < ROLES; index++) {
		if (!target->libraries[roles[index]])
			continue;
		files[index] = library_file_of(mapped, target, roles[index]);
		if (files[index])
			image.code[index] = (struct dispatcher_code){files[index]->start, files[index]->end};
		unknown |= !arrlen(target->libraries[roles[index]]->sets[HOOK_SET_BOXED].hooks);
	}
	if (unknown)
		error = sets_make(session, target, &image);
	for (size_t index = 0; !error && index < ROLES; index++) {
		int link;

		if (!is_due(target, roles[index]))
			continue;
		target->boxed_probed[roles[index]] = true;
		if (!files[index] || !arrlen(target->libraries[roles[index]]->sets[HOOK_SET_BOXED].hooks))
			continue;
		link = hook_set_probe(session, target, files[index], roles[index], HOOK_SET_BOXED);
		error = link < 0 ? link : 0;
	}
	maps_free(mapped);
	return error;
}

void boxed_probe_started(struct session *session, struct target *target)
{
	const struct library_plan *binding = target->libraries[LIBRARY_TORCH_PYTHON];
	uint64_t class = 0;

	if (!target->torch_ready || target->boxed_probed[LIBRARY_TORCH_CPU] || !binding || !binding->tensor_class ||
		memory_read(target->process.pid, target->bias[LIBRARY_TORCH_PYTHON] + binding->tensor_class, &class,
			sizeof(class)) ||
		!class || !target_torch_check(session, target))
		return;
	boxed_probe(session, target);
}

void boxed_probe(struct session *session, struct target *target)
{
	struct planned_library *library = library_of(session, target, LIBRARY_TORCH_CPU);
	int error;

	if (!library || !library->plan->dispatcher || !library->plan->torch || target->torch_refused ||
		session->options->blocks_only ||
		(!is_due(target, LIBRARY_TORCH_CPU) && !is_due(target, LIBRARY_TORCH_CUDA)))
		return;
	error = boxed_attach(session, target);
	if (!error || !process_is_alive(&target->process))
		return;
	target->boxed_probed[LIBRARY_TORCH_CPU] = target->boxed_probed[LIBRARY_TORCH_CUDA] = true;
	session_tell(session,
		"pid %d: kernels that are called with arguments on a stack are not found: %s; of operators that "
		"classes of "
		"tensors (DTensor) and scripts call, only what these call is seen",
		target->process.pid, strerror(-error));
}
