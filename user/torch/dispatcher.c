// SPDX-License-Identifier: BSD-2-Clause
/*
 * c10::Dispatcher begins with a std::list of operators; an element begins with the
 * name and the overload, two std::string, and has somewhere behind them the table of
 * kernels, of which each is {functor, boxed function, unboxed function, …}: first that
 * of no backend at all, then those of the CPU and of CUDA (ATen/core/dispatch/Dispatcher.h,
 * OperatorEntry.h, c10/core/DispatchKey.h). Where the table begins and how long an
 * entry is differs between versions and follows from where operators have their first
 * pointer into code: most have a function for no backend, many others one of the CPU first.
 */
#include "torch/dispatcher.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"

#define OPERATORS_MAX 65536
#define ELEMENT_WORDS 64 /* of a list element, up to the first kernels */
#define STRING_BYTES 32  /* std::string of libstdc++ */
#define NAME_BYTES_MAX 256
#define ENTRY_WORDS_MIN 3
#define ENTRY_WORDS_MAX 8
#define SHARE_MIN 16 /* of all operators one in so many has its first function at a place that counts */

/* std::list: a node, or the list itself. */
enum element_word { ELEMENT_NEXT, ELEMENT_PREVIOUS, ELEMENT_NAME, ELEMENT_HEAD_WORDS = 10 };

struct element {
	uint64_t words[ELEMENT_WORDS];
};

static bool is_code(const struct dispatcher_image *image, uint64_t address)
{
	for (int device = 0; device < DISPATCHER_DEVICES; device++)
		if (address >= image->code[device].start && address < image->code[device].end)
			return true;
	return false;
}

static int elements_read(const struct dispatcher_image *image, struct element **elements)
{
	uint64_t list[3], address, previous = image->dispatcher;
	int error = image->read(image->context, image->dispatcher, list, sizeof(list));

	if (error)
		return error;
	address = list[ELEMENT_NEXT];
	while (address != image->dispatcher) {
		struct element element;

		if (arrlenu(*elements) == OPERATORS_MAX)
			return -EBADMSG;
		error = image->read(image->context, address, &element, sizeof(element));
		if (error)
			return error;
		if (element.words[ELEMENT_PREVIOUS] != previous)
			return -EBADMSG;
		arrput(*elements, element);
		previous = address;
		address = element.words[ELEMENT_NEXT];
	}
	return arrlenu(*elements) ? 0 : -EBADMSG;
}

/* Where the first two entries of the tables have their boxed functions, in words of an element. */
static int table_find(const struct dispatcher_image *image, const struct element *elements, size_t places[2])
{
	size_t counts[ELEMENT_WORDS] = {0}, found = 0;

	for (size_t index = 0; index < arrlenu(elements); index++)
		for (size_t word = ELEMENT_HEAD_WORDS; word < ELEMENT_WORDS; word++)
			if (is_code(image, elements[index].words[word])) {
				counts[word]++;
				break;
			}
	for (size_t word = 0; word < ELEMENT_WORDS && found < 2; word++)
		if (counts[word] > arrlenu(elements) / SHARE_MIN)
			places[found++] = word;
	if (found < 2 || places[1] - places[0] < ENTRY_WORDS_MIN || places[1] - places[0] > ENTRY_WORDS_MAX ||
		places[1] + (DISPATCHER_DEVICES - 1) * (places[1] - places[0]) >= ELEMENT_WORDS)
		return -EBADMSG;
	return 0;
}

static int string_read(const struct dispatcher_image *image, const uint64_t *string, char *text)
{
	uint64_t length = string[1];
	int error = 0;

	if (length >= NAME_BYTES_MAX)
		return -EBADMSG;
	if (length)
		error = image->read(image->context, string[0], text, length);
	text[error ? 0 : length] = '\0';
	return error;
}

/* "aten::add" and "Tensor" as aten.add.Tensor; NULL: it cannot be read, and is left out. */
static char *name_read(const struct dispatcher_image *image, const struct element *element)
{
	const uint64_t *strings = &element->words[ELEMENT_NAME];
	char name[NAME_BYTES_MAX], overload[NAME_BYTES_MAX], *separator, *text;

	if (string_read(image, strings, name) ||
		string_read(image, strings + STRING_BYTES / sizeof(uint64_t), overload))
		return NULL;
	separator = strstr(name, "::");
	if (!separator)
		return NULL;
	*separator = '\0';
	if (asprintf(&text, "%s.%s.%s", name, separator + 2, overload[0] ? overload : "default") < 0)
		return NULL;
	return text;
}

int dispatcher_read(const struct dispatcher_image *image, struct dispatcher_operator **operators)
{
	struct element *elements = NULL;
	size_t places[2];
	int error = elements_read(image, &elements);

	*operators = NULL;
	if (!error)
		error = table_find(image, elements, places);
	for (size_t index = 0; !error && index < arrlenu(elements); index++) {
		struct dispatcher_operator operator_ = {.name = name_read(image, &elements[index])};

		for (int device = 0; device < DISPATCHER_DEVICES; device++) {
			uint64_t kernel = elements[index].words[places[1] + (size_t)device * (places[1] - places[0])];

			operator_.kernels[device] = is_code(image, kernel) ? kernel : 0;
		}
		if (operator_.name)
			arrput(*operators, operator_);
	}
	arrfree(elements);
	return error;
}

void dispatcher_free(struct dispatcher_operator *operators)
{
	for (ptrdiff_t index = 0; index < arrlen(operators); index++)
		free(operators[index].name);
	arrfree(operators);
}
