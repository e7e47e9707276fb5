/* SPDX-License-Identifier: BSD-2-Clause */
/* UTF-8, as far as text from a traced process needs it: made, and made valid. */
#ifndef HDTRACE_PYTHON_UTF8_H
#define HDTRACE_PYTHON_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Longest encoding of one code point. */
#define UTF8_MAX 4

/*
 * Encodes one code point into `bytes` (room for UTF8_MAX) and returns how many
 * bytes it took. What UTF-8 text cannot hold (surrogates, values past U+10FFFF,
 * and NUL, which would end the string) becomes U+FFFD.
 */
size_t utf8_encode(uint32_t code_point, uint8_t *bytes);

/*
 * A NUL-terminated copy of `length` bytes in which every byte that does not
 * belong to valid UTF-8, and every NUL, became U+FFFD. NULL: no memory. The
 * caller frees it.
 */
char *utf8_sanitize(const char *text, size_t length);

#endif
