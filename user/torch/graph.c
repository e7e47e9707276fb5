/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The walk of graph.h. Sources of the layouts: torch/csrc/autograd/variable.h
 * (AutogradMeta), function.h (Node), edge.h, saved_variable.h, python_function.h
 * (PyNode, THPFunction); the Itanium C++ ABI 2.9.5 for run-time types, and
 * glibc's malloc.c for the size of what was allocated.
 *
 * An object is of the class that its table of functions leads to: the word in
 * front of the table is the class's std::type_info, which has the name and, of
 * classes with one base, the base. A node's words are looked at as far as the
 * heap says that it reaches, where the neighbour agrees: a pointer to a TensorImpl
 * is a tensor that the node has, three pointers to the begin, end and capacity of
 * an array of nodes are its edges, of an array with tensors a list that it saved.
 * What a node has counts when the node is alive afterwards, and the way to the
 * tensor is the same.
 */
#include "torch/graph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "containers/containers.h"

#define WORD sizeof(uint64_t)
#define ADDRESS_MIN 4096u
#define ADDRESS_MAX (1ull << 47)

/* AutogradMeta: a table, a std::string, the gradient, then the node. */
#define AUTOGRAD_NODE 48

/* std::type_info: a table, the name; then the base, of classes that have one (abi::__si_class_type_info). */
#define TYPE_NAME 8
#define TYPE_BASE 16
#define BASES_MAX 8

/* Node: a table, then a std::weak_ptr to itself, or in 2.14 the two counts of c10::intrusive_ptr_target. */
#define NODE_SELF 1
#define NODE_CONTROL 2
#define CONTROL_COUNT 8 /* std::_Sp_counted_base: a table, then the count */
#define COUNT_MAX (1u << 30)

/* Edge: a std::shared_ptr or intrusive_ptr to the node, and a number. */
#define EDGE_SHARED_BYTES 24
#define EDGE_INTRUSIVE_BYTES 16

/* In front of what malloc gives is its size, with three flags; that of the next one lies right behind it. */
#define CHUNK_FLAGS 7u
#define CHUNK_PREVIOUS_IN_USE 1u
#define CHUNK_BYTES_MIN 32u
#define CHUNK_BYTES_MAX (1ull << 40)

#define NODE_BYTES_MIN 96u
#define NODE_WORDS_MAX 512u
#define ARRAY_BYTES_MAX (64u << 10)
#define FUNCTION_WORDS_MAX 128u /* of THPFunction */

enum object_class { CLASS_OTHER, CLASS_NODE, CLASS_TENSOR };

struct known_class {
	enum object_class kind;
	char *name; /* last part; of nodes */
};

struct graph {
	struct python_memory *memory;
	const struct torch_layout *torch;
	const struct graph_visitor *visitor;
	size_t nodes_left;
	uint64_t *pending; /* stb_ds: nodes that were met and not looked at, the next one first */
	size_t next;
	struct {
		uint64_t key;
		bool value;
	} * met; /* stb_ds map: nodes */
	struct {
		uint64_t key;
		struct known_class value;
	} * classes; /* stb_ds map: by table of functions */
};

/* A node that is being looked at. */
struct looked {
	uint64_t node;
	const char *name;
	uint64_t words[NODE_WORDS_MAX];
	size_t word_count;
};

struct graph *graph_new(struct python_memory *memory, const struct torch_layout *torch,
	const struct graph_visitor *visitor, size_t nodes)
{
	struct graph *graph = calloc(1, sizeof(*graph));

	if (graph)
		*graph = (struct graph){.memory = memory, .torch = torch, .visitor = visitor, .nodes_left = nodes};
	return graph;
}

void graph_free(struct graph *graph)
{
	if (!graph)
		return;
	for (ptrdiff_t i = 0; i < hmlen(graph->classes); i++)
		free(graph->classes[i].value.name);
	hmfree(graph->classes);
	hmfree(graph->met);
	arrfree(graph->pending);
	free(graph);
}

static bool address_can_be(uint64_t address)
{
	return address >= ADDRESS_MIN && address < ADDRESS_MAX && address % WORD == 0;
}

/* --- classes -------------------------------------------------------------------- */

static void text_read(const struct python_memory *memory, uint64_t address, char text[GRAPH_NAME_MAX])
{
	size_t length = GRAPH_NAME_MAX - 1;

	/* The mapping may end right behind it. */
	while (length && python_memory_read(memory, address, text, length))
		length /= 2;
	text[length] = 0;
}

