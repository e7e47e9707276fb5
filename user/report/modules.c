/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names count for every module around them too: "Model.a.b" for "Model.a" and
 * "Model". What was held while a module ran comes from its calls, which one way
 * through the changes of memory goes along.
 */
#include "modules.h"

#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "module_calls.h"

static const char *const STATE_NAMES[MODULE_STATES] = {"Peak-Backward", "Peak-Forward", "Post-Backward", "Post-Forward",
	"Post-Forward-AC", "Pre-Backward", "Pre-Forward", "Pre-Forward-AC"};

/* The states of each kind of call; MODULE_STATES: not told. */
static const struct {
	enum module_state before, after, peak;
} STATES_OF_KIND[CALL_KINDS] = {
	[CALL_FORWARD] = {STATE_PRE_FORWARD, STATE_POST_FORWARD, STATE_PEAK_FORWARD},
	[CALL_RECOMPUTE] = {STATE_PRE_RECOMPUTE, STATE_POST_RECOMPUTE, MODULE_STATES},
	[CALL_BACKWARD] = {STATE_PRE_BACKWARD, STATE_POST_BACKWARD, STATE_PEAK_BACKWARD},
};

const char *module_state_name(enum module_state state)
{
	return STATE_NAMES[state];
}

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
		/* A flat parameter, or one storage of several, has the names of the others behind its own. */
		if (name)
			name[strcspn(name, "(,")] = 0;
		own = name ? strrchr(name, '.') : NULL;
		if (own) {
			*own = 0;
			share_add(modules, name, &share);
		}
		free(name);
	}
}

/* --- what was held during calls --------------------------------------------------- */

/* A call while the changes of memory are gone through. */
struct watched {
	uint32_t call;
	uint64_t peak_bytes;
	size_t place; /* of its snapshots in those of its module, SIZE_MAX: they are not kept */
	bool ended;   /* its last operator has; what it made and keeps no longer may still go */
};

struct sweep {
	struct modules *modules;
	const struct rank *rank;
	const struct module_calls *calls;
	size_t *module_of;       /* stb_ds: for each call its module */
	uint32_t *later;         /* stb_ds: for each call, how many of its module and kind come after it */
	struct snapshot *now;    /* stb_ds: for each device */
	uint64_t total;          /* of all devices */
	struct watched *watched; /* stb_ds: calls that are going on */
};

static struct snapshot *state_at(struct sweep *sweep, const struct watched *watched, enum module_state state)
{
	struct module_total *module = &sweep->modules->totals[sweep->module_of[watched->call]];

	return &module->snapshots[state][watched->place];
}

static void state_note(struct sweep *sweep, const struct watched *watched, enum module_state state)
{
	if (watched->place != SIZE_MAX && state != MODULE_STATES)
		memcpy(state_at(sweep, watched, state), sweep->now, arrlenu(sweep->now) * sizeof(*sweep->now));
}

/* Room for a call's snapshots behind those of the calls before it. */
static void states_add(struct sweep *sweep, struct watched *watched)
{
	struct module_total *module = &sweep->modules->totals[sweep->module_of[watched->call]];
	uint8_t kind = sweep->calls->calls[watched->call].kind;
	const enum module_state states[] = {
		STATES_OF_KIND[kind].before, STATES_OF_KIND[kind].after, STATES_OF_KIND[kind].peak};

	watched->place = SIZE_MAX;
	if (sweep->later[watched->call] >= MODULE_CALLS_KEPT)
		return;
	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		struct snapshot **snapshots = states[i] == MODULE_STATES ? NULL : &module->snapshots[states[i]];

		if (!snapshots)
			continue;
		watched->place = arrlenu(*snapshots);
		memset(arraddnptr(*snapshots, arrlenu(sweep->now)), 0, arrlenu(sweep->now) * sizeof(**snapshots));
	}
}

static void call_begin(struct sweep *sweep, uint32_t call)
{
	struct watched watched = {.call = call, .peak_bytes = sweep->total};
	uint8_t kind = sweep->calls->calls[call].kind;

	states_add(sweep, &watched);
	state_note(sweep, &watched, STATES_OF_KIND[kind].before);
	state_note(sweep, &watched, STATES_OF_KIND[kind].peak);
	arrput(sweep->watched, watched);
}

