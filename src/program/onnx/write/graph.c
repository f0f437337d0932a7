/* Writes the calls of a program as nodes of an ONNX model, in their order.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "program/graph/flow.h"
#include "program/graph/module.h"
#include "write.h"

/* ---- forms ---- */

static const situ__onnx_form *find_exactly(const char *target) {
  static const situ__onnx_forms *const all[] = { &situ__onnx_form_elementwise, &situ__onnx_form_shape,
                                                 &situ__onnx_form_layers,      &situ__onnx_form_norm,
                                                 &situ__onnx_form_reduce,      &situ__onnx_form_index,
                                                 &situ__onnx_form_recurrent,   &situ__onnx_form_special };
  for (size_t f = 0; f < sizeof all / sizeof *all; f++)
    for (int i = 0; i < all[f]->count; i++)
      if (strcmp(all[f]->form[i].target, target) == 0) return &all[f]->form[i];
  return NULL;
}

/* "add_.Tensor" and "zero_.default", but not "__and__.Tensor". */
static bool is_in_place(const char *target) {
  const size_t length = strcspn(target, ".");
  return length > 1 && target[length - 1] == '_' && target[length - 2] != '_';
}

/* A call in place is written as the one that is not, unless it has a form of its own. */
static const situ__onnx_form *find_form(const char *target) {
  const situ__onnx_form *form = find_exactly(target);
  if (form || !is_in_place(target)) return form;
  char plain[96];
  const size_t length = strcspn(target, ".");
  if (strlen(target) >= sizeof plain) return NULL;
  memcpy(plain, target, length - 1);
  memcpy(plain + length - 1, target + length, strlen(target + length) + 1);
  return find_exactly(plain);
}

/* ---- sizes ---- */

static const char *size_operand(situ__onnx_writer *w, int k) {
  const situ__arg *a = &w->node->arg[k];
  if (a->kind == SITU__ARG_VALUE && w->about[a->integer].varies) return w->name[a->integer];
  return situ__onnx_int(w, situ__arg_int(&w->call, k));
}

/* A size that depends on the inputs', as a 1-D tensor of one element; NULL for a call that no tensor needs. */
static const char *write_size(situ__onnx_writer *w) {
  static const char *const pairs[][2] = {
    { "_operator.add", "Add" }, { "_operator.sub", "Sub" }, { "_operator.mul", "Mul" }, { "_operator.mod", "Mod" }
  };
  const char *target = w->node->row->target;
  if (strcmp(target, "sym_size.int") == 0) {
    const int64_t dim = situ__onnx_dim(situ__arg_int(&w->call, 1), situ__onnx_about(w, 0)->size.ndim);
    return situ__onnx_put(w, "Shape", SITU__ONNX_IN(situ__onnx_arg(w, 0)), "start:i end:i", dim, dim + 1);
  }
  if (strcmp(target, "_operator.neg") == 0) return situ__onnx_put1(w, "Neg", size_operand(w, 0));
  if (strcmp(target, "_operator.floordiv") == 0) { /* Div is toward 0 */
    const char *a = size_operand(w, 0), *b = size_operand(w, 1);
    return situ__onnx_put2(w, "Div", situ__onnx_put2(w, "Sub", a, situ__onnx_put2(w, "Mod", a, b)), b);
  }
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (strcmp(target, pairs[i][0]) == 0)
      return situ__onnx_put2(w, pairs[i][1], size_operand(w, 0), size_operand(w, 1));
  return NULL;
}

static bool is_float(const situ__arg *a) { return a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_FLOAT; }

static bool varies(const situ__onnx_writer *w, const situ__arg *a) {
  if (a->kind == SITU__ARG_VALUE) return is_float(a) || (a->of != SITU__VALUE_TENSOR && w->about[a->integer].varies);
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++)
    if (varies(w, &a->list[i])) return true;
  return false;
}

/* Whether an argument is a float that is computed, or a size that varies where the form takes a constant. */
static bool has_varying_size(const situ__onnx_writer *w, const situ__onnx_form *form) {
  const char *name;
  int length;
  for (int k = 0; situ__op_parameter(w->node->row, k, &name, &length); k++)
    if ((!(form->varies >> k & 1) || is_float(&w->node->arg[k])) && varies(w, &w->node->arg[k])) return true;
  return false;
}

/* ---- calls ---- */

static const char *write_form(situ__onnx_writer *w, const situ__onnx_form *form) {
  if (form->write) return form->write(w);
  if (form->formula) return situ__onnx_formula(w, form->formula, w->gives->dtype);
  enum { MOST = 4 };
  const char *in[MOST + 1] = { NULL }, *name;
  int count = 0, length;
  for (int k = 0; count < MOST && situ__op_parameter(w->node->row, k, &name, &length); k++)
    if (situ__arg_given(&w->call, k) && !(in[count++] = situ__onnx_arg_as(w, k, w->gives->dtype))) return NULL;
  return situ__onnx_put(w, form->same, in, "");
}

