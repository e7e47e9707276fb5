/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules. An operator of the forward pass, or of a recomputation, is inside the
 * modules whose calls are in its stack. One of a backward pass is inside the
 * backward passes of the calls that its forward operator was in; one of which
 * that is not known changes nothing. A thread is inside a call until an
 * operator comes that is not. So calls of one module that follow each other
 * from the same line without any operator in between are one.
 */
#include "module_calls.h"

#include "containers/containers.h"

/* Deeper calls are left out: a stack has no more frames. */
#define CHAIN_MAX 64

struct link {
	const char *module;
	uint32_t line, forward;
};

struct chain {
	struct link links[CHAIN_MAX]; /* outermost first */
	size_t count;
	uint8_t kind;
	bool known; /* else it is not known which calls the operator is in */
};

/* The calls that a thread is in. */
struct open_calls {
	uint32_t calls[CHAIN_MAX];
	size_t count;
};

struct finder {
	const struct rank *rank;
	struct module_calls *found;
	struct {
		uint32_t key; /* of the thread */
		struct open_calls value;
	} * threads; /* stb_ds map */
};

static void chain_of_stack(const struct stack *stack, struct chain *chain)
{
	chain->known = true;
	for (uint32_t i = 0; stack->modules && i < stack->frame_count && chain->count < CHAIN_MAX; i++) {
		struct link link = {stack->modules[i], i ? stack->frames[i - 1].line : 0, CALL_NONE};

		if (link.module)
			chain->links[chain->count++] = link;
	}
}

/* The calls that the forward operator was in, outermost first. */
static void chain_of_forward(const struct finder *finder, uint32_t forward, struct chain *chain)
{
	uint32_t call = forward == RUN_NONE ? CALL_NONE : finder->found->of_run[forward], path[CHAIN_MAX];
	size_t count = 0;

	for (; call != CALL_NONE && count < CHAIN_MAX; call = finder->found->calls[call].parent)
		path[count++] = call;
	chain->known = count > 0;
	while (count--) {
		const struct module_call *of = &finder->found->calls[path[count]];
		struct link link = {of->module, of->line, path[count]};

		chain->links[chain->count++] = link;
	}
}

static void chain_find(const struct finder *finder, const struct operator_run *run, struct chain *chain)
{
	switch (run->phase) {
	case PHASE_INITIALIZATION:
		return;
	case PHASE_BACKWARD:
		chain->kind = CALL_BACKWARD;
		chain_of_forward(finder, run->forward, chain);
		return;
	default:
		chain->kind = run->phase == PHASE_RECOMPUTE ? CALL_RECOMPUTE : CALL_FORWARD;
		chain_of_stack(&finder->rank->stacks[run->stack], chain);
	}
}

static bool call_is(const struct module_call *call, const struct link *link, uint8_t kind)
{
	return call->module == link->module && call->line == link->line && call->forward == link->forward &&
	       call->kind == kind;
}

/* How many of the calls that a thread is in go on. */
static size_t calls_common(const struct finder *finder, const struct open_calls *open, const struct chain *chain)
{
	size_t common = 0;

	while (common < open->count && common < chain->count &&
		call_is(&finder->found->calls[open->calls[common]], &chain->links[common], chain->kind))
		common++;
	return common;
}

static struct open_calls *thread_calls(struct finder *finder, uint32_t thread)
{
	struct open_calls none = {.count = 0};
	ptrdiff_t at = hmgeti(finder->threads, thread);

	if (at < 0) {
		hmput(finder->threads, thread, none);
		at = hmgeti(finder->threads, thread);
	}
	return &finder->threads[at].value;
}

static uint32_t run_follow(struct finder *finder, const struct operator_run *run)
{
	struct open_calls *open = thread_calls(finder, run->thread_id);
	struct chain chain = {.count = 0};
	size_t common;

	chain_find(finder, run, &chain);
	if (!chain.known)
		return CALL_NONE;
	common = calls_common(finder, open, &chain);
	for (size_t i = common; i < open->count; i++)
		finder->found->calls[open->calls[i]].until = run->first_order;
	open->count = common;
	for (size_t i = open->count; i < chain.count; i++) {
		struct module_call call = {
			.module = chain.links[i].module,
			.line = chain.links[i].line,
			.forward = chain.links[i].forward,
			.parent = i ? open->calls[i - 1] : CALL_NONE,
			.begin = run->first_order,
			.kind = chain.kind,
		};

		open->calls[open->count++] = (uint32_t)arrlenu(finder->found->calls);
		arrput(finder->found->calls, call);
	}
	for (size_t i = 0; i < open->count; i++)
		if (finder->found->calls[open->calls[i]].end < run->last_order)
			finder->found->calls[open->calls[i]].end = run->last_order;
	return open->count ? open->calls[open->count - 1] : CALL_NONE;
}

void module_calls_find(const struct rank *rank, struct module_calls *calls)
{
	struct finder finder = {.rank = rank, .found = calls};

	*calls = (struct module_calls){NULL, NULL};
	for (size_t i = 0; i < arrlenu(rank->runs); i++) {
		uint32_t call = run_follow(&finder, &rank->runs[i]);

		arrput(calls->of_run, call);
	}
	hmfree(finder.threads);
}

void module_calls_free(struct module_calls *calls)
{
	arrfree(calls->calls);
	arrfree(calls->of_run);
}

bool module_call_has(const struct module_calls *calls, uint32_t call, uint32_t inner)
{
	while (inner != CALL_NONE && inner != call)
		inner = calls->calls[inner].parent;
	return inner == call;
}
