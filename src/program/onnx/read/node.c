/* Adds a node of an ONNX graph to the program, decides where it runs, and computes what is constant.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "program/graph/module.h"
#include "onnx.h"

enum { MOST_ARGS = 32 };
/* ---- constants ---- */

bool situ__onnx_set_constant(situ__onnx *f, int32_t v, situ_tensor *t) {
  if (v < 0) return true;
  f->about[v].place = SITU__ONNX_CONSTANT;
  f->about[v].ready = true;
  return situ_set(&f->known[v].tensor, t);
}

situ_tensor *situ__onnx_known(situ__onnx *f, int32_t v) {
  situ__onnx_tensor t;
  if (f->known[v].tensor) return f->known[v].tensor;
  if (!situ__onnx_read_tensor(f, f->about[v].source, &t)) return NULL;
  situ_tensor *loaded = situ__onnx_load_tensor(f, &t, (situ_device){ .kind = SITU_CPU });
  return loaded && situ_set(&f->known[v].tensor, loaded) ? loaded : NULL;
}

/* A number, or a list of them, as a tensor of f32 or i64. */
static situ_tensor *load_numbers(const situ__arg *a, bool real) {
  const bool list = a->kind == SITU__ARG_LIST;
  const situ__arg *each = list ? a->list : a;
  const int32_t count = list ? a->count : 1;
  situ_tensor *t = situ_empty(list ? SITU_SHAPE(count) : SITU_SCALAR,
                              &(situ_options){ .dtype = real ? SITU_F32 : SITU_I64, .device = { .kind = SITU_CPU } });
  char *data = t && count ? situ_data_ptr(t) : NULL;
  for (int32_t i = 0; data && i < count; i++) {
    if (real) ((float *)data)[i] = (float)(each[i].kind == SITU__ARG_FLOAT ? each[i].real : 0);
    else ((int64_t *)data)[i] = each[i].integer;
  }
  return t;
}

/* The value of a Constant: a tensor, or numbers. */
static bool add_constant(situ__onnx *f, const situ__onnx_node *node, const situ__onnx_attribute *list, int count) {
  const situ__onnx_attribute *a = count == 1 ? &list[0] : NULL;
  situ_tensor *t = NULL;
  situ__onnx_tensor read;
  if (!a || node->outputs != 1)
    return situ__onnx_bad(f, SITU_E_FORMAT, "has a Constant '%s' without a value", node->name);
  const bool real = strncmp(a->name, "value_float", 11) == 0, integer = strncmp(a->name, "value_int", 9) == 0;
  if (strcmp(a->name, "value") == 0 && a->tensor.at) {
    if (!situ__onnx_read_tensor(f, a->tensor, &read)) return false;
    t = situ__onnx_load_tensor(f, &read, (situ_device){ .kind = SITU_CPU });
  } else if (real || integer) {
    t = load_numbers(&a->arg, real);
  } else {
    return situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has a Constant '%s' whose value is %s", node->name, a->name);
  }
  if (node->output[0] >= 0 && a->tensor.at) f->about[node->output[0]].format = read.format;
  return t && situ__onnx_set_constant(f, node->output[0], t);
}

/* ---- places ---- */

situ__onnx_place situ__onnx_place_of(const situ__onnx *f, int32_t v) {
  return f->about[v].initialiser && f->about[v].weight ? SITU__ONNX_DEVICE : f->about[v].place;
}

/* Copies a value of the host to the module's device. */
static situ_tensor *run_to_device(situ__op_call *c) {
  const situ_nn_module *root = c->root;
  const situ_device there = root ? root->home : (situ_device){ 0 };
  situ_tensor *x = situ__arg_tensor(c, 0);
  return there.kind == SITU_DEVICE_DEFAULT ? x : situ_to(x, there);
}
static const situ__op_row to_device = { "to_device", "t input", .run = run_to_device };

bool situ__onnx_on_device(situ__onnx *f, int32_t v, int32_t *out) {
  situ__program *p = f->program;
  situ__onnx_value *about = &f->about[v];
  const bool part = about->initialiser || about->place == SITU__ONNX_CONSTANT;
  *out = about->on_device >= 0 ? about->on_device : v;
  if (about->on_device >= 0 || (!part && about->place == SITU__ONNX_DEVICE)) return true;
  if (!situ__onnx_add_value(f, "", out)) return false;
  about = &f->about[v]; /* the array may have moved */
  about->on_device = *out;
  f->about[*out].ready = true;
  if (part) {
    if (!situ__grow(NULL, &f->part_of, &f->part_capacity, sizeof *f->part_of, p->parts + 1))
      return situ__onnx_no_memory();
    f->part_of[p->parts++] = v;
    return true;
  }
  situ__program_node *n = situ__program_add_node(p);
  situ__arg *arg = situ__arena_take(&p->arena, 1, sizeof *arg);
  int32_t *outs = situ__arena_take(&p->arena, 1, sizeof *outs);
  if (!n || !arg || !outs) return situ__onnx_no_memory();
  *arg = (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = v };
  *outs = *out;
  n->row = &to_device;
  n->guard = about->guard;
  n->arg = arg;
  n->out = outs;
  n->outs = 1;
  return true;
}