static const char *write_call(situ__onnx_writer *w, const situ__onnx_form *form) {
  const situ__inferred *gives = w->gives;
  const situ_dtype dtype = gives->dtype;
  situ__inferred wide = *gives;
  if (!form->computes || (dtype != SITU_U8 && dtype != SITU_I8 && dtype != SITU_I16 && dtype != SITU_BF16))
    return write_form(w, form);
  wide.dtype = dtype == SITU_BF16 ? SITU_F32 : SITU_I32;
  w->gives = &wide;
  const char *y = write_form(w, form);
  w->gives = gives;
  return situ__onnx_cast(w, y, wide.dtype, dtype);
}

/* What could not be written has a name, too, so that the calls that read it are looked at. */
void situ__onnx_keep_result(situ__onnx_writer *w, int32_t v, const char *name) {
  if (v < 0) return;
  if (!name && w->lacks.count) name = "lacking";
  w->name[v] = name;
  if (w->about[v].storage) w->version[v] = w->memories[w->memory[v]].version;
}

/* A call in place computes in the dtype of the one that is not, and rounds what that gives. */
static const char *write_in_place(situ__onnx_writer *w, const situ__onnx_form *form) {
  const situ__inferred *before = w->gives;
  situ__inferred wide = *before;
  const char *name;
  int length;
  for (int k = 1; situ__op_parameter(w->node->row, k, &name, &length); k++) {
    const situ__inferred *other = situ__onnx_about(w, k);
    const bool more = other->dtype && (other->size.ndim || situ_dtype_is_floating(other->dtype));
    if (more) wide.dtype = situ_promote_types(wide.dtype, other->dtype);
  }
  if (!situ_dtype_is_floating(before->dtype) || !situ_dtype_is_floating(wide.dtype)) wide.dtype = before->dtype;
  w->gives = &wide;
  const char *y = write_call(w, form);
  w->gives = before;
  return situ__onnx_cast(w, y, form->logical ? SITU_BOOL : wide.dtype, before->dtype);
}

static bool has_tensor(const situ__arg *a) {
  if (a->kind == SITU__ARG_VALUE) return a->of == SITU__VALUE_TENSOR || a->of == SITU__VALUE_FLOAT;
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++)
    if (has_tensor(&a->list[i])) return true;
  return false;
}

/* Whether a call without a form gives the same in each run: it has no tensor and no size that varies, and does not
   draw. */
static bool is_constant(const situ__onnx_writer *w) {
  const char *target = w->node->row->target;
  bool same = w->node->outs == 1 && strncmp(target, "rand", 4) != 0 && strncmp(target, "normal", 6) != 0;
  for (int k = 0; same && k < situ__op_row_args(w->node->row); k++)
    same = !has_tensor(&w->node->arg[k]) && !varies(w, &w->node->arg[k]);
  return same;
}

static const char *write_constant(situ__onnx_writer *w) {
  situ_tensor **out = &w->integers[w->node->out[0]].tensor;
  const char *name = NULL;
  size_t bytes;
  void *values = situ__program_run_node(&w->call) ? situ__program_values(w->op, *out, &bytes) : NULL;
  if (values) name = situ__onnx_constant(w, w->gives->dtype, &w->gives->size, values);
  situ__free(values);
  situ_drop(out);
  return name;
}

static void write_node(situ__onnx_writer *w) {
  const situ__program_node *n = w->node;
  if (n->counts && !situ__call_trains(&w->call)) { /* as situ__program_run_node skips it */
    situ__onnx_keep_result(w, n->out[0], situ__onnx_arg(w, 0));
    return;
  }
  const situ__onnx_form *form = find_form(n->row->target);
  const int before = w->lacks.count;
  const bool writes = is_in_place(n->row->target);
  const char *self = writes ? situ__onnx_arg(w, 0) : NULL, *y = NULL;
  if (!form && is_constant(w)) y = write_constant(w);
  else if (!form) situ__onnx_lacks(w, "has no form in ONNX");
  else if (has_varying_size(w, form)) situ__onnx_lacks(w, "has a size that depends on the inputs'");
  else y = writes && form != find_exactly(n->row->target) ? write_in_place(w, form) : write_call(w, form);
  if (y && writes && y != self && !situ__onnx_overwrite(w, (int32_t)n->arg[0].integer, y)) y = NULL;
  if (!y && !w->failed && w->lacks.count == before) situ__onnx_lacks(w, "with these arguments has no form in ONNX");
  for (int32_t i = 0; i < n->outs; i++) situ__onnx_keep_result(w, n->out[i], i ? w->result[i - 1] : y);
}

/* ---- nodes that the results need ---- */

typedef struct needs {
  const situ__onnx_writer *w;
  bool *value, *memory; /* of each value, and of each memory: whether what follows reads it */
} needs;

static void need(needs *f, const situ__arg *a) {
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++) need(f, &a->list[i]);
  if (a->kind != SITU__ARG_VALUE) return;
  f->value[a->integer] = true;
  if (f->w->about[a->integer].storage) f->memory[f->w->memory[a->integer]] = true;
}

