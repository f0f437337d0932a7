/* A step of LBFGS: quasi-Newton iterations with a limited memory (Nocedal and Wright, Numerical Optimization, 2nd
   edition, section 7.2), with torch's rules for the first step, for curvature pairs and for stopping, so that both
   visit the same parameters.
   SPDX-License-Identifier: MIT */
#include "optim/lbfgs.h"

#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/optim.h"
#include "situ/ops.h"
#include "situ/sys/explain.h"
#include "situ/sys/tensor.h"

static const char OP[] = "optim_step_closure";

typedef struct run {
  const situ_optim *o;
  const double *value;
  situ_optim_closure closure;
  void *payload;
  situ__lbfgs *h; /* the state after the step */
  situ_tensor *x; /* the parameters where the direction begins, flat */
  situ__probe at; /* the loss and the gradient where the parameters are now */
  int64_t evals;  /* of the closure in this step */
} run;

static bool read_number(situ_tensor *t, double *out) { return situ_item(t, out) == SITU_OK; }
/* A cast of the module casts the state too, to what may be another dtype than that of new vectors. */
static bool read_dot(situ_tensor *a, situ_tensor *b, double *out) {
  return read_number(situ_dot(a, situ_to_dtype(b, situ_dtype_of(a))), out);
}
/* The largest |element|. */
static bool read_largest(situ_tensor *t, double *out) { return read_number(situ_norm(t, (double)INFINITY, NULL), out); }

static bool sets(const run *r, situ_optim_field f) { return r->value[f] != 0; }

/* ---- flat tensors ---- */

static situ_tensor *flat(situ_tensor *t) { return situ_reshape(t, SITU_SHAPE(situ_numel(t))); }

/* Stores the parameters, or their gradients, as one flat copy, 16 bits as f32: squares of gradients overflow f16. A
   parameter without a gradient has zeros. */
static bool gather(const run *r, bool grads, situ_tensor **slot) {
  const int64_t count = r->o->count;
  situ_tensor **part = situ__alloc((size_t)count * sizeof(situ_tensor *));
  if (!part) return situ__no_memory(OP, (size_t)count * sizeof *part), false;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int64_t i = 0; i < count; i++) {
    situ_tensor *p = r->o->items[i].param, *t = grads ? situ_grad(p) : p;
    part[i] = situ_to_dtype(flat(t ? t : situ_zeros_like(p, NULL)), situ__lbfgs_dtype(p));
  }
  situ_tensor *all = situ_cat(part, (int)count, 0);
  if (grads && all && sets(r, SITU_OPTIM_MAXIMIZE)) all = situ_neg(all);
  const bool good = situ_set(slot, all);
  situ__free(part);
  return situ_scope_end(&s) == SITU_OK && good;
}

/* Sets the parameters to x + t d. */
static bool move_to(const run *r, double t) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *all = situ_add_alpha(r->x, r->h->d, t);
  int64_t offset = 0;
  for (int64_t i = 0; i < r->o->count && all; i++) {
    situ_tensor *p = r->o->items[i].param;
    situ_tensor *part = situ_narrow(all, 0, offset, situ_numel(p));
    if (!situ_copy_(p, situ_reshape(part, situ_shape_of(p)))) break;
    offset += situ_numel(p);
  }
  return situ_scope_end(&s) == SITU_OK && all;
}

/* ---- the loss ---- */

static bool evaluate(run *r, situ__probe *at) {
  if (!situ__optim_evaluate(r->closure, r->payload, &at->loss)) return false;
  if (sets(r, SITU_OPTIM_MAXIMIZE)) at->loss = -at->loss;
  r->evals++;
  r->h->func_evals++;
  return gather(r, true, &at->grad);
}

static bool evaluate_at(void *payload, double t, situ__probe *at) {
  run *r = payload;
  at->t = t;
  return move_to(r, t) && evaluate(r, at) && read_dot(at->grad, r->h->d, &at->slope);
}

/* ---- the direction ---- */

