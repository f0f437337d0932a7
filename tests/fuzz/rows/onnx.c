/* Writes an ONNX model of drawn nodes.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "draw.h"

typedef situ__protobuf_writer message;

enum { FLOAT = 1, UINT8 = 2, INT8 = 3, INT64 = 7 }; /* TensorProto.DataType */
enum { LISTS = 2, SCALES = 2, ZEROS = 2, OPERANDS = ROWS_OPERANDS + LISTS + SCALES + ZEROS };

typedef struct writing {
  draw *d;
  message graph;
  int results;
} writing;

static void put_and_free(message *out, uint32_t number, message *m) {
  situ__protobuf_put_message(out, number, m);
  situ__protobuf_free(m);
}

/* ---- operands: any, lists of whole numbers, scales, zero points ---- */

static const char *name_operand(int i, char out[16]) {
  (void)snprintf(out, 16, "t%d", i);
  return out;
}

static message tensor_of(draw *d, const char *name, int dtype, const draw_sizes *s) {
  message t = { 0 };
  int64_t count = 1;
  for (int i = 0; i < s->count; i++) {
    situ__protobuf_put_int(&t, 1, s->dim[i]);
    count *= s->dim[i];
  }
  situ__protobuf_put_int(&t, 2, dtype);
  situ__protobuf_put_text(&t, 8, name);
  const uint32_t field = dtype == FLOAT ? 4 : dtype == INT64 ? 7 : 5;
  /* a few numbers again and again */
  const unsigned some = 1 + draw_below(d, 4);
  int64_t whole[4];
  double real[4];
  for (unsigned i = 0; i < some; i++)
    if (dtype == FLOAT) real[i] = draw_real(d);
    else whole[i] = draw_int(d);
  for (int64_t i = 0; i < count && i < 1024; i++)
    if (dtype == FLOAT) situ__protobuf_put_float(&t, field, (float)real[i % some]);
    else situ__protobuf_put_int(&t, field, whole[i % some]);
  return t;
}

static void put_initialiser(writing *w, const char *name, int dtype, const draw_sizes *s) {
  message t = tensor_of(w->d, name, dtype, s);
  put_and_free(&w->graph, 5, &t);
}

static void put_input(writing *w, const char *name, int dtype, const draw_sizes *s) {
  message shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 };
  for (int i = 0; i < s->count; i++) {
    message dim = { 0 };
    if (draw_once_in(w->d, 8)) situ__protobuf_put_text(&dim, 2, draw_once_in(w->d, 2) ? "n" : "m");
    else situ__protobuf_put_int(&dim, 1, s->dim[i]);
    put_and_free(&shape, 1, &dim);
  }
  situ__protobuf_put_int(&tensor, 1, dtype);
  put_and_free(&tensor, 2, &shape);
  put_and_free(&type, 1, &tensor);
  situ__protobuf_put_text(&value, 1, name);
  put_and_free(&value, 2, &type);
  put_and_free(&w->graph, 11, &value);
}

static void put_operands(writing *w) {
  static const int dtypes[] = { FLOAT, FLOAT, FLOAT, FLOAT, UINT8, INT8, INT64, 6, 9, 11, 10, 16, 5, 4, 12, 8 };
  draw *d = w->d;
  char name[16];
  const draw_sizes common = draw_shape(d, NULL), one = { .count = 1, .dim = { 1 } }, none = { 0 };
  int i = 0;
  for (; i < ROWS_OPERANDS; i++) {
    const draw_sizes s = draw_shape(d, &common);
    const int dtype = dtypes[draw_below(d, 16)];
    if (draw_once_in(d, 2)) put_initialiser(w, name_operand(i, name), dtype, &s);
    else put_input(w, name_operand(i, name), dtype, &s);
  }
  for (; i < ROWS_OPERANDS + LISTS; i++) {
    const draw_sizes s = { .count = !draw_once_in(d, 8), .dim = { draw_length(d) } };
    put_initialiser(w, name_operand(i, name), INT64, &s);
  }
  for (; i < ROWS_OPERANDS + LISTS + SCALES; i++)
    put_initialiser(w, name_operand(i, name), FLOAT, draw_once_in(d, 4) ? &one : &none);
  for (; i < OPERANDS; i++)
    put_initialiser(w, name_operand(i, name), draw_once_in(d, 2) ? INT8 : UINT8, draw_once_in(d, 4) ? &one : &none);
}

/* ---- nodes ---- */

