/* SPDX-License-Identifier: BSD-2-Clause */
/* The bounds of each kind of record; see record.h. */
#include "stream/record.h"

#include <stdint.h>
#include <string.h>

/* Smallest size of each kind; the variable part is checked below. 0: no such kind. */
static const uint32_t event_sizes[EVENT_KERNEL_KINDS] = {
	[EVENT_OPERATOR] = sizeof(struct operator_event),
	[EVENT_TENSORS] = sizeof(struct tensors_event),
	[EVENT_ALLOCATE] = sizeof(struct allocate_event),
	[EVENT_FREE] = sizeof(struct free_event),
	[EVENT_RESIZE] = sizeof(struct resize_event),
	[EVENT_GRADIENT] = sizeof(struct gradient_event),
	[EVENT_FINALIZE] = sizeof(struct event),
	[EVENT_EXEC] = sizeof(struct event),
	[EVENT_EXIT] = sizeof(struct event),
	[EVENT_THROW] = sizeof(struct event),
	[EVENT_DEVICE_ALLOCATE] = sizeof(struct device_allocate_event),
	[EVENT_DEVICE_FREE] = sizeof(struct device_free_event),
	[EVENT_DEVICE_REQUEST] = sizeof(struct device_request_event),
	[EVENT_SEGMENT] = sizeof(struct segment_event),
	[EVENT_OUT_OF_MEMORY] = sizeof(struct out_of_memory_event),
	[EVENT_LAUNCH] = sizeof(struct launch_event),
	[EVENT_COLLECTIVE] = sizeof(struct collective_event),
	[EVENT_LIBRARY_COLLECTIVE] = sizeof(struct library_collective_event),
	[EVENT_WORK] = sizeof(struct work_event),
};

/* The kinds of capture.h are numbered from CAPTURE_SESSION on. */
#define CAPTURE_INDEX(kind) ((kind)-CAPTURE_SESSION)

static const uint32_t capture_sizes[] = {
	[CAPTURE_INDEX(CAPTURE_SESSION)] = sizeof(struct text_record),
	[CAPTURE_INDEX(CAPTURE_TARGET)] = sizeof(struct text_record),
	[CAPTURE_INDEX(CAPTURE_OPERATOR)] = sizeof(struct operator_record),
	[CAPTURE_INDEX(CAPTURE_CODE)] = sizeof(struct code_record),
	[CAPTURE_INDEX(CAPTURE_LOSS)] = sizeof(struct loss_record),
	[CAPTURE_INDEX(CAPTURE_END)] = sizeof(struct text_record),
	[CAPTURE_INDEX(CAPTURE_SYMBOL)] = sizeof(struct symbol_record),
	[CAPTURE_INDEX(CAPTURE_STACK)] = sizeof(struct stack_record),
	[CAPTURE_INDEX(CAPTURE_WINDOW)] = sizeof(struct window_record),
	[CAPTURE_INDEX(CAPTURE_MODULE)] = sizeof(struct module_record),
	[CAPTURE_INDEX(CAPTURE_OWNER)] = sizeof(struct owner_record),
};

static uint32_t kind_size(uint16_t kind)
{
	if (kind < sizeof(event_sizes) / sizeof(*event_sizes))
		return event_sizes[kind];
	if (kind >= CAPTURE_SESSION && kind - CAPTURE_SESSION < (int)(sizeof(capture_sizes) / sizeof(*capture_sizes)))
		return capture_sizes[kind - CAPTURE_SESSION];
	return 0;
}

bool record_known(const struct event *record)
{
	return kind_size(record->kind) != 0;
}

static const char *lists_check(const struct event *record, size_t header, size_t tensors, size_t frames)
{
	if (tensors > EVENT_TENSORS_MAX)
		return "more tensors than a record may have";
	if (frames > EVENT_FRAMES_MAX)
		return "more frames than a record may have";
	if (header + tensors * sizeof(struct tensor_argument) + frames * sizeof(struct python_frame) > record->size)
		return "tensors or frames reach beyond their record";
	return NULL;
}

static const char *library_check(const struct library_collective_event *record)
{
	size_t splits = (size_t)record->input_splits + record->output_splits;

	if (record->input_splits > EVENT_SPLITS_MAX || record->output_splits > EVENT_SPLITS_MAX)
		return "more parts of ranks than a record may have";
	return lists_check(&record->event, sizeof(*record) + splits * sizeof(uint64_t), 0, record->frame_count);
}

static const char *text_check(const struct event *record, const char *text, uint64_t length)
{
	size_t room = record->size - (size_t)(text - (const char *)record);

	if (length > room)
		return "text reaches beyond its record";
	if (memchr(text, 0, length))
		return "text holds a NUL";
	return NULL;
}

static const char *code_check(const struct code_record *code)
{
	uint64_t strings = (uint64_t)code->file_length + code->name_length + code->qualified_length;
	const char *wrong = text_check(&code->event, code->bytes, strings);

	if (!wrong && strings + code->table_length > code->event.size - sizeof(*code))
		wrong = "location table reaches beyond its record";
	return wrong;
}

