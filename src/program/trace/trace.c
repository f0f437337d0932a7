/* situ_export: runs a module without values, and writes down its calls.
   SPDX-License-Identifier: MIT */
#include "trace.h"
#include "sizes.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/hash.h"
#include "program/graph/module.h"
#include "situ/sys/tensor.h"
#include "situ/tensor.h"

/* ---- tensors and values ---- */

static bool grow(situ__trace *t, void *array, int32_t count, int64_t *capacity, size_t size) {
  const bool good = count < SITU__PROGRAM_MOST && situ__grow(NULL, array, capacity, size, count + 1);
  t->failed |= !good;
  return good;
}

static const void *key_of(const situ_tensor *t) { return (const void *)(uintptr_t)situ_desc(t)->storage->serial; }

static situ_shape shape_of(const situ_view_desc *v) {
  situ_shape shape = { .ndim = v->ndim };
  memcpy(shape.dim, v->size, sizeof *v->size * v->ndim);
  return shape;
}

static situ_shape strides_of(const situ_view_desc *v) {
  situ_shape strides = { .ndim = v->ndim };
  memcpy(strides.dim, v->stride, sizeof *v->stride * v->ndim);
  return strides;
}

/* Which elements of its storage a tensor has, in which order: other tensors may have the same key. */
static const void *place_of(const situ_tensor *t) {
  const situ_view_desc *v = situ_desc(t);
  uint64_t hash = situ__hash(SITU__HASH, &v->storage->serial, sizeof v->storage->serial);
  hash = situ__hash(hash, &v->offset, sizeof v->offset);
  hash = situ__hash(hash, v->size, (size_t)v->ndim * sizeof *v->size);
  return (const void *)(uintptr_t)(hash | 1); /* not NULL */
}

/* Remembers that the tensor is this value from now on. */
static bool know(situ__trace *t, situ_tensor *tensor, int32_t value) {
  if (!grow(t, &t->traced, t->traces, &t->trace_capacity, sizeof *t->traced)) return false;
  const void *place = place_of(tensor);
  const int32_t older = (int32_t)(intptr_t)situ__map_get(&t->newest, place) - 1;
  void *own = (void *)(intptr_t)(t->traces + 1);
  if (!situ__map_put(&t->newest, place, own) ||
      (!situ__map_get(&t->oldest, key_of(tensor)) && !situ__map_put(&t->oldest, key_of(tensor), own)))
    return !(t->failed = true);
  t->traced[t->traces++] = (situ__traced){ situ_retain(tensor), value, older };
  return true;
}

bool situ__trace_lacks(situ__trace *t, const char *target, const char *why) {
  char place[SITU__PLACE_MAX] = "";
  if (t->flow.node) situ__node_place(t->flow.node, place);
  const situ__program_node node = { .module = t->flow.node ? t->flow.node->module : "", .site = place };
  const char *kept = situ__arena_text(&t->program->arena, target, strlen(target));
  if (kept) situ__lacks_note(&t->lacks, kept, t->call ? t->call->op->name : "", why, &node);
  else t->failed = true;
  return false;
}

bool situ__trace_add_meta(situ__trace *t, int32_t value) {
  if (!grow(t, &t->program->meta, value, &t->meta_capacity, sizeof *t->program->meta)) return false;
  t->program->meta[value] = (situ__value_meta){ .guard = t->flow.guard };
  return true;
}

int32_t situ__trace_result(situ__trace *t, situ_tensor *tensor, const situ_view_desc *like) {
  situ__program *p = t->program;
  int32_t value;
  if (!situ__program_add_value(p, SITU__VALUE_TENSOR, &value)) return t->failed = true, -1;
  if (!situ__trace_add_meta(t, value)) return -1;
  p->meta[value] = (situ__value_meta){ .dtype = (situ_dtype)like->dtype,
                                       .size = shape_of(like),
                                       .stride = strides_of(like),
                                       .guard = t->flow.guard,
                                       .shares = tensor && situ__map_get(&t->oldest, key_of(tensor)),
                                       .requires_grad = tensor && situ_requires_grad(tensor) };
  return !tensor || know(t, tensor, value) ? value : -1;
}

