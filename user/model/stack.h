/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Python stacks say of phases, modules and steps; stack.c states the rules.
 * For the model, which knows a whole trace, and for the live accounting
 * (user/live/), which knows the moment.
 */
#ifndef HDTRACE_MODEL_STACK_H
#define HDTRACE_MODEL_STACK_H

#include "model.h"

/* Fill in what the frames say of the phase. */
void stack_classify(struct stack *stack);

/*
 * Fill in stack->module and stack->modules, which is to be freed. `name` gives the name of the module at an address,
 * NULL when none is known. 0, -ENOMEM.
 */
int stack_name(struct stack *stack, const char *(*name)(const void *context, uint64_t object), const void *context);

/* `event_flags`: as of stack_flags. */
enum phase stack_phase(const struct stack *stack, uint8_t event_flags);

/* Is it Python code that the engine of autograd called (a hook, a custom function), and not the engine itself? */
bool stack_is_called_by_engine(const struct stack *stack, uint8_t event_flags);

/* What is known of a thread: one of autograd's own, or one that Python code began. */
struct thread_kind {
	bool is_engines, is_programs;
};

/*
 * The flags of an event, and EVENT_BACKWARD where its thread is one of the engine's: callbacks at the end of a backward
 * pass run there outside of any node. `*runs_python`: was Python code ever seen in the process?
 */
uint8_t stack_flags(
	const struct stack *stack, const struct event *event, struct thread_kind *thread, bool *runs_python);

/* Where a thread is in its optimizers. */
struct step_place {
	bool in_optimizer;
	uint64_t optimizer; /* of the last stack that tells it, 0: none */
};

/* The thread runs an operator with this stack; returns whether that completes an optimizer step. */
bool step_follow(struct step_place *place, const struct stack *stack, uint8_t event_flags);

#endif
