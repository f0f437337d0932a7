/* Writes protobuf's wire format: fields of a message, one after the other, to a buffer that grows.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_PROTOBUF_WRITE_H
#define SITU_IO_PROTOBUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: an empty message. It remembers failure, so callers need to check only the end. */
typedef struct situ__protobuf_writer {
  unsigned char *data;
  size_t length;
  int64_t capacity;
  bool failed; /* an allocation failed: data holds only the beginning */
} situ__protobuf_writer;

/* Appends a field of its number: a varint (negative ones have 10 bytes), 32 bits, a text, bytes, or the message m. */
void situ__protobuf_put_int(situ__protobuf_writer *w, uint32_t number, int64_t value);
void situ__protobuf_put_float(situ__protobuf_writer *w, uint32_t number, float value);
void situ__protobuf_put_text(situ__protobuf_writer *w, uint32_t number, const char *text);
void situ__protobuf_put_bytes(situ__protobuf_writer *w, uint32_t number, const void *data, size_t bytes);
void situ__protobuf_put_message(situ__protobuf_writer *w, uint32_t number, const situ__protobuf_writer *m);
/* Appends the beginning of a field of `bytes` bytes, which the caller writes after it. */
void situ__protobuf_put_length(situ__protobuf_writer *w, uint32_t number, uint64_t bytes);
/* Appends a message that is complete. */
void situ__protobuf_append(situ__protobuf_writer *w, const void *data, size_t bytes);
void situ__protobuf_free(situ__protobuf_writer *w);

#endif