/* A call in place is needed by each value of its memory. */
static bool is_needed(const needs *f, const situ__program_node *n) {
  bool needed = n->loop != 0;
  for (int32_t i = 0; i < n->outs; i++) needed |= n->out[i] >= 0 && f->value[n->out[i]];
  if (needed || !is_in_place(n->row->target) || n->arg[0].kind != SITU__ARG_VALUE) return needed;
  return f->memory[f->w->memory[n->arg[0].integer]];
}

/* From the last node to the first. Buffers that are written are results. NULL: no memory. */
static const bool *find_needed(situ__onnx_writer *w) {
  const situ__program *p = w->program;
  needs f = { .w = w };
  bool *needed = situ__arena_take(&w->arena, (size_t)p->nodes + 1, sizeof *needed);
  f.value = situ__arena_take(&w->arena, (size_t)p->values + 1, sizeof *f.value);
  f.memory = situ__arena_take(&w->arena, (size_t)p->values + 1, sizeof *f.memory);
  if (!needed || !f.value || !f.memory) return w->failed = true, NULL;
  for (int32_t i = 0; i < p->outs; i++) need(&f, &p->out[i].leaf);
  for (int32_t i = 0; i < p->writes; i++)
    need(&f, &(situ__arg){ .kind = SITU__ARG_VALUE, .integer = p->write[i].from });
  for (int32_t i = 0; i < p->parts; i++)
    if (w->about[p->part[i].value].storage) f.memory[w->memory[p->part[i].value]] = true;
  for (int32_t i = p->nodes - 1; i >= 0; i--) {
    if (!(needed[i] = is_needed(&f, &p->node[i]))) continue;
    for (int k = 0; k < situ__op_row_args(p->node[i].row); k++) need(&f, &p->node[i].arg[k]);
  }
  return needed;
}

/* ---- all nodes ---- */

static bool begin_node(situ__onnx_writer *w, const situ__program_node *n) {
  w->node = n;
  w->call = (situ__op_call){ .node = n, .arg = n->arg, .value = w->integers, .root = w->module };
  w->gives = n->out[0] >= 0 ? &w->about[n->out[0]] : NULL;
  w->result = situ__arena_take(&w->arena, (size_t)n->outs, sizeof *w->result);
  return w->result || !(w->failed = true);
}

const char *situ__onnx_write_view(situ__onnx_writer *w, int32_t v, int32_t base, const char *of, situ_dtype dtype) {
  const situ__onnx_writer call = *w; /* that is being written */
  const situ__program_node *n = &w->program->node[w->maker[v]];
  situ__inferred *about = &w->about[base], before = *about;
  const char *name = w->name[base];
  if (is_in_place(n->row->target)) return of;
  const situ__onnx_form *form = find_form(n->row->target);
  const char *y = NULL;
  if (!begin_node(w, n)) return NULL;
  if (!form || !form->write || !w->gives || has_varying_size(w, form))
    return w->node = call.node, situ__onnx_lacks(w, "has an operand that is a view without a form");
  situ__inferred gives = *w->gives;
  gives.dtype = about->dtype = dtype;
  about->storage = 0; /* `of` is its newest tensor */
  w->gives = &gives;
  w->name[base] = of;
  y = form->write(w);
  for (int32_t i = 1; i < n->outs && n->out[0] != v; i++)
    if (n->out[i] == v) y = w->result[i - 1];
  *about = before;
  w->name[base] = name;
  w->node = call.node;
  w->call = call.call;
  w->gives = call.gives;
  w->result = call.result;
  return y;
}

void situ__onnx_write_range(situ__onnx_writer *w, int32_t first, int32_t end) {
  for (int32_t i = first; i < end && !w->failed; i++) {
    const situ__program_node *n = &w->program->node[i];
    if (!w->needed[i] || n->row == &situ__scan_count || n->row->results == SITU__RESULTS_NONE || n->outs < 1) continue;
    if (!begin_node(w, n)) return;
    if (n->row == &situ__flow_then) {
      i = situ__onnx_write_if(w, i) - 1;
    } else if (n->row == &situ__loop_begin) {
      i = situ__onnx_write_loop(w, i) - 1;
    } else if (n->row == &situ__loop_collected) {
      situ__onnx_keep_result(w, n->out[0], w->name[n->arg[0].integer]);
    } else if (n->row->size) {
      if (n->out[0] >= 0 && w->gives->varies) w->name[n->out[0]] = write_size(w);
    } else if (w->gives) {
      write_node(w);
    } else {
      situ__onnx_lacks(w, "has a first result that is not used");
    }
  }
}

bool situ__onnx_write_nodes(situ__onnx_writer *w) {
  w->needed = find_needed(w);
  if (w->needed) situ__onnx_write_range(w, 0, w->program->nodes);
  return !w->failed && w->lacks.count == 0;
}