static void calls_note_peak(struct sweep *sweep)
{
	for (size_t i = 0; i < arrlenu(sweep->watched); i++) {
		struct watched *watched = &sweep->watched[i];

		if (watched->ended || sweep->total <= watched->peak_bytes)
			continue;
		watched->peak_bytes = sweep->total;
		state_note(sweep, watched, STATES_OF_KIND[sweep->calls->calls[watched->call].kind].peak);
	}
}

static void call_end(struct sweep *sweep, struct watched *watched)
{
	struct module_total *module = &sweep->modules->totals[sweep->module_of[watched->call]];

	watched->ended = true;
	state_note(sweep, watched, STATES_OF_KIND[sweep->calls->calls[watched->call].kind].after);
	if (watched->peak_bytes > module->local_peak_bytes)
		module->local_peak_bytes = watched->peak_bytes;
}

/* Calls whose last change was the one at hand, and those that are returned from. */
static void calls_end(struct sweep *sweep, uint32_t order)
{
	for (size_t i = arrlenu(sweep->watched); i-- > 0;) {
		const struct module_call *call = &sweep->calls->calls[sweep->watched[i].call];

		if (!sweep->watched[i].ended && call->end <= order)
			call_end(sweep, &sweep->watched[i]);
		if (sweep->watched[i].ended && call->until <= order)
			arrdelswap(sweep->watched, i);
	}
}

/*
 * What a function made for itself goes with its frame, before it returns; what it
 * was given goes later, when its caller lets go of it.
 */
static void calls_note_free(struct sweep *sweep, const struct change *change)
{
	for (size_t i = 0; i < arrlenu(sweep->watched); i++) {
		const struct watched *watched = &sweep->watched[i];
		const struct module_call *call = &sweep->calls->calls[watched->call];

		if (watched->ended && watched->place != SIZE_MAX && change->made > call->begin)
			snapshot_change(
				state_at(sweep, watched, STATES_OF_KIND[call->kind].after) + change->device, change);
	}
}

static void sweep_run(struct sweep *sweep)
{
	uint32_t next = 0, count = (uint32_t)arrlenu(sweep->calls->calls);

	for (uint32_t order = 0;; order++) {
		const struct change *change;

		for (; next < count && sweep->calls->calls[next].begin <= order; next++)
			call_begin(sweep, next);
		calls_end(sweep, order);
		if (order == arrlenu(sweep->rank->changes))
			break;
		change = &sweep->rank->changes[order];
		if (change->device >= arrlenu(sweep->now))
			continue;
		sweep->total -= sweep->now[change->device].total;
		snapshot_change(&sweep->now[change->device], change);
		sweep->total += sweep->now[change->device].total;
		if (change->is_free)
			calls_note_free(sweep, change);
		else
			calls_note_peak(sweep);
	}
}

/* Which module each call is of, and how many like it come later. */
static void calls_sort(struct sweep *sweep)
{
	struct {
		struct call_key {
			size_t module, kind;
		} key;
		uint32_t value;
	} *counts = NULL;

	for (size_t i = 0; i < arrlenu(sweep->calls->calls); i++) {
		module_find(sweep->modules, sweep->calls->calls[i].module);
		arrput(sweep->module_of,
			sweep->modules->index[shgeti(sweep->modules->index, sweep->calls->calls[i].module)].value);
	}
	arrzero(sweep->later, arrlenu(sweep->calls->calls));
	for (size_t i = arrlenu(sweep->calls->calls); i-- > 0;) {
		struct call_key key = {sweep->module_of[i], sweep->calls->calls[i].kind};
		ptrdiff_t at = hmgeti(counts, key);

		sweep->later[i] = at < 0 ? 0 : counts[at].value;
		hmput(counts, key, sweep->later[i] + 1);
		sweep->modules->totals[key.module].calls += key.kind == CALL_FORWARD;
	}
	hmfree(counts);
}

/* --- inputs and outputs ------------------------------------------------------------ */

