/* Runs a program without values to find the dtype, sizes and memory of each of its values.
   SPDX-License-Identifier: MIT */
#include "infer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "build.h"
#include "flow.h"
#include "module.h"
#include "situ/sys/dry.h"
#include "situ/sys/shape.h"

typedef struct inference {
  situ_dry dry; /* first: the recorder's callback gets it */
  const char *op;
  const situ__program *program;
  situ_nn_module *root;
  situ__value *value;
  situ__inferred *out;
  const situ__program_node *at; /* the node that failed; NULL: none */
  int round;
  bool failed;
  situ_status status;
  situ__text problem; /* the first error of the run */
} inference;

static int64_t within(const situ__program_symbol *s, int64_t count) {
  const int64_t unit = situ__symbol_multiple(s), least = s->least > 0 ? s->least : 1, size = count * unit;
  return size < least ? least : size > s->most ? s->most - s->most % unit : size;
}

/* Sizes of the two runs: different for each symbol, and within its range. No sum of two is another's, so that a size
   that is computed is not taken for a symbol's. */
static int64_t sample(const situ__program_symbol *s, int32_t number, int round) {
  const int64_t n = number, first = within(s, 6 + 3 * n + n * n), other = within(s, 11 + 5 * n + 3 * n * n);
  if (!round) return first;
  if (other != first || s->least >= s->most) return other;
  const int64_t unit = situ__symbol_multiple(s);
  return first <= s->most - unit ? first + unit : first - unit;
}

static void on_error(situ_dry *dry) {
  inference *f = (inference *)dry;
  situ_error_report report;
  if (f->failed || !situ_error_read(&report)) return;
  f->failed = true;
  f->status = report.status;
  situ__text_add(&f->problem, "%s", report.message);
}

/* ---- values ---- */

static void note_tensor(inference *f, int32_t v) {
  situ__inferred *out = &f->out[v];
  const situ_view_desc *d = situ_desc(f->value[v].tensor);
  if (!d) return;
  const situ_shape shape = situ_shape_of(f->value[v].tensor);
  if (f->round) {
    out->other = shape;
    for (int i = 0; i < shape.ndim && shape.ndim == out->size.ndim; i++)
      if (shape.dim[i] != out->size.dim[i]) out->size.dim[i] = -1, out->varies = true;
    if (shape.ndim != out->size.ndim) f->failed = true;
    return;
  }
  *out = (situ__inferred){ .dtype = (situ_dtype)d->dtype,
                           .size = shape,
                           .other = shape,
                           .stride = { .ndim = shape.ndim },
                           .offset = d->offset,
                           .elements = (int64_t)(d->storage->bytes / situ_dtype_size((situ_dtype)d->dtype)),
                           .storage = d->storage->serial };
  memcpy(out->stride.dim, d->stride, sizeof *d->stride * (size_t)shape.ndim);
}

static void note_value(inference *f, int32_t v) {
  if (v < 0) return;
  if (f->program->kind[v] == SITU__VALUE_TENSOR) {
    note_tensor(f, v);
    return;
  }
  if (f->round && f->out[v].integer != f->value[v].integer) f->out[v].varies = true;
  if (!f->round) f->out[v].integer = f->value[v].integer;
}

/* ---- a run ---- */

static bool make_inputs(inference *f) {
  const situ__program *p = f->program;
  for (int32_t i = 0; i < p->inputs; i++) {
    const situ__program_input *in = &p->input[i];
    situ_shape shape = { .ndim = in->dims };
    if (in->dims < 0)
      return situ__fail(SITU_E_UNSUPPORTED, f->op, "input %s has any number of dimensions", in->name), false;
    for (int d = 0; d < in->dims; d++) {
      const int32_t s = in->size[d].symbol;
      shape.dim[d] = in->size[d].size >= 0 ? in->size[d].size
                     : s >= 0              ? sample(&p->symbol[s], s, f->round)
                                           : (f->round ? 7 : 4);
    }
    situ_tensor *t = situ_zeros(shape, &(situ_options){ .dtype = in->dtype });
    if (!t || !situ_set(&f->value[in->value].tensor, t)) return false;
    note_value(f, in->value);
  }
  return true;
}

