/* Writes protobuf's wire format.
   Format: https://protobuf.dev/programming-guides/encoding
   SPDX-License-Identifier: MIT */
#include "protobuf_write.h"

#include <string.h>

#include "base/alloc.h"
#include "protobuf.h"

void situ__protobuf_append(situ__protobuf_writer *w, const void *data, size_t bytes) {
  if (w->failed || bytes == 0) return;
  w->failed = bytes > PTRDIFF_MAX - w->length || !situ__grow(NULL, &w->data, &w->capacity, 1, w->length + bytes);
  if (w->failed) return;
  memcpy(w->data + w->length, data, bytes);
  w->length += bytes;
}

static void put_varint(situ__protobuf_writer *w, uint64_t value) {
  unsigned char bytes[10];
  size_t count = 0;
  for (; value >= 128; value >>= 7) bytes[count++] = (unsigned char)(value | 128);
  bytes[count++] = (unsigned char)value;
  situ__protobuf_append(w, bytes, count);
}

static void put_key(situ__protobuf_writer *w, uint32_t number, situ__protobuf_wire wire) {
  put_varint(w, (uint64_t)number << 3 | wire);
}

void situ__protobuf_put_int(situ__protobuf_writer *w, uint32_t number, int64_t value) {
  put_key(w, number, SITU__PROTOBUF_VARINT);
  put_varint(w, (uint64_t)value);
}

void situ__protobuf_put_float(situ__protobuf_writer *w, uint32_t number, float value) {
  uint32_t bits;
  unsigned char bytes[sizeof bits];
  memcpy(&bits, &value, sizeof bits);
  for (size_t i = 0; i < sizeof bits; i++) bytes[i] = (unsigned char)(bits >> 8 * i);
  put_key(w, number, SITU__PROTOBUF_FIXED32);
  situ__protobuf_append(w, bytes, sizeof bytes);
}

void situ__protobuf_put_length(situ__protobuf_writer *w, uint32_t number, uint64_t bytes) {
  put_key(w, number, SITU__PROTOBUF_BYTES);
  put_varint(w, bytes);
}

void situ__protobuf_put_bytes(situ__protobuf_writer *w, uint32_t number, const void *data, size_t bytes) {
  situ__protobuf_put_length(w, number, bytes);
  situ__protobuf_append(w, data, bytes);
}

void situ__protobuf_put_text(situ__protobuf_writer *w, uint32_t number, const char *text) {
  situ__protobuf_put_bytes(w, number, text, strlen(text));
}

void situ__protobuf_put_message(situ__protobuf_writer *w, uint32_t number, const situ__protobuf_writer *m) {
  situ__protobuf_put_bytes(w, number, m->data, m->length);
  w->failed |= m->failed;
}

void situ__protobuf_free(situ__protobuf_writer *w) {
  situ__free(w->data);
  *w = (situ__protobuf_writer){ 0 };
}