static void put_operand(writing *w, message *node, const draw_parameter *p) {
  char name[16];
  const int lists = ROWS_OPERANDS, scales = lists + LISTS, zeros = scales + SCALES;
  const bool usual = !draw_once_in(w->d, 8);
  int i = (int)draw_below(w->d, (unsigned)(OPERANDS + w->results));
  if (i >= ROWS_OPERANDS && i < OPERANDS) i %= ROWS_OPERANDS;
  if (usual && p->type == 'h') i = lists + (int)draw_below(w->d, LISTS);
  if (usual && strstr(p->name, "scale")) i = scales + (int)draw_below(w->d, SCALES);
  if (usual && strstr(p->name, "zero_point")) i = zeros + (int)draw_below(w->d, ZEROS);
  situ__protobuf_put_text(node, 1, name_operand(i, name));
}

static void put_attribute(writing *w, message *node, const draw_parameter *p) {
  enum { TYPE_FLOAT = 1, TYPE_INT, TYPE_TEXT, TYPE_TENSOR, TYPE_FLOATS = 6, TYPE_INTS, TYPE_TEXTS };
  message a = { 0 };
  draw *d = w->d;
  situ__protobuf_put_text(&a, 1, p->name);
  const char *const types = "niFItsS";
  int type = draw_once_in(d, 64) ? types[draw_below(d, 7)] : p->type;
  if (type == 'n') situ__protobuf_put_float(&a, 2, (float)draw_real(d));
  if (type == 'i' || type == 'b' || type == 'd') situ__protobuf_put_int(&a, 3, draw_int(d));
  if (type == 's' || type == '_') situ__protobuf_put_text(&a, 4, *p->choice ? p->choice : "any");
  if (type == 't' || type == 'x') {
    const draw_sizes s = draw_shape(d, NULL);
    message t = tensor_of(d, "", draw_once_in(d, 2) ? INT64 : FLOAT, &s);
    put_and_free(&a, 5, &t);
  }
  if (type == 'F')
    for (int i = draw_length(d); i; i--) situ__protobuf_put_float(&a, 7, (float)draw_real(d));
  if (type == 'I' || type == 'h')
    for (int i = draw_length(d); i; i--) situ__protobuf_put_int(&a, 8, draw_int(d));
  if (type == 'S')
    for (int i = draw_length(d); i; i--) situ__protobuf_put_text(&a, 9, "tanh");
  situ__protobuf_put_int(&a, 20,
                         type == 'n'                  ? TYPE_FLOAT
                         : type == 'F'                ? TYPE_FLOATS
                         : type == 'S'                ? TYPE_TEXTS
                         : type == 't' || type == 'x' ? TYPE_TENSOR
                         : type == 'I' || type == 'h' ? TYPE_INTS
                         : type == 's' || type == '_' ? TYPE_TEXT
                                                      : TYPE_INT);
  put_and_free(node, 5, &a);
}

static void put_node(writing *w, const situ__op_row *row) {
  message node = { 0 };
  draw_parameter p;
  char name[16];
  const char *at = row->parameters;
  for (int k = 0; (at = draw_next(w->d, at, &p)); k++) {
    if (k >= row->inputs) {
      if (!p.optional || draw_once_in(w->d, 3)) put_attribute(w, &node, &p);
    } else if (p.type == 'T') {
      for (int i = draw_length(w->d); i; i--) put_operand(w, &node, &p);
    } else if (p.optional && draw_once_in(w->d, 3)) {
      situ__protobuf_put_text(&node, 1, "");
    } else {
      put_operand(w, &node, &p);
    }
  }
  const int results = row->results == SITU__RESULTS_LIST ? 1 + (int)draw_below(w->d, ROWS_RESULTS)
                      : row->results                     ? row->results
                                                         : 1;
  for (int i = 0; i < results; i++) situ__protobuf_put_text(&node, 2, name_operand(OPERANDS + w->results++, name));
  const char *dot = strrchr(row->target, '.');
  situ__protobuf_put_text(&node, 4, dot ? dot + 1 : row->target);
  if (dot) situ__protobuf_put_bytes(&node, 7, row->target, (size_t)(dot - row->target));
  put_and_free(&w->graph, 1, &node);
}

static void put_opset(message *out, const char *domain, int64_t version) {
  message m = { 0 };
  situ__protobuf_put_text(&m, 1, domain);
  situ__protobuf_put_int(&m, 2, version);
  put_and_free(out, 8, &m);
}

void rows_write_onnx(draw *d, const situ__op_family *const *family, int families, message *out) {
  writing w = { .d = d };
  char name[16];
  situ__protobuf_put_int(out, 1, 8);
  put_opset(out, "", 6 + draw_below(d, 20));
  put_opset(out, "com.microsoft", 1);
  put_opset(out, "ai.onnx.ml", 3);
  put_operands(&w);
  for (int i = 1 + (int)draw_below(d, ROWS_CALLS); i; i--) put_node(&w, draw_row(d, family, families));
  for (int i = 0; i < w.results; i++) {
    message value = { 0 };
    situ__protobuf_put_text(&value, 1, name_operand(OPERANDS + i, name));
    put_and_free(&w.graph, 12, &value);
  }
  put_and_free(out, 7, &w.graph);
}
