// SPDX-License-Identifier: BSD-2-Clause
/*
 * What is alive; see alive.h. This follows the rules of the model for lifetimes
 * (user/model/memory.c, operator.c) without its history: an operator is forgotten
 * when its frame has ended and nothing that it made is left, so memory is used for
 * what is alive only.
 */
#include "window/alive.h"

#include <errno.h>
#include <stdlib.h>

#include "replay/target_json.h"
#include "stream/record.h"

/* --- definitions of stacks --------------------------------------------------------- */

static struct definition *definition_keep(struct definition *definition)
{
	if (definition)
		definition->references++;
	return definition;
}

static void definition_drop(struct definition *definition)
{
	if (!definition || --definition->references)
		return;
	arrfree(definition->meanings);
	free(definition);
}

static struct definition *definition_new(
	struct alive *alive, const struct event *record, const struct event_stack *stack)
{
	struct definition *definition = calloc(1, sizeof(*definition));

	if (!definition)
		return NULL;
	definition->references = 1;
	definition->identity = stack->identity;
	definition->record = alive->records;
	for (size_t i = 0; i < stack->frame_count; i++) {
		ptrdiff_t code = hmgeti(alive->codes, number_key(record->target, stack->frames[i].code));
		ptrdiff_t module = hmgeti(alive->modules, number_key(record->target, stack->frames[i].self));

		if (code >= 0)
			arrput(definition->meanings, alive->codes[code].value);
		if (module >= 0)
			arrput(definition->meanings, alive->modules[module].value);
	}
	return definition;
}

/* The stack that a record tells or refers to; the strand keeps it. NULL: none that is known. */
static int stack_take(
	struct alive *alive, struct strand *strand, const struct event *record, struct definition **definition)
{
	struct event_stack stack;
	struct definition **slot;

	*definition = NULL;
	if (!event_stack_find(record, &stack) || !stack.identity)
		return 0;
	slot = &strand->slots[(stack.identity >> 32) % STACK_SLOTS];
	if (stack.frame_count) {
		struct definition *fresh = definition_new(alive, record, &stack);

		if (!fresh)
			return -ENOMEM;
		definition_drop(*slot);
		*slot = fresh;
	}
	if (*slot && (*slot)->identity == stack.identity)
		*definition = *slot;
	return 0;
}

/* --- operators ------------------------------------------------------------------------ */

static struct operation *operation_keep(struct operation *operation)
{
	if (operation)
		operation->references++;
	return operation;
}

static void operation_drop(struct operation *operation)
{
	while (operation && !--operation->references) {
		struct operation *around = operation->around;

		definition_drop(operation->stack);
		free(operation);
		operation = around;
	}
}

static struct strand *strand_find(struct alive *alive, const struct event *record)
{
	struct number_key key = number_key(record->target, record->thread_id);
	ptrdiff_t at = hmgeti(alive->strands, key);
	struct strand *strand;

	if (at >= 0)
		return alive->strands[at].value;
	strand = calloc(1, sizeof(*strand));
	if (strand)
		hmput(alive->strands, key, strand);
	return strand;
}

/* Frames at `depth` and above have ended. */
static void strand_trim(struct strand *strand, uint8_t depth)
{
	while (arrlenu(strand->frames) > depth)
		operation_drop(arrpop(strand->frames));
}

static struct operation *strand_innermost(const struct strand *strand)
{
	return arrlenu(strand->frames) ? arrlast(strand->frames) : NULL;
}

/* As the model's frame_containing and frame_of_call decide it. */
static bool operation_is_nested(const struct operation *operation, bool unguarded)
{
	bool called = false, inside = false;

	for (const struct operation *around = operation->around; around; around = around->around) {
		if (around->hook != HOOK_CALL)
			return true;
		inside = true;
		called |= around->operator_ == operation->operator_;
	}
	return inside && !unguarded && operation->hook != HOOK_BOXED && !(operation->hook != HOOK_CALL && called);
}

static struct operation *operation_new(
	struct alive *alive, const struct strand *strand, const struct operator_event *event)
{
	struct operation *operation = calloc(1, sizeof(*operation));
	bool unguarded = event->event.flags & EVENT_UNGUARDED;
	uint64_t *inside;