bool situ__onnx_on_host(situ__onnx *f, int32_t v, int32_t *out) {
  situ__program *p = f->program;
  *out = v;
  if (f->about[v].format == &situ__onnx_sequence)
    return situ__onnx_bad(f, SITU_E_FORMAT, "uses the sequence '%s' as a tensor", f->about[v].name);
  if (situ__onnx_place_of(f, v) != SITU__ONNX_CONSTANT)
    return f->about[v].initialiser ? situ__onnx_on_device(f, v, out) : true; /* it is read from there */
  if (f->about[v].listed) return true;
  if (!situ__grow(NULL, &p->constant, &p->constant_capacity, sizeof *p->constant, p->constants + 1))
    return situ__onnx_no_memory();
  situ_tensor *t = situ__onnx_known(f, v);
  situ__program_constant *constant = &p->constant[p->constants];
  *constant = (situ__program_constant){ .value = v };
  if (!t || !situ_set(&constant->tensor, t)) return false;
  p->constants++;
  return f->about[v].listed = true;
}

/* ---- binding ---- */

typedef struct call {
  const situ__onnx_node *node;
  situ__program_node made;
  int args;
} call;

/* Names the inputs by the row's parameters; the last of them may be a list that takes all others. */
static bool name_inputs(situ__onnx *f, const situ__onnx_node *node, const situ__op_row *row, situ__named_arg *given,
                        int *count, situ__text *why) {
  for (int32_t i = 0; i < node->inputs; i++) {
    const char *name = "";
    int length = 0;
    const char type = i < row->inputs ? situ__op_parameter(row, i, &name, &length) : 0;
    if (!type && node->input[i] < 0) continue;
    if (!type || *count == MOST_ARGS) {
      situ__text_add(why, "has %d inputs, more than situ knows", node->inputs);
      return false;
    }
    situ__named_arg *g = &given[*count];
    *g = (situ__named_arg){ .name = situ__arena_text(&f->program->arena, name, (size_t)length) };
    if (!g->name) return situ__onnx_no_memory();
    (*count)++;
    if (type != 'T') {
      g->arg = situ__onnx_value_arg(node->input[i]);
      if (node->input[i] < 0) (*count)--;
      continue;
    }
    situ__arg *list = situ__arena_take(&f->program->arena, (size_t)(node->inputs - i), sizeof *list);
    if (!list) return situ__onnx_no_memory();
    g->arg = (situ__arg){ .kind = SITU__ARG_LIST, .count = node->inputs - i, .list = list };
    for (int32_t k = i; k < node->inputs; k++) list[k - i] = situ__onnx_value_arg(node->input[k]);
    return true;
  }
  return true;
}

/* The type of the row's parameter of a name; 0: there is none. */
static char type_of(const situ__op_row *row, const char *wanted) {
  const char *name;
  int length;
  char type;
  for (int k = 0; (type = situ__op_parameter(row, k, &name, &length)); k++)
    if (strncmp(name, wanted, (size_t)length) == 0 && !wanted[length]) return type;
  return 0;
}

/* Where the row has a dtype, an attribute is ONNX's number of one. Sets the call's format if it is one. */
static bool read_dtype(call *c, situ__named_arg *given, situ__text *why) {
  const uint64_t number = (uint64_t)given->arg.integer;
  char dtype[32];
  if (number == 0) given->arg = (situ__arg){ 0 };
  else given->arg = (situ__arg){ .kind = SITU__ARG_DTYPE, .integer = situ__onnx_dtype(number) };
  c->made.format = situ__onnx_format_of(number);
  const bool lacks = c->made.format ? !situ__onnx_makes_formats(c->made.row) : !given->arg.integer;
  if (number == 0 || !lacks) return true;
  situ__text_add(why, "uses the dtype %s, which situ lacks", situ__onnx_dtype_name(number, dtype));
  return false;
}

