// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * Operators: hits at the entry of at::_ops::X::call, at that of
 * at::_ops::X::redispatch, on call sites of the latter, or at the entry of a kernel
 * that is called with its arguments on a stack. A hit inside an
 * operator that certainly runs leaves at once; any other becomes a record,
 * with its tensor arguments and its Python stack. Which of them are the
 * operators that ran is decided by the model.
 */
#include "arguments.h"
#include "emit.h"
#include "liveness.h"
#include "stack.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* One record of further arguments, those from (index + 1) * EVENT_TENSORS_MAX on. */
static long tensors_send(__u32 index, struct argument_walk *walk)
{
	struct hit *hit = walk->hit;
	struct tensors_event *record = RECORD_HEAD(hit->thread, tensors_event);
	__u32 size, skip = (index + 1) * EVENT_TENSORS_MAX;

	if (skip >= hit->thread->arguments.total)
		return 1;
	arguments_read(walk, skip);
	size = hit->thread->tensor_count * sizeof(struct tensor_argument);
	if (!size || size > TENSORS_SIZE)
		return 0;
	event_fill(&record->event, hit, EVENT_TENSORS, sizeof(*record) + size, 0);
	record->tensor_count = (__u16)hit->thread->tensor_count;
	event_send(hit, record, sizeof(*record) + size);
	return 0;
}

/*
 * The stack at an operator. Inside an outer one it is that one's, unless Python
 * runs below it (a pack hook, a custom function): then it is read, but the
 * position stays the outer one's, by which that is known to be alive.
 */
static __always_inline __u32 stack_read_at(struct hit *hit, __u32 offset, __u32 depth, __u64 *identity, __u8 *flags)
{
	struct thread_state *thread = hit->thread;
	struct python_position position = thread->position;
	__u64 holder = thread->python_holder;
	__u32 count;

	if (depth && python_innermost(hit) == position.frame) {
		thread->python_holder = holder;
		*identity = thread->frames[0].stack;
		return 0;
	}
	count = python_stack_read(hit, offset, identity, flags);
	if (depth) {
		thread->position = position;
		thread->python_holder = holder;
	}
	return count;
}

/* PyTorch's own number of the thread: it gets one when it makes its first node. */
static __noinline int thread_number_find(struct hit *hit)
{
	__u64 address = thread_variable_find(hit->settings->thread_number_got), number = 0;

	if (address && !READ_USER(number, address + hit->settings->thread_number_offset))
		hit->thread->number = (__u32)number;
	return 0;
}

/* The node of autograd's graph that the thread is going to make. */
static __always_inline struct autograd_node node_next(struct hit *hit)
{
	struct thread_state *thread = hit->thread;
	struct autograd_node node = {};
	__u64 sequence = 0;

	if (!hit->settings->node_counter_got)
		return node;
	if (!thread->node_counter_address) {
		thread->node_counter_address = thread_variable_find(hit->settings->node_counter_got);
		if (!thread->node_counter_address)
			return node;
		thread->node_counter_address += hit->settings->node_counter_offset;
	}
	if (READ_USER(sequence, thread->node_counter_address))
		return node;
	if (!thread->number)
		thread_number_find(hit);
	node.sequence = sequence;
	node.thread = *(volatile __u32 *)&thread->number;
	node.known = 1;
	return node;
}

static __always_inline void operator_fill(struct operator_event *record, const struct hit *hit,
	const struct hook_description *description, const struct operator_frame *frame, __u32 size, __u32 depth)
{
	event_fill(&record->event, hit, EVENT_OPERATOR, size, depth);
	record->event.operator_ = description->operator_;
	record->event.flags = frame->guarded ? 0 : EVENT_UNGUARDED;
	record->stack = frame->stack;
	record->next = record->evaluated = (struct autograd_node){};
	record->tensor_count = record->frame_count = 0;
	record->hook = description->hook;
	__builtin_memset(record->reserved, 0, sizeof(record->reserved));
}

/* At LEVEL_LITE: neither arguments nor stack are read, so that frames are told by their words alone. */
static __always_inline int operator_send_lite(
	struct hit *hit, const struct hook_description *description, const struct operator_frame *frame, __u32 depth)
{
	struct operator_event record;

