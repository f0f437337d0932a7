/* GELU, SiLU, layer and RMS norm and attention, as torch's exporters write them, and convolution with ReLU or SiLU, or
   of what a sigmoid gates.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "patterns.h"
#include "situ/sys/shape.h"

/* The last opset's rows: an older file has no node of this name. */
static const situ__op_row *row_of(const char *op) { return situ__onnx_row_of(op, INT32_MAX); }

static bool is_op(const situ__program_node *n, const char *op) { return strcmp(n->row->target, op) == 0; }

/* Whether the node's two arguments are x and a number, in either order. */
static bool is_with(situ__match *m, const situ__program_node *n, const situ__arg *x, double number) {
  for (int k = 0; n && k < 2; k++)
    if (situ__match_same(&n->arg[k], x) && situ__match_is(m, &n->arg[1 - k], number)) return true;
  return false;
}

/* The argument of a node of two that is not `number`; NULL: it has no such number. */
static const situ__arg *beside(situ__match *m, const situ__program_node *n, double number) {
  for (int k = 0; n && k < 2; k++)
    if (situ__match_is(m, &n->arg[1 - k], number)) return &n->arg[k];
  return NULL;
}

/* ---- GELU ---- */

/* x / sqrt(2), or x sqrt(1/2). */
static bool is_scaled(situ__match *m, const situ__arg *a, const situ__arg *x) {
  const situ__program_node *div = situ__match_node(m, a, "Div", 1);
  if (div) return situ__match_same(&div->arg[0], x) && situ__match_is(m, &div->arg[1], sqrt(2.0));
  return is_with(m, situ__match_node(m, a, "Mul", 1), x, sqrt(0.5));
}

/* x^3: Pow, or two products. */
static bool is_cube(situ__match *m, const situ__arg *a, const situ__arg *x) {
  const situ__program_node *n = situ__match_node(m, a, "Pow", 1);
  if (n) return situ__match_same(&n->arg[0], x) && situ__match_is(m, &n->arg[1], 3);
  n = situ__match_node(m, a, "Mul", 1);
  for (int k = 0; n && k < 2; k++) {
    const situ__program_node *square =
        situ__match_same(&n->arg[k], x) ? situ__match_node(m, &n->arg[1 - k], "Mul", 1) : NULL;
    if (square && situ__match_same(&square->arg[0], x) && situ__match_same(&square->arg[1], x)) return true;
  }
  return false;
}

/* sqrt(2 / pi) (x + 0.044715 x^3). */
static bool is_polynomial(situ__match *m, const situ__arg *a, const situ__arg *x) {
  const situ__arg *sum = beside(m, situ__match_node(m, a, "Mul", 1), sqrt(2 / acos(-1.0)));
  const situ__program_node *add = sum ? situ__match_node(m, sum, "Add", 1) : NULL;
  for (int k = 0; add && k < 2; k++) {
    if (!situ__match_same(&add->arg[k], x)) continue;
    const situ__arg *cube = beside(m, situ__match_node(m, &add->arg[1 - k], "Mul", 1), 0.044715);
    return cube && is_cube(m, cube, x);
  }
  return false;
}

/* 1 + erf(..), or 1 + tanh(..). */
static bool is_gate(situ__match *m, const situ__arg *a, const situ__arg *x, const char **form) {
  const situ__arg *curve = beside(m, situ__match_node(m, a, "Add", 1), 1);
  const situ__program_node *erf = curve ? situ__match_node(m, curve, "Erf", 1) : NULL;
  const situ__program_node *tanh_ = curve && !erf ? situ__match_node(m, curve, "Tanh", 1) : NULL;
  *form = erf ? "none" : "tanh";
  if (erf) return is_scaled(m, &erf->arg[0], x);
  return tanh_ && is_polynomial(m, &tanh_->arg[0], x);
}

/* The product of x, 0.5 and the gate, in any order. */
bool situ__match_gelu(situ__match *m, const situ__program_node *end) {
  const char *form;
  for (int side = 0; side < 2 && is_op(end, "Mul"); side++) {
    m->nodes = 0;
    const situ__program_node *inner = situ__match_node(m, &end->arg[side], "Mul", 1);
    if (!inner) continue;
    const situ__arg *factor[3] = { &end->arg[1 - side], &inner->arg[0], &inner->arg[1] };
    for (int half = 0; half < 3; half++) {
      if (!situ__match_is(m, factor[half], 0.5)) continue;
      for (int k = 1; k < 3; k++) {
        const situ__arg *x = factor[(half + k) % 3], *gate = factor[(half + 3 - k) % 3];
        if (!is_gate(m, gate, x, &form)) continue;
        m->row = row_of("Gelu");
        m->arg[0] = *x;
        m->arg[1] = (situ__arg){ .kind = SITU__ARG_TEXT, .text = form };
        return true;
      }
    }
  }
  return false;
}

