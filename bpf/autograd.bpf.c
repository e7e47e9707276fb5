// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * The autograd engine: which operators are part of a backward pass, and which
 * blocks are gradients and the parameters they belong to.
 */
#include "emit.h"
#include "storage.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define NODE_WORDS (NODE_SPAN / sizeof(__u64))

/* AccumulateGrad has a number that no node is given: such a node is not known. */
#define NO_SEQUENCE (~0ULL)

static __always_inline struct autograd_node node_read(const struct target_settings *settings, __u64 address)
{
	__u64 words[NODE_WORDS], sequence;
	struct autograd_node node = {};

	if (!settings->node_sequence || READ_USER(words, address))
		return node;
	sequence = words[settings->node_sequence / sizeof(__u64) % NODE_WORDS];
	if (sequence == NO_SEQUENCE)
		return node;
	node.sequence = sequence;
	node.thread = words[settings->node_thread / sizeof(__u64) % NODE_WORDS];
	node.late = words[0] == settings->late_node_class;
	node.known = 1;
	return node;
}

/*
 * Engine::evaluate_function(std::shared_ptr<GraphTask> &, Node *, InputBuffer &, …):
 * no operator can be alive where it is entered.
 */
SEC("uprobe.multi")
int node_entered(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	struct hit hit;

	if (!hit_begin(&hit, context, cookie))
		return 0;
	hit.stack_pointer += COOKIE_HOOK(cookie);
	frames_forget(hit.thread);
	hit.thread->engine.place = hit.stack_pointer;
	READ_USER(hit.thread->engine.word, hit.stack_pointer);
	hit.thread->evaluated = node_read(hit.settings, arch_register(context, 2));
	return 0;
}

/* Of the at::Tensor at an address. */
static __always_inline void argument_read(
	const struct target_settings *settings, __u64 address, struct tensor_argument *argument)
{
	__u64 tensor = 0;

	if (!READ_USER(tensor, address))
		tensor_storage_read(settings, tensor, argument);
}

/* AccumulateGrad::apply(hidden result, this, std::vector<Tensor> &&gradients) */
SEC("uprobe.multi")
int gradient_accumulated(struct pt_regs *context)
{
	struct gradient_event record = {};
	__u64 gradients = 0;
	struct hit hit;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	event_fill(&record.event, &hit, EVENT_GRADIENT, sizeof(record), 0);
	if (hit.settings->accumulate_variable)
		argument_read(
			hit.settings, arch_register(context, 1) + hit.settings->accumulate_variable, &record.variable);
	if (!READ_USER(gradients, arch_register(context, 2)))
		argument_read(hit.settings, gradients, &record.gradient);
	event_send(&hit, &record, sizeof(record));
	return 0;
}