	hit->thread->position.frame = 0;
	operator_fill(&record, hit, description, frame, sizeof(record), depth);
	event_send(hit, &record, sizeof(record));
	return 0;
}

static __noinline int operator_send(struct pt_regs *context, struct hit *hit,
	const struct hook_description *description, struct operator_frame *frame, __u32 depth)
{
	struct thread_state *thread = hit->thread;
	struct operator_event *record = RECORD_HEAD(thread, operator_event);
	struct argument_walk walk = {.context = context, .hit = hit, .description = description};
	__u8 flags = engine_is_alive(hit) ? EVENT_BACKWARD : 0;
	__u32 frame_count, size, total;

	arguments_read(&walk, 0);
	total = thread->arguments.total;
	if (thread->arguments.fault || total > TENSORS_TOTAL_MAX) {
		flags |= EVENT_TENSORS_CUT;
		loss_count(hit->target, LOSS_ARGUMENTS);
	}
	size = thread->tensor_count * sizeof(struct tensor_argument);
	frame_count = stack_read_at(hit, size, depth, &frame->stack, &flags);
	size += sizeof(*record) + frame_count * sizeof(struct python_frame);
	operator_fill(record, hit, description, frame, size, depth);
	record->event.flags |= flags;
	record->next = node_next(hit);
	if (flags & EVENT_BACKWARD)
		record->evaluated = thread->evaluated;
	record->tensor_count = (__u16)thread->tensor_count;
	record->frame_count = (__u16)frame_count;
	event_send_with_frames(hit, record, sizeof(*record), size, frame_count, frame->stack);
	if (total > EVENT_TENSORS_MAX)
		bpf_loop(TENSORS_TOTAL_MAX / EVENT_TENSORS_MAX, tensors_send, &walk, 0);
	return 0;
}

/* Set by the loader: keep hook_hits. */
const volatile bool count_hooks __weak = false;

/* "profiler::_record_function_enter" and its likes: the operators that begin and end profiler ranges. */
#define PROFILER_NAMESPACE 0x72656c69666f7270ULL /* "profiler", little-endian */

/*
 * Does this hook count for the thread? There are two sets of hooks, and while
 * the loader changes from one to the other both are attached. A thread changes
 * where no operator is alive: at a call, or at a site, but not at the plain set's
 * redispatch, whose site the thread may have counted already.
 */
static __always_inline bool hook_counts(struct hit *hit, const struct hook_description *description, bool guarded)
{
	struct thread_state *thread = hit->thread;
	bool plain = description->flags & HOOK_PLAIN;

	if (!thread->known) {
		/* What the first one runs inside began before the attach, maybe: factories call these. */
		if (hit->settings->attached && description->flags & HOOK_LEAF)
			return false;
		thread->known = 1;
		thread->plain = hit->settings->plain;
	}
	/* Of both sets. */
	if (description->hook == HOOK_BOXED)
		return true;
	if (thread->plain != hit->settings->plain && !(plain && description->hook == HOOK_REDISPATCH)) {
		if (thread->frame_count)
			frames_check(hit, guarded, true);
		if (!*(volatile __u32 *)&thread->frame_count)
			thread->plain = hit->settings->plain;
	}
	return thread->plain == plain;
}

/*
 * Does a redispatch with these keys lead to a backend kernel? What a conjugate,
 * negative or zero tensor needs first is part of the operator.
 */
static __always_inline bool keys_are_last(const struct hit *hit, const struct hook_description *description, __u64 keys)
{
	__u64 backend = hit->settings->keys_backend;

	if (description->flags & HOOK_BEFORE_SELECT)
		backend |= backend + 1; /* the bit above the backends' is BackendSelect's */
	return !(keys & ~(backend | hit->settings->keys_fallback));
}

/*
 * A factory's frame may look alive long after it returned. All that it runs
 * itself is an operator that fills what it allocated: anything else is proof.
 */
