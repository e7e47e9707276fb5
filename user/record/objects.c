// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of modules, and what Python holds storages by. Stacks show which modules
 * there are (`self` of the frames of nn.Module's call): the tree below a new one
 * is read out of the target at once. All objects of the interpreter are read when
 * a running job is attached to, when an optimizer shows up, at a new peak of memory,
 * when memory is out, now and then, and at the end.
 *
 * The capture has the name of a module before the first stack with it. Owners
 * come behind the events until the moment at which they were read: they wait for
 * the first later one, or until the ring has been emptied once more.
 */
#include "record/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"
#include "stream/record.h"
#include "target/memory.h"
#include "torch/objects.h"

/* A walk is repeated after so much time, or so many times what it took. */
#define WALK_NANOSECONDS 1000000000ull
#define WALK_SHARE 50
/* One that was not whole, or that a new peak of memory calls for, comes sooner. */
#define WALK_SOON_NANOSECONDS 50000000ull
#define WALK_SOON_SHARE 10
/* While it is read, no record is. */
#define WALK_NOW_SHARE 4
/* At a new peak the variables of what runs are looked at, which takes little. */
#define PEAK_NANOSECONDS 10000000ull
/* The last one is the only one that knows what is left. */
#define WALK_LAST_TRIES 3
/* What a target shows must not keep us for longer: what is not read by then is left out. */
#define WALK_NANOSECONDS_MAX 5000000000ull

/* What changes under a walk is looked at again after a pause. */
#define PAUSE_MICROSECONDS 500

/* A long walk empties the ring in between. */
#define RING_NANOSECONDS 20000000ull

struct known_object {
	uint64_t key;   /* address */
	uint64_t value; /* type */
};

/* A module that was there when a running job was attached to, by the tree that it is in. */
struct older_module {
	uint64_t object, type;
	char *name;
};

struct owner {
	uint64_t time_ns; /* at which it was read */
	struct tensor_argument storage;
	enum owner_kind kind;
	uint8_t element_type;
	char *name;
};

struct target_objects {
	struct known_object *modules;  /* stb_ds hash map: those that the capture has names of */
	struct known_object *steppers; /* stb_ds hash map: optimizers, and what else has a method `step` */
	struct known_object *others;   /* stb_ds hash map: what is no module although it is called like one */
	struct older_module *older;    /* stb_ds: until they are needed */
	struct python_heap heap;       /* count 0: not found */
	bool heap_missed;              /* that was told */
	struct owner *owners;          /* stb_ds: that wait */
	uint64_t walk_next_ns;         /* when the next is due */
	uint64_t walk_soon_ns;         /* when one may come that is wanted sooner */
	bool walk_wanted;              /* something new showed up */
	bool peak_new, peak_wanted;    /* more memory is held than when variables, and all objects, were read last */
	uint64_t now_next_ns;          /* when they may be read again while a record is at hand */
	uint64_t peak_next_ns;         /* when variables may be read again */
	bool walked;                   /* there was one */
	bool whole;                    /* the last one was */
	uint64_t walk_ns;              /* when that began */
};

struct walk_context {
	struct session *session;
	struct target *target;
	uint64_t time_ns;
	uint64_t read_ns; /* when memory was read last: what is found is not younger */
	uint64_t ring_ns; /* when the ring was emptied last; 0: it is being read already */
};

static bool objects_are_there(const struct target *target)
{
	return target->objects && target->announced && !target->ended;
}

static int objects_read(void *context, uint64_t address, void *buffer, size_t length)
{
	struct walk_context *walk = context;
	uint64_t now = monotonic_ns();

	if (now - walk->time_ns > WALK_NANOSECONDS_MAX)
		return -ETIME;
	if (walk->ring_ns && now - walk->ring_ns > RING_NANOSECONDS) {
		tracer_read(walk->session->tracer);
		now = walk->ring_ns = monotonic_ns();
	}
	walk->read_ns = now;
	return memory_read(walk->target->process.pid, address, buffer, length);
}

/* --- code ---------------------------------------------------------------------- */

static bool text_ends(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

enum code_role code_role_of(const struct python_code *code)
{
	if (text_ends(code->file, "/torch/nn/modules/module.py") &&
		(!strcmp(code->name, "_call_impl") || !strcmp(code->name, "_wrapped_call_impl")))
		return CODE_MODULE_CALL;
	if (!strcmp(code->name, "step"))
		return CODE_STEP;
	return CODE_PLAIN;
}

/* --- walks ---------------------------------------------------------------------- */

static void module_found(void *context, uint64_t object, uint64_t type, const char *name)
{
	struct walk_context *walk = context;
	struct target_objects *objects = walk->target->objects;
	ptrdiff_t at = hmgeti(objects->modules, object);

	if (at >= 0 && objects->modules[at].value == type)
		return;
	hmput(objects->modules, object, type);
	if (!strchr(name, '.'))
		inputs_add_root(walk->target, object, name);
	capture_check(walk->session, walk->target,
		capture_writer_module(walk->session->capture, walk->target->index, walk->time_ns, object, name));
}

static void module_remember(void *context, uint64_t object, uint64_t type, const char *name)
{
	struct walk_context *walk = context;
	struct older_module module = {object, type, strdup(name)};

	if (module.name)
		arrput(walk->target->objects->older, module);
}

static void owner_found(void *context, enum owner_kind kind, const struct tensor_argument *storage,
	uint8_t element_type, const char *name)
{
	struct walk_context *walk = context;
	struct owner owner = {
		.time_ns = walk->read_ns,
		.storage = *storage,
		.kind = kind,
		.element_type = element_type,
		.name = strdup(name),
	};

	if (owner.name)
		arrput(walk->target->objects->owners, owner);
}

static int walk_begin(struct walk_context *context, struct python_memory *memory, struct objects_visitor *visitor,
	struct objects_walk **walk)
{
	const struct library_plan *python = context->target->libraries[LIBRARY_PYTHON];
	const struct library_plan *torch = context->target->libraries[LIBRARY_TORCH_CPU];

	if (!python || !python->python || !torch || !torch->torch)
		return -ENOTSUP;
	*memory = (struct python_memory){
		.layout = python->python,
		.types = context->target->types,
		.read = objects_read,
		.context = context,
		.pause_microseconds = PAUSE_MICROSECONDS,
	};
	*visitor = (struct objects_visitor){context, module_found, owner_found};
	*walk = objects_walk_new(memory, torch->torch, visitor);
	return *walk ? 0 : -ENOMEM;
}

static uint64_t python_runtime(const struct target *target)
{
	return target->bias[LIBRARY_PYTHON] + target->libraries[LIBRARY_PYTHON]->python_runtime;
}

static bool heap_find(struct session *session, struct target *target, const struct python_memory *memory)
{
	struct target_objects *objects = target->objects;

	if (!objects->heap.count && python_heap_find(memory, python_runtime(target), &objects->heap) &&
		!objects->heap_missed) {
		objects->heap_missed = true;
		session_tell(session,
			"pid %d: the lists of Python's garbage collector are not found; only what modules hold that "
			"are called is known",
			target->process.pid);
	}
	return objects->heap.count;
}

/* Times are of CLOCK_MONOTONIC. */
static void walk_tell(
	const struct session *session, const struct target *target, uint64_t began_ns, uint64_t took, int error)
{
	const struct python_heap *heap = &target->objects->heap;

	session_tell(session,
		"pid %d: at %.3f s: %td owners of storages read in %.1f ms%s (lists of %" PRIu64 ", %" PRIu64
		", %" PRIu64 ", %" PRIu64 " objects, %u retries)",
		target->process.pid, (double)began_ns / 1e9, arrlen(target->objects->owners), (double)took / 1e6,
		error ? ", not all" : "", heap->objects[0], heap->objects[1], heap->objects[2], heap->objects[3],
		heap->retries);
}

/* When the next is due: a long walk makes a long pause. */
static void walk_plan(struct target_objects *objects, uint64_t began_ns, uint64_t took)
{
	uint64_t soon = took * WALK_SOON_SHARE, next = took * WALK_SHARE;

	objects->walk_wanted = objects->peak_wanted = false;
	objects->walk_soon_ns = began_ns + (soon > WALK_SOON_NANOSECONDS ? soon : WALK_SOON_NANOSECONDS);
	objects->walk_next_ns = began_ns + (next > WALK_NANOSECONDS ? next : WALK_NANOSECONDS);
	if (!objects->whole && objects->heap.count)
		objects->walk_next_ns = objects->walk_soon_ns;
}

static void heap_walk(struct session *session, struct target *target, bool in_ring)
{
	struct target_objects *objects = target->objects;
	struct walk_context context = {.session = session, .target = target, .time_ns = monotonic_ns()};
	struct objects_visitor visitor;
	struct python_memory memory;
	struct objects_walk *walk;
	uint64_t took;
	int error;

	context.ring_ns = in_ring ? 0 : context.time_ns;

	if (!objects_are_there(target) || walk_begin(&context, &memory, &visitor, &walk))
		return;
	/* Names of modules begin at those that are called, not at those that hold them, unless nobody saw the call. */
	visitor.module = target->from_start || objects->walked ? NULL : module_remember;
	/* What could not be read then may be readable now. */
	hmfree(objects->others);
	error = heap_find(session, target, &memory) ? objects_walk_heap(walk, &objects->heap, python_runtime(target))
	                                            : -ENOENT;
	objects_walk_free(walk);
	took = monotonic_ns() - context.time_ns;
	objects->walked = true;
	objects->whole = !error;
	objects->walk_ns = context.time_ns;
	walk_plan(objects, context.time_ns, took);
	if (session->options->verbose)
		walk_tell(session, target, context.time_ns, took, error);
}

/* Those variables alone that functions which run have now: they may be gone in a moment. */
static void program_walk(struct session *session, struct target *target, bool in_ring)
{
	struct target_objects *objects = target->objects;
	struct walk_context context = {.session = session, .target = target, .time_ns = monotonic_ns()};
	ptrdiff_t before = objects_are_there(target) ? arrlen(objects->owners) : 0;
	struct objects_visitor visitor;
	struct python_memory memory;
	struct objects_walk *walk;
	uint64_t took;

	context.ring_ns = in_ring ? 0 : context.time_ns;
	if (!objects_are_there(target) || walk_begin(&context, &memory, &visitor, &walk))
		return;
	objects_walk_program(walk, python_runtime(target));
	objects_walk_free(walk);
	took = monotonic_ns() - context.time_ns;
	objects->peak_new = false;
	objects->peak_next_ns = context.time_ns + took * WALK_SOON_SHARE + PEAK_NANOSECONDS;
	if (session->options->verbose)
		session_tell(session, "pid %d: %td storages held by variables read in %.1f ms", target->process.pid,
			arrlen(objects->owners) - before, (double)took / 1e6);
}

/* One that was not whole is repeated; what it found counts all the same. */
static void heap_walk_last(struct session *session, struct target *target, bool in_ring)
{
	for (int tries = 0; objects_are_there(target) && tries < WALK_LAST_TRIES; tries++) {
		heap_walk(session, target, in_ring);
		if (target->objects->whole || !target->objects->heap.count)
			break;
	}
}

void objects_walk_last(struct session *session, struct target *target)
{
	heap_walk_last(session, target, false);
}

void objects_walk_end(struct session *session, struct target *target)
{
	heap_walk_last(session, target, true);
	owners_keep(session, target, UINT64_MAX);
}

void objects_walk_now(struct session *session, struct target *target)
{
	uint64_t began = monotonic_ns();

	/* A job that goes on trying must not keep us from the ring. */
	if (!objects_are_there(target) || began < target->objects->now_next_ns)
		return;
	program_walk(session, target, true);
	heap_walk(session, target, true);
	target->objects->now_next_ns = monotonic_ns() + (monotonic_ns() - began) * WALK_NOW_SHARE;
}

void objects_want_peak(struct target *target)
{
	if (target->objects)
		target->objects->peak_new = target->objects->peak_wanted = true;
}

void objects_want(struct target *target)
{
	if (target->objects)
		target->objects->walk_wanted = true;
}

uint64_t objects_told_ns(const struct target *target)
{
	const struct target_objects *objects = target->objects;

	return objects && objects->whole && !arrlen(objects->owners) ? objects->walk_ns : 0;
}

int objects_whole(const struct target *target)
{
	return target->objects && target->objects->walked ? target->objects->whole : -1;
}

/* --- stacks ---------------------------------------------------------------------- */

static uint64_t type_now(const struct target *target, uint64_t object)
{
	uint64_t type = 0;

	if (!object || memory_read(target->process.pid, object + sizeof(uint64_t), &type, sizeof(type)))
		return 0;
	return type;
}

/* By reference: a lookup makes an empty map first. */
static bool object_is_known(struct known_object **objects, uint64_t object, uint64_t type)
{
	ptrdiff_t at = hmgeti(*objects, object);

	return at >= 0 && (*objects)[at].value == type;
}

static bool is_in_tree(const char *name, const char *root)
{
	size_t length = strcspn(root, ".");

	return !strncmp(name, root, length) && (!name[length] || name[length] == '.');
}

static const struct older_module *older_find(const struct target_objects *objects, uint64_t object, uint64_t type)
{
	for (ptrdiff_t i = 0; i < arrlen(objects->older); i++)
		if (objects->older[i].object == object && objects->older[i].type == type)
			return &objects->older[i];
	return NULL;
}

/*
 * What is called first after an attach may be called by a backward pass (a checkpoint) whose forward pass nobody saw:
 * then its name begins where that of its parameters does, as it will when the model is called again.
 */
static bool module_is_older(struct walk_context *context, uint64_t object, uint64_t type)
{
	struct target_objects *objects = context->target->objects;
	const struct older_module *module = older_find(objects, object, type);

	for (ptrdiff_t i = 0; module && i < arrlen(objects->older); i++)
		if (is_in_tree(objects->older[i].name, module->name))
			module_found(context, objects->older[i].object, objects->older[i].type, objects->older[i].name);
	return module;
}

/*
 * A module was called. One whose name is not known is the root of a walk of its own. `backward`: the engine of
 * autograd is below its call.
 */
static void module_meet(struct session *session, struct target *target, uint64_t object, bool backward)
{
	struct target_objects *objects = target->objects;
	struct walk_context context = {.session = session, .target = target, .time_ns = monotonic_ns()};
	uint64_t type = type_now(target, object);
	struct objects_visitor visitor;
	struct python_memory memory;
	struct objects_walk *walk;

	if (!type || object_is_known(&objects->modules, object, type) ||
		object_is_known(&objects->others, object, type) ||
		(backward && module_is_older(&context, object, type)) || walk_begin(&context, &memory, &visitor, &walk))
		return;
	if (objects_walk_modules(walk, object))
		hmput(objects->others, object, type);
	objects_walk_free(walk);
}

static void optimizer_meet(struct target *target, uint64_t object)
{
	struct target_objects *objects = target->objects;
	uint64_t type = type_now(target, object);

	if (!type || object_is_known(&objects->steppers, object, type))
		return;
	hmput(objects->steppers, object, type);
	objects->walk_wanted = true;
}

/* From now on owners are told; where a running job is attached to, all that are there already. */
static bool objects_begin(struct session *session, struct target *target)
{
	static const struct tensor_argument none;

	if (target->objects)
		return true;
	if (!target->announced || target->ended || !target->settings.python_thread_slot ||
		(session->options->level != LEVEL_FULL && !session->options->owners))
		return false;
	target->objects = calloc(1, sizeof(*target->objects));
	if (!target->objects)
		return false;
	target->objects->walk_wanted = !target->from_start;
	target->objects->walk_next_ns = monotonic_ns() + WALK_NANOSECONDS;
	capture_check(session, target,
		capture_writer_owner(session->capture, target->index, monotonic_ns(), OWNER_NONE, &none, 0, ""));
	return true;
}

void objects_meet(struct session *session, struct target *target, const struct event *record)
{
	struct event_stack stack;

	if (!event_stack_find(record, &stack) || !objects_begin(session, target))
		return;
	/* The outermost one first: its class is the head of all names below it. */
	for (size_t index = stack.frame_count; index-- > 0;) {
		const struct python_frame *frame = &stack.frames[index];
		ptrdiff_t at = hmgeti(target->codes, frame->code);

		if (at < 0 || target->codes[at].value == CODE_PLAIN)
			continue;
		if (target->codes[at].value == CODE_MODULE_CALL)
			module_meet(session, target, frame->self, record->flags & EVENT_BACKWARD);
		else
			optimizer_meet(target, frame->self);
	}
	inputs_look(target, monotonic_ns());
}

/* --- owners ------------------------------------------------------------------------ */

void owners_keep(struct session *session, struct target *target, uint64_t time_ns)
{
	struct target_objects *objects = target->objects;
	ptrdiff_t left = 0;

	/* They are read one after the other: the first is the oldest. */
	if (!objects_are_there(target) || !arrlen(objects->owners) || objects->owners[0].time_ns >= time_ns)
		return;
	for (ptrdiff_t i = 0; i < arrlen(objects->owners); i++) {
		struct owner *owner = &objects->owners[i];

		if (owner->time_ns >= time_ns) {
			objects->owners[left++] = *owner;
			continue;
		}
		capture_check(session, target,
			capture_writer_owner(session->capture, target->index, owner->time_ns, owner->kind,
				&owner->storage, owner->element_type, owner->name));
		free(owner->name);
	}
	if (objects->owners)
		arrsetlen(objects->owners, left);
}

void objects_follow(struct session *session, struct target *target)
{
	const struct target_objects *objects;
	uint64_t now = monotonic_ns();

	/* Without stacks nothing else tells that there is something to read. */
	if (!target->from_start || session->options->level != LEVEL_FULL)
		objects_begin(session, target);
	objects = target->objects;
	inputs_look(target, now);
	if (objects_are_there(target) && objects->peak_new && now >= objects->peak_next_ns)
		program_walk(session, target, false);
	if (objects_are_there(target) && (objects->walk_wanted || now >= objects->walk_next_ns ||
						 (objects->peak_wanted && now >= objects->walk_soon_ns)))
		heap_walk(session, target, false);
}

void objects_forget(struct target *target)
{
	struct target_objects *objects = target->objects;

	if (!objects)
		return;
	for (ptrdiff_t i = 0; i < arrlen(objects->owners); i++)
		free(objects->owners[i].name);
	arrfree(objects->owners);
	for (ptrdiff_t i = 0; i < arrlen(objects->older); i++)
		free(objects->older[i].name);
	arrfree(objects->older);
	hmfree(objects->modules);
	hmfree(objects->steppers);
	hmfree(objects->others);
	free(objects);
	target->objects = NULL;
}
