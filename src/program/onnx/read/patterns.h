/* Patterns of nodes that stand for one call: exporters write GELU, SiLU, layer norm and attention as their arithmetic,
   and quantised layers as floating ones between conversions.
   A pattern is replaced only where nothing else uses the values inside it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_ONNX_PATTERNS_H
#define SITU_PROGRAM_ONNX_PATTERNS_H

#include "onnx.h"

/* Most nodes of a pattern, and arguments of its call. */
enum { SITU__PATTERN_NODES = 16, SITU__PATTERN_ARGS = 16 };

/* A place where a pattern may end, and what was found of it. */
typedef struct situ__match {
  situ__onnx *f;
  const situ__program *program;
  const int32_t *maker;  /* of each value: the node that computes it; -1: none */
  const int32_t *uses;   /* of each value */
  const int32_t *origin; /* of each value: the constant or parameter that it is a copy of; -1: none */
  int32_t node[SITU__PATTERN_NODES], nodes;
  const situ__op_row *row; /* of the call */
  situ__arg arg[SITU__PATTERN_ARGS];
} situ__match;

/* The node that gives the argument: `op`, in the program, with one result that is used `uses` times. It belongs to the
   match from then on. NULL: it is another. */
const situ__program_node *situ__match_node(situ__match *m, const situ__arg *a, const char *op, int uses);
/* Whether both are the same value. */
bool situ__match_same(const situ__arg *a, const situ__arg *b);
/* A floating constant with one element and at most `dims` dimensions. */
bool situ__match_number(situ__match *m, const situ__arg *a, int dims, double *out);
/* Whether it is a 0-dim constant, which is `wanted` as its dtype has it. */
bool situ__match_is(situ__match *m, const situ__arg *a, double wanted);
/* The tensor, on the host, of a constant that is not a parameter and has at most `most` elements; NULL: another. */
situ_tensor *situ__match_constant(situ__match *m, const situ__arg *a, int64_t most);
/* The sizes of a constant or parameter. */
bool situ__match_shape(situ__match *m, const situ__arg *a, situ_shape *out);
/* A layer's call takes the argument as its parameter, as if the file had the layer. */
void situ__match_parameter(situ__match *m, const situ__arg *a);
/* Whole numbers that are known when the file is loaded; -1: they are not. */
int situ__match_integers(situ__match *m, const situ__arg *a, int64_t *out, int capacity);

/* The patterns: whether one ends at a node. */
bool situ__match_gelu(situ__match *m, const situ__program_node *end);
bool situ__match_silu(situ__match *m, const situ__program_node *end);
bool situ__match_norm(situ__match *m, const situ__program_node *end);
bool situ__match_rms_norm(situ__match *m, const situ__program_node *end);
bool situ__match_attention(situ__match *m, const situ__program_node *end);
bool situ__match_conv(situ__match *m, const situ__program_node *end);
/* What stands between DequantizeLinear and QuantizeLinear, as onnxruntime fuses it (ops_quantized.c). */
bool situ__match_quantized(situ__match *m, const situ__program_node *end);

/* softmax(query key scale + mask) value: the call of situ__match_attention. Arguments: query, key (transposed), value,
   mask, scale, the axis of softmax. */
extern const situ__op_row situ__onnx_attend;
/* Conv and Relu, and MaxPool of 2 x 2: the calls of situ__match_conv, with the arguments of Conv. Of gate * X; the gate
   is the last argument. */
extern const situ__op_row situ__onnx_conv_relu, situ__onnx_conv_relu_pool, situ__onnx_conv_silu, situ__onnx_conv_gated;

#endif
