/* Random programs: drawn, run, compared, made smaller, printed.
   SPDX-License-Identifier: MIT */
#include "support/program/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ---- */

static uint64_t next(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
static int draw(uint64_t *state, int below) { return (int)(next(state) % (uint64_t)below); }
static double uniform(uint64_t *state, double low, double high) {
  return low + (high - low) * (double)(next(state) >> 11) * 0x1p-53;
}

static situ_tensor *tensor_of(const double *values, situ_shape shape) {
  int64_t n = 1;
  for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
  return situ_from_host(values, (size_t)n * sizeof *values, shape,
                        &(situ_options){ .dtype = SITU_F64, .device = test_device() });
}

/* The same as a leaf is laid out: of its own, or a view that shows part of other memory. */
static situ_tensor *leaf_of(const double *values, situ_shape shape, program_layout layout) {
  situ_tensor *x = tensor_of(values, shape), *const twice[2] = { x, x };
  switch (layout) {
  case PROGRAM_NARROWED: return situ_narrow(situ_cat(twice, 2, 0), 0, shape.dim[0], shape.dim[0]);
  case PROGRAM_STRIDED: return situ_select(situ_stack(twice, 2, -1), -1, 1);
  case PROGRAM_TRANSPOSED: return situ_transpose(situ_contiguous(situ_transpose(x, 0, -1)), 0, -1);
  default: return x;
  }
}

static bool read(situ_tensor *t, double *values) {
  return situ_copy_to_host(t, values, (size_t)situ_numel(t) * sizeof *values) == SITU_OK;
}

/* ---- one run ---- */

typedef enum mode {
  RECORDING, /* with gradients */
  PLAIN,     /* in a no_grad scope: notes all values */
  SHIFTED    /* the same with other leaves: what is a constant keeps its noted value */
} mode;

/* What a plain run notes of a call. */
typedef struct noted {
  situ_shape shape;
  double operand[PROGRAM_OPERANDS][PROGRAM_NUMEL], result[PROGRAM_NUMEL], before[PROGRAM_NUMEL];
} noted;

typedef struct run {
  const program *p;
  mode mode;
  noted *note; /* of each call */
  double leaf[PROGRAM_LEAVES][PROGRAM_NUMEL];
  situ_tensor *value[PROGRAM_VALUES];
  double factor[PROGRAM_VALUES];              /* what a hook multiplies by */
  double loss[PROGRAM_CALLS];                 /* by call */
  double grad[PROGRAM_LEAVES][PROGRAM_NUMEL]; /* recording: .grad, and what autograd_grad gave, by call */
  double asked[PROGRAM_CALLS][PROGRAM_NUMEL];
  int twice; /* recording: the call of which second derivatives are taken instead; 0: none */
  double direction[PROGRAM_LEAVES][PROGRAM_NUMEL], second[PROGRAM_LEAVES][PROGRAM_NUMEL];
  int failed_at; /* the call that was refused; -1: none */
  bool grows;    /* a value is near a kink or passes it, or is large, or missing: another program is drawn */
} run;

static situ_tensor *scale(situ_tensor *grad, void *factor) { return situ_mul_scalar(grad, *(double *)factor); }

/* The sum of v, each element with a weight of its own. */
static situ_tensor *weighted(situ_tensor *v) {
  double weight[PROGRAM_NUMEL];
  uint64_t state = 7;
  for (int64_t i = 0; i < situ_numel(v); i++) weight[i] = uniform(&state, .5, 1.5);
  return situ_sum(situ_mul(v, tensor_of(weight, situ_shape_of(v))), NULL);
}

static int leaf_asked(const program *p, const program_call *c) { return c->p[1] % p->leaves; }

/* The gradient of the first gradient along the directions. */
static bool differentiate_twice(run *r, situ_tensor *loss) {
  const situ_backward_options create = { .create_graph = true };
  const int n = r->p->leaves;
  situ_tensor *g[PROGRAM_LEAVES], *sum = NULL;
  if (situ_autograd_grad(loss, n, r->value, g, &create) != SITU_OK) return false;
  for (int i = 0; i < n; i++) {
    memset(r->second[i], 0, sizeof r->second[i]);
    if (!g[i] || !situ_requires_grad(g[i])) continue;
    situ_tensor *part = situ_sum(situ_mul(g[i], tensor_of(r->direction[i], r->p->shape[i])), NULL);
    sum = sum ? situ_add(sum, part) : part;
  }
  if (!sum) return situ_error() == SITU_OK;
  if (situ_autograd_grad(sum, n, r->value, g, NULL) != SITU_OK) return false;
  for (int i = 0; i < n; i++)
    if (g[i] && !read(g[i], r->second[i])) return false;
  return true;
}

static situ_tensor *differentiate(run *r, const program_call *c, int k, situ_tensor *v) {
  const situ_backward_options keep = { .retain_graph = c->p[0] != 0 };
  situ_tensor *loss = weighted(v), *g = NULL, *x = r->value[leaf_asked(r->p, c)];
  if (situ_item(loss, &r->loss[k]) != SITU_OK) return NULL;
  if (r->mode == RECORDING && r->twice && r->twice == k) return differentiate_twice(r, loss) ? v : NULL;
  if (c->kind->effect == PROGRAM_BACKWARD)
    return r->mode != RECORDING || situ_backward(loss, &keep) == SITU_OK ? v : NULL;
  if (r->mode == RECORDING) {
    if (situ_autograd_grad(loss, 1, &x, &g, &keep) != SITU_OK) return NULL;
    if (!g) r->grows = true; /* it does not depend on x: there is no gradient to go on with */
    return g && read(g, r->asked[k]) ? situ_contiguous(g) : NULL; /* laid out as in the other modes */
  }
  return tensor_of(r->note[k].result, situ_shape_of(x));
}

/* Values of v move as if its derivative were multiplied. */
static bool shift(situ_tensor *v, const double *from, double factor) {
  double now[PROGRAM_NUMEL];
  if (!read(v, now)) return false;
  for (int64_t i = 0; i < situ_numel(v); i++) now[i] = from[i] + factor * (now[i] - from[i]);
  return situ_copy_from_host(v, now, (size_t)situ_numel(v) * sizeof *now) == SITU_OK;
}

static situ_tensor *hook(run *r, const program_call *c, int k, situ_tensor *v) {
  double *factor = &r->factor[r->p->leaves + k];
  *factor = .5 + fabs(c->a);
  if (r->mode == RECORDING) return situ_register_hook(v, scale, factor) == SITU_OK ? v : NULL;
  if (r->mode == SHIFTED && c->in[0] >= r->p->leaves && !shift(v, r->note[k].operand[0], *factor)) return NULL;
  return v;
}

static bool near_a_kink(const program_kind *kind, const double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (!(fabs(x[i]) < 50)) return true;
    for (int k = 0; k < kind->kinks; k++)
      if (fabs(x[i] - kind->kink[k]) < 1e-3) return true;
  }
  return false;
}

