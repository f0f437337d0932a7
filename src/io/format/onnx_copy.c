/* Copies an ONNX model, and asks for each tensor in it.
   SPDX-License-Identifier: MIT */
#include "onnx_copy.h"

/* What a field of a message is, by the numbers of onnx.proto3. */
static situ__onnx_message inside(situ__onnx_message kind, uint32_t number) {
  static const struct {
    situ__onnx_message in;
    uint32_t number;
    situ__onnx_message is;
  } fields[] = { { SITU__ONNX_MODEL, 7, SITU__ONNX_GRAPH },       { SITU__ONNX_GRAPH, 1, SITU__ONNX_NODE },
                 { SITU__ONNX_GRAPH, 5, SITU__ONNX_TENSOR },      { SITU__ONNX_NODE, 5, SITU__ONNX_ATTRIBUTE },
                 { SITU__ONNX_ATTRIBUTE, 5, SITU__ONNX_TENSOR },  { SITU__ONNX_ATTRIBUTE, 6, SITU__ONNX_GRAPH },
                 { SITU__ONNX_ATTRIBUTE, 10, SITU__ONNX_TENSOR }, { SITU__ONNX_ATTRIBUTE, 11, SITU__ONNX_GRAPH } };
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].in == kind && fields[i].number == number) return fields[i].is;
  return SITU__ONNX_OTHER;
}

enum { DEPTH = 32 }; /* graphs in graphs, also in branches that no reader looks at */

static bool copy_field(situ__onnx_copier *c, situ__onnx_message is, const situ__protobuf_field *field, int depth,
                       situ__protobuf_writer *out) {
  situ__protobuf_writer own = { 0 };
  const bool graph = is == SITU__ONNX_GRAPH;
  if (is == SITU__ONNX_TENSOR) return c->tensor(c, field->number, field->bytes, depth, out);
  if (graph && depth == 0 && c->graph) return situ__onnx_copy(c, is, field->bytes, 1, c->graph);
  if (depth > DEPTH) return false;
  const bool fine = situ__onnx_copy(c, is, field->bytes, depth + graph, &own);
  situ__protobuf_put_message(out, field->number, &own);
  out->failed |= own.failed;
  situ__protobuf_free(&own);
  return fine;
}

bool situ__onnx_copy(situ__onnx_copier *c, situ__onnx_message kind, situ__protobuf message, int depth,
                     situ__protobuf_writer *out) {
  const unsigned char *start = message.at;
  for (situ__protobuf_field field; situ__protobuf_next(&message, &field); start = message.at) {
    const situ__onnx_message is = field.wire == SITU__PROTOBUF_BYTES ? inside(kind, field.number) : SITU__ONNX_OTHER;
    if (is == SITU__ONNX_OTHER) situ__protobuf_append(out, start, (size_t)(message.at - start));
    else if (!copy_field(c, is, &field, depth, out)) return false;
  }
  return true;
}