static __always_inline void factory_check(
	struct pt_regs *context, struct hit *hit, const struct hook_description *description)
{
	struct thread_state *thread = hit->thread;
	__u32 last = thread->running - 1;
	__u64 tensor = 0, storage = 0, data = 0;

	if (!thread->running || last >= FRAMES_DEPTH_MAX || !thread->frames[last].fill ||
		!(description->flags & HOOK_AUTOGRAD_LEVEL))
		return;
	if (description->flags & HOOK_FILLER &&
		!READ_USER(tensor, argument_word(context, hit, description->arguments[0].place)) &&
		!READ_USER(storage, tensor + hit->settings->tensor_storage) &&
		!READ_USER(data, storage + hit->settings->storage_data) && data && data == thread->filled)
		return;
	thread->frame_count = last;
	thread->running = 0;
}

/* The thread's own position is that of the outermost operator. */
static __noinline int position_keep(struct hit *hit, struct python_position *position)
{
	__u64 holder = hit->thread->python_holder;

	python_position_read(hit, position);
	hit->thread->python_holder = holder;
	return 0;
}

static __always_inline void frame_fill(struct pt_regs *context, struct hit *hit,
	const struct hook_description *description, __u64 excluded, struct operator_frame *frame)
{
	frame->guarded = autograd_is_excluded(hit, excluded);
	frame->sealed = frame->guarded && (excluded & hit->settings->keys_inplace);
	frame->leaf = !!(description->flags & HOOK_LEAF);
	frame->fill = !!(description->flags & HOOK_FILL);
	frame->boxed = description->hook == HOOK_BOXED;
	if (frame->boxed)
		position_keep(hit, &frame->position);
	frame->stack = 0;
	frame->call.place = hit->stack_pointer;
	frame->call.word = 0;
	if (description->flags & HOOK_CALL_SITE)
		frame->call.word = ARCH_INSTRUCTION(context) + ARCH_CALL_LENGTH;
	else
		READ_USER(frame->call.word, frame->call.place);
}

/*
 * A thread without Python in a Python process, outside the autograd engine: what
 * kernels share their work among. What such a one allocates is their scratch.
 */
static __always_inline bool is_worker(struct hit *hit)
{
	return hit->settings->level == LEVEL_FULL && hit->settings->python_thread_slot && !engine_is_alive(hit) &&
	       !python_innermost(hit);
}

SEC("uprobe.multi")
int operator_hit(struct pt_regs *context)
{
	__u64 cookie = bpf_get_attach_cookie(context), excluded;
	struct hook_counters *counted = NULL;
	__u32 index = COOKIE_HOOK(cookie), depth = 0;
	struct hook_description *description = bpf_map_lookup_elem(&hooks, &index);
	struct operator_frame *frame;
	struct thread_state *thread;
	struct hit hit;

	if (!description || !hit_begin(&hit, context, cookie))
		return 0;
	thread = hit.thread;
	if (count_hooks) {
		counted = bpf_map_lookup_elem(&hook_hits, &index);
		if (counted)
			counted->hits++;
	}
	/* Now as it is when the function is entered. */
	hit.stack_pointer += (__s64)description->stack_adjust;
	if (description->keys_register != HOOK_NO_KEYS &&
		!keys_are_last(&hit, description, arch_register(context, description->keys_register)))
		return 0;
	excluded = keys_excluded(&hit);
	if (!hook_counts(&hit, description, autograd_is_excluded(&hit, excluded)))
		return 0;
	if (hit.settings->level == LEVEL_FULL)
		factory_check(context, &hit, description);
	frames_check_around(&hit, description, autograd_is_excluded(&hit, excluded));
	depth = *(volatile __u32 *)&thread->frame_count;
	if (thread->running)
		return 0;
	if (depth >= FRAMES_DEPTH_MAX) {
		loss_count(hit.target, LOSS_DEPTH);
		return 0;
	}
	if (!depth && description->flags & HOOK_LEAF && is_worker(&hit))
		return 0;
	frame = &thread->frames[depth];
	frame_fill(context, &hit, description, excluded, frame);
	thread->frame_count = depth + 1;
	if (description->hook != HOOK_CALL)
		thread->running = depth + 1;
	if (counted)
		counted->records++;
	if (hit.settings->level == LEVEL_LITE)
		return operator_send_lite(&hit, description, frame, depth);
	return operator_send(context, &hit, description, frame, depth);
}