/* Whether an element is beyond a kink from where it was: a difference across it says nothing of the derivative. */
static bool passes_a_kink(const program_kind *kind, situ_tensor *x, const double *was) {
  double now[PROGRAM_NUMEL];
  if (!kind->kinks || !read(x, now)) return false;
  for (int64_t i = 0; i < situ_numel(x); i++)
    for (int k = 0; k < kind->kinks; k++)
      if ((now[i] < kind->kink[k]) != (was[i] < kind->kink[k])) return true;
  return false;
}

/* Writes without history: the memory moves by as much as it did. */
static situ_tensor *moved(situ_tensor *v, const noted *n) {
  double now[PROGRAM_NUMEL];
  if (!read(v, now)) return NULL;
  for (int64_t i = 0; i < situ_numel(v); i++) now[i] += n->result[i] - n->before[i];
  return situ_copy_from_host(v, now, (size_t)situ_numel(v) * sizeof *now) == SITU_OK ? v : NULL;
}

/* The result, rounded as it was: its derivative is 1. */
static situ_tensor *rounded(situ_tensor *x, const noted *n) {
  double now[PROGRAM_NUMEL];
  if (!read(x, now)) return NULL;
  for (int64_t i = 0; i < situ_numel(x); i++) now[i] += n->result[i] - n->operand[0][i];
  return tensor_of(now, situ_shape_of(x));
}