/* Binds the node to its row. Returns false with the reason in why, or after recording an error. */
static bool bind(situ__onnx *f, call *c, const situ__onnx_attribute *list, int attributes, situ__text *why) {
  situ__named_arg given[MOST_ARGS];
  const situ__op_row *row = c->made.row;
  int count = 0;
  if (!name_inputs(f, c->node, row, given, &count, why)) return false;
  for (int i = 0; i < attributes; i++) {
    if (count == MOST_ARGS) return situ__onnx_bad(f, SITU_E_LIMIT, "has a node of more than %d arguments", MOST_ARGS);
    given[count] = (situ__named_arg){ .name = list[i].name, .arg = list[i].arg };
    const char type = type_of(row, list[i].name);
    const bool numbers = type == 't' && list[i].arg.kind == SITU__ARG_LIST && list[i].arg.count > 0 &&
                         list[i].arg.list[0].kind != SITU__ARG_TEXT;
    if (list[i].tensor.at || numbers) { /* a constant of its own */
      situ__onnx_tensor t;
      int32_t v;
      if (!situ__onnx_add_value(f, "", &v) || (!numbers && !situ__onnx_read_tensor(f, list[i].tensor, &t)))
        return false;
      situ_tensor *loaded = numbers ? load_numbers(&list[i].arg, list[i].arg.list[0].kind == SITU__ARG_FLOAT)
                                    : situ__onnx_load_tensor(f, &t, (situ_device){ .kind = SITU_CPU });
      if (!loaded || !situ__onnx_set_constant(f, v, loaded)) return false;
      if (!numbers && t.format) return situ__text_add(why, "has an attribute of the dtype %s", t.format->name), false;
      given[count].arg = situ__onnx_value_arg(v);
    }
    count++;
    if (type == 'd' && list[i].arg.kind == SITU__ARG_INT && !read_dtype(c, &given[count - 1], why)) return false;
  }
  const int results = row->results ? row->results : 1;
  if (results != SITU__RESULTS_LIST)
    for (int32_t i = results; i < c->node->outputs; i++)
      if (c->node->output[i] >= 0) return situ__text_add(why, "has more results than situ's"), false;
  if (!situ__bind_args(&f->program->arena, row, given, count, &c->made.arg, why)) return false;
  if (!situ__onnx_follow_formats(f, c->node, &c->made, why)) return false;
  const char *lacks = row->lacks ? row->lacks(&(situ__op_call){ .node = &c->made, .arg = c->made.arg }) : NULL;
  if (lacks) situ__text_add(why, "%s", lacks);
  return !lacks;
}

/* ---- where it runs ---- */

typedef bool visit(situ__onnx *f, int32_t *value, bool host, void *payload);

/* Visits the values among a call's arguments. */
static bool each_value(situ__onnx *f, call *c, visit *fn, void *payload) {
  const char *name;
  int length;
  for (int k = 0; k < c->args; k++) {
    situ__arg *a = (situ__arg *)&c->made.arg[k];
    const bool host = situ__op_parameter(c->made.row, k, &name, &length) == 'h';
    const int32_t count = a->kind == SITU__ARG_LIST ? a->count : 1;
    for (int32_t i = 0; i < count; i++) {
      situ__arg *one = a->kind == SITU__ARG_LIST ? (situ__arg *)&a->list[i] : a;
      int32_t v = one->kind == SITU__ARG_VALUE ? (int32_t)one->integer : -1;
      if (v < 0) continue;
      if (!fn(f, &v, host, payload)) return false;
      one->integer = v;
    }
  }
  return true;
}

typedef struct census {
  int device, host, constant;
} census;

static bool count_value(situ__onnx *f, int32_t *v, bool host, void *payload) {
  census *n = payload;
  const situ__onnx_place place = situ__onnx_place_of(f, *v);
  (void)host;
  if (!f->about[*v].ready)
    return situ__onnx_bad(f, SITU_E_FORMAT, "uses a value '%s' before it is computed", f->about[*v].name);
  n->device += place == SITU__ONNX_DEVICE;
  n->host += place == SITU__ONNX_HOST;
  n->constant += place == SITU__ONNX_CONSTANT;
  return true;
}

static bool move_value(situ__onnx *f, int32_t *v, bool host, void *payload) {
  const bool *on_host = payload;
  return host || *on_host ? situ__onnx_on_host(f, *v, v) : situ__onnx_on_device(f, *v, v);
}

/* ---- what is constant ---- */

typedef struct swap {
  situ__value *among;
  struct swapped {
    int32_t value;
    situ_tensor *tensor;
  } * kept;
  int64_t count, capacity;
} swap;

static bool load_value(situ__onnx *f, int32_t *v, bool host, void *payload) {
  (void)host;
  (void)payload;
  return situ__onnx_known(f, *v) != NULL;
}

