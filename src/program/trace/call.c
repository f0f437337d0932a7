/* Writes one call of an op as calls of ATen overloads, for situ_op.traced.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "program/graph/bind.h"
#include "trace.h"
#include "situ/sys/explain.h"

enum { MOST = 16 };

/* ---- arguments ---- */

static bool read_tensor(situ__trace *t, situ_tensor *tensor, situ__arg *out) {
  *out = (situ__arg){ .kind = SITU__ARG_NONE };
  if (!tensor) return true;
  const int32_t value = situ__trace_value(t, tensor);
  *out = (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = value };
  return value >= 0;
}

static bool read_list(situ__trace *t, situ_tensor *const *tensors, int count, situ__arg *out) {
  situ__arg *list = situ__arena_take(&t->program->arena, (size_t)count, sizeof *list);
  if (!list) return !(t->failed = true);
  *out = (situ__arg){ .kind = SITU__ARG_LIST, .count = count, .list = list };
  for (int i = 0; i < count; i++)
    if (!read_tensor(t, tensors[i], &list[i])) return false;
  return true;
}

static bool read_sizes(situ__trace *t, const situ_shape *sizes, situ__arg *out) {
  situ__arg *list = situ__arena_take(&t->program->arena, (size_t)sizes->ndim + 1, sizeof *list);
  if (!list) return !(t->failed = true);
  *out = (situ__arg){ .kind = SITU__ARG_LIST, .count = sizes->ndim, .list = list };
  for (int i = 0; i < sizes->ndim; i++) list[i] = (situ__arg){ .kind = SITU__ARG_INT, .integer = sizes->dim[i] };
  return true;
}

/* A number is an integer for a tensor of integers, which a float would promote. */
static bool is_integer_call(const situ_call *c) {
  for (int i = 0; i < c->ins; i++)
    if (c->in[i] && situ_dtype_is_floating(situ_dtype_of(c->in[i]))) return false;
  return true;
}

static situ__arg number(const situ__trace *t, double value) {
  if (is_integer_call(t->call) && value == floor(value) && fabs(value) < 0x1p53)
    return (situ__arg){ .kind = SITU__ARG_INT, .integer = (int64_t)value };
  return (situ__arg){ .kind = SITU__ARG_FLOAT, .real = value };
}

static bool read_arg(situ__trace *t, char code, va_list args, situ__arg *out) {
  switch (code) {
  case 't': return read_tensor(t, va_arg(args, situ_tensor *), out);
  case 'T': {
    situ_tensor *const *tensors = va_arg(args, situ_tensor *const *);
    return read_list(t, tensors, va_arg(args, int), out);
  }
  case 'I': return read_sizes(t, va_arg(args, const situ_shape *), out);
  case 'i': *out = (situ__arg){ .kind = SITU__ARG_INT, .integer = va_arg(args, int64_t) }; break;
  case 'n': *out = number(t, va_arg(args, double)); break;
  case 'b': *out = (situ__arg){ .kind = SITU__ARG_BOOL, .integer = va_arg(args, int) != 0 }; break;
  case 's': *out = (situ__arg){ .kind = SITU__ARG_TEXT, .text = va_arg(args, const char *) }; break;
  case 'd':
    *out = (situ__arg){ .kind = SITU__ARG_DTYPE, .integer = va_arg(args, situ_dtype) };
    if (out->integer == SITU_DTYPE_DEFAULT) out->kind = SITU__ARG_NONE;
    break;
  case '^': *out = (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = t->last }; break;
  default: *out = (situ__arg){ .kind = SITU__ARG_NONE }; break;
  }
  return true;
}

/* ---- nodes ---- */

static bool has_module(const situ__trace *t, const char *path) {
  situ__errors own;
  situ__errors_aside(&own);
  const bool there = situ_nn_get_submodule(t->module, path) != NULL;
  return situ__errors_back(&own, NULL, 0) == SITU_OK && there;
}

/* The path of the module that runs, or of the innermost around it that exists: the parts of an ONNX program that have
   no parameters do not. */
const char *situ__trace_module(situ__trace *t) {
  char path[SITU_PATH_TEXT];
  (void)situ_nn_running(path, sizeof path);
  while (*path && !has_module(t, path)) {
    char *dot = strrchr(path, '.');
    *(dot ? dot : path) = 0;
  }
  return situ__arena_text(&t->program->arena, path, strlen(path));
}

/* The result of a call that is not its op's last one has the dtype of the op's, and its shape; that of an elementwise
   one has the shape of the op's input, which the last one may reduce. */
static bool end_pending(situ__trace *t) {
  if (t->pending < 0) return true;
  const situ__op_row *row = t->program->node[t->pending].row, *first = situ__elementwise_family.row;
  situ_view_desc like = *situ_desc(t->call->out[0]);
  if (row >= first && row < first + situ__elementwise_family.count) {
    const uint8_t dtype = like.dtype;
    like = *situ_desc(t->call->in[0]);
    like.dtype = dtype;
  }
  t->last = situ__trace_result(t, NULL, &like);
  return t->last >= 0 && situ__trace_end_node(t, &t->last, 1);
}

static bool add_node(situ__trace *t, const char *target, const char *codes, va_list args) {
  situ__named_arg given[MOST];
  char name[MOST][32];
  const situ__op_row *row = situ__op_row_of(target);
  if (!row) return situ__trace_lacks(t, target, "is not among the calls of programs");
  int count = 0;
  for (; codes[count]; count++) {
    const char *text;
    int length;
    if (count == MOST || !situ__op_parameter(row, count, &text, &length) || length >= (int)sizeof *name)
      return situ__trace_lacks(t, target, "has fewer parameters");
    (void)snprintf(name[count], sizeof *name, "%.*s", length, text);
    given[count].name = name[count];
    if (!read_arg(t, codes[count], args, &given[count].arg)) return false;
  }
  const situ__arg *arg;
  situ__text problem = { 0 };
  const bool fits = situ__bind_args(&t->program->arena, row, given, count, &arg, &problem);
  if (!fits) situ__trace_lacks(t, target, problem.data ? problem.data : "");
  situ__text_free(&problem);
  situ__program_node *n = fits ? situ__program_add_node(t->program) : NULL;
  if (!n) return fits ? !(t->failed = true) : false;
  n->row = row;
  n->arg = arg;
  n->module = situ__trace_module(t);
  n->no_grad = false;
  n->guard = t->flow.guard;
  t->pending = t->program->nodes - 1;
  return n->module || !(t->failed = true);
}

bool situ__trace_call(situ_export_trace *trace, const char *target, const char *codes, va_list args) {
  situ__trace *t = (situ__trace *)trace;
  if (!t->call && !t->ended) return situ__fail(SITU_E_STATE, "export_call", "outside of situ_op.traced"), false;
  if (!target) return situ__trace_lacks(t, t->call->op->name, "with these arguments has no form in torch.export");
  if (!end_pending(t)) return false;
  char named[64];
  if (*target == '*') {
    (void)snprintf(named, sizeof named, "%s%s", t->call->op->name, target + 1);
    target = named;
  }
  return add_node(t, target, codes, args);
}
