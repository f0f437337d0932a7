/* Copies an ONNX model (ModelProto), and asks for each tensor in it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_ONNX_COPY_H
#define SITU_IO_ONNX_COPY_H

#include "protobuf.h"
#include "protobuf_write.h"

typedef enum situ__onnx_message {
  SITU__ONNX_OTHER = 0, /* it is copied as it is */
  SITU__ONNX_MODEL,
  SITU__ONNX_GRAPH,
  SITU__ONNX_NODE,
  SITU__ONNX_ATTRIBUTE,
  SITU__ONNX_TENSOR
} situ__onnx_message;

typedef struct situ__onnx_copier situ__onnx_copier;
struct situ__onnx_copier {
  /* Writes a tensor to `out` as a field of this number, or does not. depth: of the graphs around it, 1 for the model's.
     Returns false after recording an error. */
  bool (*tensor)(situ__onnx_copier *c, uint32_t number, situ__protobuf tensor, int depth, situ__protobuf_writer *out);
  situ__protobuf_writer *graph; /* gets what is in the model's graph, which the copy lacks; NULL: it has it */
};

/* Appends the fields of a message. out remembers if memory ran out. Returns false after an error of c->tensor, or for
   more than 32 graphs inside each other. */
bool situ__onnx_copy(situ__onnx_copier *c, situ__onnx_message kind, situ__protobuf message, int depth,
                     situ__protobuf_writer *out);

#endif
