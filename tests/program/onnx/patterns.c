/* GELU, layer and RMS norm and attention that an ONNX file has as their arithmetic become one call, with the values of the
   arithmetic; what differs in a constant, an axis or a use is left alone. Also with other, drawn shapes of inputs and
   constants: what runs without the one call runs with it, and gives the same.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/format/protobuf_write.h"
#include "program/graph/module.h"
#include "situ/situ.h"

/* ---- graphs, written as "Op input input attribute=1 > output; ..." ---- */

/* Inputs by their first letter. A number is a 0-dim constant, "[1]" a vector of one, "i-1" a vector of a whole number,
   and "w8" or "w8x8" a parameter of that shape. */
static const struct {
  char letter;
  int64_t size[5];
} inputs[] = { { 'x', { 2, 5, 8 } },    { 'z', { 2, 5, 8 } },    { 'q', { 2, 2, 5, 8 } }, { 't', { 2, 2, 8, 6 } },
               { 'k', { 2, 6, 2, 8 } }, { 'v', { 2, 2, 6, 8 } }, { 'm', { 5, 6 } },       { 'n', { 3, 1, 1, 5, 6 } },
               { 'X', { 1, 2, 5, 8 } }, { 'G', { 1, 2, 1, 1 } }, { 'H', { 2, 2, 1, 1 } } };
enum { INPUTS = sizeof inputs / sizeof *inputs, NAMES = 64, LINE = 512 };

/* Shapes are drawn while it is not 0: sizes become 1, dimensions are left out or added. */
static uint64_t draws;

static uint64_t draw(uint64_t below) {
  draws = draws * 6364136223846793005u + 1442695040888963407u;
  return (draws >> 33) % below;
}

static int draw_shape(int64_t *size, int dims) {
  const uint64_t kind = draws && dims ? draw(7) : 0;
  if (kind == 4) size[draw((uint64_t)dims)] = 1;
  if (kind == 5) memmove(size, size + 1, (size_t)--dims * sizeof *size);
  if (kind == 6 && dims < 5) {
    memmove(size + 1, size, (size_t)dims++ * sizeof *size);
    size[0] = 1;
  }
  return dims;
}

/* Of a number: 0-dim, vectors and more of one element, or one for each of two channels. */
static int draw_number(int64_t *size, int dims) {
  const int drawn = draws ? (int)draw(6) : 5;
  size[0] = drawn == 4 ? 2 : 1;
  return drawn == 5 ? dims : drawn == 4 ? 3 : drawn;
}

typedef struct graph {
  situ__protobuf_writer body;
  char name[NAMES][16]; /* values that are there: inputs, constants, results */
  int names;
  bool all; /* each result is also one of the graph's */
  situ_tree *in;
} graph;

static bool is_new(graph *g, const char *name) {
  for (int i = 0; i < g->names; i++)
    if (strcmp(g->name[i], name) == 0) return false;
  assert_true(g->names < NAMES);
  (void)snprintf(g->name[g->names++], sizeof g->name[0], "%s", name);
  return true;
}

static void put(situ__protobuf_writer *to, uint32_t field, situ__protobuf_writer *part) {
  situ__protobuf_put_message(to, field, part);
  situ__protobuf_free(part);
}

/* A ValueInfoProto of f32. */
static void put_value(graph *g, uint32_t field, const char *name, const int64_t *size, int dims) {
  situ__protobuf_writer shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 };
  for (int d = 0; d < dims; d++) {
    situ__protobuf_writer dim = { 0 };
    situ__protobuf_put_int(&dim, 1, size[d]);
    put(&shape, 1, &dim);
  }
  situ__protobuf_put_int(&tensor, 1, 1);
  if (size) put(&tensor, 2, &shape);
  put(&type, 1, &tensor);
  situ__protobuf_put_text(&value, 1, name);
  put(&value, 2, &type);
  put(&g->body, field, &value);
}

