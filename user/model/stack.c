/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python stacks: kept once for each identity, and what they say of the phase.
 *
 * Rules. A frame of torch.optim's step wrapper anywhere makes the phase
 * optimizer. Else, from the outermost frame inwards: a frame of torch.autograd
 * that starts an engine run begins a backward pass; a frame of
 * torch.utils.checkpoint inside a backward pass is a recomputation, until a
 * frame further in starts a backward pass itself (the reentrant checkpoint
 * does). Else forward.
 *
 * The module of a stack is the deepest one by its name (most dots, then the
 * longest) among the modules whose call is in it, of equal ones the innermost.
 * nn.Module's outer call has the module as its `self` in every version; in later
 * ones the inner call, right inside it, has a cell there.
 *
 * Code that inductor compiled is a function `call`, and others in its file that it
 * calls, directly inside PyTorch's inductor.
 *
 * The engine's own frame (EVENT_BACKWARD) is believed where the stack cannot
 * know: without Python frames, when its outer frames are missing, and when it
 * begins in the engine's thread, not where a program or a thread of Python
 * begins. A whole stack without an autograd frame is believed more than the
 * engine frame, which is known only by a liveness test.
 */
#include "stack.h"

#include <errno.h>
#include <stdlib.h>

#include "state.h"

static bool text_ends(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool frame_is_optimizer(const struct frame *frame)
{
	return text_ends(frame->file, "/torch/optim/optimizer.py") &&
	       (strcmp(frame->function, "wrapper") == 0 || strcmp(frame->function, "profile_hook_step") == 0);
}

static bool frame_is_backward(const struct frame *frame)
{
	if (!text_ends(frame->file, "/torch/autograd/__init__.py") &&
		!text_ends(frame->file, "/torch/autograd/graph.py"))
		return false;
	return strcmp(frame->function, "backward") == 0 || strcmp(frame->function, "grad") == 0 ||
	       strcmp(frame->function, "_engine_run_backward") == 0;
}

static bool frame_is_checkpoint(const struct frame *frame)
{
	return text_ends(frame->file, "/torch/utils/checkpoint.py");
}

/* --- modules ------------------------------------------------------------------ */

static bool frame_calls_module(const struct frame *frame, const char *function)
{
	return strcmp(frame->function, function) == 0 && text_ends(frame->file, "/torch/nn/modules/module.py");
}

static size_t name_depth(const char *name)
{
	size_t dots = 0;

	for (; *name; name++)
		dots += *name == '.';
	return dots;
}

static bool name_is_deeper(const char *name, const char *than)
{
	size_t depth = name_depth(name), than_depth = name_depth(than);

	return depth != than_depth ? depth > than_depth : strlen(name) >= strlen(than);
}

/* Names of the modules that a stack's frames call, where they are known, and the deepest of them. */
int stack_name(struct stack *stack, const char *(*name)(const void *context, uint64_t object), const void *context)
{
	stack->module = "";
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct frame *frame = &stack->frames[i];
		bool wrapped = i && frame_calls_module(frame - 1, "_wrapped_call_impl");
		const char *module;

		if (!frame_calls_module(frame, "_wrapped_call_impl") &&
			(wrapped || !frame_calls_module(frame, "_call_impl")))
			continue;
		module = name(context, frame->self);
		if (!module)
			continue;
		if (!stack->modules)
			stack->modules = calloc(stack->frame_count, sizeof(*stack->modules));
		if (!stack->modules)
			return -ENOMEM;
		stack->modules[i] = module;
		if (name_is_deeper(stack->modules[i], stack->module))
			stack->module = stack->modules[i];
	}
	return 0;
}

/* --- phases -------------------------------------------------------------------- */

/* Where Python code begins when nothing in C called it: a module's body, or threading's bootstrap. */
static bool frame_is_program(const struct frame *frame)
{
	return strcmp(frame->function, "<module>") == 0 || strcmp(frame->function, "_run_module_as_main") == 0 ||
	       (strcmp(frame->function, "_bootstrap") == 0 && text_ends(frame->file, "/threading.py"));
}

/*
 * Whose step it is: self of the first `step` inside the innermost wrapper; 0
 * before and behind it, where the wrapper's own operators do not tell (its
 * caller may be a module's body, in whose frame no object stands).
 */
static uint64_t stack_optimizer(const struct stack *stack, uint32_t wrapper)
{
	for (uint32_t i = wrapper + 1; i < stack->frame_count; i++)
		if (strcmp(stack->frames[i].function, "step") == 0)
			return stack->frames[i].self;
	return 0;
}

/* Is the innermost thing that the frames begin a recomputation? */
static bool stack_recomputes(const struct stack *stack, bool in_backward)
{
	bool recompute = false;

	for (uint32_t i = 0; i < stack->frame_count; i++) {
		if (frame_is_backward(&stack->frames[i])) {
			in_backward = true;
			recompute = false;
		} else if (in_backward && frame_is_checkpoint(&stack->frames[i])) {
			recompute = true;
		}
	}
	return recompute;
}

/* Is the innermost frame that of compiled code? Its file has any name: a hash, in any folder. */
static bool stack_is_compiled(const struct stack *stack)
{
	uint32_t outer = stack->frame_count;

	/* Each text is kept once. */
	while (outer && stack->frames[outer - 1].file == stack->frames[stack->frame_count - 1].file)
		outer--;
	return outer && outer < stack->frame_count && !strcmp(stack->frames[outer].function, "call") &&
	       strstr(stack->frames[outer - 1].file, "/torch/_inductor/");
}