/* Puts a copy on meta in the place of a value. */
static bool swap_value(situ__onnx *f, int32_t *v, bool host, void *payload) {
  swap *s = payload;
  situ_tensor *t = s->among[*v].tensor;
  (void)f;
  if (host || situ_device_of(t).kind == SITU_META) return true;
  if (!situ__grow(NULL, &s->kept, &s->capacity, sizeof *s->kept, s->count + 1)) return situ__onnx_no_memory();
  s->kept[s->count++] = (struct swapped){ *v, t };
  s->among[*v].tensor = NULL;
  situ_tensor *meta =
      situ_empty(situ_shape_of(t), &(situ_options){ .dtype = situ_dtype_of(t), .device = { .kind = SITU_META } });
  return meta && situ_set(&s->among[*v].tensor, meta);
}

static void drop_results(const situ__program_node *n, situ__value *value) {
  for (int32_t i = 0; i < n->outs; i++)
    if (n->out[i] >= 0) situ_drop(&value[n->out[i]].tensor);
}

int64_t situ__onnx_size_results(situ__onnx *f, const situ__program_node *n, situ__value *value) {
  swap s = { .among = value };
  call c = { .made = *n, .args = situ__op_row_args(n->row) };
  int64_t bytes = 0, own;
  situ__op_call run = { .node = n, .arg = n->arg, .value = value, .dry = true };
  bool fine = each_value(f, &c, swap_value, &s) && situ__program_run_node(&run);
  for (int32_t i = 0; fine && i < n->outs; i++) {
    const situ_tensor *t = n->out[i] >= 0 ? value[n->out[i]].tensor : NULL;
    fine = !t || (situ__mul_i64(situ_numel(t), (int64_t)situ_dtype_size(situ_dtype_of(t)), &own) &&
                  situ__add_i64(bytes, own, &bytes));
  }
  drop_results(n, value);
  for (int64_t i = 0; i < s.count; i++) {
    situ_drop(&value[s.kept[i].value].tensor);
    value[s.kept[i].value].tensor = s.kept[i].tensor;
  }
  situ__free(s.kept);
  return fine ? bytes : -1;
}

/* Computes the results of a node whose inputs are constants, unless that fails, or they are large. */
static bool fold(situ__onnx *f, call *c, bool *folded) {
  *folded = false;
  if (!each_value(f, c, load_value, NULL)) return false;
  situ__errors own;
  char message[64];
  situ__errors_aside(&own);
  c->made.host = true;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const int64_t bytes = situ__onnx_size_results(f, &c->made, f->known);
  situ__op_call run = { .node = &c->made, .arg = c->made.arg, .value = f->known };
  bool done = bytes >= 0 && bytes <= f->budget && situ__program_run_node(&run);
  done = situ_scope_end(&scope) == SITU_OK && done;
  (void)situ__errors_back(&own, message, sizeof message);
  c->made.host = false;
  if (!done) return drop_results(&c->made, f->known), true;
  f->budget -= bytes;
  for (int32_t i = 0; i < c->made.outs; i++)
    if (c->made.out[i] >= 0 && f->known[c->made.out[i]].tensor) f->about[c->made.out[i]].place = SITU__ONNX_CONSTANT;
  return *folded = true;
}

const situ__op_row *situ__onnx_row_of(const char *target, int64_t opset) {
  static const situ__op_family *const families[] = {
    &situ__onnx_elementwise_family, &situ__onnx_shape_family,     &situ__onnx_layers_family,
    &situ__onnx_reduce_family,      &situ__onnx_index_family,     &situ__onnx_make_family,
    &situ__onnx_norm_family,        &situ__onnx_recurrent_family, &situ__onnx_image_family,
    &situ__onnx_attention_family,   &situ__onnx_trees_family,     &situ__onnx_quantized_family,
    &situ__onnx_sequence_family,
  };
  const situ__op_row *best = NULL;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++) {
      const situ__op_row *row = &families[f]->row[i];
      if (strcmp(row->target, target) == 0 && row->since <= opset && (!best || row->since > best->since)) best = row;
    }
  return best;
}

/* Dequantised constants stay nodes: a pattern may take the whole numbers instead (patterns.h). */
static bool may_fold(const char *op) { return !situ__onnx_draws(op) && strcmp(op, "DequantizeLinear") != 0; }

bool situ__onnx_draws(const char *op) {
  return strncmp(op, "Random", 6) == 0 || strcmp(op, "Bernoulli") == 0 || strcmp(op, "Multinomial") == 0 ||
         strcmp(op, "Dropout") == 0;
}