	if (!operation)
		return NULL;
	operation->references = 1;
	operation->record = alive->records;
	operation->operator_ = event->event.operator_;
	operation->hook = event->hook < OPERATOR_HOOKS ? event->hook : HOOK_REDISPATCH;
	operation->around = operation_keep(strand_innermost(strand));
	operation->nested = operation_is_nested(operation, unguarded);
	if (operation->around) {
		inside = &operation->around->inside[operation->hook * 2 + unguarded];
		if (!*inside)
			*inside = operation->record;
	}
	return operation;
}

static uint32_t operator_flags(struct alive *alive, uint16_t target, const struct operation *operation)
{
	return hmget(alive->flags, number_key(target, operation->operator_));
}

static void storage_note_use(struct alive *alive, uint16_t target, const struct tensor_argument *argument,
	struct operation *operation, bool lift);

static void uses_note(struct alive *alive, const struct event *record, const struct tensor_argument *tensors,
	size_t count, struct operation *operation)
{
	bool lift;

	if (!operation || operation->nested)
		return;
	lift = operator_flags(alive, record->target, operation) & OPERATOR_LIFT;
	for (size_t i = 0; i < count; i++)
		storage_note_use(alive, record->target, &tensors[i], operation, lift);
}

static void throw_take(struct alive *alive, const struct strand *strand)
{
	for (size_t i = 0; i < arrlenu(strand->frames); i++)
		if (strand->frames[i])
			strand->frames[i]->threw = alive->records;
}

/* --- storages ---------------------------------------------------------------------------- */

/* What is known of an address stays: where a block died, one that was not seen being made is none of the allocator's.
 */
static void storage_end(struct storage *storage)
{
	operation_drop(storage->maker);
	operation_drop(storage->lift);
	operation_drop(storage->stored[0]);
	operation_drop(storage->stored[1]);
	definition_drop(storage->stack);
	*storage = (struct storage){0};
}

static struct storage *storage_find(struct alive *alive, struct storage_key key)
{
	ptrdiff_t at = hmgeti(alive->storages, key);

	return at >= 0 ? &alive->storages[at].value : NULL;
}

static struct storage *storage_make(struct alive *alive, struct storage_key key)
{
	struct storage *storage = storage_find(alive, key);

	if (!storage) {
		hmput(alive->storages, key, (struct storage){0});
		storage = storage_find(alive, key);
	}
	return storage;
}

/* The storage at an argument, which may be older than the capture; NULL: nothing is known of it. */
static struct storage *storage_of_argument(struct alive *alive, uint16_t target, const struct tensor_argument *argument)
{
	struct storage_key key = storage_key(target, argument->device_type, argument->device_index, argument->data);
	struct storage *storage;

	if (!argument->data || !argument->bytes)
		return NULL;
	storage = storage_find(alive, key);
	if (storage)
		return storage->birth ? storage : NULL;
	if (hmget(alive->targets, target).from_start)
		return NULL;
	storage = storage_make(alive, key);
	storage->birth = alive->records;
	storage->birth_time_ns = 0; /* older than the trace */
	storage->used = true;
	return storage;
}

static void storage_note_use(struct alive *alive, uint16_t target, const struct tensor_argument *argument,
	struct operation *operation, bool lift)
{
	struct storage *storage = storage_of_argument(alive, target, argument);

	if (!storage)
		return;
	if (storage->birth == alive->records && !storage->maker)
		storage->maker = operation_keep(operation);
	else if (!storage->used && lift)
		storage->lift = operation_keep(operation);
	storage->used = true;
}

static int storage_begin(struct alive *alive, struct strand *strand, const struct event *event,
	const struct storage_key *key, uint64_t bytes)
{
	struct definition *stack;
	struct storage *storage;
	int error = stack_take(alive, strand, event, &stack);

	if (error || !key->address || !bytes)
		return error;
	storage = storage_make(alive, *key);
	storage_end(storage);
	*storage = (struct storage){
		.birth = alive->records,
		.birth_time_ns = event->time_ns,
		.bytes = bytes,
		.maker = operation_keep(strand_innermost(strand)),
		.stack = definition_keep(stack),
		.resize = strand->resize,
	};
	strand->resize = 0;
	for (size_t i = 0; i < arrlenu(strand->frames); i++)
		if (strand->frames[i])
			strand->frames[i]->threw = 0;
	return 0;
}