static void put_initialiser(graph *g, const char *name, const int64_t *size, int dims, int dtype, const void *data) {
  situ__protobuf_writer t = { 0 };
  int64_t count = 1;
  for (int d = 0; d < dims; d++) {
    situ__protobuf_put_int(&t, 1, size[d]);
    count *= size[d];
  }
  situ__protobuf_put_int(&t, 2, dtype);
  situ__protobuf_put_text(&t, 8, name);
  situ__protobuf_put_bytes(&t, 9, data, (size_t)count * (dtype == 1 ? 4 : 8));
  put(&g->body, 5, &t);
}

static void put_operand(graph *g, const char *name) {
  float number[64];
  int64_t size[5] = { 1, 1, 1, 1, 1 }, whole;
  if (!is_new(g, name)) return;
  if (*name == 'w') {
    int dims = sscanf(name, "w%" SCNd64 "x%" SCNd64 "x%" SCNd64 "x%" SCNd64, &size[0], &size[1], &size[2], &size[3]);
    for (int i = 0; i < 64; i++) number[i] = (float)(i % 7 - 3) / 4 + (float)i / 64;
    dims = draw_shape(size, dims);
    put_initialiser(g, name, size, dims, 1, number);
  } else if (*name == 'i') {
    whole = strtoll(name + 1, NULL, 10);
    put_initialiser(g, name, size, 1, 7, &whole);
  } else if (*name == '[' || (*name >= '0' && *name <= '9')) {
    for (int i = 0; i < 2; i++) number[i] = strtof(name + (*name == '['), NULL);
    const int dims = draw_number(size, *name == '[');
    put_initialiser(g, name, size, dims, 1, number);
  } else {
    for (int i = 0; i < INPUTS; i++) {
      situ_shape shape = { .ndim = 0 };
      if (inputs[i].letter != *name) continue;
      while (shape.ndim < 5 && inputs[i].size[shape.ndim])
        shape.dim[shape.ndim] = inputs[i].size[shape.ndim], shape.ndim++;
      shape.ndim = draw_shape(shape.dim, shape.ndim);
      put_value(g, 11, name, shape.dim, shape.ndim);
      g->in = situ_tree_put(g->in, name, situ_tree_tensor(situ_randn(shape, NULL)));
    }
  }
}

