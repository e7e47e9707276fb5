/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of C++ functions from their mangled symbols (Itanium C++ ABI, chapter
 * 5.1). A mangled name can refer back to its own parts, so that a few hundred
 * hostile bytes stand for gigabytes of text, and the library's demangler would
 * write them all. Here the text is bounded.
 */
#ifndef HDTRACE_SYMBOL_DEMANGLE_H
#define HDTRACE_SYMBOL_DEMANGLE_H

#include <stddef.h>

/* Bytes of a mangled name that is looked at, and of the text made from it. */
#define DEMANGLE_NAME_MAX 8192
#define DEMANGLE_TEXT_MAX 16384

/*
 * For messages: the readable form by __cxa_demangle, or the mangled name itself
 * where there is none or it could be too long. Free it; NULL: no memory.
 */
char *demangle_symbol(const char *mangled);

/* A function's name and argument types; reuse one for many names, then demangle_free. */
struct demangled {
	const char *name;      /* at::_ops::add_Tensor::call */
	const char *arguments; /* "at::Tensor const&, at::Tensor const&, c10::Scalar const&"; "": none */
	char *text;            /* both live here until the next call */
	size_t used, capacity;
};

/*
 * Splits the symbol of a plain function (namespaces, classes, templates of types
 * and integers; no operators, function types or template functions). Writes
 * types as __cxa_demangle does. -ENOTSUP: a symbol with something else in it,
 * -E2BIG: text too long, -ENOMEM.
 */
int demangle_function(const char *mangled, struct demangled *out);
void demangle_free(struct demangled *demangled);

#endif