static situ_tensor *call_shifted(run *r, const program_call *c, int k, const program_step *s, situ_tensor **in) {
  const program_effect e = c->kind->effect;
  const noted *n = &r->note[k];
  if (e == PROGRAM_VIEWS || e == PROGRAM_DETACHES) return c->kind->run(in, c);
  if (!s->recorded) return e == PROGRAM_WRITES ? moved(in[0], n) : tensor_of(n->result, n->shape);
  if (c->kind->flags & PROGRAM_ROUNDS) return rounded(in[0], n);
  for (int i = e == PROGRAM_WRITES; i < c->kind->operands; i++)
    if (s->constant[i]) in[i] = tensor_of(n->operand[i], situ_shape_of(in[i]));
  r->grows |= c->kind->operands && passes_a_kink(c->kind, in[0], n->operand[0]);
  return c->kind->run(in, c);
}

static situ_tensor *call(run *r, const program_call *c, int k, const program_step *s) {
  situ_tensor *in[PROGRAM_OPERANDS] = { NULL };
  noted *n = &r->note[k];
  for (int i = 0; i < c->kind->operands; i++) in[i] = r->value[c->in[i]];
  if (r->mode == PLAIN)
    for (int i = 0; i < c->kind->operands; i++) {
      if (situ_numel(in[i]) > PROGRAM_NUMEL || !read(in[i], n->operand[i])) return NULL;
      r->grows |= near_a_kink(i ? &(program_kind){ .name = "" } : c->kind, n->operand[i], situ_numel(in[i]));
    }
  situ_tensor *y;
  switch (c->kind->effect) {
  case PROGRAM_BACKWARD:
  case PROGRAM_GRAD: return differentiate(r, c, k, in[0]);
  case PROGRAM_HOOK: return hook(r, c, k, in[0]);
  case PROGRAM_RETAIN: return r->mode != RECORDING || situ_retain_grad(in[0]) == SITU_OK ? in[0] : NULL;
  default: y = r->mode == SHIFTED ? call_shifted(r, c, k, s, in) : c->kind->run(in, c);
  }
  if (!y || situ_numel(y) > PROGRAM_NUMEL || !situ_numel(y)) return NULL;
  if (r->mode == PLAIN) {
    n->shape = situ_shape_of(y);
    memcpy(n->before, n->operand[0], sizeof n->before);
    if (!read(y, n->result)) return NULL;
    r->grows |= near_a_kink(&(program_kind){ .name = "" }, n->result, situ_numel(y));
  }
  return y;
}

static situ_tensor *call_in_scope(run *r, const program_call *c, int k, const program_step *s) {
  if (!c->no_grad) return call(r, c, k, s);
  situ_scope inner;
  situ_scope_begin_no_grad(&inner);
  situ_tensor *y = situ_escape(&inner, call(r, c, k, s));
  SITU_IGNORE(situ_scope_end(&inner));
  return y;
}

/* Runs all calls; the caller has a scope open. */
static bool run_calls(run *r) {
  program_model m;
  const program *p = r->p;
  program_model_begin(&m, p);
  r->failed_at = -1;
  for (int i = 0; i < p->leaves; i++) {
    r->value[i] = leaf_of(r->leaf[i], p->shape[i], p->layout[i]);
    if (r->mode == RECORDING) r->value[i] = situ_requires_grad_(r->value[i], true);
  }
  for (int k = 0; k < p->calls; k++) {
    const program_step s = program_model_look(&m, &p->call[k]);
    r->value[p->leaves + k] = call_in_scope(r, &p->call[k], k, &s);
    if (!r->value[p->leaves + k] || situ_error() != SITU_OK) {
      r->failed_at = k;
      return false;
    }
    program_model_run(&m, &p->call[k]);
  }
  for (int i = 0; r->mode == RECORDING && i < p->leaves; i++) {
    memset(r->grad[i], 0, sizeof r->grad[i]);
    if (situ_grad(r->value[i]) && !read(situ_grad(r->value[i]), r->grad[i])) return false;
  }
  return true;
}

static void set_leaves(run *r) {
  uint64_t state = r->p->seed ^ 0x5eed;
  for (int i = 0; i < PROGRAM_LEAVES; i++)
    for (int j = 0; j < PROGRAM_NUMEL; j++) r->leaf[i][j] = uniform(&state, -1, 1);
}

static bool run_once(run *r) {
  situ_scope s;
  if (r->mode == RECORDING) situ_scope_begin(&s);
  else situ_scope_begin_no_grad(&s);
  const bool good = run_calls(r);
  SITU_IGNORE(situ_scope_end(&s));
  return good;
}