/* ---- SiLU ---- */

/* x sigmoid(x). */
bool situ__match_silu(situ__match *m, const situ__program_node *end) {
  m->row = row_of("Swish");
  for (int side = 0; side < 2 && is_op(end, "Mul"); side++) {
    m->nodes = 0;
    const situ__program_node *gate = situ__match_node(m, &end->arg[side], "Sigmoid", 1);
    if (!gate || !situ__match_same(&gate->arg[0], &end->arg[1 - side])) continue;
    m->arg[0] = gate->arg[0];
    m->arg[1] = (situ__arg){ .kind = SITU__ARG_FLOAT, .real = 1 };
    return true;
  }
  return false;
}

/* ---- layer norm, RMS norm ---- */

/* The number of last dimensions that a ReduceMean keeps as sizes of 1: axes -1, -2 and so on. 0: it is another. */
static int last_axes(situ__match *m, const situ__program_node *mean) {
  int64_t axis[SITU_MAX_DIMS];
  uint32_t seen = 0;
  const int count = situ__match_integers(m, &mean->arg[1], axis, SITU_MAX_DIMS);
  if (mean->arg[2].kind != SITU__ARG_INT || mean->arg[2].integer != 1) return 0;
  for (int i = 0; i < count; i++)
    if (axis[i] < 0 && axis[i] >= -SITU_MAX_DIMS) seen |= 1U << (-axis[i] - 1);
  return count > 0 && seen == (1U << count) - 1 ? count : 0;
}

/* d^2: Pow, or d d. Also the number of times that d is used in the whole. */
static bool is_square(situ__match *m, const situ__arg *a, const situ__arg *d, int *uses) {
  const situ__program_node *power = situ__match_node(m, a, "Pow", 1), *mul = situ__match_node(m, a, "Mul", 1);
  *uses = power ? 2 : 3;
  if (power) return situ__match_same(&power->arg[0], d) && situ__match_is(m, &power->arg[1], 2);
  return mul && situ__match_same(&mul->arg[0], d) && situ__match_same(&mul->arg[1], d);
}

/* sqrt(mean(d^2) + eps). */
static bool is_deviation(situ__match *m, const situ__arg *a, const situ__arg *d, int *axes, double *eps, int *uses) {
  const situ__program_node *root = situ__match_node(m, a, "Sqrt", 1);
  const situ__program_node *add = root ? situ__match_node(m, &root->arg[0], "Add", 1) : NULL;
  for (int k = 0; add && k < 2; k++) {
    const situ__program_node *mean = situ__match_node(m, &add->arg[k], "ReduceMean", 1);
    if (!mean || !situ__match_number(m, &add->arg[1 - k], 0, eps) || *eps < 0) continue;
    *axes = last_axes(m, mean);
    return *axes > 0 && is_square(m, &mean->arg[0], d, uses);
  }
  return false;
}

/* d / sqrt(mean(d^2) + eps), where d is x - mean(x). */
static bool is_normal(situ__match *m, const situ__program_node *div, const situ__arg **x, int *axes, double *eps) {
  int uses = 0;
  if (!is_op(div, "Div") || !is_deviation(m, &div->arg[1], &div->arg[0], axes, eps, &uses)) return false;
  const situ__program_node *d = situ__match_node(m, &div->arg[0], "Sub", uses);
  const situ__program_node *mean = d ? situ__match_node(m, &d->arg[1], "ReduceMean", 1) : NULL;
  *x = d ? &d->arg[0] : NULL;
  return mean && situ__match_same(&mean->arg[0], *x) && last_axes(m, mean) == *axes;
}

/* The argument of a node of two that is `op`, while the other is of the file. */
static const situ__program_node *with_part(situ__match *m, const situ__program_node *n, const char *op,
                                           const situ__arg **part, situ_shape *shape) {
  for (int k = 0; k < 2; k++) {
    if (!situ__match_shape(m, &n->arg[1 - k], shape)) continue;
    *part = &n->arg[1 - k];
    return situ__match_node(m, &n->arg[k], op, 1);
  }
  return NULL;
}

