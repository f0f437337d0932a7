/* Writes protobuf messages, field by field, for the models of tests.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PROGRAM_MESSAGE_H
#define SITU_TEST_PROGRAM_MESSAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct message {
  unsigned char data[4096];
  size_t length;
} message;

static inline void put_varint(message *m, uint64_t value) {
  do {
    assert_true(m->length < sizeof m->data);
    m->data[m->length++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value);
}
static inline void put_int(message *m, uint32_t field, uint64_t value) {
  put_varint(m, field << 3);
  put_varint(m, value);
}
static inline void put_bytes(message *m, uint32_t field, const void *data, size_t length) {
  put_varint(m, field << 3 | 2);
  put_varint(m, length);
  assert_true(m->length + length <= sizeof m->data);
  if (length) memcpy(m->data + m->length, data, length);
  m->length += length;
}
static inline void put_text(message *m, uint32_t field, const char *text) { put_bytes(m, field, text, strlen(text)); }
static inline void put_message(message *m, uint32_t field, const message *inner) {
  put_bytes(m, field, inner->data, inner->length);
}

#endif