/* The last part of a mangled name, "N5torch8autograd4NodeE": Node. NULL: it is none of a class. */
static char *name_last(const char *mangled)
{
	const char *last = NULL;
	size_t last_length = 0;

	for (mangled += *mangled == 'N'; isdigit((unsigned char)*mangled);) {
		char *text;
		unsigned long length = strtoul(mangled, &text, 10);

		if (!length || length > strlen(text))
			return NULL;
		last = text;
		last_length = length;
		mangled = text + length;
	}
	for (size_t i = 0; i < last_length; i++)
		if (!isalnum((unsigned char)last[i]) && last[i] != '_')
			return NULL;
	return last ? strndup(last, last_length) : NULL;
}

static struct known_class class_read(const struct python_memory *memory, uint64_t table)
{
	uint64_t type = python_pointer(memory, table - WORD);
	struct known_class class = {CLASS_OTHER, NULL};
	char name[GRAPH_NAME_MAX] = "";

	for (int bases = 0; bases < BASES_MAX && address_can_be(type); bases++) {
		uint64_t text = python_pointer(memory, type + TYPE_NAME);

		text_read(memory, text, name);
		if (!bases)
			class.name = name_last(name);
		if (!class.name)
			break;
		if (!strcmp(name, "N5torch8autograd4NodeE"))
			class.kind = CLASS_NODE;
		else if (!strcmp(name, "N3c1010TensorImplE"))
			class.kind = CLASS_TENSOR;
		if (class.kind != CLASS_OTHER)
			break;
		type = python_pointer(memory, type + TYPE_BASE);
	}
	return class;
}

static const struct known_class *class_of(struct graph *graph, uint64_t object)
{
	static const struct known_class none = {CLASS_OTHER, NULL};
	uint64_t table = address_can_be(object) ? python_pointer(graph->memory, object) : 0;
	ptrdiff_t at;

	if (!address_can_be(table))
		return &none;
	at = hmgeti(graph->classes, table);
	if (at < 0) {
		hmput(graph->classes, table, class_read(graph->memory, table));
		at = hmgeti(graph->classes, table);
	}
	return &graph->classes[at].value;
}

/* --- nodes ------------------------------------------------------------------------ */

static bool count_is_alive(const struct python_memory *memory, uint64_t address)
{
	uint32_t count;

	return !python_memory_read(memory, address, &count, sizeof(count)) && count && count < COUNT_MAX;
}

static bool node_is_shared(const struct looked *looked)
{
	return looked->words[NODE_SELF] == looked->node;
}

/* As it was, with references to it? */
static bool node_is_alive(const struct graph *graph, const struct looked *looked)
{
	uint64_t counted = looked->node + NODE_SELF * WORD;

	if (python_pointer(graph->memory, looked->node) != looked->words[0])
		return false;
	if (node_is_shared(looked))
		counted = looked->words[NODE_CONTROL] + CONTROL_COUNT;
	return count_is_alive(graph->memory, counted);
}

static void node_meet(struct graph *graph, uint64_t node)
{
	if (!graph->nodes_left || hmgeti(graph->met, node) >= 0)
		return;
	hmput(graph->met, node, true);
	arrput(graph->pending, node);
	graph->nodes_left--;
}

/* How many bytes malloc gave for the object at an address; 0: it was not malloc's, or does not begin there. */
static size_t allocated_bytes(const struct python_memory *memory, uint64_t address)
{
	uint64_t head = python_pointer(memory, address - WORD), bytes = head & ~(uint64_t)CHUNK_FLAGS, next;

	if (bytes < CHUNK_BYTES_MIN || bytes > ARRAY_BYTES_MAX || bytes % (2 * WORD))
		return 0;
	next = python_pointer(memory, address - WORD + bytes);
	if (!(next & CHUNK_PREVIOUS_IN_USE) || (next & ~(uint64_t)CHUNK_FLAGS) < CHUNK_BYTES_MIN ||
		(next & ~(uint64_t)CHUNK_FLAGS) > CHUNK_BYTES_MAX || (next & ~(uint64_t)CHUNK_FLAGS) % (2 * WORD))
		return 0;
	return bytes - WORD;
}

/* --- what a node has ---------------------------------------------------------------- */

static void word_look(struct graph *graph, const struct looked *looked, uint64_t slot, uint64_t word)
{
	struct tensor_place place = {.tensor = word, .slot = slot};
	struct tensor_argument storage;

	if (class_of(graph, word)->kind != CLASS_TENSOR ||
		!tensor_storage_read(graph->memory, graph->torch, &place, &storage) || !node_is_alive(graph, looked))
		return;
	graph->visitor->saved(graph->visitor->context, &storage, looked->name);
}

