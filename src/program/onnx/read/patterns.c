/* Replaces patterns of nodes by the calls that they stand for.
   SPDX-License-Identifier: MIT */
#include "patterns.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "situ/sys/shape.h"

/* ---- what the patterns ask ---- */

bool situ__match_same(const situ__arg *a, const situ__arg *b) {
  return a->kind == SITU__ARG_VALUE && b->kind == SITU__ARG_VALUE && a->integer == b->integer;
}

static void add_node(situ__match *m, int32_t n) {
  for (int32_t i = 0; i < m->nodes; i++)
    if (m->node[i] == n) return;
  if (m->nodes < SITU__PATTERN_NODES) m->node[m->nodes++] = n;
}

const situ__program_node *situ__match_node(situ__match *m, const situ__arg *a, const char *op, int uses) {
  if (a->kind != SITU__ARG_VALUE || m->maker[a->integer] < 0 || m->uses[a->integer] != uses) return NULL;
  const int32_t number = m->maker[a->integer];
  const situ__program_node *n = &m->program->node[number];
  if (n->outs != 1 || n->host || strcmp(n->row->target, op) != 0) return NULL;
  add_node(m, number);
  return n;
}

/* The constant or parameter that an argument is; -1: it is computed. */
static int32_t source_of(const situ__match *m, const situ__arg *a) {
  if (a->kind != SITU__ARG_VALUE) return -1;
  const int32_t copied = m->origin[a->integer], v = copied >= 0 ? copied : (int32_t)a->integer;
  return copied >= 0 || m->f->about[v].place == SITU__ONNX_CONSTANT ? v : -1;
}

bool situ__match_shape(situ__match *m, const situ__arg *a, situ_shape *out) {
  const int32_t v = source_of(m, a);
  situ__onnx_tensor t;
  if (v < 0) return false;
  if (m->f->known[v].tensor) *out = situ_shape_of(m->f->known[v].tensor);
  else if (situ__onnx_read_tensor(m->f, m->f->about[v].source, &t)) *out = t.shape;
  else return false;
  return true;
}

situ_tensor *situ__match_constant(situ__match *m, const situ__arg *a, int64_t most) {
  const int32_t v = source_of(m, a);
  situ_shape shape;
  int64_t count;
  const bool parameter = v >= 0 && m->f->about[v].initialiser && m->f->about[v].weight;
  if (v < 0 || parameter || !situ__match_shape(m, a, &shape) || !situ_shape_numel("export_load", &shape, &count) ||
      count > most)
    return NULL;
  return situ__onnx_known(m->f, v);
}

bool situ__match_number(situ__match *m, const situ__arg *a, int dims, double *out) {
  situ_tensor *t = situ__match_constant(m, a, 1);
  return t && situ_numel(t) == 1 && situ_dim(t) <= dims && situ_dtype_is_floating(situ_dtype_of(t)) &&
         situ_item(t, out) == SITU_OK && isfinite(*out);
}

bool situ__match_is(situ__match *m, const situ__arg *a, double wanted) {
  double given, rounded;
  if (!situ__match_number(m, a, 0, &given)) return false;
  const situ_options like = { .dtype = situ_dtype_of(situ__match_constant(m, a, 1)), .device = { .kind = SITU_CPU } };
  return situ_item(situ_full(SITU_SCALAR, wanted, &like), &rounded) == SITU_OK && given == rounded;
}

void situ__match_parameter(situ__match *m, const situ__arg *a) {
  const int32_t v = source_of(m, a);
  if (v >= 0 && m->f->about[v].initialiser) m->f->about[v].weight = true;
}

int situ__match_integers(situ__match *m, const situ__arg *a, int64_t *out, int capacity) {
  if (a->kind == SITU__ARG_INT && capacity) return *out = a->integer, 1;
  if (a->kind == SITU__ARG_LIST && a->count <= capacity) {
    for (int32_t i = 0; i < a->count; i++) {
      if (a->list[i].kind != SITU__ARG_INT) return -1;
      out[i] = a->list[i].integer;
    }
    return a->count;
  }
  situ_tensor *t = situ__match_constant(m, a, capacity);
  if (!t || situ_dtype_of(t) != SITU_I64) return -1;
  const int64_t count = situ_numel(t);
  return situ_copy_to_host(t, out, (size_t)count * sizeof *out) == SITU_OK ? (int)count : -1;
}

/* ---- the program ---- */

typedef struct rewrite {
  situ__onnx *f;
  int32_t *maker, *uses, *origin;
  bool *gone; /* of each node */
  bool any;
} rewrite;