static void range_end(struct strand *strand)
{
	struct open_range range;

	if (!arrlenu(strand->ranges))
		return;
	range = arrpop(strand->ranges);
	storage_end(&range.storage);
}

static bool strand_is_in(const struct strand *strand, const struct operation *operation)
{
	for (size_t i = 0; i < arrlenu(strand->frames); i++)
		if (operation && strand->frames[i] == operation)
			return true;
	return false;
}

static void storage_free(struct alive *alive, struct strand *strand, struct storage_key key)
{
	struct storage *storage = storage_find(alive, key);
	struct open_range range = {.free = alive->records};

	if (!storage || !storage->birth)
		return;
	if (!strand_is_in(strand, storage->maker) ||
		!(operator_flags(alive, key.target, storage->maker) & OPERATOR_RANGE_BEGIN)) {
		storage_end(storage);
		return;
	}
	range.storage = *storage;
	*storage = (struct storage){0};
	arrput(strand->ranges, range);
}

static void gradient_take(struct alive *alive, struct strand *strand, const struct gradient_event *event)
{
	const struct tensor_argument *arguments[2] = {&event->variable, &event->gradient};

	strand->gradient = alive->records;
	for (int i = 0; i < 2; i++) {
		struct storage *storage = storage_of_argument(alive, event->event.target, arguments[i]);

		strand->gradient_of[i] = storage_key(
			event->event.target, arguments[i]->device_type, arguments[i]->device_index, arguments[i]->data);
		if (!storage)
			continue;
		*(i ? &storage->gradient : &storage->variable) = alive->records;
		operation_drop(storage->stored[i]);
		storage->stored[i] = NULL;
	}
}

/* What comes next may be the copy or the sum that is stored. */
static void gradient_follow(struct alive *alive, struct strand *strand, struct operation *operation)
{
	for (int i = 0; strand->gradient && i < 2; i++) {
		struct storage *storage = storage_find(alive, strand->gradient_of[i]);

		if (storage && storage->birth && (i ? storage->gradient : storage->variable) == strand->gradient)
			storage->stored[i] = operation_keep(operation);
	}
	strand->gradient = 0;
}

static int operator_take(struct alive *alive, struct strand *strand, const struct operator_event *event)
{
	struct operation *operation;
	struct definition *stack;
	int error;

	strand->resize = 0; /* its memory would have come first */
	while (arrlenu(strand->frames) < event->event.depth)
		arrput(strand->frames, NULL);
	operation = operation_new(alive, strand, event);
	error = operation ? stack_take(alive, strand, &event->event, &stack) : -ENOMEM;
	if (error) {
		operation_drop(operation);
		return error;
	}
	operation->stack = definition_keep(stack);
	arrput(strand->frames, operation);
	operation_drop(strand->last);
	strand->last = operation_keep(operation);
	uses_note(alive, &event->event, (const struct tensor_argument *)(event + 1), event->tensor_count, operation);
	if (!operation->nested)
		gradient_follow(alive, strand, operation);
	if (operator_flags(alive, event->event.target, operation) & OPERATOR_RANGE_END)
		range_end(strand);
	return 0;
}

/* --- devices ------------------------------------------------------------------------------- */

static struct device *device_find(struct alive *alive, const struct storage_key *key)
{
	struct device_key device = {key->target, key->device_type, key->device_index};

	if (hmgeti(alive->devices, device) < 0)
		hmput(alive->devices, device, (struct device){0});
	return &hmgetp(alive->devices, device)->value;
}

static int device_allocate_take(struct alive *alive, struct strand *strand, const struct device_allocate_event *event)
{
	struct storage_key key =
		storage_key(event->event.target, event->device_type, event->device_index, event->address);
	struct device *device;

	if (event->device_type == DEVICE_CPU)
		return 0;
	device = device_find(alive, &key);
	segments_confirm(alive, strand, event->event.target, event->address,
		event->reserved > device->reserved ? event->reserved - device->reserved : 0);
	device->allocated = event->allocated;
	device->reserved = event->reserved;
	strand->last_block = key;
	return storage_begin(alive, strand, &event->event, &key, event->bytes);
}

