/* Reads protobuf's wire format: fields of a message, one after the other, without a schema and without a copy.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_PROTOBUF_H
#define SITU_IO_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

/* The rest of a message, or the bytes of a field. */
typedef struct situ__protobuf {
  const unsigned char *at;
  int64_t bytes;
  bool bad; /* the message is malformed: no field follows */
} situ__protobuf;

typedef enum situ__protobuf_wire {
  SITU__PROTOBUF_VARINT = 0,
  SITU__PROTOBUF_FIXED64 = 1,
  SITU__PROTOBUF_BYTES = 2,
  SITU__PROTOBUF_FIXED32 = 5
} situ__protobuf_wire;

typedef struct situ__protobuf_field {
  uint32_t number;
  situ__protobuf_wire wire;
  uint64_t value;       /* of VARINT, FIXED64 and FIXED32 */
  situ__protobuf bytes; /* of BYTES: a text, a message, or packed numbers; it lies inside the message */
} situ__protobuf_field;

static inline situ__protobuf situ__protobuf_of(const void *data, int64_t bytes) {
  return (situ__protobuf){ .at = data, .bytes = bytes };
}
/* The next field. Returns false at the end, and with m->bad for a message that is cut off, has a varint of more than 64
   bits, a field of number 0, or a group (deprecated in protobuf). */
bool situ__protobuf_next(situ__protobuf *m, situ__protobuf_field *out);
/* Elements of a repeated number, packed or not: call it with the field until it returns false. wire is that of an
   element. Sets m->bad if the field is of another type, or cut off. */
bool situ__protobuf_element(situ__protobuf *m, situ__protobuf_field *f, situ__protobuf_wire wire, uint64_t *out);

#endif