/* Takes the last move and the change of the gradient along it into the history, if the curvature is positive. */
static bool remember(const run *r) {
  situ__lbfgs *h = r->h;
  situ_tensor *y = situ_sub(r->at.grad, h->prev_flat_grad), *s = situ_mul_scalar(h->d, h->t);
  double ys, yy;
  if (!read_dot(y, s, &ys)) return false;
  if (!(ys > 1e-10)) return true;
  if (!read_dot(y, y, &yy) || !situ__lbfgs_append(h, y, s, 1 / ys)) return false;
  situ__lbfgs_trim(h, (int64_t)r->value[SITU_OPTIM_HISTORY_SIZE]);
  h->h_diag = ys / yy;
  return true;
}

/* Minus the inverse Hessian, as the history has it, times the gradient: algorithm 7.4. */
static situ_tensor *two_loops(const run *r) {
  const situ__lbfgs *h = r->h;
  double *al = situ__alloc((size_t)(h->count + 1) * sizeof *al), be;
  if (!al) return situ__no_memory(OP, (size_t)h->count * sizeof *al), NULL;
  situ_tensor *q = situ_neg(r->at.grad);
  for (int64_t i = h->count - 1; i >= 0 && q; i--) {
    const bool good = read_dot(h->old_stps[i], q, &al[i]);
    al[i] *= h->ro[i];
    q = good ? situ_add_alpha_(q, h->old_dirs[i], -al[i]) : NULL;
  }
  q = situ_mul_scalar_(q, h->h_diag);
  for (int64_t i = 0; i < h->count && q; i++)
    q = read_dot(h->old_dirs[i], q, &be) ? situ_add_alpha_(q, h->old_stps[i], al[i] - be * h->ro[i]) : NULL;
  situ__free(al);
  return q;
}

static bool choose_direction(const run *r) {
  situ__lbfgs *h = r->h;
  if (++h->n_iter > 1 && h->prev_flat_grad) return remember(r) && situ_set(&h->d, two_loops(r));
  situ__lbfgs_trim(h, 0);
  h->h_diag = 1;
  return situ_set(&h->d, situ_neg(r->at.grad));
}

/* ---- a step ---- */

/* The length that is tried first. */
static bool choose_length(const run *r) {
  const double lr = r->value[SITU_OPTIM_LR];
  double sum;
  r->h->t = lr;
  if (r->h->n_iter > 1) return true;
  if (!read_number(situ_norm(r->at.grad, 1, NULL), &sum)) return false;
  r->h->t = (1 / sum < 1 ? 1 / sum : 1) * lr;
  return true;
}

static bool search_line(run *r, double longest) {
  situ__line line = { .evaluate = evaluate_at,
                      .payload = r,
                      .start = r->at,
                      .longest = longest,
                      .tolerance = 1e-9,
                      .most = (int64_t)r->value[SITU_OPTIM_MAX_EVAL] - r->evals };
  line.start.t = 0;
  if (!situ__strong_wolfe(&line, r->h->t, &r->at)) return false;
  r->h->t = r->at.t;
  return move_to(r, r->h->t);
}

/* Sets *done if the parameters are not to move further. */
static bool iterate(run *r, bool last, bool *done) {
  situ__lbfgs *h = r->h;
  const double tolerance = r->value[SITU_OPTIM_TOLERANCE_CHANGE];
  double longest, steepest;
  *done = true;
  if (!choose_direction(r) || !situ_set(&h->prev_flat_grad, r->at.grad) || !choose_length(r)) return false;
  h->prev_loss = r->at.loss;
  if (!read_dot(r->at.grad, h->d, &r->at.slope)) return false;
  if (r->at.slope > -tolerance) return true;
  if (!gather(r, false, &r->x) || !read_largest(h->d, &longest)) return false;
  if (sets(r, SITU_OPTIM_LINE_SEARCH_FN) ? !search_line(r, longest) : !move_to(r, h->t)) return false;
  if (last) return true;
  if (!sets(r, SITU_OPTIM_LINE_SEARCH_FN) && !evaluate(r, &r->at)) return false;
  if (!read_largest(r->at.grad, &steepest)) return false;
  *done = r->evals >= (int64_t)r->value[SITU_OPTIM_MAX_EVAL] || steepest <= r->value[SITU_OPTIM_TOLERANCE_GRAD] ||
          fabs(h->t) * longest <= tolerance || fabs(r->at.loss - h->prev_loss) < tolerance;
  return true;
}

