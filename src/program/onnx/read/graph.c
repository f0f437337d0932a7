/* Reads an ONNX graph: its initialisers, inputs, nodes and outputs.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "onnx.h"

/* Graphs in attributes (If), one inside the other. */
enum { DEPTH = 16 };
/* Inputs whose free sizes may all have different names. */
enum { SYMBOLS = 4096 };

typedef struct graph {
  situ__onnx_node *node;
  int32_t nodes;
  situ__onnx_inner *inner; /* NULL: it is the model's graph */
} graph;

enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12, VALUE_INFO = 13, SPARSE = 15 }; /* GraphProto */

/* ---- values ---- */

/* The value of a name in the innermost scope that has it; -1: there is none. */
static int32_t find_value(const situ__onnx *f, const char *name) {
  int32_t v = -1;
  for (const situ__onnx_scope *s = &f->scope; s && v < 0; s = s->outer) v = situ__names_get(&s->names, name);
  return v;
}

bool situ__onnx_add_value(situ__onnx *f, const char *name, int32_t *out) {
  const bool own = situ__names_get(&f->scope.names, name) >= 0;
  const int32_t before = own ? 0 : find_value(f, name);
  /* A branch may have the name of a value that the outer graph computes after it. */
  if (own || (before >= 0 && f->about[before].ready))
    return situ__onnx_bad(f, SITU_E_FORMAT, "has two values '%s'", name);
  if (!situ__program_add_value(f->program, SITU__VALUE_TENSOR, out)) return situ__onnx_no_memory();
  int64_t capacity = f->capacity; /* of both arrays, when both have grown */
  if (!situ__grow(NULL, &f->about, &capacity, sizeof *f->about, *out + 1) ||
      !situ__grow(NULL, &f->known, &f->capacity, sizeof *f->known, *out + 1))
    return situ__onnx_no_memory();
  f->values = *out + 1;
  f->known[*out] = (situ__value){ 0 };
  f->about[*out] = (situ__onnx_value){ .name = name, .on_device = -1, .input = -1, .guard = f->guard };
  return !*name || situ__names_put(&f->scope.names, name, *out) || situ__onnx_no_memory();
}

/* ---- initialisers ---- */

static bool read_initialiser(situ__onnx *f, situ__protobuf message) {
  situ__onnx_tensor t;
  int32_t v;
  if (!situ__onnx_read_tensor(f, message, &t)) return false;
  if (!*t.name) return situ__onnx_bad(f, SITU_E_FORMAT, "has an initialiser without a name");
  if (!situ__onnx_add_value(f, t.name, &v)) return false;
  situ__onnx_value *about = &f->about[v];
  about->source = message;
  about->initialiser = about->ready = true;
  about->place = SITU__ONNX_CONSTANT;
  about->format = t.format;
  return true;
}

/* ---- inputs ---- */

/* *out: the symbol of a name; -1: there are too many, so that it is not compared. */
static bool add_symbol(situ__onnx *f, const char *name, int32_t *out) {
  situ__program *p = f->program;
  *out = situ__names_get(&f->symbols, name);
  if (*out >= 0 || p->symbols == f->symbol_capacity) return true;
  if (!situ__names_put(&f->symbols, name, p->symbols)) return situ__onnx_no_memory();
  p->symbol[p->symbols] = (situ__program_symbol){ .name = name, .most = INT64_MAX };
  *out = p->symbols++;
  return true;
}

/* A dimension of TensorShapeProto: a size, the name of a free one, or neither. named: whether the name is wanted. */
static bool read_dimension(situ__onnx *f, situ__protobuf m, bool named, struct situ__program_size *out) {
  enum { VALUE = 1, PARAM = 2 };
  *out = (struct situ__program_size){ .size = -1, .symbol = -1 };
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.number == VALUE && field.wire == SITU__PROTOBUF_VARINT)
      out->size = (int64_t)field.value < 0 ? -1 : (int64_t)field.value;
    if (named && field.number == PARAM && field.wire == SITU__PROTOBUF_BYTES && field.bytes.bytes) {
      const char *name = situ__onnx_text(f, &field.bytes);
      if (!name) return false;
      /* Exporters write "?" for a size of which nothing is known, so that two of them need not be equal. */
      if (strcmp(name, "?") != 0 && !add_symbol(f, name, &out->symbol)) return false;
    }
  }
  return !m.bad || situ__onnx_bad(f, SITU_E_FORMAT, "has a shape that is cut off");
}