bool situ__match_norm(situ__match *m, const situ__program_node *end) {
  const situ__arg *x, *weight = NULL, *bias = NULL;
  situ_shape of_weight, of_bias;
  const situ__program_node *mul = end, *div = end;
  int axes;
  double eps;
  m->nodes = 0;
  if (is_op(end, "Add") && !(mul = with_part(m, end, "Mul", &bias, &of_bias))) return false;
  if (is_op(mul, "Mul") && !(div = with_part(m, mul, "Div", &weight, &of_weight))) return false;
  if (!is_normal(m, div, &x, &axes, &eps)) return false;
  if (weight && of_weight.ndim != axes) return false;
  if (bias && !situ_shape_equal(&of_weight, &of_bias)) return false;
  if (weight) situ__match_parameter(m, weight);
  if (bias) situ__match_parameter(m, bias);
  m->row = row_of("LayerNormalization");
  m->arg[0] = *x;
  m->arg[1] = weight ? *weight : (situ__arg){ 0 };
  m->arg[2] = bias ? *bias : (situ__arg){ 0 };
  m->arg[3] = (situ__arg){ .kind = SITU__ARG_INT, .integer = -axes };
  m->arg[4] = (situ__arg){ .kind = SITU__ARG_FLOAT, .real = eps };
  m->arg[5] = (situ__arg){ 0 };
  return true;
}

/* x / sqrt(mean(x^2) + eps), or x times the reciprocal of that root. */
static bool is_rms(situ__match *m, const situ__program_node *n, const situ__arg **x, int *axes, double *eps) {
  const bool mul = is_op(n, "Mul");
  for (int k = !mul; k < 2; k++) {
    int uses;
    m->nodes = 1; /* what n is multiplied by */
    const situ__program_node *inverse = mul ? situ__match_node(m, &n->arg[k], "Reciprocal", 1) : NULL;
    const situ__arg *root = inverse ? &inverse->arg[0] : mul ? NULL : &n->arg[k];
    *x = &n->arg[1 - k];
    if (root && is_deviation(m, root, *x, axes, eps, &uses)) return true;
  }
  return false;
}

bool situ__match_rms_norm(situ__match *m, const situ__program_node *end) {
  const situ__arg *x, *weight;
  situ_shape of_weight;
  int axes;
  double eps;
  for (int way = 0; way < 2 && is_op(end, "Mul"); way++) {
    m->nodes = 0;
    const situ__program_node *n = with_part(m, end, way ? "Div" : "Mul", &weight, &of_weight);
    if (!n || !is_rms(m, n, &x, &axes, &eps) || of_weight.ndim != axes) continue;
    situ__match_parameter(m, weight);
    m->row = row_of("RMSNormalization");
    m->arg[0] = *x;
    m->arg[1] = *weight;
    m->arg[2] = (situ__arg){ .kind = SITU__ARG_INT, .integer = -axes };
    m->arg[3] = (situ__arg){ .kind = SITU__ARG_FLOAT, .real = eps };
    m->arg[4] = (situ__arg){ 0 };
    return true;
  }
  return false;
}

/* ---- attention ---- */

/* x times a number, or by one: x, with the number put into *scale; or the value itself. */
static const situ__arg *unscaled(situ__match *m, const situ__arg *a, double *scale) {
  double number;
  const int32_t before = m->nodes;
  const situ__program_node *mul = situ__match_node(m, a, "Mul", 1), *div = situ__match_node(m, a, "Div", 1);
  for (int k = 0; mul && k < 2; k++)
    if (situ__match_number(m, &mul->arg[1 - k], 1, &number)) return *scale *= number, &mul->arg[k];
  if (div && situ__match_number(m, &div->arg[1], 1, &number)) return *scale /= number, &div->arg[0];
  m->nodes = before;
  return a;
}

/* query key, with both, or the product, times a number. */
static bool is_scores(situ__match *m, const situ__arg *a) {
  double scale = 1;
  const situ__arg *inside = unscaled(m, a, &scale);
  const situ__program_node *product = situ__match_node(m, inside, "MatMul", 1);
  for (int k = 0; product && k < 2; k++) m->arg[k] = *unscaled(m, &product->arg[k], &scale);
  m->arg[4] = (situ__arg){ .kind = SITU__ARG_FLOAT, .real = scale };
  return product && scale != 0 && isfinite(scale);
}