static void device_free_take(struct alive *alive, struct strand *strand, const struct device_free_event *event)
{
	struct storage_key key =
		storage_key(event->event.target, event->device_type, event->device_index, event->address);
	struct device *device;

	if (event->device_type == DEVICE_CPU || !event->address || !event->bytes)
		return;
	device = device_find(alive, &key);
	device->allocated = event->allocated;
	device->reserved = event->reserved;
	storage_make(alive, key); /* it is known that a block died here */
	storage_free(alive, strand, key);
}

static void device_request_take(struct alive *alive, struct strand *strand, const struct device_request_event *event)
{
	struct storage *storage = storage_find(alive, strand->last_block);

	if (storage && storage->birth && strand->last_block.address == event->address)
		storage->request = alive->records;
	strand->last_block = (struct storage_key){0};
}

/* --- records ----------------------------------------------------------------------------------- */

static int event_take(struct alive *alive, const struct event *event)
{
	struct target *target = &hmgetp(alive->targets, event->target)->value;
	struct strand *strand = strand_find(alive, event);
	struct definition *definition;
	struct storage_key key;

	if (!strand)
		return -ENOMEM;
	if (target->ended)
		return 0;
	if (event->kind != EVENT_TENSORS && event->kind != EVENT_DEVICE_REQUEST)
		strand_trim(strand, event->depth);
	alive->last_time_ns = event->time_ns;
	switch (event->kind) {
	case EVENT_OPERATOR:
		target->active = true;
		return operator_take(alive, strand, (const void *)event);
	case EVENT_TENSORS:
		uses_note(alive, event, (const void *)((const struct tensors_event *)event + 1),
			((const struct tensors_event *)event)->tensor_count, strand->last);
		return 0;
	case EVENT_ALLOCATE:
		target->active = true;
		key = storage_key(event->target, DEVICE_CPU, 0, ((const struct allocate_event *)event)->address);
		return storage_begin(alive, strand, event, &key, ((const struct allocate_event *)event)->bytes);
	case EVENT_FREE:
		storage_free(alive, strand,
			storage_key(event->target, DEVICE_CPU, 0, ((const struct free_event *)event)->address));
		return 0;
	case EVENT_DEVICE_ALLOCATE:
		target->active = true;
		return device_allocate_take(alive, strand, (const void *)event);
	case EVENT_DEVICE_FREE:
		device_free_take(alive, strand, (const void *)event);
		return 0;
	case EVENT_DEVICE_REQUEST:
		device_request_take(alive, strand, (const void *)event);
		return 0;
	case EVENT_RESIZE:
		strand->resize = alive->records;
		return 0;
	case EVENT_GRADIENT:
		gradient_take(alive, strand, (const void *)event);
		return 0;
	case EVENT_THROW:
		throw_take(alive, strand);
		return 0;
	case EVENT_SEGMENT:
		segments_take(alive, strand, (const void *)event);
		return 0;
	case EVENT_EXEC:
		target->ended = target->active;
		arrput(alive->always, alive->records);
		return 0;
	case EVENT_FINALIZE:
	case EVENT_EXIT:
		target->ended = true;
		arrput(alive->always, alive->records);
		return 0;
	default:
		/* Others may tell a stack. */
		return stack_take(alive, strand, event, &definition);
	}
}

/* As the model's memory_owner: the closest owner counts, of equal ones, and of variables and nodes, the last. */
static void owner_take(struct alive *alive, const struct owner_record *record)
{
	struct storage *storage;

	if (record->kind == OWNER_NONE) {
		hmgetp(alive->targets, record->event.target)->value.owners = alive->records;
		return;
	}
	storage = storage_of_argument(alive, record->event.target, &record->storage);
	if (!storage || storage->birth_time_ns > record->event.time_ns ||
		(storage->bytes && record->storage.bytes > storage->bytes) ||
		(storage->holder &&
			(!record->length || (storage->holder < record->kind && storage->holder != OWNER_VARIABLE))))
		return;
	storage->owner = alive->records;
	storage->holder = record->kind;
}