/* TypeProto.Tensor: a dtype, and a shape that may be absent. */
static bool read_tensor_type(situ__onnx *f, situ__protobuf m, bool named, situ__program_input *in, uint64_t *element) {
  enum { ELEMENT = 1, SHAPE = 2 };
  *element = 0;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.number == ELEMENT && field.wire == SITU__PROTOBUF_VARINT) *element = field.value;
    if (field.number != SHAPE || field.wire != SITU__PROTOBUF_BYTES) continue;
    in->dims = 0;
    situ__protobuf shape = field.bytes;
    for (situ__protobuf_field dim; situ__protobuf_next(&shape, &dim);) {
      if (dim.number != 1 || dim.wire != SITU__PROTOBUF_BYTES) continue;
      if (in->dims == SITU_MAX_DIMS)
        return situ__onnx_bad(f, SITU_E_LIMIT, "has a value '%s' of more than %d dimensions", in->name, SITU_MAX_DIMS);
      if (!read_dimension(f, dim.bytes, named, &in->size[in->dims++])) return false;
    }
    if (shape.bad) return situ__onnx_bad(f, SITU_E_FORMAT, "has a shape that is cut off");
  }
  in->dtype = situ__onnx_dtype(*element);
  return !m.bad || situ__onnx_bad(f, SITU_E_FORMAT, "has a type that is cut off");
}

/* TypeProto. *tensor: whether it is that of a tensor. */
static bool read_type(situ__onnx *f, situ__protobuf type, bool named, situ__program_input *in, bool *tensor,
                      uint64_t *element) {
  enum { TENSOR_TYPE = 1 };
  *tensor = false;
  for (situ__protobuf_field field; situ__protobuf_next(&type, &field);)
    if (field.number == TENSOR_TYPE && field.wire == SITU__PROTOBUF_BYTES) {
      *tensor = true;
      if (!read_tensor_type(f, field.bytes, named, in, element)) return false;
    }
  *tensor = *tensor && !type.bad;
  return true;
}

/* Reads a ValueInfoProto: the name and the type, which may be absent. */
static bool read_info(situ__onnx *f, situ__protobuf m, const char **name, situ__protobuf *type) {
  *name = "";
  *type = situ__protobuf_of(NULL, 0);
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.wire != SITU__PROTOBUF_BYTES) continue;
    if (field.number == 1 && !(*name = situ__onnx_text(f, &field.bytes))) return false;
    if (field.number == 2) *type = field.bytes;
  }
  return !m.bad || situ__onnx_bad(f, SITU_E_FORMAT, "has an input or output that is cut off");
}

static bool read_input(situ__onnx *f, situ__protobuf message) {
  const char *name;
  situ__protobuf type;
  int32_t v;
  bool tensor;
  char dtype[32];
  uint64_t element;
  if (!read_info(f, message, &name, &type)) return false;
  if (find_value(f, name) >= 0) return true; /* an initialiser's default, which cannot be replaced */
  situ__program *p = f->program;
  situ__program_input *in = &p->input[p->inputs];
  *in = (situ__program_input){ .name = name, .dims = -1 };
  if (!read_type(f, type, true, in, &tensor, &element)) return false;
  if (!tensor) return situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has an input '%s' that is not a tensor", name);
  if (!in->dtype)
    return situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has an input '%s' of dtype %s, which this library lacks", name,
                          situ__onnx_dtype_name(element, dtype));
  if (!situ__onnx_add_value(f, name, &v)) return false;
  f->about[v].ready = true;
  f->about[v].input = p->inputs++;
  f->about[v].format = situ__onnx_format_of(element);
  in->value = v;
  return !f->about[v].format || situ__onnx_round_input(f, in);
}