/* The shape of an input whose sizes are all fixed, as a constant. */
static bool fold_shape(situ__onnx *f, call *c, bool *folded) {
  const int32_t v = c->made.arg[0].kind == SITU__ARG_VALUE ? (int32_t)c->made.arg[0].integer : -1;
  const int32_t input = v >= 0 ? f->about[v].input : -1;
  const situ__program_input *in = input >= 0 ? &f->program->input[input] : NULL;
  situ_shape shape = { .ndim = in ? in->dims : -1 };
  *folded = false;
  for (int d = 0; d < shape.ndim; d++)
    if ((shape.dim[d] = in->size[d].size) < 0) return true;
  if (shape.ndim < 0) return true;
  situ_tensor *meta = situ_empty(shape, &(situ_options){ .dtype = in->dtype, .device = { .kind = SITU_META } });
  if (!meta || !situ_set(&f->known[v].tensor, meta)) return false;
  const bool fine = fold(f, c, folded);
  situ_drop(&f->known[v].tensor);
  return fine;
}

static void note_lack(situ__onnx *f, const situ__onnx_node *node, const char *target, const char *why) {
  const situ__program_node at = { .module = node->module, .site = "", .place = node->place };
  situ__lacks_note(&f->lacks, target, node->name, why, &at);
}

/* ---- the whole ---- */

static bool add_call(situ__onnx *f, call *c) {
  census n = { 0 };
  const char *op = c->node->op;
  const bool shape = strcmp(op, "Shape") == 0 || strcmp(op, "Size") == 0 || strcmp(op, "SequenceLength") == 0;
  bool folded = false;
  c->args = 0;
  for (const char *name; situ__op_parameter(c->made.row, c->args, &name, &(int){ 0 }); c->args++) continue;
  if (!each_value(f, c, count_value, &n)) return false;
  if (shape && !fold_shape(f, c, &folded)) return false;
  if (!n.device && !n.host && may_fold(op) && !c->made.row->size && !folded && !fold(f, c, &folded)) return false;
  const bool host = shape || (!n.device && c->made.row->shapes);
  for (int32_t i = 0; i < c->made.outs; i++) {
    const int32_t v = c->made.out[i];
    if (v < 0) continue;
    f->about[v].ready = true;
    if (!folded) f->about[v].place = host ? SITU__ONNX_HOST : SITU__ONNX_DEVICE;
  }
  if (folded) return true;
  bool there = host;
  c->made.host = host;
  /* The shape of a value is read where the value is. */
  if (shape && n.device) there = false;
  if (!each_value(f, c, move_value, &there)) return false;
  situ__program_node *made = situ__program_add_node(f->program);
  if (!made) return situ__onnx_no_memory();
  *made = c->made;
  made->guard = f->guard;
  return true;
}

bool situ__onnx_add_node(situ__onnx *f, const situ__onnx_node *node, int depth) {
  situ__onnx_attribute list[MOST_ARGS];
  int count = 0;
  char name[96], target[128];
  const bool own = !*node->domain || strcmp(node->domain, "ai.onnx") == 0;
  if (!situ__onnx_read_attributes(f, node, list, MOST_ARGS, &count)) return false;
  if (own && strcmp(node->op, "Constant") == 0) return add_constant(f, node, list, count);
  if (own && (strcmp(node->op, "Loop") == 0 || strcmp(node->op, "Scan") == 0))
    return situ__onnx_add_loop(f, node, list, count, depth);
  if (own && strcmp(node->op, "If") == 0) return situ__onnx_add_if(f, node, list, count, depth);
  (void)snprintf(name, sizeof name, "%s%s%s", own ? "" : node->domain, own ? "" : ".", node->op);
  call c = { .node = node,
             .made = { .row = situ__onnx_row_of(name, f->opset),
                       .out = node->output,
                       .outs = node->outputs,
                       .module = node->module,
                       .site = "",
                       .name = node->name,
                       .place = node->place } };
  situ__text why = { 0 };
  const uint64_t errors = situ__error_count();
  bool fine = true;
  if (!c.made.row || !bind(f, &c, list, count, &why)) {
    (void)snprintf(target, sizeof target, "%s (opset %d)", name, (int)f->opset);
    const char *kept = situ__arena_text(&f->program->arena, target, strlen(target));
    fine = situ__error_count() == errors && kept;
    if (fine) note_lack(f, node, kept, why.data ? why.data : "");
    for (int32_t i = 0; i < node->outputs; i++)
      if (node->output[i] >= 0) f->about[node->output[i]].ready = true;
  } else {
    fine = add_call(f, &c);
  }
  situ__text_free(&why);
  return fine;
}