/* ---- drawing ---- */

typedef struct drawing {
  program *p;
  program_model model;
  run run;
  uint64_t state;
} drawing;

static bool same_shape(situ_tensor *a, situ_tensor *b) {
  const situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  bool same = x.ndim == y.ndim;
  for (int d = 0; same && d < x.ndim; d++) same = x.dim[d] == y.dim[d];
  return same;
}

/* Late values more often than early ones; and often one that shares its base with the latest. */
static int draw_value(drawing *d) {
  const int n = d->model.values, a = draw(&d->state, n), b = draw(&d->state, n), family = d->model.value[n - 1].family;
  for (int tries = draw(&d->state, 2) * 4; tries > 0; tries--) {
    const int v = draw(&d->state, n);
    if (d->model.value[v].family == family) return v;
  }
  return a > b ? a : b;
}

static bool draw_call(drawing *d, program_call *c) {
  enum { TRIES = 8 };
  int kinds = 0;
  while (program_kinds[kinds].name) kinds++;
  *c = (program_call){ .kind = &program_kinds[draw(&d->state, kinds)],
                       .a = uniform(&d->state, -1.5, 1.5),
                       .no_grad = draw(&d->state, 12) == 0 };
  for (int i = 0; i < 4; i++) c->p[i] = draw(&d->state, 12);
  if (c->kind->effect >= PROGRAM_BACKWARD && draw(&d->state, 50)) c->p[0] = 1; /* the graph is retained */
  for (int i = 0; i < c->kind->operands; i++) {
    int tries = 0;
    do c->in[i] = c->kind->effect == PROGRAM_HOOK && d->model.fresh >= 0 ? d->model.fresh : draw_value(d);
    while (i && c->kind->flags & PROGRAM_ALIKE && !same_shape(d->run.value[c->in[i]], d->run.value[c->in[0]]) &&
           ++tries < TRIES);
    if (tries == TRIES) return false;
  }
  const program_step s = program_model_look(&d->model, c);
  return !s.forbidden && (!(s.risky || s.must_refuse) || draw(&d->state, 100) == 0);
}

/* Appends c, if it runs. */
static bool append(drawing *d, const program_call *c) {
  const int k = d->p->calls;
  const program_step s = program_model_look(&d->model, c);
  if (c->kind->effect == PROGRAM_GRAD) memset(d->run.note[k].result, 0, sizeof d->run.note[k].result);
  situ_tensor *y = call_in_scope(&d->run, c, k, &s);
  situ_error_clear();
  if (!y) return false;
  d->p->call[k] = *c;
  d->run.value[d->model.values] = y;
  program_model_run(&d->model, c);
  d->p->calls++;
  return true;
}

static void draw_calls(drawing *d) {
  const int want = 3 + draw(&d->state, PROGRAM_CALLS - 3);
  for (int tries = 0; d->p->calls < want && tries < 400; tries++) {
    program_call c;
    if (draw_call(d, &c)) (void)append(d, &c);
  }
  /* and a loss, of the latest value that can have one */
  const program_kind *kind = program_kinds;
  while (kind->effect != PROGRAM_BACKWARD) kind++;
  for (int v = d->model.values - 1; v >= 0; v--)
    if (program_requires_grad(&d->model, v) && append(d, &(program_call){ .kind = kind, .in = { v }, .p = { 1 } }))
      return;
}

static noted notes[PROGRAM_CALLS];

bool program_make(program *p, uint64_t seed) {
  drawing d = { .p = p, .run = { .p = p, .mode = PLAIN, .note = notes }, .state = seed };
  *p = (program){ .seed = seed };
  p->leaves = 1 + draw(&d.state, PROGRAM_LEAVES);
  for (int i = 0; i < p->leaves; i++)
    p->shape[i] = draw(&d.state, 3) ? SITU_SHAPE(1 + draw(&d.state, 3), 1 + draw(&d.state, 3))
                                    : SITU_SHAPE(1 + draw(&d.state, 4));
  if (p->leaves > 1 && draw(&d.state, 2)) p->shape[1] = p->shape[0];
  for (int i = 0; i < p->leaves; i++) p->layout[i] = (program_layout)draw(&d.state, PROGRAM_LAYOUTS);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  set_leaves(&d.run);
  program_model_begin(&d.model, p);
  for (int i = 0; i < p->leaves; i++) d.run.value[i] = leaf_of(d.run.leaf[i], p->shape[i], p->layout[i]);
  draw_calls(&d);
  SITU_IGNORE(situ_scope_end(&s));
  situ_error_clear();
  return !d.run.grows && d.model.losses;
}