/* The next input of a graph in an attribute, *at: a name for a value that is there. */
static bool bind_input(situ__onnx *f, situ__protobuf message, situ__onnx_inner *inner, int32_t *at) {
  const char *name;
  situ__protobuf type;
  bool tensor;
  uint64_t element;
  if (!read_info(f, message, &name, &type)) return false;
  situ__program_input about = { .name = name, .dims = -1 };
  if (*at == inner->inputs || situ__names_get(&f->scope.names, name) >= 0)
    return situ__onnx_bad(f, SITU_E_FORMAT, "has a graph in a node whose input '%s' is one too many", name);
  if (!read_type(f, type, false, &about, &tensor, &element)) return false;
  inner->rank[*at] = about.dims;
  return situ__names_put(&f->scope.names, name, inner->input[(*at)++]) || situ__onnx_no_memory();
}

/* An entry of value_info or an output, of a value that the graph has. */
static bool read_declared(situ__onnx *f, situ__protobuf message) {
  const char *name;
  situ__protobuf type;
  bool tensor;
  uint64_t element;
  if (!read_info(f, message, &name, &type)) return false;
  const int32_t v = situ__names_get(&f->scope.names, name);
  situ__program_input about = { .name = name, .dims = -1 };
  if (v < 0 || f->about[v].input >= 0) return true;
  if (!read_type(f, type, false, &about, &tensor, &element)) return false;
  if (about.dims == 0) about.dims = -1; /* exporters write no dimension where they know none */
  if (tensor && about.dtype && !f->lacks.count && !situ__onnx_check_format(f, v, element)) return false;
  return !tensor || situ__onnx_declare(f, v, &about);
}

/* ---- nodes ---- */

/* The values of a node's inputs, or new ones for its outputs. */
static bool read_values(situ__onnx *f, situ__protobuf message, uint32_t number, int32_t *list, int32_t *count) {
  for (situ__protobuf_field field; situ__protobuf_next(&message, &field);) {
    if (field.number != number || field.wire != SITU__PROTOBUF_BYTES) continue;
    const char *name = situ__onnx_text(f, &field.bytes);
    int32_t *v = &list[(*count)++];
    *v = -1;
    if (!name) return false;
    if (number == 2 && *name && !situ__onnx_add_value(f, name, v)) return false;
    if (number == 1 && *name && (*v = find_value(f, name)) < 0)
      return situ__onnx_bad(f, SITU_E_FORMAT, "uses a value '%s' before it is computed", name);
  }
  return true;
}

/* The path of the module that a node was in, from torch's metadata: "['', 'encoder', 'encoder.0', 'linear']" names the
   scopes from the outermost to the node itself. Counts norms that its exporter has folded, which it says there, too. */
static const char *module_of(situ__onnx *f, situ__protobuf entry) {
  static const char wanted[] = "pkg.torch.onnx.name_scopes", rule[] = "pkg.onnxscript.rewriter.rule_name";
  const char *key = "", *value = "";
  for (situ__protobuf_field field; situ__protobuf_next(&entry, &field);)
    if (field.wire == SITU__PROTOBUF_BYTES && field.number <= 2) {
      const char *text = situ__onnx_text(f, &field.bytes);
      *(field.number == 1 ? &key : &value) = text ? text : "";
    }
  f->program->folded_norms += strcmp(key, rule) == 0 && strstr(value, "FuseBatchNorm");
  if (strcmp(key, wanted) != 0) return NULL;
  const char *last = strrchr(value, ','), *start = last;
  while (start && start > value && start[-1] != ' ' && start[-1] != '[') start--;
  if (!start || last - start < 3) return NULL;
  return situ__arena_text(&f->program->arena, start + 1, (size_t)(last - start) - 2);
}

/* The same from a node's name: "/encoder/encoder.0/fc/Gemm" is in encoder.0.fc, as the name of a part of a list begins
   with that of the list. */
static const char *module_in_name(situ__onnx *f, const char *name) {
  const char *end = strrchr(name, '/');
  if (*name != '/' || end == name) return "";
  char *path = situ__arena_take(&f->program->arena, (size_t)(end - name), 1), *at = path, *last = path;
  if (!path) return NULL;
  for (const char *scope = name + 1; scope < end;) {
    const size_t length = strcspn(scope, "/"), before = (size_t)(at - last);
    const bool list = before && length > before && strncmp(scope, last, before) == 0 && scope[before] == '.';
    if (list) at = last;
    else if (at > path) *at++ = '.';
    last = at;
    memcpy(at, scope, length);
    at += length;
    scope += length + 1;
  }
  return path;
}