/* Storages of these are the model's own, not what flows through it. */
static bool block_flows(const struct block *block)
{
	return block->category == CATEGORY_ACTIVATION || block->category == CATEGORY_TEMP ||
	       block->category == CATEGORY_OTHER;
}

static bool call_is_last(const struct sweep *sweep, uint32_t call)
{
	return sweep->calls->calls[call].kind == CALL_FORWARD && !sweep->later[call];
}

/* Adds a block to the inputs of the calls that used it from outside, each once. */
static void inputs_add(struct sweep *sweep, const struct block *block, uint32_t maker, const uint32_t *users)
{
	uint32_t *done = NULL;

	for (size_t i = 0; i < arrlenu(users); i++) {
		for (uint32_t call = users[i]; call != CALL_NONE; call = sweep->calls->calls[call].parent) {
			bool again = !call_is_last(sweep, call) || module_call_has(sweep->calls, call, maker);

			for (size_t at = 0; !again && at < arrlenu(done); at++)
				again = done[at] == call;
			if (again)
				continue;
			arrput(done, call);
			sweep->modules->totals[sweep->module_of[call]].input_bytes += block->bytes;
		}
	}
	arrfree(done);
}

/* Adds it to the outputs of the calls that made it, when an operator outside of them uses it. */
static void outputs_add(struct sweep *sweep, const struct block *block, uint32_t maker, const uint32_t *users)
{
	for (uint32_t call = maker; call != CALL_NONE; call = sweep->calls->calls[call].parent) {
		bool leaves = false;

		for (size_t i = 0; call_is_last(sweep, call) && !leaves && i < arrlenu(users); i++)
			leaves = !module_call_has(sweep->calls, call, users[i]);
		if (leaves)
			sweep->modules->totals[sweep->module_of[call]].output_bytes += block->bytes;
	}
}

static void flows_add(struct sweep *sweep)
{
	const struct rank *rank = sweep->rank;
	uint32_t *run_of = NULL, *users = NULL;

	arrzero(run_of, (size_t)rank->task_count + 1);
	for (uint32_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].task != TASK_NONE)
			run_of[rank->runs[i].task] = i;
	for (size_t i = 0; i < arrlenu(rank->blocks); i++) {
		const struct block *block = &rank->blocks[i];
		const struct operator_run *producer = &rank->runs[block->producer];
		uint32_t maker = producer->phase == PHASE_FORWARD ? sweep->calls->of_run[block->producer] : CALL_NONE;

		if (!block_flows(block))
			continue;
		if (users)
			arrsetlen(users, 0);
		for (uint32_t user = 0; user < block->user_count; user++) {
			uint32_t run = run_of[rank->users[block->first_user + user]];

			if (rank->runs[run].phase == PHASE_FORWARD)
				arrput(users, sweep->calls->of_run[run]);
		}
		inputs_add(sweep, block, maker, users);
		outputs_add(sweep, block, maker, users);
	}
	arrfree(run_of);
	arrfree(users);
}

static void calls_add(struct modules *modules, const struct rank *rank)
{
	struct module_calls calls;
	struct sweep sweep = {.modules = modules, .rank = rank, .calls = &calls};

	module_calls_find(rank, &calls);
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		arrput(sweep.now, rank->devices[i].older);
		sweep.total += rank->devices[i].older.total;
	}
	calls_sort(&sweep);
	sweep_run(&sweep);
	flows_add(&sweep);
	arrfree(sweep.module_of);
	arrfree(sweep.later);
	arrfree(sweep.now);
	arrfree(sweep.watched);
	module_calls_free(&calls);
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
	calls_add(&modules, rank);
	shfree(modules.index);
	if (arrlenu(modules.totals))
		qsort(modules.totals, arrlenu(modules.totals), sizeof(*modules.totals), module_compare);
	return modules.totals;
}

void modules_free(struct module_total *modules)
{
	for (size_t i = 0; i < arrlenu(modules); i++) {
		for (int state = 0; state < MODULE_STATES; state++)
			arrfree(modules[i].snapshots[state]);
		free(modules[i].name);
	}
	arrfree(modules);
}