void stack_classify(struct stack *stack)
{
	stack->in_optimizer = stack->in_backward = stack->at_backward = false;
	stack->optimizer = 0;
	for (uint32_t i = 0; i < stack->frame_count; i++) {
		if (frame_is_optimizer(&stack->frames[i])) {
			stack->in_optimizer = true;
			stack->optimizer = stack_optimizer(stack, i);
		}
		stack->at_backward = frame_is_backward(&stack->frames[i]);
		stack->in_backward |= stack->at_backward;
	}
	stack->in_compiled = stack_is_compiled(stack);
	stack->in_recompute = stack_recomputes(stack, false);
	stack->in_recompute_of_engine = stack_recomputes(stack, true);
	stack->from_program = stack->frame_count && !stack->cut && frame_is_program(&stack->frames[0]);
}

enum phase stack_phase(const struct stack *stack, uint8_t event_flags)
{
	bool whole = stack->from_program && !(event_flags & EVENT_STACK_LOST);
	bool engine = (event_flags & EVENT_BACKWARD) && !stack->in_backward && !whole;

	if (stack->in_optimizer)
		return PHASE_OPTIMIZER;
	if (engine ? stack->in_recompute_of_engine : stack->in_recompute)
		return PHASE_RECOMPUTE;
	return engine || stack->in_backward ? PHASE_BACKWARD : PHASE_FORWARD;
}

/* On a thread of the engine's own all Python is called by it. */
bool stack_is_called_by_engine(const struct stack *stack, uint8_t event_flags)
{
	if (!stack->frame_count)
		return false;
	if (stack->in_backward)
		return !stack->at_backward;
	return event_flags & EVENT_BACKWARD && !stack->from_program;
}

uint8_t stack_flags(const struct stack *stack, const struct event *event, struct thread_kind *thread, bool *runs_python)
{
	if (stack->cut || event->flags & (EVENT_STACK_LOST | EVENT_LITE))
		return event->flags;
	/* In a program without Python nothing tells the engine's threads from the one that calls it. */
	*runs_python |= stack->from_program;
	if (stack->from_program || stack->in_backward)
		thread->is_programs = true;
	else if (event->flags & EVENT_BACKWARD && *runs_python)
		thread->is_engines = true;
	return thread->is_engines && !thread->is_programs ? event->flags | EVENT_BACKWARD : event->flags;
}

bool step_follow(struct step_place *place, const struct stack *stack, uint8_t event_flags)
{
	bool another = stack->optimizer && place->optimizer && stack->optimizer != place->optimizer;
	bool complete;

	if (event_flags & EVENT_STACK_LOST)
		return false;
	complete = place->in_optimizer && (!stack->in_optimizer || another);
	place->in_optimizer = stack->in_optimizer;
	if (!stack->in_optimizer || stack->optimizer)
		place->optimizer = stack->optimizer;
	return complete;
}

/* --- stacks of a target --------------------------------------------------------- */

static const char *module_name(const void *context, uint64_t object)
{
	const struct target_state *target = context;
	ptrdiff_t at = hmgeti(((struct target_state *)target)->modules, object);

	return at >= 0 ? target->modules[at].value : NULL;
}

static uint32_t stack_append(struct target_state *target, uint64_t identity)
{
	uint32_t index = (uint32_t)arrlenu(target->stacks);
	struct stack empty = {.module = ""};

	arrput(target->stacks, empty);
	arrput(target->stack_known, false);
	hmput(target->stack_index, identity, index);
	return index;
}

/* Index of a stack; one whose frames did not come yet is empty for now. */
uint32_t stack_find(struct target_state *target, uint64_t identity)
{
	ptrdiff_t at;

	if (!identity)
		return 0;
	at = hmgeti(target->stack_index, identity);
	return at >= 0 ? target->stack_index[at].value : stack_append(target, identity);
}

void stack_clear(struct stack *stack)
{
	free(stack->frames);
	free(stack->modules);
}

static const char *stack_module_at(const struct stack *stack, size_t frame)
{
	return stack->modules ? stack->modules[frame] : NULL;
}

/* Texts are compared as pointers: the model keeps each once. */
static bool stack_equals(const struct stack *stack, const struct stack *other)
{
	if (stack->frame_count != other->frame_count || stack->cut != other->cut)
		return false;
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct frame *a = &stack->frames[i], *b = &other->frames[i];

		if (a->file != b->file || a->function != b->function || a->line != b->line || a->self != b->self ||
			stack_module_at(stack, i) != stack_module_at(other, i))
			return false;
	}
	return true;
}

static struct frame *frames_copy(struct model *model, const struct frame *frames, size_t frame_count)
{
	struct frame *copy = calloc(frame_count ? frame_count : 1, sizeof(*copy));

	for (size_t i = 0; copy && i < frame_count; i++) {
		copy[i] = frames[i];
		copy[i].file = model_text(model, frames[i].file ? frames[i].file : "");
		copy[i].function = model_text(model, frames[i].function ? frames[i].function : "");
	}
	return copy;
}

int stack_put(struct model *model, struct target_state *target, uint64_t identity, const struct frame *frames,
	size_t frame_count, bool cut)
{
	uint32_t index = stack_find(target, identity);
	struct stack stack = {.frame_count = (uint32_t)frame_count, .cut = cut};

	if (!identity || frame_count > INDEX_MAX)
		return -EINVAL;
	stack.frames = frames_copy(model, frames, frame_count);
	if (!stack.frames || stack_name(&stack, module_name, target)) {
		stack_clear(&stack);
		return -ENOMEM;
	}
	if (target->stack_known[index]) {
		if (stack_equals(&target->stacks[index], &stack)) {
			stack_clear(&stack);
			return 0;
		}
		index = stack_append(target, identity);
	}
	stack_classify(&stack);
	target->stacks[index] = stack;
	target->stack_known[index] = true;
	return 0;
}
