/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ways of tensors.h. Sources of the layouts: torch/csrc/autograd/python_variable.h
 * (THPVariable), torch/csrc/autograd/variable.h (AutogradMeta), c10/core/TensorImpl.h,
 * StorageImpl.h, c10/util/intrusive_ptr.h.
 *
 * A tensor may die at any moment, and its memory keeps what stood there until
 * somebody else writes to it. So a storage is read twice; its reference count
 * must be one of something alive; and afterwards the object must be alive, lead
 * to the tensor, and the tensor back to the object.
 */
#include "torch/tensors.h"

#include <string.h>

/* PyObject, then MaybeOwned<Tensor> (a flag and a pointer), or in later versions the pointer alone. */
#define VARIABLE_FIRST 16
#define VARIABLE_SECOND 24
#define VARIABLE_FLAG_MAX 1
/* AutogradMeta: a table, a std::string, then the gradient. */
#define AUTOGRAD_GRADIENT 40
/* intrusive_ptr_target: a table, then the count. */
#define TARGET_COUNT 8
#define COUNT_MAX (1u << 30)
/* TensorImpl has its Python object within so many words; the lowest bit may be a flag. */
#define OBJECT_WORDS 16
#define OBJECT_FLAG 1ull

/* TensorImpl: the number of elements, then their type. */
#define TYPE_BEHIND_COUNT 8
#define ELEMENT_TYPES_MAX 64

/*
 * In front of that number: SizesAndStrides (how many, then the first sizes and strides in
 * place, or a pointer to all of them), and where the tensor begins in its storage.
 */
#define SIZES_BEFORE_COUNT 96
#define SIZES_IN_PLACE 5

/* DataPtr: pointer, context, deleter, device; then the bytes of the storage. */
#define DATA_DEVICE 3
#define DATA_WORDS_MAX 8
/* A storage is read until it says the same twice. */
#define STORAGE_TRIES 3

/* c10::DeviceType has fewer; more of one kind no machine has. -1: no index. */
#define DEVICE_TYPE_MAX 32
#define DEVICE_INDEX_MAX 128
#define DEVICE_INDEX_NONE 255

struct tensor_place tensor_of_object(const struct python_memory *memory, uint64_t object)
{
	struct tensor_place place = {.slot = object + VARIABLE_FIRST, .object = object};

	place.tensor = python_pointer(memory, place.slot);
	if (place.tensor <= VARIABLE_FLAG_MAX) {
		place.slot = object + VARIABLE_SECOND;
		place.tensor = python_pointer(memory, place.slot);
	}
	return place;
}

struct tensor_place tensor_of_gradient(
	const struct python_memory *memory, const struct torch_layout *torch, const struct tensor_place *place)
{
	uint64_t meta = python_pointer(memory, place->tensor + torch->tensor_storage + sizeof(uint64_t));
	struct tensor_place gradient = {.slot = meta + AUTOGRAD_GRADIENT};

	if (meta)
		gradient.tensor = python_pointer(memory, gradient.slot);
	return gradient;
}

/* Is what is counted at an address alive? */
static bool target_is_alive(const struct python_memory *memory, uint64_t target)
{
	uint32_t count;

	return !python_memory_read(memory, target + TARGET_COUNT, &count, sizeof(count)) && count && count < COUNT_MAX;
}

static bool tensor_has_object(const struct python_memory *memory, uint64_t tensor, uint64_t object)
{
	uint64_t words[OBJECT_WORDS];

	if (python_memory_read(memory, tensor, words, sizeof(words)))
		return false;
	for (size_t i = 0; i < OBJECT_WORDS; i++)
		if ((words[i] & ~OBJECT_FLAG) == object)
			return true;
	return false;
}

uint64_t tensor_object(const struct python_memory *memory, uint64_t tensor)
{
	uint64_t words[OBJECT_WORDS];

	if (!tensor || python_memory_read(memory, tensor, words, sizeof(words)))
		return 0;
	for (size_t i = 0; i < OBJECT_WORDS; i++) {
		uint64_t object = words[i] & ~OBJECT_FLAG;

		if (object && object != tensor && tensor_of_object(memory, object).tensor == tensor)
			return object;
	}
	return 0;
}

