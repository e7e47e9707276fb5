/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Degrees of parallelism. A communicator shows one where it is known what its
 * collectives are for: by the flag of DistributedDataParallel's buckets, or by the
 * part of PyTorch that stands in the stack. What a program does with collectives
 * of its own says nothing of the kind: no degree is made up for it.
 */
#include "parallel.h"

#include <string.h>

#include "containers/containers.h"

enum degree { DEGREE_REPLICATE, DEGREE_SHARD, DEGREE_TENSOR, DEGREE_CONTEXT, DEGREE_PIPELINE, DEGREES };

#define KIND(kind) (1u << (kind))
#define SHARDING (KIND(COLLECTIVE_ALL_GATHER) | KIND(COLLECTIVE_REDUCE_SCATTER))
#define PASSING (KIND(COLLECTIVE_SEND) | KIND(COLLECTIVE_RECEIVE))
#define ANY (~0u)
#define IN_BACKWARD (1u << PHASE_BACKWARD)
#define IN_MODEL (1u << PHASE_FORWARD | 1u << PHASE_RECOMPUTE | 1u << PHASE_BACKWARD)

/* The first row that fits counts. */
static const struct {
	const char *place; /* a file of the stack has it in its name */
	unsigned int kinds, phases;
	bool in_module; /* of a forward pass: not what a program does between its steps */
	enum degree degree;
} rules[] = {
	{"/torch/distributed/fsdp/", SHARDING, IN_MODEL, false, DEGREE_SHARD},
	{"/torch/distributed/_composable/fsdp/", SHARDING, IN_MODEL, false, DEGREE_SHARD},
	/* In the backward pass, of what was scattered: hybrid sharding. Norms of gradients come later. */
	{"/torch/distributed/fsdp/", KIND(COLLECTIVE_ALL_REDUCE), IN_BACKWARD, false, DEGREE_REPLICATE},
	{"/torch/distributed/_composable/fsdp/", KIND(COLLECTIVE_ALL_REDUCE), IN_BACKWARD, false, DEGREE_REPLICATE},
	{"/torch/distributed/pipelining/", PASSING, ANY, false, DEGREE_PIPELINE},
	{"/torch/distributed/tensor/experimental/", ANY, IN_MODEL, true, DEGREE_CONTEXT},
	{"/torch/distributed/tensor/", ANY, IN_MODEL, true, DEGREE_TENSOR},
	{"/torch/distributed/_tensor/", ANY, IN_MODEL, true, DEGREE_TENSOR},
};

static bool stack_has(const struct stack *stack, const char *place)
{
	for (uint32_t i = 0; i < stack->frame_count; i++)
		if (strstr(stack->frames[i].file, place))
			return true;
	return false;
}

/* DEGREES: none. */
static enum degree degree_of(const struct rank *rank, const struct collective *collective)
{
	const struct stack *stack = &rank->stacks[collective->stack];

	if (collective->in_bucket)
		return DEGREE_REPLICATE;
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if ((rules[i].kinds >> collective->kind & 1) && (rules[i].phases >> collective->phase & 1) &&
			(!rules[i].in_module || *stack->module || collective->phase == PHASE_BACKWARD) &&
			stack_has(stack, rules[i].place))
			return rules[i].degree;
	return DEGREES;
}

static void degree_put(struct json *json, const char *key, int64_t degree)
{
	json_key(json, key);
	if (degree)
		json_signed(json, degree);
	else
		json_null(json);
}

void parallel_put(struct json *json, const struct rank *rank)
{
	int64_t degrees[DEGREES] = {0};
	bool any = false;

	for (size_t i = 0; i < arrlenu(rank->collectives); i++) {
		const struct collective *collective = &rank->collectives[i];
		enum degree degree = collective->layer == LAYER_C10D ? degree_of(rank, collective) : DEGREES;
		int32_t size = rank->groups[collective->group].size;

		if (degree == DEGREES || size <= 0)
			continue;
		any = true;
		/* Of several communicators of one kind, the largest. */
		if (degrees[degree] < size)
			degrees[degree] = size;
	}
	json_key(json, "parallel");
	if (!any) {
		json_null(json);
		return;
	}
	json_object(json);
	degree_put(json, "cp", degrees[DEGREE_CONTEXT]);
	degree_put(json, "dp",
		degrees[DEGREE_REPLICATE] || degrees[DEGREE_SHARD]
			? (degrees[DEGREE_REPLICATE] ? degrees[DEGREE_REPLICATE] : 1) *
				  (degrees[DEGREE_SHARD] ? degrees[DEGREE_SHARD] : 1)
			: 0);
	degree_put(json, "dp_replicate", degrees[DEGREE_REPLICATE]);
	degree_put(json, "dp_shard", degrees[DEGREE_SHARD]);
	degree_put(json, "ep", 0);
	degree_put(json, "pp", degrees[DEGREE_PIPELINE]);
	degree_put(json, "tp", degrees[DEGREE_TENSOR]);
	json_object_end(json);
}
