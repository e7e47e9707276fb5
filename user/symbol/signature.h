/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the argument types of an operator function to the registers and stack
 * words that hold its tensors when it is entered, by the calling convention of
 * x86_64 (System V psABI, 3.2.3) and the layouts of PyTorch's argument types.
 */
#ifndef HDTRACE_SYMBOL_SIGNATURE_H
#define HDTRACE_SYMBOL_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hdtrace/program.h>

/* Most tensor arguments of one operator; real ones have up to 21 (PyTorch 1.13 to 2.14). */
#define SIGNATURE_SLOTS_MAX 32

/* Places 0 to 5: rdi rsi rdx rcx r8 r9. Place 16 + k: the word at sp + 8 + 8k at the entry. */
#define PLACE_REGISTERS 6
#define PLACE_NONE 255

struct argument_slot {
	uint8_t kind;     /* enum argument_kind */
	uint8_t place;    /* a list's count is in the place after it */
	uint8_t argument; /* which one it is, from 0, a key set included */
};

/*
 * Which optional<> PyTorch was built with: its own (c10::optional, before 2.5),
 * which packs an ArrayRef into two words, or the standard one, which takes three.
 * The type name alone does not tell for OptionalArrayRef.
 */
enum optional_layout { OPTIONAL_C10, OPTIONAL_STD };

struct signature {
	struct argument_slot slots[SIGNATURE_SLOTS_MAX];
	uint8_t slot_count;
	uint8_t argument_count;
	uint8_t key_set_place; /* of a leading DispatchKeySet, PLACE_NONE: there is none */
	/* Types whose size is not known, or that hold tensors out of reach. If not 0, slots may be wrong. */
	uint8_t unknown_types;
};

/*
 * `arguments`: types as demangle_function writes them, "" for none. `by_memory`:
 * the result is returned through a hidden pointer, which takes the first
 * register. -EINVAL: not a list of types, -E2BIG: more than the bounds above.
 */
int signature_parse(const char *arguments, bool by_memory, enum optional_layout layout, struct signature *out);

#endif