static bool place_holds(const struct python_memory *memory, const struct tensor_place *place)
{
	uint32_t references;

	if (python_pointer(memory, place->slot) != place->tensor || !target_is_alive(memory, place->tensor))
		return false;
	if (!place->object)
		return true;
	return !python_memory_read(memory, place->object, &references, sizeof(references)) && references &&
	       tensor_has_object(memory, place->tensor, place->object);
}

static bool device_can_be(const struct tensor_argument *storage)
{
	return storage->device_type < DEVICE_TYPE_MAX &&
	       (storage->device_index < DEVICE_INDEX_MAX || storage->device_index == DEVICE_INDEX_NONE);
}

static bool storage_read_once(const struct python_memory *memory, const struct torch_layout *torch, uint64_t tensor,
	struct tensor_argument *found)
{
	uint64_t words[DATA_WORDS_MAX], storage = python_pointer(memory, tensor + torch->tensor_storage);
	size_t bytes_at = (size_t)(torch->storage_bytes - torch->storage_data) / sizeof(*words);

	if (!storage || bytes_at >= DATA_WORDS_MAX || bytes_at <= DATA_DEVICE || !target_is_alive(memory, storage) ||
		python_memory_read(memory, storage + torch->storage_data, words, (bytes_at + 1) * sizeof(*words)))
		return false;
	*found = (struct tensor_argument){
		.data = words[0],
		.bytes = words[bytes_at] & ((1ull << TENSOR_BYTES_BITS) - 1),
		.device_type = words[DATA_DEVICE] & 0xff,
		.device_index = words[DATA_DEVICE] >> 8 & 0xff,
	};
	if (!words[0] || !words[bytes_at] || words[bytes_at] != found->bytes || !device_can_be(found))
		return false;
	if (found->device_type == DEVICE_CPU)
		found->device_index = 0;
	return true;
}

bool tensor_storage_read(const struct python_memory *memory, const struct torch_layout *torch,
	const struct tensor_place *place, struct tensor_argument *found)
{
	for (int tries = 0; place->tensor && tries < STORAGE_TRIES; tries++) {
		struct tensor_argument again;

		if (storage_read_once(memory, torch, place->tensor, found) &&
			storage_read_once(memory, torch, place->tensor, &again) &&
			!memcmp(found, &again, sizeof(again)))
			return place_holds(memory, place);
	}
	return false;
}

uint8_t tensor_element_type(
	const struct python_memory *memory, const struct torch_layout *torch, const struct tensor_place *place)
{
	uint16_t type;

	if (!torch->tensor_elements ||
		python_memory_read(
			memory, place->tensor + torch->tensor_elements + TYPE_BEHIND_COUNT, &type, sizeof(type)))
		return 0;
	return type < ELEMENT_TYPES_MAX ? (uint8_t)(type + 1) : 0;
}

static bool sizes_read_once(const struct python_memory *memory, uint64_t elements_at, struct tensor_shape *shape)
{
	uint64_t words[2], elements, product = 1;

	*shape = (struct tensor_shape){0};
	if (python_memory_read(memory, elements_at - SIZES_BEFORE_COUNT, words, sizeof(words)) ||
		words[0] > TENSOR_DIMENSIONS_MAX ||
		python_memory_read(memory, elements_at, &elements, sizeof(elements)))
		return false;
	shape->dimensions = (uint32_t)words[0];
	if (python_memory_read(memory,
		    shape->dimensions > SIZES_IN_PLACE ? words[1] : elements_at - SIZES_BEFORE_COUNT + sizeof(*words),
		    shape->sizes, shape->dimensions * sizeof(*shape->sizes)))
		return false;
	for (uint32_t i = 0; i < shape->dimensions; i++)
		if (__builtin_mul_overflow(product, shape->sizes[i], &product))
			return false;
	return product == elements;
}

bool tensor_shape_read(const struct python_memory *memory, const struct torch_layout *torch,
	const struct tensor_place *place, struct tensor_shape *shape)
{
	struct tensor_argument storage;
	struct tensor_shape again;

	if (!place->tensor || !torch->tensor_elements ||
		!sizes_read_once(memory, place->tensor + torch->tensor_elements, shape) ||
		!sizes_read_once(memory, place->tensor + torch->tensor_elements, &again) ||
		shape->dimensions != again.dimensions || memcmp(shape->sizes, again.sizes, sizeof(again.sizes)))
		return false;
	shape->element_type = tensor_element_type(memory, torch, place);
	return shape->element_type && tensor_storage_read(memory, torch, place, &storage);
}