bool situ__trace_end_node(situ__trace *t, const int32_t *value, int32_t values) {
  situ__program_node *n = &t->program->node[t->pending];
  int32_t *out = situ__arena_take(&t->program->arena, (size_t)values, sizeof *out);
  if (!out) return !(t->failed = true);
  for (int32_t i = 0; i < values; i++) out[i] = value[i];
  n->out = out;
  n->outs = values;
  t->pending = -1;
  return true;
}

/* ---- constants ---- */

/* The first write to the tensor's storage; -1: none. */
static int32_t first_fill(const situ__trace *t, const situ_tensor *tensor) {
  return (int32_t)(intptr_t)situ__map_get(&t->first_fill, key_of(tensor)) - 1;
}

/* Whether all writes to the tensor's storage are known, and the first one wrote all of it. */
static bool is_filled(const situ__trace *t, const situ_tensor *tensor) {
  const situ_view_desc *v = situ_desc(tensor);
  bool whole = false;
  for (int32_t i = first_fill(t, tensor); i >= 0; i = t->filled[i].next) {
    const situ__filled *f = &t->filled[i];
    if (!f->known || f->out.dtype != v->dtype) return false;
    whole = whole || (size_t)f->out.numel * situ_dtype_size((situ_dtype)v->dtype) == v->storage->bytes;
    if (!whole) return false;
  }
  return whole;
}

/* What forward makes in each run anew, and writes to, must not keep what the run before wrote. */
static int32_t add_copy(situ__trace *t, situ_tensor *tensor) {
  if (!situ_export_call(&t->base, "clone.default", "t", tensor)) return -1;
  const int32_t value = situ__trace_result(t, tensor, situ_desc(tensor));
  return value >= 0 && situ__trace_end_node(t, &value, 1) ? value : -1;
}

static int32_t add_constant(situ__trace *t, situ_tensor *tensor) {
  const bool filled = situ_desc(tensor)->storage->flags & SITU_STORAGE_VOID;
  if (filled && !is_filled(t, tensor)) {
    situ__trace_lacks(t, "a tensor",
                      "whose values the run does not know (never written, drawn at random, or from host memory: "
                      "register it as a buffer)");
    return -1;
  }
  if (!grow(t, &t->constant, t->constants, &t->constant_capacity, sizeof *t->constant)) return -1;
  situ_tensor *alias = situ_retain(situ_detach(tensor)); /* the tensor's owners stay as they are */
  const int32_t value = alias ? situ__trace_result(t, tensor, situ_desc(tensor)) : -1;
  if (value >= 0) t->program->meta[value].guard = 0;
  if (value >= 0) t->constant[t->constants++] = (situ__constant){ alias, value, filled };
  if (value >= 0 && filled) t->filled[first_fill(t, tensor)].constant = true;
  if (value < 0) situ_drop(&alias), t->failed = true;
  return value >= 0 && filled && t->copies ? add_copy(t, tensor) : value;
}

static bool is_filled_constant(const situ__trace *t, const situ_tensor *tensor) {
  const int32_t first = first_fill(t, tensor);
  return first >= 0 && t->filled[first].constant;
}

/* Whether two tensors have the same elements in the same order. */
static bool is_same_place(const situ_tensor *a, const situ_tensor *b) {
  const situ_view_desc *x = situ_desc(a), *y = situ_desc(b);
  if (x->storage != y->storage || x->offset != y->offset || x->ndim != y->ndim || x->dtype != y->dtype) return false;
  for (int d = 0; d < x->ndim; d++)
    if (x->size[d] != y->size[d] || (x->size[d] > 1 && x->stride[d] != y->stride[d])) return false;
  return true;
}

