/* SPDX-License-Identifier: BSD-2-Clause */
/* Modules and owners in a live process of PyTorch, read as it is and with damage. */
#include <criterion/criterion.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "containers/containers.h"
#include "target/memory.h"
#include "torch/graph.h"
#include "torch/objects.h"

#define PYTHON "/usr/bin/python3"
#define TRUTH "tests/unit/objects_truth.py"
#define LINE_BYTES 256
#define DAMAGED_WALKS 200
#define SAVED "saved:"
#define OTHER "other:" /* the second name of what is shared, which counts where the first cannot be read */
#define NODES_MAX 100
#define DAMAGE_EVERY 40 /* reads */

struct truth {
	char name[LINE_BYTES];
	uint64_t address;
	bool found;
};

static struct {
	pid_t pid;
	int input; /* the process ends when it is closed */
	uint64_t model;
	struct truth *held;   /* stb_ds */
	uint64_t graph;       /* a tensor of Python */
	struct truth *saved;  /* stb_ds */
	struct truth *others; /* stb_ds */
	unsigned int modules, owners, wrong;
	uint64_t seed; /* of the damage, 0: none */
} process;

static uint64_t random_next(void)
{
	process.seed = process.seed * 6364136223846793005u + 1442695040888963407u;
	return process.seed >> 33;
}

static int process_read(void *context, uint64_t address, void *buffer, size_t length)
{
	int error = memory_read(process.pid, address, buffer, length);

	(void)context;
	if (error || !process.seed || random_next() % DAMAGE_EVERY)
		return error;
	if (random_next() % 4 == 0)
		return -EFAULT;
	((uint8_t *)buffer)[random_next() % length] = (uint8_t)random_next();
	return 0;
}

static void module_seen(void *context, uint64_t object, uint64_t type, const char *name)
{
	(void)context;
	(void)object;
	(void)type;
	process.modules += strncmp(name, "Sequential", 10) == 0;
}

static void owner_seen(void *context, enum owner_kind kind, const struct tensor_argument *storage, uint8_t element_type,
	const char *name)
{
	bool known = false;

	(void)context;
	(void)element_type;
	if (kind != OWNER_PARAMETER && kind != OWNER_BUFFER)
		return;
	process.owners++;
	for (size_t i = 0; i < arrlenu(process.held); i++) {
		if (strcmp(process.held[i].name, name) || process.held[i].address != storage->data)
			continue;
		process.held[i].found = known = true;
	}
	for (size_t i = 0; i < arrlenu(process.others); i++)
		known |= !strcmp(process.others[i].name + strlen(OTHER), name) &&
		         process.others[i].address == storage->data;
	/* Another name, or another storage by that name. */
	process.wrong += !known;
}