/* The operator definition that a list of candidates names first, 0 unless it is one of the profiler's. */
static __always_inline __u64 profiler_operator_find(const struct hit *hit, __u64 candidates)
{
	__u64 operator_ = 0, definition = 0, text = 0, name = 0;

	if (READ_USER(operator_, candidates) || READ_USER(operator_, operator_) ||
		READ_USER(definition, operator_ + hit->settings->operator_definition) ||
		READ_USER(text, definition + hit->settings->definition_name) || READ_USER(name, text))
		return 0;
	return name == PROFILER_NAMESPACE ? definition : 0;
}

#define CXX_STRING_BYTES 32 /* std::string of libstdc++ */

static __always_inline void string_copy(char *text, __u32 size, __u64 string)
{
	__u64 data = 0;

	text[0] = 0;
	if (!READ_USER(data, string))
		bpf_probe_read_user_str(text, size, (void *)data);
}

/*
 * invokeOperatorFromPython(hidden result, std::vector<std::shared_ptr<Operator>> const &, ...):
 * operators that do not exist in at::_ops. Only the profiler's are followed; of
 * other custom operators the aten operators inside are what counts.
 */
SEC("uprobe.multi")
int operator_invoked(struct pt_regs *context)
{
	struct invoked_event *record;
	struct operator_frame *frame;
	struct thread_state *thread;
	__u64 cookie = bpf_get_attach_cookie(context);
	__u32 frame_count, size;
	__u64 definition;
	__u8 flags = EVENT_UNGUARDED;
	struct hit hit;

	if (!hit_begin(&hit, context, cookie))
		return 0;
	hit.stack_pointer += COOKIE_HOOK(cookie);
	definition = profiler_operator_find(&hit, arch_register(context, 1));
	if (!definition)
		return 0;
	/* Python invokes operators, not other operators. */
	thread = hit.thread;
	frames_forget(thread);
	frame = &thread->frames[0];
	frame->guarded = frame->sealed = frame->leaf = frame->fill = frame->boxed = 0;
	frame->call.place = hit.stack_pointer;
	READ_USER(frame->call.word, frame->call.place);
	record = RECORD_HEAD(thread, invoked_event);
	frame_count = python_stack_read(&hit, 0, &frame->stack, &flags);
	thread->frame_count = thread->running = 1;
	size = sizeof(*record) + frame_count * sizeof(struct python_frame);
	event_fill(&record->head.event, &hit, EVENT_INVOKED, size, 0);
	record->head.event.flags = flags;
	record->head.stack = frame->stack;
	record->head.next = record->head.evaluated = (struct autograd_node){};
	record->head.tensor_count = 0;
	record->head.frame_count = (__u16)frame_count;
	record->head.hook = HOOK_REDISPATCH;
	record->definition = definition;
	definition += hit.settings->definition_name;
	string_copy(record->name, sizeof(record->name), definition);
	string_copy(record->overload, sizeof(record->overload), definition + CXX_STRING_BYTES);
	event_send_with_frames(&hit, record, sizeof(*record), size, frame_count, frame->stack);
	/* It is told for its stack, and nothing would tell when it has ended. */
	if (hit.settings->level == LEVEL_LITE)
		frames_forget(thread);
	return 0;
}

/* __cxa_throw(): whatever operator is alive here fails, unless it catches its own exceptions. */
SEC("uprobe.multi")
int exception_thrown(struct pt_regs *context)
{
	struct event record;
	struct hit hit;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)) || !hit.thread->frame_count)
		return 0;
	frames_check(&hit, autograd_is_excluded(&hit, keys_excluded(&hit)), true);
	event_fill(&record, &hit, EVENT_THROW, sizeof(record), *(volatile __u32 *)&hit.thread->frame_count);
	if (record.depth)
		event_send(&hit, &record, sizeof(record));
	return 0;
}