static int target_take(struct alive *alive, const struct text_record *record)
{
	struct target *target = &hmgetp(alive->targets, record->event.target)->value;
	struct target_facts facts;
	int error = target_json_read(record->text, record->length, &facts);

	if (!target->first)
		target->first = alive->records;
	target->last = alive->records;
	target->from_start = facts.from_start;
	return error == -ENOMEM ? error : 0;
}

/* An index keeps its name, however often it is told. */
static void name_take(struct alive *alive, const struct operator_record *record)
{
	struct number_key key = number_key(record->event.target, record->event.operator_);

	if (hmgeti(alive->names, key) < 0)
		hmput(alive->names, key, alive->records);
	hmput(alive->flags, key, record->flags);
}

static void symbol_take(struct alive *alive, const struct symbol_record *record)
{
	struct number_key key = number_key(record->event.target, record->address);

	if (hmgeti(alive->symbols, key) < 0)
		hmput(alive->symbols, key, alive->records);
}

static int stack_record_take(struct alive *alive, const struct event *record)
{
	struct strand *strand = strand_find(alive, record);
	struct definition *definition;

	return strand ? stack_take(alive, strand, record, &definition) : -ENOMEM;
}

int alive_take(struct alive *alive, const struct event *record)
{
	struct target *target;

	alive->records++;
	alive->bytes += record->size;
	if (record->kind == CAPTURE_SESSION) {
		alive->session = alive->records;
		return 0;
	}
	if (record->kind == CAPTURE_WINDOW) {
		alive->dropped = *(const struct window_record *)record;
		return 0;
	}
	if (hmgeti(alive->targets, record->target) < 0) {
		/* The model looks at nothing of a target before it is announced. */
		if (record->kind != CAPTURE_TARGET)
			return 0;
		hmput(alive->targets, record->target, (struct target){0});
	}
	target = &hmgetp(alive->targets, record->target)->value;
	switch (record->kind) {
	case CAPTURE_TARGET:
		return target_take(alive, (const void *)record);
	case CAPTURE_OPERATOR:
		name_take(alive, (const void *)record);
		return 0;
	case CAPTURE_CODE:
		hmput(alive->codes, number_key(record->target, ((const struct code_record *)record)->code),
			alive->records);
		return 0;
	case CAPTURE_MODULE:
		hmput(alive->modules, number_key(record->target, ((const struct module_record *)record)->object),
			alive->records);
		return 0;
	case CAPTURE_OWNER:
		owner_take(alive, (const void *)record);
		return 0;
	case CAPTURE_SYMBOL:
		symbol_take(alive, (const void *)record);
		return 0;
	case CAPTURE_STACK:
		return stack_record_take(alive, record);
	case CAPTURE_LOSS:
		target->loss = alive->records;
		return 0;
	case CAPTURE_END:
		target->ended = true;
		arrput(alive->always, alive->records);
		return 0;
	default:
		return record->kind < EVENT_KERNEL_KINDS ? event_take(alive, record) : 0;
	}
}

bool alive_has(struct alive *alive, uint16_t target, const struct tensor_argument *argument, uint64_t record)
{
	const struct storage *storage =
		storage_find(alive, storage_key(target, argument->device_type, argument->device_index, argument->data));

	return storage && storage->birth && storage->birth <= record;
}

/* --- the end --------------------------------------------------------------------------------------- */

static void strand_free(struct strand *strand)
{
	strand_trim(strand, 0);
	arrfree(strand->frames);
	operation_drop(strand->last);
	while (arrlenu(strand->ranges))
		range_end(strand);
	arrfree(strand->ranges);
	for (size_t i = 0; i < STACK_SLOTS; i++)
		definition_drop(strand->slots[i]);
	free(strand);
}

void alive_clear(struct alive *alive)
{
	for (ptrdiff_t i = 0; i < hmlen(alive->storages); i++)
		storage_end(&alive->storages[i].value);
	for (ptrdiff_t i = 0; i < hmlen(alive->strands); i++)
		strand_free(alive->strands[i].value);
	hmfree(alive->storages);
	hmfree(alive->segments);
	hmfree(alive->strands);
	hmfree(alive->codes);
	hmfree(alive->modules);
	hmfree(alive->symbols);
	hmfree(alive->names);
	hmfree(alive->flags);
	hmfree(alive->devices);
	hmfree(alive->targets);
	arrfree(alive->always);
}