/* "graph.node[12]"; NULL after recording an error. */
static const char *place_of(situ__onnx *f, int32_t number) {
  char place[192];
  const int length = snprintf(place, sizeof place, "%s.node[%d]", f->within, (int)number);
  const char *kept = situ__arena_text(&f->program->arena, place, situ__min_i64(length, sizeof place - 1));
  return kept ? kept : (situ__onnx_no_memory(), NULL);
}

/* Says of the load's first error which node it is about. Always returns false. */
static bool blame_node(situ__onnx *f, const situ__onnx_node *node) {
  if (f->told || situ_error() == SITU_OK) return false;
  f->told = true;
  situ__node_blame(f->program, &(situ__program_node){ .row = &(situ__op_row){ .target = node->op },
                                                      .module = node->module ? node->module : "",
                                                      .site = "",
                                                      .name = node->name,
                                                      .place = node->place });
  return false;
}

static bool read_node(situ__onnx *f, situ__protobuf message, situ__onnx_node *out) {
  enum { IN = 1, OUT = 2, NAME = 3, OP = 4, DOMAIN_NAME = 7, METADATA = 9 };
  *out = (situ__onnx_node){ .name = "", .op = "", .domain = "", .module = "", .message = message, .place = out->place };
  situ__protobuf m = message;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.wire != SITU__PROTOBUF_BYTES) continue;
    const char **text = field.number == NAME ? &out->name : field.number == OP ? &out->op : &out->domain;
    if ((field.number == NAME || field.number == OP || field.number == DOMAIN_NAME) &&
        !(*text = situ__onnx_text(f, &field.bytes)))
      return false;
    const char *module = field.number == METADATA ? module_of(f, field.bytes) : NULL;
    if (module) out->module = module;
    out->inputs += field.number == IN;
    out->outputs += field.number == OUT;
  }
  if (m.bad) return situ__onnx_bad(f, SITU_E_FORMAT, "has a node '%s' that is cut off", out->name);
  if (!*out->module && !(out->module = module_in_name(f, out->name))) return situ__onnx_no_memory();
  int32_t *in = situ__arena_take(&f->program->arena, (size_t)out->inputs, sizeof *in);
  int32_t *outs = situ__arena_take(&f->program->arena, (size_t)out->outputs, sizeof *outs);
  if (!in || !outs) return situ__onnx_no_memory();
  out->input = in;
  out->output = outs;
  out->inputs = out->outputs = 0;
  if (!read_values(f, message, IN, in, &out->inputs) || !read_values(f, message, OUT, outs, &out->outputs))
    return false;
  /* torch's older exporter gives a weight and a bias new names only where it folds a norm into them. */
  static const char renamed[] = "onnx::Conv";
  bool folded = out->inputs == 3;
  for (int i = 1; folded && i < 3; i++)
    folded = in[i] >= 0 && strncmp(f->about[in[i]].name, renamed, sizeof renamed - 1) == 0;
  f->program->folded_norms += folded;
  return true;
}

/* ---- which initialisers are parameters ---- */

/* Inputs of layers that are trained, as bits of their places. */
static uint32_t parameters_of(const char *op) {
  static const struct {
    const char *op;
    uint32_t inputs;
  } layers[] = { { "Conv", 6 },
                 { "ConvTranspose", 6 },
                 { "Gemm", 7 },
                 { "MatMul", 3 },
                 { "BatchNormalization", 6 },
                 { "LayerNormalization", 6 },
                 { "InstanceNormalization", 6 },
                 { "GroupNormalization", 6 },
                 { "RMSNormalization", 2 },
                 { "LSTM", 142 },
                 { "GRU", 14 },
                 { "RNN", 14 },
                 { "PRelu", 2 },
                 { "Gather", 1 } };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (strcmp(layers[i].op, op) == 0) return layers[i].inputs;
  return 0;
}

static bool is_one_of(const char *text, const char *const *list) {
  for (; *list; list++)
    if (strcmp(*list, text) == 0) return true;
  return false;
}