static bool read_parts(inference *f) {
  const situ__program *p = f->program;
  for (int32_t i = 0; i < p->parts; i++) {
    if (!situ_set(&f->value[p->part[i].value].tensor, situ_nn_get_tensor(f->root, p->part[i].path))) return false;
    note_value(f, p->part[i].value);
  }
  for (int32_t i = 0; i < p->constants; i++) {
    if (!situ_set(&f->value[p->constant[i].value].tensor, p->constant[i].tensor)) return false;
    note_value(f, p->constant[i].value);
  }
  return true;
}

static bool depends_on_values(const situ__program_node *n) {
  return strcmp(n->row->target, "nonzero.default") == 0 || strcmp(n->row->target, "masked_select.default") == 0;
}
/* What stands for a result whose length depends on values: it has another one in each run. NULL: of another call. */
static situ_tensor *stand_in(const inference *f, const situ__program_node *n) {
  const bool places = *n->row->target == 'n';
  if (!depends_on_values(n)) return NULL;
  situ_tensor *x = f->value[n->arg[0].integer].tensor;
  const int64_t length = situ_numel(x) - (f->round && situ_numel(x) > 0);
  return situ_zeros(places ? SITU_SHAPE(length, situ_dim(x)) : SITU_SHAPE(length),
                    &(situ_options){ .dtype = places ? SITU_I64 : situ_dtype_of(x) });
}

static bool run_nodes(inference *f) {
  for (int32_t i = 0; i < f->program->nodes && !f->failed; i++) {
    const situ__program_node *n = &f->program->node[i];
    situ__op_call c = { .node = n, .arg = n->arg, .value = f->value, .root = f->root, .once = true };
    situ_tensor *given = stand_in(f, n);
    f->at = n;
    if (!given && !situ__program_run_node(&c)) return false;
    if (n->row == &situ__flow_either) given = situ_empty_like(f->value[n->out[0]].tensor, NULL); /* memory of its own */
    if (given && !situ_set(&f->value[n->out[0]].tensor, given)) return false;
    for (int32_t k = 0; k < n->outs; k++) note_value(f, n->out[k]);
    if (!f->failed) f->at = NULL;
  }
  return !f->failed;
}

/* Values are kept until the end, so that no two storages have one address. */
static bool run_once(inference *f) {
  const situ__program *p = f->program;
  situ_scope scope;
  f->dry = (situ_dry){ .found = on_error };
  f->value = situ__calloc((size_t)p->values + 1, sizeof *f->value);
  if (!f->value) return situ__no_memory(f->op, (size_t)p->values * sizeof *f->value), false;
  if (situ_dry_begin(&f->dry) != SITU_OK) return situ__free(f->value), false;
  situ_scope_begin_no_grad(&scope);
  bool good = make_inputs(f) && read_parts(f) && run_nodes(f);
  situ_dry_tell(&f->dry);
  for (int32_t v = 0; v < p->values; v++) situ__value_free(&f->value[v]);
  SITU_IGNORE(situ_scope_end(&scope));
  SITU_IGNORE(situ_dry_end(&f->dry));
  situ__free(f->value);
  return good && !f->failed;
}

static bool explain(const inference *f) {
  const bool clean = situ_error() == SITU_OK;
  if (f->status != SITU_OK)
    situ__fail(f->status, f->op, "the program does not run without values: %s",
               f->problem.data ? f->problem.data : "no memory to say why");
  else if (situ_error() == SITU_OK)
    situ__fail(SITU_E_UNSUPPORTED, f->op, "the program's values have other numbers of dimensions with other sizes");
  if (clean && f->at) situ__node_blame(f->program, f->at);
  return false;
}

bool situ__program_infer(const char *op, const situ__program *p, situ_nn_module *root, situ__inferred *out) {
  inference f = { .op = op, .program = p, .root = root, .out = out };
  bool sizes = p->symbols > 0;
  for (int32_t i = 0; i < p->nodes; i++) sizes |= depends_on_values(&p->node[i]);
  for (int32_t i = 0; i < p->inputs; i++)
    for (int d = 0; d < p->input[i].dims; d++) sizes |= p->input[i].size[d].size < 0;
  const situ_device home = situ_nn_home(root);
  situ_setting before;
  if (home.kind && situ_default_device_begin(&before, home) != SITU_OK) return false;
  bool good = run_once(&f);
  if (good && sizes) {
    f.round = 1;
    good = run_once(&f);
  }
  if (home.kind) situ_default_device_end(&before);
  good = good || explain(&f);
  situ__text_free(&f.problem);
  return good;
}