static bool array_is_of_nodes(struct graph *graph, const uint64_t *words, size_t bytes, size_t edge_bytes)
{
	bool any = false;

	if (bytes % edge_bytes)
		return false;
	for (size_t at = 0; at < bytes; at += edge_bytes) {
		uint64_t node = words[at / WORD];

		if (node && class_of(graph, node)->kind != CLASS_NODE)
			return false;
		any |= node;
	}
	return any;
}

/* Begin, end and capacity of a std::vector: of edges, or of tensors that were saved. */
static void array_look(struct graph *graph, const struct looked *looked, const uint64_t *vector)
{
	size_t edge_bytes = node_is_shared(looked) ? EDGE_SHARED_BYTES : EDGE_INTRUSIVE_BYTES, bytes, given;
	uint64_t *words = NULL;

	if (!address_can_be(vector[0]) || vector[1] <= vector[0] || vector[2] < vector[1] ||
		vector[2] - vector[0] > ARRAY_BYTES_MAX || (vector[1] - vector[0]) % WORD)
		return;
	/* It is all that was allocated there; else these are no three pointers into one array. */
	given = allocated_bytes(graph->memory, vector[0]);
	if (given < vector[2] - vector[0] || given >= vector[2] - vector[0] + CHUNK_BYTES_MIN)
		return;
	bytes = vector[1] - vector[0];
	if (!python_memory_read(graph->memory, vector[0], arraddnptr(words, bytes / WORD), bytes)) {
		if (array_is_of_nodes(graph, words, bytes, edge_bytes))
			for (size_t at = 0; at < bytes / WORD; at += edge_bytes / WORD)
				node_meet(graph, words[at]);
		else
			for (size_t at = 0; at < bytes / WORD; at++)
				word_look(graph, looked, vector[0] + at * WORD, words[at]);
	}
	arrfree(words);
}

static void words_look(
	struct graph *graph, const struct looked *looked, uint64_t address, const uint64_t *words, size_t count)
{
	for (size_t at = 0; at < count; at++) {
		word_look(graph, looked, address + at * WORD, words[at]);
		if (at + 3 <= count)
			array_look(graph, looked, &words[at]);
	}
}

/* --- nodes of Python ------------------------------------------------------------------- */

static bool type_is_function(const struct python_memory *memory, uint64_t type)
{
	return python_type_derives(memory, type, "FunctionBase") || python_type_derives(memory, type, "_FunctionBase");
}

/* A torch.autograd.Function: what it saved is in its Python object, which the node has. */
static void function_look(struct graph *graph, struct looked *looked)
{
	char name[PYTHON_TYPE_NAME_MAX];

	for (size_t at = NODE_CONTROL; at < looked->word_count; at++) {
		uint64_t object = looked->words[at], words[FUNCTION_WORDS_MAX], type, bytes;

		type = address_can_be(object) ? python_type_of(graph->memory, object) : 0;
		if (!address_can_be(type) || !type_is_function(graph->memory, type))
			continue;
		bytes = python_pointer(graph->memory, type + graph->memory->layout->type.basic_size);
		if (bytes > sizeof(words) || python_memory_read(graph->memory, object, words, bytes / WORD * WORD))
			return;
		python_type_name(graph->memory, type, name);
		looked->name = name;
		words_look(graph, looked, object, words, bytes / WORD);
		return;
	}
}

/* --- the walk ---------------------------------------------------------------------------- */

static void node_look(struct graph *graph, uint64_t node)
{
	const struct known_class *class = class_of(graph, node);
	struct looked looked = {.node = node};
	size_t bytes;
	char name[GRAPH_NAME_MAX];

	/* It has the parameter itself, which has a better name. */
	if (class->kind != CLASS_NODE || !strcmp(class->name, "AccumulateGrad"))
		return;
	/* The map of classes may move. */
	strncpy(name, class->name, sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	looked.name = name;
	bytes = allocated_bytes(graph->memory, node);
	looked.word_count = bytes / WORD;
	if (bytes < NODE_BYTES_MIN || bytes > sizeof(looked.words) ||
		python_memory_read(graph->memory, node, looked.words, looked.word_count * WORD) ||
		!node_is_alive(graph, &looked))
		return;
	words_look(graph, &looked, node, looked.words, looked.word_count);
	if (!strcmp(name, "PyNode"))
		function_look(graph, &looked);
}

void graph_look(struct graph *graph, const struct tensor_place *tensor)
{
	uint64_t meta = python_pointer(graph->memory, tensor->tensor + graph->torch->tensor_storage + WORD);
	uint64_t node = meta ? python_pointer(graph->memory, meta + AUTOGRAD_NODE) : 0;

	if (node && class_of(graph, node)->kind == CLASS_NODE)
		node_meet(graph, node);
	for (; graph->next < arrlenu(graph->pending); graph->next++)
		node_look(graph, graph->pending[graph->next]);
}