static void count_arg(int32_t *uses, const situ__arg *a, int32_t by) {
  if (a->kind == SITU__ARG_VALUE) uses[a->integer] += by;
  if (a->kind == SITU__ARG_LIST)
    for (int32_t i = 0; i < a->count; i++) count_arg(uses, &a->list[i], by);
}

static void count_node(int32_t *uses, const situ__program_node *n, int32_t by) {
  for (int k = 0; k < situ__op_row_args(n->row); k++) count_arg(uses, &n->arg[k], by);
}

static void survey(rewrite *r) {
  const situ__program *p = r->f->program;
  for (int32_t v = 0; v < p->values; v++) r->maker[v] = r->origin[v] = -1;
  for (int32_t n = 0; n < p->nodes; n++) {
    count_node(r->uses, &p->node[n], 1);
    for (int32_t i = 0; i < p->node[n].outs; i++)
      if (p->node[n].out[i] >= 0) r->maker[p->node[n].out[i]] = n;
  }
  for (int32_t i = 0; i < p->outs; i++) count_arg(r->uses, &p->out[i].leaf, 1);
  for (int32_t i = 0; i < p->parts; i++) r->origin[r->f->about[r->f->part_of[i]].on_device] = r->f->part_of[i];
}

/* Puts the call in the place of the pattern's last node; a convolution stays in its own module. */
static bool replace(rewrite *r, const situ__match *m, int32_t end) {
  situ__program *p = r->f->program;
  const int count = situ__op_row_args(m->row);
  situ__arg *arg = situ__arena_take(&p->arena, (size_t)count, sizeof *arg);
  if (!arg) return situ__onnx_no_memory();
  memcpy(arg, m->arg, (size_t)count * sizeof *arg);
  for (int32_t i = 0; i < m->nodes; i++) {
    if (strcmp(p->node[m->node[i]].row->target, "Conv") == 0) p->node[end].module = p->node[m->node[i]].module;
    count_node(r->uses, &p->node[m->node[i]], -1);
    r->gone[m->node[i]] = true;
  }
  count_node(r->uses, &p->node[end], -1);
  p->node[end].row = m->row;
  p->node[end].arg = arg;
  count_node(r->uses, &p->node[end], 1);
  return r->any = true;
}

/* From the last node to the first, so that the longest pattern is met first. */
static bool match_all(rewrite *r) {
  static bool (*const patterns[])(situ__match *, const situ__program_node *) = {
    situ__match_quantized, situ__match_conv,     situ__match_gelu,     situ__match_silu,
    situ__match_norm,      situ__match_rms_norm, situ__match_attention
  };
  const situ__program *p = r->f->program;
  for (int32_t n = p->nodes - 1; n >= 0; n--)
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && !r->gone[n] && !p->node[n].host; i++) {
      situ__match m = { .f = r->f, .program = p, .maker = r->maker, .uses = r->uses, .origin = r->origin };
      if (!patterns[i](&m, &p->node[n])) continue;
      if (!replace(r, &m, n)) return false;
      break;
    }
  return true;
}

/* Drops the nodes that were replaced, and values and constants that nothing uses then. */
static void drop_unused(rewrite *r) {
  situ__program *p = r->f->program;
  int32_t nodes = 0, parts = 0;
  for (int32_t n = p->nodes - 1; n >= 0; n--)
    if (!r->gone[n] && strcmp(p->node[n].row->target, "DequantizeLinear") == 0 && !r->uses[p->node[n].out[0]]) {
      count_node(r->uses, &p->node[n], -1);
      r->gone[n] = true;
    }
  for (int32_t n = 0; n < p->nodes; n++)
    if (!r->gone[n]) p->node[nodes++] = p->node[n];
  p->nodes = nodes;
  for (int32_t i = 0; i < p->parts; i++) {
    const int32_t v = r->f->part_of[i];
    if (r->uses[r->f->about[v].on_device] > 0 || r->f->about[v].weight) r->f->part_of[parts++] = v;
  }
  p->parts = parts;
}

bool situ__onnx_match_patterns(situ__onnx *f) {
  const situ__program *p = f->program;
  if (f->opset < 7) return true; /* operands that an axis aligns are others */
  const size_t values = (size_t)p->values + 1;
  int32_t *memory = situ__calloc(3 * values, sizeof *memory);
  bool *gone = situ__calloc((size_t)p->nodes + 1, sizeof *gone);
  rewrite r = { .f = f, .gone = gone };
  bool fine = memory && gone;
  if (fine) {
    r.maker = memory, r.uses = memory + values, r.origin = memory + 2 * values;
    survey(&r);
    fine = match_all(&r);
    if (r.any) drop_unused(&r);
  } else {
    situ__onnx_no_memory();
  }
  situ__free(memory);
  situ__free(gone);
  return fine;
}