int32_t situ__trace_value(situ__trace *t, situ_tensor *tensor) {
  for (int32_t i = (int32_t)(intptr_t)situ__map_get(&t->newest, place_of(tensor)) - 1; i >= 0; i = t->traced[i].older)
    if (is_same_place(t->traced[i].tensor, tensor) &&
        situ__trace_is_visible(t, t->program->meta[t->traced[i].value].guard))
      return t->traced[i].value;
  return add_constant(t, tensor);
}

/* ---- the recorder ---- */

/* A write outside of an op's call; work NULL: from memory that the run does not know. It is done afterwards if the
   storage is the run's own and no call has used it before. */
static void note_write(situ__trace *t, const char *op, const situ_storage *storage, const situ_work *work) {
  const bool used = situ__map_get(&t->oldest, (const void *)(uintptr_t)storage->serial);
  if (used || !(storage->flags & SITU_STORAGE_VOID)) {
    (void)situ__trace_lacks(t, op,
                            used ? "writes to a tensor that a call has used" : "writes to a tensor of the module");
    return;
  }
  if (!grow(t, &t->filled, t->fills, &t->fill_capacity, sizeof *t->filled)) return;
  const void *key = (const void *)(uintptr_t)storage->serial;
  const int32_t first = (int32_t)(intptr_t)situ__map_get(&t->first_fill, key) - 1, own = t->fills;
  if (first < 0 && !situ__map_put(&t->first_fill, key, (void *)(intptr_t)(own + 1))) {
    t->failed = true;
    return;
  }
  situ__filled *f = &t->filled[t->fills++];
  *f = (situ__filled){ .guard = t->flow.guard, .next = -1 };
  if (first >= 0) t->filled[t->filled[first].last].next = own;
  t->filled[first >= 0 ? first : own].last = own;
  if (!work) return;
  f->known = !work->ins && work->outs == 1 && work->verb != SITU_VERB_RANDOM;
  f->work = *work;
  f->out = *work->out[0];
}

static void on_launch(situ_dry *dry, const char *op, situ_device device, const situ_work *work) {
  (void)device;
  for (int k = 0; !dry->depth && k < work->outs; k++)
    if (work->out[k]) note_write((situ__trace *)dry, op, work->out[k]->storage, k == 0 ? work : NULL);
}

static void on_load(situ_dry *dry, const char *op, const situ_storage *storage) {
  note_write((situ__trace *)dry, op, storage, NULL);
}

static void on_error(situ_dry *dry) {
  situ__trace *t = (situ__trace *)dry;
  situ_error_report report;
  if (t->problem.data || !situ_error_read(&report)) return;
  t->status = report.status;
  situ__text_add(&t->problem, "%s", report.message);
  if (!t->flow.node) return;
  char text[SITU__NODE_TEXT_MAX];
  situ__node_text(t->flow.program, t->flow.node, text);
  if (!strstr(report.message, text)) situ__text_add(&t->problem, "\n  %s", text);
}

/* Whether the tensor's memory is the branch's own. */
static bool is_of_branch(const situ__trace *t, const situ_tensor *tensor) {
  const int32_t i = (int32_t)(intptr_t)situ__map_get(&t->oldest, key_of(tensor)) - 1;
  const int32_t fill = first_fill(t, tensor);
  return fill >= 0 ? t->filled[fill].guard == t->flow.guard
                   : i >= 0 && t->program->meta[t->traced[i].value].guard == t->flow.guard;
}

static bool may_write(situ__trace *t, int32_t value) {
  const situ__program *p = t->program;
  for (int32_t i = 0; i < p->inputs; i++)
    if (p->input[i].value == value) return situ__trace_lacks(t, t->call->op->name, "writes an input in place");
  return true;
}

