/* Golden values: LBFGS in f64, step by step, on the problems of tools/golden/lbfgs.py.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <situ/optim.h>
#include <string.h>

#include "support/golden/run.h"

enum { MOST_PARAMS = 4, MOST_STEPS = 60 };

typedef struct problem problem;
typedef situ_tensor *(*loss_function)(const problem *);
struct problem {
  loss_function loss;
  situ_tensor *param[MOST_PARAMS + 1], *x, *y;
  int count;
  situ_optim *o;
};

static situ_tensor *total(situ_tensor *x) { return situ_sum(x, NULL); }

static situ_tensor *rosenbrock(const problem *p) {
  situ_tensor *z = situ_cat((situ_tensor *[]){ p->param[0], p->param[1] }, 2, 0);
  situ_tensor *head = situ_narrow(z, 0, 0, 4), *tail = situ_narrow(z, 0, 1, 4);
  situ_tensor *valley = situ_square(situ_sub(tail, situ_square(head)));
  return total(situ_add(situ_mul_scalar(valley, 100), situ_square(situ_add_scalar(situ_neg(head), 1))));
}

static situ_tensor *bowl(const problem *p) { return total(situ_mul(p->y, situ_square(situ_sub(p->param[0], p->x)))); }

static situ_tensor *network(const problem *p) {
  situ_tensor *hidden = situ_tanh(situ_linear(p->x, p->param[0], p->param[1]));
  return situ_mean(situ_square(situ_sub(situ_linear(hidden, p->param[2], p->param[3]), p->y)), NULL);
}

static situ_tensor *regression(const problem *p) {
  situ_tensor *margin = situ_mul(situ_neg(p->y), situ_matmul(p->x, p->param[0]));
  situ_tensor *prior = situ_mul_scalar(total(situ_square(p->param[0])), 0.125);
  return situ_sub(situ_neg(total(situ_softplus(margin, 1, 20))), prior);
}

static situ_tensor *waves(const problem *p) {
  situ_tensor *a = p->param[0], *bend = situ_mul_scalar(situ_square(a), 0.125);
  situ_tensor *first = total(situ_add(situ_cos(situ_mul_scalar(a, 4)), bend));
  return situ_add(first, total(situ_mul(situ_sin(p->param[1]), total(a))));
}

static situ_tensor *kinks(const problem *p) {
  situ_tensor *square = situ_square(situ_sub(p->param[0], p->x));
  return total(situ_mul(p->y, situ_sqrt(situ_add_scalar(square, 0.01))));
}

static situ_tensor *barrier(const problem *p) {
  situ_tensor *a = p->param[0];
  return total(situ_sub(situ_square(a), situ_log(situ_add_scalar(a, 2))));
}

static void choose(problem *p, const char *name) {
  static const struct {
    const char *name;
    loss_function loss;
  } list[] = { { "rosenbrock", rosenbrock }, { "bowl", bowl },   { "network", network }, { "regression", regression },
               { "waves", waves },           { "kinks", kinks }, { "barrier", barrier } };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (strcmp(list[i].name, name) == 0) p->loss = list[i].loss;
}

static situ_tensor *closure(void *payload) {
  const problem *p = payload;
  if (situ_optim_zero_grad(p->o, true) != SITU_OK) return NULL;
  situ_tensor *loss = p->loss(p);
  return situ_backward(loss, NULL) == SITU_OK ? loss : NULL;
}

static situ_optim_options options(const gold_call *c) {
  situ_optim_options o = situ_optim_lbfgs_defaults();
  o.max_iter = (double)gold_int(c, "max_iter", 20);
  o.max_eval = gold_real(c, "max_eval", SITU_NONE);
  o.history_size = (double)gold_int(c, "history_size", 100);
  o.tolerance_grad = gold_real(c, "tolerance_grad", o.tolerance_grad);
  o.tolerance_change = gold_real(c, "tolerance_change", o.tolerance_change);
  o.maximize = gold_bool(c, "maximize", false);
  o.line_search_fn = gold_has(c, "line_search_fn") ? SITU_LINE_SEARCH_STRONG_WOLFE : SITU_LINE_SEARCH_NONE;
  return o;
}

static void lbfgs(gold_call *c) {
  problem p = { .x = gold_in(c, "x"), .y = gold_in(c, "y") };
  choose(&p, gold_word(c, "problem", ""));
  situ_tensor *history[MOST_PARAMS][MOST_STEPS];
  double losses[MOST_STEPS];
  const int steps = (int)gold_int(c, "steps", 0);
  const situ_optim_options o = options(c);
  p.count = gold_tensors(c, "param", p.param);
  for (int i = 0; i < p.count; i++) p.param[i] = situ_requires_grad_(situ_clone(p.param[i]), true);
  p.o = situ_optim_lbfgs(situ_tree_of(p.count, p.param), gold_real(c, "lr", 1), &o);
  bool good = p.o && p.loss;
  for (int step = 0; step < steps && good; step++) {
    good = situ_optim_step_closure(p.o, closure, &p, &losses[step]) == SITU_OK;
    for (int i = 0; i < p.count; i++) history[i][step] = situ_clone(situ_detach(p.param[i]));
  }
  for (int i = 0; i < p.count && good; i++) c->out[i] = situ_stack(history[i], steps, 0);
  const situ_options f64 = { .dtype = SITU_F64, .device = c->device };
  if (good) c->out[p.count] = situ_from_host(losses, (size_t)steps * sizeof *losses, SITU_SHAPE(steps), &f64);
  situ_optim_free(p.o);
}

static const gold_op ops[] = { { "optim.lbfgs", .run = lbfgs }, { 0 } };

int main(void) { return gold_main("lbfgs", ops, NULL); }