static const char *content_check(const struct event *record)
{
	switch (record->kind) {
	case EVENT_OPERATOR: {
		const struct operator_event *operator_ = (const struct operator_event *)record;

		return lists_check(record, sizeof(*operator_), operator_->tensor_count, operator_->frame_count);
	}
	case EVENT_TENSORS: {
		const struct tensors_event *tensors = (const struct tensors_event *)record;

		return lists_check(record, sizeof(*tensors), tensors->tensor_count, 0);
	}
	case EVENT_ALLOCATE: {
		const struct allocate_event *allocate = (const struct allocate_event *)record;

		return lists_check(record, sizeof(*allocate), 0, allocate->frame_count);
	}
	case EVENT_DEVICE_ALLOCATE: {
		const struct device_allocate_event *allocate = (const struct device_allocate_event *)record;

		return lists_check(record, sizeof(*allocate), 0, allocate->frame_count);
	}
	case EVENT_OUT_OF_MEMORY: {
		const struct out_of_memory_event *exhausted = (const struct out_of_memory_event *)record;

		return lists_check(record, sizeof(*exhausted), 0, exhausted->frame_count);
	}
	case CAPTURE_STACK: {
		const struct stack_record *stack = (const struct stack_record *)record;

		return lists_check(record, sizeof(*stack), 0, stack->frame_count);
	}
	case EVENT_COLLECTIVE: {
		const struct collective_event *collective = (const struct collective_event *)record;

		if (collective->input_shown > collective->tensor_count)
			return "more inputs than tensors";
		return lists_check(record,
			sizeof(*collective) +
				((size_t)collective->input_splits + collective->output_splits) * sizeof(uint64_t),
			collective->tensor_count, collective->frame_count);
	}
	case EVENT_LIBRARY_COLLECTIVE:
		return library_check((const struct library_collective_event *)record);
	case CAPTURE_SESSION:
	case CAPTURE_TARGET:
	case CAPTURE_END: {
		const struct text_record *text = (const struct text_record *)record;

		return text_check(record, text->text, text->length);
	}
	case CAPTURE_OPERATOR: {
		const struct operator_record *operator_ = (const struct operator_record *)record;

		return text_check(record, operator_->name, operator_->length);
	}
	case CAPTURE_CODE:
		return code_check((const struct code_record *)record);
	case CAPTURE_SYMBOL: {
		const struct symbol_record *symbol = (const struct symbol_record *)record;

		return text_check(record, symbol->bytes, (uint64_t)symbol->library_length + symbol->name_length);
	}
	case CAPTURE_MODULE: {
		const struct module_record *module = (const struct module_record *)record;

		return text_check(record, module->name, module->length);
	}
	case CAPTURE_OWNER: {
		const struct owner_record *owner = (const struct owner_record *)record;

		if (owner->kind >= OWNER_KINDS)
			return "unknown kind of owner";
		return text_check(record, owner->name, owner->length);
	}
	default:
		return NULL;
	}
}

const char *record_check(const struct event *record, size_t available)
{
	if (available < sizeof(*record))
		return "record header cut off";
	if (record->size < sizeof(*record) || record->size > CAPTURE_RECORD_MAX || record->size % RECORD_ALIGNMENT)
		return "illegal record size";
	if (record->size > available)
		return "record reaches beyond its chunk";
	if (record->size < kind_size(record->kind))
		return "record smaller than its kind";
	return content_check(record);
}

bool event_stack_find(const struct event *event, struct event_stack *stack)
{
	switch (event->kind) {
	case EVENT_OPERATOR: {
		const struct operator_event *operator_ = (const struct operator_event *)event;
		const struct tensor_argument *tensors = (const struct tensor_argument *)(operator_ + 1);

		*stack = (struct event_stack){operator_->stack,
			(const struct python_frame *)(tensors + operator_->tensor_count), operator_->frame_count};
		return true;
	}
	case EVENT_ALLOCATE: {
		const struct allocate_event *allocate = (const struct allocate_event *)event;

		*stack = (struct event_stack){
			allocate->stack, (const struct python_frame *)(allocate + 1), allocate->frame_count};
		return true;
	}
	case EVENT_DEVICE_ALLOCATE: {
		const struct device_allocate_event *allocate = (const struct device_allocate_event *)event;

		*stack = (struct event_stack){
			allocate->stack, (const struct python_frame *)(allocate + 1), allocate->frame_count};
		return true;
	}
	case EVENT_OUT_OF_MEMORY: {
		const struct out_of_memory_event *exhausted = (const struct out_of_memory_event *)event;

		*stack = (struct event_stack){
			exhausted->stack, (const struct python_frame *)(exhausted + 1), exhausted->frame_count};
		return true;
	}
	case CAPTURE_STACK: {
		const struct stack_record *record = (const struct stack_record *)event;

		*stack = (struct event_stack){
			record->stack, (const struct python_frame *)(record + 1), record->frame_count};
		return true;
	}
	case EVENT_COLLECTIVE: {
		const struct collective_event *collective = (const struct collective_event *)event;
		const struct tensor_argument *tensors = (const struct tensor_argument *)(collective + 1);
		const uint64_t *splits = (const uint64_t *)(tensors + collective->tensor_count);

		*stack = (struct event_stack){collective->stack,
			(const struct python_frame *)(splits + collective->input_splits + collective->output_splits),
			collective->frame_count};
		return true;
	}
	case EVENT_LIBRARY_COLLECTIVE: {
		const struct library_collective_event *library = (const struct library_collective_event *)event;
		const uint64_t *splits = (const uint64_t *)(library + 1);

		*stack = (struct event_stack){library->stack,
			(const struct python_frame *)(splits + library->input_splits + library->output_splits),
			library->frame_count};
		return true;
	}
	default:
		return false;
	}
}