static void put_attribute(situ__protobuf_writer *node, const char *word) {
  situ__protobuf_writer a = { 0 };
  char name[16];
  const char *value = strchr(word, '=') + 1;
  const bool list = strncmp(word, "axis", 4) != 0 && strncmp(word, "ceil", 4) != 0;
  (void)snprintf(name, sizeof name, "%.*s", (int)(value - word) - 1, word);
  situ__protobuf_put_text(&a, 1, name);
  for (const char *at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    situ__protobuf_put_int(&a, list ? 8 : 3, strtoll(at, NULL, 10));
  situ__protobuf_put_int(&a, 20, list ? 7 : 2);
  put(node, 5, &a);
}

static void put_line(graph *g, char *line) {
  situ__protobuf_writer node = { 0 };
  char *rest = NULL, *op = strtok_r(line, " ", &rest);
  bool out = false;
  for (char *word; (word = strtok_r(NULL, " ", &rest));) {
    if (*word == '>') {
      out = true;
    } else if (strchr(word, '=')) {
      put_attribute(&node, word);
    } else {
      if (out) is_new(g, word);
      else put_operand(g, word);
      if (out && g->all) put_value(g, 12, word, NULL, 0);
      situ__protobuf_put_text(&node, out ? 2 : 1, word);
    }
  }
  situ__protobuf_put_text(&node, 3, "n");
  situ__protobuf_put_text(&node, 4, op);
  put(&g->body, 1, &node);
}

/* Loads the graph whose last result is y. all: each result is one of the program's, so none is inside a pattern. NULL if
   it is refused. */
static situ_nn_module *load_drawn(const char *text, int opset, bool all, situ_tree **in) {
  graph g = { .all = all, .in = situ_tree_dict() };
  situ__protobuf_writer model = { 0 }, import = { 0 };
  char line[LINE];
  situ_manual_seed(5);
  for (const char *at = text; *at; at += strspn(at, "; ")) {
    (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(at, ";"), at);
    at += strcspn(at, ";");
    put_line(&g, line);
  }
  if (!all) put_value(&g, 12, "y", NULL, 0);
  situ__protobuf_put_int(&model, 1, 8);
  put(&model, 7, &g.body);
  situ__protobuf_put_int(&import, 2, opset);
  put(&model, 8, &import);
  FILE *f = fopen("patterns.onnx", "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(model.data, 1, model.length, f), model.length);
  assert_int_equal(fclose(f), 0);
  situ__protobuf_free(&model);
  *in = g.in;
  return situ_export_load("patterns.onnx", NULL);
}
static situ_nn_module *load(const char *text, int opset, bool all, situ_tree **in) {
  situ_nn_module *m = load_drawn(text, opset, all, in);
  if (!m) fail_msg("%s: %s", text, situ_error_message());
  return m;
}

static int count_calls(const situ_nn_module *m, const char *target) {
  const situ__program *p = situ__program_of(m);
  int count = 0;
  for (int32_t i = 0; i < p->nodes; i++) count += !target || strcmp(p->node[i].row->target, target) == 0;
  return count;
}

/* The largest difference, relative to the largest element. */
static double distance(situ_tensor *got, situ_tensor *want) {
  double difference = NAN, scale = NAN;
  const situ_shape a = situ_shape_of(got), b = situ_shape_of(want);
  if (a.ndim != b.ndim || memcmp(a.dim, b.dim, (size_t)a.ndim * sizeof *a.dim) != 0) return INFINITY;
  assert_int_equal(situ_item(situ_max(situ_abs(situ_sub(got, want))), &difference), SITU_OK);
  assert_int_equal(situ_item(situ_max(situ_abs(want)), &scale), SITU_OK);
  return difference / scale;
}

/* ---- the cases ---- */

typedef struct pattern {
  const char *graph;
  int opset;
  const char *call; /* that it becomes; NULL: none */
  int calls;        /* of the whole program, if it does */
} pattern;

#define ERF "Div x 1.41421356 > a; Erf a > b; Add b 1 > c; "
#define TANH "Mul 0.044715 p > b; Add x b > c; Mul 0.7978845608 c > d; Tanh d > e; Add 1 e > f; "
#define NORM                                                                                  \
  "ReduceMean x i-1 > a; Sub x a > d; Pow d 2 > s; ReduceMean s i-1 > u; Add u 0.00001 > e; " \
  "Sqrt e > r; Div d r > "
#define RMS "Pow x 2 > s; ReduceMean s i-1 > u; Add u 0.00001 > e; Sqrt e > r; "
#define SCORES "Transpose k perm=0,2,3,1 > o; MatMul q o > a; Div a 2.82842712 > b; "

static const pattern patterns[] = {
  { ERF "Mul x c > d; Mul d 0.5 > y", 16, "Gelu", 1 },
  { ERF "Mul 0.5 c > d; Mul x d > y", 16, "Gelu", 1 },
  { ERF "Mul x 0.5 > d; Mul d c > y", 16, "Gelu", 1 },
  { "Mul 0.70710678 x > a; Erf a > b; Add 1 b > c; Mul c x > d; Mul 0.5 d > y", 16, "Gelu", 1 },
  { "Neg z > x; " ERF "Mul x c > d; Mul d 0.5 > e; Neg e > y", 16, "Gelu", 3 },
  { "Pow x 3 > p; " TANH "Mul 0.5 f > g; Mul x g > y", 16, "Gelu", 1 },
  { "Mul x x > s; Mul x s > p; " TANH "Mul x f > g; Mul 0.5 g > y", 16, "Gelu", 1 },
  { "Mul x x > s; Mul s x > p; " TANH "Mul x 0.5 > g; Mul f g > y", 16, "Gelu", 1 },
  { ERF "Mul x c > d; Mul d 0.51 > y", 16, NULL, 0 },                                          /* another factor */
  { "Div x 1.5 > a; Erf a > b; Add b 1 > c; Mul x c > d; Mul d 0.5 > y", 16, NULL, 0 },        /* another root */
  { "Div z 1.41421356 > a; Erf a > b; Add b 1 > c; Mul x c > d; Mul d 0.5 > y", 16, NULL, 0 }, /* another x */
  { ERF "Mul x c > d; Mul d [0.5] > y", 16, NULL, 0 },                /* a vector, which could add a dimension */
  { ERF "Mul x c > d; Mul d 0.5 > g; Add g b > y", 16, NULL, 0 },     /* erf is used twice */
  { "Pow x 2 > p; " TANH "Mul 0.5 f > g; Mul x g > y", 16, NULL, 0 }, /* x^2 */
  { "Pow z 3 > p; " TANH "Mul 0.5 f > g; Mul x g > y", 16, NULL, 0 }, /* z^3 */

  { "Sigmoid x > a; Mul x a > y", 16, "Swish", 1 },
  { "Neg z > x; Sigmoid x > a; Mul a x > b; Neg b > y", 16, "Swish", 3 },
  { "Sigmoid z > a; Mul x a > y", 16, NULL, 0 },              /* of another */
  { "Sigmoid x > a; Mul x a > b; Add a b > y", 16, NULL, 0 }, /* used twice */
  { "Sigmoid x > a; Mul a a > y", 16, NULL, 0 },

  { NORM "f; Mul f w8 > g; Add g w8 > y", 18, "LayerNormalization", 1 },
  { NORM "f; Mul w8 f > g; Add w8 g > y", 18, "LayerNormalization", 1 },
  { NORM "f; Mul f w8 > y", 18, "LayerNormalization", 1 },
  { NORM "y", 18, "LayerNormalization", 1 },
  { NORM "f; Mul f w8 > g; Add g x > y", 18, "LayerNormalization", 2 },  /* what is added is not a bias */
  { NORM "f; Mul f w8 > g; Add g w1 > y", 18, "LayerNormalization", 2 }, /* nor is that: it has another shape */
  { NORM "f; Mul f w5x8 > y", 18, "LayerNormalization", 2 },
  { "ReduceMean x axes=-1 > a; Sub x a > d; Mul d d > s; ReduceMean s axes=-1 > u; Add u 0.1 > e; Sqrt e > r; "
    "Div d r > f; Mul f w8 > g; Add g w8 > y",
    16, "LayerNormalization", 1 },
  { "ReduceMean x axes=-1,-2 > a; Sub x a > d; Pow d 2 > s; ReduceMean s axes=-2,-1 > u; Add u 0.1 > e; Sqrt e > r; "
    "Div d r > f; Mul f w5x8 > y",
    16, "LayerNormalization", 1 },
  { "ReduceMean x i1 > a; Sub x a > d; Pow d 2 > s; ReduceMean s i1 > u; Add u 0.1 > e; Sqrt e > r; Div d r > y", 18,
    NULL, 0 }, /* another axis */
  { "ReduceMean x i-2 > a; Sub x a > d; Pow d 2 > s; ReduceMean s i-2 > u; Add u 0.1 > e; Sqrt e > r; Div d r > y", 18,
    NULL, 0 },
  { "ReduceMean x i-1 > a; Sub x a > d; Pow d 2 > s; ReduceMean s i-2 > u; Add u 0.1 > e; Sqrt e > r; Div d r > y", 18,
    NULL, 0 },
  { "ReduceMean x i-1 > a; Sub x a > d; Pow d 2 > s; ReduceMean s i-1 > u; Sqrt u > e; Add e 0.1 > r; Div d r > y", 18,
    NULL, 0 }, /* eps after the root */
  { "ReduceMean x i-1 > a; Sub x a > d; Pow d 3 > s; ReduceMean s i-1 > u; Add u 9 > e; Sqrt e > r; Div d r > y", 18,
    NULL, 0 }, /* d^3 */
  { "ReduceMean z i-1 > a; Sub x a > d; Pow d 2 > s; ReduceMean s i-1 > u; Add u 0.1 > e; Sqrt e > r; Div d r > y", 18,
    NULL, 0 },                            /* the mean of another */
  { NORM "f; Add f d > y", 18, NULL, 0 }, /* d is used once more */
  { NORM "f; Add f u > y", 18, NULL, 0 }, /* and the variance */

  { RMS "Reciprocal r > i; Mul x i > f; Mul w8 f > y", 18, "RMSNormalization", 1 },
  { RMS "Reciprocal r > i; Mul i x > f; Mul f w8 > g; Neg g > y", 18, "RMSNormalization", 2 },
  { RMS "Div x r > f; Mul f w8 > y", 18, "RMSNormalization", 1 },
  { RMS "Div x r > f; Mul f w1 > y", 18, "RMSNormalization", 1 },
  { RMS "Reciprocal r > i; Mul z i > f; Mul f w8 > y", 18, NULL, 0 }, /* of another */
  { RMS "Div r x > f; Mul f w8 > y", 18, NULL, 0 },                   /* the other way round */
  { RMS "Div x r > f; Mul f w5x8 > y", 18, NULL, 0 },                 /* a weight of other dimensions */
  { RMS "Div x r > f; Mul f z > y", 18, NULL, 0 },                    /* no weight */
  { RMS "Div x r > f; Mul f w8 > g; Add f g > y", 18, NULL, 0 },      /* used twice */
  { RMS "Reciprocal r > i; Mul x i > f; Mul f w8 > g; Add g i > y", 18, NULL, 0 },

  { "Conv q w3x2x3x3 w3 pads=1,1,1,1 > a; Relu a > y", 16, "conv_relu", 1 },
  { "Conv q w3x2x3x3 strides=2,2 > a; Relu a > b; Neg b > y", 16, "conv_relu", 2 },
  { "Conv q w3x2x3x3 pads=1,1,1,1 > a; Relu a > b; Add a b > y", 16, NULL, 0 }, /* used twice */
  { "Conv q w3x2x3x3 w3 pads=1,1,1,1 > a; Relu a > b; MaxPool b kernel_shape=2,2 strides=2,2 > y", 16, "conv_relu_pool",
    1 },
  { "Conv q w3x2x3x3 pads=1,1,1,1 > a; Relu a > b; MaxPool b dilations=1,1 kernel_shape=2,2 pads=0,0,0,0 strides=2,2 "
    "ceil_mode=0 > y",
    16, "conv_relu_pool", 1 },
  { "Conv q w3x2x3x3 > a; Relu a > b; MaxPool b kernel_shape=2,2 > y", 16, "conv_relu", 2 }, /* at stride 1 */
  { "Conv q w3x2x3x3 > a; Relu a > b; MaxPool b kernel_shape=2,2 strides=2,1 > y", 16, "conv_relu", 2 },
  { "Conv q w3x2x3x3 > a; Relu a > b; MaxPool b kernel_shape=3,2 strides=2,2 > y", 16, "conv_relu", 2 },
  { "Conv q w3x2x3x3 > a; Relu a > b; MaxPool b kernel_shape=2,2 strides=2,2 pads=1,1,1,1 > y", 16, "conv_relu", 2 },
  { "Conv q w3x2x3x3 > a; Relu a > b; MaxPool b kernel_shape=2,2 strides=2,2 dilations=1,2 > y", 16, "conv_relu", 2 },
  { "Conv q w3x2x3x3 > a; Relu a > b; MaxPool b kernel_shape=2,2 strides=2,2 ceil_mode=1 > y", 16, "conv_relu", 2 },
  { "Conv q w3x2x3x3 pads=1,1,1,1 > a; MaxPool a kernel_shape=2,2 strides=2,2 > y", 16, NULL, 0 }, /* without ReLU */
  { "Conv q w3x2x3x3 pads=1,1,1,1 > a; Relu a > b; MaxPool b kernel_shape=2,2 strides=2,2 > c; "
    "MaxPool b kernel_shape=2,2 strides=2,2 > d; Add c d > y",
    16, "conv_relu", 4 }, /* used twice */
  { "Conv q w3x2x3x3 w3 pads=1,1,1,1 > a; Sigmoid a > b; Mul a b > y", 16, "conv_silu", 1 },
  { "Conv q w3x2x3x3 strides=2,2 > a; Sigmoid a > b; Mul b a > c; Neg c > y", 16, "conv_silu", 2 },
  { "Conv q w3x2x3x3 > a; Sigmoid a > b; Mul a b > c; Add a c > y", 16, "Swish", 3 }, /* used once more */

  { "Sigmoid G > a; Mul a X > b; Conv b w3x2x1x1 w3 > y", 16, "conv_gated", 2 },
  { "HardSigmoid G > a; Mul X a > b; Conv b w3x2x3x3 pads=1,1,1,1 strides=2,2 > c; Neg c > y", 16, "conv_gated", 3 },
  { "Sigmoid G > a; Mul a X > b; Conv b w3x2x1x1 pads=0,0,1,1 > y", 16, "conv_gated", 2 }, /* padded on one side */
  { "Sigmoid G > a; Mul a X > b; Conv b w8x2x2x2 > y", 16, "conv_gated", 2 },              /* a large weight */
  { "Sigmoid H > a; Mul a q > b; Conv b w3x2x1x1 > y", 16, "conv_gated", 2 },              /* two images */
  { "Sigmoid H > a; Mul a X > b; Conv b w3x2x1x1 > y", 16, "conv_gated", 2 }, /* and one that becomes two */
  { "Sigmoid q > a; Mul a X > b; Conv b w3x2x1x1 > y", 16, "conv_gated", 2 }, /* a gate for each element */
  { "Sigmoid q > a; Mul a q > b; Conv b w3x2x1x1 > y", 16, "Swish", 2 },
  { "Sigmoid G > a; Mul a X > b; Conv b w3x2x1x1 > c; Relu c > y", 16, "conv_relu", 3 },
  { "Sigmoid G > a; Mul a X > b; Conv b w2x2x1x1 > c; Add b c > y", 16, NULL, 0 }, /* used twice */
  { "Neg G > a; Mul a X > b; Conv b w3x2x1x1 > y", 16, NULL, 0 },                  /* not a sigmoid */

  { SCORES "Softmax b axis=-1 > c; MatMul c v > y", 16, "attention", 2 },
  { SCORES "Softmax b axis=3 > c; MatMul c v > y", 16, "attention", 2 },
  { SCORES "Add b m > d; Softmax d axis=-1 > c; MatMul c v > y", 16, "attention", 2 },
  { SCORES "Add m b > d; Softmax d axis=-1 > c; MatMul c v > y", 16, "attention", 2 },
  { SCORES "Add b n > d; Softmax d axis=-1 > c; MatMul c v > y", 16, "attention", 2 }, /* a mask of 5 dimensions */
  { "MatMul q t > a; Mul a 0.3 > b; Softmax b axis=-1 > c; MatMul c v > y", 16, "attention", 1 },
  { "Mul q [0.5] > f; Mul [0.7] t > g; MatMul f g > b; Add b m > d; Softmax d axis=-1 > c; MatMul c v > y", 16,
    "attention", 1 },
  { "MatMul q t > b; Softmax b axis=-1 > c; MatMul c v > d; Neg d > y", 16, "attention", 2 },
  { SCORES "Softmax b axis=2 > c; MatMul c v > y", 16, "attention", 2 }, /* by its products */
  { SCORES "Softmax b axis=-2 > c; MatMul c v > y", 16, NULL, 0 },       /* another axis */
  { SCORES "Softmax b axis=-1 > c; MatMul c v > d; ReduceMean c i-1 > e; Add d e > y", 18, NULL, 0 }, /* the weights */
  { SCORES "Softmax b axis=-1 > c; MatMul c v > d; ReduceMean b i-1 > e; Add d e > y", 18, NULL, 0 }, /* the scores */
};

static void gives_the_same(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    const pattern *p = &patterns[i];
    situ_tree *in, *again;
    situ_scope scope;
    situ_scope_begin_no_grad(&scope);
    situ_nn_module *m = load(p->graph, p->opset, false, &in), *apart = load(p->graph, p->opset, true, &again);
    const int fused = count_calls(m, "Gelu") + count_calls(m, "Swish") + count_calls(m, "LayerNormalization") +
                      count_calls(m, "RMSNormalization") + count_calls(m, "attention") + count_calls(m, "conv_relu") +
                      count_calls(m, "conv_relu_pool") + count_calls(m, "conv_silu") + count_calls(m, "conv_gated");
    if (fused != (p->call != NULL) || (p->call && count_calls(m, p->call) != 1))
      fail_msg("%s has %d calls instead of %s", p->graph, fused, p->call ? p->call : "its nodes");
    if (p->call && count_calls(m, NULL) != p->calls) fail_msg("%s has %d calls", p->graph, count_calls(m, NULL));
    assert_int_equal(count_calls(apart, "Gelu") + count_calls(apart, "Swish") + count_calls(apart, "attention"), 0);
    situ_tree *got = situ_nn_call(m, in), *want = situ_nn_call(apart, again);
    if (!got || !want) fail_msg("%s: %s", p->graph, situ_error_message());
    const double d = distance(situ_tree_value(got), situ_tree_get(want, "y"));
    if (!(d < 2e-6)) fail_msg("%s differs by %g", p->graph, d);
    situ_tree_free(got);
    situ_tree_free(want);
    situ_tree_free(in);
    situ_tree_free(again);
    situ_nn_free(m);
    situ_nn_free(apart);
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
  }
}

/* Whether the graph of these draws runs without fusion. */
static bool check_draw(const pattern *p, uint64_t seed) {
  situ_tree *in = NULL, *again = NULL, *want = NULL, *got = NULL;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  draws = seed;
  situ_nn_module *apart = load_drawn(p->graph, p->opset, true, &again);
  draws = seed;
  if (apart) want = situ_nn_call(apart, again);
  if (!want) situ_error_clear();
  situ_nn_module *m = want ? load_drawn(p->graph, p->opset, false, &in) : NULL;
  draws = 0;
  if (m) got = situ_nn_call(m, in);
  if (want && !got) fail_msg("%s, draw %" PRIu64 ": %s", p->graph, seed, situ_error_message());
  situ_tensor *a = got ? situ_tree_value(got) : NULL, *b = want ? situ_tree_get(want, "y") : NULL;
  bool close = !want;
  const situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  if (want && x.ndim == y.ndim) assert_int_equal(situ_allclose(a, b, 1e-4, 1e-5, true, &close), SITU_OK);
  if (!close) fail_msg("%s, draw %" PRIu64 " differs", p->graph, seed);
  const bool ran = want != NULL;
  situ_tree_free(got);
  situ_tree_free(want);
  situ_tree_free(in);
  situ_tree_free(again);
  situ_nn_free(m);
  situ_nn_free(apart);
  situ_error_clear();
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  return ran;
}
static void gives_the_same_of_other_shapes(void **state) {
  const uint64_t times = getenv("SITU_TEST_ALL") ? 400 : 8;
  int ran = 0;
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
    for (uint64_t seed = 1; seed <= times; seed++) ran += check_draw(&patterns[i], seed * 1000003 + i);
  situ_error_mode(SITU_ERROR_LOG);
  print_message("%d of %d drawn graphs run\n", ran, (int)(times * (sizeof patterns / sizeof *patterns)));
  assert_true(ran > (int)(times * (sizeof patterns / sizeof *patterns)) / 4);
}

/* The parameters of a pattern stay the module's own, under their names, and get gradients; its constants are gone. */
static void keeps_parameters(void **state) {
  (void)state;
  situ_tree *in;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = load(NORM "f; Mul f w8 > y", 18, false, &in);
  situ_tree *dict = situ_nn_state_dict(m), *out = situ_nn_call(m, in);
  assert_int_equal(situ_tree_count(dict), 1);
  assert_int_equal(situ_backward(situ_sum(situ_tree_value(out), NULL), NULL), SITU_OK);
  assert_non_null(situ_grad(situ_tree_get(dict, "w8")));
  situ_tree_free(out);
  situ_tree_free(dict);
  situ_tree_free(in);
  situ_nn_free(m);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(gives_the_same),
                                      cmocka_unit_test(gives_the_same_of_other_shapes),
                                      cmocka_unit_test(keeps_parameters) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