/* The results of an op's last ATen call are the op's. A call in place whose overload is not is followed by a copy. */
static bool end_call(situ__trace *t, const situ_call *c, int32_t written) {
  const situ__op_row *row = t->program->node[t->pending].row;
  const size_t length = strcspn(row->target, ".");
  const bool in_place = row->target[length - 1] == '_';
  int32_t value[SITU_RESULTS], values = 0;
  const int most = row->results > 1 ? row->results : 1;
  if (c->in_place && !in_place) {
    t->last = situ__trace_result(t, NULL, situ_desc(c->out[0]));
    return t->last >= 0 && situ__trace_end_node(t, &t->last, 1) &&
           situ_export_call(&t->base, "copy_.default", "t^", c->in[0]) && end_call(t, c, written);
  }
  for (; values < c->outs && values < most; values++) {
    value[values] = c->out[values] ? situ__trace_result(t, c->out[values], situ_desc(c->out[values])) : -1;
    if (c->out[values] && value[values] < 0) return false;
  }
  return situ__trace_end_node(t, value, values);
}

static void on_call(situ_dry *dry, const situ_call *c) {
  situ__trace *t = (situ__trace *)dry;
  if (t->base.paused || t->failed || t->problem.data) return;
  t->call = c;
  t->pending = -1;
  const int32_t written = c->in_place ? situ__trace_value(t, c->in[0]) : -1;
  t->writes = t->writes || (c->in_place && is_filled_constant(t, c->in[0]));
  const int before = t->lacks.count;
  bool good = !c->in_place || (written >= 0 && may_write(t, written));
  if (good && c->in_place && !is_of_branch(t, c->in[0]))
    good = situ__trace_lacks(t, c->op->name, "writes in place, in a branch or a loop, what was made outside of it");
  if (good && !c->op->traced) good = situ__trace_lacks(t, c->op->name, "has no form in torch.export");
  good = good && c->op->traced(c, &t->base) && t->pending >= 0;
  if (good) {
    good = end_call(t, c, written);
  } else if (t->lacks.count > before) { /* so that later calls are looked at, too */
    for (int k = 0; k < c->outs; k++)
      if (c->out[k]) (void)situ__trace_result(t, c->out[k], situ_desc(c->out[k]));
  }
  t->call = NULL;
}

/* ---- parts and inputs ---- */

static situ_status count_part(const situ_nn_visit *at, void *payload) {
  (void)at;
  (*(int32_t *)payload)++;
  return SITU_OK;
}

static situ_status take_part(const situ_nn_visit *at, void *payload) {
  situ__trace *t = payload;
  situ__program *p = t->program;
  const char *path = situ__arena_text(&p->arena, at->path, strlen(at->path));
  const int32_t value = path ? situ__trace_result(t, at->tensor, situ_desc(at->tensor)) : -1;
  if (value < 0) return situ__no_memory(t->op, strlen(at->path));
  p->part[p->parts++] = (situ__program_part){ .path = path, .value = value };
  return SITU_OK;
}