/* ---- comparing ---- */

#define WHY(...) ((void)snprintf(why, 256, __VA_ARGS__), PROGRAM_WRONG)

static int64_t numel(situ_shape s) {
  int64_t n = 1;
  for (int d = 0; d < s.ndim; d++) n *= s.dim[d];
  return n;
}

/* A run with gradients, twice. */
static program_verdict record(const program *p, run *first, char *why) {
  static run second;
  run *const both[] = { first, &second };
  for (int i = 0; i < 2; i++) {
    *both[i] = (run){ .p = p, .mode = RECORDING, .note = notes };
    set_leaves(both[i]);
    if (run_once(both[i])) continue;
    if (both[i]->grows) return PROGRAM_SKIPPED;
    (void)snprintf(why, 256, "%s", situ_error_message());
    const bool silent = situ_error() == SITU_OK;
    situ_error_clear();
    if (silent) return WHY("call %d failed without an error", both[i]->failed_at);
    return PROGRAM_REFUSED;
  }
  if (memcmp(first->grad, second.grad, sizeof first->grad) || memcmp(first->asked, second.asked, sizeof first->asked))
    return WHY("two runs differ");
  return PROGRAM_RIGHT;
}

/* The first call that must be refused; -1: none. *may: one may be, or may make a backward refuse. */
static int first_refusal(const program *p, bool *may) {
  program_model m;
  program_model_begin(&m, p);
  *may = false;
  for (int k = 0; k < p->calls; k++) {
    const program_step s = program_model_look(&m, &p->call[k]);
    *may |= s.risky || s.must_refuse;
    if (s.must_refuse) return k;
    program_model_run(&m, &p->call[k]);
  }
  return -1;
}

/* dloss/dleaf along a direction, by call. PROGRAM_WRONG: a shifted run failed; PROGRAM_SKIPPED: it passes a kink. */
static program_verdict differences(const program *p, int leaf, const double *direction, double *slope) {
  const double h = 1e-5;
  run r = { .p = p, .mode = SHIFTED, .note = notes };
  memset(slope, 0, PROGRAM_CALLS * sizeof *slope);
  for (int sign = 1; sign >= -1; sign -= 2) {
    set_leaves(&r);
    for (int j = 0; j < PROGRAM_NUMEL; j++) r.leaf[leaf][j] += sign * h * direction[j];
    if (!run_once(&r)) return PROGRAM_WRONG;
    for (int k = 0; k < p->calls; k++) slope[k] += sign * r.loss[k] / (2 * h);
  }
  return r.grows ? PROGRAM_SKIPPED : PROGRAM_RIGHT;
}

typedef struct dot {
  double sum, size;
} dot;
static dot along(const double *grad, const double *direction, int64_t n) {
  dot d = { 0, 1 };
  for (int64_t j = 0; j < n; j++) {
    d.sum += grad[j] * direction[j];
    d.size += fabs(grad[j] * direction[j]);
  }
  return d;
}
/* Casts to f32 round gradients too. */
static bool agree(dot got, double want) { return fabs(got.sum - want) <= 2e-6 * (got.size + fabs(want)); }

static double leaf_factor(const program *p, int leaf) {
  double factor = 1;
  for (int k = 0; k < p->calls; k++)
    if (p->call[k].kind->effect == PROGRAM_HOOK && p->call[k].in[0] == leaf) factor *= .5 + fabs(p->call[k].a);
  return factor;
}