bool situ__match_attention(situ__match *m, const situ__program_node *end) {
  m->nodes = 0;
  if (!is_op(end, "MatMul")) return false;
  const situ__program_node *weights = situ__match_node(m, &end->arg[0], "Softmax", 1);
  /* -1 is the last axis; whether another number is, the call sees, but not that it stands for all that follow. */
  if (!weights || weights->arg[1].kind != SITU__ARG_INT ||
      (weights->arg[1].integer != -1 && (weights->arg[1].integer < 2 || m->f->opset < 13)))
    return false;
  const situ__program_node *add = situ__match_node(m, &weights->arg[0], "Add", 1);
  m->row = &situ__onnx_attend;
  m->arg[2] = end->arg[1];
  m->arg[3] = (situ__arg){ 0 };
  m->arg[5] = weights->arg[1];
  if (!add) return is_scores(m, &weights->arg[0]);
  for (int k = 0, before = m->nodes; k < 2; k++) {
    m->nodes = before;
    m->arg[3] = add->arg[1 - k];
    if (is_scores(m, &add->arg[k])) return true;
  }
  return false;
}

/* ---- convolution ---- */

/* Whether a list of integers, or nothing, is `wanted` for both dimensions. */
static bool is_both(situ__match *m, const situ__arg *a, int64_t wanted, bool absent) {
  int64_t given[4];
  if (a->kind == SITU__ARG_NONE) return absent;
  const int count = situ__match_integers(m, a, given, 4);
  for (int i = 0; i < count; i++)
    if (given[i] != wanted) return false;
  return count == 2 || count == 4;
}

/* Arguments of MaxPool: X, auto_pad, dilations, kernel_shape, pads, strides, ceil_mode, storage_order. */
static bool is_halving(situ__match *m, const situ__program_node *n) {
  const char *pad = n->arg[1].kind == SITU__ARG_TEXT ? n->arg[1].text : "";
  return is_op(n, "MaxPool") && n->outs == 1 && *pad != 'S' && is_both(m, &n->arg[2], 1, true) &&
         is_both(m, &n->arg[3], 2, false) && is_both(m, &n->arg[4], 0, true) && is_both(m, &n->arg[5], 2, false) &&
         !n->arg[6].integer;
}

/* Conv of sigmoid(v) * x, where v is not x: squeeze and excitation. Whether the gate has a number for each channel is
   known when the call runs. */
static bool match_gated(situ__match *m, const situ__program_node *conv) {
  const situ__program_node *mul = is_op(conv, "Conv") ? situ__match_node(m, &conv->arg[0], "Mul", 1) : NULL;
  for (int k = 0; mul && k < 2; k++) {
    const situ__arg *gate = &mul->arg[k], *x = &mul->arg[1 - k];
    const int32_t maker = gate->kind == SITU__ARG_VALUE ? m->maker[gate->integer] : -1;
    const situ__program_node *n = maker >= 0 ? &m->program->node[maker] : NULL;
    if (!n || !(is_op(n, "Sigmoid") || is_op(n, "HardSigmoid")) || situ__match_same(&n->arg[0], x)) continue;
    const int count = situ__op_row_args(conv->row);
    memcpy(m->arg, conv->arg, (size_t)count * sizeof *m->arg);
    m->arg[0] = *x;
    m->arg[count] = *gate;
    m->row = &situ__onnx_conv_gated;
    return true;
  }
  return false;
}

bool situ__match_conv(situ__match *m, const situ__program_node *end) {
  m->nodes = 0;
  const bool halved = is_halving(m, end);
  const situ__program_node *relu = halved ? situ__match_node(m, &end->arg[0], "Relu", 1) : end, *conv = NULL;
  if (relu && is_op(relu, "Relu")) {
    conv = situ__match_node(m, &relu->arg[0], "Conv", 1);
    m->row = halved ? &situ__onnx_conv_relu_pool : &situ__onnx_conv_relu;
  } else if (!halved && situ__match_silu(m, end)) {
    conv = situ__match_node(m, &m->arg[0], "Conv", 2);
    m->row = &situ__onnx_conv_silu;
  }
  if (!conv) return m->nodes = 0, match_gated(m, end);
  memcpy(m->arg, conv->arg, (size_t)situ__op_row_args(conv->row) * sizeof *m->arg);
  return true;
}
