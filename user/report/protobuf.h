/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of Protocol Buffers, put together in a buffer: a tag, then a number
 * or bytes (protobuf.dev, "Encoding"). The few fields that a trace needs are not
 * worth a compiler of schemas and a library.
 */
#ifndef HDTRACE_REPORT_PROTOBUF_H
#define HDTRACE_REPORT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

/* stb_ds array of bytes; NULL: empty. Each function appends one field. */
void proto_varint(uint8_t **message, uint32_t field, uint64_t value);
void proto_fixed64(uint8_t **message, uint32_t field, uint64_t value);
void proto_bytes(uint8_t **message, uint32_t field, const void *bytes, size_t length);
/* As UTF-8, wrong bytes as U+FFFD, line breaks as spaces. */
void proto_text(uint8_t **message, uint32_t field, const char *text);
/* Another message, which is empty afterwards. */
void proto_message(uint8_t **message, uint32_t field, uint8_t **inner);

#endif