static program_verdict compare(const program *p, const run *got, char *why) {
  for (int leaf = 0; leaf < p->leaves; leaf++) {
    double direction[PROGRAM_NUMEL], slope[PROGRAM_CALLS], want = 0;
    uint64_t state = p->seed + (uint64_t)leaf;
    for (int j = 0; j < PROGRAM_NUMEL; j++) direction[j] = uniform(&state, .5, 1.5) * (draw(&state, 2) ? 1 : -1);
    const program_verdict shifted = differences(p, leaf, direction, slope);
    if (shifted == PROGRAM_SKIPPED) return shifted;
    if (shifted != PROGRAM_RIGHT) return WHY("a shifted run failed: %s", situ_error_message());
    const int64_t n = numel(p->shape[leaf]);
    const double factor = leaf_factor(p, leaf);
    for (int k = 0; k < p->calls; k++) {
      const program_call *c = &p->call[k];
      if (c->kind->effect == PROGRAM_BACKWARD) want += factor * slope[k];
      if (c->kind->effect != PROGRAM_GRAD || leaf_asked(p, c) != leaf) continue;
      const dot asked = along(got->asked[k], direction, n);
      if (!agree(asked, factor * slope[k]))
        return WHY("call %d, autograd_grad for t%d: along a direction %.9g, by differences %.9g", k, leaf, asked.sum,
                   factor * slope[k]);
    }
    const dot grad = along(got->grad[leaf], direction, n);
    if (!agree(grad, want))
      return WHY("t%d's .grad along a direction is %.9g, by differences %.9g", leaf, grad.sum, want);
  }
  return PROGRAM_RIGHT;
}

program_verdict program_check(const program *p, char *why) {
  static run recorded;
  *why = 0;
  const program_verdict v = record(p, &recorded, why);
  bool may;
  const int refusal = first_refusal(p, &may);
  if (v == PROGRAM_REFUSED && !may) return PROGRAM_WRONG;
  if (v != PROGRAM_RIGHT) return v;
  if (refusal >= 0) return WHY("call %d must be refused", refusal);
  run plain = {.p = p, .mode = PLAIN, .note = notes };
  set_leaves(&plain);
  for (int k = 0; k < p->calls; k++)
    if (p->call[k].kind->effect == PROGRAM_GRAD) memcpy(notes[k].result, recorded.asked[k], sizeof notes[k].result);
  if (!run_once(&plain)) return WHY("it is refused without recording only: %s", situ_error_message());
  if (plain.grows) return PROGRAM_SKIPPED;
  if (memcmp(plain.loss, recorded.loss, sizeof plain.loss)) return WHY("recording changes a loss");
  return compare(p, &recorded, why);
}

/* ---- second derivatives ---- */

/* The last loss, if it is the last call and no hook changes its gradients; else 0. */
static int last_loss(const program *p) {
  const int last = p->calls - 1;
  bool hooks = false;
  for (int k = 0; k < p->calls; k++) hooks |= p->call[k].kind->effect == PROGRAM_HOOK;
  return !hooks && p->call[last].kind->effect == PROGRAM_BACKWARD ? last : 0;
}

/* The loss with all leaves moved along r's directions, and one of them once more; NaN: the run failed, or passes a
   kink. */
static double loss_at(const run *r, double all, int leaf, double one) {
  run moved_to = { .p = r->p, .mode = SHIFTED, .note = notes };
  set_leaves(&moved_to);
  for (int i = 0; i < r->p->leaves; i++)
    for (int j = 0; j < PROGRAM_NUMEL; j++) moved_to.leaf[i][j] += (all + (i == leaf ? one : 0)) * r->direction[i][j];
  return run_once(&moved_to) && !moved_to.grows ? moved_to.loss[r->twice] : NAN;
}

/* The second derivative by one leaf and all along the directions, in steps of h; *noise: how far rounding may move it. */
static double second_difference(const run *r, int leaf, double h, double *noise) {
  const double far = loss_at(r, h, leaf, h), near = loss_at(r, h, leaf, -h), back = loss_at(r, -h, leaf, h),
               last = loss_at(r, -h, leaf, -h);
  *noise = 1e-15 * (fabs(far) + fabs(near) + fabs(back) + fabs(last)) / (h * h);
  return (far - near - back + last) / (4 * h * h);
}

