/* Finds the row of an ONNX operator.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/graph/program.h"

const situ__op_row *situ__onnx_row_of(const char *target, int64_t opset) {
  static const situ__op_family *const families[] = {
    &situ__onnx_elementwise_family, &situ__onnx_shape_family,     &situ__onnx_layers_family,
    &situ__onnx_reduce_family,      &situ__onnx_index_family,     &situ__onnx_make_family,
    &situ__onnx_norm_family,        &situ__onnx_recurrent_family, &situ__onnx_image_family,
    &situ__onnx_attention_family,   &situ__onnx_trees_family,
  };
  const situ__op_row *best = NULL;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++) {
      const situ__op_row *row = &families[f]->row[i];
      if (strcmp(row->target, target) == 0 && row->since <= opset && (!best || row->since > best->since)) best = row;
    }
  return best;
}