/* A Python identifier of a path in the inputs' tree. */
static const char *input_name(situ__trace *t, const char *path, const situ_tensor *tensor) {
  char name[64];
  const char *own = situ_name(tensor);
  if (!*path) path = *own ? own : "input";
  (void)snprintf(name, sizeof name, "%s%s", *path >= '0' && *path <= '9' ? "input_" : "", path);
  for (char *c = name; *c; c++)
    if (!(*c == '_' || (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'))) *c = '_';
  return situ__arena_text(&t->program->arena, name, strlen(name));
}

static situ_status take_input(const char *path, situ_tensor *tensor, void *payload) {
  situ__trace *t = payload;
  situ__program *p = t->program;
  const situ_shape shape = situ_shape_of(tensor);
  situ__program_input *in = &p->input[p->inputs];
  *in =
      (situ__program_input){ .name = input_name(t, path, tensor), .dtype = situ_dtype_of(tensor), .dims = shape.ndim };
  in->value = in->name ? situ__trace_result(t, tensor, situ_desc(tensor)) : -1;
  if (in->value < 0) return situ__no_memory(t->op, sizeof *in);
  for (int d = 0; d < shape.ndim; d++) in->size[d] = (struct situ__program_size){ shape.dim[d], -1 };
  p->inputs++;
  return SITU_OK;
}

static situ_status count_leaf(const char *path, situ_tensor *tensor, void *payload) {
  (void)path, (void)tensor;
  (*(int32_t *)payload)++;
  return SITU_OK;
}

static bool take_all(situ__trace *t, const situ_tree *inputs) {
  situ__program *p = t->program;
  int32_t parts = 0, leaves = 0;
  if (situ_nn_walk(t->module, SITU_NN_VISIT_TENSORS, count_part, &parts) != SITU_OK ||
      situ_tree_each(inputs, count_leaf, &leaves) != SITU_OK)
    return false;
  p->part = situ__arena_take(&p->arena, (size_t)parts + 1, sizeof *p->part);
  p->input = situ__arena_take(&p->arena, (size_t)leaves + 1, sizeof *p->input);
  if (!p->part || !p->input) return situ__no_memory(t->op, sizeof *p->part), false;
  return situ_nn_walk(t->module, SITU_NN_VISIT_TENSORS, take_part, t) == SITU_OK &&
         situ_tree_each(inputs, take_input, t) == SITU_OK;
}

/* ---- results ---- */

static int32_t count_items(const situ_tree *tree) {
  int32_t count = 1;
  for (int64_t i = 0; i < situ_tree_count(tree); i++) count += count_items(situ_tree_at(tree, i));
  return count;
}

static bool take_results(situ__trace *t, const situ_tree *tree, const char *key) {
  situ__program *p = t->program;
  situ__program_out *o = &p->out[p->outs++];
  *o = (situ__program_out){ .kind = situ_tree_kind_of(tree), .count = (int32_t)situ_tree_count(tree) };
  if (key && !(o->key = situ__arena_text(&p->arena, key, strlen(key)))) return !(t->failed = true);
  if (o->kind == SITU_TREE_TENSOR) {
    const int32_t value = situ__trace_value(t, situ_tree_value(tree));
    t->writes = t->writes || is_filled_constant(t, situ_tree_value(tree)); /* the caller may */
    o->leaf = (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = value };
    return value >= 0;
  }
  for (int64_t i = 0; i < situ_tree_count(tree); i++)
    if (!take_results(t, situ_tree_at(tree, i), o->kind == SITU_TREE_DICT ? situ_tree_key(tree, i) : NULL))
      return false;
  return true;
}

/* ---- the run ---- */

static bool begin_dry(situ__trace *t) {
  t->base =
      (situ_export_trace){ .dry = { .called = on_call, .launched = on_launch, .loaded = on_load, .found = on_error },
                           .add_call = situ__trace_call };
  return situ_export_trace_begin(&t->base) == SITU_OK;
}

static bool run_forward(situ__trace *t, const situ_tree *inputs) {
  situ__trace_flow_begin(t, t->loops);
  situ_tree *out = situ_nn_call(t->module, inputs);
  situ__flow_tracing = NULL;
  situ_dry_tell(&t->base.dry);
  bool good = out && !t->problem.data;
  t->program->out =
      good ? situ__arena_take(&t->program->arena, (size_t)count_items(out), sizeof *t->program->out) : NULL;
  t->ended = true;
  t->pending = -1; /* of a call that failed */
  good = t->program->out && take_results(t, out, NULL);
  situ_tree_free(out);
  return good;
}

/* Returns false after noting why. */
static bool run_dry(situ__trace *t) {
  situ_scope scope;
  if (!begin_dry(t)) return false;
  situ_scope_begin_no_grad(&scope);
  situ_tree *made = t->sizes ? situ__trace_sized_inputs(t->sizes, t->inputs) : NULL;
  const situ_tree *inputs = t->sizes ? made : t->inputs;
  t->taken = inputs && take_all(t, inputs);
  const bool good = t->taken && run_forward(t, inputs);
  situ_tree_free(made);
  SITU_IGNORE(situ_scope_end(&scope));
  for (int32_t i = 0; i < t->traces; i++) situ_drop(&t->traced[i].tensor);
  SITU_IGNORE(situ_export_trace_end(&t->base));
  return good;
}

bool situ__trace_explain(const situ__trace *t) {
  char where[256];
  situ__trace_sizes_text(t->sizes, where, sizeof where);
  if (t->problem.data)
    return situ__fail(t->status, t->op, "the module's forward fails%s: %s", where, t->problem.data), false;
  if (t->lacks.count)
    return situ__fail(SITU_E_UNSUPPORTED, t->op, "%d calls cannot be written: %s%s", t->lacks.count,
                      t->lacks.targets.data ? t->lacks.targets.data : "", t->lacks.list.data ? t->lacks.list.data : ""),
           false;
  if (t->failed) return situ__no_memory(t->op, sizeof *t->program), false;
  if (situ_error() == SITU_OK) situ__fail(SITU_E_STATE, t->op, "the module's forward gave no result");
  return false;
}

situ_tensor *situ__trace_constant(const situ__trace *t, const situ__constant *k) {
  const situ_view_desc *v = situ_desc(k->tensor);
  if (!k->filled) return situ_clone(k->tensor);
  situ_device home = situ_nn_home(t->module);
  if (!home.kind) home = situ_get_default_device();
  const int64_t held = (int64_t)(v->storage->bytes / situ_dtype_size((situ_dtype)v->dtype));
  situ_tensor *whole = situ_op_new(t->op, SITU_SHAPE(held), (situ_dtype)v->dtype, home);
  for (int32_t i = first_fill(t, k->tensor); whole && i >= 0; i = t->filled[i].next) {
    situ_work work = t->filled[i].work;
    situ_view_desc out = t->filled[i].out;
    out.storage = situ_desc(whole)->storage;
    work.out[0] = &out;
    if (!situ_launch(t->op, home, &work)) return NULL;
  }
  return whole ? situ_as_strided(whole, shape_of(v), strides_of(v), v->offset) : NULL;
}

/* Whether the module, which may be a program with constants of its own, has a part at this path. */
static bool has_part(const situ__program *p, const char *path) {
  for (int32_t i = 0; i < p->parts; i++)
    if (strcmp(p->part[i].path, path) == 0) return true;
  return false;
}

static bool add_constants(situ__trace *t, situ_nn_module *m) {
  situ__program *p = t->program;
  int32_t number = 0;
  if (!t->constants) return true;
  situ__program_part *part = situ__arena_take(&p->arena, (size_t)(p->parts + t->constants), sizeof *part);
  if (!part) return situ__no_memory(t->op, sizeof *part), false;
  memcpy(part, p->part, (size_t)p->parts * sizeof *part);
  p->part = part;
  for (int32_t i = 0; i < t->constants; i++) {
    char name[32];
    do (void)snprintf(name, sizeof name, "lifted_tensor_%d", number++);
    while (has_part(p, name));
    situ_tensor *values = situ__trace_constant(t, &t->constant[i]);
    const char *path = situ__arena_text(&p->arena, name, strlen(name));
    if (!values || !path || !situ_nn_add_tensor(m, name, NULL, values, SITU_NN_TRANSIENT)) return false;
    part[p->parts++] = (situ__program_part){ .path = path, .value = t->constant[i].value };
  }
  return true;
}

typedef struct copying {
  situ_nn_module *to;
  situ_nn_module *from;
} copying;

static situ_status copy_child(const situ_nn_visit *at, void *payload) {
  const copying *c = payload;
  if (!*at->path) return SITU_OK;
  situ_nn_module *child = situ__program_child(at->module->type->name, at->module);
  return situ_nn_add_child(c->to, at->path, NULL, child) ? SITU_OK : situ_error();
}
static situ_status copy_tensor(const situ_nn_visit *at, void *payload) {
  const copying *c = payload;
  return situ_nn_share_tensor(c->to, at->path, at->tensor, (situ_nn_kind)at->slot->kind) ? SITU_OK : situ_error();
}

/* A module that runs the program with the parameters and buffers of the one that was traced. */
static situ_nn_module *build(situ__trace *t) {
  situ_nn_module *m = situ__program_module(t->program, t->module->type->name);
  if (!m) return t->program = NULL, NULL;
  m->training = t->module->training;
  m->home = t->module->home;
  copying c = { m, t->module };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  bool good = situ_nn_walk(t->module, SITU_NN_VISIT_MODULES, copy_child, &c) == SITU_OK &&
              situ_nn_walk(t->module, SITU_NN_VISIT_TENSORS, copy_tensor, &c) == SITU_OK && add_constants(t, m) &&
              (situ__program_find_last_uses(t->program) || (situ__no_memory(t->op, 0), false));
  t->program = NULL; /* the module's */
  if (situ_scope_end(&scope) != SITU_OK || !good) m->broken = true;
  return situ_nn_done(m);
}

void situ__trace_free(situ__trace *t) {
  for (int32_t i = 0; i < t->traces; i++) situ_drop(&t->traced[i].tensor);
  for (int32_t i = 0; i < t->constants; i++) situ_drop(&t->constant[i].tensor);
  situ__free(t->traced);
  situ__free(t->filled);
  situ__free(t->constant);
  situ__map_free(&t->newest);
  situ__map_free(&t->oldest);
  situ__map_free(&t->first_fill);
  situ__lacks_free(&t->lacks);
  situ__text_free(&t->problem);
  situ__program_free(t->program);
}

/* The run would make its parameters, without values. */
static situ_status refuse_lazy(const situ_nn_visit *at, void *payload) {
  const situ__trace *t = payload;
  if (!at->module->pending) return SITU_OK;
  return situ__fail(SITU_E_STATE, t->op,
                    "%s is a %s that has no parameters before its first input: call the module once",
                    *at->path ? at->path : "the module", at->module->type->name);
}

static void trace_module(void *payload) {
  situ__trace *t = payload;
  t->whole = run_dry(t) && !t->lacks.count;
}

static bool trace_once(situ__trace *t) {
  t->pending = -1;
  return situ_nn_walk(t->module, SITU_NN_VISIT_MODULES, refuse_lazy, t) == SITU_OK &&
         (t->program = situ__program_new("", 0)) && situ_nn_keep_fields(t->module, true, t->inputs, trace_module, t) &&
         t->whole;
}
bool situ__trace_run(situ__trace *t) { return trace_once(t) || situ__trace_explain(t); }

static situ_nn_module *export(situ__trace like) {
  SITU__USE(use);
  if (!situ__module_use(like.op, like.module, &use)) return NULL;
  situ_nn_module *program = NULL;
  situ__trace first = { .op = NULL };
  like.loops = true;
  for (bool again = true; again;) {
    situ__trace t = like;
    const bool traced = trace_once(&t);
    again = traced ? t.writes && !t.copies : t.looped && t.loops;
    if (traced && !again && (!t.sizes || situ__trace_all_sizes(&t))) program = build(&t);
    if (!traced && !again) (void)situ__trace_explain(first.op ? &first : &t);
    if (again && !traced) first = t; /* a loop that has no form is as many calls as it makes, if it is known */
    else situ__trace_free(&t);
    like.copies |= traced;
    like.loops &= traced;
  }
  if (first.op) situ__trace_free(&first);
  return program;
}

situ_nn_module *situ_export(situ_nn_module *m, const situ_tree *inputs) {
  static const char op[] = "export";
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__valid(op, "inputs", inputs, SITU__A_TREE)) return NULL;
  return export((situ__trace){ .op = op, .module = m, .inputs = inputs });
}

situ_nn_module *situ_export_dynamic(situ_nn_module *m, const situ_tree *inputs, const situ_export_dim *dims,
                                    int64_t count) {
  static const char op[] = "export_dynamic";
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__valid(op, "inputs", inputs, SITU__A_TREE) ||
      (count > 0 && !situ__given(op, "dims", dims)))
    return NULL;
  situ__trace_sizes sizes;
  const bool good = situ__trace_sizes_begin(&sizes, op, inputs, dims, count);
  situ_nn_module *program =
      good ? export((situ__trace){ .op = op, .module = m, .inputs = inputs, .sizes = &sizes }) : NULL;
  situ__trace_sizes_end(&sizes);
  return program;
}