program_verdict program_check_twice(const program *p, char *why) {
  static run r;
  const double h = 2e-4;
  const program_verdict first = program_check(p, why);
  r = (run){ .p = p, .mode = RECORDING, .note = notes, .twice = last_loss(p) };
  if (first != PROGRAM_RIGHT || !r.twice) return first == PROGRAM_WRONG ? first : PROGRAM_SKIPPED;
  uint64_t state = p->seed;
  for (int i = 0; i < PROGRAM_LEAVES; i++)
    for (int j = 0; j < PROGRAM_NUMEL; j++) r.direction[i][j] = uniform(&state, .5, 1.5) * (draw(&state, 2) ? 1 : -1);
  set_leaves(&r);
  if (!run_once(&r)) {
    (void)snprintf(why, 256, "%s", situ_error_message());
    const situ_status status = situ_error();
    situ_error_clear();
    return status == SITU_E_UNSUPPORTED ? PROGRAM_REFUSED : PROGRAM_WRONG;
  }
  for (int leaf = 0; leaf < p->leaves; leaf++) {
    double noise, less;
    const double fine = second_difference(&r, leaf, h, &noise), coarse = second_difference(&r, leaf, 2 * h, &less),
                 want = (4 * fine - coarse) / 3; /* whose error is of order h^4, not h^2 */
    const dot got = along(r.second[leaf], r.direction[leaf], numel(p->shape[leaf]));
    if (!isfinite(want)) return PROGRAM_SKIPPED;
    if (!(fabs(got.sum - want) <= 1e-4 * (got.size + fabs(want)) + noise))
      return WHY("second derivative by t%d along the directions is %.9g, by differences %.9g", leaf, got.sum, want);
  }
  return PROGRAM_RIGHT;
}

/* ---- smaller, and as text ---- */

/* p without call k: what used its value uses its first operand. */
static bool without(const program *p, int k, program *out) {
  const int value = p->leaves + k;
  *out = *p;
  out->calls--;
  memmove(&out->call[k], &out->call[k + 1], (size_t)(p->calls - k - 1) * sizeof *out->call);
  for (int i = k; i < out->calls; i++)
    for (int o = 0; o < out->call[i].kind->operands; o++) {
      int *in = &out->call[i].in[o];
      if (*in == value && !p->call[k].kind->operands) return false;
      *in = *in == value ? p->call[k].in[0] : *in - (*in > value);
    }
  return true;
}

void program_shrink(program *p, program_verdict (*check)(const program *p, char *why)) {
  char why[256];
  for (int k = p->calls - 1; k >= 0; k--) {
    program smaller;
    if (!without(p, k, &smaller)) continue;
    if (check(&smaller, why) == PROGRAM_WRONG && !strstr(why, "shifted run failed")) *p = smaller;
    situ_error_clear();
  }
}

void program_print(const program *given) {
  static char text[PROGRAM_CALLS][100];
  program p = *given;
  memset(text, 0, sizeof text);
  for (int k = 0; k < p.calls; k++) p.call[k].text = text[k];
  run r = {.p = &p, .mode = PLAIN, .note = notes };
  set_leaves(&r);
  (void)run_once(&r);
  situ_error_clear();
  for (int i = 0; i < p.leaves; i++) {
    char shape[64] = "";
    for (int d = 0; d < p.shape[i].ndim; d++)
      (void)snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", d ? ", " : "",
                     (int)p.shape[i].dim[d]);
    const char *const layout[PROGRAM_LAYOUTS] = { "", "narrowed ", "strided ", "transposed " };
    print_message("  situ_tensor *t%d = %sleaf(SITU_SHAPE(%s));  /*", i, layout[p.layout[i]], shape);
    for (int64_t j = 0; j < numel(p.shape[i]); j++) print_message(" %.4g", r.leaf[i][j]);
    print_message(" */\n");
  }
  for (int k = 0; k < p.calls; k++) {
    const program_call *c = &p.call[k];
    char operands[64] = "";
    for (int i = 0; i < c->kind->operands; i++)
      (void)snprintf(operands + strlen(operands), sizeof operands - strlen(operands), "%st%d", i ? ", " : "", c->in[i]);
    const char *more = c->kind->operands || !*text[k] ? text[k] : text[k] + 2;
    char own[64] = "";
    if (c->kind->effect == PROGRAM_BACKWARD) (void)snprintf(own, sizeof own, ", retain_graph %d", c->p[0] != 0);
    if (c->kind->effect == PROGRAM_GRAD)
      (void)snprintf(own, sizeof own, ", for t%d, retain_graph %d", leaf_asked(&p, c), c->p[0] != 0);
    if (c->kind->effect == PROGRAM_HOOK) (void)snprintf(own, sizeof own, ", times %g", .5 + fabs(c->a));
    print_message("  %st%d = %s(%s%s%s);%s\n", c->no_grad ? "no_grad: " : "", p.leaves + k, c->kind->name, operands,
                  more, own, "");
  }
}