static void setup(void)
{
	int to[2], from[2];
	char line[LINE_BYTES];
	FILE *output;

	cr_assert(!pipe(to) && !pipe(from));
	process.pid = fork();
	if (!process.pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		close(to[1]);
		execl(PYTHON, PYTHON, TRUTH, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	process.input = to[1];
	output = fdopen(from[0], "r");
	cr_assert(output && fgets(line, sizeof(line), output), "%s", TRUTH);
	process.model = strtoull(line, NULL, 16);
	while (fgets(line, sizeof(line), output) && strncmp(line, "end", 3) != 0) {
		struct truth truth = {0};

		cr_assert_eq(sscanf(line, "%255s %" SCNx64, truth.name, &truth.address), 2);
		if (!strcmp(truth.name, "graph:"))
			process.graph = truth.address;
		else if (!strncmp(truth.name, SAVED, strlen(SAVED)))
			arrput(process.saved, truth);
		else if (!strncmp(truth.name, OTHER, strlen(OTHER)))
			arrput(process.others, truth);
		else
			arrput(process.held, truth);
	}
	fclose(output);
}

static void teardown(void)
{
	close(process.input);
	waitpid(process.pid, NULL, 0);
	arrfree(process.held);
	arrfree(process.saved);
	arrfree(process.others);
}

TestSuite(objects, .init = setup, .fini = teardown, .timeout = 60);

/* TensorImpl::storage_, StorageImpl's data and bytes of 1.13. */
static const struct torch_layout torch = {.tensor_storage = 24, .storage_data = 24, .storage_bytes = 56};

static int model_walk(void)
{
	static const struct objects_visitor visitor = {.module = module_seen, .owner = owner_seen};
	struct python_memory memory = {.layout = python_layout_find(3, 11), .read = process_read};
	struct objects_walk *walk = objects_walk_new(&memory, &torch, &visitor);
	int error;

	cr_assert_not_null(walk);
	process.modules = process.owners = process.wrong = 0;
	error = objects_walk_modules(walk, process.model);
	objects_walk_free(walk);
	return error;
}

Test(objects, of_a_live_model_have_their_names)
{
	cr_assert_eq(model_walk(), 0);
	cr_expect_eq(process.modules, 5, "%u modules", process.modules);
	cr_expect_eq(process.owners, arrlenu(process.held), "%u owners", process.owners);
	cr_expect_eq(process.wrong, 0);
	for (size_t i = 0; i < arrlenu(process.held); i++)
		cr_expect(process.held[i].found, "%s is not found", process.held[i].name);
}

Test(objects, in_damaged_memory_are_left_out_and_never_taken_for_others)
{
	unsigned int found = 0, incomplete = 0;

	for (uint64_t walk = 1; walk <= DAMAGED_WALKS; walk++) {
		process.seed = walk;
		model_walk();
		found += process.owners;
		incomplete += process.owners < arrlenu(process.held);
		cr_expect_eq(process.wrong, 0, "walk %" PRIu64 ": an owner of another storage", walk);
	}
	cr_expect(incomplete > DAMAGED_WALKS / 10 && found > 0, "%u walks were damaged, %u owners found", incomplete,
		found);
}

Test(objects, are_none_where_no_module_is)
{
	process.model = process.held[0].address;
	cr_expect_eq(model_walk(), -EBADMSG);
	process.model = 8;
	cr_expect_eq(model_walk(), -EBADMSG);
}

/* --- autograd's graph --------------------------------------------------------------- */

static void saved_seen(void *context, const struct tensor_argument *storage, const char *node)
{
	bool known = false;

	(void)context;
	/* Parameters and their views are no affair of this test. */
	for (size_t i = 0; i < arrlenu(process.held); i++)
		if (process.held[i].address == storage->data)
			return;
	for (size_t i = 0; i < arrlenu(process.saved); i++) {
		struct truth *truth = &process.saved[i];

		if (truth->address != storage->data || strcmp(truth->name + strlen(SAVED), node))
			continue;
		known = truth->found = true;
	}
	process.owners += known;
	process.wrong += !known;
}

static void graph_walk(void)
{
	static const struct graph_visitor visitor = {.saved = saved_seen};
	struct python_memory memory = {.layout = python_layout_find(3, 11), .read = process_read};
	struct tensor_place loss = tensor_of_object(&memory, process.graph);
	struct graph *graph = graph_new(&memory, &torch, &visitor, NODES_MAX);

	cr_assert_not_null(graph);
	process.owners = process.wrong = 0;
	graph_look(graph, &loss);
	graph_free(graph);
}

Test(objects, of_autograd_are_what_its_nodes_saved)
{
	graph_walk();
	cr_expect(arrlenu(process.saved) >= 5, "%td storages", arrlen(process.saved));
	cr_expect_eq(process.wrong, 0, "%u were not saved", process.wrong);
	for (size_t i = 0; i < arrlenu(process.saved); i++)
		cr_expect(process.saved[i].found, "%s is not found", process.saved[i].name);
}

Test(objects, of_autograd_in_damaged_memory_are_never_taken_for_others)
{
	unsigned int found = 0, incomplete = 0;

	for (uint64_t walk = 1; walk <= DAMAGED_WALKS; walk++) {
		process.seed = walk;
		graph_walk();
		found += process.owners;
		incomplete += process.owners < arrlenu(process.saved);
		cr_expect_eq(process.wrong, 0, "walk %" PRIu64 ": what no node saved", walk);
	}
	cr_expect(incomplete > DAMAGED_WALKS / 10 && found > 0, "%u walks were damaged, %u found", incomplete, found);
}
