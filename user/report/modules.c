/* SPDX-License-Identifier: BSD-2-Clause */
/* A name counts for every module around it too: "Model.a.b" for "Model.a" and "Model". */
#include "modules.h"

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"

struct modules {
	struct module_total *totals; /* stb_ds */
	struct {
		char *key;
		size_t value;
	} * index; /* stb_ds string map */
};

static struct module_total *module_find(struct modules *modules, const char *name)
{
	struct module_total fresh = {0};
	ptrdiff_t at = shgeti(modules->index, name);

	if (at >= 0)
		return &modules->totals[modules->index[at].value];
	fresh.name = strdup(name);
	if (!fresh.name)
		abort();
	shput(modules->index, name, arrlenu(modules->totals));
	arrput(modules->totals, fresh);
	return &arrlast(modules->totals);
}

/* What is added to a module. */
struct share {
	uint64_t parameter_bytes, buffer_bytes, live_bytes, operators;
};

/* To the module of a name and to all around it. The name is changed meanwhile. */
static void share_add(struct modules *modules, char *name, const struct share *share)
{
	for (char *end = name + strlen(name); end; end = strrchr(name, '.')) {
		struct module_total *module;

		*end = 0;
		if (!*name)
			return;
		module = module_find(modules, name);
		module->parameter_bytes += share->parameter_bytes;
		module->buffer_bytes += share->buffer_bytes;
		module->operators += share->operators;
		if (share->live_bytes > module->local_peak_bytes)
			module->local_peak_bytes = share->live_bytes;
	}
}

static void runs_add(struct modules *modules, const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->runs); i++) {
		const struct operator_run *run = &rank->runs[i];
		struct share share = {.live_bytes = run->live_bytes, .operators = 1};
		char *name = *run->module ? strdup(run->module) : NULL;

		if (name)
			share_add(modules, name, &share);
		free(name);
	}
}

/* A parameter's name is its module's and its own. */
static void blocks_add(struct modules *modules, const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		struct share share = {0};
		char *name, *own;

		if (block->category == CATEGORY_PARAMETER)
			share.parameter_bytes = block->bytes;
		else if (block->category == CATEGORY_BUFFER)
			share.buffer_bytes = block->bytes;
		if (!block->persistent || !(share.parameter_bytes | share.buffer_bytes) || !*block->owner)
			continue;
		name = strdup(block->owner);
		own = name ? strrchr(name, '.') : NULL;
		if (own) {
			*own = 0;
			share_add(modules, name, &share);
		}
		free(name);
	}
}

static int module_compare(const void *left, const void *right)
{
	const struct module_total *a = left, *b = right;

	if (a->local_peak_bytes != b->local_peak_bytes)
		return a->local_peak_bytes < b->local_peak_bytes ? 1 : -1;
	return strcmp(a->name, b->name);
}

struct module_total *modules_total(const struct rank *rank)
{
	struct modules modules = {0};

	sh_new_strdup(modules.index);
	runs_add(&modules, rank);
	blocks_add(&modules, rank);
	shfree(modules.index);
	if (arrlenu(modules.totals))
		qsort(modules.totals, arrlenu(modules.totals), sizeof(*modules.totals), module_compare);
	return modules.totals;
}

void modules_free(struct module_total *modules)
{
	for (size_t i = 0; i < arrlenu(modules); i++)
		free(modules[i].name);
	arrfree(modules);
}
