/* Reads protobuf's wire format. Every length is compared with what is left of the message around it.
   Format: https://protobuf.dev/programming-guides/encoding
   SPDX-License-Identifier: MIT */
#include "protobuf.h"

static bool fail(situ__protobuf *m) {
  m->bad = true;
  m->bytes = 0;
  return false;
}

static bool read_varint(situ__protobuf *m, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 64 && m->bytes > 0; shift += 7) {
    const unsigned char byte = *m->at++;
    m->bytes--;
    if (shift == 63 && byte > 1) break; /* beyond 64 bits */
    *out |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return fail(m);
}

static bool read_fixed(situ__protobuf *m, int bytes, uint64_t *out) {
  if (m->bytes < bytes) return fail(m);
  *out = 0;
  for (int i = 0; i < bytes; i++) *out |= (uint64_t)m->at[i] << 8 * i;
  m->at += bytes;
  m->bytes -= bytes;
  return true;
}

static bool read_bytes(situ__protobuf *m, situ__protobuf *out) {
  uint64_t length;
  if (!read_varint(m, &length) || length > (uint64_t)m->bytes) return fail(m);
  *out = situ__protobuf_of(m->at, (int64_t)length);
  m->at += length;
  m->bytes -= (int64_t)length;
  return true;
}

bool situ__protobuf_next(situ__protobuf *m, situ__protobuf_field *out) {
  uint64_t key;
  if (m->bad || m->bytes == 0 || !read_varint(m, &key)) return false;
  *out = (situ__protobuf_field){ .number = (uint32_t)(key >> 3), .wire = (situ__protobuf_wire)(key & 7) };
  if (out->number == 0 || key >> 32) return fail(m);
  switch (out->wire) {
  case SITU__PROTOBUF_VARINT: return read_varint(m, &out->value);
  case SITU__PROTOBUF_FIXED64: return read_fixed(m, 8, &out->value);
  case SITU__PROTOBUF_FIXED32: return read_fixed(m, 4, &out->value);
  case SITU__PROTOBUF_BYTES: return read_bytes(m, &out->bytes);
  default: return fail(m);
  }
}

bool situ__protobuf_element(situ__protobuf *m, situ__protobuf_field *f, situ__protobuf_wire wire, uint64_t *out) {
  situ__protobuf *packed = &f->bytes;
  if (f->wire == wire && wire != SITU__PROTOBUF_BYTES) { /* not packed: the field is the element */
    *out = f->value;
    f->wire = SITU__PROTOBUF_BYTES;
    return true;
  }
  if (f->wire != SITU__PROTOBUF_BYTES) return fail(m);
  if (packed->bytes == 0) return false;
  const bool read = wire == SITU__PROTOBUF_VARINT    ? read_varint(packed, out)
                    : wire == SITU__PROTOBUF_FIXED64 ? read_fixed(packed, 8, out)
                                                     : read_fixed(packed, 4, out);
  return read || fail(m);
}
