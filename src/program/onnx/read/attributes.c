/* Attributes of ONNX nodes: numbers, texts, lists of them, tensors and graphs.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "onnx.h"

/* Elements of a list. */
enum { MOST_ELEMENTS = 1 << 20 };

enum {
  ATTR_NAME = 1,
  ATTR_FLOAT = 2,
  ATTR_INT = 3,
  ATTR_TEXT = 4,
  ATTR_TENSOR = 5,
  ATTR_GRAPH = 6,
  ATTR_FLOATS = 7,
  ATTR_INTS = 8,
  ATTR_TEXTS = 9,
  ATTR_TYPE = 20,
  ATTR_REFERENCE = 21
};

static double float_of(uint64_t bits) {
  const uint32_t word = (uint32_t)bits;
  float value;
  memcpy(&value, &word, sizeof value);
  return (double)value;
}

/* The elements of the field `number`, which is repeated; list NULL: only counts them. */
static int64_t read_elements(situ__onnx *f, situ__protobuf m, uint32_t number, situ__arg *list) {
  const situ__protobuf_wire wire = number == ATTR_FLOATS ? SITU__PROTOBUF_FIXED32 : SITU__PROTOBUF_VARINT;
  int64_t count = 0;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.number != number) continue;
    if (number == ATTR_TEXTS) {
      if (list) {
        list[count] = (situ__arg){ .kind = SITU__ARG_TEXT, .text = situ__onnx_text(f, &field.bytes) };
        if (!list[count].text) return -1;
      }
      count++;
      continue;
    }
    for (uint64_t bits; situ__protobuf_element(&m, &field, wire, &bits); count++)
      if (list)
        list[count] = number == ATTR_FLOATS ? (situ__arg){ .kind = SITU__ARG_FLOAT, .real = float_of(bits) }
                                            : (situ__arg){ .kind = SITU__ARG_INT, .integer = (int64_t)bits };
  }
  return m.bad ? -1 : count;
}

static bool read_list(situ__onnx *f, situ__protobuf m, uint32_t number, situ__arg *out) {
  const int64_t count = read_elements(f, m, number, NULL);
  if (count < 0 || count > MOST_ELEMENTS)
    return situ__onnx_bad(f, count < 0 ? SITU_E_FORMAT : SITU_E_LIMIT, "has a list that is cut off, or too long");
  situ__arg *list = situ__arena_take(&f->program->arena, (size_t)count, sizeof *list);
  if (!list) return situ__onnx_no_memory();
  *out = (situ__arg){ .kind = SITU__ARG_LIST, .count = (int32_t)count, .list = list };
  return read_elements(f, m, number, list) == count;
}

static bool read_attribute(situ__onnx *f, situ__protobuf message, situ__onnx_attribute *out) {
  static const uint32_t list_of[] = { [6] = ATTR_FLOATS, [7] = ATTR_INTS, [8] = ATTR_TEXTS };
  enum { FLOAT = 1, INT = 2, TEXT = 3, TENSOR = 4, GRAPH = 5, FLOATS = 6, TEXTS = 8 };
  uint64_t type = 0;
  double real = 0;
  int64_t integer = 0;
  const char *text = "";
  bool reference = false;
  situ__protobuf m = message;
  *out = (situ__onnx_attribute){ .name = "" };
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    const bool bytes = field.wire == SITU__PROTOBUF_BYTES, number = field.wire == SITU__PROTOBUF_VARINT;
    if (field.number == ATTR_NAME && bytes && !(out->name = situ__onnx_text(f, &field.bytes))) return false;
    if (field.number == ATTR_TEXT && bytes && !(text = situ__onnx_text(f, &field.bytes))) return false;
    if (field.number == ATTR_FLOAT && field.wire == SITU__PROTOBUF_FIXED32) real = float_of(field.value);
    if (field.number == ATTR_INT && number) integer = (int64_t)field.value;
    if (field.number == ATTR_TYPE && number) type = field.value;
    if (field.number == ATTR_TENSOR && bytes) out->tensor = field.bytes;
    if (field.number == ATTR_GRAPH && bytes) out->graph = field.bytes;
    if (field.number == ATTR_REFERENCE) reference = true;
  }
  if (m.bad) return situ__onnx_bad(f, SITU_E_FORMAT, "has an attribute '%s' that is cut off", out->name);
  if (reference) return situ__onnx_bad(f, SITU_E_FORMAT, "has an attribute '%s' of a function it is not in", out->name);
  out->arg = (situ__arg){ .kind = SITU__ARG_OTHER };
  if (type == FLOAT) out->arg = (situ__arg){ .kind = SITU__ARG_FLOAT, .real = real };
  if (type == INT) out->arg = (situ__arg){ .kind = SITU__ARG_INT, .integer = integer };
  if (type == TEXT) out->arg = (situ__arg){ .kind = SITU__ARG_TEXT, .text = text };
  return type < FLOATS || type > TEXTS || read_list(f, message, list_of[type], &out->arg);
}

bool situ__onnx_read_attributes(situ__onnx *f, const situ__onnx_node *node, situ__onnx_attribute *out, int most,
                                int *count) {
  enum { ATTRIBUTE = 5 };
  situ__protobuf m = node->message;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.number != ATTRIBUTE || field.wire != SITU__PROTOBUF_BYTES) continue;
    if (*count == most)
      return situ__onnx_bad(f, SITU_E_LIMIT, "has a node '%s' of more than %d attributes", node->name, most);
    if (!read_attribute(f, field.bytes, &out[(*count)++])) return false;
  }
  return true;
}

const situ__onnx_attribute *situ__onnx_find_attribute(const situ__onnx_attribute *list, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  return NULL;
}