/* An op whose result is made of its inputs' elements: exporters rearrange weights by them. */
static bool is_view(const char *op) {
  static const char *const views[] = { "Transpose", "Reshape", "Identity", "Unsqueeze", "Squeeze", "Cast",
                                       "Flatten",   "Slice",   "Concat",   "Split",     NULL };
  return is_one_of(op, views);
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* From the last node to the first: what a layer takes as its parameters, and what that is made of. */
static void mark_weights(situ__onnx *f, const graph *g) {
  for (int32_t n = 0; n < g->nodes; n++) {
    static const char *const products[] = { "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", NULL };
    if (g->node[n].outputs && g->node[n].output[0] >= 0)
      f->about[g->node[n].output[0]].product = is_one_of(g->node[n].op, products);
  }
  for (int32_t n = g->nodes - 1; n >= 0; n--) {
    const situ__onnx_node *node = &g->node[n];
    const uint32_t places = parameters_of(node->op);
    const bool add = strcmp(node->op, "Add") == 0, norm = strcmp(node->op, "BatchNormalization") == 0;
    bool view = false;
    for (int32_t i = 0; i < node->outputs; i++)
      view = view || (node->output[i] >= 0 && f->about[node->output[i]].weight && is_view(node->op));
    for (int32_t i = 0; i < node->inputs; i++) {
      if (node->input[i] < 0) continue;
      situ__onnx_value *in = &f->about[node->input[i]];
      const int32_t other = add && node->inputs == 2 ? node->input[1 - i] : -1;
      if (view || (i < 32 && places >> i & 1) || (other >= 0 && f->about[other].product)) in->weight = true;
      if (in->initialiser && !norm && (ends_with(in->name, ".weight") || ends_with(in->name, ".bias")))
        in->weight = true;
    }
  }
}

/* Weights that are floating, and more than a number, are parameters; they are on the device. A branch may use those of
   the outer graph. */
static bool place_parameters(situ__onnx *f) {
  for (int32_t v = 0; v < f->program->values; v++) {
    situ__onnx_value *about = &f->about[v];
    situ__onnx_tensor t;
    if (!about->initialiser || !about->weight) continue;
    if (!situ__onnx_read_tensor(f, about->source, &t)) return false;
    about->weight = situ_dtype_is_floating(t.dtype) && !t.format && t.shape.ndim > 0;
  }
  return true;
}

/* ---- the whole ---- */

static bool read_members(situ__onnx *f, situ__protobuf message, graph *g) {
  situ__program *p = f->program;
  int32_t inputs = 0, bound = 0;
  int64_t nodes = 0;
  situ__protobuf m = message;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.wire != SITU__PROTOBUF_BYTES) continue;
    nodes += field.number == NODE;
    inputs += field.number == INPUT;
    if (field.number == INITIALIZER && !read_initialiser(f, field.bytes)) return false;
    if (field.number == SPARSE) return situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has a sparse initialiser");
  }
  if (m.bad) return situ__onnx_bad(f, SITU_E_FORMAT, "has a graph that is cut off");
  if (g->inner && inputs != g->inner->inputs)
    return situ__onnx_bad(f, SITU_E_FORMAT, "has a graph in a node with %d inputs instead of %d", inputs,
                          g->inner->inputs);
  g->node = situ__arena_take(&p->arena, (size_t)nodes, sizeof *g->node);
  if (!g->inner) {
    p->input = situ__arena_take(&p->arena, (size_t)inputs, sizeof *p->input);
    f->symbol_capacity = situ__min_i64(inputs, SYMBOLS) * SITU_MAX_DIMS;
    p->symbol = situ__arena_take(&p->arena, (size_t)f->symbol_capacity, sizeof *p->symbol);
  }
  if (!g->node || !p->input || !p->symbol) return situ__onnx_no_memory();
  m = message;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);)
    if (field.number == INPUT && field.wire == SITU__PROTOBUF_BYTES &&
        !(g->inner ? bind_input(f, field.bytes, g->inner, &bound) : read_input(f, field.bytes)))
      return false;
  m = message;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.number != NODE || field.wire != SITU__PROTOBUF_BYTES) continue;
    situ__onnx_node *node = &g->node[g->nodes];
    if (!(node->place = place_of(f, g->nodes++))) return false;
    if (!read_node(f, field.bytes, node)) return blame_node(f, node);
  }
  return true;
}