static bool take_step(run *r, double *loss) {
  double steepest;
  if (!evaluate(r, &r->at)) return false;
  if (loss) *loss = sets(r, SITU_OPTIM_MAXIMIZE) ? -r->at.loss : r->at.loss;
  if (!situ_numel(r->at.grad)) return true;
  if (!read_largest(r->at.grad, &steepest)) return false;
  bool done = steepest <= r->value[SITU_OPTIM_TOLERANCE_GRAD], good = true;
  const int64_t most = (int64_t)r->value[SITU_OPTIM_MAX_ITER];
  for (int64_t n = 1; n <= most && !done && good; n++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    good = iterate(r, n == most, &done);
    good = situ_scope_end(&s) == SITU_OK && good;
  }
  return good;
}

/* ---- all or nothing ---- */

static bool refuse_param(const situ_optim *o, int64_t i, situ_status status, const char *what, const char *fix) {
  const situ_blamed list[] = {
    { .operand = "param", .tensor = o->items[0].param, .name = o->names[0] },
    { .operand = "param", .tensor = o->items[i].param, .name = o->names[i], .odd = true },
  };
  return situ_fail_blamed(status, OP, list, 2, fix,
                          "%s is %s than %s: LBFGS computes with all parameters as one vector", o->names[i], what,
                          o->names[0]) == SITU_OK;
}

/* All parameters make one vector, so they have one dtype and one device. */
static bool can_step(situ_optim *o) {
  const situ_tensor *first = o->items[0].param;
  const situ_device here = situ_device_of(first);
  for (int64_t i = 0; i < o->count; i++) {
    const situ_tensor *p = o->items[i].param;
    const situ_device d = situ_device_of(p);
    if (!situ__optim_is_in_use(o, i)) return false;
    if (d.kind != here.kind || d.index != here.index)
      return refuse_param(o, i, SITU_E_DEVICE, "on another device", "move the module with situ_nn_to");
    if (situ_dtype_of(p) != situ_dtype_of(first))
      return refuse_param(o, i, SITU_E_DTYPE, "of another dtype", "cast the module with situ_nn_to_dtype");
  }
  return true;
}

static void free_saved(situ_tensor **saved, int64_t count) {
  for (int64_t i = 0; saved && i < count; i++) situ_release(saved[i]);
  situ__free(saved);
}

/* Copies of the parameters, which move with them if the closure moves them. */
static situ_tensor **save_params(const situ_optim *o) {
  situ_tensor **saved = situ__calloc((size_t)o->count, sizeof *saved);
  bool good = saved != NULL;
  if (!saved) situ__no_memory(OP, (size_t)o->count * sizeof *saved);
  for (int64_t i = 0; i < o->count && good; i++) {
    saved[i] = situ_retain(situ_clone(situ_detach(o->items[i].param)));
    good = saved[i] && situ_follow(saved[i], o->items[i].param) == SITU_OK;
  }
  if (good) return saved;
  free_saved(saved, o->count);
  return NULL;
}

situ_status situ__lbfgs_step(situ_optim *o, situ_optim_closure closure, void *payload, double *loss) {
  if (!can_step(o)) return situ_error();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  run r = { .o = o, .value = o->groups[0].value, .closure = closure, .payload = payload };
  situ_tensor **saved = save_params(o);
  bool good = saved && (r.h = situ__lbfgs_copy(o->lbfgs)) && take_step(&r, loss) && situ__lbfgs_attach(o, r.h);
  for (int64_t i = 0; i < o->count && saved && !good; i++)
    if (!situ_copy_(o->items[i].param, saved[i])) break;
  if (good) {
    situ__lbfgs *old = o->lbfgs;
    o->lbfgs = r.h;
    r.h = old;
  }
  free_saved(saved, o->count);
  situ__lbfgs_free(r.h);
  situ_drop(&r.x);
  situ_drop(&r.at.grad);
  const situ_status status = situ_scope_end(&s);
  return good ? status : situ_error();
}