static int32_t count_outputs(situ__protobuf m) {
  int32_t count = 0;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);)
    count += field.number == OUTPUT && field.wire == SITU__PROTOBUF_BYTES;
  return count;
}

/* The results of the outermost graph: a tensor, or a dict by their names. */
static bool read_results(situ__onnx *f, situ__protobuf message) {
  situ__program *p = f->program;
  const int32_t count = count_outputs(message);
  situ__protobuf type;
  const char *name;
  p->out = situ__arena_take(&p->arena, (size_t)count + 1, sizeof *p->out);
  if (!p->out) return situ__onnx_no_memory();
  if (!count) return situ__onnx_bad(f, SITU_E_FORMAT, "has no output");
  if (count > 1) p->out[p->outs++] = (situ__program_out){ .kind = SITU_TREE_DICT, .count = count };
  for (situ__protobuf_field field; situ__protobuf_next(&message, &field);) {
    if (field.number != OUTPUT || field.wire != SITU__PROTOBUF_BYTES) continue;
    if (!read_info(f, field.bytes, &name, &type)) return false;
    int32_t v = find_value(f, name);
    if (v < 0 || !f->about[v].ready)
      return situ__onnx_bad(f, SITU_E_FORMAT, "gives '%s', which it does not compute", name);
    if (!situ__onnx_on_device(f, v, &v)) return false;
    p->out[p->outs++] = (situ__program_out){
      .kind = SITU_TREE_TENSOR,
      .key = name,
      .leaf = { .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = v },
    };
  }
  return true;
}

/* The values that a graph in an attribute gives. */
static bool find_results(situ__onnx *f, situ__protobuf message, situ__onnx_inner *inner) {
  situ__protobuf type;
  const char *name;
  if (!inner->result)
    inner->result = situ__arena_take(&f->program->arena, (size_t)count_outputs(message), sizeof *inner->result);
  if (!inner->result) return situ__onnx_no_memory();
  for (situ__protobuf_field field; situ__protobuf_next(&message, &field);) {
    if (field.number != OUTPUT || field.wire != SITU__PROTOBUF_BYTES) continue;
    if (!read_info(f, field.bytes, &name, &type)) return false;
    const int32_t v = find_value(f, name);
    if (inner->given == inner->results || v < 0 || !f->about[v].ready)
      return situ__onnx_bad(f, SITU_E_FORMAT, "has a branch whose result '%s' does not exist, or is one too many",
                            name);
    inner->result[inner->given++] = v;
  }
  return true;
}

static bool read_graph(situ__onnx *f, situ__protobuf message, int depth, situ__onnx_inner *inner) {
  graph g = { .inner = inner };
  if (!read_members(f, message, &g)) return false;
  mark_weights(f, &g);
  if (!place_parameters(f)) return false;
  for (int32_t n = 0; n < g.nodes; n++)
    if (!situ__onnx_add_node(f, &g.node[n], depth)) return blame_node(f, &g.node[n]);
  situ__protobuf m = message;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);)
    if ((field.number == VALUE_INFO || field.number == OUTPUT) && field.wire == SITU__PROTOBUF_BYTES &&
        !read_declared(f, field.bytes))
      return false;
  if (f->lacks.count) return true; /* the list says more than a missing result */
  return inner ? find_results(f, message, inner) : read_results(f, message);
}

bool situ__onnx_read_graph(situ__onnx *f, situ__protobuf message, int depth, situ__onnx_inner *inner) {
  if (depth > DEPTH) return situ__onnx_bad(f, SITU_E_LIMIT, "has graphs inside graphs, more than %d deep", DEPTH);
  const situ__onnx_scope outer = f->scope;
  const char *within = f->within;
  char inside[192];
  if (depth > 0) {
    f->scope = (situ__onnx_scope){ .outer = &outer };
    (void)snprintf(inside, sizeof inside, "%s.%s", inner->place, inner->name);
    f->within = inside;
  }
  const bool fine = read_graph(f, message, depth, inner);
  f->within = within;
  if (depth > 0) {
    situ__names_free(&f->scope.names);
    f->scope = outer;
  }
  return fine;
}
